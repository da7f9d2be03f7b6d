"""Many plans against a service that fails every third request in one of all ways: whatever it does,
`ts` ends with an exit code that users know, and nothing that a step did is done twice."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import pytest

from tests.crash.kit import done, reply, shell
from tests.e2e.ts import Ts
from tests.servers import (
    Answer,
    AnthropicServer,
    Ask,
    Drip,
    OpenAIServer,
    Plain,
    Scripted,
    Server,
    failing,
)

PLANS = 100  # of the campaign
SEED = 11  # of the one plan of every day
SHARE = 0.3  # of the requests fail
STEPS = {"look": [], "left": ["look"], "right": ["look"], "other": [], "join": ["left", "right"]}
KNOWN = {0, 1, 75}  # done, a step failed, the service failed
PATIENCE = 8  # times that a run is gone on with
STREAM = {"content-type": "text/event-stream"}


def faults(good: Answer, limit: str) -> Iterator[Scripted]:
    """All that can come instead of a good answer."""
    yield from (failing(429), failing(429, retry_after="0.05"), failing(429, retry_after="3600"))
    yield from (failing(500), failing(529, "overloaded_error"), failing(503, retry_after="inf"))
    yield from (Plain(502, b"<html>bad gateway", {"content-type": "text/html"}), Plain(200, b""))
    yield from (Plain(200, b"", end="reset"), Plain(200, b"data: {broken}\n\n", STREAM))
    yield from (replace(good, cut=200, end=end) for end in ("reset", "close", "eof"))
    yield from (replace(good, cut=-60, end="reset"), replace(good, stop=None, done=False))
    yield from (replace(good, stop=limit), Answer(), Answer(thinking="hm"))
    yield from (Answer("One", error=("overloaded_error", "Overloaded")), Drip(), Plain(302))
    yield replace(good, calls=(("x", "no_such_tool", "{}"), *good.calls))
    yield replace(good, calls=tuple((id, name, raw[:-3]) for id, name, raw in good.calls))


@dataclass
class Moody:
    """What a model says, if the service lets it: each step notes once that it was done."""

    chance: random.Random
    limit: str
    met: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    def __call__(self, ask: Ask) -> Scripted:
        messages = json.dumps(ask.json["messages"])
        good = self.good(ask, messages)
        with self.lock:
            if self.chance.random() > SHARE:
                return good
            fault = self.chance.choice([*faults(good, self.limit)])
            self.met[type(fault).__name__] += 1
            return fault

    def good(self, ask: Ask, messages: str) -> Answer:
        key = f"k{len(messages)}"
        if "The step that failed" in messages:
            return reply(("revise_plan", {"action": "abort", "because": "it failed"}), key=key)
        step = next(id for id in STEPS if f'<step id=\\"{id}\\">' in messages)
        noted = f"echo {step} >> noted"
        before, _, after = messages.partition("</step>")
        told = next((line for line in before.split("\\n") if noted in line), "")  # of a cut attempt
        if "[exit code 0]" in after or (told and "half done" not in told):
            return reply(done(f"{step} is done"), key=key)
        return reply(shell(f"grep -qx {step} noted || {noted}" if told else noted), key=key)


def plan() -> str:
    steps: list[dict[str, Any]] = [
        {"id": id, "do": f"do {id}", "needs": needs, "writes": [f"{id}/**"], "attempts": 1}
        for id, needs in STEPS.items()
    ]
    return json.dumps({"goal": "note all", "steps": steps})


def soak(ts: Ts, kind: type[Server], seed: int) -> tuple[list[int], Counter[str]]:
    """Carry out one plan, going on with it while the service fails; the exit codes on the way."""
    limit = "max_tokens" if kind is AnthropicServer else "length"
    model = Moody(random.Random(seed), limit)
    ts.write("plan.yaml", plan())
    (ts.cwd / "noted").unlink(missing_ok=True)
    codes, steps = list[int](), dict[str, str]()
    with kind(model) as server:
        ts.asks(server)
        words = ("run", "plan.yaml")
        while not codes or (codes[-1] == 75 and len(codes) < PATIENCE):
            ran = ts.here(*words, "-y", "--stream-idle", "0.5", "--output-format", "json")
            words = ("resume", str(ran.json["run_id"]))
            codes.append(ran.code)
            assert ran.code in KNOWN, (seed, ran)
            assert "Traceback" not in ran.err, (seed, ran)
            assert "a fault of ts" not in json.dumps(ran.json), (seed, ran)
            steps = {id: step["status"] for id, step in ran.json["steps"].items()}
    assert server.refused == [], seed
    noted = Counter(
        (ts.cwd / "noted").read_text(encoding="utf-8").split()
        if (ts.cwd / "noted").exists()
        else ()
    )
    assert set(noted.values()) <= {1}, (seed, noted)
    assert {id for id, status in steps.items() if status == "done"} <= noted.keys(), (seed, noted)
    assert (codes[-1] == 0) == ({*steps.values()} == {"done"}), (seed, steps)
    return codes, model.met


@pytest.mark.parametrize("kind", [AnthropicServer, OpenAIServer], ids=["anthropic", "openai"])
def test_r90_plans_survive_a_service_that_fails(ts: Ts, kind: type[Server]) -> None:
    codes, met = soak(ts, kind, SEED)
    assert codes
    assert met.total() >= 3


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [AnthropicServer, OpenAIServer], ids=["anthropic", "openai"])
def test_r90_many_plans_survive_a_service_that_fails(ts: Ts, kind: type[Server]) -> None:
    ends, met, resumed = Counter[int](), Counter[str](), 0
    for seed in range(PLANS // 2):
        codes, faults = soak(ts, kind, seed)
        ends[codes[-1]] += 1
        met += faults
        resumed += len(codes) - 1
    print(f"\n{kind.__name__}: {PLANS // 2} plans, {met.total()} faults ({dict(met)})")
    print(f"exits {dict(ends)}, {resumed} times resumed, no traceback, nothing done twice")
    assert ends[0], "some end well"

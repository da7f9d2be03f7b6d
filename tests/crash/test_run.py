"""A run that is killed at any moment and gone on with ends as one that was not killed, and nothing
that was finished is done again."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from agent.event import Event, ModelCalled, RunFinished, StepFinished, StepStarted
from agent.message import Usage
from agent.state import State
from agent.store import log
from tests.crash.kit import (
    RESUME,
    RUN,
    Bench,
    Outcome,
    When,
    after,
    after_line,
    answer,
    at_sync,
    newest,
)
from tests.e2e.ts import Ran, Ts
from tests.servers import AnthropicServer, OpenAIServer, Server

ANSWER = "left\ngood\nmended\nblue\nred\nof left\nred\nblue\n2"
MOMENTS = 200  # at random, of the campaign
LONGEST = 2.0  # seconds in which such a run has mostly ended


class Ideal:
    """What comes of the plan where nobody is killed."""

    def __init__(self, bench: Bench) -> None:
        ran = bench.ts(*RUN)
        assert (ran.code, ran.json["result"]) == (0, ANSWER), ran
        self.outcome: Outcome = bench.outcome()
        self.said = {said.what for said in bench.said}
        self.standing = {id: step["status"] for id, step in ran.json["steps"].items()}
        path = newest(bench.ts)
        assert path
        record = log.recorded(path)
        self.lines = record.seq
        self.boundaries = sum(isinstance(event, log.BOUNDARIES) for event in record.events)


@contextmanager
def bench(ts: Ts, kind: type[Server], name: str) -> Iterator[Bench]:
    """A directory and a home of its own, and a server for it."""
    root = ts.home.parent / name
    home, cwd = root / "home", root / "project"
    home.mkdir(parents=True)
    cwd.mkdir()
    with kind(answer) as server:
        made = Bench(Ts(home=home, cwd=cwd, patch=ts.patch), server)
        made.lay()
        yield made
        shutil.rmtree(root)


@pytest.fixture
def ideal(ts: Ts) -> Ideal:
    with bench(ts, OpenAIServer, "ideal") as made:
        return Ideal(made)


def survives(made: Bench, ideal: Ideal, kills: Sequence[When]) -> str:
    """Kill it at these moments, the first time as it runs and then as it goes on; let it end, and
    hold it against one that was not killed. Returns where it was hit; "" for nowhere."""
    hits = list[str]()
    for when in kills:
        if death := made.kill(*(RESUME if made.begun else RUN), when=when):
            hits.append(death.last)
            assert not made.orphans(), "a command outlived the death of `ts`"
    ran = made.ts(*(RESUME if made.begun else RUN))
    if ran.code == 2 and ran.json["error"]["message"].startswith("there is no unfinished run"):
        return " + ".join([*hits, "it had ended"])
    judge(made, ideal, ran)
    return " + ".join(hits)


def judge(made: Bench, ideal: Ideal, ran: Ran) -> None:
    assert (ran.code, ran.json["result"], ran.json["status"]) == (0, ANSWER, "done"), ran
    assert {id: step["status"] for id, step in ran.json["steps"].items()} == ideal.standing
    assert made.outcome() == ideal.outcome
    asked, commands = made.said, made.ran()
    assert {said.what for said in asked} == ideal.said
    path = newest(made.ts)
    assert path
    events = told(path)
    for death in made.deaths:
        assert not [said for said in asked[death.requests :] if death.settles(said)]
        assert not death.done & {*commands[len(death.ran) :]}, "a finished command ran again"
        if death.run == path.stem:
            seqs = [event["seq"] for event in death.log]
            assert [event.seq for event in events[: len(seqs)]] == seqs, "what was kept is kept"


def told(path: Path) -> Sequence[Event]:
    """The events of a run that has ended, which tell what all must."""
    record = log.recorded(path)
    assert (record.faults, record.torn) == ((), False)
    assert [event.seq for event in record.events] == [*range(1, record.seq + 1)]
    done, spent = set[str](), Usage()
    for event in record.events:
        match event:
            case StepStarted(step=str() as step):
                assert step not in done, f"{step} was done and was begun again"
            case StepFinished(step=str() as step, status="done"):
                done.add(step)
            case ModelCalled(usage=usage):
                spent += usage
            case _:
                pass
    last = record.events[-1]
    assert isinstance(last, RunFinished)
    assert last.usage == spent
    assert State.of(record.events).over
    return record.events


@pytest.mark.timeout(120)
def test_a_run_that_is_killed_and_gone_on_with_ends_as_one_that_was_not(
    ts: Ts, ideal: Ideal
) -> None:
    kinds = cycle((AnthropicServer, OpenAIServer))
    for share in (0.0, 0.1, 0.3, 0.45, 0.6, 0.75, 0.97):
        line = round(share * ideal.lines)
        kills = [after_line(line), after_line(line + 8)] if share == 0.3 else [after_line(line)]
        with bench(ts, next(kinds), f"line-{line}") as made:
            survives(made, ideal, kills)


def test_a_run_that_was_cut_off_before_its_plan_was_kept_is_nothing_to_go_on_with(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: touch made}]")
    assert ts.here("run", "plan.yaml").code == 0
    (path,) = (ts.cwd / ".agent/runs").glob("*.jsonl")
    whole = path.read_bytes().splitlines(keepends=True)
    (ts.cwd / "made").unlink()
    for cut in (b"", whole[0], whole[0] + whole[1][:-9], b"".join([whole[0], *whole[2:-1]])):
        path.write_bytes(cut)
        ran = ts.here("resume", path.stem)
        assert (ran.code, "no plan" in ran.err) == (2, True), ran
        assert ts.here("resume").code == 2
        assert ts.here("show").code == 0
    assert not (ts.cwd / "made").exists()
    path.with_name("20000101-000000-0000.jsonl").write_bytes(b"".join(whole[:2]))
    path.write_bytes(whole[0])
    assert ts.here("resume").code == 0, "an older run that can be gone on with is"
    assert (ts.cwd / "made").exists()


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
def test_a_run_may_be_killed_at_every_event_and_at_any_moment(ts: Ts, ideal: Ideal) -> None:
    chance = random.Random(7)
    plans: list[tuple[str, list[When]]] = []
    if shutil.which("strace"):
        plans += [("boundary", [at_sync(n)]) for n in range(1, ideal.boundaries + 1)]
        plans += [("two boundaries", [at_sync(n), at_sync(3)]) for n in range(2, 40, 3)]
    plans += [("event", [after_line(n)]) for n in range(ideal.lines)]
    plans += [("two events", [after_line(n), after_line(n + 7)]) for n in range(3, 80, 6)]
    for number in range(MOMENTS):
        moments = [after(chance.uniform(0.2, LONGEST)) for _ in range(1 + (number % 5 == 0))]
        plans.append(("moment", moments))
    kinds = cycle((AnthropicServer, OpenAIServer))
    hits, faults = Counter[str](), list[str]()
    for number, (name, kills) in enumerate(plans):
        try:
            with bench(ts, next(kinds), f"{number}") as made:
                hit = survives(made, ideal, kills)
        except AssertionError as error:
            faults.append(f"{number} {name}: {error}")
            print(faults[-1], flush=True)
        else:
            hits[f"{name}: {hit or 'too late'}"] += 1
    print(f"\n{len(plans)} deaths, {len(faults)} faults")
    for what, count in sorted(hits.items()):
        print(f"{count:5} {what}")
    assert not faults

"""A signal in any phase of a step: the run ends as interrupted, soon and with nothing left behind,
and going on with it repeats nothing."""

import json
import signal
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Any

import pytest

from tests.crash.kit import Said, begun, done, orphans, reply, shell, writing
from tests.e2e.ts import Ts
from tests.servers import Answer, Ask, OpenAIServer, Scripted, failing

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SLOW = "if test -e slow; then echo > began; sleep 60; fi"
PLAN = f"""\
goal: phases
steps:
  - {{id: first, run: 'echo first >> "$HOME/ran"', writes: []}}
  - id: command
    needs: [first]
    run: '{SLOW.replace("slow", "slow-command")}; echo command >> "$HOME/ran"'
    writes: []
  - id: work
    needs: [command]
    do: Work.
    attempts: 1
    verify: '{SLOW.replace("slow", "slow-verify")}; test -s made'
    writes: [made]
  - {{id: last, needs: [work], run: 'echo last >> "$HOME/ran"; cat made', writes: []}}
"""
PHASES = ("command", "request", "answer", "tool", "verify", "revision", "retry")
SOON = 3.0  # seconds, on a machine that has other work too


class Model:
    """Holds back what a phase is about, until it is let go."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def __call__(self, ask: Ask) -> Scripted:
        said = Said.of(ask)
        if said.step == "revise work":
            if self.phase == "revision":
                return Answer(text="late", late=60)
            again = {"action": "retry", "do": "Work well.", "because": "it can be done"}
            return reply(("revise_plan", again), key="r")
        match self.phase:
            case "request":
                return Answer(text="late", late=60)
            case "answer":
                return Answer(text="a long answer " * 20, cut=2500, end="hang")
            case "retry":
                return failing(529, "overloaded_error", "busy", retry_after="30")
            case "tool" if not said.turn:
                return reply(shell("echo > began; sleep 60"), key="t")
            case "revision":
                failed = {"status": "failed", "summary": "I could not"}
                return reply(("report", failed), key="f")
        return reply(
            *[[writing("made", "made\n")], [done("made it")]][said.turn], key=f"w{said.turn}"
        )


def reached(ts: Ts, phase: str, server: OpenAIServer) -> Callable[[], bool]:
    """Whether the run is in the phase."""
    match phase:
        case "command" | "tool" | "verify":
            return lambda: (ts.cwd / "began").exists()
        case "revision":
            return lambda: any("revise" in Said.of(ask).step for ask in [*server.requests])
        case _:
            return lambda: bool(server.requests)


def interrupted(ts: Ts, phase: str, number: signal.Signals) -> None:
    ts.write("plan.yaml", PLAN)
    ts.write(f"slow-{phase}", "it is")
    model = Model(phase)
    words = ("run", "plan.yaml", "-y", "--output-format=stream-json", "--include-partial-messages")
    with OpenAIServer(model) as server:
        ts.asks(server)
        ready = reached(ts, phase, server)
        with (ts.cwd / "out").open("wb") as out, begun(ts, words, out=out) as process:
            until = monotonic() + ts.patience
            while not ready():
                assert monotonic() < until, "that phase never came"
                Event().wait(0.01)
            if phase in {"answer", "retry"}:
                Event().wait(0.3)  # until what was said is there, and it waits
            process.send_signal(number)
            at = monotonic()
            assert process.wait(ts.patience) == CODES[number]
            assert monotonic() - at < SOON
        assert not orphans(ts, 0.2)
        told = json.loads((ts.cwd / "out").read_bytes().splitlines()[-1])
        assert (told["status"], told["subtype"]) == ("interrupted", "error_interrupted")
        events = ts.log()
        assert (events[-1]["type"], events[-1]["status"]) == ("run.finished", "interrupted")
        open = {"command": {"command"}, "revision": set[str]()}.get(phase, {"work"})
        assert cancelled(events) == open
        (ts.cwd / f"slow-{phase}").unlink()
        server.over.set()
    model.phase = ""
    goes_on(ts, model, events, phase)


def cancelled(events: list[dict[str, Any]]) -> set[str]:
    ends = [event for event in events if event["type"] == "step.finished"]
    return {event["step"] for event in ends if event["status"] == "cancelled"}


def goes_on(ts: Ts, model: Model, events: list[dict[str, Any]], phase: str) -> None:
    with OpenAIServer(model) as server:
        ts.asks(server)
        ran = ts.here("resume", "-y", "--output-format", "json")
        assert (ran.code, ran.json["result"]) == (0, "made"), ran
        asked = [Said.of(ask).step for ask in server.requests]
    assert (ts.home / "ran").read_text(encoding="utf-8").split() == ["first", "command", "last"]
    assert ts.log()[: len(events)] == events
    revised = ["revise work"] if phase == "revision" else []
    assert asked == [*revised, "work", "work"]


@pytest.mark.parametrize(
    ("phase", "number"), [*zip(["answer", "verify", "revision"], CODES, strict=True)], ids=str
)
def test_a_signal_in_any_phase_ends_a_run_that_can_be_gone_on_with(
    ts: Ts, phase: str, number: signal.Signals
) -> None:
    interrupted(ts, phase, number)


@pytest.mark.campaign
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", CODES, ids=str)
def test_every_signal_in_every_phase(ts: Ts, phase: str, number: signal.Signals) -> None:
    interrupted(ts, phase, number)

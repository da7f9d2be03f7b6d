"""A run that is killed at any moment and gone on with ends as one that was not killed, and nothing
that was finished is done again."""

import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from time import monotonic

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
    orphans,
)
from tests.e2e.ts import Ran, Ts
from tests.servers import AnthropicServer, OpenAIServer, Server

ANSWER = "left\ngood\nmended\nblue\nred\nof left\nred\nblue\n2"
MOMENTS = 200  # at random, of the campaign


class Ideal:
    """What comes of the plan where nobody is killed."""

    def __init__(self, bench: Bench) -> None:
        began = monotonic()
        ran = bench.ts(*RUN)
        self.seconds = monotonic() - began
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
        made = Bench(Ts(home=home, cwd=cwd, patch=ts.patch, patience=ts.patience), server)
        made.lay()
        yield made
        shutil.rmtree(root)


@pytest.fixture
def ideal(ts: Ts) -> Ideal:
    with bench(ts, OpenAIServer, "ideal") as made:
        return Ideal(made)


def survives(made: Bench, ideal: Ideal, kills: Sequence[When], last: Callable[..., Ran]) -> str:
    """Kill it at these moments, the first time as it runs and then as it goes on; let the `last`
    one end, and hold it against one that was not killed. Returns where it was hit; "" for
    nowhere."""
    hits = list[str]()
    for when in kills:
        if death := made.kill(*(RESUME if made.begun else RUN), when=when):
            hits.append(death.last)
            assert not orphans(made.ts), "a command outlived the death of `ts`"
    ran = last(*(RESUME if made.begun else RUN))
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
def test_r93_a_run_that_is_killed_and_gone_on_with_ends_as_one_that_was_not(
    ts: Ts, ideal: Ideal
) -> None:
    for share in (0.1, 0.35, 0.6, 0.9):
        line = round(share * ideal.lines)
        kills = [after_line(line), after_line(line + 8)] if share == 0.35 else [after_line(line)]
        kind = AnthropicServer if share == 0.6 else OpenAIServer
        with bench(ts, kind, f"line-{line}") as made:
            survives(made, ideal, kills, made.ts.here)


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
    path.write_bytes(b"".join(whole[:2]))
    path.with_name("20990101-000000-0000.jsonl").write_bytes(whole[0])
    assert ts.here("resume").code == 0, "an older run that can be gone on with is"
    assert (ts.cwd / "made").exists()


def deaths(kind: str, ideal: Ideal) -> Iterator[tuple[float, ...]]:
    """When it is killed as it runs, and again as it goes on."""
    match kind:
        case "boundary":  # the line is written, and nobody has been told of it
            yield from ((n,) for n in range(1, ideal.boundaries + 1))
            yield from ((n, 3) for n in range(2, ideal.boundaries, 3))
        case "event":
            yield from ((n,) for n in range(ideal.lines))
            yield from ((n, n + 7) for n in range(3, ideal.lines, 6))
        case _:
            chance = random.Random(7)
            for number in range(MOMENTS):
                yield tuple(chance.random() for _ in range(1 + (number % 5 == 0)))


def at(kind: str, moment: float, ideal: Ideal) -> When:
    """The moment N of a kind; the share N of a run for one that is neither boundary nor event."""
    match kind:
        case "boundary":
            return at_sync(int(moment))
        case "event":
            return after_line(int(moment))
        case _ if moment < 0.1:  # as it starts
            return after(moment * 10 * ideal.seconds)
        case _:
            line, rest = divmod((moment - 0.1) / 0.9 * ideal.lines, 1)
            return after_line(int(line), rest * 0.1)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("kind", ["boundary", "event", "moment"])
def test_r93_a_run_may_be_killed_at_every_event_and_at_any_moment(
    ts: Ts, ideal: Ideal, kind: str
) -> None:
    if kind == "boundary" and not shutil.which("strace"):
        pytest.skip("no strace")
    ts.patience = 180  # beside other work of the machine
    hits, faults, count = Counter[str](), list[str](), 0
    wires = cycle((AnthropicServer, *[OpenAIServer] * 9))  # its SDK takes seconds to load
    for moments, wire in zip(deaths(kind, ideal), wires, strict=False):
        kills = [at(kind, moment, ideal) for moment in moments]
        count += 1
        try:
            with bench(ts, wire, f"{count}") as made:
                hit = survives(made, ideal, kills, made.ts)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            faults.append(f"{kind} {moments} {wire.__name__}: {error}")
            print(faults[-1], flush=True)
        else:
            hits[hit or "too late"] += 1
        if not count % 25:
            print(f"{kind}: {count} done, {len(faults)} faults", flush=True)
    print(f"\n{kind}: killed in {count} runs, {len(faults)} faults; the last event before:")
    for what, times in sorted(hits.items()):
        print(f"{times:5} {what}")
    assert not faults

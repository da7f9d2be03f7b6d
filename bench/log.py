"""What a run's log costs: `python bench/log.py [--quick] [EVENTS]`.

First a log of 100,000 events, with what it takes to go on with its run, to list it and to tell it;
beside it the same lines and nothing but JSON, and as rows of SQLite. Then one event, until it is
written and, where it begins or ends a piece of work, on the disk; beside it the bare write,
`json.dumps`, and a row of SQLite.
"""

import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import rig

if TYPE_CHECKING:
    from agent.event import Event

EACH = 98  # events of a step
TEXT = "The cause is in `total`: it adds the tax before the discount is taken off. " * 3
AIM = 0.5  # milliseconds of an event, above the bare write


def main() -> int:
    report = rig.Report(__doc__, count=100_000)
    with tempfile.TemporaryDirectory(prefix="ts-bench-") as name:
        long(report, Path(name), report.count)
        one(report, Path(name))
    return report.end()


# -- one event ----------------------------------------------------------------------------------


def one(report: rig.Report, folder: Path) -> None:
    many = 20 if report.quick else 300
    for sync in (False, True):
        rivals = dict(writers(folder, many, sync=sync))
        found = rig.medians(rivals, report.rounds(5))
        kind = "on the disk (fdatasync)" if sync else "written"
        report.table(f"An event, {kind}", "ms")
        bare = found["bare write"]
        for name, seconds in found.items():
            ours = name == "ours"
            aim = f"≤ {AIM:g} ms above the bare write" if ours else ""
            met = not ours or (seconds - bare) * 1000 <= AIM
            report.row(name, f"{seconds * 1000:.3f}", aim=aim, met=met)


def writers(folder: Path, many: int, *, sync: bool) -> Iterator[tuple[str, Callable[[], float]]]:
    """How each writes an event: seconds of one, the mean of many."""
    from agent.event import StepStarted, Text
    from agent.store.log import Log

    event = StepStarted(step="s1", attempt=1) if sync else Text(step="s1", text=TEXT)
    row = {"type": "text", "time": "2026-11-30T12:00:00.000Z", "seq": 1, "step": "s1", "text": TEXT}
    line = json.dumps(row).encode() + b"\n"

    def timed(write: Callable[[], object]) -> float:
        began = time.perf_counter()
        for _ in range(many):
            write()
        return (time.perf_counter() - began) / many

    def ours() -> float:
        path = folder / "ours.jsonl"
        path.unlink(missing_ok=True)
        with Log(path) as log:
            return timed(lambda: log(event))

    def plain(dump: Callable[[], bytes]) -> float:
        fd = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

        def write() -> None:
            os.write(fd, dump())
            if sync:
                getattr(os, "fdatasync", os.fsync)(fd)

        try:
            return timed(write)
        finally:
            os.close(fd)

    def rows() -> float:
        path = folder / "rows.db"
        for each in folder.glob("rows.db*"):
            each.unlink()
        with database(path, "FULL" if sync else "OFF") as base:

            def write() -> None:
                base.execute("insert into event (body) values (?)", (json.dumps(row),))
                base.commit()

            return timed(write)

    yield "ours", ours
    yield "bare write", lambda: plain(lambda: line)
    yield "json.dumps and write", lambda: plain(lambda: json.dumps(row).encode() + b"\n")
    yield "SQLite, WAL, a row", rows


def database(path: Path, sync: str) -> sqlite3.Connection:
    base = sqlite3.connect(path)
    base.execute("pragma journal_mode=wal")
    base.execute(f"pragma synchronous={sync}")
    base.execute("create table if not exists event (seq integer primary key, body text)")
    return base


# -- a long log ---------------------------------------------------------------------------------


def long(report: rig.Report, folder: Path, count: int) -> None:
    from agent.state import State
    from agent.store import log, workspace

    place = workspace.begun(folder)
    written(place.log, count)
    report.table("A command in a folder with a long log, CPU time and memory", "s", "MiB")
    for words in (("--version",), ("runs",), ("show",), ("show", "--json")):
        used = rig.process([*rig.TS, *words], folder, rig.environment(folder))
        report.row("ts " + " ".join(words), f"{used.cpu:.2f}", f"{used.peak:.0f}")
    base = database(folder / "long.db", "OFF")
    lines = place.log.read_bytes().split(b"\n")[:-1]
    base.executemany("insert into event (body) values (?)", ((line.decode(),) for line in lines))
    base.commit()
    megabytes = place.log.stat().st_size / 1e6

    def from_rows() -> None:
        for (body,) in base.execute("select body from event order by seq"):
            json.loads(body)

    found = rig.medians(
        {
            "read and checked": rig.seconds(lambda: log.recorded(place.log)),
            "… and folded: what resuming waits for": rig.seconds(
                lambda: State.of(log.recorded(place.log).events)
            ),
            "its first and last event (`ts runs`)": rig.seconds(lambda: log.ends(place.log)),
            "json.loads of each line": rig.seconds(lambda: [json.loads(line) for line in lines]),
            "SQLite: each row, json.loads": rig.seconds(from_rows),
        },
        report.rounds(3),
    )
    report.table(f"A log of {len(lines):,} events, {megabytes:.0f} MB", "s")
    for name, seconds in found.items():
        report.row(name, f"{seconds:.3f}")


def written(path: Path, count: int) -> None:
    """A log of so many events, as Log writes it but for the waiting."""
    from msgspec import structs

    from agent.event import encode
    from agent.store.log import sealed

    with path.open("wb") as file:
        for seq, event in enumerate(story(count), 1):
            whole = structs.replace(event, seq=seq, run=path.stem, time="2026-11-30T12:00:00.000Z")
            file.write(sealed(encode(whole)) + b"\n")


def story(count: int) -> "Iterator[Event]":
    """A run of steps that talk and use tools."""
    from agent import event as happened
    from agent.message import Usage
    from agent.plan import Plan, Step, checked

    many = max(count // EACH, 1)
    steps = tuple(Step(id=f"s{n}", do="work", writes=()) for n in range(many))
    yield happened.RunStarted(goal="g", cwd="/", model="m/n", version="1")
    yield happened.PlanCreated(plan=checked(Plan(goal="g", steps=steps)), source="file")
    for step in steps:
        yield happened.StepStarted(step=step.id, attempt=1)
        for number in range((EACH - 2) // 4):
            id = f"c{number}"
            yield happened.ModelCalled(
                step=step.id, model="m/n", usage=Usage(input_tokens=900, output_tokens=80),
                cost_usd=0.01, seconds=2.5, stop_reason="calls",
            )  # fmt: skip
            yield happened.Text(step=step.id, text=TEXT)
            input = {"path": "src/a.py", "start_line": 1, "end_line": 80}
            yield happened.ToolStarted(step=step.id, id=id, name="read_file", input=input)
            yield happened.ToolFinished(
                step=step.id, id=id, name="read_file", ok=True, output=TEXT * 2, seconds=0.01
            )
        yield happened.StepFinished(step=step.id, status="done", summary=TEXT)


if __name__ == "__main__":
    sys.exit(main())

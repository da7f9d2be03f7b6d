"""What earlier steps in a directory have used and how long they took, read from the ends of its
newest logs.

It is a help to a guess and must never be waited for: a bounded number of logs, a bounded part of
each. What can't be read is passed over.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.errors import AgentError
from agent.event import Status
from agent.message import Usage
from agent.store import workspace
from agent.store.disk import opened

LOGS = 20  # the newest
TAIL = 131_072  # bytes of each
HEAD = 16_384
MARK = b'{"type":"step.finished"'


class End(Struct, frozen=True):
    status: Status
    usage: Usage = Usage()
    seconds: float = 0.0
    step: str = ""


class Begin(Struct, frozen=True):
    goal: str = ""


_read = msgspec.json.Decoder(End).decode
_begun = msgspec.json.Decoder(Begin).decode


def used(cwd: Path) -> list[Usage]:
    """What each step used that asked a model and came to its end, of the newest runs first."""
    return [
        end.usage
        for path in _logs(cwd)
        for end in _ends(path)
        if end.usage.total and end.status in {"done", "failed"}
    ]


def took(cwd: Path, goal: str, run: str) -> dict[str, float]:
    """How many seconds each step took that was done in an earlier run for the same goal, the newest
    one that did it. `run` is not looked at; without a goal nothing is known to be the same."""
    found = dict[str, float]()
    for path in _logs(cwd) if goal else ():
        if path.stem != run and _goal(path) == goal:
            for end in _ends(path):
                if end.status == "done" and end.step and end.seconds:
                    found.setdefault(end.step, end.seconds)
    return found


def _logs(cwd: Path) -> list[Path]:
    try:
        return [place.log for place in workspace.runs(cwd)[:LOGS]]
    except AgentError:
        return []


def _ends(path: Path) -> Iterator[End]:
    for line in _part(path, end=True).split(b"\n"):
        if line.startswith(MARK):
            with suppress(ValueError):
                yield _read(line)


def _goal(path: Path) -> str:
    with suppress(ValueError):
        return _begun(_part(path, end=False).partition(b"\n")[0]).goal
    return ""


def _part(path: Path, *, end: bool) -> bytes:
    """The last bytes of a log, or the first."""
    try:
        with opened(path) as file:
            if end:
                size = file.seek(0, 2)
                file.seek(max(size - TAIL, 0))
            return file.read(TAIL if end else HEAD)
    except (OSError, AgentError):
        return b""

"""What earlier steps in a directory have used, read from the ends of its newest logs.

It is a help to a guess and must never be waited for: a bounded number of logs, a bounded part of
each. What can't be read is passed over.
"""

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
MARK = b'{"type":"step.finished"'


class End(Struct, frozen=True):
    status: Status
    usage: Usage = Usage()


_read = msgspec.json.Decoder(End).decode


def used(cwd: Path) -> list[Usage]:
    """What each step used that asked a model and came to its end, of the newest runs first."""
    found = list[Usage]()
    try:
        places = workspace.runs(cwd)[:LOGS]
    except AgentError:
        return []
    for place in places:
        for line in _tail(place.log).split(b"\n"):
            if line.startswith(MARK):
                try:
                    end = _read(line)
                except ValueError:
                    continue
                if end.usage.total and end.status in {"done", "failed"}:
                    found.append(end.usage)
    return found


def _tail(path: Path) -> bytes:
    try:
        with opened(path) as file:
            size = file.seek(0, 2)
            file.seek(max(size - TAIL, 0))
            return file.read(TAIL)
    except (OSError, AgentError):
        return b""

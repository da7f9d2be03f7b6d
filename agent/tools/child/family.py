"""The processes that a command has begun, wherever they went.

A process group is left with `setsid`, and a parent with a double fork. On Linux three traces are
followed instead: the session, the parents, and a mark in the environment that children inherit.
A process that sheds all three (it clears its environment once its parent has ended) is not found.
Elsewhere there is no /proc to read, and nothing is found beyond the process group.
"""

import os
import sys

PROC = "/proc"
ENVIRON = 1_000_000  # bytes of an environment that are searched for the mark


def living() -> frozenset[int]:
    """Ids of all processes there are; empty where that can't be read."""
    if sys.platform != "linux":
        return frozenset()
    with os.scandir(PROC) as entries:
        return frozenset(int(entry.name) for entry in entries if entry.name.isdecimal())


def family(
    leader: int,
    mark: bytes,
    *,
    kin: frozenset[int] = frozenset(),
    but: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """Ids of the living processes that the session leader `leader` began, without itself.

    `mark` stands in the environment of each; `kin` are known to belong to it, `but` not to.
    """
    found: set[int] = set()
    parents: dict[int, int] = {}
    for id in living():
        if id in but or id == leader or (traces := _traces(id)) is None:
            continue
        parent, session = traces
        if id in kin or leader in (session, parent) or _marked(id, mark):
            found.add(id)
        else:
            parents[id] = parent
    while children := {id for id, parent in parents.items() if parent in found} - found:
        found |= children
    return frozenset(found)


def lives(leader: int) -> bool:
    """Whether the leader of a session, or elsewhere than on Linux any of its group, still runs."""
    if sys.platform == "linux":
        traces = _traces(leader)
        return traces is not None and traces[1] == leader
    else:  # noqa: RET505 - without it mypy takes the rest for unreachable
        try:
            os.killpg(leader, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def named(ids: frozenset[int]) -> str:
    """The processes with their names, for a person: `sleep (1234), node (1240)`.

    A sandbox's own is not named: it is there as long as the others are.
    """
    names = []
    for id in sorted(ids)[:6]:
        try:
            name = _read(id, "comm", 64).decode(errors="replace").strip()
        except OSError:  # it has just ended
            continue
        if name != "bwrap":
            names.append(f"{name} ({id})")
    return ", ".join(names) + (f" and {len(ids) - 6} more" if len(ids) > 6 else "")


def _traces(id: int) -> tuple[int, int] | None:
    """The parent and the session of a process; None if it has ended (proc(5), /proc/pid/stat)."""
    try:
        stat = _read(id, "stat", 4096)
    except OSError:
        return None
    state, parent, _group, session, *_ = stat[stat.rindex(b")") + 2 :].split()
    return None if state in (b"Z", b"X") else (int(parent), int(session))


def _marked(id: int, mark: bytes) -> bool:
    try:
        return mark in _read(id, "environ", ENVIRON)
    except OSError:  # another user's, or it has just ended
        return False


def _read(id: int, name: str, most: int) -> bytes:
    with open(f"{PROC}/{id}/{name}", "rb") as file:  # noqa: PTH123 - pathlib costs a survivor 1 MB
        return file.read(most)

"""What the tests of commands look at in the process table."""

import os
import time
from pathlib import Path

MARK = "TS_TEST"  # the variable that marks the processes of one test


def running(mark: str) -> dict[int, str]:
    """Ids and names of the living processes whose environment holds `mark`."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}\0".encode() in (place / "environ").read_bytes():
                found[int(place.name)] = (place / "comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue
    found.pop(os.getpid(), None)
    return found


def children() -> dict[int, str]:
    """Ids and states of this process's children, those that nobody has waited for included."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, *_ = (place / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(parent) == os.getpid():
            found[int(place.name)] = state.decode()
    return found


def gone(id: int, seconds: float = 1) -> bool:
    """Whether a process ends within that time; one that nobody has waited for has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            stat = Path(f"/proc/{id}/stat").read_bytes()
        except OSError:
            return True
        if stat.rpartition(b")")[2].split()[0] in (b"Z", b"X"):
            return True
        os.sched_yield()
    return False

"""The store of snapshots kept small: what no log names any more is dropped, the rest is packed.

What is young stays whatever it is: its name may not have reached a log yet.
"""

import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from agent.store import workspace
from agent.store.disk import opened
from agent.store.plumbing import Calls, lacking

LOOSE = 6700  # objects in files of their own from which on it is worth while
YOUNG = 3600.0  # seconds

_NAMED = re.compile(rb'"(?:tree|before|after)":"([0-9a-f]{40})"')


def crowded(objects: Path) -> bool:
    """Whether the store has many loose objects: their names are evenly spread, so a part tells."""
    with suppress(OSError):
        return sum(1 for _ in (objects / "17").iterdir()) * 256 > LOOSE
    return False


def named(cwd: Path) -> set[str]:
    """Every tree that a log, a conversation or an undo of the directory names. Raises OSError."""
    found = set[str]()
    for place in ("runs", "sessions", "undo"):
        folder = workspace.folder(cwd, place)
        for name in workspace.names(folder):
            with opened(folder / f"{name}.jsonl", follow=False) as file:
                for line in file:
                    found.update(each.decode() for each in _NAMED.findall(line))
    return found


def prune(calls: Calls, trees: Collection[str]) -> None:
    """Keep what these trees and the index need, in one pack; drop the rest. Raises AgentError."""
    index = calls("write-tree", "--missing-ok", lent=False).decode().strip()
    roots = _ours(calls, {*trees, index})
    words = ("rev-list", "--objects", "--missing=allow-any", "--no-object-names", "--stdin")
    needed = calls(*words, data="\n".join(roots).encode() + b"\n").decode().split()
    packs = calls.folder / "objects/pack"
    old = [path for path in packs.glob("pack-*") if _aged(path)]
    ids = "\n".join(_ours(calls, {*needed, *roots})).encode() + b"\n"
    fresh = calls("pack-objects", "-q", os.fspath(packs / "pack"), data=ids, lent=False)
    now = f"pack-{fresh.decode().strip()}."
    for path in old:
        if not path.name.startswith(now):
            path.unlink(missing_ok=True)
    calls("prune-packed", "-q")
    for path in _loose(calls.folder / "objects"):
        if _aged(path):
            path.unlink(missing_ok=True)
    for path in calls.folder.glob("index.*"):
        if path != calls.index:  # it may name what is gone
            path.unlink(missing_ok=True)


def _ours(calls: Calls, ids: Collection[str]) -> list[str]:
    """Those that are in the store itself."""
    return sorted({*ids} - lacking(calls, ids, lent=False))


def _loose(objects: Path) -> Iterator[Path]:
    for folder in objects.glob("[0-9a-f][0-9a-f]"):
        yield from folder.iterdir()


def _aged(path: Path) -> bool:
    try:
        return path.stat().st_mtime < time.time() - YOUNG
    except OSError:
        return False

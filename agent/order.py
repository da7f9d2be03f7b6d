"""The order that reads and writes put steps in, besides their needs.

A step that reads what another writes comes after it. Two that may write the same are never at
once: the one that the list has first goes first, as far as needs allow. A step that says neither
what it reads nor what it writes may write anything; it delays only other writers.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from agent.plan import Step

ANYTHING = ("**",)


def order(steps: Sequence[Step]) -> dict[str, set[str]]:
    """For each step the further steps, of these, that have to end before it begins.

    Together with the needs this makes no cycle, if the needs make none. The relation is thinned:
    a step is not told of those that it waits for through another.
    """
    ids = {step.id for step in steps}
    waits = {step.id: {need for need in step.after if need in ids} for step in steps}
    further: dict[str, set[str]] = {id: set() for id in ids}
    writes = {step.id: _writes(step) for step in steps}
    for reader, writer in _read_after(steps, writes):
        if not _waits_for(waits, writer, reader):
            waits[reader].add(writer)
            further[reader].add(writer)
    for before, after in _write_after(_lined_up(steps, waits), writes):
        if before not in waits[after]:
            waits[after].add(before)
            further[after].add(before)
    return further


def _writes(step: Step) -> tuple[str, ...]:
    """The globs of what a step may write; `$item` may be anything."""
    if step.writes is not None:
        return tuple(path.replace("$item", "*").replace("${item}", "*") for path in step.writes)
    return () if step.reads is not None else ANYTHING


def _read_after(
    steps: Sequence[Step], writes: Mapping[str, tuple[str, ...]]
) -> Iterable[tuple[str, str]]:
    """(reader, writer) for what one says it reads and another says it writes."""
    writers = [step for step in steps if step.writes]
    if not writers:
        return
    index = _Index({step.id: writes[step.id] for step in writers})
    for step in steps:
        for writer in index.overlapping(step.reads or ()):
            if writer != step.id:
                yield step.id, writer


def _write_after(
    lined_up: Sequence[str], writes: Mapping[str, tuple[str, ...]]
) -> Iterable[tuple[str, str]]:
    """(before, after) for writers of the same. One that may write anything parts the line."""
    parts: list[list[str]] = [[]]
    for id in lined_up:
        if writes[id] == ANYTHING:
            parts += [[id], []]
        elif writes[id]:
            parts[-1].append(id)
    parts = [part for part in parts if part]
    for before, after in pairwise(parts):
        yield from ((one, other) for one in before for other in after)
    for part in parts:
        index = _Index({})
        for id in part:
            yield from ((other, id) for other in index.overlapping(writes[id]))
            index.add(id, writes[id])


def _lined_up(steps: Sequence[Step], waits: Mapping[str, set[str]]) -> list[str]:
    """The ids in the order of the list, each behind what it waits for."""
    place = {step.id: n for n, step in enumerate(steps)}
    line: list[str] = []
    seen: set[str] = set()
    for step in steps:
        stack = [(step.id, False)]
        while stack:
            id, ready = stack.pop()
            if ready:
                line.append(id)
            elif id not in seen:
                seen.add(id)
                stack.append((id, True))
                stack += [
                    (w, False) for w in sorted(waits[id], key=place.__getitem__, reverse=True)
                ]
    return line


def _waits_for(waits: Mapping[str, set[str]], id: str, other: str) -> bool:
    """Whether `id` waits for `other`, directly or not."""
    stack, seen = [id], {id}
    while stack:
        for one in waits[stack.pop()]:
            if one == other:
                return True
            if one not in seen:
                seen.add(one)
                stack.append(one)
    return False


class _Index:
    """Who has which globs, so that plain paths are found without comparing all with all."""

    def __init__(self, globs: Mapping[str, Iterable[str]]) -> None:
        self._plain: dict[str, dict[str, None]] = {}  # path → ids
        self._below: dict[str, dict[str, None]] = {}  # directory → ids of plain paths in it
        self._wild: list[tuple[str, str]] = []
        for id, paths in globs.items():
            self.add(id, paths)

    def add(self, id: str, paths: Iterable[str]) -> None:
        for path in map(tidy, paths):
            if wild(path):
                self._wild.append((path, id))
                continue
            self._plain.setdefault(path, {})[id] = None
            for parent in parents(path):
                self._below.setdefault(parent, {})[id] = None

    def overlapping(self, paths: Iterable[str]) -> list[str]:
        """The ids that have a glob which may match what one of `paths` matches."""
        found: dict[str, None] = {}
        for path in map(tidy, paths):
            if wild(path):
                found |= {
                    id: None
                    for have, ids in self._plain.items()
                    if overlap(have, path)
                    for id in ids
                }
            else:
                found |= self._plain.get(path, {}) | self._below.get(path, {})
                for parent in parents(path):
                    found |= self._plain.get(parent, {})
            found |= {id: None for have, id in self._wild if overlap(have, path)}
        return list(found)


def tidy(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def wild(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts))]


def overlap(one: str, other: str) -> bool:
    """Whether two globs may name the same file; only what is surely apart is told apart.

    A directory stands for all that is in it.

    >>> overlap("src/*.py", "src/a.py"), overlap("src/**", "docs/**"), overlap("*.py", "*.md")
    (True, False, False)
    """
    ours, theirs = tidy(one).split("/"), tidy(other).split("/")
    for mine, yours in zip(ours, theirs, strict=False):
        if "**" in (mine, yours):
            return _ends_meet(ours[-1], theirs[-1])
        if not _part_meets(mine, yours):
            return False
    return True


def _part_meets(one: str, other: str) -> bool:
    if not wild(one) and not wild(other):
        return one == other
    return _starts_meet(one, other) and _ends_meet(one, other)


def _starts_meet(one: str, other: str) -> bool:
    a, b = _plain_start(one), _plain_start(other)
    return a.startswith(b) or b.startswith(a)


def _ends_meet(one: str, other: str) -> bool:
    if "**" in (one, other) or not (wild(one) and wild(other)):
        if wild(one) or wild(other):
            known, glob = (other, one) if wild(one) else (one, other)
            return (
                glob == "**"
                or known == "**"
                or known.endswith(_plain_end(glob))
                or "." not in known
            )
        return one == other or "." not in one or "." not in other
    a, b = _plain_end(one), _plain_end(other)
    return a.endswith(b) or b.endswith(a)


def _plain_start(part: str) -> str:
    return part[: min((n for n, sign in enumerate(part) if sign in "*?["), default=len(part))]


def _plain_end(part: str) -> str:
    return part[max((n for n, sign in enumerate(part) if sign in "*?]"), default=-1) + 1 :]

"""The order that reads and writes put steps in, besides their needs.

A step that reads what another writes comes after it. Two that may write the same are never at
once: the one that the list has first goes first, as far as needs and reads allow; the list decides
as well between two that read what the other writes. A step that says neither what it reads nor what
it writes may write anything; it delays only other writers.

Pairs are tied one after another, reads first, and a tie that would close a cycle is left out. Then
all steps stand in one line, and each waits for those before it that touch what it touches: for the
last one at each path, which in turn waits for those before it there.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from agent.plan import Step

MOST_LOOKS = 100_000  # comparisons of paths; what is beyond goes one after another

WILD = re.compile(r"[*?\[\]{}]")
VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
FILE = re.compile(r"[^.]\.[a-z][a-z0-9_]{0,9}$")  # a name with an ending

Waits: TypeAlias = Mapping[str, Collection[str]]
Globs: TypeAlias = Mapping[str, tuple["_Glob", ...]]


def order(
    steps: Sequence[Step],
    waits: Mapping[str, Set[str]] | None = None,
    begun: Collection[str] = (),
    free: Collection[str] = (),
) -> dict[str, set[str]]:
    """For each step the further steps, of these, that have to end before it begins.

    `waits` says for which of these each waits anyhow (left out: those it needs); together with it
    this makes no cycle, if it makes none. `begun`: steps that no longer wait for any. `free`: steps
    that may write anything, besides those that say nothing. The relation is thinned: a step is not
    told of all that it waits for through another.
    """
    ids = {step.id for step in steps}
    if waits is None:
        waits = {step.id: ids.intersection(step.after) for step in steps}
    reads = {step.id: tuple(map(_Glob.of, step.reads or ())) for step in steps}
    writes = {step.id: tuple(map(_Glob.of, step.writes or ())) for step in steps}
    free = {step.id for step in steps if step.writes is None and step.reads is None}.union(free)
    if not free and not any(writes.values()):
        return {id: set() for id in ids}
    line = _Line(steps, {**waits, **dict.fromkeys(begun, frozenset[str]())}, begun)
    if any(reads.values()):
        _follow(line, reads, writes)
        _turn_back(line, reads, writes, begun)
    tied = _tied(line.listed, reads, writes, free, begun)
    for id, of in tied.items():
        line.wait(id, of)
    if (ids_in_line := line.ids) != line.listed:
        tied = _tied(ids_in_line, reads, writes, free, begun)
    return {id: of - waits[id] for id, of in tied.items()}


def _follow(line: "_Line", reads: Globs, writes: Globs) -> None:
    """Let readers wait for the writers that the list has before them."""
    written = _Index()
    for id in line.listed:
        if written.looks > MOST_LOOKS:
            return
        line.wait(id, written.overlapping(reads[id]))
        written.put(id, writes[id])


def _turn_back(line: "_Line", reads: Globs, writes: Globs, begun: Collection[str]) -> None:
    """Let readers wait for the writers that the list has after them."""
    written = _Index()
    for id in line.listed:
        written.add(id, writes[id])
    for id in line.listed:
        if written.looks > MOST_LOOKS:
            return
        if id not in begun:
            behind = (one for one in written.overlapping(reads[id]) if line.later(one, id))
            line.wait(id, (one for one in behind if not _touch(reads[one], writes[id])))


def _tied(
    line: Sequence[str], reads: Globs, writes: Globs, free: Collection[str], begun: Collection[str]
) -> dict[str, set[str]]:
    """What each step of a line, which has the begun ones first, waits for.

    `free`: those that may write anything. What has begun waits for none, so that none is waited
    for through it.
    """
    tied = {id: set[str]() for id in line}
    written = _Index()  # all that is written
    since = _Index() if free else written  # what is, since the last free one
    last_free: set[str] = set()
    last = ""
    for n, id in enumerate(line):
        if id in begun:
            since.add(id, writes[id])
            written.add(id, writes[id])
            last_free |= {id}.intersection(free)
        elif written.looks + since.looks > MOST_LOOKS:
            if reads[id] or writes[id] or id in free:
                tied[id], last = {last} if last else set(line[:n]), id
        else:
            tied[id] |= {*written.overlapping(reads[id])}
            if id in free:
                tied[id] |= {*since.all(), *last_free}
                since.clear()
                last_free = {id}
            elif writes[id]:
                tied[id] |= {*since.overlapping(writes[id]), *last_free}
                since.put(id, writes[id])
            written.put(id, writes[id])
    return tied


def _touch(reads: Iterable["_Glob"], writes: Iterable["_Glob"]) -> bool:
    return any(one.meets(other) for one in reads for other in writes)


class _Line:
    """The steps in an order that has each behind what it waits for, kept while waits are added.

    D. J. Pearce, P. H. J. Kelly: A dynamic topological sort algorithm for directed acyclic graphs
    (2007): only what stands between the two ends of a new wait is looked at.
    """

    def __init__(
        self, steps: Sequence[Step], waits: Mapping[str, Set[str]], begun: Collection[str]
    ) -> None:
        self.listed = [step.id for step in sorted(steps, key=lambda step: step.id not in begun)]
        self._number = {id: n for n, id in enumerate(self.listed)}
        self._known, self._ties = waits, list[tuple[str, str]]()
        self._waits: dict[str, set[str]] = {}  # the same two, once the line is no longer the list
        self._users: dict[str, set[str]] = {}
        self._place = self._number
        if any(self._number[one] > self._number[id] for id, of in waits.items() for one in of):
            self._part()

    def later(self, one: str, other: str) -> bool:
        """Whether the list has one step after the other."""
        return self._number[one] > self._number[other]

    def _part(self) -> None:
        """Part from the list: from here on what waits for what is looked up."""
        self._waits = {id: set(of) for id, of in self._known.items()}
        for after, before in self._ties:
            self._waits[after].add(before)
        self._users = {id: set() for id in self._waits}
        for id, of in self._waits.items():
            for one in of:
                self._users[one].add(id)
        self._place = {id: n for n, id in enumerate(self.ids)}

    @property
    def ids(self) -> list[str]:
        """The ids in the order of the list, each behind what it waits for."""
        if not self._waits:
            return self.listed
        line: list[str] = []
        seen: set[str] = set()
        for first in self.listed:
            stack = [(first, False)]
            while stack:
                id, ready = stack.pop()
                if ready:
                    line.append(id)
                elif id not in seen:
                    seen.add(id)
                    stack.append((id, True))
                    before = sorted(self._waits[id], key=self._number.__getitem__, reverse=True)
                    stack += [(one, False) for one in before]
        return line

    def wait(self, after: str, others: Iterable[str]) -> None:
        """Let `after` wait for each of these in turn, unless that makes a cycle."""
        for before in others:
            if self._place[before] >= self._place[after]:
                if not self._waits:
                    self._part()
                if not self._moved(before, after):
                    continue
            if self._waits:
                self._waits[after].add(before)
                self._users[before].add(after)
            else:
                self._ties.append((after, before))

    def _moved(self, before: str, after: str) -> bool:
        """Move one step before the other in the line; False where it waits for it."""
        low, high = self._place[after], self._place[before]
        ahead = self._reached(after, self._users, low, high)
        if before in ahead:
            return False
        moved = self._reached(before, self._waits, low, high) + ahead
        self._place |= zip(moved, sorted(self._place[id] for id in moved), strict=True)
        return True

    def _reached(self, id: str, ways: Mapping[str, set[str]], low: int, high: int) -> list[str]:
        """What these ways lead to from a step, itself included, between two places of the line."""
        stack, seen = [id], {id}
        while stack:
            for one in ways[stack.pop()]:
                if one not in seen and low <= self._place[one] <= high:
                    seen.add(one)
                    stack.append(one)
        return sorted(seen, key=self._place.__getitem__)


class _Glob(NamedTuple):
    parts: tuple[str, ...]
    stem: tuple[str, ...]  # the parts before the first wild one

    @classmethod
    def of(cls, path: str) -> "_Glob":
        """A path, in one case, because some disks know no other; what a variable stands for may be
        anything, and a wild name alone may be anywhere."""
        path = (VARIABLE.sub("**", path) if "$" in path else path).casefold()
        parts = tuple(part for part in path.split("/") if part not in {"", "."})
        if len(parts) == 1 and WILD.search(parts[0]):
            parts = ("**", *parts)
        if not WILD.search(path):
            return cls(parts, parts)
        return cls(parts, tuple(takewhile(lambda part: not WILD.search(part), parts)))

    def meets(self, other: "_Glob") -> bool:
        """Whether both may name the same file."""
        ours, theirs = self.parts, other.parts
        for mine, yours in zip(ours, theirs, strict=False):
            if mine == yours and "*" not in mine:
                continue
            if "**" in mine or "**" in yours:
                return _holds(ours[-1]) or _holds(theirs[-1]) or _meet(ours[-1], theirs[-1])
            if not _meet(mine, yours):
                return False
        return True


class _Place(Struct, gc=False):
    """A directory of the paths that were put into an index."""

    here: dict[_Glob, list[str]] = {}  # who has what ends, or gets wild, in it
    inside: dict[str, "_Place"] = {}


class _Index:
    """Who has which globs: a tree of directories, a glob at the end of its plain part."""

    def __init__(self) -> None:
        self._root = _Place()
        self.looks = 0  # how many globs were looked at; a measure of its cost

    def add(self, id: str, globs: Iterable[_Glob]) -> None:
        """Let `id` have these globs as well as those who have them."""
        for glob in globs:
            here = self._at(glob).here.setdefault(glob, [])
            if not here or here[-1] != id:
                here.append(id)

    def put(self, id: str, globs: Iterable[_Glob]) -> None:
        """Let `id` alone have these globs."""
        for glob in globs:
            self._at(glob).here[glob] = [id]

    def clear(self) -> None:
        self._root = _Place()

    def _at(self, glob: _Glob) -> _Place:
        place = self._root
        for part in glob.stem:
            if part not in place.inside:
                place.inside[part] = _Place()
            place = place.inside[part]
        return place

    def all(self) -> Iterator[str]:
        return (id for _, ids in _below(self._root) for id in ids)

    def overlapping(self, globs: Iterable[_Glob]) -> Iterator[str]:
        """Who has a glob that may match what one of `globs` matches; one id may come twice."""
        for glob in globs:
            for have, ids in self._near(glob):
                self.looks += len(ids)
                if have == glob or have.meets(glob):
                    yield from ids

    def _near(self, glob: _Glob) -> list[tuple[_Glob, list[str]]]:
        """All at a glob's directory, above and below it."""
        found: list[tuple[_Glob, list[str]]] = []
        place = self._root
        for part in glob.stem:
            found += place.here.items()
            if part not in place.inside:
                return found
            place = place.inside[part]
        return found + _below(place)


def _below(place: _Place) -> list[tuple[_Glob, list[str]]]:
    found = list(place.here.items())
    stack = list(place.inside.values())
    while stack:
        place = stack.pop()
        found += place.here.items()
        stack += place.inside.values()
    return found


def overlap(one: str, other: str) -> bool:
    """Whether two globs may name the same file; only what is surely apart is told apart.

    A directory stands for all that is in it.

    >>> overlap("src/*.py", "src/a.py"), overlap("src/**", "docs/**"), overlap("*.py", "*.md")
    (True, False, False)
    """
    return one == other or _Glob.of(one).meets(_Glob.of(other))


def _holds(name: str) -> bool:
    """Whether a name may be that of a directory: it does not end as files do."""
    return not FILE.search(name) or name.endswith(".d")


def _meet(one: str, other: str) -> bool:
    """Whether two names, perhaps wild, may be the same."""
    (start, end), (first, last) = _ends(one), _ends(other)
    if not WILD.search(one) and not WILD.search(other):
        return one == other
    if not WILD.search(one):
        return _fits(one, first, last)
    if not WILD.search(other):
        return _fits(other, start, end)
    starts = start.startswith(first) or first.startswith(start)
    return starts and (end.endswith(last) or last.endswith(end))


def _fits(name: str, start: str, end: str) -> bool:
    return name.startswith(start) and name.endswith(end) and len(name) >= len(start) + len(end)


def _ends(part: str) -> tuple[str, str]:
    """What stands before the first and behind the last wild sign of a name."""
    found = [sign.start() for sign in WILD.finditer(part)]
    return (part[: found[0]], part[found[-1] + 1 :]) if found else (part, part)


def ranks(
    steps: Sequence[Step], waits: Waits, behind: int, first: int
) -> dict[str, tuple[int, int]]:
    """What goes first: (-length of the longest path behind a step, its place) for each.

    `behind`: the length of the path behind all of them; `first`: the place of the first.
    """
    users: dict[str, list[str]] = {step.id: [] for step in steps}
    unmet = {id: len(of) for id, of in waits.items()}
    for id, of in waits.items():
        for one in of:
            users[one].append(id)
    line = [id for id, count in unmet.items() if not count]
    for id in line:
        for user in users[id]:
            unmet[user] -= 1
            if not unmet[user]:
                line.append(user)
    length: dict[str, int] = {}
    for id in reversed(line):
        length[id] = 1 + max((length[user] for user in users[id]), default=behind)
    return {step.id: (-length[step.id], first + n) for n, step in enumerate(steps)}

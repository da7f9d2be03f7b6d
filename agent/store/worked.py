"""What work has changed files in a directory: its runs, the turns of its chats, earlier undos.

Each was recorded with the tree before and after it; a run's steps each have their own. An undo is
work as well, recorded in `.agent/undo/undone.jsonl`, so that it can be taken back in the same way.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from agent.errors import UsageError
from agent.event import Event, TreeKept, step_of
from agent.state import State
from agent.store import log, tree, workspace
from agent.store.lines import holder, lines

WORDS = 80  # characters that say what work was

Kind: TypeAlias = Literal["run", "turn", "undo"]


class Part(Struct, frozen=True, kw_only=True):
    """A stretch of work between two trees."""

    before: str
    after: str = ""  # "": it was cut off, and may have changed whatever differs now
    step: str = ""  # "": a whole run, turn or undo
    writes: tuple[str, ...] | None = None  # the globs that it has said it writes; None: anything
    theirs: tuple[str, ...] = ()  # the globs that steps at work beside it had said they write
    sure: bool = True  # False: what differs need not be of its making


class Work(Struct, frozen=True, kw_only=True):
    """What may be taken back as one."""

    id: str  # of the run, or RUN#STEP; SESSION/MESSAGE of a turn; undo-…
    kind: Kind
    words: str  # the goal, or what the user said
    time: str  # when it began, in the form of the ids of runs
    parts: tuple[Part, ...]  # oldest first
    undone: str = ""  # the undo that has taken it back

    @property
    def changed(self) -> bool:
        """Whether a file may be another than before."""
        return any(part.before != part.after for part in self.parts)


class Began(Struct, frozen=True, kw_only=True, tag="undo"):
    """The first line of an undo."""

    id: str
    of: tuple[str, ...]  # the work that it takes back
    words: str
    before: str  # tree


class Ended(Struct, frozen=True, kw_only=True, tag="undone"):
    """The last line of an undo."""

    id: str
    after: str  # tree


Record: TypeAlias = Began | Ended
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Record).decode


def works(cwd: Path) -> Iterator[Work]:
    """All that has changed files here, as far as it was recorded, the newest first.

    Raises AgentError where it can't be read.
    """
    undos = list(_undos(cwd))
    standing = _standing([began for began, _ in undos])
    turns = sorted(_turns(cwd), key=_time, reverse=True)
    taken_back = sorted((_undo(*each) for each in undos), key=_time, reverse=True)
    for each in heapq.merge(_runs(cwd), turns, taken_back, key=_time, reverse=True):
        yield structs.replace(each, undone=standing.get(each.id, ""))


def work(cwd: Path, id: str = "", step: str = "") -> Work:
    """The work of that id, or of the one id that begins so, and of it the step; without an id, the
    newest run or turn that changed a file and has not been taken back.

    Raises UsageError where there is none or more than one, and for a run that is under way.
    """
    if id:
        known = {each.id: each for each in works(cwd)}
        found = known[workspace.chosen(id, [*known], "change")]
    else:
        open = (each for each in works(cwd) if each.kind != "undo" and not each.undone)
        newest = next((each for each in open if each.changed), None)
        if newest is None:
            raise UsageError("nothing that changed files here is left to take back")
        found = newest
    if found.kind == "run" and (pid := holder(workspace.run(cwd, found.id).log)):
        raise UsageError(
            f"{found.id} is in use by process {pid}", hint="it can be undone once it has ended"
        )
    if not step:
        return found
    parts = tuple(part for part in found.parts if part.step == step)
    if not parts:
        some = ", ".join(dict.fromkeys(part.step for part in found.parts if part.step))
        raise UsageError(
            f"{found.id} has no step {step!r} that may have changed a file",
            hint=f"those are: {some}" if some else "",
        )
    return structs.replace(found, id=f"{found.id}#{step}", parts=parts)


def undone(cwd: Path) -> Work:
    """The newest undo that still stands and has itself taken back no undo. Raises UsageError."""
    undos = [each for each in works(cwd) if each.kind == "undo"]
    redone = {each.undone for each in undos}
    found = next((each for each in undos if not each.undone and each.id not in redone), None)
    if found is None:
        raise UsageError("there is no undo to take back")
    return found


def turns(cwd: Path, session: str, message: str) -> list[Work]:
    """What a conversation has done from the user's message `message` on, its runs included, and
    has not been taken back: oldest first. Raises AgentError."""
    ids = set[str]()
    for record in _records(cwd, session):
        if isinstance(record, tree.Kept | tree.Begun) and _number(record.at) >= _number(message):
            ids.add(record.run if isinstance(record, tree.Begun) else f"{session}/{record.at}")
    found = [each for each in works(cwd) if each.id in ids and not each.undone]
    return found[::-1]


def _time(work: Work) -> str:
    return work.time


def _number(id: str) -> int:
    return int(id) if id.isdecimal() and len(id) < 10 else 0


# -- runs ---------------------------------------------------------------------------------------


def parts(events: Iterable[Event]) -> tuple[Part, ...]:
    """What a run did between two trees, as far as its events tell."""
    found = _Run()
    for event in events:
        found.take(event)
    return tuple(found.parts)


def _runs(cwd: Path) -> Iterator[Work]:
    for place in workspace.runs(cwd):
        found = _Run()
        for event in log.recorded(place.log).events:
            found.take(event)
        found.close("")
        if found.parts:
            words = found.state.goal
            yield Work(id=place.id, kind="run", words=words, time=place.id, parts=(*found.parts,))


class _Run:
    """The parts of a run, as its events tell them."""

    def __init__(self) -> None:
        self.state = State()
        self.parts: list[Part] = []
        self._open: dict[str, str] = {}  # trees before, by step; "" for the run
        self._beside: dict[str, set[str]] = {}  # by step, those that were at work beside it

    def take(self, event: Event) -> None:
        self.state.apply(event)
        if not isinstance(event, TreeKept):
            return
        step = step_of(event)
        if event.moment == "before":
            if not step or step in self._open:  # gone on with after it was cut off
                self.close(event.tree, step)
            self._open[step] = event.tree
            if step:
                self._crowd(step)
            return
        if not step:
            self.close(event.tree)
        elif step in self._open:
            self._end(step, event.tree, sure=True)

    def close(self, tree: str, step: str = "") -> None:
        """What is open has ended, nobody knows when, before `tree`; with a step, that alone."""
        for each in [*self._open]:
            if each == step or not step:
                self._end(each, tree, sure=False)

    def _crowd(self, step: str) -> None:
        for other in self._open:
            if other and other != step:
                self._beside.setdefault(step, set()).add(other)
                self._beside.setdefault(other, set()).add(step)

    def _writes(self, step: str) -> tuple[str, ...] | None:
        known = self.state.steps.get(step)
        return known.writes if known else None

    def _end(self, step: str, after: str, *, sure: bool) -> None:
        writes, beside = self._writes(step), sorted(self._beside.pop(step, ()))
        part = Part(
            before=self._open.pop(step),
            after=after,
            step=step,
            writes=writes,
            theirs=tuple(glob for other in beside for glob in self._writes(other) or ()),
            sure=sure and not (writes is None and beside),
        )
        self.parts.append(part)


# -- chats --------------------------------------------------------------------------------------


def _turns(cwd: Path) -> Iterator[Work]:
    for session in workspace.names(workspace.folder(cwd, "sessions")):
        parts: dict[str, list[Part]] = {}
        about: dict[str, tuple[str, str]] = {}  # words and time
        said: dict[str, str] = {}
        for record in _records(cwd, session):
            match record:
                case tree.Entry(id=id, message=message):
                    said[id] = message.text
                case tree.Kept(at=at, moment="before"):
                    parts.setdefault(at, []).append(Part(before=record.tree, sure=False))
                    about.setdefault(at, (said.get(at, ""), _stamp(record.time)))
                case tree.Kept(at=at, moment="after") if parts.get(at):
                    begun = parts[at][-1]
                    parts[at][-1] = Part(before=begun.before, after=begun.after or record.tree)
                case _:
                    pass
        for at, found in parts.items():
            words, time = about[at]
            yield Work(
                id=f"{session}/{at}", kind="turn", words=words, time=time, parts=tuple(found)
            )


def _records(cwd: Path, session: str) -> Iterator[tree.Record]:
    """The records of a conversation that undo goes by, with the user's messages before them."""
    path = workspace.folder(cwd, "sessions") / f"{session}.jsonl"
    if not path.is_file():
        return
    before = b""
    for line in lines(path):
        if line.data.startswith(b'{"type":"message"'):
            if b'"role":"user"' in line.data and b'"results":[' not in line.data:
                before = line.data
        elif line.data.startswith((b'{"type":"kept"', b'{"type":"begun"')):
            for each in filter(None, (before, line.data)):
                try:
                    yield tree.decode(each)
                except tree.FAULTS:
                    continue
            before = b""


def _stamp(time: str) -> str:
    """A time as the ids of runs tell it."""
    try:
        return workspace.fresh(datetime.fromisoformat(time))
    except ValueError:
        return ""


# -- undos --------------------------------------------------------------------------------------


def _undos(cwd: Path) -> Iterator[tuple[Began, Ended]]:
    """The undos that have come to their end, oldest first."""
    path = workspace.folder(cwd, "undo") / "undone.jsonl"
    if not path.is_file():
        return
    begun: dict[str, Began] = {}
    for line in lines(path):
        try:
            record = decode(line.data)
        except tree.FAULTS:
            continue
        if isinstance(record, Began):
            begun[record.id] = record
        elif began := begun.pop(record.id, None):
            yield began, record


def _standing(undos: Sequence[Began]) -> dict[str, str]:
    """What is taken back, as things stand, and by which undo."""
    found: dict[str, str] = {}
    gone = set[str]()
    for began in reversed(undos):  # a later one decides whether an earlier one counts
        for id in began.of:
            if began.id not in gone:
                gone.add(id)
                found.setdefault(id, began.id)
    return found


def _undo(began: Began, ended: Ended) -> Work:
    part = Part(before=began.before, after=ended.after)
    time = began.id.removeprefix("undo-")
    return Work(id=began.id, kind="undo", words=began.words, time=time, parts=(part,))

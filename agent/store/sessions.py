"""Conversations: a tree of messages each, in a file that is only ever added to.

Every directory has its own, in `.agent/sessions/`. Nothing is made before the first message.
A line that can't be read is passed over and told; what hung on it hangs on the line before.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, TypeAlias

import msgspec
from msgspec import Struct, structs

from agent.errors import UsageError
from agent.message import Call, Message, Result
from agent.store.disk import failed
from agent.store.lines import Lines, encodable, lines, now
from agent.store.workspace import chosen, folder, fresh, names, prepared

CUT = "interrupted: this call did not come to its end; what it has done is not known"
WORDS = 80  # characters of a conversation's beginning in a list


class Head(Struct, frozen=True, kw_only=True, tag="session", omit_defaults=True):
    """The first line."""

    id: str
    cwd: str
    time: str
    of: str = ""  # the conversation that it was forked from


class Entry(Struct, frozen=True, kw_only=True, tag="message", omit_defaults=True):
    id: str
    parent: str  # the message before it; "": it is the first
    time: str
    model: str = ""
    message: Message


class Moved(Struct, frozen=True, kw_only=True, tag="moved"):
    """The conversation goes on after the message `to`; "": from the start."""

    to: str
    time: str


Record: TypeAlias = Head | Entry | Moved

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class Summary(Struct, frozen=True, kw_only=True):
    """A conversation in a list."""

    id: str
    words: str  # how it begins
    count: int  # messages, those of left branches included
    age: float  # seconds since the last one


class _Tree:
    """What a file holds."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.entries: dict[str, Entry] = {}  # by id, in the order of the file
        self.at = ""  # the message that the next one answers
        self.lines = 0
        self.bad: list[int] = []  # lines that can't be read
        self.torn = False  # the last line is cut short
        self.gaps: set[str] = set()  # messages whose parent is lost
        self.last = 0  # the greatest id, which is a number

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read a file. Raises AgentError where it can't be opened."""
        tree = cls()
        for line in lines(path):
            tree.lines = line.number
            if not line.data.strip():
                continue
            try:
                tree.take(_decode(line.data))
            except (msgspec.DecodeError, ValueError, RecursionError):
                if line.ended:
                    tree.bad.append(line.number)
                else:
                    tree.torn = True
        return tree

    def take(self, record: Record) -> None:
        """Raises ValueError for a message that is there already."""
        match record:
            case Head():
                self.head = self.head or record
            case Moved(to=to):
                self.at = to if not to or to in self.entries else self.at
            case Entry(id=id, parent=parent):
                if id in self.entries:
                    raise ValueError("the id is taken")
                if parent and parent not in self.entries:
                    self.gaps.add(id)
                    record = structs.replace(record, parent=next(reversed(self.entries), ""))
                self.entries[id] = record
                self.at = id
                self.last = max(self.last, int(id) if id.isdecimal() and len(id) < 10 else 0)

    def branch(self) -> tuple[Entry, ...]:
        """The messages that lead to where it stands, oldest first."""
        found = list[Entry]()
        at = self.at
        while entry := self.entries.get(at):  # a parent always stands before its children
            found.append(entry)
            at = entry.parent
        return tuple(reversed(found))


class Session:
    """A conversation that is under way. One process writes it; close it at the end.

    Its file is made with the first message; that of a fork takes over the messages then.
    """

    def __init__(self, cwd: Path, id: str, tree: _Tree | None = None, *, of: str = "") -> None:
        self.id, self.cwd = id, cwd
        self.path = folder(cwd, "sessions") / f"{id}.jsonl"
        self.notices: tuple[str, ...] = ()  # what a user should know about how it was found
        self._of = of
        self._tree = tree or _Tree()
        self._file: Lines | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The messages up to where it stands, with their ids."""
        return self._tree.branch()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The same as a model may be sent them: every call has its result right behind it."""
        return repaired([entry.message for entry in self.entries])

    def add(self, message: Message, model: str = "") -> str:
        """Keep a message, and return its id. Raises AgentError if it can't be kept."""
        if self._file is None:
            self._make()
        entry = Entry(
            id=str(max(self._tree.lines, self._tree.last) + 1),
            parent=self._tree.at,
            time=now(),
            model=model,
            message=message,
        )
        self._write(entry)
        return entry.id

    def rewind(self, to: str) -> str:
        """Go on after the message `to` ("": from the start), and return a warning or "".

        What came later stays in the file. Raises UsageError for what is no message here.
        """
        ids = ["", *(entry.id for entry in self.entries)]
        if to not in ids:
            raise UsageError(f"there is no message {to!r} in this conversation")
        left = ids[ids.index(to) + 1 :]
        if self._file:
            self._write(Moved(to=to, time=now()))
        else:
            self._tree.at = to
        if self._tree.gaps.isdisjoint(left):
            return ""
        return "lines of this conversation are lost between there and here"

    def close(self) -> None:
        if self._file:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _make(self) -> None:
        prepared(self.cwd, "sessions")
        self._file = Lines(self.path, _whole)
        start, self._tree = self.entries, _Tree()
        self._write(Head(id=self.id, cwd=str(self.cwd), time=now(), of=self._of))
        for entry in start:
            self._write(entry)

    def _write(self, record: Record) -> None:
        assert self._file, "it is open"
        try:
            line = _encode(record)
        except UnicodeEncodeError:
            record = encodable(record)
            line = _encode(record)
        self._file.add(line, sync=True)
        self._tree.lines += 1
        self._tree.take(record)


def new(cwd: Path) -> Session:
    """A conversation without any message."""
    while True:
        session = Session(cwd, fresh())
        if not session.path.exists():
            return session


def load(cwd: Path, id: str = "", *, fork: bool = False) -> Session:
    """The conversation of that id, or of the one id that begins so; without one, the newest.

    `fork`: a new one that begins with its messages and leaves it as it is.
    Raises UsageError where it is none or several, or another process writes it.
    """
    found = chosen(id, [each for _, each in _by_use(cwd)], "conversation")
    session = Session(cwd, found)
    if fork:
        tree = _Tree.of(session.path)
        forked = new(cwd)
        session = Session(cwd, forked.id, tree, of=found)
    else:
        session._file = Lines(session.path, _whole)
        tree = session._tree = _Tree.of(session.path)
        tree.torn = session._file.torn > 0
    session.notices = tuple(_notices(tree, cwd))
    return session


def newest(cwd: Path, *, fork: bool = False) -> Session:
    """The conversation that was used last. Raises UsageError where there is none."""
    return load(cwd, fork=fork)


def _notices(tree: _Tree, cwd: Path) -> Iterator[str]:
    if tree.torn:
        yield "the last message of this conversation was cut short, and is dropped"
    if tree.bad:
        where = ", ".join(map(str, tree.bad[:5])) + (" …" if len(tree.bad) > 5 else "")
        yield f"{len(tree.bad)} lines of this conversation can't be read, and are passed over: " + (
            where
        )
    if tree.head and tree.head.cwd != str(cwd):
        yield f"this conversation was begun in {tree.head.cwd}"


def _by_use(cwd: Path) -> list[tuple[float, str]]:
    """The conversations of a directory: when each was used last, and its id; the newest first."""
    directory = folder(cwd, "sessions")
    try:
        used = [((directory / f"{id}.jsonl").stat().st_mtime, id) for id in names(directory)]
    except OSError as error:
        raise failed(directory, error) from error
    return sorted(used, reverse=True)


def listed(cwd: Path) -> list[Summary]:
    """The conversations of a directory, the one used last first."""
    found = []
    for used, id in _by_use(cwd):
        path = folder(cwd, "sessions") / f"{id}.jsonl"
        words, count = "", 0
        for line in lines(path):
            if line.data.startswith(b'{"type":"message"'):
                count += 1
                words = words or _beginning(line.data)
        found.append(Summary(id=id, words=words, count=count, age=max(time.time() - used, 0)))
    return found


def _beginning(line: bytes) -> str:
    """The first words of a user's message; "" for another one."""
    try:
        record = _decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    if not isinstance(record, Entry) or record.message.role != "user":
        return ""
    text = " ".join(record.message.text.split())
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"


def repaired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation, with one result for each call right behind it, in the calls' order.

    A call that was cut off gets one that says so; a result that answers no call is left out, and
    a message of which nothing stays.
    """
    found = list[Message]()
    rest = list(messages)
    while rest:
        message = rest.pop(0)
        if message.role == "user":
            found += _without_results(message)
            continue
        found.append(message)
        if not message.calls:
            continue
        behind = list[Message]()
        while rest and rest[0].role == "user":
            behind.append(rest.pop(0))
        answer = behind.pop(0) if behind and behind[0].results else Message(role="user")
        given = {result.call: result for each in behind for result in each.results}
        given |= {result.call: result for result in answer.results}
        results = tuple(given.get(call.id) or _cut(call) for call in message.calls)
        found.append(structs.replace(answer, results=results))
        for each in behind:
            found += _without_results(each)
    return tuple(found)


def _cut(call: Call) -> Result:
    return Result(call=call.id, text=CUT, ok=False)


def _without_results(message: Message) -> list[Message]:
    bare = structs.replace(message, results=())
    return [bare] if bare.text or bare.images or not message.results else []


def _whole(line: bytes) -> bool:
    try:
        _decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True

"""The tree of messages that a conversation's file holds, and its records.

A message names the one before it, so that a conversation that went back and on from there keeps
both ways. A record of a kind that is not known here, from a later version, is passed over.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import msgspec
from msgspec import Struct, structs

from agent.message import Call, Message, Result
from agent.store.lines import lines

CUT = "interrupted: this call did not come to its end; what it has done is not known"


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


class Titled(Struct, frozen=True, kw_only=True, tag="titled"):
    """The conversation has this title from here on."""

    title: str
    time: str


class Kept(Struct, frozen=True, kw_only=True, tag="kept"):
    """The working tree before or after tools have changed files: what undo goes by."""

    at: str  # the message of the user's that this came of
    tree: str  # id of a git tree in the store of .agent/undo
    moment: Literal["before", "after"]
    time: str


class Begun(Struct, frozen=True, kw_only=True, tag="begun"):
    """A run that the conversation has started."""

    at: str  # the message of the user's that this came of
    run: str
    time: str


class Compacted(Struct, frozen=True, kw_only=True, tag="compacted", omit_defaults=True):
    """From here on a model is sent `messages` instead of the conversation up to the message
    `upto`, which stays as it is."""

    upto: str
    messages: tuple[Message, ...]
    time: str
    covered: int = 0  # how many messages, as a model is sent them, one note stands for
    summed: int = 0  # how many of those are in the summary
    summary: str = ""
    model: str = ""  # that it was made for
    factor: float = 0.0  # tokens of that model in what a message was estimated to weigh


Record: TypeAlias = Head | Entry | Moved | Titled | Kept | Begun | Compacted

KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Record))
FAULTS = (msgspec.DecodeError, ValueError, RecursionError)

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Record).decode


class Tree:
    """What a file holds."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.entries: dict[str, Entry] = {}  # by id, in the order of the file
        self.at = ""  # the message that the next one answers
        self.title = ""
        self.lines = 0
        self.bad: list[int] = []  # lines that can't be read
        self.torn = False  # the last line is cut short
        self.gaps: set[str] = set()  # messages whose parent is lost
        self.lost: dict[str, str] = {}  # those parents, and the message that stood before each
        self.last = 0  # the greatest id, which is a number
        self.compacted: list[Compacted] = []

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read a file. Raises AgentError where it can't be opened."""
        tree = cls()
        for line in lines(path):
            tree.lines = line.number
            if not line.data.strip():
                continue
            try:
                tree.take(decode(line.data))
            except FAULTS:
                if not line.ended:
                    tree.torn = True
                elif not later(line.data):
                    tree.bad.append(line.number)
        return tree

    def take(self, record: Record) -> None:
        """Raises ValueError for a message that is there already."""
        match record:
            case Head():
                self.head = self.head or record
            case Titled(title=title):
                self.title = title
            case Kept() | Begun():
                pass
            case Compacted():
                self.compacted.append(record)
            case Moved(to=to):
                to = self.lost.get(to, to)
                self.at = to if not to or to in self.entries else self.at
            case Entry(id=id, parent=parent):
                if id in self.entries:
                    raise ValueError("the id is taken")
                if parent and parent not in self.entries:
                    self.gaps.add(id)
                    record = structs.replace(record, parent=self.lost.setdefault(parent, self.at))
                self.entries[id] = record
                self.at = id
                self.last = max(self.last, int(id) if id.isdecimal() and len(id) < 10 else 0)

    def compaction(self) -> Compacted | None:
        """The newest one that holds for the messages that lead to where it stands."""
        if not self.compacted:
            return None
        ids = {entry.id for entry in self.branch()}
        return next((each for each in reversed(self.compacted) if each.upto in ids), None)

    def branch(self) -> tuple[Entry, ...]:
        """The messages that lead to where it stands, oldest first."""
        found = list[Entry]()
        at = self.at
        while entry := self.entries.get(at):  # a parent always stands before its children
            found.append(entry)
            at = entry.parent
        return tuple(reversed(found))


def later(line: bytes) -> bool:
    """Whether a line is a record of a kind that is not known here."""
    try:
        read: Any = msgspec.json.decode(line)
    except FAULTS:
        return False
    return (
        isinstance(read, dict) and isinstance(read.get("type"), str) and read["type"] not in KINDS
    )


def whole(line: bytes) -> bool:
    """Whether a last line without its end is all there."""
    try:
        decode(line)
    except FAULTS:
        return later(line)
    return True


def repaired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same conversation, with one result for each call right behind it, in the calls' order.

    A call that was cut off gets one that says so; a result that answers no call is left out, and
    a message of which nothing stays.
    """
    found = list[Message]()
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.role == "user":
            found += _without_results(message)
            continue
        found.append(message)
        if not message.calls:
            continue
        behind = list[Message]()
        while at < len(messages) and messages[at].role == "user":
            behind.append(messages[at])
            at += 1
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
    if not message.results:
        return [message]
    return (
        [structs.replace(message, results=())]
        if message.text or message.attached or message.images
        else []
    )

"""Conversations: a tree of messages each, in a file that is only ever added to.

Every directory has its own, in `.agent/sessions/`. Nothing is made before the first message.
A line that can't be read is passed over and told; what hung on it hangs on the line before.
What the disk refuses is kept here, and written with what comes next.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct

from agent.errors import AgentError, UsageError
from agent.message import Message
from agent.secret import Veil
from agent.store.disk import failed
from agent.store.lines import Lines, encodable, lines, now
from agent.store.tree import (
    FAULTS,
    Begun,
    Compacted,
    Entry,
    Head,
    Kept,
    Moved,
    Record,
    Titled,
    Tree,
    decode,
    encode,
    repaired,
    whole,
)
from agent.store.workspace import chosen, folder, fresh, names, prepared

WORDS = 80  # characters of a conversation's beginning in a list, and of its title
FORK = "--fork-session, or /fork, begins a new one with the same messages"


class Summary(Struct, frozen=True, kw_only=True):
    """A conversation in a list."""

    id: str
    title: str  # that the user gave it; "" for none
    words: str  # how it begins
    count: int  # messages, those of left branches included
    age: float  # seconds since the last one


class Session:
    """A conversation that is under way. One process writes it; close it at the end.

    Its file is made with the first message; that of a fork takes over the messages then. What
    `veil` knows for a secret is not written: whoever goes on with it later does without.
    """

    def __init__(self, cwd: Path, id: str, tree: Tree | None = None, *, of: str = "") -> None:
        self.id, self.cwd = id, cwd
        self.path = folder(cwd, "sessions") / f"{id}.jsonl"
        self.notices: tuple[str, ...] = ()  # what a user should know about how it was found
        self.veil = Veil()
        self._of = of
        self._tree = tree or Tree()
        self._file: Lines | None = None
        self._begun = False  # whether its first lines have been made
        self._waiting = deque[bytes]()  # lines that are still to be written

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The messages up to where it stands, with their ids."""
        return self._tree.branch()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The same as a model may be sent them: every call has its result right behind it."""
        return repaired([entry.message for entry in self.entries])

    @property
    def title(self) -> str:
        """What the user calls it; "" for nothing."""
        return self._tree.title

    @property
    def began(self) -> str:
        """When its first line was written; "" before that."""
        return self._tree.head.time if self._tree.head else ""

    def add(self, message: Message, model: str = "") -> str:
        """Keep a message, and return its id.

        Raises AgentError if it can't be written; it is part of the conversation all the same, and
        is written before the next one.
        """
        self._begin()
        entry = Entry(
            id=str(max(self._tree.lines, self._tree.last) + 1),
            parent=self._tree.at,
            time=now(),
            model=model,
            message=message,
        )
        self._write(entry)
        return entry.id

    def kept(self, at: str, tree: str, moment: Literal["before", "after"]) -> None:
        """Note the working tree of a moment in the turn of the message `at`, for undo.

        Raises AgentError as `add` does.
        """
        self._begin()
        self._write(Kept(at=at, tree=tree, moment=moment, time=now()))

    def started(self, at: str, run: str) -> None:
        """Note a run that the turn of the message `at` has begun. Raises AgentError as `add`."""
        self._begin()
        self._write(Begun(at=at, run=run, time=now()))

    def compact(self, before: tuple[Message, ...], **made: Any) -> bool:
        """Note that a model is sent something else instead of the first messages, `before`; `made`
        are the fields of Compacted but for `upto` and `time`.

        False where they are not those of this conversation: it is not noted then. Raises AgentError
        as `add` does.
        """
        entries = self.entries
        for count in range(len(entries), 0, -1):
            if entries[count - 1].message not in before[-2:]:
                continue  # or the last of `before` is a result that was added where one was missing
            if repaired([entry.message for entry in entries[:count]]) == before:
                self._begin()
                self._write(Compacted(upto=entries[count - 1].id, time=now(), **made))
                return True
        return False

    @property
    def compacted(self) -> tuple[tuple[Message, ...], Compacted] | None:
        """The messages instead of which a model is sent others, and those; None where there are
        none on the way to where it stands."""
        if not (found := self._tree.compaction()):
            return None
        entries = self.entries
        count = next(at for at, entry in enumerate(entries, 1) if entry.id == found.upto)
        return repaired([entry.message for entry in entries[:count]]), found

    def rewind(self, to: str) -> str:
        """Go on after the message `to` ("": from the start), and return a warning or "".

        What came later stays in the file. Raises UsageError for what is no message here.
        """
        ids = ["", *(entry.id for entry in self.entries)]
        if to not in ids:
            raise UsageError(f"there is no message {to!r} in this conversation")
        left = ids[ids.index(to) + 1 :]
        if self._begun:
            self._write(Moved(to=to, time=now()))
        else:
            self._tree.at = to
        if self._tree.gaps.isdisjoint(left):
            return ""
        return "lines of this conversation are lost between there and here"

    def rename(self, title: str) -> None:
        """Give it a title. Raises UsageError for an empty one, AgentError as `add` does."""
        if not (words := " ".join(title.split())):
            raise UsageError("a title has to have a letter in it")
        self._begin()
        self._write(Titled(title=words[:WORDS], time=now()))

    def fork(self) -> "Session":
        """A new conversation that begins with these messages; this one stays as it is.

        Raises AgentError where it can't be written.
        """
        tree = Tree()
        for entry in self.entries:
            tree.take(entry)
        if compacted := self._tree.compaction():
            tree.take(compacted)
        forked = Session(self.cwd, new(self.cwd).id, tree, of=self.id)
        forked.veil = self.veil
        forked._begin()
        forked._catch_up()
        return forked

    def close(self) -> None:
        if self._file:
            with suppress(AgentError):  # which was told when it was added
                self._catch_up()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _begin(self) -> None:
        """Have its first lines ready to be written: those of a fork are its messages."""
        if self._begun:
            return
        self._begun = True
        start, title, compacted = self.entries, self._tree.title, self._tree.compaction()
        self._tree = Tree()
        self._take(Head(id=self.id, cwd=str(self.cwd), time=now(), of=self._of))
        for entry in start:
            self._take(entry)
        if compacted:
            self._take(compacted)
        if title:
            self._take(Titled(title=title, time=now()))

    def _take(self, record: Record) -> None:
        try:
            line = encode(record)
        except UnicodeEncodeError:
            record = encodable(record)
            line = encode(record)
        if self.veil.shows(line):
            line = encode(self.veil.over(record))
        self._tree.lines += 1
        self._tree.take(record)
        self._waiting.append(line)

    def _write(self, record: Record) -> None:
        self._take(record)
        self._catch_up()

    def _catch_up(self) -> None:
        if self._file is None:
            prepared(self.cwd, "sessions")
            self._file = Lines(self.path, whole)
        while self._waiting:
            last = len(self._waiting) == 1  # the others reach the disk with it
            self._file.add(self._waiting[0], sync=last)
            self._waiting.popleft()


def new(cwd: Path) -> Session:
    """A conversation without any message."""
    while True:
        session = Session(cwd, fresh())
        if not session.path.exists():
            return session


def load(cwd: Path, id: str = "", *, fork: bool = False) -> Session:
    """The conversation of that id, that title, or of the one id that begins so; without one, the
    newest.

    `fork`: a new one that begins with its messages and leaves it as it is.
    Raises UsageError where it is none or several, or another process writes it.
    """
    found = meant(cwd, id)
    session = Session(cwd, found)
    if fork:
        tree = Tree.of(session.path)
        forked = new(cwd)
        session = Session(cwd, forked.id, tree, of=found)
    else:
        session._file = Lines(session.path, whole, hint=FORK)
        session._begun = True
        tree = session._tree = Tree.of(session.path)
        tree.torn = session._file.torn > 0
        with suppress(OSError):  # a courtesy: `-c` goes on with the one that was used last
            os.utime(session.path)
    session.notices = tuple(_notices(tree, cwd))
    return session


def newest(cwd: Path, *, fork: bool = False) -> Session:
    """The conversation that was used last. Raises UsageError where there is none."""
    return load(cwd, fork=fork)


def read(cwd: Path, id: str = "") -> Session:
    """The same as `load`, only to be looked at: another process may be writing it."""
    found = meant(cwd, id)
    session = Session(cwd, found)
    session._tree = Tree.of(session.path)
    session.notices = tuple(_notices(session._tree, cwd))
    return session


def remove(cwd: Path, id: str) -> str:
    """Delete a conversation, and return its id.

    Raises UsageError for what `load` does not find, and where another process has it open.
    """
    if not id:
        raise UsageError("which conversation?", hint="`ts sessions` lists them")
    found = meant(cwd, id)
    path = folder(cwd, "sessions") / f"{found}.jsonl"
    with Lines(path, lambda line: True):  # nobody writes it now
        try:
            path.unlink()
        except OSError as error:
            raise failed(path, error) from error
    kept = path.with_suffix(".kept")  # texts that are too long for it; forks name them too
    if kept.is_dir() and not kept.is_symlink() and not _named(cwd, kept.name.encode()):
        shutil.rmtree(kept, ignore_errors=True)
    return found


def _named(cwd: Path, name: bytes) -> bool:
    """Whether a conversation holds a name. Raises AgentError for one that can't be read."""
    directory = folder(cwd, "sessions")
    return any(
        name in line.data for _, id in _by_use(cwd) for line in lines(directory / f"{id}.jsonl")
    )


def meant(cwd: Path, text: str) -> str:
    """The id of the conversation that a text means. Raises UsageError."""
    ids = [each for _, each in _by_use(cwd)]
    if not text or text in ids:
        return chosen(text, ids, "conversation")
    fit = [each.id for each in listed(cwd) if each.title.casefold() == text.casefold()]
    if len(fit) > 1:
        raise UsageError(f"{text!r} is the title of {len(fit)} conversations: {', '.join(fit[:5])}")
    return fit[0] if fit else chosen(text, ids, "conversation")


def _notices(tree: Tree, cwd: Path) -> Iterator[str]:
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
    used = []
    for id in names(directory):
        with suppress(OSError):  # it has just been deleted
            used.append(((directory / f"{id}.jsonl").stat().st_mtime, id))
    return sorted(used, reverse=True)


def listed(cwd: Path) -> list[Summary]:
    """The conversations of a directory, the one used last first; of one that can't be read no more
    than that it is there."""
    found = []
    for used, id in _by_use(cwd):
        path = folder(cwd, "sessions") / f"{id}.jsonl"
        title, words, count = "", "", 0
        with suppress(AgentError):
            for line in lines(path):
                if line.data.startswith(b'{"type":"message"'):
                    count += 1
                    words = words or _beginning(line.data)
                elif line.data.startswith(b'{"type":"titled"'):
                    title = _title(line.data) or title
        age = max(time.time() - used, 0)
        found.append(Summary(id=id, title=title, words=words, count=count, age=age))
    return found


def _beginning(line: bytes) -> str:
    """The first words of a user's message; "" for another one."""
    try:
        record = decode(line)
    except FAULTS:
        return ""
    if not isinstance(record, Entry) or record.message.role != "user":
        return ""
    text = " ".join(record.message.text.split())
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"


def _title(line: bytes) -> str:
    try:
        record = decode(line)
    except FAULTS:
        return ""
    return record.title if isinstance(record, Titled) else ""

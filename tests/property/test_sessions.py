"""Conversations under any use: added to, rewound, forked, cut off in the middle of a write."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.message import Call, Message, Result
from agent.store import sessions
from agent.store.sessions import Session
from tests.property.test_store import messages, names, texts


class Talks(RuleBasedStateMachine):
    """The model: each message by the path that leads to it, as it was said."""

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        self.cwd = Path(self.home.name)
        self.all: dict[str, tuple[list[str], dict[str, Message]]] = {}  # by conversation
        self.worn: set[str] = set()  # conversations of which a line is bad

    @initialize()
    def begin(self) -> None:
        self.take(sessions.new(self.cwd))
        self.add(Message(role="user", text="first"))

    def take(self, session: Session) -> None:
        self.session = session
        self.path, self.said = self.all.setdefault(session.id, ([], {}))

    @rule(message=messages)
    def add(self, message: Message) -> None:
        id = self.session.add(message)
        assert id not in self.said, "an id is never given twice"
        self.said[id] = message
        self.path.append(id)

    @rule(name=names, text=texts)
    def answer(self, name: str, text: str) -> None:
        self.add(Message(role="assistant", calls=(Call(id=name, name="bash"),)))
        self.add(Message(role="user", results=(Result(call=name, text=text),)))

    @rule(share=st.floats(0, 1))
    def rewind(self, share: float) -> None:
        count = int(share * len(self.path))
        self.session.rewind(self.path[count - 1] if count else "")
        del self.path[count:]

    @rule(title=texts.filter(str.strip))
    def rename(self, title: str) -> None:
        self.session.rename(title)

    @rule()
    def fork(self) -> None:
        path, said = [*self.path], dict(self.said)
        self.session.close()
        forked = self.session.fork()
        self.all[forked.id] = [entry.id for entry in forked.entries], {}
        self.take(forked)
        assert [entry.message for entry in forked.entries] == [said[id] for id in path]
        self.said.update((entry.id, entry.message) for entry in forked.entries)

    @rule(message=messages, share=st.floats(0, 0.999))
    def die_while_writing(self, message: Message, share: float) -> None:
        size = self.session.path.stat().st_size if self.session.path.exists() else 0
        id = self.session.add(message)
        self.session.close()
        written = self.session.path.stat().st_size - size
        with self.session.path.open("r+b") as file:
            file.truncate(size + int(written * share))
        if int(written * share) == written - 1:  # all but the end: nothing is lost
            self.said[id] = message
            self.path.append(id)
        self.take(sessions.load(self.cwd, self.session.id))

    @precondition(lambda self: self.said and self.session.id not in self.worn)
    @rule(place=st.integers(0, 99))
    def have_a_line_go_bad(self, place: int) -> None:
        """What hung on it hangs on what stood before it, on its own branch."""
        id = [*self.said][place % len(self.said)]
        self.session.close()
        self.worn.add(self.session.id)
        lines = self.session.path.read_bytes().split(b"\n")
        at = next(at for at, line in enumerate(lines) if f'"id":"{id}","parent"'.encode() in line)
        lines[at] = lines[at][:-2] + b"\0\0"
        self.session.path.write_bytes(b"\n".join(lines))
        del self.said[id]
        self.path[:] = [each for each in self.path if each != id]
        self.take(sessions.load(self.cwd, self.session.id))

    @rule()
    def open_again(self) -> None:
        self.session.close()
        self.take(sessions.load(self.cwd, self.session.id))

    @precondition(lambda self: len(self.all) > 1)
    @rule(place=st.integers(0, 9))
    def turn_to_another(self, place: int) -> None:
        self.session.close()
        self.take(sessions.load(self.cwd, sorted(self.all)[place % len(self.all)]))

    @invariant()
    def it_stands_where_it_was_left(self) -> None:
        assert [entry.id for entry in self.session.entries] == self.path
        assert [entry.message for entry in self.session.entries] == [
            self.said[id] for id in self.path
        ]

    @invariant()
    def each_call_has_its_result(self) -> None:
        asked: tuple[str, ...] = ()
        for message in self.session.messages:
            assert tuple(result.call for result in message.results) == asked
            asked = tuple(call.id for call in message.calls)
        assert not asked

    @invariant()
    def no_line_is_lost(self) -> None:
        if self.session.path.exists():
            found = sessions.read(self.cwd, self.session.id)
            there = {id: entry.message for id, entry in found._tree.entries.items()}
            assert there == self.said
            told = any("1 lines of this conversation" in notice for notice in found.notices)
            assert told is (self.session.id in self.worn)

    def teardown(self) -> None:
        self.session.close()
        self.home.cleanup()


TestTalks = Talks.TestCase
TestTalks.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=15)

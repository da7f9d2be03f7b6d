"""What is stored comes back: plans as YAML, runs as logs, whatever breaks off between."""

import string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.event import Event, StepFinished, StepStarted, Text, ToolStarted
from agent.message import Call, Message, Result
from agent.plan import Permissions, Plan, Shape, Step, faults, variable
from agent.store.log import Log, recorded
from agent.store.planfile import dump, parsed
from agent.store.tree import repaired

texts = st.text(max_size=40) | st.sampled_from(["null", "yes", "1", "- a", "a: b", "a\n\n b\n "])
ids = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=6)
words = st.text(string.ascii_letters + "*/._- ", min_size=1, max_size=12).filter(str.strip)
json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def steps(id: str, before: list[str]) -> st.SearchStrategy[Step]:
    lists = st.lists(words, max_size=2).map(tuple)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "reads": lists,
        "writes": lists,
        "exclusive": lists,
        "tools": lists,
        "attempts": st.integers(1, 9),
        "timeout": st.floats(0.001, 1e6),
        "max_cost_usd": st.floats(1e-9, 100),
        "permissions": st.builds(Permissions, allow=st.lists(texts, max_size=2).map(tuple)),
        "result": st.builds(Shape, schema=st.dictionaries(texts, json, max_size=3)),
        "cache": st.booleans(),
        "verify": texts,
        "given": st.dictionaries(texts, texts, max_size=2),
    }
    if before:
        kinds["needs"] = st.lists(st.sampled_from(before), max_size=3).map(tuple)
    work = st.tuples(st.sampled_from(["do", "run", "skill"]), texts).map(
        lambda pair: {pair[0]: "x" + pair[1]}
    )
    rest = st.fixed_dictionaries({}, optional=kinds)
    return st.builds(lambda work, rest: Step(id=id, **work, **rest), work, rest)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    found = draw(st.lists(ids, min_size=1, max_size=4, unique_by=variable))
    return Plan(
        name=draw(st.sampled_from(["", "a", "fix-it"])),
        description=draw(texts),
        arguments=tuple(draw(st.lists(words, max_size=2))),
        match=tuple(draw(st.lists(texts, max_size=2))),
        goal=draw(texts),
        steps=tuple(draw(steps(id, found[:number])) for number, id in enumerate(found)),
    )


@settings(max_examples=settings().max_examples // 2)
@given(plans())
def test_a_plan_is_read_back_from_its_yaml_as_it_was(plan: Plan) -> None:
    if not list(faults(plan)):
        assert parsed(dump(plan).encode(), "p.yaml") == plan


events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Text, text=texts, step=ids),
    st.builds(StepStarted, step=ids, attempt=st.integers(1, 3)),
    st.builds(StepFinished, step=ids, status=st.just("done"), summary=texts),
    st.builds(ToolStarted, id=ids, name=ids, input=st.dictionaries(texts, json, max_size=2)),
)


class Journal(RuleBasedStateMachine):
    """Events are kept; the process dies in the middle of a write, or a bit turns over."""

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        self.path = Path(self.home.name) / "r.jsonl"
        self.shown: list[Event] = []
        self.lost = 0

    @initialize()
    def begin(self) -> None:
        self.log = Log(self.path, [self.shown.append])

    @rule(event=events)
    def keep(self, event: Event) -> None:
        self.log(event)

    @rule(event=events, share=st.floats(0, 0.999))
    def die_while_writing(self, event: Event, share: float) -> None:
        size = self.path.stat().st_size
        self.log(event)
        self.shown.pop()
        self.log.close()
        written = self.path.stat().st_size - size
        with self.path.open("r+b") as file:
            file.truncate(size + int(written * share))
        if written and int(written * share) == written - 1:  # all but the end: nothing is lost
            self.shown.append(recorded(self.path).events[-1])
        self.begin()

    @rule()
    def open_again(self) -> None:
        self.log.close()
        self.begin()

    @invariant()
    def what_was_shown_is_kept(self) -> None:
        record = recorded(self.path)
        assert list(record.events) == self.shown
        assert not record.faults
        assert [event.seq for event in self.shown] == list(range(1, len(self.shown) + 1))

    def teardown(self) -> None:
        self.log.close()
        self.home.cleanup()


TestJournal = Journal.TestCase
TestJournal.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=15)


@given(kept=st.lists(events, min_size=1, max_size=4), data=st.data())
def test_a_bit_that_turns_over_is_seen(kept: list[Event], data: st.DataObject) -> None:
    with TemporaryDirectory() as home:
        path = Path(home) / "r.jsonl"
        with Log(path) as log:
            before = [log(event) for event in kept]
        raw = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(raw)

        record = recorded(path)

        assert all(event in before for event in record.events)
        if len(record.events) < len(before):
            assert record.faults or record.torn or record.seq < len(before)
        else:  # the bit was in the last line's end
            assert place == len(raw) - 1


names = st.sampled_from(["1", "2", "3"])
calls = st.builds(Call, id=names, name=st.just("bash"))
answers = st.builds(Result, call=names, text=texts)
messages = st.one_of(
    st.builds(
        Message,
        role=st.just("user"),
        text=texts,
        results=st.lists(answers, max_size=3).map(tuple),
    ),
    st.builds(
        Message,
        role=st.just("assistant"),
        text=texts,
        calls=st.lists(calls, max_size=3, unique_by=lambda call: call.id).map(tuple),
    ),
)


@given(st.lists(messages, max_size=8))
def test_whatever_was_cut_each_call_has_its_result_right_behind_it(said: list[Message]) -> None:
    mended = repaired(said)
    assert repaired(mended) == mended
    asked: tuple[str, ...] = ()
    for message in mended:
        assert tuple(result.call for result in message.results) == asked
        asked = tuple(call.id for call in message.calls)
    assert not asked
    assert [one for one in mended if one.role == "assistant"] == [
        one for one in said if one.role == "assistant"
    ]
    assert "".join(one.text for one in mended) == "".join(one.text for one in said)

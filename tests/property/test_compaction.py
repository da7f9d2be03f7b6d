"""Any conversation, any window: what is sent is valid, fits, stays, and has the user's words."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.engine.compaction import Means, compacted
from agent.engine.fitting import Fit, Model
from agent.engine.tokens import Gauge, weight_of, weight_of_all
from agent.errors import ModelError
from agent.message import Message, Request
from agent.seams import Provider
from agent.store.tree import repaired
from tests.conform.recorded import corpora
from tests.conversations import faults, recorded, talk, user

FOLDER = corpora()


def sound(
    messages: tuple[Message, ...], room: float, *, summary: str = "S", whole: float = 0
) -> None:
    """Raise AssertionError unless what is made of the messages is as it has to be."""
    texts = dict[str, str]()

    def keep(text: str) -> str:
        texts[path := f"kept/{len(texts)}"] = text
        return path

    means = Means(room=room, keep=keep, summarise=lambda before, messages: summary)
    sent = compacted(messages, None, means).sent(messages)
    whole = whole or weight_of_all(messages)
    assert not faults(sent)
    assert weight_of_all(sent) <= max(whole, room)
    if whole > room > 2000:
        assert weight_of_all(sent) <= room
    there = "\n".join([*(message.text for message in sent), *texts.values()])
    assert all(each.text.strip() in there for each in messages if each.role == "user")


def ending(messages: tuple[Message, ...], at: int) -> tuple[Message, ...]:
    """A conversation that has come to `at`, as it goes on from there."""
    cut = repaired(messages[:at])
    return cut if cut[-1].results else (*cut, user("go on"))


@settings(max_examples=settings().max_examples // 2)
@given(
    seed=st.integers(0, 10_000),
    turns=st.integers(1, 25),
    share=st.floats(0, 1),
    room=st.integers(600, 60_000),
    summary=st.sampled_from(["", "S", "S" * 300]),
)
def test_any_conversation_is_valid_after_it(
    seed: int, turns: int, share: float, room: int, summary: str
) -> None:
    messages = talk(seed, turns)
    sound(ending(messages, 1 + int(share * (len(messages) - 1))), room, summary=summary)


@settings(max_examples=settings().max_examples // 12)
@given(seed=st.integers(0, 10_000), size=st.integers(3000, 20_000))
def test_what_fits_is_left_and_beginnings_stay_between_two_times(seed: int, size: int) -> None:
    told = list[str]()

    fit = Fit(lambda text: "kept/x")
    model = Model(gauge=Gauge("a/b", size), small=no_summary, tell=told.append)
    messages = talk(seed, 1)
    before: tuple[Message, ...] = ()
    for number in range(8):
        messages = (*messages, user(f"go on {number}"))
        count = len(told)
        request = Request(system="s", messages=messages)
        sent = fit.fitted(request, model)
        assert fit.fitted(request, model) == sent, "what fits is left as it is"
        assert not faults(sent.messages)
        if len(told) == count:
            assert sent.messages[: len(before)] == before
        before = sent.messages
        messages = (
            *messages,
            Message(role="assistant", text="yes"),
            *talk(20_000 + seed + number, 1),
        )


def no_summary() -> tuple[Provider, Gauge]:
    raise ModelError("none")


def test_every_cut_of_a_conversation_is_valid_after_it() -> None:
    messages = talk(11, 9)
    for at in range(1, len(messages) + 1):
        sound(ending(messages, at), (900, 3000, 9000)[at % 3])


@pytest.mark.skipif(FOLDER is None, reason="needs the corpora: set TS_CORPORA to their folder")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["before-compaction", "large-session"])
def test_every_cut_of_a_recorded_session_is_valid_after_it(name: str) -> None:
    assert FOLDER is not None
    messages = repaired(recorded(FOLDER / "pi-sessions-and-skills" / f"{name}.jsonl"))
    assert len(messages) > 800
    heavy = accumulate(map(weight_of, messages))
    for at, whole in enumerate(heavy, 1):
        sound(ending(messages, at), (5000, 12_000, 60_000)[at % 3], whole=whole)

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.engine.chat import Talk, converse
from agent.errors import BudgetError, ModelError, ServiceError, StoppedError, ToolError
from agent.event import Event, Text, ToolFinished, ToolStarted
from agent.message import Call, Image, Message, Reply, Request
from agent.providers.script import Script
from agent.stop import INTERRUPTED, Stop
from agent.tool import Context, Outcome, Tool, tool
from tests.plans import calls


@tool(writes=False)
def greet(context: Context, name: str, loud: bool = False) -> str:
    """Greet someone.

    name: who
    loud: whether to shout
    """
    if name == "nobody":
        raise ToolError("there is nobody to greet; name someone")
    if name == "disk":
        raise OSError(28, "No space left on device")
    if name == "bug":
        raise KeyError("a bug of ours")
    if name == "stop":
        context.stop.set(INTERRUPTED)
        context.stop.check()
    return "" if name == "quiet" else f"hello {name}" + "!" * loud


@tool(writes=False)
def end(context: Context, why: str) -> Outcome:
    """End it.

    why: the reason
    """
    return Outcome(
        text=f"ended: {why}", ends=True, images=(Image(media_type="image/png", data=""),)
    )


TOOLS: dict[str, Tool] = {each.name: each for each in (greet, end)}


class Talked:
    """A conversation with a script: what was said, kept and told."""

    def __init__(self, home: Path, *replies: Reply | str | Exception, turns: int = 20) -> None:
        self.model = Script(replies)
        self.events = list[Event]()
        self.kept = list[Message]()
        self.context = Context(cwd=home.resolve(), stop=Stop())
        self._turns = turns

    def talk(self) -> Talk:
        request = Request(system="s", messages=(Message(role="user", text="go"),))
        return converse(
            request,
            self.model,
            TOOLS,
            self.context,
            self.events.append,
            turns=self._turns,
            keep=self.kept.append,
        )

    @property
    def results(self) -> list[tuple[bool, str]]:
        return [(result.ok, result.text) for each in self.kept for result in each.results]


Start = Callable[..., Talked]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def begin(*replies: Reply | str | Exception, **more: Any) -> Talked:
        return Talked(tmp_path, *replies, **more)

    return begin


def test_a_reply_without_a_call_ends_the_conversation(start: Start) -> None:
    talked = start("done")
    talk = talked.talk()
    assert (talk.reply.message.text, talk.ended_by, talk.outcome) == ("done", None, "")
    assert [message.text for message in talk.request.messages] == ["go", "done"]
    assert talked.kept == [talk.request.messages[-1]]
    assert talked.events == [Text(text="done")]


def test_a_call_is_answered_and_the_model_asked_again_with_all_of_it(start: Start) -> None:
    talked = start(calls("greet", name="Li", loud="true"), calls("greet", name="quiet"), "done")
    talk = talked.talk()
    assert talked.results == [(True, "hello Li!"), (True, "(no output)")]
    assert len(talked.model.requests) == 3
    assert talked.model.requests[2].messages == talk.request.messages[:-1]
    assert talk.request.messages[1:] == tuple(talked.kept)
    started, finished = talked.events[:2]
    assert isinstance(started, ToolStarted)
    assert isinstance(finished, ToolFinished)
    assert started.input == {"name": "Li", "loud": "true"}
    assert (started.id, finished.ok, finished.output) == (finished.id, True, "hello Li!")


def test_calls_of_one_reply_are_all_answered_in_their_order(start: Start) -> None:
    three = tuple(
        Call(id=f"c{n}", name="greet", input={"name": name})
        for n, name in enumerate(("Li", "nobody", "Mo"))
    )
    reply = Reply(message=Message(role="assistant", text="Hm.", calls=three), stop="calls")
    talked = start(reply, "done")
    talked.talk()
    assert [result.call for result in talked.kept[1].results] == ["c0", "c1", "c2"]
    assert [result.ok for result in talked.kept[1].results] == [True, False, True]


def test_a_tool_may_end_the_conversation_and_the_other_calls_are_answered_too(
    start: Start,
) -> None:
    both = (
        Call(id="c1", name="end", input={"why": "enough"}),
        Call(id="c2", name="greet", input={"name": "Li"}),
    )
    talked = start(Reply(message=Message(role="assistant", calls=both), stop="calls"), "never")
    talk = talked.talk()
    assert talk.ended_by == both[0]
    assert talk.outcome == "ended: enough"
    assert talked.results == [(True, "ended: enough"), (True, "hello Li")]
    assert talked.kept[1].results[0].images == (Image(media_type="image/png", data=""),)
    assert len(talked.model.requests) == 1


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (calls("greet", name="nobody"), "there is nobody to greet; name someone"),
        (calls("greet", name="disk"), "No space left on device"),
        (calls("greet"), "missing required field `name`. Its arguments: {"),
        (calls("greet", name="Li", lout=True), "unknown field `lout`. Its arguments: {"),
        (calls("greet", name=["Li"]), "Expected `str`, got `array`"),
        (calls("greed", name="Li"), "there is no tool 'greed'; did you mean 'greet'? There are"),
        (
            Reply(
                message=Message(
                    role="assistant", calls=(Call(id="1", name="greet", fault="cut at byte 3"),)
                ),
                stop="calls",
            ),
            "greet was not run: cut at byte 3. Its arguments: {",
        ),
    ],
)
def test_what_goes_wrong_with_a_call_is_told_to_the_model_which_goes_on(
    start: Start, reply: Reply, words: str
) -> None:
    talked = start(reply, "I see")
    assert talked.talk().reply.message.text == "I see"
    ((ok, text),) = talked.results
    assert not ok
    assert words in text


def test_c052_a_tool_that_is_not_there_is_answered_with_those_that_are_and_then_told_once(
    start: Start,
) -> None:
    wrong = [calls("str_replace_based_edit") for _ in range(12)]
    talked = start(*wrong)
    with pytest.raises(ModelError, match="the same result 4 times in a row") as told:
        talked.talk()
    assert "str_replace_based_edit" in str(told.value)
    assert len(talked.model.requests) == 4
    finished = [event for event in talked.events if isinstance(event, ToolFinished)]
    assert all(not event.ok and "There are: greet, end" in event.output for event in finished)
    assert ["do something else" in event.output for event in finished] == [False] * 2 + [
        True,
        False,
    ]
    assert len(talked.results) == 4, "what was done until then is kept"
    talked = start(*wrong[:3], "I have no such tool")
    assert talked.talk().reply.message.text == "I have no such tool"


@pytest.mark.parametrize("names", [("Li", "Mo"), ("Li", "Mo", "Bo")], ids=str)
def test_calls_that_take_turns_with_the_same_results_are_repetition_too(
    start: Start, names: tuple[str, ...]
) -> None:
    talked = start(*[calls("greet", name=name) for _ in range(9) for name in names])
    with pytest.raises(ModelError, match="the same calls of greet gave the same result 4 times"):
        talked.talk()
    told = ["do something else" in text for _, text in talked.results]
    assert told == [n == 3 * len(names) for n in range(1, 4 * len(names) + 1)]


def test_another_result_or_another_call_between_is_no_repetition(start: Start) -> None:
    names = [name for n in range(4) for name in ("Li", "Li", f"Mo{n}")]
    talked = start(*[calls("greet", name=name) for name in names], "done")
    talked.talk()
    assert not any("do something else" in text for _, text in talked.results)


def test_what_a_model_says_before_it_was_told_is_not_held_against_it(start: Start) -> None:
    same = tuple(Call(id=f"c{n}", name="greet", input={"name": "Li"}) for n in range(6))
    talked = start(Reply(message=Message(role="assistant", calls=same), stop="calls"), "done")
    assert talked.talk().reply.message.text == "done"
    assert sum("do something else" in text for _, text in talked.results) == 1


def test_each_turn_of_a_chat_begins_anew(start: Start) -> None:
    talked = start(*[calls("greet", name="Li"), "done"] * 6)
    for _ in range(6):
        talked.talk()
    assert not any("do something else" in text for _, text in talked.results)


def test_a_conversation_has_at_most_so_many_turns(start: Start) -> None:
    talked = start(calls("greet", name="a"), calls("greet", name="b"), "late", turns=2)
    with pytest.raises(BudgetError) as told:
        talked.talk()
    assert told.value.what == "turns"
    assert len(talked.model.requests) == 2
    assert len(talked.results) == 2, "what was said until then is kept"
    assert (
        start(calls("greet", name="a"), "in time", turns=2).talk().reply.message.text == "in time"
    )


def test_a_model_that_refuses_ends_the_conversation_with_its_words(start: Start) -> None:
    talked = start(Reply(message=Message(role="assistant", text="I won't."), stop="refused"))
    with pytest.raises(ModelError) as told:
        talked.talk()
    assert told.value.hint == "I won't."
    assert talked.kept[0].text == "I won't."


def test_a_service_s_failure_is_the_caller_s_to_judge(start: Start) -> None:
    with pytest.raises(ServiceError, match="overloaded"):
        start(calls("greet", name="a"), ServiceError("overloaded")).talk()


def test_a_stop_ends_the_conversation_between_replies_and_in_a_tool(start: Start) -> None:
    talked = start(calls("greet", name="stop"), "never")
    with pytest.raises(StoppedError) as told:
        talked.talk()
    assert told.value.exit_code == INTERRUPTED
    talked = start("never")
    talked.context.stop.set(INTERRUPTED)
    with pytest.raises(StoppedError):
        talked.talk()
    assert not talked.model.requests


def test_a_bug_in_a_tool_is_not_hidden_from_us(start: Start) -> None:
    with pytest.raises(KeyError):
        start(calls("greet", name="bug")).talk()

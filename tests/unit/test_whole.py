from collections.abc import Iterable

import pytest
from msgspec import structs

from agent.engine.whole import PIECES, whole
from agent.errors import CutError, ModelError
from agent.message import Call, Message, Reply, Request, Say, Stop, Thought, Usage
from agent.providers.script import Script

REQUEST = Request(system="", messages=(Message(role="user", text="hi"),))
CALL = Call(id="a", name="bash", fault="it was cut")


def reply(
    text: str = "",
    stop: Stop = "end",
    *calls: Call,
    thoughts: Iterable[str] = (),
    full: bool = False,
) -> Reply:
    own = tuple(Thought(text=each) for each in thoughts)
    message = Message(role="assistant", text=text, calls=calls, thoughts=own)
    usage = Usage(input_tokens=10, output_tokens=1)
    return Reply(message=message, usage=usage, stop=stop, full=full, model="fake/m")


def filled(text: str, *calls: Call) -> Reply:
    """A reply that reached the token limit."""
    return reply(text, "length", *calls, full=True)


def quiet(text: str) -> None:
    pass


def test_a_whole_reply_is_passed_on() -> None:
    call = reply("", "calls", Call(id="a", name="bash"))
    for good in (reply("text"), call, reply("", "refused")):
        assert whole(Script([good]))(REQUEST, quiet) == good


@pytest.mark.parametrize(
    "lacking",
    [reply("cut of", "length"), reply(), reply(" \n"), reply(thoughts=["hm"]), reply("", "calls")],
    ids=["cut", "empty", "blank", "thinking", "no-calls"],
)
def test_a_lacking_reply_is_asked_for_again_with_the_same_request(lacking: Reply) -> None:
    told: list[str] = []
    model = Script([lacking, lacking, "hello"])
    assert whole(model, tell=told.append)(REQUEST, quiet).message.text == "hello"
    assert model.requests == [REQUEST] * 3
    assert ["(2 of 3)" in told[0], "(3 of 3)" in told[1]] == [True, True]


def test_a_reply_that_lacks_each_time_is_an_error_that_helps() -> None:
    model = Script([reply("cut of", "length")] * 3)
    with pytest.raises(CutError, match="cut before its end, 3 times") as caught:
        whole(model)(REQUEST, quiet)
    assert "smaller pieces" in caught.value.hint


def test_a_text_that_reaches_the_limit_again_is_continued_and_comes_as_one() -> None:
    pieces: list[str] = []
    last = structs.replace(reply("ur."), usage=Usage(input_tokens=30, output_tokens=1))
    model = Script([filled("One tw"), filled("One two, thr"), filled("ee, fo"), last])
    got = whole(model)(REQUEST, pieces.append)
    assert got.message == Message(role="assistant", text="One two, three, four.")
    assert (got.stop, got.full) == ("end", False)
    assert got.usage == Usage(input_tokens=10, output_tokens=1), "how large the request was"
    one, two, three, four = model.requests
    assert one == two == REQUEST
    assert [message.text for message in three.messages[:2]] == ["hi", "One two, thr"]
    assert "Go on exactly where it stopped" in three.messages[2].text
    assert [message.text for message in four.messages[:2]] == ["hi", "One two, three, fo"]
    assert len(four.messages) == 3


def test_a_text_that_never_ends_is_given_up() -> None:
    model = Script([filled("more ")] * 99)
    with pytest.raises(CutError, match=f"{PIECES + 1} times"):
        whole(model)(REQUEST, quiet)


def test_a_call_behind_a_continued_text_is_part_of_it() -> None:
    last = reply("lo.", "calls", Call(id="b", name="bash"))
    model = Script([filled("x"), filled("Hel"), last])
    got = whole(model)(REQUEST, quiet)
    assert (got.message.text, got.message.calls, got.stop) == (
        "Hello.",
        last.message.calls,
        "calls",
    )


def test_a_cut_call_is_asked_for_in_smaller_pieces() -> None:
    small = reply("", "calls", Call(id="b", name="bash"))
    model = Script([filled("I write.", CALL), filled("I write.", CALL), small])
    assert whole(model)(REQUEST, quiet).message == small.message, "nothing else enters"
    asked, said, results = model.requests[-1].messages
    assert (asked, said.calls) == (REQUEST.messages[0], (CALL,))
    [result] = results.results
    assert (result.call, result.ok) == ("a", False)
    assert "smaller" in result.text


def test_r79_a_cut_call_is_asked_for_in_smaller_pieces_twice_and_never_run() -> None:
    model = Script([filled("", CALL)] * 9)
    with pytest.raises(CutError, match="4 times"):
        whole(model)(REQUEST, quiet)
    assert [len(request.messages) for request in model.requests] == [1, 1, 3, 5]


def test_thinking_that_reached_the_limit_is_nothing_to_go_on_with() -> None:
    empty = reply("", "length", thoughts=["hm"], full=True)
    model = Script([empty] * 9)
    with pytest.raises(CutError, match="2 times"):
        whole(model)(REQUEST, quiet)


def test_errors_pass_through() -> None:
    def broken(request: Request, say: Say) -> Reply:
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        whole(broken)(REQUEST, quiet)

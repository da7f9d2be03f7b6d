"""What holds for a reply of any service, however it comes."""

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.engine.whole import whole
from agent.errors import CutError
from agent.message import Call, Image, Message, Reply, Request, Result, Usage
from agent.seams import Provider
from tests.conform.wires import STREAMED, WIRES, Wire, asked, heard
from tests.servers import Answer, Server

every = pytest.mark.parametrize("wire", WIRES, ids=repr)
streamed = pytest.mark.parametrize("wire", STREAMED, ids=repr)
READ = ("t1", "read_file", '{"path": "a.py"}')
LIST = ("t2", "bash", '{"command": "ls"}')
PIXEL = Image(media_type="image/png", data="aGVsbG8=")


def sent(server: Server, at: int = -1) -> Any:
    return server.requests[at].json


@every
def test_a_text_is_said_and_returned(wire: Wire) -> None:
    with wire.server(Answer("Grüße, 世界 😀!")) as server:
        reply, pieces = heard(wire.provider(server), asked("hi"))
    assert reply == Reply(
        message=Message(role="assistant", text="Grüße, 世界 😀!"),
        usage=Usage(input_tokens=100, output_tokens=20),
        stop="end",
        model="fake/model",
    )
    assert "".join(pieces) == "Grüße, 世界 😀!"


@every
def test_calls_come_in_their_order(wire: Wire) -> None:
    with wire.server(Answer("I look.", calls=(READ, LIST))) as server:
        reply, pieces = heard(wire.provider(server), asked("hi"))
    assert reply.stop == "calls"
    assert reply.message.text == "".join(pieces) == "I look."
    assert reply.message.calls == (
        Call(id="t1", name="read_file", input={"path": "a.py"}),
        Call(id="t2", name="bash", input={"command": "ls"}),
    )


@streamed
def test_signs_of_life_are_given_while_no_text_comes(wire: Wire) -> None:
    with wire.server(Answer(thinking="Let me think about it.", calls=(READ,))) as server:
        _, pieces = heard(wire.provider(server), asked("hi"))
    assert len(pieces) > 5
    assert not any(pieces)


@every
def test_a_call_without_arguments_has_none(wire: Wire) -> None:
    with wire.server(Answer(calls=(("t1", "bash", ""),))) as server:
        reply, _ = heard(wire.provider(server), asked("hi"))
    assert reply.message.calls == (Call(id="t1", name="bash"),)
    assert reply.stop == "calls"


@every
def test_what_a_cache_served_is_counted_apart(wire: Wire) -> None:
    with wire.server(Answer("x", usage=(7, 5, 900, 60))) as server:
        reply, _ = heard(wire.provider(server), asked("hi"))
    assert reply.usage == Usage(
        input_tokens=7,
        output_tokens=5,
        cache_read_input_tokens=900,
        cache_creation_input_tokens=60,
    )


@every
def test_results_go_back_right_after_their_calls_in_the_same_order(wire: Wire) -> None:
    with wire.server(Answer(calls=(READ, LIST)), Answer("done")) as server:
        provider = wire.provider(server)
        first = asked("hi")
        reply, _ = heard(provider, first)
        results = (Result(call="t2", text="", ok=False), Result(call="t1", text="print(1)"))
        told = Message(role="user", results=results, text="and hurry")
        heard(provider, asked(*first.messages, reply.message, told))
    messages = sent(server)["messages"]
    if wire.anthropic:
        blocks = messages[-1]["content"]
        assert [block["type"] for block in blocks] == ["tool_result", "tool_result", "text"]
        assert [block["tool_use_id"] for block in blocks[:2]] == ["t1", "t2"]
        assert blocks[1]["content"] == "(no output)"
        assert [block.get("is_error", False) for block in blocks[:2]] == [False, True]
    else:
        assert messages[-3:] == [
            {"role": "tool", "tool_call_id": "t1", "content": "print(1)"},
            {"role": "tool", "tool_call_id": "t2", "content": "(no output)"},
            {"role": "user", "content": "and hurry"},
        ]


@every
def test_c064_a_tool_that_printed_nothing_has_no_empty_result(wire: Wire) -> None:
    call = Message(role="assistant", calls=(Call(id="t1", name="bash", input={}),))
    told = Message(role="user", results=(Result(call="t1", text=" \n"),))
    with wire.server(Answer("done")) as server:
        heard(wire.provider(server), asked("hi", call, told))
    assert "(no output)" in str(sent(server)["messages"][-1])


@every
def test_images_go_with_a_user_s_words_and_with_results(wire: Wire) -> None:
    call = Message(role="assistant", calls=(Call(id="t1", name="read_file", input={}),))
    told = Message(role="user", results=(Result(call="t1", text="a picture", images=(PIXEL,)),))
    with wire.server(Answer("nice")) as server:
        shown = Message(role="user", text="what is it?", images=(PIXEL,))
        heard(wire.provider(server), asked(shown, call, told))
    messages = [each for each in unmarked(sent(server)["messages"]) if each["role"] != "system"]
    if wire.anthropic:
        source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
        picture = {"type": "image", "source": source}
        assert messages[0]["content"][-1] == picture
        assert messages[2]["content"][0]["content"][-1] == picture
    else:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
        assert messages[0]["content"][-1] == picture
        assert messages[3]["content"][-1] == picture


@every
def test_a_tool_can_be_demanded(wire: Wire) -> None:
    with wire.server(Answer(calls=(LIST,))) as server:
        provider = wire.provider(server, thinking_tokens=2000)
        reply, _ = heard(provider, asked("hi", must="bash"))
    assert reply.message.calls
    choice = sent(server)["tool_choice"]
    assert choice.get("name") == "bash" or choice["function"] == {"name": "bash"}
    assert "thinking" not in sent(server)


@every
def test_c068_thinking_goes_back_with_the_results(wire: Wire) -> None:
    with wire.server(Answer(thinking="r1", calls=(READ,)), Answer("done")) as server:
        provider = wire.provider(server, thinking_tokens=2000)
        first = asked("hi")
        reply, _ = heard(provider, first)
        told = Message(role="user", results=(Result(call="t1", text="print(1)"),))
        heard(provider, asked(*first.messages, reply.message, told))
    [thought] = reply.message.thoughts
    assert thought.text == "r1"
    [said] = [each for each in sent(server)["messages"] if each["role"] == "assistant"]
    if wire.anthropic:
        block = {"type": "thinking", "thinking": "r1", "signature": "sig"}
        assert said["content"][0] == block
        assert sent(server)["thinking"]["budget_tokens"] == 2000
    else:
        assert said["reasoning_content"] == "r1"


@every
def test_equal_requests_have_equal_bytes_and_longer_ones_begin_with_them(wire: Wire) -> None:
    with wire.server(Answer("x")) as server:
        provider = wire.provider(server)
        for _ in range(2):
            heard(provider, asked("hi"))
        said = Message(role="assistant", text="x")
        heard(provider, asked("hi", said, "go on"))
    one, two, longer = (each.json for each in server.requests)
    assert str(one) == str(two)
    assert str(longer["tools"]) == str(one["tools"])
    assert str(longer.get("system")) == str(one.get("system"))
    assert unmarked(longer["messages"][: len(one["messages"])]) == unmarked(one["messages"])


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


@every
@pytest.mark.parametrize(
    "empty",
    [Answer(), Answer(thinking="hmm"), Answer(stop="calls"), Answer(" \n")],
    ids=["nothing", "thinking", "calls-but-none", "blanks"],
)
def test_c058_r83_an_empty_reply_is_asked_for_again_and_is_never_the_answer(
    wire: Wire, empty: Answer
) -> None:
    if empty.stop == "calls":
        empty = Answer(stop="tool_use" if wire.anthropic else "tool_calls")
    with wire.server(empty) as server:
        with pytest.raises(CutError, match="3 times") as caught:
            heard(whole(wire.provider(server)), asked("hi"))
        assert "smaller pieces" in caught.value.hint
    assert len(server.requests) == 3
    assert len({str(each.json) for each in server.requests}) == 1


@every
def test_c058_nothing_empty_is_sent_back(wire: Wire) -> None:
    empty = Message(role="assistant", text="")
    with wire.server(Answer("x")) as server:
        heard(wire.provider(server), asked("hi", empty, "still there?", empty, "?"))
    assert "still there?\n\n?" in str(sent(server)["messages"][-1]).replace("\\n", "\n")


CUT = '{"path": "big.py", "content": "def main():\\n    pri'
LENGTH = {True: "max_tokens", False: "length"}
ENDED = {True: "tool_use", False: "stop"}


@streamed
@pytest.mark.parametrize(
    ("stop", "raw"),
    [("length", CUT), ("ended", CUT), (None, CUT), ("length", '{"path": "big.py"}')],
    ids=["limit", "said-to-be-whole", "no-reason", "limit-but-readable"],
)
def test_c056_r79_a_cut_call_is_never_run(wire: Wire, stop: str | None, raw: str) -> None:
    words = {"length": LENGTH[wire.anthropic], "ended": ENDED[wire.anthropic]}
    cut = Answer(calls=(("t1", "write_file", raw),), stop=words.get(stop or ""))
    with wire.server(cut) as server:
        reply, _ = heard(wire.provider(server), asked("hi"))
        [call] = reply.message.calls
        assert call.fault
        assert "smaller pieces" in call.fault
        if stop == "ended":
            assert (reply.stop, call.input) == ("calls", {})
            return
        assert reply.stop == "length"
        full = stop == "length"
        with pytest.raises(CutError, match=f"cut before its end, {4 if full else 3} times"):
            heard(whole(wire.provider(server)), asked("hi"))
    assert len(server.requests) == (5 if full else 4)
    sent = [str(each.json["messages"]) for each in server.requests]
    assert sent[0] == sent[1] == sent[2], "at first with the identical request"
    if full:  # then in smaller pieces, twice at most
        assert ["smaller" in each for each in sent] == [False, False, False, True, True]


@streamed
@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"command": "ls"}}}', "Extra data"),
        ('{"command": "a", "command": "b"}', "'command' stands there twice"),
        ('{"n": NaN}', "NaN"),
        ('["ls"]', "JSON object"),
        ("ls -l", "no valid JSON"),
        ("[" * 100_000, "nested"),
    ],
)
def test_r80_arguments_are_read_strictly_and_never_mended(wire: Wire, raw: str, fault: str) -> None:
    with wire.server(Answer(calls=(("t1", "bash", raw), LIST), size=500)) as server:
        reply, _ = heard(wire.provider(server), asked("hi"))
    broken, good = reply.message.calls
    assert broken.input == {}
    assert fault in broken.fault
    assert (good.input, good.fault) == ({"command": "ls"}, "")


@every
def test_r82_every_call_has_an_id_of_its_own(wire: Wire) -> None:
    twice = (("t1", "bash", "{}"), ("t1", "bash", "{}"), ("", "bash", "{}"))
    before = Message(role="assistant", calls=(Call(id="t1", name="bash"),))
    told = Message(role="user", results=(Result(call="t1", text="x"),))
    with wire.server(Answer(calls=twice), Answer("done")) as server:
        provider = wire.provider(server)
        first = asked("hi", before, told)
        reply, _ = heard(provider, first)
        ids = [call.id for call in reply.message.calls]
        assert len({*ids, "t1"}) == 4
        results = tuple(Result(call=id, text=id) for id in ids)
        again = Message(role="user", results=results)
        heard(provider, asked(*first.messages, reply.message, again))


@streamed
def test_halves_of_a_character_in_two_pieces_become_the_character(wire: Wire) -> None:
    halves = Answer("ab\ud83d\ude00cd\ud83d", size=3)  # the pieces: ab+half, half+cd, half
    with wire.server(halves) as server:
        reply, pieces = heard(wire.provider(server), asked("hi"))
    assert reply.message.text == "ab😀cd\ufffd"
    assert "".join(pieces) == "ab😀cd"


def text() -> st.SearchStrategy[str]:
    odd = st.sampled_from("\ud83d\ude00\udfff\x00\u2028é a")
    return st.text(odd | st.characters(codec="utf-8"), max_size=6)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """Any messages: calls without results, results without calls, nothing at all."""
    ids = st.sampled_from(["a", "b", "c", "x:1", "y" * 90])
    calls = st.builds(Call, id=ids, name=text(), input=st.dictionaries(text(), text(), max_size=2))
    results = st.builds(Result, call=ids, text=text(), ok=st.booleans())
    fresh = count()

    def message() -> Message:
        if draw(st.booleans()):
            return Message(role="user", text=draw(text()), results=(*draw(st.lists(results)),))
        own = [
            Call(id=f"{call.id}{next(fresh)}", name=call.name, input=call.input)
            for call in draw(st.lists(calls, max_size=3))
        ]
        return Message(role="assistant", text=draw(text()), calls=(*own,))

    return tuple(message() for _ in range(draw(st.integers(0, 6))))


@streamed
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=conversations(), system=text())
def test_any_conversation_at_all_is_sent_in_a_form_that_the_service_takes(
    wire: Wire, messages: tuple[Message, ...], system: str, running: dict[str, Any]
) -> None:
    if wire.name not in running:
        running[wire.name] = wire.server(Answer("x")).__enter__()
        running[wire.name + "!"] = wire.provider(running[wire.name])
    server: Server = running[wire.name]
    provider: Provider = running[wire.name + "!"]
    reply = provider(Request(system=system, messages=messages), lambda piece: None)
    assert reply.message.text == "x"
    assert not server.refused


@pytest.fixture(scope="module")
def running() -> Any:
    servers: dict[str, Any] = {}
    yield servers
    for server in servers.values():
        if isinstance(server, Server):
            server.__exit__(None, None, None)

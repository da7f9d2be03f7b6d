"""What is Anthropic's own: pauses, refusals, marks, and what each model family takes."""

from typing import Any

import pytest

from agent.message import Call, Message, Reply, Result, Thought
from agent.providers.anthropic import Manner, site
from tests.conform.wires import STREAMED, asked, heard
from tests.servers import Answer, Plain, Server, sse

WIRE = STREAMED[0]
KIND = {"content-type": "text/event-stream"}
LIST = ("t1", "bash", '{"command": "ls"}')


def stream(*blocks: dict[str, Any], stop: str, details: Any = None) -> Plain:
    """A reply of whole blocks, in this order."""
    message = {"usage": {"input_tokens": 3, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_details": details}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}})
    events.append({"type": "message_stop"})
    return Plain(200, b"".join(sse(str(each["type"]), each) for each in events), KIND)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": f"signed {words}"}


def use(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "bash", "input": {"command": id}}


def unmarked(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: block[key] for key in block if key != "cache_control"} for block in content]


def test_r83_a_reply_that_pauses_is_taken_up_again() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web", "input": {}}
    server = WIRE.server(
        stream(text("One, "), search, stop="pause_turn"), stream(text("two."), stop="end_turn")
    )
    with server:
        reply, pieces = heard(WIRE.provider(server), asked("hi"))
    assert (reply.message.text, reply.stop) == ("One, two.", "end")
    assert "".join(pieces) == "One, two."
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (6, 10)
    assert server.requests[1].json["messages"][-1] == {
        "role": "assistant",
        "content": [text("One, "), search],
    }


def test_r83_a_reply_that_pauses_for_ever_is_cut() -> None:
    with WIRE.server(stream(text("x"), stop="pause_turn")) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert reply.stop == "length"
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("stop", "means"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("something_new", "end"),
        ("refusal", "refused"),
    ],
)
def test_every_reason_to_stop_has_a_meaning(stop: str, means: str) -> None:
    with WIRE.server(stream(text("x"), stop=stop)) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert reply.stop == means


def test_a_refusal_says_why_and_runs_nothing() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Too dangerous."}
    with WIRE.server(stream(stop="refusal", details=details)) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert reply.stop == "refused"
    assert "Too dangerous." in reply.message.text


def test_r79_a_call_in_a_reply_that_stopped_for_something_else_is_not_run() -> None:
    for stop in ("max_tokens", "stop_sequence", "something_new"):
        with WIRE.server(stream(use("t1"), stop=stop)) as server:
            reply, _ = heard(WIRE.provider(server), asked("hi"))
        assert reply.stop == "length"
        assert reply.message.calls[0].fault


def test_r82_blocks_and_events_that_nobody_knows_are_passed_over() -> None:
    odd = {"type": "hologram", "data": "x"}
    with WIRE.server(stream(odd, text("x"), stop="end_turn")) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert reply.message == Message(role="assistant", text="x")


def test_thinking_goes_back_in_the_order_in_which_it_came() -> None:
    redacted = {"type": "redacted_thinking", "data": "secret"}
    blocks = (thinking("a"), text("I look."), thinking("b"), use("t1"), redacted, use("t2"))
    with WIRE.server(stream(*blocks, stop="tool_use"), Answer("done")) as server:
        provider = WIRE.provider(server, thinking_tokens=2000)
        first = asked("hi")
        reply, _ = heard(provider, first)
        results = tuple(Result(call=call.id, text="ok") for call in reply.message.calls)
        heard(
            provider, asked(*first.messages, reply.message, Message(role="user", results=results))
        )
    assert server.requests[1].json["messages"][1]["content"] == [*blocks]


def test_thinking_of_another_service_is_not_sent() -> None:
    said = Message(role="assistant", text="x", thoughts=(Thought(text="unsigned"),))
    with WIRE.server(Answer("done")) as server:
        heard(WIRE.provider(server), asked("hi", said, "go on"))
    assert server.requests[0].json["messages"][1]["content"] == [text("x")]


def test_no_thinking_is_asked_for_after_a_call_that_was_made_without() -> None:
    call = Message(role="assistant", calls=(Call(id="t1", name="bash"),))
    told = Message(role="user", results=(Result(call="t1", text="x"),))
    with WIRE.server(Answer("done")) as server:
        provider = WIRE.provider(server, thinking_tokens=2000)
        heard(provider, asked("hi", call, told))
        heard(provider, asked("hi", call, told, Message(role="assistant", text="y"), "go on"))
    assert ["thinking" in each.json for each in server.requests] == [False, True]


def test_the_cache_s_marks_move_on_with_the_conversation() -> None:
    said = Message(role="assistant", text="x")
    with WIRE.server(Answer("x")) as server:
        provider = WIRE.provider(server)
        heard(provider, asked("one"))
        heard(provider, asked("one", said, "two", said, "three"))
    for each in (server.requests[0].json, server.requests[1].json):
        assert "cache_control" in each["tools"][-1]
        assert "cache_control" in each["system"][-1]
    marked = [
        "cache_control" in message["content"][-1]
        for message in server.requests[1].json["messages"]
        if message["role"] == "user"
    ]
    assert marked == [False, True, True]


def test_nothing_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/evil")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-evil: 1\nauthorization: Bearer evil")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with WIRE.server(Answer("x")) as server:
        heard(WIRE.provider(server), asked("hi"))
    [ask] = server.requests
    assert ask.headers["authorization"] == "Bearer k-1"
    assert "evil" not in str(ask.headers)
    assert "environment" not in str(ask.headers)


@pytest.mark.parametrize(
    ("model", "adaptive", "thinks"),
    [
        ("claude-3-7-sonnet-20250219", False, False),
        ("claude-sonnet-4-5-20250929", False, False),
        ("claude-opus-4-20250514", False, False),
        ("claude-opus-4-6", True, False),
        ("claude-sonnet-5", True, True),
        ("claude-opus-5-5", True, True),
        ("claude-haiku-5-5-20261007", True, True),
        ("anthropic.claude-sonnet-4.6", True, False),
        ("glm-5", False, False),
    ],
)
def test_a_model_s_name_says_how_it_thinks(model: str, adaptive: bool, thinks: bool) -> None:
    manner = Manner.of(model)
    assert (manner.adaptive, manner.thinks) == (adaptive, thinks)


def test_a_model_that_thinks_by_itself_has_room_for_it() -> None:
    with WIRE.server(Answer("x")) as server:
        heard(WIRE.provider(server, model="claude-new-5-5", max_output_tokens=1000), asked("hi"))
        heard(WIRE.provider(server, model="claude-old-4-5", max_output_tokens=1000), asked("hi"))
    new, old = (each.json for each in server.requests)
    assert new["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert (new["max_tokens"], old["max_tokens"]) == (1000 + 16_384, 1000)
    assert "thinking" not in old


def learning(refuses: Any, *answers: Answer) -> Server:
    server = WIRE.server(*answers, lenient=True)
    server.refuses = refuses
    return server


def test_a_model_whose_tools_can_not_be_forced_is_told_in_words() -> None:
    def refuses(body: dict[str, Any]) -> str:
        forced = "tool_choice" in body
        return 'tool_choice: type "tool" and "any" are not supported for this model.' * forced

    with learning(refuses, Answer(calls=(LIST,))) as server:
        provider = WIRE.provider(server, model="claude-new-5-5")
        reply, _ = heard(provider, asked("hi", must="bash"))
        heard(provider, asked("hi", must="bash"))
    assert reply.message.calls
    assert len(server.requests) == 3  # the second time it is known
    assert "calling the tool bash" in server.requests[2].json["messages"][-1]["content"][-1]["text"]


def test_a_model_that_takes_no_budget_thinks_without_one() -> None:
    def refuses(body: dict[str, Any]) -> str:
        if body.get("thinking", {}).get("type") != "enabled":
            return ""
        return '"thinking.type.enabled" is not supported for this model.'

    with learning(refuses, Answer("x")) as server:
        heard(WIRE.provider(server, model="claude-preview", thinking_tokens=3000), asked("hi"))
    assert [each.json["thinking"]["type"] for each in server.requests] == ["enabled", "adaptive"]


def test_thinking_that_is_not_taken_back_is_left_out_from_then_on() -> None:
    def refuses(body: dict[str, Any]) -> str:
        if "bound elsewhere" not in str(body["messages"]):
            return ""
        return "Invalid `signature` in `thinking` block. It is bound to another conversation."

    def said(words: str) -> Message:
        return Message(role="assistant", text="x", thoughts=(Thought(text="hm", signature=words),))

    with learning(refuses, Answer("y")) as server:
        provider = WIRE.provider(server)
        reply, _ = heard(provider, asked("hi", said("bound elsewhere"), "go on"))
        heard(provider, asked("hi", said("bound elsewhere"), "go on", said("fine"), "and on"))
    assert isinstance(reply, Reply)
    assert len(server.requests) == 3
    assert "fine" in str(server.requests[2].json)
    assert "bound elsewhere" not in str(server.requests[2].json)


def test_any_other_refusal_is_asked_once() -> None:
    with learning(lambda body: "max_tokens: 16384 > 4096", Answer("x")) as server:
        provider = WIRE.provider(server)
        with pytest.raises(Exception, match="16384 > 4096"):
            heard(provider, asked("hi", must="bash"))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "url",
    [
        "https://host",
        "https://host/",
        "https://host/v1",
        "https://host/v1/",
        "https://host/v1/messages",
        " host ",
    ],
)
def test_c065_the_base_url_may_be_typed_in_any_form(url: str) -> None:
    assert site(url).rstrip("/") == "https://host"
    assert site("https://host/anthropic/v1") == "https://host/anthropic"

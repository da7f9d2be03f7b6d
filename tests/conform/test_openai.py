"""What is chat completions' own: many servers, each with rules and habits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent.errors import ModelError, UsageError
from agent.message import Call, Message, Result, Thought
from agent.providers.openai import OpenAI, site
from agent.providers.services import remember
from agent.providers.wire import Dialect, Endpoint
from agent.store.manners import Manners
from tests.conform.wires import STREAMED, asked, heard
from tests.servers import Answer, Ask, OpenAIServer, Plain, Server, failing, sse

WIRE = STREAMED[1]
KIND = {"content-type": "text/event-stream"}


def chunks(*deltas: dict[str, Any], stop: str | None = "stop", **more: Any) -> Plain:
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}], **more}
    body = b"".join(sse("", each) for each in [*events, last])
    return Plain(200, body + b"data: [DONE]\n\n", KIND)


def piece(arguments: Any, *, name: str = "", **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"tool_calls": [{"function": function, **more}]}


def calls(answer: Plain) -> list[tuple[str, dict[str, Any], str]]:
    with WIRE.server(answer) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert reply.stop == "calls"
    return [(call.name, call.input, call.fault) for call in reply.message.calls]


def test_a_call_without_an_index_belongs_to_the_last_one() -> None:
    answer = chunks(
        piece('{"a"', name="one", id="x"), piece(": 1}"), piece('{"b": 2}', name="two", id="y")
    )
    assert calls(answer) == [("one", {"a": 1}, ""), ("two", {"b": 2}, "")]


def test_calls_that_share_an_index_are_told_apart_by_their_ids() -> None:
    answer = chunks(
        piece('{"a": 1}', name="one", id="x", index=0),
        piece('{"b": 2}', name="two", id="y", index=0),
    )
    assert calls(answer) == [("one", {"a": 1}, ""), ("two", {"b": 2}, "")]


def test_an_id_and_a_name_that_are_said_with_every_piece_begin_no_new_call() -> None:
    answer = chunks(
        piece('{"a"', name="one", id="x", index=0), piece(": 1}", name="one", id="x", index=0)
    )
    assert calls(answer) == [("one", {"a": 1}, "")]


def test_calls_without_ids_begin_where_the_last_one_is_complete() -> None:
    answer = chunks(
        piece('{"a"', name="one", id=""),
        piece(": 1}", id=""),
        piece('{"b": 2}', name="two", id=""),
    )
    assert calls(answer) == [("one", {"a": 1}, ""), ("two", {"b": 2}, "")]


def test_pieces_of_parallel_calls_may_come_mixed() -> None:
    answer = chunks(
        piece('{"a"', name="one", id="x", index=0),
        piece('{"b"', name="two", id="y", index=1),
        piece(": 1}", index=0),
        piece(": 2}", index=1),
        stop="tool_calls",
    )
    assert calls(answer) == [("one", {"a": 1}, ""), ("two", {"b": 2}, "")]


def test_arguments_that_came_as_an_object_are_taken() -> None:
    assert calls(chunks(piece({"a": 1}, name="one", id="x"))) == [("one", {"a": 1}, "")]


def test_a_call_without_a_name_is_answered_and_never_run() -> None:
    [(name, _, fault)] = calls(chunks(piece("{}", id="x")))
    assert name == ""
    assert "names no tool" in fault


def test_what_gemini_wants_back_with_a_call_goes_back() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    answer = chunks(piece("{}", name="bash", id="x", extra_content=extra))
    with WIRE.server(answer, Answer("done")) as server:
        provider = WIRE.provider(server)
        first = asked("hi")
        reply, _ = heard(provider, first)
        told = Message(role="user", results=(Result(call="x", text="ok"),))
        heard(provider, asked(*first.messages, reply.message, told))
    [call] = server.requests[1].json["messages"][2]["tool_calls"]
    assert call["extra_content"] == extra


def test_thinking_is_read_under_each_of_its_names() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "c"}]}]
    answer = chunks(
        {"reasoning_content": "a"},
        {"reasoning": "b"},
        {"content": parts},
        {"content": [{"type": "text", "text": "x"}]},
    )
    with WIRE.server(answer) as server:
        reply, pieces = heard(WIRE.provider(server), asked("hi"))
    assert reply.message == Message(role="assistant", text="x", thoughts=(Thought(text="abc"),))
    assert pieces == ["", "", "", "", "x"]


@pytest.mark.parametrize(
    ("stop", "means"),
    [
        ("stop", "end"),
        ("STOP", "end"),
        ("length", "length"),
        ("content_filter", "refused"),
        ("something_new", "end"),
        ("tool_calls", "length"),
        (None, "length"),
    ],
)
def test_every_reason_to_stop_has_a_meaning(stop: str | None, means: str) -> None:
    with WIRE.server(chunks({"content": "x"}, stop=stop)) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert reply.stop == means


def test_calls_that_came_whole_count_though_the_reason_to_stop_never_came() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    answer = chunks(piece("{}", name="one", id="0", index=0), stop=None, usage=usage)
    assert calls(answer) == [("one", {}, "")]


def test_an_error_in_a_chunk_is_no_reply() -> None:
    error = {"message": "Provider returned error", "code": 502}
    answer = Plain(200, sse("", {"error": error, "choices": []}), KIND)
    with WIRE.server(answer) as server:
        provider = WIRE.provider(server)
        with pytest.raises(ModelError, match="Provider returned error") as caught:
            heard(provider, asked("hi"))
    assert caught.value.retry_after == 0.0


def test_cached_tokens_are_counted_apart_as_deepseek_names_them() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 64}
    with WIRE.server(chunks({"content": "x"}, usage=usage)) as server:
        reply, _ = heard(WIRE.provider(server), asked("hi"))
    assert (reply.usage.input_tokens, reply.usage.cache_read_input_tokens) == (36, 64)


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/api/v1", "/api/v1/chat/completions"),
        ("/v1beta/openai/", "/v1beta/openai/chat/completions"),
    ],
)
def test_c065_the_base_url_may_be_typed_in_any_form(typed: str, called: str) -> None:
    with WIRE.server(Answer("x"), lenient=True) as server:
        server.path = called
        for base in (server.url, server.url.removeprefix("http://")):
            endpoint = Endpoint(name="fake/m", model="m", url=base + typed, key="k")
            heard(OpenAI(endpoint), asked("hi"))
    assert {ask.path for ask in server.requests} == {called}


@pytest.mark.parametrize("typed", ["", "http://", "ftp://host", "http://ho st/v1", "http://h:x"])
def test_what_is_no_url_is_said(typed: str) -> None:
    with pytest.raises(UsageError, match="no base URL"):
        site(typed)


NOTE = Message(role="user", text="(a note from the program)")
DENIED = (
    Message(role="assistant", text="I try.", calls=(Call(id="t1", name="bash"),)),
    Message(role="user", results=(Result(call="t1", text="not allowed", ok=False),)),
)


@pytest.mark.parametrize(
    "messages",
    [
        ("one", "two"),
        ("one", Message(role="assistant", text=""), "two"),
        ("one", *DENIED, "two"),
        ("one", *DENIED, NOTE, "two", NOTE),
        (NOTE, "one", DENIED[0], "two"),
    ],
    ids=["interrupted", "interrupted-empty", "denied", "notes", "interrupted-in-a-call"],
)
def test_c067_strict_rules_about_roles_are_kept(messages: tuple[Message | str, ...]) -> None:
    with WIRE.server(Answer("x")) as server:  # refuses what breaks them
        heard(WIRE.provider(server), asked(*messages))
    last = server.requests[0].json["messages"][-1]
    assert "two" in last["content"]


def test_c067_a_server_without_a_system_role_gets_the_prompt_with_the_first_words() -> None:
    with WIRE.server(Answer("x")) as server:
        endpoint = Endpoint(name="fake/m", model="m", url=server.url, key="k")
        heard(OpenAI(endpoint, Dialect(system=False)), asked("hi"))
    assert server.requests[0].json["messages"] == [{"role": "user", "content": "You help.\n\nhi"}]


RULES = {
    "stream_options": "Unrecognized request argument supplied: stream_options",
    "max_tokens": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    "reasoning_content": "messages.2: property 'reasoning_content' is unsupported",
    "tool_choice": "Invalid tool_choice type: 'object'. Supported string values: none, required",
    "system": "System role not supported",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_field_that_a_server_refuses_is_left_out_from_then_on(rule: str) -> None:
    def refuses(body: dict[str, Any]) -> str:
        there = {
            "tool_choice": isinstance(body.get("tool_choice"), dict),
            "system": body["messages"][0]["role"] == "system",
        }.get(rule, f'"{rule}"' in json.dumps(body))
        return RULES[rule] if there else ""

    server = WIRE.server(Answer("x"), lenient=True)
    server.refuses = refuses
    said = Message(role="assistant", text="y", thoughts=(Thought(text="hm"),))
    with server:
        provider = WIRE.provider(server)
        for _ in range(2):
            heard(provider, asked("hi", said, "go on", must="bash"))
    assert len(server.requests) == 3
    assert len(server.refused) == 1


TURNS = (
    Message(
        role="assistant",
        text="I look.",
        calls=(Call(id="a", name="bash", input={"n": 1}), Call(id="b", name="bash")),
    ),
    Message(role="user", results=(Result(call="a", text="one"), Result(call="b", text="two"))),
)


def several(body: dict[str, Any]) -> bool:
    return any(len(each.get("tool_calls") or ()) > 1 for each in body["messages"])


def roles(body: dict[str, Any]) -> list[str]:
    return [each["role"] for each in body["messages"]]


REFUSALS: dict[str, tuple[Callable[[dict[str, Any]], bool], int, str]] = {
    "ollama's tools": (
        lambda body: "tools" in body,
        400,
        "registry.ollama.ai/library/gemma:2b does not support tools",
    ),
    "vllm's tools": (
        lambda body: "tools" in body,
        400,
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    ),
    "llama.cpp's tools": (lambda body: "tools" in body, 500, "tools param requires --jinja flag"),
    "a field that is unknown": (
        lambda body: "tools" in body,
        422,
        "body.tools: Extra inputs are not permitted",
    ),
    "a template's turns": (
        lambda body: "tool" in roles(body),
        500,
        "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...",
    ),
    "a template's system": (
        lambda body: "system" in roles(body),
        500,
        "Jinja Exception: System role not supported",
    ),
    "a template's calls": (
        several,
        500,
        "Jinja Exception: This model only supports single tool-calls at once!",
    ),
    "streaming": (
        lambda body: bool(body["stream"]),
        400,
        "Unsupported value: 'stream' does not support true with this model",
    ),
}


def refusing(rule: str) -> Server:
    """A server that refuses something; else it calls a tool, in text where it is offered none."""
    refused, status, words = REFUSALS[rule]

    def answer(ask: Ask) -> Plain | Answer:
        if refused(ask.json):
            return failing(status, "invalid_request_error", words)
        if ask.json.get("tools"):
            return Answer(calls=(("c", "bash", '{"n": 2}'),))
        return Answer('<tool_call>{"name": "bash", "arguments": {"n": 2}}</tool_call>')

    return OpenAIServer(answer)


@pytest.mark.parametrize("rule", REFUSALS)
def test_what_a_server_refuses_is_found_out_once_and_done_without(rule: str) -> None:
    with refusing(rule) as server:
        provider = WIRE.provider(server)
        for must in ("", "bash", ""):
            reply, pieces = heard(provider, asked("hi", *TURNS, "go on", must=must))
            [call] = reply.message.calls
            assert (call.name, call.input, reply.stop) == ("bash", {"n": 2}, "calls")
            assert "".join(pieces) == ""
    refused = [REFUSALS[rule][0](ask.json) for ask in server.requests]
    assert refused == [True, False, False, False]


SHAPE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("strict", [True, False])
def test_a_service_that_keeps_replies_to_a_schema_is_given_it(strict: bool) -> None:
    schema = SHAPE | {"additionalProperties": not strict}
    with WIRE.server(Answer('{"n": 3}')) as server:
        endpoint = Endpoint(name="fake/m", model="m", url=server.url, key="k")
        request = structs.replace(asked("hi", must="bash"), schema=schema)
        reply, _ = heard(OpenAI(endpoint, Dialect(schemas=True)), request)
    body = server.requests[0].json
    assert reply.message.text == '{"n": 3}'
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert body["response_format"]["json_schema"]["strict"] is strict
    assert not {"tools", "tool_choice"} & {*body}


def test_one_that_refuses_a_schema_is_asked_by_a_tool() -> None:
    def answer(ask: Ask) -> Plain | Answer:
        if "response_format" in ask.json:
            words = "'response_format' of type 'json_schema' is not supported with this model"
            return failing(400, "invalid_request_error", words)
        return Answer(calls=(("c", "bash", '{"n": 3}'),))

    with OpenAIServer(answer) as server:
        endpoint = Endpoint(name="fake/m", model="m", url=server.url, key="k")
        provider = OpenAI(endpoint, Dialect(schemas=True))
        request = structs.replace(asked("hi", must="bash"), schema=SHAPE)
        for _ in range(2):
            reply, _ = heard(provider, request)
            assert [call.input for call in reply.message.calls] == [{"n": 3}]
    assert ["response_format" in ask.json for ask in server.requests] == [True, False, False]


def test_a_tool_that_is_not_called_though_it_has_to_be_is_forced_by_its_schema() -> None:
    def answer(ask: Ask) -> Answer:
        return Answer('{"n": 3}' if "response_format" in ask.json else "I would rather talk.")

    with OpenAIServer(answer) as server:
        endpoint = Endpoint(name="fake/m", model="m", url=server.url, key="k")
        provider = OpenAI(endpoint, Dialect(reads=True, schemas=True))
        for calls in (2, 1):
            reply, _ = heard(provider, asked("hi", must="bash"))
            assert reply.usage.output_tokens == 20 * calls
            assert [(call.name, call.input) for call in reply.message.calls] == [("bash", {"n": 3})]
        reply, _ = heard(provider, asked("hi"))
        assert reply.message.text == "I would rather talk."
    assert ["response_format" in ask.json for ask in server.requests] == [False, True, True, False]


def test_tools_that_are_refused_are_told_of_and_their_results_come_as_words() -> None:
    with refusing("ollama's tools") as server:
        heard(WIRE.provider(server), asked("hi", *TURNS, must="bash"))
    system, first, calls, results = server.requests[-1].json["messages"]
    assert "<tool_call>" in system["content"]
    assert '{"name": "bash", "description": "d"' in system["content"]
    assert first["content"] == "hi"
    assert calls["content"].startswith("I look.\n<tool_call>\n{")
    assert results["role"] == "user"
    assert "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo" in results["content"]
    assert "calling the tool bash" in results["content"]


def test_calls_that_may_not_stand_together_are_sent_one_after_another() -> None:
    with refusing("a template's calls") as server:
        heard(WIRE.provider(server), asked("hi", *TURNS, "go on"))
    sent = server.requests[-1].json["messages"]
    expected = ["system", "user", "assistant", "tool", "assistant", "tool", "user"]
    assert [each["role"] for each in sent] == expected
    assert [each.get("content") for each in sent if each["role"] == "tool"] == ["one", "two"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "tools.3.function.parameters: invalid schema for tool 'bash'"),
        (400, "messages.4: tool_call_ids did not have response messages"),
        (500, "internal error in the tool parser"),
        (404, "model 'x' does not support tools"),
        (400, "temperature: unsupported"),
    ],
)
def test_a_refusal_for_another_reason_teaches_nothing(status: int, words: str) -> None:
    answer = failing(status, "invalid_request_error", words)
    with WIRE.server(answer) as server, pytest.raises(ModelError):
        heard(WIRE.provider(server), asked("hi", *TURNS, "go on"))
    assert len(server.requests) == 1


def test_what_was_found_out_outlives_the_process(tmp_path: Path) -> None:
    with refusing("ollama's tools") as server:
        for day in ("2026-11-01", "2026-11-20", "2026-12-02"):
            provider = WIRE.provider(server)
            remember(provider, Manners(tmp_path, day))
            heard(provider, asked("hi"))
            if day == "2026-11-20":
                assert len(server.requests) == 3  # it went by what was known
    assert len(server.requests) == 5  # after a month it was asked again
    file = tmp_path / ".cache/tianshu/servers.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text(encoding="utf-8")) == {
        f"fake/model {server.url}/v1": {"date": "2026-12-02", "takes": {"tools": False}}
    }


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fake/model": 3}', "\0" * 9])
def test_a_file_of_what_was_found_out_that_is_broken_counts_as_nothing(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / ".cache/tianshu/servers.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    memory = Manners(tmp_path)
    assert memory.recall("fake/model") == {}
    memory.keep("fake/model", {"tools": False})
    assert memory.recall("fake/model") == {"tools": False}


def test_a_server_without_keys_is_asked_without_one() -> None:
    with WIRE.server(Answer("x")) as server:
        endpoint = Endpoint(name="fake/m", model="m", url=server.url)
        heard(OpenAI(endpoint, keyless=True), asked("hi"))
    assert "authorization" not in server.requests[0].headers

"""Calls that stand in a model's text: which are read, and that its pieces don't matter."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from agent.message import Call
from agent.providers.openai import OpenAI
from agent.providers.wire import Dialect, Endpoint
from agent.providers.written import Reader
from tests.conform.recorded import corpora
from tests.conform.wires import STREAMED, asked, heard
from tests.servers import Answer

WIRE = STREAMED[1]
HERE = corpora()
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}}
TOOLS = [
    {"name": name, "description": "d", "input_schema": COMMAND if name == "bash" else {}}
    for name in ("bash", "list_files", "write_file", "todo")
]


class Read(Struct, frozen=True):
    calls: list[tuple[str, dict[str, Any]]]
    faults: list[str]
    text: str
    thought: str
    said: str


def read(*pieces: str) -> Read:
    reader = Reader(TOOLS)
    said = "".join([*(reader.add(piece) for piece in pieces), reader.end()])
    return Read(
        [(call.name, call.input) for call in reader.calls],
        [call.fault for call in reader.calls],
        reader.text,
        reader.thought,
        said,
    )


def cut(text: str, at: list[int]) -> list[str]:
    places = [0, *sorted({each % (len(text) + 1) for each in at}), len(text)]
    return [text[one:two] for one, two in pairwise(places)]


LS: list[tuple[str, dict[str, Any]]] = [("bash", {"command": "ls"})]
JSON = '{"name": "bash", "arguments": {"command": "ls"}}'

ONE = {
    "hermes": f"<tool_call>\n{JSON}\n</tool_call>",
    "hermes without an end": f"<tool_call>\n{JSON}\n",
    "a list": f"<tool_call>[{JSON}]</tool_call>",
    "nemotron": f"<TOOLCALL>[{JSON}]</TOOLCALL>",
    "granite": f"<|tool_call|>[{JSON}]",
    "arguments as a text": '<tool_call>{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}',
    "qwen coder": "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
    "\n</tool_call>",
    "a stray end": "<function=bash>\n<parameter=command>ls</parameter>\n</function>\n</tool_call>",
    "seed": "<seed:tool_call>\n<function=bash>\n<parameter=command>ls</parameter>\n</function>\n"
    "</seed:tool_call>",
    "llama's function": '<function=bash>{"command": "ls"}</function>',
    "llama's tag": '<|python_tag|>{"name": "bash", "parameters": {"command": "ls"}}<|eom_id|>',
    "llama, bare": '{"name": "bash", "parameters": {"command": "ls"}}',
    "bare as it is sent": '{"type": "function", "function": {"name": "bash", "arguments": '
    '"{\\"command\\": \\"ls\\"}"}}',
    "in a fence": f"```json\n{JSON}\n```",
    "in a fence of calls": f"```tool_call\n{JSON}\n```",
    "mistral": f"[TOOL_CALLS][{JSON}]",
    "mistral's name": '[TOOL_CALLS]bash[ARGS]{"command": "ls"}',
    "mistral's id": '[TOOL_CALLS]bash[CALL_ID]123456789[ARGS]{"command": "ls"}',
    "deepseek": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{"command": "ls"}'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek r1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n"
    '```json\n{"command": "ls"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    '<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>',
    "glm": "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="bash">\n<parameter name="command">ls</parameter>'
    "\n</invoke>\n</minimax:tool_call>",
    "minimax m3": ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="bash">'
    "]<]minimax[>[<command>ls]<]minimax[>[</command>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    "gemma": '<|tool_call>call:bash{command:<|"|>ls<|"|>}<tool_call|>',
    "lfm": '<|tool_call_start|>[bash(command="ls")]<|tool_call_end|>',
    "llama 4": '[bash(command="ls")]',
    "apertus": '<|tools_prefix|>[{"bash": {"command": "ls"}}]<|tools_suffix|>',
    "firefunction": f" functools[{JSON}]",
    "gigachat": f"<|message_sep|>\n\nfunction call<|role_sep|>\n{JSON}",
    "gpt-oss": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
    'to=functions.bash <|constrain|>json<|message|>{"command": "ls"}<|call|>',
    "after thinking": f"<think>I could <tool_call> now</think>\n<tool_call>{JSON}</tool_call>",
    "bare after thinking": f"<think>hm</think>\n{JSON}",
    "a comma too many": '<tool_call>{"name": "bash", "arguments": {"command": "ls",},}</tool_call>',
    "python's quotes": "<tool_call>{'name': 'bash', 'arguments': {'command': 'ls'}}</tool_call>",
    "a bracket too few": '<tool_call>{"name": "bash", "arguments": {"command": "ls"}</tool_call>',
}


@pytest.mark.parametrize("form", ONE)
def test_c053_a_call_in_any_form_is_read_and_never_shown(form: str) -> None:
    for pieces in ([ONE[form]], [*ONE[form]], cut(ONE[form], list(range(0, 999, 3)))):
        found = read(*pieces)
        assert (found.calls, found.text, found.said.strip(), found.faults) == (LS, "", "", [""])


def test_c053_the_texts_of_the_case_give_one_one_and_two_calls() -> None:
    first = read(
        'I\'ll look first.\n<tool_call>\n{"name": "list_files", "arguments": {"path": "."}}'
        "\n</tool_call>"
    )
    assert (first.calls, first.text) == ([("list_files", {"path": "."})], "I'll look first.")
    second = read(
        "<function=bash>\n<parameter=command>\nprintf 'a<b && c>d\\n'\n</parameter>\n"
        "</function>\n</tool_call>"
    )
    assert second.calls == [("bash", {"command": "printf 'a<b && c>d\\n'"})]
    one = '<tool_call>{"name":"glob","arguments":{"pattern":"%s"}}</tool_call>'
    third = read(one % "*" + one % "*.py")
    assert third.calls == [("glob", {"pattern": "*"}), ("glob", {"pattern": "*.py"})]


NONE = {
    "advice": "To remove it you could run this yourself:\n\n```json\n"
    '{"name": "bash", "arguments": {"command": "rm keep.txt"}}\n```\n\nbut I advise against it.',
    "the end of advice": f"You could say:\n```json\n{JSON}\n```",
    "code that was asked for": f"Qwen's form is\n```xml\n<tool_call>\n{JSON}\n</tool_call>\n```\n",
    "between backticks": f"Write `<tool_call>{JSON}</tool_call>` for it.",
    "between quotes": f'It begins with "<tool_call>" and then {JSON} follows.',
    "words about marks": "A <tool_call> tag begins a call and </tool_call> ends it.",
    "a mark alone": "<tool_call>",
    "half a mark": "a <tool_c",
    "data": '{"name": "bash", "version": "5.2"}',
    "another's tool": '{"name": "delete_all", "arguments": {}}',
    "other JSON": '{"answer": 42, "name": "bash"}',
    "a list of numbers": "[1, 2, 3]",
    "a link": "[bash](https://example.org)",
    "a function of the language": "[print(x) for x in y]",
    "python": '```python\n[bash(command="ls")]\n```',
    "a fence that is open": "```",
    "a tag within a text": 'The tag <think> is read, and {"a": "</think>"} is not.',
    "white space": "  \n",
}


@pytest.mark.parametrize("kind", NONE)
def test_c055_no_call_is_made_up_from_prose_code_or_data(kind: str) -> None:
    for pieces in ([NONE[kind]], [*NONE[kind]]):
        found = read(*pieces)
        assert (found.calls, found.text, found.said) == ([], NONE[kind], NONE[kind])


BROKEN = {
    "quotes within": '<tool_call>{"name": "bash", "arguments": {"command": "a "b""}}</tool_call>',
    "bare, quotes within": '{"name": "bash", "arguments": {"command": "echo "hi""}}',
    "no escape": '<tool_call>{"name": "bash", "arguments": {"command": "\\d"}}</tool_call>',
    "cut": '<tool_call>{"name": "bash", "arguments": {"comm',
    "cut within a value": "<function=bash>\n<parameter=command>rm -rf /tmp/a",
    "a list": '<tool_call>{"name": "bash", "arguments": ["ls"]}</tool_call>',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_call_that_can_be_read_in_two_ways_is_answered_and_never_run(kind: str) -> None:
    found = read(BROKEN[kind])
    assert (found.calls, found.text) == ([("bash", {})], "")
    assert "othing" in found.faults[0]  # was run


def test_a_file_comes_through_whole_line_breaks_tags_and_all() -> None:
    body = 'if a < b and "x":\n    print("</parameter>")\n\n</function>'
    call = "<function=write_file>\n<parameter=content>\n{}\n</parameter>\n</function>"
    assert read(*call.format(body)).calls == [("write_file", {"content": body})]
    raw = '<tool_call>{"name": "write_file", "arguments": {"content": "a\nb\tc"}}</tool_call>'
    assert read(raw).calls == [("write_file", {"content": "a\nb\tc"})]


def test_text_around_calls_stays_and_what_follows_a_call_is_code_again() -> None:
    found = read(f"Look:\n<tool_call>{JSON}</tool_call>\n```python\nprint(1)\n```\nDone.")
    assert found.calls == LS
    assert found.text == "Look:\n```python\nprint(1)\n```\nDone."


def test_what_stands_before_the_end_of_thinking_is_thinking_calls_and_all() -> None:
    call = f"<tool_call>{JSON}</tool_call>"
    found = read(f"I could say {call} now\n</think>\n\nI do.\n{call}")
    assert (found.calls, found.text) == (LS, "I do.")
    assert found.thought.startswith("I could say")


def test_plain_text_is_shown_as_it_comes() -> None:
    reader = Reader(TOOLS)
    shown = [reader.add(piece) for piece in ("The ", "answer", " is <", "b>4", "2</b>.")]
    assert shown == ["The", " answer", " is", " <b>4", "2</b>."]


def test_a_call_that_was_shown_to_the_model_is_a_quotation() -> None:
    call = f"<tool_call>{JSON}</tool_call>"
    for text, shown in ((f"It says {call}", f"readme\n{call}\n"), (JSON, f"a {JSON} b")):
        reader = Reader(TOOLS, [shown])
        said = reader.add(text) + reader.end()
        assert (reader.calls, reader.text, said) == ([], text, text)
        assert read(text).calls == LS


SPECIMENS = [*ONE.values(), *NONE.values(), *BROKEN.values()]


@given(
    st.lists(
        st.sampled_from([*SPECIMENS, "\n", "a b", "`", "```\n", "<think>", "</think>"]), max_size=4
    ),
    st.lists(st.integers(0, 5000), max_size=12),
)
def test_pieces_make_no_difference(parts: list[str], at: list[int]) -> None:
    text = "".join(parts)
    assert read(*cut(text, at)) == read(text) == read(*text)


@given(st.text(alphabet="<>|[]{}()\"'`\n =:,tool_calfunk&/", max_size=80), st.integers(0, 90))
def test_no_text_is_lost_or_breaks_the_reader(text: str, at: int) -> None:
    found = read(*cut(text, [at]))
    assert found == read(text)
    if not found.calls and not found.thought:
        assert found.text == found.said


def test_a_long_call_in_small_pieces_is_read_in_time_that_grows_with_it() -> None:
    body = "x = {'a': [1, 2]}\n" * 12_000
    call = json.dumps({"name": "write_file", "arguments": {"content": body}})
    text = f"<tool_call>{call}</tool_call>"
    found = read(*(text[at : at + 8] for at in range(0, len(text), 8)))
    assert found.calls == [("write_file", {"content": body})]


# -- as a provider -------------------------------------------------------------------------------


def answered(answer: Answer, **dialect: Any) -> tuple[tuple[Call, ...], str, str, str]:
    with WIRE.server(answer) as server:
        endpoint = Endpoint(name="fake/m", model="m", url=server.url, key="k")
        provider = OpenAI(endpoint, Dialect(**{"reads": True, **dialect}))
        reply, pieces = heard(provider, asked("hi"))
    return reply.message.calls, reply.message.text, reply.stop, "".join(pieces)


def test_a_call_in_the_text_becomes_a_call_of_the_reply() -> None:
    text = f"I look.\n<tool_call>{JSON}</tool_call>"
    call = Call(id="call_1", name="bash", input={"command": "ls"})
    assert answered(Answer(text)) == ((call,), "I look.", "calls", "I look.")
    assert answered(Answer(text, whole=True)) == ((call,), "I look.", "calls", "I look.")


def test_a_reply_with_calls_of_its_own_is_left_as_it_is() -> None:
    text = f"<tool_call>{JSON}</tool_call>"
    calls, said, stop, _ = answered(Answer(text, calls=(("x", "bash", "{}"),)))
    assert (calls, said, stop) == ((Call(id="x", name="bash"),), text, "calls")


def test_calls_of_a_reply_that_was_cut_are_not_run() -> None:
    calls, _, stop, _ = answered(Answer(f"<tool_call>{JSON}</tool_call>", stop="length"))
    assert stop == "length"
    assert all(call.fault for call in calls)


def test_a_service_whose_calls_come_as_calls_is_not_read() -> None:
    text = f"<tool_call>{JSON}</tool_call>"
    assert answered(Answer(text), reads=False) == ((), text, "end", text)


# -- texts of others -----------------------------------------------------------------------------


def texts() -> list[str]:
    if HERE is None:
        return []
    file = HERE / "llama.cpp-toolcall-texts/texts.jsonl"
    return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.skipif(HERE is None, reason="needs the corpora: set TS_CORPORA to their folder")
def test_texts_of_others_are_read_the_same_at_every_cut_corpora() -> None:
    calls = 0
    for text in texts():
        whole = read(text)
        calls += len(whole.calls)
        assert read(*text) == whole
        for at in range(0, len(text), len(text) // 60 + 1):
            assert read(text[:at], text[at:]) == whole, text
        marked = "<tool_call>" in whole.text or "<function=" in whole.text
        assert not marked or not whole.calls, text
    assert calls > 190

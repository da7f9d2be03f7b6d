import threading
from pathlib import Path

import pytest

from agent.errors import CutError, ModelError, ServiceError, SetupError, UsageError
from agent.message import Call, Message, Reply, Request, Thought, Usage
from agent.providers.script import Line, Script, load

GOOD = """
- for: chat
  text: I plan.
  calls:
    - name: submit_plan
      input: {goal: g, steps: [{id: 1, do: x}]}
- for: b
  text: B
- for: a
  text: "yes"
- for: revise
  text: revised
- text: for anyone
"""


def asked(text: str = "hi", *tools: str, must: str = "") -> Request:
    return Request(
        system="",
        messages=(Message(role="user", text=text),),
        tools=tuple({"name": name} for name in tools),
        must=must,
    )


def step(id: str) -> Request:
    return asked(f'do it\n<step id="other">…</step>\n<step id="{id}">text</step>', "bash")


def quiet(text: str) -> None:
    pass


def said(script: Script, request: Request) -> str:
    return script(request, quiet).message.text


def loaded(tmp_path: Path, text: str, name: str = "s.yaml") -> Script:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return load(file)


def test_a_request_takes_the_first_reply_that_is_for_it(tmp_path: Path) -> None:
    script = loaded(tmp_path, GOOD)
    assert said(script, step("a")) == "yes"
    assert said(script, step("b")) == "B"
    assert said(script, asked("hi", "revise_plan")) == "revised"
    assert said(script, step("c")) == "for anyone"
    reply = script(asked(), quiet)
    assert (reply.message.text, reply.stop) == ("I plan.", "calls")
    [call] = reply.message.calls
    assert call == Call(
        id="call_1", name="submit_plan", input={"goal": "g", "steps": [{"id": 1, "do": "x"}]}
    )
    assert len(script.requests) == 5


def test_a_plan_s_request_takes_a_chat_s_reply_too(tmp_path: Path) -> None:
    script = loaded(tmp_path, "[{for: chat, text: one}, {for: plan, text: two}]")
    assert said(script, asked("hi", "submit_plan")) == "one"
    assert said(script, asked("hi", "bash", "submit_plan", must="submit_plan")) == "two"


def test_a_request_for_which_nothing_is_left_says_whose_it_was(tmp_path: Path) -> None:
    script = loaded(tmp_path, "[{for: a, text: one}]")
    with pytest.raises(ModelError, match=r"for 'b'.*for: a") as caught:
        script(step("b"), quiet)
    assert caught.value.retry_after is None


def test_json_is_read_and_an_object_with_replies(tmp_path: Path) -> None:
    text = '{"replies": [\n\t{"text": "hello", "thinking": "hm"}]}'
    reply = loaded(tmp_path, text, "s.json")(asked(), quiet)
    assert reply.message == Message(role="assistant", text="hello", thoughts=(Thought(text="hm"),))


def test_usage_and_errors_and_stops_are_as_written(tmp_path: Path) -> None:
    script = loaded(
        tmp_path,
        """
        - {text: x, usage: {input_tokens: 7, output_tokens: 3}, stop: length}
        - {error: {kind: service, message: too busy, retry_after: 3}}
        - {error: {kind: setup}}
        - {error: {kind: cut}}
        """,
    )
    reply = script(asked(), quiet)
    assert (reply.usage, reply.stop) == (Usage(input_tokens=7, output_tokens=3), "length")
    with pytest.raises(ServiceError, match="too busy") as caught:
        script(asked(), quiet)
    assert caught.value.retry_after == 3
    with pytest.raises(SetupError):
        script(asked(), quiet)
    with pytest.raises(CutError):
        script(asked(), quiet)


def test_text_is_said_in_pieces_and_a_delay_gives_signs_of_life(tmp_path: Path) -> None:
    words = "a text that is longer than one piece of it would be"
    pieces = list[str]()
    loaded(tmp_path, f"[{{text: {words}, seconds: 0.1}}]")(asked(), pieces.append)
    assert pieces[:2] == ["", ""]
    assert len(pieces) > 3
    assert "".join(pieces) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- text: x\n- txet: y\n", r"s.yaml:2: reply 2: .*txet"),
        ("- text: x\n- calls:\n  - input: {}\n", r"s.yaml:2: reply 2: .*name"),
        ("- text: [x\n", "s.yaml:2"),
        ("text: x\n", "unknown key 'text'"),
        ("hello\n", "a list of replies"),
        ("- error: {kind: fire}\n", r"s.yaml:1: reply 1: .*fire"),
        ("- 5\n", "s.yaml:1: reply 1"),
        ("- seconds: soon\n", "s.yaml:1"),
        ("replies:\n- text: x\n- usage: 3\n", "s.yaml:3: reply 2"),
    ],
)
def test_a_broken_script_is_told_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        loaded(tmp_path, text)


def test_a_file_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"- text: \xff\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(tmp_path / "bad.yaml")
    with pytest.raises(UsageError, match=r"s.json:1"):
        loaded(tmp_path, "[{]", "s.json")


def test_a_list_of_replies_is_a_script_too() -> None:
    whole = Reply(message=Message(role="assistant", text="two"))
    script = Script(["one", whole, ModelError("three"), Line(text="four", whom="a")])
    assert said(script, asked()) == "one"
    assert script(asked(), quiet) is whole
    with pytest.raises(ModelError, match="three"):
        script(asked(), quiet)
    assert said(script, step("a")) == "four"


def test_threads_share_a_script() -> None:
    script = Script([str(at) for at in range(200)])
    heard = list[str]()

    def hear() -> None:
        for _ in range(50):
            heard.append(said(script, asked()))

    threads = [threading.Thread(target=hear) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard, key=int) == [str(at) for at in range(200)]
    assert len(script.requests) == 200

"""What `!`, `#` and `@` do in a chat, at a real terminal."""

import base64
import json
from typing import Any

from tests.e2e.screen import CTRL_C, chatting
from tests.e2e.ts import Ts

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def said(ts: Ts) -> list[dict[str, Any]]:
    """The user's messages, as the conversation keeps them."""
    path = max((ts.cwd / ".agent/sessions").glob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    messages = [line["message"] for line in lines if "message" in line]
    return [message for message in messages if message["role"] == "user"]


def test_a_command_of_the_user_runs_and_the_model_reads_what_it_printed(ts: Ts) -> None:
    ts.model = ts.script("I see it")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("!echo sev''en; cd /", "seven")
        screen.says("!!echo unse''en; pwd", "unseen", "/")  # a shell of their own
        screen.says("what was it?", "I see it")
        assert screen.leaves() == 0
    [message] = said(ts)
    assert message["text"].startswith("what was it?")
    assert "\nseven\n" in message["text"]
    assert "unseen" not in message["text"]


def test_a_command_of_the_user_is_ended_by_ctrl_c_and_obeys_the_rules(ts: Ts) -> None:
    ts.model = ts.script("never")
    with chatting(ts, "--disallowed-tools", "bash(rm *)") as screen:
        screen.asked()
        screen.types("!sleep 60\r")
        screen.sees("bash sleep 60")
        screen.types(CTRL_C)
        screen.sees("interrupted")
        screen.asked()
        ts.write("kept.txt", "x")
        screen.says("!rm kept.txt", "not allowed")
        assert screen.leaves() == 0
    assert (ts.cwd / "kept.txt").exists()


def test_a_line_behind_a_hash_is_remembered(ts: Ts) -> None:
    ts.model = ts.script("never")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("# tests need a database")
        assert screen.leaves() == 0
    assert "tests need a database" in (ts.cwd / ".agent/memory.md").read_text(encoding="utf-8")


def test_files_directories_and_images_are_attached_and_what_is_no_file_stays_words(ts: Ts) -> None:
    ts.write("src/one.py", "ONE = 1\n")
    ts.write("my notes.md", "remember the milk\n")
    (ts.cwd / "dot.png").write_bytes(PIXEL)
    elsewhere = ts.home / "elsewhere.txt"
    elsewhere.write_text("far away\n", encoding="utf-8")
    ts.model = ts.script("read it all", "and again")
    line = f'see @src/one.py, @src/ @"my notes.md" @dot.png @{elsewhere} @alice @no/such.py'
    with chatting(ts) as screen:
        screen.asked()
        screen.types(line + "\r")
        screen.sees("@no/such.py is not attached: there is no such file")
        screen.sees("read it all")
        screen.asked()
        assert screen.leaves() == 0
    [message] = said(ts)
    for text in (
        "ONE = 1",
        '<attached directory="src/">\nsrc/one.py',
        "remember the milk",
        "far away",
    ):
        assert text in message["text"]
    assert '="alice"' not in message["text"]
    assert [image["media_type"] for image in message["images"]] == ["image/png"]
    with chatting(ts, "-c") as screen:
        screen.sees("› see @src/one.py")
        assert "ONE = 1" not in screen.text  # only the user's words are shown again


def test_files_are_offered_by_their_letters_but_no_ignored_ones(ts: Ts) -> None:
    for name in ("src/deep/parser.py", "src/deep/lexer.py", "build/parser.py"):
        ts.write(name, "x")
    ts.write(".gitignore", "build/\n")
    ts.model = ts.script("seen")
    with chatting(ts) as screen:
        screen.asked()
        screen.types("look at @sdprs")
        screen.sees(" src/deep/parser.py")
        assert "build/parser.py" not in screen.text
        screen.types("\t\r")
        screen.asked("look at @src/deep/parser.py")
        screen.types("\r")
        screen.sees("read_file src/deep/parser.py")
        screen.sees("seen")
        screen.asked()
        screen.types("/fix-te")
        screen.sees("[path] Run the test")
        screen.types(CTRL_C)
        screen.asked()
        assert screen.leaves() == 0


def test_a_long_paste_is_folded_and_sent_whole(ts: Ts) -> None:
    ts.model = ts.script("got it", "got that too")
    text = "".join(f"{n:4} {'x' * 45}\n" for n in range(2000))  # 100 kB
    with chatting(ts) as screen:
        screen.asked()
        screen.types(f"read \x1b[200~{text}\x1b[201~ now")
        screen.asked("read [pasted 2,000 lines] now")
        screen.types("\r")
        screen.sees("got it")
        screen.asked()
        screen.types("\x1b[200~" + "a\n" * 20 + "\x1b[201~")
        screen.asked("[pasted 20 lines]")
        screen.types("\x7fno")  # taken back as a whole
        screen.asked("no")
        screen.types("\r")
        screen.sees("got that too")
        screen.asked()
        assert screen.leaves() == 0
    first, second = said(ts)
    assert first["text"] == f"read {text} now"
    assert second["text"] == "no"


def test_what_is_pasted_while_a_model_works_stays_one_message(ts: Ts) -> None:
    ts.model = ts.script({"text": "first", "seconds": 2}, "second")
    with chatting(ts) as screen:
        screen.asked()
        screen.types("begin\r")
        screen.sees("thinks")
        screen.types("\x1b[200~one\rtwo\x1b[201~")
        screen.sees("› one↵two")
        screen.types("\r")
        screen.sees("second")
        screen.asked()
        assert screen.leaves() == 0
    assert said(ts)[1]["text"] == "one\ntwo"


def test_the_path_of_a_picture_that_is_pasted_attaches_it(ts: Ts) -> None:
    picture = ts.home / "a shot.png"
    picture.write_bytes(PIXEL)
    ts.model = ts.script("a dot")
    with chatting(ts) as screen:
        screen.asked()
        path = str(picture).replace(" ", "\\ ")
        screen.types(f"\x1b[200~{path}\x1b[201~what is it?\r")
        screen.sees("a dot")
        screen.asked()
        assert screen.leaves() == 0
    assert len(said(ts)[0]["images"]) == 1


def test_the_line_below_the_prompt_tells_branch_context_and_speed(ts: Ts) -> None:
    ts.write(".git/HEAD", "ref: refs/heads/topic/new\n")
    usage = {"input_tokens": 30_000, "output_tokens": 500}
    replies = [{"text": "answer", "usage": usage, "seconds": 0.5}]
    ts.write("s.json", json.dumps(replies))
    ts.model = "script/s.json"
    with chatting(ts) as screen:
        screen.asked()
        screen.sees("default mode · topic/new")
        screen.says("go", "answer")
        screen.sees("% of context · 30k tok")
        screen.sees(" tok/s")
        assert screen.leaves() == 0

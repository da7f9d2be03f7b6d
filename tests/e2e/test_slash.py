"""Commands of the chat that fingers know from elsewhere, at a real terminal."""

import re
from base64 import b64decode
from io import BytesIO

from tests.e2e.screen import chatting
from tests.e2e.test_undo import files, git
from tests.e2e.ts import Ts, call, calling
from tests.servers import Answer, AnthropicServer

EDIT = calling(call("edit_file", path="a.py", old_string="v = 1", new_string="v = 2\x1b[2J"))
AUTO = ("--permission-mode", "accept-edits")


def test_status_and_tools_tell_what_holds(ts: Ts) -> None:
    ts.model = ts.script("hello")
    with chatting(ts, "--permission-mode", "plan") as screen:
        screen.asked()
        screen.says("hi", "hello", "· 2 tok")  # the prompt is there again
        screen.says(
            "/status", str(ts.cwd)[:20], "2 messages", "nothing is changed or run", "1 model"
        )
        screen.says("/tools", "* edit_file", "  read_file", "  ask_user")
        screen.says("/keybindings", "Ctrl+R searches")
        screen.says("/stats", "did you mean '/status'?")
        assert screen.leaves() == 0


def test_a_side_question_knows_the_conversation_and_does_not_enter_it(ts: Ts) -> None:
    said = [Answer(text=text) for text in ("noted", "it is 7", "on it")]
    with AnthropicServer(said) as server:
        ts.asks(server)
        with chatting(ts) as screen:
            screen.asked()
            screen.says("the number is seven", "noted")
            screen.says("/btw", "what do you want to know?")
            screen.says("/btw which number?", "it is 7")
            screen.says("go on then", "on it")
            assert screen.leaves() == 0
        _, aside, last = [request.json for request in server.requests]
    (kept,) = (ts.cwd / ".agent" / "sessions").glob("*.jsonl")
    assert "which number" in str(aside)
    assert "the number is seven" in str(aside)
    assert not aside.get("tools")
    assert "which number" not in str(last)
    assert "it is 7" not in str(last)
    assert "which number" not in kept.read_text(encoding="utf-8")


def test_an_answer_is_copied_by_a_terminal_that_is_known_to_take_it_and_by_no_other(
    ts: Ts,
) -> None:
    said = "ein Wort \x1b]52;c;eA==\x07 天"
    ts.model = ts.script(said, said)
    with chatting(ts) as screen:
        screen.asked()
        screen.says("/copy", "there is no answer to copy yet")
        screen.says("say it", "ein Wort")
        screen.says("/copy", "is not known to take a copy")
        assert screen.leaves() == 0
    with chatting(ts, "-c", TERM="xterm-kitty") as screen:
        screen.child.logfile_read = raw = BytesIO()
        screen.asked()
        screen.says("/copy", "is handed to the clipboard")
        assert screen.leaves() == 0
    copied = re.findall(rb"\x1b]52;c;([^\x07]*)\x07", raw.getvalue())
    (text,) = [b64decode(each).decode("utf-8") for each in copied]
    assert text.startswith("ein Wort ")
    assert text.endswith("天")
    assert "\x1b" not in text


def test_a_rule_of_the_chat_holds_from_then_on_and_one_that_is_none_is_refused(ts: Ts) -> None:
    ts.write("a.py", "v = 1\n")
    ts.model = ts.script(EDIT, "refused", EDIT, "done")
    with chatting(ts, *AUTO) as screen:
        screen.asked()
        screen.says("/permissions", "accept-edits mode", "there is no rule")
        screen.says("/permissions deny edit_file(a.*)", "  deny   edit_file(a.*)")
        screen.says("change it", "the rule edit_file(a.*) forbids it", "refused")
        screen.says("/permissions forbid x", "there is no /permissions forbid x")
        screen.says("/permissions allow bash(", "is no permission rule")
        assert screen.leaves() == 0
    assert files(ts)["a.py"] == "v = 1\n"


def test_what_the_chat_has_changed_is_shown_taken_back_and_brought_again(ts: Ts) -> None:
    git(ts.cwd, "init", "-q")
    ts.write("a.py", "v = 1\n")
    git(ts.cwd, "add", "a.py")
    git(ts.cwd, "commit", "-qm", "one")
    ts.write("new.txt", "new\n")
    ts.model = ts.script(EDIT, "done")
    with chatting(ts, *AUTO) as screen:
        screen.asked()
        screen.says("/diff", "this conversation has changed no file")
        screen.says("/redo", "there is no undo to take back")
        screen.says("change it", "done")
        screen.says("/diff", "+++ b/a.py")
        screen.says("/diff git", "-v = 1", "+v = 2", "not known to git: new.txt")
        for command, after in (("/undo", "v = 1\n"), ("/redo", "v = 2\x1b[2J\n")):
            screen.types(f"{command}\r")
            screen.sees("put back?")
            screen.types("y\r")
            screen.sees("1 file put back")
            screen.asked()
            assert files(ts)["a.py"] == after
            screen.display.erase_in_display(2)
        screen.says("/clear", "a new conversation")
        screen.says("/diff", "has changed no file")
        screen.says("/redo", "there is no undo to take back")
        assert screen.leaves() == 0


def test_a_directory_that_is_added_may_be_written_from_then_on_and_no_other(ts: Ts) -> None:
    other = ts.home / "other"
    other.mkdir()
    write = calling(call("write_file", path=str(other / "a.txt"), content="a\n"))
    shell = calling(call("bash", command=f"cat {other / 'a.txt'} > {other / 'b.txt'}"))
    ts.model = ts.script(write, "not yet", write, "it is written", shell, "by the shell")
    with chatting(ts, "--permission-mode", "auto") as screen:
        screen.asked()
        screen.says("one", "not yet")
        assert not list(other.iterdir())
        screen.says("/add-dir nowhere", "nowhere is no directory")
        screen.says(f"/add-dir {other}", "may be written too")
        screen.says("two", "it is written")
        screen.says("three", "by the shell")
        assert screen.leaves() == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in other.iterdir()} == {
        "a.txt": "a\n",
        "b.txt": "a\n",
    }

"""The keys of a chat at a real terminal, at the prompt and while a model is at work."""

import shlex

from tests.e2e.screen import CTRL_C, ESC, Screen, chatting
from tests.e2e.ts import MAIN, Ts, call, calling

CTRL_G, CTRL_O, CTRL_T, CTRL_Z = "\x07", "\x0f", "\x14", "\x1a"
LONG = 20.0  # seconds that a model would take


def test_a_question_mark_on_an_empty_line_shows_the_keys(ts: Ts) -> None:
    ts.model = ts.script("hello")
    with chatting(ts) as screen:
        screen.asked()
        screen.types("?")
        screen.sees("Ctrl+O shows the whole")
        screen.asked()
        screen.types("why?")
        screen.sees("› why?")
        screen.types(ESC + ESC)  # clears it
        screen.asked()
        assert screen.leaves() == 0


def test_esc_ends_the_turn_and_what_was_typed_is_sent_next(ts: Ts) -> None:
    ts.model = ts.script({"text": "never", "seconds": LONG}, "you said it")
    with chatting(ts) as screen:
        screen.asked()
        screen.types("think long\r")
        screen.sees("thinks")
        screen.types("and this?\r")
        screen.sees("› and this? (next)")
        screen.types(ESC)
        screen.sees("interrupted")
        screen.sees("you said it")
        screen.asked()
        assert screen.leaves() == 0


def test_the_arrow_keys_end_no_turn(ts: Ts) -> None:
    ts.model = ts.script({"text": "answered all the same", "seconds": 2})
    with chatting(ts) as screen:
        screen.asked()
        screen.types("think\r")
        screen.sees("thinks")
        screen.types("\x1b[A\x1bOB")
        screen.sees("answered all the same")
        screen.asked()
        assert screen.leaves() == 0


def test_esc_esc_goes_back_to_an_earlier_message(ts: Ts) -> None:
    ts.model = ts.script("one", "two")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("my first words", "one")
        screen.types(ESC + ESC)
        screen.sees("back to before which message")
        screen.types("\r")
        screen.asked("my first words")
        screen.types(CTRL_C)
        screen.asked()
        assert screen.leaves() == 0


def test_ctrl_o_shows_the_whole_of_the_last_output(ts: Ts) -> None:
    ts.write("long.txt", "".join(f"line {n} of it\n" for n in range(40)))
    ts.model = ts.script(calling(call("read_file", path="long.txt")), "read")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("read it", "read_file long.txt → 40 lines", "read")
        assert "line 25 of it" not in screen.text
        screen.types(CTRL_O)
        screen.sees("line 25 of it")
        screen.asked()
        assert screen.leaves() == 0


def test_ctrl_t_shows_the_plan(ts: Ts) -> None:
    steps = [
        {"id": one, "do": f"do {one}", "writes": [], "needs": needs}
        for one, needs in (("first", []), ("second", ["first"]), ("third", ["second"]))
    ]
    ts.model = ts.script(
        calling(call("submit_plan", goal="g", steps=steps), **{"for": "chat"}),
        *({"for": each, "text": f"{each} it is"} for each in ("first", "second", "third")),
    )
    with chatting(ts, "-y", "--plan") as screen:
        screen.asked()
        screen.types(CTRL_T)
        screen.sees("there is no plan yet")
        screen.asked()
        screen.says("plan", "✓ third")
        screen.types(CTRL_T)
        screen.sees("✓ second  ")
        screen.asked()
        assert screen.leaves() == 0


def test_ctrl_g_opens_the_editor_with_what_is_typed(ts: Ts) -> None:
    ts.model = ts.script("heard")
    editor = ts.write("ed", '#!/bin/sh\necho "and more" >> "$1"\n')
    editor.chmod(0o700)
    with chatting(ts, EDITOR=str(editor)) as screen:
        screen.asked()
        screen.types("some words")
        screen.sees("› some words")
        screen.types(CTRL_G)
        screen.sees("and more")
        screen.types("\r")
        screen.sees("heard")
        screen.asked()
        assert screen.leaves() == 0


def test_an_edit_is_asked_about_as_a_diff_with_the_lines_of_the_file(ts: Ts) -> None:
    ts.write("a.py", "".join(f"line {n}\n" for n in range(1, 31)))
    edits = [
        {"old_string": "line 12\n", "new_string": "LINE 12\nand more\n"},
        {"old_string": "line 25", "new_string": "LINE 25"},
    ]
    ts.model = ts.script(
        calling(call("multi_edit", path="a.py", edits=edits)),
        calling(call("write_file", path="b.py", content="new\n")),
        "made",
    )
    with chatting(ts) as screen:
        screen.asked()
        screen.types("edit it\r")
        screen.sees("allow it?")
        for row in (
            "│    11  line 11",
            "│    12 -line 12",
            "│    13 +and more",
            "│    26 +LINE 25",
        ):
            assert row in screen.text
        screen.types("y\r")
        screen.sees("│     1 +new")
        screen.types("y\r")
        screen.sees("made")
        screen.asked()
        assert screen.leaves() == 0


def test_a_chat_is_suspended_and_gone_on_with_at_the_prompt_and_at_work(ts: Ts) -> None:
    ts.model = ts.script({"text": "answered in the end", "seconds": 6})
    screen = Screen(ts, "--norc", "--noprofile", "-i", shell="bash", PS1="sh: ")
    try:
        screen.sees("sh:")
        screen.types(f"clear; {shlex.join(MAIN)}\r")
        screen.asked()
        screen.types("half a thought")
        screen.asked("half a thought")
        screen.types(CTRL_Z)
        screen.sees("Stopped")
        screen.types("clear; fg\r")
        screen.asked("half a thought")
        screen.types("\r")
        screen.sees("thinks")
        screen.types(CTRL_Z)
        screen.sees("Stopped")
        screen.types("echo the shell has ec''ho; clear; fg\r")
        screen.sees("thinks")
        screen.types("typed after it")
        screen.sees("› typed after it")
        screen.sees("answered in the end")
        screen.asked("typed after it")
    finally:
        screen.child.close(force=True)


def test_a_window_is_made_narrower_and_wider_while_an_answer_streams(ts: Ts) -> None:
    text = "".join(f"paragraph {n} " + "of some words " * 12 + "\n\n" for n in range(12))
    ts.model = ts.script(calling(call("bash", command="sleep 2"), text=text), "the end")
    with chatting(ts, "-y") as screen:
        screen.asked()
        screen.types("go\r")
        screen.sees("paragraph 3")
        screen.resized(60, 40)
        screen.sees("s · bash sleep 2")
        screen.resized(60, 120)
        screen.sees("the end")
        screen.asked()
        assert screen.text.count("paragraph 11") == 1
        assert screen.leaves() == 0


def test_a_question_comes_while_one_types_and_what_was_typed_answers_nothing(ts: Ts) -> None:
    bash = call("bash", command="touch made.txt")
    ts.model = ts.script({"text": "", "seconds": 2, "calls": [bash]}, "refused")
    with chatting(ts) as screen:
        screen.asked()
        screen.types("go\r")
        screen.sees("thinks")
        screen.types("yes and more")
        screen.sees("› yes and more")
        screen.sees("allow it?")
        screen.types("n\r")
        screen.sees("refused")
        screen.asked("yes and more")  # still there to be sent
        assert not (ts.cwd / "made.txt").exists()
        screen.types(CTRL_C)
        screen.asked()
        assert screen.leaves() == 0

"""The keys of a chat at a real terminal, at the prompt and while a model is at work."""

from tests.e2e.screen import CTRL_C, ESC, chatting
from tests.e2e.ts import Ts, call, calling

CTRL_G, CTRL_O, CTRL_T = "\x07", "\x0f", "\x14"
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

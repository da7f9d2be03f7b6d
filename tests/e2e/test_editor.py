"""The line editor at a real terminal: keys go in, and a screen shows what a user would see."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pexpect
import pyte
import pytest

import agent

PROGRAM = """
import os, sys
from pathlib import Path
from agent.views.editor import Editor
from agent.views.plain import Output

modes = ["default", "auto"]
editor = Editor(
    Output(sys.stdout, os.environ), sys.stdin, Path(sys.argv[1]),
    commands=lambda: [("help", "what is"), ("compact", "shorten"), ("code-review", "read it")],
    files=lambda typed: [name for name in ("src/app.py", "README.md") if typed in name],
    toolbar=lambda: "mode " + modes[0],
    cycle=modes.reverse,
)
while True:
    try:
        print("got", repr(editor.read()), flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    except EOFError:
        print("left", flush=True)
        break
"""
ROOT = Path(agent.__file__).parents[1]
ENVIRON = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
CTRL_C, CTRL_D, CTRL_J, CTRL_R, ALT_ENTER, SHIFT_TAB = (
    "\x03", "\x04", "\n", "\x12", "\x1b\r", "\x1b[Z",
)  # fmt: skip
ASKS_CURSOR = re.compile(rb"\x1b\[6n")


class User:
    """Someone at a terminal of 60 columns and 16 lines."""

    def __init__(self, history: Path, **environ: str) -> None:
        self.screen = pyte.Screen(60, 16)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._child = pexpect.spawn(
            sys.executable,
            ["-c", PROGRAM, str(history)],
            env=ENVIRON | environ,
            dimensions=(16, 60),
            timeout=20,
        )
        self._child.delaybeforesend = None

    def types(self, keys: str) -> None:
        self._child.send(keys)

    def sees(self, words: str, *, times: int = 1) -> None:
        """Read the terminal until the screen shows these words."""
        self._until(lambda: "\n".join(self.screen.display).count(words) >= times)

    def is_asked(self) -> None:
        """Read until the cursor stands at an empty prompt. What is typed before is no keystroke of
        the editor: the terminal has made a line of it."""
        self._until(lambda: self.screen.display[self.screen.cursor.y].rstrip() == "›")

    def _until(self, shown: Callable[[], bool]) -> None:
        end = monotonic() + 20
        while not shown():
            assert monotonic() < end, "\n".join(self.screen.display)
            try:
                piece = self._child.read_nonblocking(65536, 1)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
            self.raw += piece
            self._stream.feed(piece)
            for _ in ASKS_CURSOR.findall(piece):
                cursor = self.screen.cursor
                self._child.send(f"\x1b[{cursor.y + 1};{cursor.x + 1}R")
        assert shown(), "\n".join(self.screen.display)

    def leaves(self) -> None:
        self._child.close(force=True)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history"


@pytest.fixture
def user(history: Path) -> Iterator[User]:
    user = User(history)
    user.is_asked()
    yield user
    user.leaves()


def test_enter_submits_and_three_ways_begin_another_line(user: User) -> None:
    user.types("one\\\rtwo" + ALT_ENTER + "three" + CTRL_J + "four")
    user.sees("· four")
    user.types("\r")
    user.sees(r"got 'one\ntwo\nthree\nfour'")
    user.is_asked()
    user.types("天枢 ✓\r")
    user.sees("got '天枢 ✓'")


def test_what_is_pasted_stays_one_message(user: User) -> None:
    user.types("\x1b[200~def f():\r\n    return 1\r\n\x1b[201~")
    user.sees("return 1")
    user.types("\r")
    user.sees(r"got 'def f():\n    return 1\n'")


def test_ctrl_c_empties_the_line_then_interrupts_and_ctrl_d_leaves(user: User) -> None:
    user.types("half a thought")
    user.sees("half a thought")
    user.types(CTRL_C + "ok\r")
    user.sees("got 'ok'")
    user.is_asked()
    user.types(CTRL_C)
    user.sees("interrupted")
    user.is_asked()
    user.types(CTRL_D)
    user.sees("left")


def test_commands_are_offered_with_what_they_do(user: User) -> None:
    user.types("/co")
    user.sees("shorten")
    user.sees("code-review  read it")
    user.types("\t\t")
    user.sees("› /code-review")
    user.types("\r")  # takes what is chosen
    user.types(" src\r")
    user.sees("got '/code-review src'")


def test_files_are_offered_behind_an_at_sign(user: User) -> None:
    user.types("look at @app")
    user.sees("src/app.py")
    user.types("\t\r\r")
    user.sees("got 'look at @src/app.py'")


def test_r68_a_key_that_is_typed_is_not_remembered(user: User, history: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 6
    user.types(f"use {key} now\r")
    user.sees("got 'use sk-ant")
    user.is_asked()
    user.leaves()
    kept = history.read_text(encoding="utf-8")
    assert "use [redacted] now" in kept
    assert key not in kept


def test_history_outlives_the_program_and_is_the_user_s_alone(user: User, history: Path) -> None:
    for line in ("make a plan", "run the tests", " a secret"):
        user.types(line + "\r")
        user.sees(f"got '{line}'")
        user.is_asked()
    user.types(CTRL_D)
    user.sees("left")
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.parent.stat().st_mode & 0o777 == 0o700
    assert "secret" not in history.read_text(encoding="utf-8")
    later = User(history)
    later.is_asked()
    later.types(CTRL_R + "plan")
    later.sees("› make a plan")
    later.types("\r\r")
    later.sees("got 'make a plan'")
    later.leaves()


def test_a_long_history_keeps_its_newer_half(history: Path) -> None:
    history.parent.mkdir(parents=True)
    lines = [f"\n# day\n+line {n} {'x' * 100}\n" for n in range(15_000)]
    history.write_text("".join(lines), encoding="utf-8")
    user = User(history)
    user.is_asked()
    user.types("\x1b[A")
    user.sees("› line 14999 x")
    user.leaves()
    kept = history.read_text(encoding="utf-8")
    assert 400_000 < len(kept) < 600_000
    assert kept == "".join(lines)[-len(kept) :]


def test_a_history_that_cannot_be_kept_does_not_stop_the_chat(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    user = User(tmp_path / "file" / "history")
    user.is_asked()
    user.types("hi\r")
    user.sees("got 'hi'")
    user.leaves()


def test_the_bar_below_shows_the_mode_and_shift_tab_changes_it(user: User) -> None:
    user.sees("mode default")
    user.types(SHIFT_TAB)
    user.sees("mode auto")


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_c103_a_plain_terminal_gets_plain_lines(history: Path, environ: dict[str, str]) -> None:
    user = User(history, **environ)
    user.sees("› ")
    user.types("one \\\r")
    user.sees("› ", times=2)
    user.types("two\r")
    user.sees(r"got 'one \ntwo'")
    user.types(CTRL_D)
    user.sees("left")
    assert "left" in [row.rstrip() for row in user.screen.display]
    assert b"\x1b" not in user.raw
    user.leaves()


def test_c106_input_from_a_pipe_is_read_line_by_line(history: Path) -> None:
    child = pexpect.run(
        f'/bin/sh -c \'printf "one\\ntwo" | {sys.executable} -c "$PROGRAM" {history}\'',
        env=ENVIRON | {"PROGRAM": PROGRAM},
        timeout=20,
    )
    assert child.replace(b"\r\n", b"\n") == b"got 'one'\ngot 'two'\nleft\n"


def test_shift_enter_begins_another_line_as_terminals_send_it(user: User) -> None:
    user.types("one\x1b[13;2utwo\x1b[27;2;13~three")
    user.sees("· three")
    user.types("\r")
    user.sees(r"got 'one\ntwo\nthree'")

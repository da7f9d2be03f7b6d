"""A chat at a real terminal: what is loaded until its prompt is there, and how it is left."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from tests.e2e.ts import MAIN, Ts, call, calling

CURSOR = "\x1b[6n"  # it asks where the cursor is …
PLACE = "\x1b[4;1R"  # … and a terminal answers


@contextmanager
def chatting(ts: Ts, *words: str, log: Path | None = None) -> Iterator[pexpect.spawn]:
    """A chat in a terminal; stderr goes to `log`, with the modules as they are loaded."""
    told = f"-X importtime {MAIN[1]} 2>{log}" if log else MAIN[1]
    chat = pexpect.spawn(
        "bash", ["-c", f'exec {sys.executable} {told} "$@"', "ts", *words], cwd=str(ts.cwd),
        env=ts.environment({"TERM": "xterm-256color"}),
        timeout=30, dimensions=(40, 100), encoding="utf-8",
    )  # fmt: skip
    chat.delaybeforesend = None
    try:
        yield chat
    finally:
        chat.close(force=True)


def prompted(chat: pexpect.spawn) -> None:
    """Wait for the prompt."""
    chat.expect_exact(CURSOR)
    chat.send(PLACE)
    chat.expect_exact("›")


def test_the_prompt_waits_for_neither_the_sdk_nor_the_graph(ts: Ts, tmp_path: Path) -> None:
    log = tmp_path / "imports"
    with chatting(ts, log=log) as chat:
        chat.expect_exact("/help")
        prompted(chat)
        seen = log.read_text(encoding="utf-8")
        chat.sendcontrol("d")
        chat.expect(pexpect.EOF)
    assert chat.exitstatus == 0
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in seen.splitlines()}
    assert {"msgspec", "prompt_toolkit"} <= names
    assert not {"anthropic", "networkx", "httpx2", "jsonschema", "pydantic"} & names
    assert not list(ts.cwd.iterdir())


def test_a_chat_answers_asks_runs_and_is_left_with_0(ts: Ts) -> None:
    ts.model = ts.script(
        "first answer", calling(call("bash", command="touch made.txt")), "it is made", "last"
    )
    with chatting(ts, "say something") as chat:
        chat.expect_exact("› ")
        chat.expect_exact("say something")
        chat.expect_exact("first answer")
        prompted(chat)
        chat.send("/hepl\r")
        chat.expect_exact("there is no /hepl; did you mean '/help'?")
        prompted(chat)
        chat.send("make it\r")
        chat.expect_exact("allow it? ")  # what was typed before it is thrown away
        chat.send("y\r")
        chat.expect_exact("it is made")
        prompted(chat)
        chat.send("/exit\r")
        chat.expect_exact("`ts -c` goes on with this chat")
        chat.expect(pexpect.EOF)
    assert chat.exitstatus == 0
    assert (ts.cwd / "made.txt").exists()
    assert ts.here("-c", "-p", "more", model=ts.script("went on")).said == "went on\n"
    with chatting(ts, "-c") as chat:  # calls and their results are no part of what is shown
        for text in ("› say something", "first answer", "› make it", "it is made", "went on"):
            chat.expect_exact(text)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_chat_at_its_prompt_and_in_a_turn(
    ts: Ts, number: signal.Signals, code: int
) -> None:
    ts.model = ts.script(calling(call("bash", command="echo > began; sleep 60")), "late")
    with chatting(ts) as chat:
        prompted(chat)
        chat.kill(number)
        chat.expect(pexpect.EOF)
    assert chat.exitstatus == code
    with chatting(ts, "go", "-y") as chat:
        assert ts.there("began")
        chat.kill(number)
        chat.expect(pexpect.EOF)
    assert chat.exitstatus == code
    assert ts.running() == {}


def test_a_chat_without_a_model_says_so_before_anything_is_asked(ts: Ts) -> None:
    with chatting(ts) as chat:
        prompted(chat)
        chat.expect_exact("no model is set up")


def test_help_keeps_each_command_on_a_line(ts: Ts) -> None:
    with chatting(ts) as chat:
        prompted(chat)
        chat.send("/help\r")
        chat.expect(r"  /security-review  .*…\r")
        chat.expect_exact("Ctrl-D leaves")

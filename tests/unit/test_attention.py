"""A user who looks elsewhere is called, and no other."""

from contextlib import nullcontext
from io import StringIO

import pytest

from agent.event import RunFinished, RunStarted
from agent.message import Usage
from agent.views.attention import LONG, Attention, Notify
from agent.views.link import linked, takes
from agent.views.plain import Output


class Teletype(StringIO):
    def isatty(self) -> bool:
        return True


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def called(mode: Notify, **environ: str) -> str:
    """What is written when something long has ended, but for titles."""
    stream, watch = Teletype(), Watch()
    attention = Attention(Output(stream, {"TERM": "xterm", **environ}), "here", clock=watch)
    attention.mode = mode
    attention._titles = attention._titles and bool(environ)
    with attention.working():
        watch.now = LONG
    return stream.getvalue().rpartition("\x1b]2;here · ts\x07")[2]


def test_a_bell_after_what_took_long_and_none_after_what_did_not() -> None:
    stream, watch = Teletype(), Watch()
    attention = Attention(Output(stream, {"TERM": "vt100"}), "here", clock=watch)
    with attention.working():
        watch.now = LONG - 1
    assert stream.getvalue() == ""
    with attention.working():
        watch.now = 2 * LONG
    assert stream.getvalue() == "\a"
    attention.close()
    assert stream.getvalue() == "\a"


def test_a_question_calls_once_and_an_answer_counts_as_a_sign_of_the_user() -> None:
    stream, watch = Teletype(), Watch()
    attention = Attention(Output(stream, {"TERM": "vt100"}), "here", clock=watch)
    with attention.working():
        watch.now = LONG
        with attention.asking(nullcontext)():
            assert stream.getvalue() == "\a"
            watch.now = 3 * LONG
    assert stream.getvalue() == "\a"


@pytest.mark.parametrize(
    ("mode", "environ", "sent"),
    [
        ("off", {"TERM": "xterm-kitty"}, ""),
        ("bell", {"TERM": "xterm-kitty"}, "\a"),
        ("desktop", {"TERM": "xterm-kitty"}, "\x1b]99;;ts: here: done\x1b\\"),
        ("desktop", {"TERM": "foot"}, "\x1b]777;notify;ts;here: done\x1b\\"),
        ("desktop", {"TERM_PROGRAM": "WezTerm"}, "\x1b]9;ts: here: done\x07"),
        ("desktop", {"TERM_PROGRAM": "WezTerm", "TMUX": "x"}, "\a"),
        ("desktop", {"TERM": "xterm-256color"}, "\a"),
    ],
)
def test_the_user_is_called_as_the_settings_and_the_terminal_say(
    mode: Notify, environ: dict[str, str], sent: str
) -> None:
    assert called(mode, **environ) == sent


def test_the_title_names_the_run_without_controls_and_is_put_back() -> None:
    stream = Teletype()
    attention = Attention(Output(stream, {"TERM": "xterm"}), "p\x07q\x1b]0;x\x07")
    attention(RunStarted(goal="mend\x07it\x1b[31m", cwd="/", model="m", version="1"))
    attention(RunFinished(status="done", answer="", usage=Usage(), cost_usd=None, seconds=1))
    attention.close()
    attention.close()
    told = stream.getvalue()
    assert told.startswith("\x1b[22;2t\x1b]2;▸ mend")
    assert told.endswith("\x1b[23;2t")
    assert told.count("\x07") == told.count("\x1b]2;") == 2
    assert "\x1b[31m" not in told


def test_nothing_is_written_where_there_is_no_terminal() -> None:
    stream, watch = StringIO(), Watch()
    attention = Attention(Output(stream, {"TERM": "xterm"}), "here", clock=watch)
    with attention.working():
        watch.now = LONG
    attention.close()
    assert stream.getvalue() == ""


def test_a_file_is_linked_only_on_terminals_known_to_take_it() -> None:
    assert takes({"TERM_PROGRAM": "iTerm.app"})
    assert takes({"VTE_VERSION": "7200", "TERM": "xterm-256color"})
    assert not takes({"VTE_VERSION": "4900"})
    assert not takes({"TERM": "xterm-256color"})
    assert not takes({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"})
    line = linked("  write a b.py → ok", "a b.py", {"TERM": "xterm-kitty"})
    assert "a%20b.py\x1b\\a b.py\x1b]8;;\x1b\\ → ok" in line
    assert line.startswith("  write \x1b]8;;file://")
    assert linked("  write x", "x", {}) == "  write x"
    hostile = linked("x", "\x1b]0;a\x07", {"TERM": "xterm-kitty"})
    assert hostile == "x"

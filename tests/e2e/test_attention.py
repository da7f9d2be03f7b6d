"""What a user sees beside the lines: the title, links, and the first words where no model is."""

from tests.e2e.screen import chatting
from tests.e2e.ts import Ts, call, calling


def test_the_title_says_where_one_is_and_a_file_that_was_written_can_be_clicked(ts: Ts) -> None:
    ts.model = ts.script(calling(call("write_file", path="a.txt", content="x")), "written")
    with chatting(ts, "--permission-mode", "accept-edits", TERM_PROGRAM="WezTerm") as screen:
        log = screen.child.logfile_read = Kept()
        screen.asked()
        screen.says("write it", "written")
        assert screen.display.title == "project · ts"
        assert b"\x1b]2;\xe2\x96\xb8 project" in log.data
        assert b"/project/a.txt\x1b\\a.txt\x1b]8;;\x1b\\" in log.data
        assert screen.leaves() == 0
    assert log.data.count(b"\x1b[22;2t") == log.data.count(b"\x1b[23;2t") == 1


def test_where_no_model_is_set_up_three_lines_say_what_to_do(ts: Ts) -> None:
    with chatting(ts) as screen:
        screen.asked()
        screen.sees("No model is set up yet")
        assert "export ANTHROPIC_API_KEY=…" in screen.text
        assert "ts doctor" in screen.text
        assert screen.leaves() == 0
    ts.env["ANTHROPIC_API_KEY"] = "sk-test"
    with chatting(ts) as screen:
        screen.asked()
        assert "No model" not in screen.text
        assert screen.leaves() == 0


def test_no_colour_means_no_title_and_no_link(ts: Ts) -> None:
    ts.model = ts.script(calling(call("write_file", path="a.txt", content="x")), "written")
    words = ("--permission-mode", "accept-edits")
    with chatting(ts, *words, TERM_PROGRAM="WezTerm", NO_COLOR="1") as screen:
        log = screen.child.logfile_read = Kept()
        screen.asked()
        screen.says("write it", "written")
        assert screen.leaves() == 0
    assert b"\x1b]" not in log.data


class Kept:
    """All that a terminal was sent."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def flush(self) -> None:
        pass

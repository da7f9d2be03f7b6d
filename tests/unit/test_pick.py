from io import StringIO
from typing import TextIO

from agent.views.pick import Row, fitting, pick
from agent.views.plain import Output

ROWS = [Row(words=f"row {number}", note=f"{number}h") for number in range(1, 31)]


class Typed:
    """A terminal that shows plain lines, and what is typed at it."""

    def __init__(self, *lines: str) -> None:
        self.shown = StringIO()
        self.keys: TextIO = StringIO("".join(f"{line}\n" for line in lines))

    def pick(self, rows: list[Row], typed: str = "") -> int | None:
        out = Output(self.shown, {"NO_COLOR": "1"})
        return pick(out, self.keys, "which", rows, typed)


def test_a_number_takes_a_row_whatever_was_looked_for() -> None:
    assert Typed("12").pick(ROWS) == 11
    assert Typed("row 2", "25").pick(ROWS) == 24
    assert Typed("", "3").pick(ROWS) is None
    assert Typed().pick(ROWS) is None, "the end of input is no answer"
    assert Typed("1").pick([]) is None


def test_a_number_that_there_is_not_is_looked_for() -> None:
    typed = Typed("12345", "1234567890123", "5")
    assert typed.pick(ROWS) == 4
    assert typed.shown.getvalue().count("which: none fits") == 2


def test_no_more_is_shown_than_can_be_read_and_nobody_is_asked_for_ever() -> None:
    typed = Typed(*["row"] * 50, "1")
    assert typed.pick(ROWS) is None
    assert typed.shown.getvalue().count("… 10 more") == 20


def test_a_row_is_one_safe_line() -> None:
    typed = Typed("")
    typed.pick([Row(words="a\x1b[2Jb\nc" + "x" * 300, note="n\tn")])
    line = typed.shown.getvalue().splitlines()[1]
    assert line.split() == ["1", "n", "n", "ab"]


def test_words_are_found_in_any_order_then_letters_in_theirs() -> None:
    rows = [Row(words="text"), Row(words="Fix the Tests", note="2h"), Row(words="te fx")]
    assert fitting("", rows) == [0, 1, 2]
    assert fitting("tests fix", rows) == [1]
    assert fitting("2h", rows) == [1]
    assert fitting("tt", rows) == [0, 1]

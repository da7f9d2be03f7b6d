import fcntl
import io
import os
import struct
import termios
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.views.plain import Output, bare, cells, cut, one_line, padded, safe, spelled, wrapped

TERM = {"TERM": "xterm-256color"}
hostile = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            "\x1b\x1b\x1b[]PX^_0123456789;?\x07\x08\r\n\t\\\x9b\x9c\x9d\u202e\u200dm~h"
        ),
    )
)


def is_active(sign: str) -> bool:
    """Whether a terminal does something with it, or a reader doesn't see it."""
    kind = unicodedata.category(sign)
    return sign not in "\n\t" and (
        kind in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(sign) in BIDI
    )


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN"}
JOINERS = "\u200c\u200d"


@given(hostile)
@example("\x1b]52;c;ZXZpbA==\x07paste")
@example("\x1bP+q\x1b\\x\x90y\x9c")
@example("\x1b]0;title without an end\x1b[2J")
def test_r66_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    shown = safe(text)
    assert [c for c in shown if is_active(c) and c not in JOINERS] == []


@given(hostile)
def test_r66_a_terminal_shows_printable_cells_and_does_nothing_else(text: str) -> None:
    shown = safe(text).replace("\t", " ")
    lines = shown.split("\n")
    screen = pyte.Screen(400, len(lines) + 2)
    fresh = set(screen.mode)
    pyte.Stream(screen).feed("\r\n".join([*lines, "end"]))
    assert screen.title == ""
    assert screen.mode == fresh
    assert screen.display[len(lines)].rstrip() == "end", "a line has moved the cursor"
    styles = {cell[1:] for row in screen.buffer.values() for cell in row.values()}
    assert styles <= {screen.default_char[1:]}


def test_what_an_escape_sequence_surrounds_stays() -> None:
    assert safe("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "red link"
    assert safe("10%\r20%\r\nend") == "10%\n20%\nend"
    assert safe("\x1b]0;never ended: rm -rf /") == "0;never ended: rm -rf /"


def test_unusual_characters_are_spelled_out_but_writing_systems_stay() -> None:
    assert safe("a\u202eb\u200bc\ufeff\U000e0041\udce9") == (
        r"a\u{202e}b\u{200b}c\u{feff}\u{e0041}\xe9"
    )
    for text in ("می\u200cخواهم", "क्\u200dष", "👩\u200d👧", "❤\ufe0f\u200d🔥", "1\ufe0f⃣", "天枢 ✓"):
        assert safe(text) == text
    assert safe("pass\u200cword \ufe0f") == r"pass\u{200c}word \u{fe0f}"


def test_r11_what_a_person_decides_by_has_nothing_hidden() -> None:
    assert spelled("ls\x1b[8m; rm -rf ~\x1b[0m\r#\xa0ok\u200d\n") == (
        r"ls\u{1b}[8m; rm -rf ~\u{1b}[0m\u{d}#\u{a0}ok\u{200d}" + "\n"
    )


@given(hostile)
def test_nothing_is_dropped_from_what_is_spelled_out(text: str) -> None:
    plain = [c for c in text.replace("\r\n", "\n") if c == "\n" or " " <= c <= "~"]
    left = iter(spelled(text))
    assert all(c in left for c in plain)
    assert not any(is_active(c) for c in spelled(text))


def test_long_runs_of_unended_sequences_take_no_long_time() -> None:
    for start in ("\x1b]", "\x9d", "\x1bP", "\x90", "\x9b0", "\x1b[", "\r", "\u200d"):
        assert len(safe(start * 100_000)) < 1_000_000


def test_a_file_gets_the_text_without_controls_but_otherwise_intact() -> None:
    assert bare("\x1b[1mA\u200bB\x07\x1b[0m\r\n\tC\ufeff") == "A\u200bB\n\tC\ufeff"


@given(st.text("ab 天枢é🚀\n", max_size=80), st.integers(2, 20))
def test_wrapping_loses_nothing_and_keeps_the_width(text: str, width: int) -> None:
    rows = wrapped(text, width)
    assert "".join(rows) == text.replace("\n", "")
    assert all(cells(row) <= width for row in rows)


def test_lines_break_behind_blanks_where_there_are_some() -> None:
    assert wrapped("one two three", 9) == ["one two ", "three"]
    assert wrapped("x" * 7, 3) == ["xxx", "xxx", "x"]


@given(st.text("ab 天枢é🚀", max_size=30), st.integers(1, 12))
def test_cutting_and_padding_count_columns(text: str, width: int) -> None:
    assert cells(cut(text, width)) <= width
    assert cells(padded(text, width)) == width


def test_one_line_is_the_first_that_holds_something() -> None:
    assert one_line("\n\n \x1b[1m  two   words \n more", 80) == "two words"
    assert one_line("天枢天枢天枢", 7) == "天枢天…"
    assert one_line(" \n\t", 7) == ""


def to(encoding: str) -> tuple[Output, io.BytesIO]:
    raw = io.BytesIO()
    return Output(io.TextIOWrapper(raw, encoding=encoding, newline="\n"), {}), raw


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "gbk", "utf-8"])
def test_c104_what_an_encoding_lacks_is_replaced(encoding: str) -> None:
    out, raw = to(encoding)
    out.line("done ✓ 天枢 🚀 \udce9")
    shown = raw.getvalue().decode(encoding)
    assert (shown[:5], shown[-1], out.gone) == ("done ", "\n", False)
    assert ("🚀" in shown) == (encoding == "utf-8")
    assert ("✓" in shown) == (encoding == "utf-8")


@contextmanager
def terminal() -> Iterator[TextIO]:
    """The program's end of a terminal."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        yield stream
    os.close(ours)


def test_c103_only_a_capable_terminal_gets_escape_sequences() -> None:
    with terminal() as stream:
        assert Output(stream, TERM).fancy
        assert Output(stream, {**TERM, "NO_COLOR": ""}).fancy  # by convention: not set
        assert Output(stream, TERM).styled("bold red", "x") == "\x1b[1;31mx\x1b[0m"
        plain: list[dict[str, str]] = [{}, {"TERM": "dumb"}, {"TERM": ""}, TERM | {"NO_COLOR": "1"}]
        for environ in plain:
            out = Output(stream, environ)
            assert (out.tty, out.fancy) == (True, False)
            assert out.styled("bold red", "x") == "x"
    assert Output(io.StringIO(), TERM).styled("red", "x") == "x"


def test_c103_an_answer_in_a_pipe_has_no_escape_byte_and_no_carriage_return() -> None:
    out, raw = to("utf-8")
    out.answer("\x1b[31mred\x1b[0m\r\nnext\rlast")
    assert raw.getvalue() == b"red\nnext\nlast\n"


def test_a_reader_that_has_gone_is_noticed_and_not_raised() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as raw:
        out = Output(io.TextIOWrapper(raw, "utf-8", write_through=True), {})
        out.line("into the void")
        assert out.gone
        out.line("again")
    assert Output(None, {}).gone
    closed = io.StringIO()
    closed.close()
    late = Output(closed, TERM)
    late.line("x")
    assert late.gone


def test_the_size_is_the_terminal_s_as_it_is_now() -> None:
    with terminal() as stream:
        out = Output(stream, TERM)
        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 11, 47, 0, 0))
        assert out.size == (47, 11)
        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert out.size == (80, 24)
    assert Output(io.StringIO(), TERM).size == (80, 24)

import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.child import output
from agent.tools.child.output import Output, Plain

PIECES = st.sampled_from(
    [
        *(b"a", b"bc", b" ", b"\n", b"\r", b"\r\n", b"\b", b"\x1b", b"\x1b[", b"31m", b"\x1b[0m"),
        *(b"\x1b]0;title\x07", b"\x1b]8;;http://x\x1b\\", b"\x1bP", b"\x1b\\", b"\x9b", b"\x1b(B"),
        *("é天😀".encode(), b"\xff", b"\xf0\x9f", b"\x00", b"\t", b"\x07", b"\xc2\x9b2K"),
    ]
)


def plain(*pieces: bytes) -> str:
    screen = Plain()
    return "".join(map(screen.feed, pieces)) + screen.rest(final=True)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\ntwo\n", "one\ntwo\n"),
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"10%\r20%\r100%\n", "100%\n"),
        (b"100%\r", "100%"),
        (b"busy\r    \rdone\n", "done\n"),
        (b"done\r    \n", "done\n"),
        (b"   \n", "   \n"),
        (b"|\b/\b-\bok\n", "ok\n"),
        (b"b\bbo\bol\bld\n", "bold\n"),
        (b"\x1b[1;31mred\x1b[0m \x1b[2Kdone\n", "red done\n"),
        (b"\x1b]0;a title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "text link\n"),
        (b"\x1bPdevice\x1b\\after\x1b(B\x1b=\x1b7\n", "after\n"),
        ("\x9b31mred\x9bm\n".encode(), "red\n"),
        (b"a\x00b\x07c\x7f\td\n", "abc\td\n"),
        (b"ok \xf0\x9f end\n", "ok \ufffd end\n"),
        ("é天😀\n".encode(), "é天😀\n"),
        (b"cut \xe5\xa4", "cut \ufffd"),
        (b"no end \x1b[3", "no end "),
    ],
)
def test_text_is_what_a_terminal_would_still_show(data: bytes, text: str) -> None:
    assert plain(data) == text


@given(st.lists(PIECES, max_size=30), st.data())
def test_it_makes_no_difference_where_the_pieces_are_cut(
    pieces: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    cut = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert plain(*cut) == plain(whole)


@given(st.binary(max_size=300))
def test_nothing_that_moves_a_terminal_s_cursor_is_left(data: bytes) -> None:
    assert not [letter for letter in plain(data) if letter < " " and letter not in "\n\t"]


def test_c046_letters_cut_between_two_reads_are_whole() -> None:
    data = "天😀é" * 1000
    pieces = [bytes([byte]) for byte in data.encode()]
    assert plain(*pieces) == data


def test_c047_overwritten_frames_take_no_room() -> None:
    kept = Output(200)
    for number in range(20_000):  # more than a line may hold
        kept.feed(b"\rfetch %d%%" % (number // 200 + 1))
    kept.feed(b"\n\x1b[31mred\x1b[0m \x1b[2Kdone\n")
    assert kept.take() == "fetch 100%\nred done\n"


def test_r70_long_output_keeps_both_ends_and_says_what_is_left_out(tmp_path: Path) -> None:
    kept = Output(1000, spill=tmp_path, path=lambda path: path.name)
    lines = [f"line {number}\n" for number in range(1, 20_001)]
    whole = "".join(lines)
    for line in lines:
        kept.feed(line.encode())
    text = kept.take()
    head, _, rest = text.partition("\n[… ")
    note, _, tail = rest.partition(" …]\n")

    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert tail.startswith("line ")
    assert len(head) + len(tail) <= 1000
    left = len(whole) - len(head) - len(tail)
    (file,) = tmp_path.iterdir()
    number = whole[len(head) : len(whole) - len(tail)].count("\n")
    expected = (
        f"{left:,} characters ({number:,} lines) are left out here; the whole is in {file.name}"
    )
    assert note == expected
    assert file.read_text(encoding="utf-8") == whole
    assert file.stat().st_mode & 0o777 == 0o600


def test_output_that_fits_makes_no_file(tmp_path: Path) -> None:
    kept = Output(1000, spill=tmp_path)
    kept.feed(b"x" * 1000)
    assert kept.take() == "x" * 1000
    assert not list(tmp_path.iterdir())


def test_what_was_taken_is_not_given_again(tmp_path: Path) -> None:
    kept = Output(1000, spill=tmp_path)
    kept.feed(b"one\ntw")
    assert kept.take(final=False) == "one\ntw"
    kept.feed("o\n天"[:1].encode() + b"\n" + "天".encode()[:1])
    assert kept.take(final=False) == "o\n"
    kept.feed("天".encode()[1:])
    assert kept.take() == "天"
    assert kept.take() == ""


def test_r70_a_file_holds_no_more_than_its_bound(
    tmp_path: Path,
) -> None:
    kept = Output(100, spill=tmp_path)
    piece = (b"y" * 99 + b"\n") * 1000
    for _ in range(output.SPILL // len(piece) + 3):
        kept.feed(piece)
    text = kept.take()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == output.SPILL
    assert text.endswith("y" * 59 + "\n")
    assert f"the first {output.SPILL:,} characters are in {file}" in text


def test_a_file_that_can_t_be_written_is_said(tmp_path: Path) -> None:
    kept = Output(100, spill=tmp_path / "gone")
    kept.feed(b"z" * 100_000)
    text = kept.take()
    assert "the whole could not be kept: No such file or directory" in text
    assert text.startswith("z")


def test_a_line_without_end_takes_constant_memory() -> None:
    kept = Output(10_000)
    piece = b"\x1b[" + b"x" * 65_000
    tracemalloc.start()
    began = time.process_time()
    for _ in range(60):
        kept.feed(piece)
        kept.feed(b"\x1b[" + b"1" * 60_000)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 5_000_000
    assert time.process_time() - began < 10
    assert len(kept.take()) < 11_000


def test_undecorated_output_is_decoded_and_nothing_else() -> None:
    kept = Output(1000, plain=False)
    kept.feed(b"\x1b[31mred\r\n\x00\xff")
    assert kept.take() == "\x1b[31mred\r\n\ufffd"

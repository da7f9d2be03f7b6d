"""Some lines of a file of any size, in constant memory.

The file passes through once, in blocks; only the lines that are shown are kept, and of a long line
only its beginning. What stands behind them is counted as far as that is quick.
"""

import codecs
import errno
import os
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from agent.stop import Stop
from agent.tools.file.text import Coding, visible

LINES = 2000  # lines shown, at most
CHARS = 50_000  # characters shown, at most
LINE = 2000  # characters of one line shown, at most
COUNTED = 1 << 28  # bytes behind the lines shown that are looked at to count what is left
LONG = 1 << 30  # bytes of one line that are looked at to know its length
BLOCK = 1 << 18
NOTHING = bytes(BLOCK)  # what a hole reads as
CONTINUED = bytes(range(0x80, 0xC0))  # UTF-8's bytes that begin no character


class Source(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


class Sparse:
    """A file as a stream. Its holes are not read: a sparse file of 10 GB would take seconds."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._size = os.fstat(file).st_size
        self._at = 0

    def read(self, size: int, /) -> bytes:
        if self._hole(size):
            self._at += size
            return NOTHING[:size]
        data = os.pread(self._file, size, self._at)
        self._at += len(data)
        return data

    def _hole(self, size: int) -> bool:
        """Whether there are `size` bytes of nothing from here on."""
        if size > min(self._size - self._at, BLOCK):
            return False
        try:
            return os.lseek(self._file, self._at, os.SEEK_DATA) - self._at >= size
        except OSError as error:
            return error.errno == errno.ENXIO  # no data up to the end; else holes are not told


class Window(Struct, frozen=True, kw_only=True):
    lines: tuple[str, ...]  # without their ends
    first: int  # number of the first line, from 1
    ended: bool  # the last line has an end of its own
    crlf: int  # how many of the lines end in CRLF
    cut: int  # how many are not shown whole
    left: int  # lines behind them
    sure: bool  # there are no more than that


class Rows:
    """The lines of a stream of blocks, taken one after another or passed over."""

    def __init__(self, blocks: Iterator[bytes], wide: bool) -> None:
        self.number = 1  # of the line that comes next
        self.seen = 0  # bytes
        self._blocks = blocks
        self._wide = wide  # characters may have several bytes
        self._block = b""
        self._at = 0

    def more(self) -> bool:
        """Whether anything is left; the next block is fetched if it must be."""
        while self._at >= len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self.seen += len(block)
            self._block, self._at = block, 0
        return True

    def skip(self, number: int) -> None:
        """Pass over lines until this one comes next, or the stream ends."""
        while self.number < number and self.more():
            ends = self._ends()
            if self.number + ends < number:
                self.number += ends
                ended = self._block.endswith(b"\n")
                self._at = len(self._block)
                if not ended and not self.more():
                    self.number += 1  # the last line, which has no end
            else:
                while self.number < number:
                    self._at = self._block.index(b"\n", self._at) + 1
                    self.number += 1

    def take(self, most: int) -> tuple[bytes, int, bool]:
        """The next line's first `most` bytes, its length in characters, whether it is ended.

        Stops after `LONG` bytes of a line, which then counts as not ended.
        """
        line, length, start = bytearray(), 0, self.seen
        while self.more() and self.seen - start < LONG:
            end = self._block.find(b"\n", self._at)
            piece = self._block[self._at : end if end >= 0 else None]
            line += piece[: most - len(line)]
            length += self._characters(piece)
            self._at = end + 1 if end >= 0 else len(self._block)
            if end >= 0:
                self.number += 1
                return bytes(line), length, True
        self.number += 1
        return bytes(line), length, False

    def left(self) -> tuple[int, bool]:
        """How many lines come yet, and whether that is all of them."""
        count, start, last = 0, self.seen, b"\n"
        while self.more():
            if self.seen - start > COUNTED:
                return count, False
            count += self._ends()
            last = self._block[-1:]
            self._at = len(self._block)
        return count + (last != b"\n"), True

    def _ends(self) -> int:
        """Line ends in what is left of the block. Searching is ten times as fast as counting."""
        if self._block.find(b"\n", self._at) < 0:
            return 0
        return self._block.count(b"\n", self._at)

    def _characters(self, piece: bytes) -> int:
        if not self._wide or piece.isascii():
            return len(piece)
        return len(piece.translate(None, CONTINUED))


def blocks(source: Source, coding: Coding, stop: Stop) -> Iterator[bytes]:
    """What `source` has behind its mark: as it is, or in UTF-8 if its characters are wider."""
    mark = len(coding.bom)
    decoder = codecs.getincrementaldecoder(coding.name)("replace") if coding.wide else None
    while block := source.read(BLOCK):
        stop.check()
        block, mark = block[mark:], 0
        yield decoder.decode(block).encode() if decoder else block


def window(
    source: Source, coding: Coding, stop: Stop, first: int = 1, last: int | None = None
) -> Window | int:
    """The lines from `first` to `last` as far as they may be shown.

    Where there is no such line: the number of lines that there are.
    """
    name = "utf-8" if coding.wide else coding.name
    rows = Rows(blocks(source, coding, stop), wide=name == "utf-8")
    rows.skip(first)
    if rows.number < first or not rows.more():
        return rows.number - 1
    lines, chars, crlf, cut, ended = list[str](), 0, 0, 0, True
    while rows.more() and (last is None or rows.number <= last):
        if len(lines) == LINES or chars >= CHARS or not ended:
            break
        data, length, ended = rows.take(LINE * 4)
        text = data.decode(name, "replace")
        if length <= LINE and ended and text.endswith("\r"):
            crlf += 1
            text = text[:-1]
        if length > LINE:
            cut += 1
            said = f"{length:,}" if ended or not rows.more() else f"more than {length:,}"
            text = f"{text[:LINE]}… [line cut: it has {said} characters]"
        lines.append(visible(text))
        chars += len(text) + 1
    left, sure = rows.left() if ended else (0, not rows.more())
    return Window(
        lines=tuple(lines), first=first, ended=ended, crlf=crlf, cut=cut, left=left, sure=sure
    )

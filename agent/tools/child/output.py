"""What a command prints, made fit to read and kept within bounds while it comes.

`Plain` turns the bytes of a terminal program into the text that would stay on a screen; `Output`
keeps the two ends of that text, and the whole in a file once it is longer. Both take pieces of
any size, cut anywhere, and hold a constant amount of memory whatever the command prints.
"""

import codecs
import re
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

LINE = 65_536  # characters of one line that are held back, so that a later frame can replace them
SPILL = 32_000_000  # characters of a whole output that are kept in its file

# ECMA-48, 5.3 to 5.6: control sequences, control strings, other escape sequences. The last group
# is one that has begun at the very end, whose rest may still come.
ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,64}[@-~]"
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]{0,4096}\x1b\\"
    r"|\x1b[ -/]{0,64}[0-OQ-WYZ\\`-~]"
    r"|((?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,64}|\x1b\][^\x07\x1b]{0,4096}\x1b?"
    r"|\x1b[PX^_][^\x1b]{0,4096}\x1b?|\x1b[ -/]{0,64})\Z"
)
CONTROL = re.compile(r"[\x00-\x07\x0b-\x0c\x0e-\x1f\x7f-\x9f]")
ORDINARY = bytes([*range(32, 127), 9, 10])  # bytes that mean themselves wherever they stand


class Plain:
    """Bytes to text without escape sequences and overwritten frames; bad UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""  # an escape sequence whose end has not come yet
        self._line = ""  # a line whose end has not come yet

    def feed(self, data: bytes) -> str:
        """The text that is certain now; an unfinished line waits for the rest of it."""
        text = self._begun + self._decoder.decode(data)
        self._begun = ""
        if data.translate(None, ORDINARY) or len(text) != len(data):
            text = CONTROL.sub("", ESCAPE.sub(self._left, text))
        whole, newline, rest = (self._line + text).rpartition("\n")
        if "\r" in whole or "\b" in whole:
            whole = "\n".join(map(shown, whole.split("\n")))
        # The last frame may turn out to be blank, or to be the "\r" of "\r\n".
        frames, mark, frame = rest.rpartition("\r")
        self._line = shown(frames) + mark + erased(frame)
        if len(self._line) <= LINE:
            return whole + newline
        line, self._line = self._line, ""
        return whole + newline + shown(line)

    def rest(self, *, final: bool) -> str:
        """The unfinished line; where nothing more comes (`final`), unfinished letters as well."""
        line, self._line = self._line, ""
        if final:
            text = self._begun + self._decoder.decode(b"", final=True)
            line += CONTROL.sub("", ESCAPE.sub("", text))
            self._begun = ""
        return shown(line)

    def _left(self, found: re.Match[str]) -> str:
        self._begun = found[1] or ""
        return ""


def shown(line: str) -> str:
    """What a terminal would still show of a line: its last frame that is not blank."""
    if "\r" not in line:
        return erased(line)
    frames = map(erased, reversed(line.split("\r")))
    return next((frame for frame in frames if frame.strip()), "")


def erased(frame: str) -> str:
    """Text without what is followed by a backspace."""
    if "\b" not in frame:
        return frame
    letters: list[str] = []
    for letter in frame:
        if letter != "\b":
            letters.append(letter)
        elif letters:
            letters.pop()
    return "".join(letters)


class Output:
    """The text of what is fed to it, cut in the middle to about `limit` characters.

    With `spill`, a longer text goes whole (up to SPILL characters) into a new file in that
    directory, whose path the cut names, as `path` gives it. `plain` false: only decoded, without
    NULs, as `$(…)` gives it. May be fed and taken from by two threads.
    """

    def __init__(
        self,
        limit: int,
        *,
        plain: bool = True,
        spill: Path | None = None,
        path: Callable[[Path], str] = str,
    ) -> None:
        self._head_limit, self._tail_limit = limit * 2 // 5, limit - limit * 2 // 5
        self._plain = Plain() if plain else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._spill = Spill(spill) if spill else None
        self._path_shown = path
        self._head = self._tail = ""
        self._lost = self._lost_lines = 0
        self.whole = True  # whether nothing was left out of what was taken last

    def feed(self, data: bytes) -> None:
        with self._lock:
            if self._plain:
                self._keep(self._plain.feed(data))
            else:
                self._keep(self._decoder.decode(data).replace("\0", ""))

    def take(self, *, final: bool = True) -> str:
        """The text since it was last taken, unfinished line and all. `final`: no more comes."""
        with self._lock:
            if self._plain:
                self._keep(self._plain.rest(final=final))
            elif final:
                self._keep(self._decoder.decode(b"", final=True))
            self._trim(self._tail_limit)
            if self._lost:  # go on from the start of a line where one is near
                near = min(200, self._tail_limit // 4)
                self._trim(len(self._tail) - (self._tail.find("\n", 0, near) + 1))
            head, tail, note = self._head, self._tail, self._note()
            self.whole = not note
            self._head = self._tail = ""
            self._lost = self._lost_lines = 0
            if self._spill:
                self._spill.close()
        return f"{head}\n{note}\n{tail}" if note else head + tail

    def _keep(self, text: str) -> None:
        if room := self._head_limit - len(self._head):
            self._head += text[:room]
            text = text[room:]
        self._tail += text
        if self._spill and self._lost:
            self._spill.write(text)
        if len(self._tail) > 2 * self._tail_limit + LINE:
            self._trim(self._tail_limit)

    def _trim(self, size: int) -> None:
        """Lose the older part of the tail where it is longer than `size`."""
        if (extra := len(self._tail) - size) <= 0:
            return
        if self._spill and not self._lost:
            self._spill.write(self._head)
            self._spill.write(self._tail)
        self._lost += extra
        self._lost_lines += self._tail.count("\n", 0, extra)
        self._tail = self._tail[extra:]

    def _note(self) -> str:
        if not self._lost:
            return ""
        what = f"{self._lost:,} characters ({self._lost_lines:,} lines) are left out here"
        return f"[… {what}{self._spill.note(self._path_shown) if self._spill else ''} …]"


class Spill:
    """A file for a whole output, made when first written to. Its troubles are told, not raised."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[str] | None = None
        self._path = Path()
        self._left = SPILL  # negative: some was left out
        self._fault = ""

    def write(self, text: str) -> None:
        text, self._left = text[: max(self._left, 0)], self._left - len(text)
        if self._fault or not text:
            return
        try:
            if not self._file:
                self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed in `close`
                    "w", encoding="utf-8", newline="", delete=False,
                    dir=self._directory, prefix="output-", suffix=".txt",
                )  # fmt: skip
                self._path = Path(self._file.name)
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self._fault = f"; the whole could not be kept: {error.strerror}"

    def note(self, shown: Callable[[Path], str]) -> str:
        if self._fault or not self._file:
            return self._fault
        what = "the whole is" if self._left >= 0 else f"the first {SPILL:,} characters are"
        return f"; {what} in {shown(self._path)}"

    def close(self) -> None:
        """End this file; what is written next goes to another one."""
        if self._file:
            with suppress(OSError):  # the write that failed has been told
                self._file.close()
        self._file, self._left, self._fault = None, SPILL, ""

"""What may be printed to a terminal, and the stream it is printed to.

Text from models, tools and files is data: printed as it is, it could move the cursor, set the
clipboard, forge a question or hide half of a command. `safe` is for reading, `spelled` for
deciding: it drops nothing.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import TextIO

from agent.views.theme import THEMES, USUAL

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC: title, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x80-\x9f]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # the others, and the head of one that does not end
)
# Controls, bidi marks and overrides, letters and blanks of no width, tags, surrogates.
_NEVER = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0"
    r"\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ODD = re.compile(
    rf"[{_NEVER}]"
    # Joiners are spelling in Persian, Hindi and emoji; in ASCII they only hide.
    r"|(?<![^\x00-\xbf\u2000-\u206f])[\u200c\u200d]"
    r"|(?<![#*0-9\xa1-\ufdff\ufe10-\U000dffff])[\ufe00-\ufe0f]"
)
_UNUSUAL = re.compile(
    rf"[{_NEVER}\xa0\u1680\u2000-\u200d\u202f\u205f\u2800\u3000\ufe00-\ufe0f]"
)  # blanks that are no blank too
_JOINERS = re.compile(r"[\u200c\u200d\ufe00-\ufe0f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_STAND_INS = str.maketrans(
    {
        "✓": "+", "✗": "x", "▸": ">", "↷": "-", "↻": "~", "⊘": "!", "…": "...", "—": "-", "–": "-",
        "·": "-", "┃": "|", "•": "*", "├": "|", "└": "`", "│": "|", "┌": ",", "─": "-", "→": "->",
        "←": "<-", "×": "x", "“": '"', "”": '"', "‘": "'", "’": "'",
    }
)  # fmt: skip


def safe(text: str) -> str:
    """`text` for a terminal: escape sequences are dropped, other characters that act on it or
    that nobody sees are spelled out. Lines and tabs stay; a lone carriage return ends a line.

    >>> safe("\\x1b[31mred\\x1b[0m \\u202ecod.exe")
    'red \\\\u{202e}cod.exe'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _ODD.sub(_spell, text)


def spelled(text: str) -> str:
    """`text` with nothing dropped and nothing hidden: for a person who decides by it."""
    return _UNUSUAL.sub(_spell, text.replace("\r\n", "\n"))


def named(path: str) -> str:
    """The name of a file on one line, with nothing dropped and nothing hidden."""
    return spelled(path).replace("\n", "\\n").replace("\t", "\\t")


def bare(text: str) -> str:
    """`text` for a file or a pipe: without escape sequences and controls, otherwise intact."""
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def _spell(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{{{code:x}}}"


def cells(text: str) -> int:
    """How many columns safe text takes up."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Safe text in at most `width` columns, with … where something is left out."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    if text[:width].isascii():  # each takes one; the library takes half a millisecond
        return text[: width - 1].rstrip() + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"


def padded(text: str, width: int) -> str:
    """Safe text in exactly `width` columns."""
    text = cut(text, width)
    return text + " " * (width - cells(text))


def one_line(text: str, width: int) -> str:
    """The first line of `text` that holds something, safe, in at most `width` columns.

    Joiners are left out: terminals disagree about the width of what they join.
    """
    for line in safe(text).split("\n"):
        if words := " ".join(_JOINERS.sub("", line).split()):
            return cut(words, width)
    return ""


def wrapped(text: str, width: int) -> list[str]:
    """Safe text in lines of at most `width` columns; nothing is left out, blanks neither."""
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        start = 0
        while (end := _fitting(line, start, width)) < len(line):
            blank = line.rfind(" ", start + (end - start) // 2, end)
            end = blank + 1 if blank > 0 else end
            rows.append(line[start:end])
            start = end
        rows.append(line[start:])
    return rows


def _fitting(line: str, start: int, width: int) -> int:
    """Where the characters from `start` on that fit in `width` columns end; at least one fits."""
    used = 0
    for place in range(start, len(line)):
        used += cells(line[place])
        if used > width and place > start:
            return place
    return len(line)


class Output:
    """A stream for people to read, and what it can show.

    Characters that its encoding lacks are replaced. Once its reader has gone nothing is written
    any more (`gone`); no call raises for it. `environ` is the environment: NO_COLOR and TERM.
    `size` gives columns and lines; without it the terminal is asked.
    """

    def __init__(
        self,
        stream: TextIO | None,
        environ: Mapping[str, str],
        *,
        size: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.stream = stream
        self._size = size
        self.environ = environ
        self.gone = stream is None
        self.fault: OSError | None = None  # why nothing more can be written, but for no reader
        self.tty = stream is not None and not stream.closed and stream.isatty()
        dumb = environ.get("TERM", "dumb") in {"dumb", "unknown", ""}
        # Whether escape sequences may be used: colours, and lines that are drawn again.
        self.fancy = self.tty and not dumb and not environ.get("NO_COLOR")
        self.theme = USUAL
        self.encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        self.unicode = self.encoding.replace("_", "-") in {"utf-8", "utf8", "utf-8-sig"}

    def write(self, text: str) -> None:
        """Write text that is ours or made safe, at once."""
        if self.stream is None or self.gone:
            return
        if not self.unicode:
            text = text.translate(_STAND_INS)
        text = text.encode(self.encoding, "replace").decode(self.encoding)
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError) as error:  # ValueError: the stream has been closed
            self.gone = True
            if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
                self.fault = error

    def line(self, text: str = "") -> None:
        self.write(text + "\n")

    def answer(self, text: str) -> None:
        """Write a model's answer, ended by a line end: safe on a terminal, bare elsewhere."""
        text = safe(text) if self.tty else bare(text)
        self.write(text if text.endswith("\n") or not text else text + "\n")

    def styled(self, style: str, text: str) -> str:
        """`text` in a style of the theme ("bold red"), where the stream can show it."""
        if not self.fancy or not text or not style:
            return text
        codes = ";".join(filter(None, (THEMES[self.theme].styles[one] for one in style.split())))
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

    # What a file object has, so that libraries can print to it.
    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return self.tty

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now; 80 and 24 where that is not known."""
        if self._size:
            return self._size()
        if self.tty and self.stream is not None and not self.gone:
            try:
                columns, lines = os.get_terminal_size(self.stream.fileno())
            except (OSError, ValueError):
                columns = lines = 0
            if columns and lines:
                return columns, lines
        return 80, 24

    @property
    def width(self) -> int:
        return self.size[0]

"""What is typed while something else is at work: bytes from a terminal, as lines.

The terminal sends each key as it comes, without echo; the line under way is shown by whoever draws
the screen. It is edited at its end only: Backspace, Ctrl+U, Ctrl+W. Keys that mean something
elsewhere (arrows, function keys) are passed over. What is pasted stays one line, ends of lines and
all, where the terminal says that it is pasted.
"""

import codecs
import re

MOST = 1_000_000  # characters of a line; what is beyond is passed over
ESC, WHOLE, PLAN = "\x1b", "\x0f", "\x14"  # Esc, Ctrl+O, Ctrl+T: given on as they are
PASTE, PASTED = "\x1b[200~", "\x1b[201~"  # what a terminal sends around what is pasted
_KEY = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\x1b\[O])")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?$")  # of a key, or Esc itself
_PIECE = re.compile(r"\x1b\[20[01]~|[^\x00-\x1f\x7f]+|[\x00-\x1f\x7f]")


class Typed:
    """The line under way is `text`.

    >>> line = Typed()
    >>> line.feed(b"/sk"), line.feed(b"op\\x7f\\x7fip a\\r/d"), line.text
    ([], ['/skip a'], '/d')
    >>> line.feed(b"\\x1b"), line.feed(b"")  # Esc, once nothing has come behind it
    ([], ['\\x1b'])
    """

    def __init__(self) -> None:
        self.text = ""
        self._begun = ""  # a key that has not come whole
        self._pasting = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Take bytes, none for a while in which nothing was typed; the lines that are whole by
        them, and the keys that are given on, each by itself."""
        lines = list[str]()
        text = self._begun + self._decoder.decode(data)
        begun = _BEGUN.search(text) if data else None
        self._begun = begun[0] if begun else ""
        text = text[: begun.start()] if begun else text
        for piece in _PIECE.findall(_KEY.sub(_kept, text)):
            match piece:
                case "\x1b[200~" | "\x1b[201~":
                    self._pasting = piece == PASTE
                case "\r" | "\n" if self._pasting:
                    self.text = (self.text + "\n")[:MOST]
                case "\r" | "\n":
                    lines.append(self.take())
                case "\x1b" | "\x0f" | "\x14" if not self._pasting:
                    lines.append(piece)
                case "\x7f" | "\x08":
                    self.text = self.text[:-1]
                case "\x15":
                    self.text = ""
                case "\x17":
                    self.text = re.sub(r"\S+\s*$", "", self.text)
                case "\t":
                    self.text += " "
                case _ if piece >= " ":
                    self.text = (self.text + piece)[:MOST]
                case _:
                    pass
        return lines

    def take(self) -> str:
        """The line as it is, which is empty then."""
        text, self.text = self.text, ""
        return text


def _kept(key: re.Match[str]) -> str:
    return key[0] if key[0] in {PASTE, PASTED} else ""

"""What is typed while something else is at work: bytes from a terminal, as lines.

The terminal sends each key as it comes, without echo; the line under way is shown by whoever draws
the screen. It is edited at its end only: Backspace, Ctrl+U, Ctrl+W. Keys that mean something
elsewhere (arrows, function keys) are passed over; a paste is what it says.
"""

import codecs
import re

MOST = 65_536  # characters of a line; what is beyond is passed over
_KEY = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|\[?[0-?]*$)")
_PIECE = re.compile(r"[^\x00-\x1f\x7f]+|[\x00-\x1f\x7f]")


class Typed:
    """The line under way is `text`.

    >>> line = Typed()
    >>> line.feed(b"/sk"), line.feed(b"op\\x7fip a\\r/d"), line.text
    ([], ['/skip a'], '/d')
    """

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Take bytes; the lines that are whole by them."""
        lines = list[str]()
        text = self._decoder.decode(data).replace("\x1b[200~", "").replace("\x1b[201~", "")
        for piece in _PIECE.findall(_KEY.sub("", text)):
            match piece:
                case "\r" | "\n":
                    lines.append(self.take())
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

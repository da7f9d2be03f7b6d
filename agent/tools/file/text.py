"""A file's bytes as text, and back without losing one.

What is no UTF-8 is still read: bytes that break it are carried through by `surrogateescape`, and a
file with more broken than sound characters is taken for Windows-1252, else for Latin-1 (which has
a character for each byte). Decoding and encoding again gives the same bytes for every coding that
`coding` returns for the whole of a file. Lines end in LF or CRLF and in nothing else.
"""

import codecs
import re
from contextlib import suppress

from msgspec import Struct

from agent.errors import ToolError

SAMPLE = 8192  # bytes that tell text from binary
BOMS = (  # UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
WORDS = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
    "utf-32-le": "UTF-32 LE",
    "utf-32-be": "UTF-32 BE",
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
}
PRINTED = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\r\f\b\x1b"})
BROKEN = re.compile("[\udc80-\udcff]+")
LONE = re.compile("[\ud800-\udfff]")


class Coding(Struct, frozen=True, kw_only=True):
    """How a file's text is written as bytes."""

    name: str  # Python's name of it
    bom: bytes = b""
    damaged: bool = False  # UTF-8 with bytes in it that are none

    def __str__(self) -> str:
        return WORDS[self.name] + (" with BOM" if self.bom and self.name == "utf-8" else "")

    @property
    def wide(self) -> bool:
        return self.name.startswith(("utf-16", "utf-32"))

    @property
    def errors(self) -> str:
        """What lets every byte through, both ways."""
        if self.wide:
            return "surrogatepass"
        return "surrogateescape" if self.name == "utf-8" else "strict"

    @property
    def remark(self) -> str:
        """What a reader should know; "" for plain UTF-8."""
        if self.damaged:
            return "has bytes that are not UTF-8, shown as �; edits leave them as they are"
        if self.name in ("cp1252", "latin-1"):
            return f"not UTF-8, read as {self}"
        return str(self) if self.bom or self.wide else ""

    def decode(self, data: bytes) -> str:
        """`data` without its mark. Raises UnicodeDecodeError where it is not so coded."""
        return data[len(self.bom) :].decode(self.name, self.errors)

    def encode(self, text: str) -> bytes:
        """Raises UnicodeEncodeError where the coding lacks a character."""
        return self.bom + text.encode(self.name, self.errors)


def coding(data: bytes, *, whole: bool = True) -> Coding | None:
    """How `data` is coded: a file, or its beginning if not `whole`. None: it is no text."""
    for bom, name in BOMS:
        marked = Coding(name=name, bom=bom)
        if data.startswith(bom) and (name == "utf-8" or fits(marked, data, whole)):
            broken = name == "utf-8" and not fits(marked, data, whole)
            return Coding(name=name, bom=bom, damaged=broken)
    sample = data[:SAMPLE]
    if b"\0" in sample:
        return unmarked(data, whole)
    if len(sample.translate(None, PRINTED)) * 10 > len(sample) or sample.startswith(b"%PDF-"):
        return None
    return narrow(data, whole)


def fits(coding: Coding, data: bytes, whole: bool) -> bool:
    """Whether `data` is sound in this coding; a character cut at the end of a part is."""
    errors = "strict" if coding.name == "utf-8" else coding.errors
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder(coding.name)(errors).decode(data[len(coding.bom) :], whole)
        return True
    return False


def unmarked(data: bytes, whole: bool) -> Coding | None:
    """UTF-16 without a mark, told by being mostly ASCII and wholly printable."""
    for name in ("utf-16-le", "utf-16-be"):
        text = data[:SAMPLE].decode(name, "replace")
        plain = sum(char < "\x80" for char in text)
        if plain * 2 > len(text) and all(char.isprintable() or char in "\t\r\n" for char in text):
            found = Coding(name=name)
            return found if fits(found, data, whole) else None
    return None


def narrow(data: bytes, whole: bool) -> Coding:
    """The coding of text whose characters are bytes or UTF-8."""
    plain = Coding(name="utf-8")
    if fits(plain, data, whole):
        return plain
    text = plain.decode(data)
    broken = sum(len(match[0]) for match in BROKEN.finditer(text))
    sound = len(text) - broken - len(text.encode("ascii", "ignore"))
    if sound and sound >= broken:
        return Coding(name="utf-8", damaged=True)
    western = Coding(name="cp1252")
    return western if fits(western, data, whole) else Coding(name="latin-1")


def sound(text: str, what: str) -> str:
    """`text`; raises ToolError for half of a surrogate pair, which no file can hold as text."""
    if match := LONE.search(text):
        raise ToolError(
            f"{what} holds U+{ord(match[0]):04X}, half of a character, at {match.start()}; "
            "send the whole character"
        )
    return text


def visible(text: str) -> str:
    """`text` as a result can hold it: undecodable bytes as �, NUL as ␀."""
    return LONE.sub("�", text).replace("\0", "␀")


def spelled(name: str) -> str:
    """A file's name as a result can hold it: bytes that are not UTF-8, and control characters,
    as `\\xNN`."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return re.sub(r"[\x00-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", text)

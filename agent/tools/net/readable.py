"""What came from the web, as text that a model can read.

HTML becomes Markdown: headings, lists, links with whole addresses, code, tables. Every step takes
time in proportion to the page, also for a page made to be slow: a tag ends at the first `>` and
holds no `<`, and what is not found once is not searched for again.
"""

import codecs
import re
from html import unescape
from urllib.parse import urljoin

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The Encoding Standard (WHATWG), 4.2: what pages so named are really written in.
MEANT = {
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
NOT_TEXT = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
DECLARED = re.compile(rb"""<meta[^<>]*?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)

TOKEN = re.compile(r"<!--|<[!?][^<>]*>|<(/?)([A-Za-z][A-Za-z0-9]*)([^<>]*)>")
HREF = re.compile(r"""\bhref\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
ALT = re.compile(r"""\balt\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
UNSEEN = {"canvas", "iframe", "noscript", "object", "script", "style", "svg", "template"}
RAW = {"script", "style", "textarea", "title"}  # hold text, no tags (HTML Standard, 13.1.2)
BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "p"),
    *("section", "summary", "table", "tbody", "thead", "tfoot"),
}
HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
# Not for eyes: controls, and letters that hide text or turn it round.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


def decoded(data: bytes, charset: str, *, html: bool) -> str:
    """Text of bytes: by their mark, else `charset`, else what a page says of itself, else UTF-8
    where it is that, else Western. Never fails; what can't be read becomes U+FFFD."""
    for mark, name in MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    said = DECLARED.search(data[:4096]) if html else None
    for name in (charset, said[1].decode("ascii") if said else ""):
        if codec := known(name):
            return data.decode(codec, "replace")
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)  # the last letter may be cut
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def known(name: str) -> str:
    """The codec for a charset's name, "" if there is none for it."""
    try:
        codec = codecs.lookup(name.strip().strip("\"'"))
        b"x".decode(codec.name, "replace")  # refuses what decodes to no text: rot13, zip
    except (LookupError, ValueError):
        return ""
    return "" if codec.name in NOT_TEXT else MEANT.get(codec.name, codec.name)


def clean(text: str) -> str:
    """Text without letters that are not for eyes; line ends are `\\n`."""
    return HIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def markdown(html: str, base: str) -> str:
    """A page as Markdown, with links from `base`. Never fails: what is no HTML stays as it is."""
    page = Page(base)
    at = 0
    missing: set[str] = set()  # closing tags that don't come any more
    while token := TOKEN.search(html, at):
        page.text(html[at : token.start()])
        at = token.end()
        closing, name = token[1], (token[2] or "").lower()
        if token[0] == "<!--":
            end = html.find("-->", at)
            at = len(html) if end < 0 else end + 3
        elif not name:
            pass
        elif not closing and name in UNSEEN | RAW and name not in missing:
            if end_tag := re.compile(f"</{name}[^<>]*>", re.IGNORECASE).search(html, at):
                page.raw(name, html[at : end_tag.start()])
                at = end_tag.end()
            else:
                missing.add(name)
        elif closing:
            page.close(name)
        else:
            page.open(name, token[3])
    page.text(html[at:])
    return page.end()


class Page:
    """The Markdown of a page while its tags go by."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._done: list[str] = []  # lines
        self._line: list[str] = []  # pieces of the line that is being written
        self._start = ""  # what that line begins with
        self._lists: list[int] = []  # of each open list, the last number; -1: it has none
        self._links: list[tuple[str, int, int]] = []  # address, lines done, pieces written
        self._code: list[str] | None = None  # inside `pre`

    def text(self, html: str) -> None:
        if html:
            (self._line if self._code is None else self._code).append(unescape(html))

    def raw(self, name: str, html: str) -> None:
        """The content of an element without tags."""
        if name == "title" and not self._done:
            self._line.append(unescape(html))
            self._flush("Title: ")
            self._gap()
        elif name == "textarea":
            self.text(html)

    def open(self, name: str, attributes: str) -> None:
        match name:
            case "pre":
                self._flush()
                self._code = []
            case "br":
                self._break()
            case "ul" | "ol":
                self._flush()
                self._lists = [*self._lists[-19:], 0 if name == "ol" else -1]
            case "li":
                self._flush()
                self._start = self._bullet()
            case "a":
                href = HREF.search(attributes)
                address = unescape(href[1].strip("\"'")).strip() if href else ""
                self._links = [*self._links[-9:], (address, len(self._done), len(self._line))]
            case "img":
                if (alt := ALT.search(attributes)) and (words := alt[1].strip("\"'").strip()):
                    self.text(f"[image: {words}]")
            case "code" | "kbd" | "samp":
                self._tick()
            case "tr" | "option":
                self._flush()
            case _ if name in HEADINGS:
                self._block()
                self._start = HEADINGS[name]
            case _ if name in BLOCKS:
                self._block()

    def close(self, name: str) -> None:
        match name:
            case "pre" if self._code is not None:
                code, self._code = "".join(self._code).strip("\n"), None
                fence = "````" if "```" in code else "```"
                self._gap()
                self._done += [fence, *code.split("\n"), fence, ""]
            case "ul" | "ol":
                self._flush()
                self._lists = self._lists[:-1]
                if not self._lists:
                    self._gap()
            case "a" if self._links:
                self._link(*self._links.pop())
            case "code" | "kbd" | "samp":
                self._tick()
            case "td" | "th":
                self._line.append(" | ")
            case "tr" | "li":
                self._flush()
            case _ if name in HEADINGS or name in BLOCKS:
                self._block()

    def end(self) -> str:
        if self._code is not None:
            self.close("pre")
        self._flush()
        return clean(re.sub(r"\n{3,}", "\n\n", "\n".join(self._done))).strip("\n")

    def _flush(self, start: str = "") -> None:
        """End the line; one without words leaves nothing."""
        words = " ".join("".join(self._line).split()).removesuffix(" |")
        if words:
            self._done.append((start or self._start) + words)
            self._start = ""
        self._line = []

    def _gap(self) -> None:
        if self._done and self._done[-1]:
            self._done.append("")

    def _block(self) -> None:
        self._flush()
        if not self._lists:
            self._start = ""
            self._gap()

    def _break(self) -> None:
        if self._code is None:
            self._flush()
        else:
            self._code.append("\n")

    def _bullet(self) -> str:
        depth = "  " * (len(self._lists) - 1)
        if not self._lists or self._lists[-1] < 0:
            return f"{depth}- "
        self._lists[-1] += 1
        return f"{depth}{self._lists[-1]}. "

    def _tick(self) -> None:
        if self._code is None:
            self._line.append("`")

    def _link(self, address: str, lines: int, pieces: int) -> None:
        if self._code is not None or not address or address.startswith("#"):
            return
        try:
            whole = urljoin(self._base, address)
        except ValueError:  # an address that is none
            return
        if not whole.startswith(("http://", "https://")) or len(whole) > 2000:
            return
        if lines != len(self._done):  # it goes over several lines
            self._line.append(f" ({whole}) ")
        elif words := " ".join("".join(self._line[pieces:]).split()):
            self._line[pieces:] = [f"[{words}]({whole})"]

"""Markdown as it streams: a block that has ended is printed once, only the tail is drawn again.

A block has ended when another has begun behind it. HTML is shown as it is written, links with
their address, and nothing is fetched.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from agent.views.plain import Output, safe
from agent.views.theme import THEMES

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.markdown import Markdown
    from rich.segment import Segment
    from rich.syntax import ANSISyntaxTheme

LOOK = {  # no background: the terminal's own, dark or light
    "markdown.code": "cyan",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold underline",
    "markdown.h3": "bold",
    "markdown.link": "underline",
    "markdown.link_url": "blue",
    "markdown.block_quote": "italic",
    "markdown.list": "none",
    "markdown.item.bullet": "bold",
    "markdown.item.number": "bold",
}
MOST = 20_000  # characters of a tail that are drawn again; of more, the end


class Prose:
    """One text after another: `feed` it pieces, draw `rows`, and `end` it."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._text = ""  # of the message so far
        self._done = 0  # how much of it is printed for good
        self._checked = 0  # how much of it has been looked at for blocks that have ended
        self._drawn: tuple[tuple[int, int, int], list[str]] | None = None

    def feed(self, piece: str) -> str:
        """Take in a piece; return what is to be printed for good now, "" for nothing yet.

        Where the output can't be drawn on, that is the piece itself.
        """
        self._text += piece
        if not self._out.fancy:
            self._done = len(self._text)
            return safe(piece)
        if not self._may_have_ended():
            return ""
        self._checked = len(self._text)
        tail = self._text[self._done :]
        starts = [token.map[0] for token in parsed(tail) if token.map and token.level == 0]
        if len(starts) < 2 or not starts[-1]:
            return ""
        lines = tail.split("\n")
        return self._printed("\n".join(lines[: starts[-1]]) + "\n")

    def _may_have_ended(self) -> bool:
        """Whether the lines since the last look hold one that may end a block, or begin one."""
        fresh = self._text[max(self._checked - 1, self._done) :].split("\n")
        return any(
            not line.strip() or line.lstrip().startswith(("#", "```", "~~~", ">", "---"))
            for line in fresh[:-1]
        ) and bool(fresh[-1].strip() or len(fresh) > 2)

    def end(self, text: str | None = None) -> str:
        """The message is over; `text`: all of it, as the model's reply has it. Returns the rest."""
        whole = self._text if text is None else text
        thrown_away = not whole.startswith(self._text[: self._done])  # the model began anew
        gap = "\n" if thrown_away else ""
        if thrown_away:
            self._done = 0
        self._text = whole
        rest = whole[self._done :]
        if self._out.fancy:
            rest = self._printed(rest) if rest.strip() else ""
        else:
            rest = safe(rest) + ("\n" if whole and not whole.endswith("\n") else "")
        self._text, self._done, self._checked, self._drawn = "", 0, 0, None
        return gap + rest

    def _printed(self, source: str) -> str:
        first = not self._done
        self._done += len(source)
        rows = rendered(source, self._out)
        return ("" if first or not rows else "\n") + "".join(row + "\n" for row in rows)

    def rows(self, width: int, height: int) -> list[str]:
        """What is not printed yet, in at most `height` rows: the end of it."""
        tail = self._text[self._done :]
        if not tail.strip() or not self._out.fancy:
            return []
        key = (len(self._text), width, height)
        if self._drawn is None or self._drawn[0] != key:
            rows = rendered(shortened(tail, height), self._out)
            self._drawn = key, (["", *rows] if self._done else rows)[-height:]
        return self._drawn[1]


def shortened(tail: str, height: int) -> str:
    """The end of a tail, where it is longer than can be shown; a code block stays one."""
    lines = tail.split("\n")
    if len(lines) <= 2 * height and len(tail) <= MOST:
        return tail
    last = [token for token in parsed(tail) if token.map and token.level == 0][-1]
    head = [last.markup + last.info] if last.type == "fence" else []
    many = height + 1 if head else 2 * height
    return "\n".join([*head, *lines[-many:]])[-MOST:]


def parsed(source: str) -> "Sequence[Token]":
    """Its tokens, safe: Markdown can name any character (`&#x202e;`)."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    tokens = parser.enable(["strikethrough", "table"]).disable("image").parse(safe(source))
    for token in tokens:
        for one in (token, *(token.children or ())):
            one.content = safe(one.content)
    return tokens


def rendered(source: str, out: Output) -> list[str]:
    """Markdown as lines with styles, as wide as the output, without blank lines around them."""
    from rich.console import Console
    from rich.theme import Theme

    look = THEMES[out.theme]
    console = Console(
        force_terminal=True,
        color_system="256",
        width=max(out.width - 1, 10),
        height=out.size[1],
        theme=Theme(LOOK | look.prose),
        _environ=out.environ,
        legacy_windows=False,
    )
    told = _markdown(look.code)("", hyperlinks=False)
    told.parsed = list(parsed(source))
    rows = [_styled(row) for row in console.render_lines(told, pad=False)]
    while rows and not rows[0]:
        rows.pop(0)
    while rows and not rows[-1]:
        rows.pop()
    return rows


def _markdown(code: dict[str, str] | str) -> "type[Markdown]":
    """Rich's Markdown with headings at the left and code without a background of its own."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Heading, Markdown
    from rich.syntax import Syntax

    theme = _tokens(code) if isinstance(code, dict) else code

    class Left(Heading):
        LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")

    class Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            text = str(self.text).rstrip()
            yield Syntax(text, self.lexer_name, theme=theme, word_wrap=True, padding=(0, 2))

    class Told(Markdown):
        elements: ClassVar = {
            **Markdown.elements,
            "heading_open": Left,
            "fence": Code,
            "code_block": Code,
        }

    return Told


def _tokens(code: dict[str, str]) -> "ANSISyntaxTheme":
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme

    styles = {tuple(name.split(".")): Style.parse(style) for name, style in code.items()}
    return ANSISyntaxTheme(styles)


def _styled(row: "list[Segment]") -> str:
    """A rendered row as text with escape sequences, without the blanks at its end."""
    from rich.color import ColorSystem

    while row and not row[-1].text.strip() and not (row[-1].style and row[-1].style.bgcolor):
        row = row[:-1]
    pieces = []
    for n, (text, style, control) in enumerate(row):
        words = text.replace("\n", " ")
        if n == len(row) - 1 and not (style and style.bgcolor):
            words = words.rstrip()
        if not control:
            pieces.append(
                style.render(words, color_system=ColorSystem.EIGHT_BIT) if style else words
            )
    return "".join(pieces)

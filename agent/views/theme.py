"""How what is shown looks: for each theme, what a style's name stands for.

`ansi` is the terminal's own palette, which its owner has chosen for their background. The others
bring colours of the 256 that everybody has, each readable on the background it is for.
"""

from typing import NamedTuple


class Theme(NamedTuple):
    """`styles`: codes of SGR by name, "" for none. `prose` and `code`: what is different in
    Markdown and in code, in Rich's words; `code`: by kind of token, or the name of a table."""

    about: str
    styles: dict[str, str]
    prose: dict[str, str]
    code: dict[str, str] | str


def _colours(**numbers: int) -> dict[str, str]:
    return {name: f"38;5;{number}" for name, number in numbers.items()}


PLAIN = {"bold": "1", "dim": "2", "italic": "3"}

THEMES: dict[str, Theme] = {
    "ansi": Theme(
        about="the terminal's own 16 colours, on any background",
        styles={
            **PLAIN,
            "red": "31",
            "green": "32",
            "yellow": "33",
            "blue": "34",
            "magenta": "35",
            "cyan": "36",
        },
        prose={},
        code="ansi_dark",
    ),
    "dark": Theme(
        about="soft colours, on a dark background",
        styles=PLAIN
        | _colours(dim=247, red=210, green=114, yellow=221, blue=111, magenta=176, cyan=80),
        prose={"markdown.code": "color(80)", "markdown.link_url": "color(111)"},
        code={
            "Keyword": "color(176)",
            "Literal.String": "color(114)",
            "Literal.Number": "color(221)",
            "Name.Function": "color(111)",
            "Name.Class": "color(111)",
            "Comment": "color(247)",
        },
    ),
    "light": Theme(
        about="deep colours, on a light background",
        styles=PLAIN
        | _colours(dim=240, red=124, green=22, yellow=94, blue=25, magenta=90, cyan=23),
        prose={"markdown.code": "color(23)", "markdown.link_url": "color(25)"},
        code={
            "Keyword": "color(90)",
            "Literal.String": "color(22)",
            "Literal.Number": "color(94)",
            "Name.Function": "color(25)",
            "Name.Class": "color(25)",
            "Comment": "color(240)",
        },
    ),
    "contrast": Theme(
        about="no colours and nothing faint: bold, underlined and reversed, on any background",
        styles={
            "bold": "1",
            "dim": "",
            "italic": "",
            "red": "1;7",
            "green": "1",
            "yellow": "1;4",
            "blue": "4",
            "magenta": "4",
            "cyan": "1",
        },
        prose={"markdown.code": "bold", "markdown.link_url": "underline"}
        | {"markdown.block_quote": "none"},
        code={"Keyword": "bold", "Name.Function": "underline", "Name.Class": "underline"},
    ),
    "amber": Theme(
        about="shades of amber, on a dark background",
        styles={**PLAIN, "bold": "1;38;5;214"}
        | _colours(dim=137, red=209, green=179, yellow=221, blue=173, magenta=215, cyan=222),
        prose={
            "markdown.code": "color(222)",
            "markdown.h1": "bold underline color(214)",
            "markdown.h2": "bold underline color(214)",
            "markdown.h3": "bold color(214)",
            "markdown.link_url": "color(173)",
        },
        code={
            "Keyword": "bold color(214)",
            "Literal": "color(179)",
            "Name.Function": "color(222)",
            "Name.Class": "color(222)",
            "Comment": "color(137)",
        },
    ),
}
USUAL = "ansi"

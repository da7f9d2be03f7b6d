"""Every theme has all styles, and what it shows can be read."""

import re
from io import StringIO
from typing import get_args, get_type_hints

import pytest

from agent.settings import Settings
from agent.views.plain import Output
from agent.views.prose import rendered
from agent.views.theme import THEMES, USUAL

Colour = tuple[float, float, float]
GROUNDS: dict[str, list[Colour]] = {
    "dark": [(0, 0, 0), (0x1E, 0x1E, 0x1E), (0x28, 0x2C, 0x34)],
    "light": [(255, 255, 255), (0xFD, 0xF6, 0xE3)],
    "amber": [(0, 0, 0), (0x1E, 0x1E, 0x1E)],
}
MARKDOWN = """\
# Head

A `word`, a [link](http://a.example).

```python
def f():  # why
    return 'x' + 1
```
"""


class Teletype(StringIO):
    def isatty(self) -> bool:
        return True


def output(theme: str, **environ: str) -> Output:
    out = Output(Teletype(), {"TERM": "xterm-256color", **environ})
    out.theme = theme
    return out


def test_the_settings_name_the_same_themes_and_the_usual_one() -> None:
    assert set(get_args(get_type_hints(Settings)["theme"])) == set(THEMES)
    assert Settings().theme == USUAL


@pytest.mark.parametrize("name", list(THEMES))
def test_each_has_all_styles_and_shows_markdown_whole(name: str) -> None:
    assert THEMES[name].styles.keys() == THEMES[USUAL].styles.keys()
    out = output(name)
    told = "\n".join(rendered(MARKDOWN, out))
    bare = re.sub(r"\x1b\[[\d;]*m", "", told)
    assert "return 'x' + 1" in bare
    assert "\x1b" not in bare
    for style in THEMES[name].styles:
        assert re.sub(r"\x1b\[[\d;]*m", "", out.styled(f"bold {style}", "x")) == "x"


@pytest.mark.parametrize("name", list(GROUNDS))
def test_colours_are_read_on_their_background(name: str) -> None:
    theme = THEMES[name]
    told = [*theme.styles.values(), *theme.prose.values()]
    told += theme.code.values() if isinstance(theme.code, dict) else []
    numbers = {int(each) for text in told for each in re.findall(r"(?:38;5;|color\()(\d+)", text)}
    assert numbers
    for number in numbers:
        for ground in GROUNDS[name]:
            assert contrast(rgb(number), ground) >= 4.5, (number, ground)


def test_high_contrast_has_no_colour_and_nothing_faint() -> None:
    told = "\n".join(rendered(MARKDOWN, output("contrast")))
    styled = "".join(output("contrast").styled(style, "x") for style in THEMES["contrast"].styles)
    codes = {
        code for found in re.findall(r"\x1b\[([\d;]*)m", told + styled) for code in found.split(";")
    }
    assert codes <= {"", "0", "1", "4", "7"}


def test_no_color_is_heeded_in_every_theme() -> None:
    for name in THEMES:
        assert output(name, NO_COLOR="1").styled("bold red", "x") == "x"


def rgb(number: int) -> Colour:
    """Of the 256 colours, one of the cube or a grey."""
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    steps = (number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6
    red, green, blue = (55 + 40 * step if step else 0 for step in steps)
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """As WCAG 2 counts it."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: Colour) -> float:
    def linear(part: float) -> float:
        part /= 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

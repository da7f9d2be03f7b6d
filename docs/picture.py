"""Draws docs/demo.svg from a real run of `ts demo`: `python docs/picture.py`.

The run goes on in a terminal of ours (pexpect, pyte). What is on its screen when most agents are
at work, and when the run has ended, is drawn one below the other.
"""

import sys
from html import escape
from pathlib import Path

import pexpect
import pyte

from agent.views.tree import FRAMES

COLUMNS, ROWS = 108, 44
WIDE, HIGH, MARGIN = 8.4, 18, 16  # of a character and a line; around the text; in pixels
COLOURS = {
    "default": "#d8dee9",
    "black": "#4c566a",
    "red": "#e0707a",
    "green": "#9ece6a",
    "brown": "#e5c07b",
    "yellow": "#e5c07b",
    "blue": "#7aa2f7",
    "magenta": "#c792ea",
    "cyan": "#7dcfff",
    "white": "#eceff4",
}
DIM = "#8a93a5"


def screens() -> list[list[list[pyte.screens.Char]]]:
    """The screen with most steps under way, and the one after the run."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    child = pexpect.spawn(
        sys.executable,
        ["-m", "agent.cli", "demo"],
        dimensions=(ROWS, COLUMNS),
        encoding="utf-8",
        timeout=60,
    )
    best, most, last = rows(screen, "plan:"), 0, rows(screen, "plan:")
    while True:
        try:
            stream.feed(child.read_nonblocking(4096, timeout=60))
        except pexpect.EOF:
            break
        text = "\n".join(screen.display)
        running = sum(" tok " in line and line[2:].lstrip()[0] in FRAMES for line in screen.display)
        if running >= most and "attempt" in text:
            best, most = rows(screen, "plan:"), running
        if " done in " in text:
            last = rows(screen, "↻")
            break
    child.close(force=True)
    return [best, last]


def rows(screen: pyte.Screen, start: str) -> list[list[pyte.screens.Char]]:
    """The rows that hold something, from the one that begins with `start` to the run's end."""
    lines = [[screen.buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]
    texts = ["".join(char.data for char in line).rstrip() for line in lines]
    first = next((n for n, text in enumerate(texts) if text.startswith(start)), 0)
    last = max((n for n, text in enumerate(texts) if text), default=0)
    ended = next((n for n, text in enumerate(texts) if " done in " in text), last)
    return lines[first : min(last, ended) + 1]


def drawn(parts: list[list[list[pyte.screens.Char]]]) -> str:
    """An SVG of the parts, a gap between them."""
    lines = [line for n, part in enumerate(parts) for line in ([[]] if n else []) + part]
    width, height = COLUMNS * WIDE + 2 * MARGIN, len(lines) * HIGH + 2 * MARGIN
    texts = "\n".join(
        f'<text y="{MARGIN + HIGH * (n + 0.75):g}">{"".join(spans(line))}</text>'
        for n, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="A run of ts demo in a terminal">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#1d2230"/>\n'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" '
        f'xml:space="preserve">\n{texts}\n</g>\n</svg>\n'
    )


def spans(line: list[pyte.screens.Char]) -> list[str]:
    """Runs of characters that look the same, each at its column."""
    found: list[str] = []
    start = 0
    while start < len(line):
        end, look = start, style(line[start])
        while end < len(line) and style(line[end]) == look:
            end += 1
        text = "".join(char.data for char in line[start:end])
        if text.strip():
            x = MARGIN + start * WIDE
            size = f'textLength="{(end - start) * WIDE:g}" lengthAdjust="spacingAndGlyphs"'
            found.append(f'<tspan x="{x:g}" {size} {look}>{escape(text)}</tspan>')
        start = end
    return found


def style(char: pyte.screens.Char) -> str:
    colour = COLOURS.get(char.fg.removeprefix("bright"), DIM)
    return f'fill="{colour}"' + (' font-weight="bold"' if char.bold else "")


if __name__ == "__main__":
    Path(__file__).with_name("demo.svg").write_text(drawn(screens()), encoding="utf-8")

"""One of several, chosen by the user at a terminal.

Arrow keys and what is typed find a row; Enter takes it, Escape and Ctrl-C take none. Where the
terminal can't do this, the rows are numbered, and a number takes one.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from agent.views.plain import Output, cut, one_line, padded

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

ROWS = 10  # that are shown at once where they scroll
NUMBERED = 20  # that are shown where they are numbered
TRIES = 20  # lines that are no answer
SEARCHED = 400  # characters of a row that are looked through


class Row(Struct, frozen=True, kw_only=True):
    """A thing to choose."""

    words: str  # what it is
    note: str = ""  # shown before it: an age, a size


def fitting(typed: str, rows: Sequence[Row]) -> list[int]:
    """The places of the rows that fit what is typed: those that hold each word of it first, then
    those that hold its letters in their order.

    >>> fitting("fx te", [Row(words="text"), Row(words="Fix the tests"), Row(words="te fx")])
    [2, 1]
    """
    wanted = typed.casefold().split()
    known = [f"{row.note} {row.words}"[:SEARCHED].casefold() for row in rows]
    held = [at for at, text in enumerate(known) if all(word in text for word in wanted)]
    letters = "".join(wanted)
    rest = set(range(len(rows))).difference(held)
    return held + [at for at in sorted(rest) if within(letters, known[at])]


def within(letters: str, text: str) -> bool:
    """Whether a text holds these letters in their order."""
    rest = iter(text)
    return all(letter in rest for letter in letters)


def pick(out: Output, keys: TextIO, title: str, rows: Sequence[Row], typed: str = "") -> int | None:
    """The place of the row that the user chooses; None for none. `typed`: what is looked for."""
    if not rows:
        return None
    if not (out.fancy and keys.isatty()):
        return _numbered(out, keys, title, rows, typed)
    return _Picker(out, title, rows, typed).application(keys).run()


def _line(row: Row, notes: int, width: int) -> str:
    note = padded(one_line(row.note, notes), notes) + "  " if notes else ""
    return note + one_line(row.words, max(width - notes - 2, 10))


def _notes(rows: Sequence[Row]) -> int:
    return min(max((len(row.note) for row in rows), default=0), 30)


def _numbered(out: Output, keys: TextIO, title: str, rows: Sequence[Row], typed: str) -> int | None:
    """Numbers are a row's own, whatever words are looked for."""
    notes = _notes(rows)
    found = fitting(typed, rows)
    for _ in range(TRIES):
        out.line(title if found else f"{title}: none fits")
        for at in found[:NUMBERED]:
            out.line(f"{at + 1:>5}  {_line(rows[at], notes, out.width - 8)}")
        if len(found) > NUMBERED:
            out.line(f"       … {len(found) - NUMBERED} more")
        out.write("a number, words to look for, or Enter for none: ")
        with suppress(KeyboardInterrupt):
            reply = keys.readline().strip()
            if not reply:
                return None
            if reply.isdecimal() and 0 < int(reply[:9]) <= len(rows):
                return int(reply[:9]) - 1
            found = fitting(reply, rows)
            continue
        out.line()
        return None
    return None


class _Picker:
    """What is typed, what fits it, and where the user stands in that."""

    def __init__(self, out: Output, title: str, rows: Sequence[Row], typed: str) -> None:
        self._out, self._title, self._rows = out, title, rows
        self._notes = _notes(rows)
        self._typed = typed
        self._found = fitting(typed, rows)
        self._at = 0

    def application(self, keys: TextIO) -> "Application[int | None]":
        from prompt_toolkit.application import Application
        from prompt_toolkit.input import create_input
        from prompt_toolkit.layout import FormattedTextControl, Layout, Window
        from prompt_toolkit.output import create_output

        made: Application[int | None] = Application(
            layout=Layout(Window(FormattedTextControl(self._shown), dont_extend_height=True)),
            key_bindings=self._keys(),
            input=create_input(keys),
            output=create_output(self._out.stream),
            erase_when_done=True,
            include_default_pygments_style=False,
        )
        made.ttimeoutlen = 0.1  # seconds after which Escape is a key of its own
        return made

    def _shown(self) -> "StyleAndTextTuples":
        width = self._out.width - 1
        mark, stop = ("❯ ", "…") if self._out.unicode else ("> ", "...")
        shown: StyleAndTextTuples = [
            ("bold", cut(f"{self._title}: ", width)),
            ("", one_line(self._typed, 60) + "\n"),
        ]
        first = max(min(self._at - ROWS // 2, len(self._found) - ROWS), 0)
        for place, at in enumerate(self._found[first : first + ROWS], first):
            here = place == self._at
            line = cut((mark if here else "  ") + _line(self._rows[at], self._notes, width), width)
            shown.append(("bold ansicyan" if here else "", line + "\n"))
        if not self._found:
            shown.append(("", "  none fits\n"))
        count = f"{len(self._found)} of {len(self._rows)}"
        help = f"{count} · arrows move, letters find{stop} Enter takes it, Esc none"
        shown.append(("ansibrightblack", cut(help, width)))
        return shown

    def _keys(self) -> "KeyBindings":
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys

        keys = KeyBindings()

        def moving(step: int) -> Callable[["KeyPressEvent"], None]:
            def move(event: "KeyPressEvent") -> None:
                self._at = min(max(self._at + step, 0), max(len(self._found) - 1, 0))

            return move

        moves = {"up": -1, "c-p": -1, "down": 1, "c-n": 1, "pageup": -ROWS, "pagedown": ROWS}
        for key, step in {**moves, "home": -len(self._rows), "end": len(self._rows)}.items():
            keys.add(key)(moving(step))

        @keys.add(Keys.Any)
        def type(event: "KeyPressEvent") -> None:
            if event.data.isprintable():
                self._look_for(self._typed + event.data)

        @keys.add(Keys.BracketedPaste)
        def paste(event: "KeyPressEvent") -> None:
            self._look_for(self._typed + " ".join(event.data.split())[:SEARCHED])

        @keys.add("backspace")
        def rub_out(event: "KeyPressEvent") -> None:
            self._look_for(self._typed[:-1])

        @keys.add("c-u")
        def empty(event: "KeyPressEvent") -> None:
            self._look_for("")

        @keys.add("enter")
        def take(event: "KeyPressEvent") -> None:
            if self._found:
                event.app.exit(result=self._found[self._at])

        @keys.add("escape")
        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("<sigint>")
        def leave(event: "KeyPressEvent") -> None:
            event.app.exit(result=None)

        return keys

    def _look_for(self, typed: str) -> None:
        self._typed, self._at = typed, 0
        self._found = fitting(typed, self._rows)

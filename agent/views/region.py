"""The lines at the foot of a terminal that are drawn again and again, and what scrolls past above.

What is printed stays where it is for good; only the few lines of the foot are drawn anew, in one
write, at most eight times a second. The cursor is hidden within such a write and no longer, and
lines don't wrap in it, so that nothing has to be put right after a crash but the echo of keys.

All of it is guarded by one lock: events, the clock's ticks and questions come from different
threads. What is printed during a pause is kept and shown after it.
"""

import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from agent.views.plain import Output, cells

PERIOD = 0.125  # seconds from frame to frame
HELD = 10_000  # texts that are kept during a pause, at most

Rows = Callable[[int, int], list[str]]
"""Gives the foot's rows for a width and a height, each in less columns than that."""


class Region:
    """Draws the rows that `rows` gives, while open. Where `out` can't be drawn on, only prints.

    `keys`: the terminal's input; what is typed into it is not echoed while the foot is drawn.
    """

    def __init__(self, out: Output, rows: Rows, *, keys: TextIO | None = None) -> None:
        self.lock = threading.RLock()
        self._out, self._rows, self._keys = out, rows, keys
        self._painted: list[int] = []  # columns of each row that is on the screen
        self._open = False
        self._pauses = 0
        self._held: list[str] = []
        self._end = threading.Event()
        self._echo: list[int | list[bytes | int]] | None = None  # the terminal's state before

    def open(self) -> None:
        """Begin to draw. Idempotent."""
        with self.lock:
            if self._open or not self._out.fancy:
                return
            self._open = True
            self._end = threading.Event()
            self._hush()
            self._paint()
            threading.Thread(
                target=self._tick, args=(self._end,), name="screen", daemon=True
            ).start()

    def close(self) -> None:
        """Take the foot away and leave the terminal as it was. Idempotent."""
        with self.lock:
            self._end.set()
            if self._open:
                if not self._pauses:  # otherwise the foot is away already
                    self._out.write(self._erased())
                self._open = False
                self._unhush()

    def print(self, text: str) -> None:
        """Print lines (safe, each ended by a line end) above the foot."""
        with self.lock:
            if self._pauses:
                self._held = [*self._held[-HELD:], text]
            elif text:
                self._out.write(self._erased() + text + self._drawn())

    def draw(self) -> None:
        """Draw the foot now, without waiting for the clock."""
        with self.lock:
            self._paint()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, the terminal is the caller's: nothing is drawn or printed, keys are echoed."""
        with self.lock:
            if not self._pauses and self._open:
                self._out.write(self._erased())
                self._unhush()
            self._pauses += 1
        try:
            yield
        finally:
            with self.lock:
                self._pauses -= 1
                if not self._pauses:
                    if self._open:
                        self._hush()
                    held, self._held = "".join(self._held), []
                    self.print(held)
                    self._paint()

    def _tick(self, end: threading.Event) -> None:
        while not end.wait(PERIOD):
            with self.lock:
                if end.is_set() or self._out.gone:
                    return
                self._paint()

    def _paint(self) -> None:
        if self._open and not self._pauses:
            self._out.write(self._home() + self._drawn())

    def _drawn(self) -> str:
        """The rows, from where the cursor stands; leaves it behind the last one."""
        if not self._open:
            return ""
        width, height = self._out.size
        rows = self._rows(width - 1, height - 1)
        self._painted = [cells(_unstyled(row)) for row in rows]
        return "\x1b[?25l\x1b[?7l" + "\x1b[K\n".join(rows) + "\x1b[J\x1b[?7h\x1b[?25h"

    def _home(self) -> str:
        """Back to the first row's begin. A terminal made narrower has broken long rows in two."""
        if not self._painted:
            return "\r"
        width = max(self._out.width, 1)
        lines = sum(max(-(-wide // width), 1) for wide in self._painted)
        broken = "\x1b[J" if lines > len(self._painted) else ""
        return "\r" + (f"\x1b[{lines - 1}A" if lines > 1 else "") + broken

    def _erased(self) -> str:
        if not self._open:
            return ""
        home = self._home()
        self._painted = []
        return home + "\x1b[J"

    def _hush(self) -> None:
        if self._keys is None or self._keys.closed or not self._keys.isatty():
            return
        with suppress(termios.error):
            self._echo = termios.tcgetattr(self._keys)
            quiet = termios.tcgetattr(self._keys)
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(self._keys, termios.TCSANOW, quiet)

    def _unhush(self) -> None:
        if self._keys is not None and self._echo is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, self._echo)
            self._echo = None


def _unstyled(row: str) -> str:
    """A row without the styles that we gave it."""
    pieces = row.split("\x1b[")
    return pieces[0] + "".join(piece.partition("m")[2] for piece in pieces[1:])

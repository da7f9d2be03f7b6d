"""The lines at the foot of a terminal that are drawn again and again, and what scrolls past above.

What is printed stays where it is for good; of the few lines of the foot those that have changed
are drawn anew, in one write, at most eight times a second, or at a key. The cursor is hidden within
such a write and no longer, and lines don't wrap in it, so that nothing has to be put right after a
crash but the echo of keys.

All of it is guarded by one lock: events, the clock's ticks, keys and questions come from different
threads. What is printed during a pause is kept and shown after it; keys are not read in one.
"""

import os
import select
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TextIO

from agent.views.plain import Output, cells
from agent.views.typed import Typed

PERIOD = 0.125  # seconds from frame to frame
AWAY = 1.0  # seconds without a frame, after which the process may have been suspended
HELD = 10_000  # texts that are kept during a pause, at most

Rows = Callable[[int, int], list[str]]
"""Gives the foot's rows for a width and a height, each in less columns than that."""


class Region:
    """Draws the rows that `rows` gives, while open. Where `out` can't be drawn on, only prints.

    `keys`: the terminal's input; what is typed into it is not echoed while the foot is drawn. Where
    there is somebody to `hear` the lines that are typed, `typed` has the one under way.
    """

    def __init__(self, out: Output, rows: Rows, *, keys: TextIO | None = None) -> None:
        self.lock = threading.RLock()
        self.typed = Typed()
        self.hear: Callable[[str], None] | None = None  # set before it is opened
        self._out, self._rows, self._keys = out, rows, keys
        self._painted: list[str] = []  # the rows that are on the screen …
        self._width = 0  # … drawn for that many columns
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
        last = monotonic()
        while not self._waited(end):
            lines = list[str]()
            with self.lock:
                if end.is_set() or self._out.gone:
                    return
                if not self._pauses:
                    if monotonic() - last > AWAY:  # a shell has had the terminal meanwhile
                        self._unhush()
                        self._hush()
                        self._width = 0
                    lines = self._read()
                    self._paint()
                last = monotonic()
            for line in lines:
                if self.hear:
                    self.hear(line)

    def _waited(self, end: threading.Event) -> bool:
        """Wait for a frame's time, or a key; whether it is the end."""
        if (keys := self._listening) is None or self._pauses:
            return end.wait(PERIOD)
        with suppress(OSError, ValueError):
            select.select([keys], [], [], PERIOD)
        return end.is_set()

    @property
    def _listening(self) -> int | None:
        """The terminal's input where keys are read: not of a job in the background."""
        if self.hear is None or self._echo is None or self._keys is None or self._keys.closed:
            return None
        keys = self._keys.fileno()
        with suppress(OSError):  # another terminal than the job's is free to be read
            if os.tcgetpgrp(keys) != os.getpgrp():
                return None
        return keys

    def _read(self) -> list[str]:
        """The lines that are whole by what has been typed."""
        if (keys := self._listening) is None:
            return []
        with suppress(OSError):
            if select.select([keys], [], [], 0)[0]:
                data = os.read(keys, 4096)
                if not data:  # the terminal has gone
                    self._unhush()
                return self.typed.feed(data)
        return self.typed.feed(b"")

    def _paint(self) -> None:
        if self._open and not self._pauses:
            width, height = self._out.size
            rows = self._rows(width - 1, height - 1)
            if width != self._width or len(rows) != len(self._painted):
                self._out.write(self._home() + self._drawn(rows))
            elif rows != self._painted:
                self._out.write(self._changed(rows))

    def _changed(self, rows: list[str]) -> str:
        """The rows that are not as they were, from behind the last one and back to there."""
        pieces, at, last = ["\x1b[?25l\x1b[?7l"], len(rows) - 1, len(rows) - 1
        for n, row in enumerate(rows):
            if row != self._painted[n]:
                pieces += [_moved(n - at), "\r", row, "\x1b[K"]
                at = n
        if at != last:
            behind = cells(_unstyled(rows[last]))
            pieces += [_moved(last - at), "\r", f"\x1b[{behind}C" if behind else ""]
        self._painted = rows
        return "".join([*pieces, "\x1b[?7h\x1b[?25h"])

    def _drawn(self, rows: list[str] | None = None) -> str:
        """The rows, from where the cursor stands; leaves it behind the last one."""
        if not self._open:
            return ""
        width, height = self._out.size
        self._width = width
        self._painted = self._rows(width - 1, height - 1) if rows is None else rows
        return "\x1b[?25l\x1b[?7l" + "\x1b[K\n".join(self._painted) + "\x1b[J\x1b[?7h\x1b[?25h"

    def _home(self) -> str:
        """Back to the first row's begin. A terminal made narrower has broken long rows in two."""
        if not self._painted:
            return "\r"
        width = max(self._out.width, 1)
        lines = len(self._painted)
        if width < self._width:
            lines = sum(max(-(-cells(_unstyled(row)) // width), 1) for row in self._painted)
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
            keys = termios.ICANON | termios.IEXTEN if self.hear else 0  # each as it comes
            quiet[3] &= ~(termios.ECHO | keys)
            termios.tcsetattr(self._keys, termios.TCSANOW, quiet)
        if self.hear:
            self._out.write("\x1b[?2004h")  # say what is pasted

    def _unhush(self) -> None:
        if self._keys is not None and self._echo is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, self._echo)
            self._echo = None
            if self.hear:
                self._out.write("\x1b[?2004l")


def _moved(lines: int) -> str:
    """Down by so many lines, or up."""
    if not lines:
        return ""
    return f"\x1b[{lines}B" if lines > 0 else f"\x1b[{-lines}A"


def _unstyled(row: str) -> str:
    """A row without the styles that we gave it."""
    pieces = row.split("\x1b[")
    return pieces[0] + "".join(piece.partition("m")[2] for piece in pieces[1:])

"""A chat at a real terminal: keys go in, and a screen shows what a user would see."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import pexpect
import pyte

from tests.e2e.ts import MAIN, Ts

ASKS_CURSOR = re.compile(rb"\x1b\[6n")
DOWN, ESC, CTRL_C, CTRL_D = "\x1b[B", "\x1b", "\x03", "\x04"
PATIENCE = 30.0  # seconds


class Screen:
    """Someone who talks to `ts` at a terminal of 100 columns and 60 lines."""

    def __init__(self, ts: Ts, *words: str, shell: str = "", **environ: str) -> None:
        """With a `shell`, that is what they talk to first."""
        argv = [shell, *words] if shell else [sys.executable, MAIN[1], *words]
        self.display = pyte.Screen(100, 60)
        self._stream = pyte.ByteStream(self.display)
        self.child = pexpect.spawn(
            argv[0], argv[1:], cwd=str(ts.cwd),
            env=ts.environment({"TERM": "xterm-256color", **environ}),
            dimensions=(60, 100), timeout=30,
        )  # fmt: skip
        self.child.delaybeforesend = None

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.display.display)

    def sees(self, words: str) -> None:
        self._until(lambda: words in self.text)

    def asked(self, draft: str = "") -> None:
        """Read until the cursor stands at a prompt that holds `draft`."""
        row = self.display.cursor
        self._until(lambda: self.display.display[row.y].rstrip() == f"› {draft}".rstrip())

    def says(self, line: str, *seen: str) -> None:
        """Type a line, and see what comes of it until the next prompt."""
        self.child.send(line + "\r")
        self.sees(f"› {line}".rstrip())
        for words in seen:
            self.sees(words)
        self.asked()

    def types(self, keys: str) -> None:
        self.child.send(keys)

    def resized(self, lines: int, columns: int) -> None:
        """Make the window so large, as a user does with the mouse."""
        self.display.resize(lines, columns)
        self.child.setwinsize(lines, columns)

    def leaves(self) -> int:
        self.child.send(CTRL_D)
        return self.ended()

    def ended(self) -> int:
        """Read until it has ended by itself; the exit code."""
        self._until(lambda: not self.child.isalive())
        self.child.close()
        return int(self.child.exitstatus or 0)

    def _until(self, shown: Callable[[], bool]) -> None:
        end = monotonic() + PATIENCE
        while not shown():
            assert monotonic() < end, self.text
            try:
                piece = self.child.read_nonblocking(65536, 1)
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                self.child.wait()
                assert shown(), self.text
                return
            self._stream.feed(piece)
            for _ in ASKS_CURSOR.findall(piece):
                cursor = self.display.cursor
                self.child.send(f"\x1b[{cursor.y + 1};{cursor.x + 1}R")


@contextmanager
def chatting(ts: Ts, *words: str, **environ: str) -> Iterator[Screen]:
    screen = Screen(ts, *words, **environ)
    try:
        yield screen
    finally:
        screen.child.close(force=True)

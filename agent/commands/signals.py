"""Signals that ask ts to leave: the first is heard, so that all ends well; a second is obeyed.

What a command does about the first is its own: it sets a stop flag, or leaves the line editor.
Where the wish is not new, what still runs is given PATIENCE, and then the process goes, with the
terminal as it was found; what it leaves running is ended by its survivor (tools/child/after.py).
"""

import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeAlias

from agent.stop import HUNG_UP, INTERRUPTED, TERMINATED, Stop

CODES: dict[int, int] = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: HUNG_UP,
}
PATIENCE = 0.8  # seconds from a second Ctrl-C on: commands that don't listen are ended within 0.5

Hear: TypeAlias = Callable[[int], bool]
"""Is told the exit code that a signal asks for; false: it had been asked to leave already."""


@contextmanager
def heard(hear: Hear) -> Iterator[None]:
    """While inside, signals are told to `hear`. A hang-up that is ignored (nohup) stays so."""
    terminal = _terminal()
    leaving = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal leaving
        if hear(CODES[number]) or leaving:
            return
        leaving = True
        signal.signal(signal.SIGALRM, lambda *_: _leave(CODES[number], terminal))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [number for number in CODES if number != signal.SIGHUP or not ignored]
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        if leaving:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """While inside, the first signal sets the flag."""
    asked = False

    def hear(code: int) -> bool:
        nonlocal asked
        first, asked = not asked, True
        stop.set(code)
        return first

    with heard(hear):
        yield


def _terminal() -> list[Any] | None:
    """How the terminal is set, where there is one."""
    with suppress(termios.error, AttributeError, OSError, ValueError):  # closed, or none
        return termios.tcgetattr(sys.stdin.fileno())
    return None


def _leave(code: int, terminal: list[Any] | None) -> None:
    if terminal:
        with suppress(termios.error, OSError):  # it has gone
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, terminal)
    os._exit(code)

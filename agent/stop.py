"""The flag that ends work: set by a signal, a time limit, a budget. Every wait is a wait on it."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.errors import StoppedError

TIME, HUNG_UP, INTERRUPTED, TERMINATED = 124, 129, 130, 143  # exit codes (the contract, 2)
WORDS = {
    TIME: "time ran out",
    HUNG_UP: "hung up",
    INTERRUPTED: "interrupted",
    TERMINATED: "terminated",
}

TICK = 0.2  # seconds; Python runs a signal's handler between two waits: a long one may miss it
STRONGER = (70, TERMINATED, HUNG_UP, INTERRUPTED, TIME, 4, 3, 75)  # the contract, 2


def strength(why: int) -> int:
    """How much an exit code counts beside others."""
    return -STRONGER.index(why) if why in STRONGER else -len(STRONGER)


class Stop:
    """Set once, for good. A child is set with its parent, or by itself, or when its time is up.

    >>> run = Stop()
    >>> step = run.child()
    >>> run.set(INTERRUPTED)
    >>> step.is_set, step.why
    (True, 130)
    """

    def __init__(self, *, seconds: float | None = None) -> None:
        self._flag = threading.Condition()
        self._why = 0
        self.words = ""  # what stopped it, for the user
        self._end = None if seconds is None else time.monotonic() + seconds
        self._parent: Stop | None = None  # held, so that it is there to pass a signal on
        self._children: weakref.WeakSet[Stop] = weakref.WeakSet()
        self._calls: list[Callable[[], None]] = []

    def child(self, seconds: float | None = None) -> "Stop":
        """A flag that this one sets too; `seconds` from now it counts as set (TIME)."""
        child = Stop(seconds=seconds)
        child._parent = self
        with self._flag:
            if self._end is not None and (child._end is None or self._end < child._end):
                child._end = self._end
            child._why, child.words = self._why, self.words
            self._children.add(child)
        return child

    def set(self, why: int = INTERRUPTED, words: str = "") -> None:
        """Stop. `why` is the exit code that says so; of several the stronger counts (STRONGER)."""
        with self._flag:
            first = not self._why
            if not first and strength(why) <= strength(self._why):
                return
            self._why, self.words = why, words or WORDS.get(why, "stopped")
            self._flag.notify_all()
            children, calls = list(self._children), list(self._calls)
        for call in calls if first else ():
            call()
        for child in children:
            child.set(why, words)

    @property
    def is_set(self) -> bool:
        return bool(self.why)

    @property
    def why(self) -> int:
        """The exit code of what stopped it; 0 while nothing has."""
        if not self._why and self._end is not None and time.monotonic() >= self._end:
            self.set(TIME)
        return self._why

    def wait(self, seconds: float | None = None) -> bool:
        """Wait that long at most (None: until it is set), and say whether it is set."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self.why:
            ends = [end - time.monotonic() for end in (until, self._end) if end is not None]
            left = min([TICK, *ends])
            if until is not None and until <= time.monotonic():
                return False
            with self._flag:
                if not self._why:
                    self._flag.wait(max(left, 0))
        return True

    def check(self) -> None:
        """Raise StoppedError if it is set."""
        if why := self.why:
            raise StoppedError(self.words, why)

    @contextmanager
    def calling(self, end: Callable[[], None]) -> Iterator[None]:
        """While inside, setting the flag calls `end` (once, from the thread that sets it).

        A flag whose own time runs out calls nothing: whoever waits on it looks at `is_set`.
        """
        with self._flag:
            self._calls.append(end)
            late = bool(self._why)
        try:
            if late:
                end()
            yield
        finally:
            with self._flag:
                self._calls.remove(end)

"""Patience, wrapped around any provider: when a failed call is made again, decided here alone.

All calls of one service share a `Pause`. What one of them is refused, before its reply has begun,
holds the others as well; when the time is up one of them goes first, and the rest follow, one
after another, when the service has begun to answer it. So however many steps wait, a service that
has too much to do is asked once at a time, until it answers.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent.errors import ModelError, ServiceError
from agent.message import Reply, Request, Say
from agent.seams import Provider

FIRST = 0.5  # seconds before the second try; doubled for each further one
LONGEST = 30.0  # seconds, where a service does not wish for more itself
GAP = 0.2  # seconds between two calls that were held, when the service answers again
PROBE = 10.0  # seconds without a sign after which another call may go first
TICK = 0.1  # seconds between two looks at whether the one that went first is answered


class Turn:
    """Where one caller stands."""

    def __init__(self) -> None:
        self.since = 0.0  # until when it has waited, by the pause's clock; 0: it never had to
        self.era = 0  # how often the service had refused when its call went
        self.begun = False  # whether the reply to its call has
        self.last: ModelError | None = None  # what it met


class Pause:
    """Holds all callers of a service while it has to be left alone; see above."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._callers = 0
        self._until = 0.0  # nobody goes before
        self._shut = False  # since a refusal and until a reply begins: one goes at a time
        self._first: tuple[Turn, float] | None = None  # the one that went, and when
        self._next = 0.0  # when the next one that was held may follow
        self._era = 0  # refusals so far, of calls that went at the same time but one
        self.refusals = 0  # the same, since a reply has begun

    @contextmanager
    def caller(self) -> Iterator[Turn]:
        """Inside, somebody wants a reply. When nobody does any more, refusals are forgotten."""
        with self._lock:
            self._callers += 1
        try:
            yield Turn()
        finally:
            with self._lock:
                self._callers -= 1
                if not self._callers:
                    self.refusals, self._shut = 0, False

    @contextmanager
    def going(self, turn: Turn, wait: Callable[[float], bool], tries: int) -> Iterator[None]:
        """Inside, a call is under way; before, it is waited for.

        Raises what the caller has met last where `wait` says to give up, or where the service has
        meanwhile refused `tries` times.
        """
        while seconds := self._left(turn):
            turn.since = max(turn.since, self._clock()) + seconds
            if wait(seconds):
                raise turn.last or ServiceError("the service asked to wait", retry_after=seconds)
            if turn.last and self.refusals >= tries:
                raise turn.last
        try:
            yield
        finally:
            with self._lock:
                if self._first and self._first[0] is turn:
                    self._first = None

    def _left(self, turn: Turn) -> float:
        """Seconds that the caller has to wait before it asks again; 0: its call goes."""
        with self._lock:
            now = max(self._clock(), turn.since)
            if (left := self._until - now) > 0:
                return left
            if self._shut:
                if self._first and now - self._first[1] < PROBE:
                    return TICK
                self._first = (turn, now)
            elif turn.since and (left := self._next - now) > 0:
                return left
            self._next = now + GAP
            turn.era, turn.begun = self._era, False
            return 0.0

    def begun(self, turn: Turn) -> None:
        """The service answers the caller: the others may go."""
        with self._lock:
            turn.begun = True
            if turn.era == self._era:
                self._shut, self.refusals = False, 0

    def refused(self, turn: Turn, wish: float, number: int, chance: float) -> float:
        """The service refused the caller, or its reply broke off; the seconds to wait now.

        The others wait as well for what it wished, and for all of it where it answers nobody. Of
        calls that went together the first refusal counts: the rest tell nothing new.
        """
        with self._lock:
            news = not turn.begun and turn.era == self._era
            if news:
                self._era += 1
                self.refusals += 1
                self._shut = True
            often = max(number, self.refusals)
            seconds = max(min(FIRST * 2.0 ** (often - 1), LONGEST) * (1 - chance / 4), wish)
            now = self._clock()
            if news or wish:
                self._until = max(self._until, now + (seconds if news else wish))
            turn.since = now + seconds
            return seconds


def retrying(
    provider: Provider,
    wait: Callable[[float], bool],
    tell: Callable[[str], None],
    tries: int = 5,
    *,
    pause: Pause | None = None,
    chance: Callable[[], float] = random.random,
) -> Provider:
    """The same provider, which tries again where an error says that this may help.

    Each wait is twice as long as the one before, less a share by chance, and at least what the
    service wished for. `wait` waits that many seconds and says whether to give up instead:
    `Stop.wait`, so that Ctrl-C ends the wait. `tell` is told what is waited for. Those who share a
    `pause` wait together. Raises the last error when the tries are used up, those of others
    counted while the service answers nobody, or when `wait` says so.
    """
    shared = pause or Pause()

    def patient(request: Request, say: Say) -> Reply:
        with shared.caller() as turn:
            for number in range(1, tries + 1):
                with shared.going(turn, wait, tries):
                    try:
                        reply = provider(request, noted(say, lambda: shared.begun(turn)))
                        shared.begun(turn)
                        return reply
                    except ModelError as error:
                        if error.retry_after is None and not isinstance(error, ServiceError):
                            shared.begun(turn)  # it has answered, if not as we would like
                        if error.retry_after is None or number == tries:
                            raise
                        turn.last = error
                        seconds = shared.refused(turn, error.retry_after, number, chance())
                if shared.refusals >= tries:
                    raise turn.last
                tell(f"{turn.last}; trying again in {seconds:.1f} s ({number + 1} of {tries})")
                if wait(seconds):
                    raise turn.last
        raise AssertionError("tries must be at least 1")

    return patient


def noted(say: Say, begun: Callable[[], None]) -> Say:
    """The same `say`; `begun` is called when the reply has. The first thing said is taken for the
    sign that the request is on its way (see agent.providers.watch)."""
    signs = 0

    def tell(piece: str) -> None:
        nonlocal signs
        signs += 1
        if signs == 2:
            begun()
        say(piece)

    return tell

"""Patience, wrapped around any provider."""

import random
import threading
import time
from collections.abc import Callable

from agent.errors import CutError, ModelError, ServiceError
from agent.message import Reply, Request, Say
from agent.seams import Provider

FIRST = 0.5  # seconds before the second try; doubled for each further one
LONGEST = 30.0  # seconds, where a service does not wish for more itself


class Pause:
    """Holds all callers of a service while one of them was told to wait.

    Four steps at work would else find out about a limit four times.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0

    def ask(self, seconds: float) -> None:
        """Hold them that long from now on, at least."""
        with self._lock:
            self._until = max(self._until, self._clock() + seconds)

    @property
    def left(self) -> float:
        """Seconds until it is over."""
        with self._lock:
            return max(self._until - self._clock(), 0.0)


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
    `Stop.wait`, so that Ctrl-C ends the wait. `tell` is told what is waited for. Where several
    share a `pause`, a wish to wait holds for all of them. Raises the last error when the tries are
    used up, or when `wait` says so.
    """

    def patient(request: Request, say: Say) -> Reply:
        for number in range(1, tries + 1):
            if pause and pause.left and wait(pause.left):
                raise ServiceError("the service asked to wait", retry_after=pause.left)
            try:
                return provider(request, say)
            except ModelError as error:
                if error.retry_after is None or number == tries:
                    raise
                own = min(FIRST * 2 ** (number - 1), LONGEST) * (1 - chance() / 4)
                seconds = max(own, error.retry_after)
                if pause and error.retry_after:
                    pause.ask(error.retry_after)
                again = f"trying again in {seconds:.1f} s ({number + 1} of {tries})"
                tell(f"{error}; {again}")
                if wait(seconds):
                    raise
        raise AssertionError("tries must be at least 1")

    return patient


def whole(
    provider: Provider, tries: int = 3, *, tell: Callable[[str], None] = lambda text: None
) -> Provider:
    """The same provider, which is asked again, with the same request, for a cut or empty reply.

    Such a reply never reaches the conversation. Raises CutError when each of the tries was one.
    """

    def complete(request: Request, say: Say) -> Reply:
        reply = provider(request, say)
        for number in range(2, tries + 1):
            if not (what := lacking(reply)):
                return reply
            tell(f"{reply.model or 'model'}: {what}; asking again ({number} of {tries})")
            reply = provider(request, say)
        if what := lacking(reply):
            raise CutError(
                f"{reply.model or 'model'}: {what}, {tries} times",
                hint="write in smaller pieces: a long file in several calls, a long answer in "
                "parts; or raise max_output_tokens",
            )
        return reply

    return complete


def lacking(reply: Reply) -> str:
    """What a reply lacks to be taken; "" for nothing."""
    if reply.stop == "length":
        return "the reply was cut before its end"
    if reply.stop != "refused" and not reply.message.calls and not reply.message.text.strip():
        return "the reply was empty"
    return ""

"""What the user wants of a run under way, on its way to it, and to the agent that it is about."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock

from agent.event import Event, UserSaid, step_of
from agent.stop import INTERRUPTED, Stop

ENDED = "ended by the user"


class Hold:
    """An attempt under way: the flag that ends it, and what its agent is yet to be told."""

    def __init__(self) -> None:
        self.stop: Stop | None = None  # of one that has come to its work
        self.ended = False
        self.words: list[str] = []


class Reins:
    """One for a run. `inbox` is its pool's: what jobs tell, and what the user says.

    Any thread may `say`; the pool tells which steps are under way, and hands on what is said. A
    worker binds its attempt, and takes the words for it.
    """

    def __init__(self) -> None:
        self.inbox: SimpleQueue[Event | Future[Event]] = SimpleQueue()
        self._lock = Lock()
        self._holds: dict[str, Hold] = {}

    def say(self, event: UserSaid) -> None:
        self.inbox.put(event)

    def left(self) -> Iterator[UserSaid]:
        """What was said too late: the run has ended."""
        with suppress(Empty):
            while True:
                if isinstance(event := self.inbox.get_nowait(), UserSaid):
                    yield event

    # -- the pool's ----------------------------------------------------------------------------

    def begin(self, id: str) -> None:
        with self._lock:
            self._holds[id] = Hold()

    def end(self, id: str) -> None:
        with self._lock:
            self._holds.pop(id, None)

    def hand_on(self, event: UserSaid) -> None:
        """Let the attempt under way know. What is about none is for the run's state alone."""
        with self._lock:
            if (hold := self._holds.get(step_of(event))) is None:
                return
            if event.wish == "tell":
                hold.words.append(event.words)
            else:
                hold.ended = True
            stop = hold.stop if hold.ended else None
        if stop:
            stop.set(INTERRUPTED, ENDED)

    # -- a worker's ----------------------------------------------------------------------------

    def bind(self, id: str, stop: Stop) -> None:
        """`stop` ends the attempt of this step that has begun."""
        with self._lock:
            hold = self._holds.get(id)
            if hold:
                hold.stop = stop
        if hold and hold.ended:
            stop.set(INTERRUPTED, ENDED)

    def words(self, id: str) -> Sequence[str]:
        """What its agent is to be told; each is given once."""
        with self._lock:
            if (hold := self._holds.get(id)) is None:
                return ()
            words, hold.words = hold.words, []
        return words

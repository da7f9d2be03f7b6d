"""Jobs on a `concurrent.futures` executor."""

from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import Empty, SimpleQueue

from agent.event import Event
from agent.job import Job
from agent.seams import Work
from agent.stop import Stop

TICK = 0.2  # seconds; Python runs a signal's handler between two waits: one without end misses it


class ExecutorPool:
    """At most `size` jobs at a time. Setting `stop` asks them all to end soon.

    Workers and owner share one queue and nothing else.
    """

    def __init__(self, executor: Executor, size: int, work: Work, stop: Stop) -> None:
        self._executor, self._size, self._work, self._stop = executor, size, work, stop
        self._running: dict[Future[Event], str] = {}
        self._ids: set[str] = set()
        self._inbox: SimpleQueue[Event | Future[Event]] = SimpleQueue()

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    @property
    def room(self) -> int:
        return 0 if self.stopped else self._size - len(self)

    @property
    def stopped(self) -> bool:
        return self._stop.is_set

    def start(self, job: Job) -> None:
        future = self._executor.submit(self._work, job, self._inbox.put)
        self._running[future] = job.step.id
        self._ids.add(job.step.id)
        future.add_done_callback(self._inbox.put)

    def next(self) -> Event:
        event = None
        while event is None:
            with suppress(Empty):
                event = self._inbox.get(timeout=TICK)
        if isinstance(event, Future):
            self._ids.remove(self._running.pop(event))
            return event.result()
        return event

"""Jobs on a `concurrent.futures` executor."""

from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import Empty

from agent.engine.reins import Reins
from agent.event import Event, UserSaid
from agent.job import Job
from agent.seams import Work
from agent.stop import Stop

TICK = 0.2  # seconds; Python runs a signal's handler between two waits: one without end misses it


class ExecutorPool:
    """At most `size` jobs at a time. Setting `stop` asks them all to end soon.

    Workers and owner share one queue and nothing else; `reins` brings into it what the user says.
    """

    def __init__(
        self, executor: Executor, size: int, work: Work, stop: Stop, reins: Reins | None = None
    ) -> None:
        self._executor, self._size, self._work, self._stop = executor, size, work, stop
        self._running: dict[Future[Event], str] = {}
        self._ids: set[str] = set()
        self._reins = reins or Reins()
        self._inbox = self._reins.inbox

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
        self._reins.begin(job.step.id)
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
            id = self._running.pop(event)
            self._ids.remove(id)
            self._reins.end(id)
            return event.result()
        if isinstance(event, UserSaid):
            self._reins.hand_on(event)
        return event

"""A pool whose jobs end as a test has written them down, one after another, in the order they
were begun."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import structs

from agent.engine.revision import revised
from agent.engine.run import drive
from agent.engine.speech import LooseRevision
from agent.event import (
    Event,
    PlanCreated,
    RevisionFailed,
    RunResumed,
    Status,
    StepFinished,
    UserSaid,
    step_of,
)
from agent.job import Attempt, Job, Revise
from agent.plan import Plan, checked, convert
from agent.state import State

End: TypeAlias = StepFinished | str
"""How an attempt ends: a text is that of a done step; "!text" of a failed one."""


class Written:
    """`ends`: of a step, how its attempts end; what is not said ends done, without a text.
    `revisions`: what the model says to each failure; None: nothing that is valid. `life`: how many
    jobs end before the pool is stopped. `last`: steps whose jobs end when no others are left.
    `said`: what the user says as soon as a step is under way; of the attempt that it is about, if
    there is one, it is the end, unless it is words alone."""

    def __init__(
        self,
        ends: Mapping[str, Sequence[End]] = {},
        revisions: Sequence[Mapping[str, Any] | None] = (),
        size: int = 4,
        life: int = 10_000,
        last: Sequence[str] = (),
        said: Sequence[tuple[str, UserSaid]] = (),
    ) -> None:
        self._ends = {id: list(many) for id, many in ends.items()}
        self._revisions, self._size, self._life = list(revisions), size, life
        self._last, self._said = last, list(said)
        self._ended: set[str] = set()
        self._jobs: list[Job] = []
        self.begun: list[Job] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, id: str) -> bool:
        return any(job.step.id == id for job in self._jobs)

    @property
    def stopped(self) -> bool:
        return self._life <= 0

    @property
    def room(self) -> int:
        return 0 if self.stopped else self._size - len(self)

    def start(self, job: Job) -> None:
        self._jobs.append(job)
        self.begun.append(job)

    def next(self) -> Event:
        if self._said and self._said[0][0] in self:
            _, wanted = self._said.pop(0)
            if wanted.wish != "tell" and step_of(wanted) in self:
                self._ended.add(step_of(wanted))
            return wanted
        self._life -= 1
        job = next((job for job in self._jobs if job.step.id not in self._last), self._jobs[0])
        self._jobs.remove(job)
        if isinstance(job, Revise):
            said = self._revisions.pop(0)
            if said is None:
                return RevisionFailed(step=job.step.id, because="no call")
            return revised(job, LooseRevision(**said))
        if job.step.id in self._ended:
            self._ended.discard(job.step.id)
            return StepFinished(step=job.step.id, status="cancelled", summary="ended by the user")
        many = self._ends.get(job.step.id)
        end = many.pop(0) if many else "" if many is None else "!no more"
        if isinstance(end, str):
            status: Status = "failed" if end.startswith("!") else "done"
            end = StepFinished(status=status, summary=end.removeprefix("!"))
        return structs.replace(end, step=job.step.id)

    def attempt(self, id: str, number: int = 1) -> Attempt:
        """The job that a step was begun with."""
        return next(
            job
            for job in self.begun
            if isinstance(job, Attempt) and job.step.id == id and job.number == number
        )

    @property
    def order(self) -> list[str]:
        """The steps in the order in which they were begun, revisions left out."""
        return [job.step.id for job in self.begun if isinstance(job, Attempt)]


class Played:
    """A run of a plan on such a pool: its log, its end, and the pool."""

    def __init__(
        self, plan: Plan, pool: Written, log: Sequence[Event] = (), again: tuple[str, ...] = ()
    ) -> None:
        self.log = list(log)
        self.pool = pool
        state = State.of(self.log)
        first: Event = PlanCreated(plan=plan, source="file")
        if log:
            first = RunResumed(attempt=state.resumed + 1, again=again)
        state.apply(self.record(first))
        self.end = drive(state, pool, self.record)
        assert vars(State.of(self.log)) == vars(self.end), "the log tells the run it came from"

    def record(self, event: Event) -> Event:
        self.log.append(event)
        return event

    @property
    def standing(self) -> dict[str, str]:
        return {step.id: self.end.standing(step.id) for step in self.end.listed}

    def summary(self, id: str) -> str:
        return self.end.text[id]


def steps(*data: Mapping[str, Any]) -> Plan:
    """The checked plan of these steps."""
    return checked(convert({"steps": [dict(one) for one in data]}))

"""Carrying out a plan."""

from collections.abc import Callable
from itertools import islice

from agent.event import Event, StepStarted
from agent.job import Attempt
from agent.seams import Pool
from agent.state import State


def drive(state: State, pool: Pool, record: Callable[[Event], Event]) -> State:
    """Carry a run from where it stands to its end, and return how it stands then.

    One thread, this one, owns `state`: a worker is given a job, which holds all it needs, and
    gives back one event, so nothing is shared and nothing locked. A resumed run is the same call
    with a state read from a log. Once the pool has been stopped nothing new is begun, and what
    is under way is waited for.
    """
    while True:
        while (event := state.due()) and not pool.stopped:
            state.apply(record(event))
        if not len(pool) and (state.over or pool.stopped):
            return state
        for job in list(islice(state.jobs(pool), pool.room)):
            if isinstance(job, Attempt):
                state.apply(record(StepStarted(step=job.step.id, attempt=job.number)))
            pool.start(job)
        assert len(pool) or pool.stopped, "a checked plan never stalls"
        if len(pool):
            state.apply(record(pool.next()))

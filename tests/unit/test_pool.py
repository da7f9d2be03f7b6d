import faulthandler
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent.engine.budget import Budget, within
from agent.engine.pool import ExecutorPool
from agent.engine.run import drive
from agent.errors import BudgetError
from agent.event import Event, PlanCreated, StepFinished, StepStarted, Text
from agent.job import Attempt, Job
from agent.message import Message, Reply, Request, Say, Usage
from agent.plan import Plan, Step
from agent.seams import Emit, Work
from agent.state import State
from agent.stop import INTERRUPTED, Stop
from tests.plans import plan

REQUEST = Request(system="", messages=())


def job(id: str) -> Attempt:
    return Attempt(step=Step(id=id, do="x"), number=1, goal="", results=(), steps=())


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def quiet(made: Plan) -> Plan:
    steps = (Step(id=step.id, do="x", needs=step.needs, writes=()) for step in made.steps)
    return Plan(steps=tuple(steps))


def test_jobs_end_with_their_event_behind_all_that_they_told(threads: ThreadPoolExecutor) -> None:
    def work(job: Job, emit: Emit) -> Event:
        for n in range(3):
            emit(Text(step=job.step.id, text=str(n)))
        return StepFinished(step=job.step.id, status="done")

    pool = ExecutorPool(threads, 2, work, Stop())
    assert (len(pool), pool.room, "a" in pool) == (0, 2, False)
    pool.start(job("a"))
    assert (len(pool), pool.room, "a" in pool) == (1, 1, True)
    events = [pool.next() for _ in range(4)]
    assert events == [
        *(Text(step="a", text=str(n)) for n in range(3)),
        StepFinished(step="a", status="done"),
    ]
    assert (len(pool), pool.room, "a" in pool) == (0, 2, False)


def test_a_stopped_pool_has_no_room_and_is_waited_for(threads: ThreadPoolExecutor) -> None:
    stop = Stop()
    begun = threading.Event()

    def work(job: Job, emit: Emit) -> Event:
        begun.set()
        stop.wait(30)
        return StepFinished(step=job.step.id, status="cancelled")

    def interrupt() -> None:
        begun.wait(30)
        stop.set(INTERRUPTED)

    def record(event: Event) -> Event:
        if isinstance(event, StepStarted):
            threading.Thread(target=interrupt).start()
        return event

    state = State.of([PlanCreated(plan=plan(a="", b="a"), source="file")])
    pool = ExecutorPool(threads, 4, work, stop)
    end = drive(state, pool, record)
    assert (pool.stopped, pool.room, len(pool)) == (True, 0, 0)
    assert {step.id: end.standing(step.id) for step in end.top} == {
        "a": "cancelled",
        "b": "waiting",
    }
    assert not end.over


def test_what_a_worker_did_not_foresee_is_raised_where_it_is_waited_for(
    threads: ThreadPoolExecutor,
) -> None:
    def work(job: Job, emit: Emit) -> Event:
        raise ZeroDivisionError("a bug")

    pool = ExecutorPool(threads, 1, work, Stop())
    pool.start(job("a"))
    with pytest.raises(ZeroDivisionError):
        pool.next()


def test_steps_without_needs_run_at_once(threads: ThreadPoolExecutor) -> None:
    together = threading.Barrier(4, timeout=30)

    def work(job: Job, emit: Emit) -> Event:
        together.wait()
        return StepFinished(step=job.step.id, status="done")

    state = State.of([PlanCreated(plan=quiet(plan(a="", b="", c="", d="")), source="file")])
    end = drive(state, ExecutorPool(threads, 4, work, Stop()), lambda event: event)
    assert end.outcome == "done"


def test_no_more_jobs_run_at_once_than_there_is_room_for(threads: ThreadPoolExecutor) -> None:
    lock, running, most = threading.Lock(), 0, 0
    pause = Stop()

    def work(job: Job, emit: Emit) -> Event:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pause.wait(0.005)
        with lock:
            running -= 1
        return StepFinished(step=job.step.id, status="done")

    many = Plan(steps=tuple(Step(id=f"s{n}", do="x", writes=()) for n in range(20)))
    state = State.of([PlanCreated(plan=many, source="file")])
    worker: Work = work
    end = drive(state, ExecutorPool(threads, 3, worker, Stop()), lambda event: event)
    assert end.outcome == "done"
    assert most == 3


@pytest.mark.parametrize(
    "rounds", [20, pytest.param(1000, marks=[pytest.mark.campaign, pytest.mark.timeout(1800)])]
)
def test_r104_threads_that_change_places_all_the_time_lose_no_event(
    threads: ThreadPoolExecutor, rounds: int
) -> None:
    told = 25

    def work(job: Job, emit: Emit) -> Event:
        for n in range(told):
            emit(Text(step=job.step.id, text=str(n)))
        return StepFinished(step=job.step.id, status="done", summary=job.step.id)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    faulthandler.dump_traceback_later(1700, exit=True)
    try:
        for _ in range(rounds):
            seen = list[Event]()

            def record(event: Event, seen: list[Event] = seen) -> Event:
                seen.append(event)
                return event

            made = quiet(plan(a="", b="", c="", d="", e="a b", f="c d"))
            state = State.of([PlanCreated(plan=made, source="file")])
            end = drive(state, ExecutorPool(threads, 4, work, Stop()), record)
            assert end.outcome == "done"
            for step in made.steps:
                texts = [x.text for x in seen if isinstance(x, Text) and x.step == step.id]
                assert texts == [str(n) for n in range(told)]
            assert sum(isinstance(event, StepFinished) for event in seen) == len(made.steps)
    finally:
        faulthandler.cancel_dump_traceback_later()
        sys.setswitchinterval(usual)


# -- budgets --------------------------------------------------------------------------------------


def spending(tokens: int, cost_usd: float | None) -> Reply:
    return Reply(
        message=Message(role="assistant", text="x"),
        usage=Usage(input_tokens=tokens),
        cost_usd=cost_usd,
    )


def test_a_provider_is_not_asked_once_the_budget_is_spent() -> None:
    asked = list[Request]()

    def provider(request: Request, say: Say) -> Reply:
        asked.append(request)
        return spending(60, 0.25)

    for budget, what, words in (
        (Budget(tokens=100), "tokens", "120 of 100 tokens are spent"),
        (Budget(cost_usd=0.5), "money", r"\$0.5000 of \$0.5000 are spent"),
    ):
        asked.clear()
        kept = within(provider, budget)
        kept(REQUEST, print)
        kept(REQUEST, print)
        with pytest.raises(BudgetError, match=words) as error:
            kept(REQUEST, print)
        assert error.value.what == what
        assert len(asked) == 2


def test_a_budget_that_is_nearly_spent_is_told_of_once() -> None:
    budget = Budget(tokens=100, cost_usd=10)
    told = [budget.add(30, None) for _ in range(3)]
    assert told == ["", "", "90% of the budget is spent"]
    assert budget.fault is None
    assert budget.add(30, None) == ""
    assert budget.fault is not None


def test_a_budget_without_limits_never_runs_out() -> None:
    budget = Budget()
    budget.add(10**9, 10.0**9)
    assert budget.fault is None


def test_threads_that_spend_together_are_counted_together() -> None:
    budget = Budget(tokens=4001)

    def spend() -> None:
        for _ in range(1000):
            budget.add(1, 0.0)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.fault is None
    budget.add(1, 0.0)
    assert budget.fault is not None

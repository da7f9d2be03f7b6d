"""Whatever the plan, in whatever order jobs end, and wherever it is cut off, a run keeps its
promises."""

from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.engine.run import drive
from agent.event import Event, PlanCreated, RunResumed, decode, encode
from agent.plan import Plan
from agent.state import State
from tests.property.runs import Hands, Ruled, Witness, plans


def resumed(log: list[Event], attempt: int) -> State:
    state = State.of(decode(encode(event)) for event in log)
    log.append(RunResumed(attempt=attempt))
    state.apply(log[-1])
    return state


@settings(suppress_health_check=[HealthCheck.large_base_example, HealthCheck.too_slow])
@given(plan=plans(), size=st.integers(1, 4), life=st.integers(1, 60), data=st.data())
def test_r107_a_run_keeps_its_promises_whatever_the_user_wants_of_it(
    plan: Plan, size: int, life: int, data: st.DataObject
) -> None:
    log = list[Event]()

    def record(event: Event) -> Event:
        log.append(event)
        return event

    hands = Ruled(data, size, life, wishes=6)
    end = drive(State.of([record(PlanCreated(plan=plan, source="file"))]), hands, record)
    assert vars(State.of(log)) == vars(end), "the log does not tell the run it came from"
    if data.draw(st.booleans()):  # killed: the log ends anywhere
        del log[data.draw(st.integers(1, len(log))) :]
        end = drive(resumed(log, 2), Ruled(data, size, 10_000, wishes=2), record)
    elif hands.stopped and not end.over:
        end = drive(resumed(log, 2), Hands(data, size, 10_000), record)
    assert vars(State.of(decode(encode(event)) for event in log)) == vars(end)
    assert end.over
    seen(log)
    standing = {step.id: end.standing(step.id) for step in end.listed}
    assert set(standing.values()) <= {"done", "failed", "skipped", "cancelled"}, standing
    assert end.revisions <= 3


def seen(log: Iterable[Event]) -> Witness:
    witness = Witness()
    for event in log:
        witness.see(event)
    return witness


@settings(suppress_health_check=[HealthCheck.large_base_example, HealthCheck.too_slow])
@given(plan=plans(), size=st.integers(1, 4), life=st.integers(1, 40), data=st.data())
def test_r107_a_run_keeps_its_promises(
    plan: Plan, size: int, life: int, data: st.DataObject
) -> None:
    log = list[Event]()

    def record(event: Event) -> Event:
        log.append(event)
        return event

    hands = Hands(data, size, life)
    end = drive(State.of([record(PlanCreated(plan=plan, source="file"))]), hands, record)
    again = State.of(decode(encode(event)) for event in log)
    assert vars(again) == vars(end), "the log does not tell the run it came from"
    if data.draw(st.booleans()):  # killed: the log ends anywhere
        del log[data.draw(st.integers(1, len(log))) :]
        end = drive(resumed(log, 2), Hands(data, size, 10_000), record)
    elif hands.stopped and not end.over:
        end = drive(resumed(log, 2), Hands(data, size, 10_000), record)
    assert vars(State.of(decode(encode(event)) for event in log)) == vars(end)

    assert end.over
    assert not hands.jobs or hands.stopped
    seen(log)
    standing = {step.id: end.standing(step.id) for step in end.listed}
    assert set(standing.values()) <= {"done", "failed", "skipped", "cancelled"}, standing
    assert end.revisions <= 3
    for step in end.top:
        if step.group and standing[step.id] == "done":
            parts = [part.id for part in end.listed if part.part_of == step.id]
            assert not {"cancelled"} & {standing[id] for id in parts}
    if end.outcome == "done":
        assert all(map(end.fine, standing))

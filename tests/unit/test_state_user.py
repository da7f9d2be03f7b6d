"""What the user wants of a run under way, by its state alone."""

from typing import Any

import pytest

from agent.event import (
    Event,
    PlanCreated,
    PlanRevised,
    StepFinished,
    StepStarted,
    UserSaid,
    Wish,
)
from agent.job import Attempt, Revise
from agent.plan import Plan
from agent.state import State
from tests.hands import Played, Written, steps
from tests.plans import plan


def says(when: str, wish: Wish, id: str = "", words: str = "") -> tuple[str, UserSaid]:
    """What the user says once the step `when` is under way."""
    return when, UserSaid(step=id, wish=wish, words=words) if id else UserSaid(
        wish=wish, words=words
    )


def play(
    made: Plan, *said: tuple[str, UserSaid], ends: dict[str, Any] | None = None, **more: Any
) -> Played:
    return Played(made, Written(ends or {}, said=said, **more))


def revised(run: Played) -> list[tuple[str, str, str, str]]:
    return [
        (str(event.step or ""), event.action, event.because, event.by)
        for event in run.log
        if isinstance(event, PlanRevised)
    ]


def test_a_waiting_step_is_left_out_and_what_needs_it_runs_and_is_told() -> None:
    run = play(plan(a="", b="a", c="b"), says("a", "skip", "b", "no use"))
    assert revised(run) == [("b", "skip", "the user: no use", "user")]
    assert run.standing == {"a": "done", "b": "skipped", "c": "done"}
    assert run.pool.attempt("c").results[0].words == "skipped: the user: no use"
    assert run.end.outcome == "partial"
    assert run.end.revisions == 0


def test_a_running_step_is_ended_and_left_out() -> None:
    run = play(plan(a="", b="a"), says("a", "skip", "a"))
    assert revised(run) == [("a", "skip", "the user", "user")]
    assert run.standing == {"a": "skipped", "b": "done"}


def test_a_running_step_is_ended_and_begun_again_with_the_words() -> None:
    run = play(plan(a="", b="a"), says("a", "retry", "a", "use tomllib"))
    assert run.pool.order == ["a", "a", "b"]
    again = run.pool.attempt("a", 2)
    assert (again.said, again.cut_off) == (("use tomllib",), True)
    assert run.end.outcome == "done"


def test_a_failed_step_is_tried_again_and_so_is_what_was_left_out_for_it() -> None:
    graph = steps(
        {"id": "a", "do": "x", "attempts": 1, "writes": []},
        {"id": "b", "do": "x", "needs": ["a"]},
        {"id": "c", "do": "x", "needs": ["b"]},
        {"id": "slow", "do": "x", "writes": []},
        {"id": "end", "do": "x", "needs": ["slow"], "writes": []},
    )
    run = play(
        graph,
        says("end", "retry", "a"),
        ends={"a": ["!no", "A"]},
        revisions=[None],
        last=["slow", "end"],
    )
    assert run.end.outcome == "done"
    assert run.pool.order == ["a", "slow", "end", "a", "b", "c"]
    assert run.pool.attempt("a", 2).failure == "no"


def test_the_user_decides_before_the_planner_does() -> None:
    graph = plan(a="", b="a")
    run = play(
        graph,
        says("a", "skip", "a"),
        ends={"a": ["!no", "!no"]},
        revisions=[{"action": "abort", "because": "hopeless"}],
    )
    asked = [job for job in run.pool.begun if isinstance(job, Revise)]
    assert not asked  # it was ended in its first attempt
    late = Played(
        graph,
        _Late({"a": ["!no", "!no"]}, [{"action": "abort", "because": "hopeless"}]),
    )
    assert late.standing == {"a": "skipped", "b": "done"}
    assert late.end.revisions == 0


class _Late(Written):
    """The user leaves the step out while the planner is asked about it."""

    def next(self) -> Any:
        if any(isinstance(job, Revise) for job in self._jobs) and not self._ended:
            self._ended.add("said")
            return UserSaid(step="a", wish="skip")
        return super().next()


def test_a_stopped_step_stays_so_and_can_be_tried_again() -> None:
    graph = plan(a="", b="a")
    run = play(graph, says("a", "stop", "a"))
    assert run.standing == {"a": "cancelled", "b": "skipped"}
    assert run.end.text["b"] == "skipped: a cancelled"
    again = Played(graph, Written(), run.log)
    assert again.end.outcome == "done"


def test_words_for_a_step_that_waits_are_in_its_job() -> None:
    run = play(plan(a="", b="a"), says("a", "tell", "b", "one"), says("b", "tell", "b", "two"))
    assert run.pool.attempt("b").said == ("one",)
    assert run.end.said == {"b": ("one", "two")}


def test_another_plan_keeps_what_is_done_and_what_is_under_way() -> None:
    graph = steps(
        {"id": "a", "do": "x", "writes": []},
        {"id": "b", "do": "x", "writes": []},
        {"id": "c", "do": "x", "needs": ["a", "b"]},
    )
    other = {
        "action": "replace",
        "because": "as asked",
        "steps": [{"id": "d", "do": "y", "needs": ["a", "b"]}],
    }
    run = play(graph, says("b", "replan", words="no c"), revisions=[other], last=["b"])
    asked = next(job for job in run.pool.begun if isinstance(job, Revise))
    assert (asked.step.id, asked.failure) == ("", "no c")
    assert [step.id for step in asked.kept] == ["a", "b"]
    assert revised(run) == [("", "replace", "the user: no c", "user")]
    assert run.standing == {"a": "done", "b": "done", "d": "done"}


def test_a_plan_that_can_not_be_changed_goes_on_as_it_is() -> None:
    run = play(plan(a="", b="a"), says("a", "replan", words="shorter"), revisions=[None])
    assert run.end.outcome == "done"
    assert run.end.revisions == 0


def test_what_the_user_wanted_is_done_after_a_death() -> None:
    graph = plan(a="", b="a")
    log: list[Event] = [
        PlanCreated(plan=graph, source="file"),
        StepStarted(step="a", attempt=1),
        UserSaid(step="a", wish="skip"),
    ]
    run = Played(graph, Written(), log)
    assert run.standing == {"a": "skipped", "b": "done"}
    assert run.pool.order == ["b"]


def test_a_part_is_left_out_and_its_group_goes_on() -> None:
    graph = steps(
        {"id": "list", "run": "ls"},
        {"id": "each", "foreach": "list.lines", "do": "Review $item", "writes": []},
        {"id": "sum", "do": "x", "needs": ["each"]},
    )
    run = play(graph, says("each.1", "skip", "each.2"), ends={"list": ["a\nb\nc"]})
    assert run.standing["each.2"] == "skipped"
    assert run.standing["sum"] == "done"


@pytest.mark.parametrize(
    ("wish", "id", "why"),
    [
        ("skip", "z", "there is no step z"),
        ("skip", "a", "a is done"),
        ("retry", "a", "a is done"),
        ("retry", "c", "c is waiting"),
        ("stop", "c", "c is waiting"),
        ("tell", "a", "a is done"),
        ("tell", "run", "run is done by no agent: there is nobody to tell"),
        ("skip", "c", ""),
        ("stop", "b", ""),
        ("tell", "b", ""),
    ],
)
def test_what_can_not_be_done_is_said_and_changes_nothing(wish: Wish, id: str, why: str) -> None:
    graph = steps(
        {"id": "a", "do": "x"},
        {"id": "b", "do": "x", "needs": ["a"]},
        {"id": "c", "do": "x", "needs": ["b"]},
        {"id": "run", "run": "ls", "needs": ["c"]},
    )
    log: list[Event] = [
        PlanCreated(plan=graph, source="file"),
        StepStarted(step="a", attempt=1),
        StepFinished(step="a", status="done"),
        StepStarted(step="b", attempt=1),
    ]
    state = State.of(log)
    said = UserSaid(step=id, wish=wish, words="w")
    assert state.objection(said) == why
    if why:
        before = vars(State.of(log))
        state.apply(said)
        assert vars(state) == before


def test_attempts_hold_nothing_that_nobody_has_said() -> None:
    run = play(plan(a=""))
    assert [job.said for job in run.pool.begun if isinstance(job, Attempt)] == [()]

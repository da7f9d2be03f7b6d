from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from agent.engine.run import drive
from agent.event import (
    Event,
    ModelCalled,
    PermissionDecided,
    PlanCreated,
    RunFinished,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
)
from agent.job import Revise
from agent.message import Usage
from agent.plan import Plan, Step
from agent.state import State
from agent.views.outline import outline
from tests.hands import Played, Written, steps
from tests.plans import plan


def play(
    plan: Plan,
    ends: dict[str, Any] | None = None,
    revisions: Sequence[dict[str, Any] | None] = (),
    **more: Any,
) -> Played:
    written = {
        id: [end] if isinstance(end, str | StepFinished) else end
        for id, end in (ends or {}).items()
    }
    return Played(plan, Written(written, revisions, **more))


def failing(stdout: str = "", error: str = "exit code 1") -> StepFinished:
    """How a command fails."""
    return StepFinished(status="failed", summary=stdout, error=error)


def quiet(plan: Plan) -> Plan:
    """The same steps, which write nothing, so that nothing but needs is in their way."""
    return structs.replace(
        plan, steps=tuple(structs.replace(step, writes=()) for step in plan.steps)
    )


# -- needs -------------------------------------------------------------------------------------


def test_a_step_begins_when_what_it_needs_is_done() -> None:
    run = play(quiet(plan(a="", b="a", c="a", d="b c")), {"a": "A", "d": "D"})
    assert outline(run.log) == (
        "plan a b c d\n"
        "start a\n"
        "done a\n"
        "start b\n"
        "start c\n"
        "done b\n"
        "done c\n"
        "start d\n"
        "done d"
    )  # fmt: skip
    assert run.end.outcome == "done"
    assert run.end.answer == "D"
    assert [told.id for told in run.pool.attempt("d").results] == ["b", "c"]


def test_c076_what_needs_a_failed_step_is_skipped_and_told_why_and_others_run_on() -> None:
    graph = plan(a="", b="a", c="b", d="", e="d", f="c e")
    run = play(graph, {"a": ["!no", "!never"], "e": "E"}, [None])
    assert run.standing == {
        "a": "failed",
        "b": "skipped",
        "c": "skipped",
        "d": "done",
        "e": "done",
        "f": "skipped",
    }
    assert [run.summary(id) for id in "bcf"] == ["skipped: a failed"] * 3
    assert run.end.outcome == "partial"
    assert run.end.over
    assert run.end.answer == (
        "a: failed: never\nb: skipped: a failed\nc: skipped: a failed\nf: skipped: a failed"
    )


@pytest.mark.parametrize("how", ["failed", "cancelled", "skipped"])
def test_c077_a_step_never_begins_where_its_need_ended_otherwise(how: str) -> None:
    data: list[dict[str, Any]] = [
        {"id": "first", "run": "x", "writes": []},
        {"id": "lint", "run": "x", "needs": ["first"] if how == "skipped" else []},
        {"id": "ship", "run": "x", "needs": ["lint"]},
    ]
    ends: dict[str, dict[str, Any]] = {
        "failed": {"lint": "!x"},
        "cancelled": {"lint": StepFinished(status="cancelled")},
        "skipped": {"first": "!x"},
    }
    run = play(steps(*data), ends[how])
    assert "ship" not in run.pool.order
    cause = {"failed": "lint failed", "cancelled": "lint cancelled", "skipped": "first failed"}
    assert (run.standing["ship"], run.summary("ship")) == ("skipped", f"skipped: {cause[how]}")


def test_a_failure_that_is_allowed_meets_a_need_and_stays_a_failure() -> None:
    run = play(
        steps(
            {"id": "lint", "run": "x", "allow_failure": True},
            {"id": "fix", "do": "x", "needs": ["lint"]},
        ),
        {"lint": failing("bad.py:1", "bad.py:1\nE: it is bad\nexit code 1"), "fix": "fixed"},
    )
    assert run.standing == {"lint": "failed", "fix": "done"}
    assert run.end.outcome == "done"
    (told,) = run.pool.attempt("fix").results
    assert (told.status, told.text) == ("failed", "bad.py:1")
    assert told.words == "bad.py:1\nE: it is bad\nexit code 1"
    assert run.end.answer == "fixed\n\nlint: failed: exit code 1"


# -- when --------------------------------------------------------------------------------------


def test_a_step_that_asks_for_a_failure_runs_after_it_and_only_then() -> None:
    made = steps(
        {"id": "suite", "run": "x"},
        {"id": "fix", "run": "x", "when": "suite.failed", "writes": []},
        {"id": "ship", "run": "x", "needs": ["fix"]},
    )
    run = play(made, {"suite": "!x"})
    assert run.pool.order == ["suite", "fix", "ship"]
    assert run.end.outcome == "partial", "the suite has failed all the same"
    run = play(made)
    assert run.pool.order == ["suite", "ship"]
    assert run.summary("fix") == "skipped: when suite.failed"
    assert run.end.outcome == "done", "skipped by its own `when`, as it should be"
    assert run.end.answer == "fix: skipped: when suite.failed"


@pytest.mark.parametrize(
    ("when", "status", "words"),
    [
        ("a.failed", "done", ""),
        ("a.failed or b.failed", "done", ""),
        ("not a.done", "done", ""),
        ("a.done or b.done", "done", ""),
        ("a.done", "skipped", "skipped: a failed"),
        ("not a.failed", "skipped", "skipped: a failed"),
        ("b.done and not a.failed", "skipped", "skipped: a failed"),
        ("a.failed and b.failed", "skipped", "skipped: when a.failed and b.failed"),
        ("b.failed", "skipped", "skipped: when b.failed"),
    ],
)
def test_a_failed_need_is_met_only_by_a_when_that_asks_for_it(
    when: str, status: str, words: str
) -> None:
    run = play(
        steps(
            {"id": "a", "run": "x"},
            {"id": "b", "run": "x"},
            {"id": "c", "run": "x", "when": when},
            {"id": "d", "run": "x", "needs": ["c"]},
        ),
        {"a": "!x", "c": words},
    )
    assert (run.standing["c"], run.summary("c")) == (status, words)
    met = status == "done" or words.startswith("skipped: when")
    assert run.standing["d"] == ("done" if met else "skipped")


def test_a_when_counts_as_a_need_beside_others() -> None:
    run = play(
        steps(
            {"id": "a", "run": "x"},
            {"id": "b", "run": "x"},
            {"id": "c", "run": "x", "when": "a.failed", "needs": ["a", "b"]},
        ),
        {"a": "!x", "b": "!y"},
    )
    assert run.summary("c") == "skipped: b failed"


# -- foreach -----------------------------------------------------------------------------------


def each(**more: Any) -> Plan:
    return steps(
        {"id": "list", "run": "ls", "writes": []},
        {"id": "each", "do": "Review $item", "foreach": "list.lines", "writes": [], **more},
        {"id": "sum", "do": "x", "needs": "each", "writes": []},
    )


def test_a_foreach_has_a_copy_for_each_line_and_ends_with_their_texts_in_order() -> None:
    run = play(each(), {"list": "a b\n\nc\n", "each.1": "one\n", "each.2": "two", "sum": "three"})
    assert outline(run.log) == (
        "plan list each sum\n"
        "start list\n"
        "done list\n"
        "start each\n"
        "start each.1\n"
        "start each.2\n"
        "done each.1\n"
        "done each.2\n"
        "done each\n"
        "start sum\n"
        "done sum"
    )
    assert run.summary("each") == "one\ntwo"
    assert run.pool.attempt("each.1").step.given == {"item": "a b"}
    assert [told.id for told in run.pool.attempt("each.1").results] == ["list"]
    assert [told.text for told in run.pool.attempt("sum").results] == ["one\ntwo"]
    assert run.end.answer == "three"


def test_a_foreach_without_items_is_done_and_empty() -> None:
    run = play(each(), {"list": "\n \n"})
    assert (run.standing["each"], run.summary("each")) == ("done", "")
    assert run.end.outcome == "done"


def test_a_foreach_over_a_step_that_was_left_out_has_no_items() -> None:
    made = steps(
        {"id": "a", "run": "x"},
        {"id": "list", "run": "x", "when": "a.failed"},
        {"id": "each", "do": "x", "foreach": "list.lines"},
    )
    run = play(made)
    assert run.standing == {"a": "done", "list": "skipped", "each": "done"}
    assert run.pool.order == ["a"]


def test_a_foreach_goes_over_the_stdout_of_a_command_that_was_allowed_to_fail() -> None:
    made = steps(
        {"id": "lint", "run": "x", "allow_failure": True},
        {"id": "each", "do": "x", "foreach": "lint.lines"},
    )
    run = play(made, {"lint": failing("a\nb\n", "a\nb\nwarning\nexit code 1")})
    assert run.pool.order == ["lint", "each.1", "each.2"]


def test_items_of_what_is_no_array_are_a_failure_and_not_nothing_to_do() -> None:
    made = steps(
        {"id": "list", "run": "x"},
        {"id": "each", "do": "x", "foreach": "list.items"},
        {"id": "sum", "run": "x", "needs": "each"},
    )
    run = play(made, {"list": "a\nb"})
    assert run.standing == {"list": "done", "each": "failed", "sum": "skipped"}
    assert run.end.failure("each").startswith("the text of list is no JSON")
    assert "each: failed: the text of list is no JSON" in run.end.answer
    assert play(made, {"list": '[["x", 1], "y"]'}).pool.attempt("each.1").step.given == {
        "item": '["x",1]'
    }


def test_a_foreach_over_more_than_a_run_can_hold_fails_whole() -> None:
    run = play(each(), {"list": "x\n" * 10_001})
    assert run.standing == {"list": "done", "each": "failed", "sum": "skipped"}
    assert run.end.failure("each") == "list.lines are 10001, more than 10000"


def test_a_text_joined_of_many_is_one_that_a_log_can_hold() -> None:
    made = steps(
        {"id": "list", "run": "ls"},
        {"id": "each", "run": "x", "foreach": "list.lines", "writes": []},
        {"id": "again", "run": "x", "foreach": "each.lines"},
        {"id": "end", "run": "x", "needs": "each"},
    )
    texts = {f"each.{number}": "x" * 65_000 for number in range(1, 151)}
    run = play(made, {"list": "a\n" * 150, **texts})
    assert run.standing["each"] == run.standing["end"] == "done"
    assert len(run.summary("each")) < 8_000_100
    assert run.summary("each").endswith("\n… 1,750,149 characters left out …")
    assert run.end.failure("again") == "the text of each is too long to go over its items"


def test_copies_that_fail_fail_the_whole_with_its_texts_and_others_run_on() -> None:
    run = play(
        each(attempts=1),
        {"list": "a\nb\nc", "each.1": "one", "each.2": "!no", "each.3": "three"},
        [None],
    )
    assert run.standing == {
        "list": "done",
        "each": "failed",
        "each.1": "done",
        "each.2": "failed",
        "each.3": "done",
        "sum": "skipped",
    }
    assert run.summary("each") == "one\nno\nthree"
    assert run.end.answer == "each: failed\neach.2: failed: no\nsum: skipped: each failed"


def test_copies_that_may_fail_leave_the_whole_failed_and_met() -> None:
    run = play(each(allow_failure=True, attempts=1), {"list": "a\nb", "each.1": "!no"})
    assert run.standing["each"] == "failed"
    assert run.standing["sum"] == "done"
    assert run.end.outcome == "done"
    assert run.end.revisions == 0


def test_copies_that_write_the_same_go_one_after_another() -> None:
    run = play(each(writes=["log.txt"]), {"list": "a\nb"}, size=8)
    assert outline(run.log).index("done each.1") < outline(run.log).index("start each.2")
    run = play(each(writes=["out/$item"]), {"list": "a\nb"}, size=8)
    assert outline(run.log).index("done each.1") > outline(run.log).index("start each.2")


# -- groups ------------------------------------------------------------------------------------


def skill(**more: Any) -> Plan:
    return Plan(
        steps=(
            Step(id="pre", do="x", writes=()),
            Step(id="sub", skill="other", needs=("pre",), **more),
            Step(id="sub.a", run="a", part_of="sub", writes=()),
            Step(id="sub.b", do="b", part_of="sub", needs=("sub.a",), attempts=1, writes=()),
            Step(id="sub.c", do="c", part_of="sub", when="sub.a.failed", writes=()),
            Step(id="post", do="x", needs=("sub",), writes=()),
        )
    )


def test_a_skill_is_done_by_its_parts_between_its_needs_and_those_who_need_it() -> None:
    run = play(skill(), {"pre": "P", "sub.a": "A", "sub.b": "B", "post": "Z"})
    assert outline(run.log) == (
        "plan pre sub sub.a sub.b sub.c post\n"
        "start pre\n"
        "done pre\n"
        "start sub\n"
        "start sub.a\n"
        "done sub.a\n"
        "skipped sub.c\n"
        "start sub.b\n"
        "done sub.b\n"
        "done sub\n"
        "start post\n"
        "done post"
    )
    assert run.summary("sub") == "B"
    told = {told.id: told.text for told in run.pool.attempt("sub.b").results}
    assert told == {"pre": "P", "sub.a": "A"}
    assert run.end.answer == "Z"
    assert run.end.outcome == "done"


def test_a_skill_with_a_failed_part_has_failed() -> None:
    run = play(skill(), {"sub.b": "!no"}, [None])
    assert run.standing == {
        "pre": "done",
        "sub": "failed",
        "sub.a": "done",
        "sub.b": "failed",
        "sub.c": "skipped",
        "post": "skipped",
    }
    assert run.end.answer == "sub: failed\nsub.b: failed: no\npost: skipped: sub failed"
    run = play(skill(allow_failure=True), {"sub.b": "!no"}, [None])
    assert run.standing["post"] == "done"
    assert run.end.outcome == "done"


def test_a_skill_that_is_left_out_leaves_out_its_parts() -> None:
    run = play(skill(when="pre.failed"))
    assert [run.standing[id] for id in ("sub", "sub.a", "sub.b", "sub.c")] == ["skipped"] * 4
    assert run.summary("sub.b") == "skipped: when pre.failed"
    assert run.standing["post"] == "done"
    assert run.end.outcome == "done"
    assert run.end.answer == "sub: skipped: when pre.failed"
    run = play(skill(), {"pre": ["!x", "!x"]}, [None])
    assert run.summary("sub.b") == "skipped: pre failed"
    assert run.end.outcome == "failed"


def test_a_skill_without_steps_fails_rather_than_be_done() -> None:
    run = play(Plan(steps=(Step(id="a", skill="gone"),)))
    assert run.standing == {"a": "failed"}
    assert run.end.failure("a") == "the skill gone has no steps here"


def test_a_skill_for_each_line_is_copied_with_its_parts_and_their_conditions() -> None:
    made = Plan(
        steps=(
            Step(id="list", run="ls", writes=()),
            Step(id="sub", skill="other $item", foreach="list.lines"),
            Step(id="sub.a", run="a", part_of="sub", writes=(), allow_failure=True),
            Step(id="sub.b", do="b", part_of="sub", when="sub.a.failed", writes=()),
            Step(id="sub.c", do="c $item", part_of="sub", foreach="sub.a.lines", writes=()),
        )
    )
    run = play(made, {"list": "x\ny", "sub.1.a": "p\nq", "sub.2.a": failing("r"), "sub.2.b": "B"})
    assert sorted(run.pool.order) == [
        "list",
        "sub.1.a",
        "sub.1.c.1",
        "sub.1.c.2",
        "sub.2.a",
        "sub.2.b",
        "sub.2.c.1",
    ]
    assert run.pool.attempt("sub.1.c.2").step.given["item"] == "q"
    assert [told.id for told in run.pool.attempt("sub.1.c.1").results] == ["list", "sub.1.a"]
    assert run.standing["sub"] == "done"
    assert run.end.outcome == "done"
    assert "sub.a" not in run.standing, "the pattern of the copies is no step of its own"


def test_a_pattern_is_not_listed_before_its_copies_are_there() -> None:
    made = Plan(
        steps=(
            Step(id="list", run="ls"),
            Step(id="sub", skill="other", foreach="list.lines"),
            Step(id="sub.a", run="a", part_of="sub"),
        )
    )
    state = State.of([PlanCreated(plan=made, source="file")])
    assert [step.id for step in state.listed] == ["list", "sub"]
    assert play(made, {"list": "!x"}).standing == {"list": "failed", "sub": "skipped"}


# -- order -------------------------------------------------------------------------------------


def test_the_longest_path_starts_first_and_else_the_list_decides() -> None:
    made = plan(a="", b="", c="b", d="c", e="")
    assert play(quiet(made), size=1).pool.order == ["b", "c", "a", "d", "e"]
    assert play(made, size=3).pool.order == ["a", "b", "c", "d", "e"], "all may write anything"


def test_a_name_is_held_by_one_running_step_at_a_time() -> None:
    hold = {"do": "x", "writes": [], "exclusive": ["port", "db"]}
    run = play(
        steps(
            {"id": "a", **hold},
            {"id": "b", **hold, "exclusive": ["db"]},
            {"id": "c", "do": "x", "writes": []},
            {"id": "d", **hold},
        )
    )
    assert outline(run.log).splitlines()[1:] == [
        "start a",
        "start c",
        "done a",
        "start b",
        "done c",
        "done b",
        "start d",
        "done d",
    ]


def test_a_group_is_ordered_by_what_its_parts_read_and_write() -> None:
    def after(*parts: Step) -> list[str]:
        made = Plan(
            steps=(
                Step(id="w", do="x", writes=("docs/a.md",)),
                Step(id="sub", skill="other"),
                *parts,
                Step(id="r", do="x", reads=("out/**",), writes=()),
            )
        )
        return play(made, size=8).pool.order

    write = Step(id="sub.a", do="x", part_of="sub", writes=("out/x",))
    assert after(write) == ["sub.a", "w", "r"], "the reader waits for the group"
    both = Step(id="sub.b", do="x", part_of="sub", writes=("docs/**",))
    assert after(write, both) == ["w", "sub.a", "sub.b", "r"]
    silent = Step(id="sub.b", do="x", part_of="sub")
    assert after(write, silent) == ["w", "sub.a", "sub.b", "r"]


# -- attempts ----------------------------------------------------------------------------------


def test_an_agent_has_two_attempts_and_is_told_how_the_first_failed() -> None:
    run = play(plan(a=""), {"a": ["!it broke", "mended"]})
    assert outline(run.log) == "plan a\nstart a\nfailed a\nstart a (attempt 2)\ndone a"
    assert run.pool.attempt("a", 1).failure == ""
    assert run.pool.attempt("a", 2).failure == "it broke"
    assert run.end.outcome == "done"


def test_a_command_has_one_attempt_unless_it_says_so() -> None:
    assert play(steps({"id": "a", "run": "x"}), {"a": "!x"}).pool.order == ["a"]
    often = steps({"id": "a", "run": "x", "attempts": 3})
    run = play(often, {"a": [failing("out", "out\nerr\nexit code 1"), "!y", "!z"]})
    assert run.pool.order == ["a"] * 3
    assert run.pool.attempt("a", 2).failure == "out\nerr\nexit code 1"


def test_a_step_that_was_refused_fails_without_another_attempt_or_a_revision() -> None:
    log: list[Event] = [
        PlanCreated(plan=plan(a="", b="a"), source="file"),
        StepStarted(step="a", attempt=1),
        PermissionDecided(step="a", tool="bash", rule="bash(x)", decision="deny", by="nobody"),
        StepFinished(step="a", status="failed", summary="not allowed"),
    ]
    state = State.of(log)
    assert list(state.jobs()) == []
    assert state.refused == {"a"}
    assert state.due() == StepFinished(step="b", status="skipped", summary="skipped: a failed")


def test_a_refusal_is_forgotten_once_the_step_is_tried_again() -> None:
    log: list[Event] = [
        PlanCreated(plan=plan(a=""), source="file"),
        StepStarted(step="a", attempt=1),
        PermissionDecided(step="a", tool="bash", rule="bash(x)", decision="deny", by="nobody"),
        RunResumed(attempt=2),
        StepStarted(step="a", attempt=2),
        StepFinished(step="a", status="done"),
    ]
    assert State.of(log).refused == set()
    assert len(State.of(log).denials) == 1


def test_a_refusal_by_a_rule_is_no_reason_to_give_up() -> None:
    log: list[Event] = [
        PlanCreated(plan=plan(a=""), source="file"),
        StepStarted(step="a", attempt=1),
        PermissionDecided(step="a", tool="bash", rule="bash(x)", decision="deny", by="rule"),
        StepFinished(step="a", status="failed"),
    ]
    assert [job.step.id for job in State.of(log).jobs()] == ["a"]


# -- revisions ---------------------------------------------------------------------------------


def test_a_failure_is_judged_with_the_plan_as_it_stands() -> None:
    run = play(plan(a="", b="a", c="b"), {"b": ["!x", "!it broke"]}, [None])
    job = next(job for job in run.pool.begun if isinstance(job, Revise))
    assert (job.step.id, job.failure) == ("b", "it broke")
    assert job.standing == {"a": "done", "b": "failed", "c": "waiting"}
    assert [step.id for step in job.kept] == ["a"]


def test_a_retry_grants_the_attempts_anew_numbered_on_and_may_tell_the_step_otherwise() -> None:
    run = play(
        plan(a=""),
        {"a": ["!1", "!2", "!3", "done"]},
        [{"action": "retry", "do": "do it better"}],
    )
    assert outline(run.log) == (
        "plan a\n"
        "start a\n"
        "failed a\n"
        "start a (attempt 2)\n"
        "failed a\n"
        "retry a\n"
        "start a (attempt 3)\n"
        "failed a\n"
        "start a (attempt 4)\n"
        "done a"
    )
    assert run.pool.attempt("a", 2).step.do == "do a"
    assert run.pool.attempt("a", 3).step.do == "do it better"
    assert run.pool.attempt("a", 3).failure == "2"
    assert run.end.outcome == "done", "a failure that was brought to done no longer counts"


def test_a_skip_meets_needs_and_is_told_and_the_run_is_not_done() -> None:
    run = play(
        plan(a="", b="a"),
        {"a": ["!1", "!2"], "b": "B"},
        [{"action": "skip", "because": "it can wait"}],
    )
    assert run.standing == {"a": "skipped", "b": "done"}
    (told,) = run.pool.attempt("b").results
    assert (told.status, told.text, told.words) == ("skipped", "", "skipped: it can wait")
    assert run.end.outcome == "partial"
    assert run.end.answer == "B\n\na: skipped: it can wait"


def test_a_part_that_a_revision_skips_leaves_its_group_done_and_the_run_not() -> None:
    run = play(skill(), {"sub.b": "!1"}, [{"action": "skip", "because": "no use"}])
    assert run.standing["sub"] == "done"
    assert run.standing["post"] == "done"
    assert run.end.outcome == "partial"
    assert "sub.b: skipped: no use" in run.end.answer


def test_an_abort_lets_what_runs_finish_and_cancels_the_rest() -> None:
    made = Plan(
        steps=(
            Step(id="a", do="x", attempts=1, writes=()),
            Step(id="b", do="x", attempts=3, writes=()),
            Step(id="c", do="x", writes=()),
            Step(id="d", do="x", needs=("a",), writes=()),
            Step(id="e", do="x", needs=("b",), writes=()),
            Step(id="f", run="x", part_of="g", writes=()),
            Step(id="g", skill="s", needs=("c",)),
        )
    )
    run = play(made, {"a": "!x", "b": ["!y", "!z", "never"]}, [{"action": "abort"}], size=2)
    assert run.standing == {
        "a": "failed",
        "b": "failed",  # an attempt was left
        "c": "cancelled",
        "d": "cancelled",
        "e": "cancelled",
        "f": "cancelled",
        "g": "cancelled",
    }
    assert run.pool.order == ["a", "b", "b"]
    assert run.end.over


def test_an_abort_lets_a_running_step_and_its_group_come_to_their_ends() -> None:
    made = Plan(
        steps=(
            Step(id="bad", do="x", attempts=1, writes=()),
            Step(id="worse", do="x", attempts=1, writes=()),
            Step(id="sub", skill="s"),
            Step(id="sub.a", do="x", part_of="sub", writes=()),
            Step(id="sub.b", do="x", part_of="sub", writes=(), needs=("sub.a",)),
        )
    )
    run = play(made, {"bad": "!x", "worse": "!y"}, [{"action": "abort"}], last=["sub.a"])
    assert run.standing == {
        "bad": "failed",
        "worse": "failed",  # it was not judged any more
        "sub": "cancelled",
        "sub.a": "done",
        "sub.b": "cancelled",
    }
    assert outline(run.log).splitlines()[-3:] == ["cancelled sub.b", "done sub.a", "cancelled sub"]


def test_what_was_begun_again_after_an_interruption_is_cancelled_by_an_abort_too() -> None:
    made = Plan(steps=(Step(id="a", do="x", attempts=1), Step(id="b", do="x", needs=("a",))))
    made = Plan(steps=(*made.steps, Step(id="c", do="x", writes=(), attempts=1)))
    log: list[Event] = [
        PlanCreated(plan=made, source="file"),
        StepStarted(step="a", attempt=1),
        StepStarted(step="c", attempt=1),
    ]
    run = Played(made, Written({"a": ["!x"]}, [{"action": "abort"}], size=1), log)
    assert run.standing == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    assert run.pool.order == ["a"]


def test_a_replacing_plan_keeps_what_is_done_or_running_and_drops_the_rest() -> None:
    made = Plan(
        steps=(
            Step(id="done", do="x", writes=()),
            Step(id="bad", do="x", writes=(), attempts=1, needs=("done",)),
            Step(id="long", do="x", writes=(), needs=("done",)),
            Step(id="later", do="x", writes=(), needs=("bad",)),
        )
    )
    new = [
        {"id": "other", "do": "y", "needs": ["done", "long"]},
        {"id": "later", "do": "z", "needs": ["other"]},
    ]
    run = play(made, {"bad": "!x", "later": "Z"}, [{"action": "replace", "steps": new}])
    assert outline(run.log).splitlines()[3:] == [
        "start bad",
        "start long",
        "failed bad",
        "done long",
        "replace bad: done long other later",
        "start other",
        "done other",
        "start later",
        "done later",
    ]
    assert run.standing == {"done": "done", "long": "done", "other": "done", "later": "done"}
    assert run.end.outcome == "done", "a failure that was replaced no longer counts"
    assert run.end.answer == "Z"
    assert run.pool.order.count("done") == 1


def test_an_id_used_again_in_a_replacing_plan_is_a_new_step_whose_attempts_are_numbered_on() -> (
    None
):
    run = play(
        plan(a="", b="a"),
        {"b": ["!1", "!2", "!3", "B"]},
        [{"action": "replace", "steps": [{"id": "b", "do": "otherwise", "needs": ["a"]}]}],
    )
    assert run.pool.attempt("b", 3).step.do == "otherwise"
    assert run.pool.attempt("b", 3).failure == "", "another step has not failed yet"
    assert run.pool.attempt("b", 4).failure == "3"
    assert run.standing == {"a": "done", "b": "done"}


def test_c079_a_plan_that_is_replaced_by_itself_ends_after_three_revisions() -> None:
    again: list[dict[str, Any]] = [
        {"id": "one", "do": "x"},
        {"id": "two", "do": "y", "needs": ["one"]},
    ]
    run = play(
        steps(*again),
        {"two": ["!same"] * 99},
        [{"action": "replace", "steps": again}, {"action": "retry"}, None],
    )
    assert run.pool.order.count("one") == 1, "a finished step is not run again"
    assert run.end.revisions == 3
    assert run.standing == {"one": "done", "two": "failed"}
    assert run.end.answer == "two: failed: same"
    always: list[dict[str, Any] | None] = [{"action": "replace", "steps": again}] * 9
    run = play(steps(*again), {"two": ["!same"] * 99}, always)
    assert run.pool.order.count("two") == 8, "two attempts, and two more for each revision"
    assert run.end.over


def test_a_plan_of_commands_alone_asks_no_model() -> None:
    run = play(steps({"id": "a", "run": "x"}, {"id": "b", "run": "x", "needs": ["a"]}), {"a": "!x"})
    assert run.standing == {"a": "failed", "b": "skipped"}
    assert run.end.revisions == 0
    assert run.end.outcome == "failed"


def test_after_the_third_revision_failures_that_wait_for_one_stay() -> None:
    names = [f"s{n}" for n in range(5)]
    made = steps(*({"id": id, "do": "x", "attempts": 1, "writes": []} for id in names))
    skip = {"action": "skip"}
    for revisions in ([None, skip, None], [None, None, skip]):
        run = play(made, dict.fromkeys(names, "!x"), revisions, size=5)
        assert sorted(run.standing.values()) == ["failed"] * 4 + ["skipped"]
        assert run.end.revisions == 3


def test_a_step_that_failed_while_another_failure_was_judged_waits_for_its_own_revision() -> None:
    made = steps(
        {"id": "a", "do": "x", "attempts": 1, "writes": []},
        {"id": "b", "do": "x", "attempts": 1, "writes": []},
    )
    new = [{"id": "c", "do": "x", "writes": []}]
    run = play(
        made,
        {"a": "!a", "b": ["!b", "never"]},
        [{"action": "replace", "steps": new}, {"action": "skip"}],
        size=2,
    )
    assert run.pool.order == ["a", "b", "c"]
    assert run.standing == {"b": "skipped", "c": "done"}


def test_a_group_with_a_failed_part_is_dissolved_and_its_good_parts_may_be_needed() -> None:
    run = play(
        skill(),
        {"sub.b": "!x", "new": "N"},
        [{"action": "replace", "steps": [{"id": "new", "do": "x", "needs": ["sub.a", "sub.c"]}]}],
    )
    assert run.standing == {"pre": "done", "sub.a": "done", "sub.c": "skipped", "new": "done"}
    assert run.end.outcome == "done"


def test_new_writers_wait_for_those_that_a_replacement_finds_running() -> None:
    made = Plan(
        steps=(
            Step(id="bad", do="x", attempts=1, writes=()),
            Step(id="old", do="x", reads=("x",), writes=("y",)),
        )
    )
    new = [{"id": "new", "do": "x", "writes": ["x", "y"]}]
    run = play(made, {"bad": "!x"}, [{"action": "replace", "steps": new}], last=["old"])
    assert outline(run.log).splitlines()[-3:] == ["done old", "start new", "done new"]


def test_a_failed_part_of_a_running_group_is_replaced_with_the_rest() -> None:
    made = Plan(
        steps=(
            Step(id="bad", do="x", attempts=2, writes=()),
            Step(id="sub", skill="s"),
            Step(id="sub.a", do="x", attempts=1, part_of="sub", writes=()),
            Step(id="sub.b", do="x", part_of="sub", writes=()),
        )
    )
    new = [{"id": "new", "do": "x", "needs": ["sub.b"], "writes": []}]
    run = play(
        made,
        {"bad": ["!x", "!y"], "sub.a": "!z"},
        [None, {"action": "replace", "steps": new}],
        last=["sub.b"],
    )
    assert run.standing == {"sub": "done", "sub.b": "done", "new": "done"}
    assert run.end.outcome == "done"


def test_a_replacement_keeps_what_a_running_foreach_goes_over() -> None:
    made = steps(
        {"id": "list", "run": "x", "writes": []},
        {"id": "each", "do": "x", "foreach": "list.lines", "when": "list.failed", "writes": []},
        {"id": "bad", "do": "x", "attempts": 1, "writes": [], "needs": ["go"]},
        {"id": "go", "run": "x", "writes": []},
    )
    run = play(
        made,
        {"list": failing("a"), "bad": "!x"},
        [None, {"action": "replace", "steps": [{"id": "new", "do": "x", "writes": []}]}],
        last=["each.1"],
    )
    assert run.standing["each"] == "done"


def test_copies_of_a_foreach_that_is_used_again_are_numbered_on() -> None:
    run = play(
        each(attempts=1),
        {"list": "a\nb", "each.1": "A", "each.2": "!no", "each.3": "C", "each.4": "D"},
        [
            {
                "action": "replace",
                "steps": [{"id": "each", "do": "$item", "foreach": "list.lines", "writes": []}],
            }
        ],
    )
    assert run.standing == dict.fromkeys(["list", "each", "each.1", "each.3", "each.4"], "done")
    assert run.summary("each") == "C\nD"


def test_a_new_step_that_needs_a_part_of_a_running_group_waits_for_it() -> None:
    made = Plan(
        steps=(
            Step(id="bad", do="x", attempts=1, writes=()),
            Step(id="sub", skill="other"),
            Step(id="sub.a", do="x", part_of="sub", writes=()),
            Step(id="sub.b", do="x", part_of="sub", writes=(), needs=("sub.a",)),
        )
    )
    run = play(
        made,
        {"bad": "!x", "sub.b": "B"},
        [{"action": "replace", "steps": [{"id": "new", "do": "x", "needs": ["sub.b"]}]}],
        size=2,
    )
    assert run.standing["new"] == "done"
    assert [told.text for told in run.pool.attempt("new").results] == ["B"]


# -- interruptions -----------------------------------------------------------------------------


def test_a_stopped_run_begins_nothing_more_and_goes_on_where_it_was() -> None:
    made = plan(a="", b="a", c="b")
    first = Played(made, Written({"b": [StepFinished(status="cancelled")]}, life=2))
    assert first.standing == {"a": "done", "b": "cancelled", "c": "waiting"}
    assert "c: not begun" in first.end.answer
    second = Played(made, Written({"c": ["C"]}), first.log)
    assert outline(second.log).splitlines()[-5:] == [
        "resume (attempt 2)",
        "start b (attempt 2)",
        "done b",
        "start c",
        "done c",
    ]
    assert second.pool.attempt("b", 2).cut_off, "what the first attempt did is not known"
    assert not second.pool.attempt("c", 1).cut_off
    assert second.end.outcome == "done"


def test_a_killed_run_goes_on_with_the_steps_that_were_running() -> None:
    log: list[Event] = [
        PlanCreated(plan=plan(a="", b="a"), source="file"),
        StepStarted(step="a", attempt=1),
        StepFinished(step="a", status="failed", summary="no"),
        StepStarted(step="a", attempt=2),
    ]
    run = Played(Plan(), Written(), log)
    assert run.pool.order == ["a", "b"]
    assert run.pool.attempt("a", 3).cut_off
    assert run.end.outcome == "done"


def test_steps_that_were_skipped_for_a_failure_stay_so_when_a_run_goes_on() -> None:
    made = plan(a="", b="a", c="", d="c")
    first = Played(
        made, Written({"a": ["!x"] * 2, "c": [StepFinished(status="cancelled")]}, [None], life=4)
    )
    assert first.standing["c"] == "cancelled"
    second = Played(made, Written(), first.log)
    assert second.standing == {"a": "failed", "b": "skipped", "c": "done", "d": "done"}
    assert outline(second.log).count("skipped b") == 1


def test_what_was_skipped_for_a_cancelled_step_goes_on_with_it() -> None:
    made = steps({"id": "a", "run": "x"}, {"id": "b", "run": "x", "needs": ["a"]})
    first = Played(made, Written({"a": [StepFinished(status="cancelled")]}))
    assert first.standing == {"a": "cancelled", "b": "skipped"}
    second = Played(made, Written(), first.log)
    assert second.standing == {"a": "done", "b": "done"}


def test_a_run_that_was_given_up_goes_on_with_what_was_cancelled_when_resumed() -> None:
    made = steps(
        {"id": "a", "do": "x", "attempts": 1},
        {"id": "b", "do": "x"},
        {"id": "c", "do": "x", "needs": ["b"]},
    )
    first = Played(made, Written({"a": ["!x"]}, [{"action": "abort"}]))
    assert first.standing == {"a": "failed", "b": "cancelled", "c": "cancelled"}
    second = Played(made, Written(), first.log)
    assert second.standing == {"a": "failed", "b": "done", "c": "done"}
    assert not second.pool.attempt("b", 1).cut_off, "it had never begun"


def test_a_group_that_was_given_up_goes_on_with_the_parts_that_were_cancelled() -> None:
    made = Plan(
        steps=(
            Step(id="sub", skill="s"),
            Step(id="sub.a", do="x", attempts=1, part_of="sub", writes=()),
            Step(id="sub.b", do="x", part_of="sub", writes=(), needs=("sub.c",)),
            Step(id="sub.c", do="x", part_of="sub", writes=()),
        )
    )
    first = Played(made, Written({"sub.a": ["!x"]}, [{"action": "abort"}], last=["sub.c"]))
    assert first.standing == {
        "sub": "failed",
        "sub.a": "failed",
        "sub.b": "cancelled",
        "sub.c": "done",
    }
    second = Played(made, Written(), first.log)
    assert second.pool.order == ["sub.b"]
    assert second.standing["sub"] == "failed", "a part of it has failed all the same"


def test_a_group_goes_on_with_its_parts() -> None:
    first = Played(skill(), Written({"sub.b": [StepFinished(status="cancelled")]}, life=3))
    assert first.standing["sub"] == "running"
    second = Played(skill(), Written({"sub.b": ["B"]}), first.log)
    assert second.standing["sub"] == "done"
    assert second.pool.order == ["sub.b", "post"]


def test_a_failure_is_told_to_the_next_attempt_though_one_was_cut_off_between() -> None:
    made = steps({"id": "a", "do": "x", "attempts": 2})
    cut = StepFinished(status="cancelled", summary="interrupted")
    first = Played(made, Written({"a": ["!no roof", cut]}, life=2))
    second = Played(made, Written({"a": [""]}), first.log)
    assert (second.pool.attempt("a", 3).failure, second.pool.attempt("a", 3).cut_off) == (
        "no roof",
        True,
    )
    killed = Played(made, Written({"a": [""]}), first.log[:-1])
    assert killed.pool.attempt("a", 3).failure == "no roof"


def test_a_failure_whose_revision_was_cut_off_is_judged_again() -> None:
    made = plan(a="", b="a")
    log: list[Event] = [
        PlanCreated(plan=made, source="file"),
        StepStarted(step="a", attempt=1),
        StepFinished(step="a", status="failed"),
        StepStarted(step="a", attempt=2),
        StepFinished(step="a", status="failed", summary="why"),
    ]
    run = Played(made, Written({}, [{"action": "skip"}]), log)
    assert run.standing == {"a": "skipped", "b": "done"}


def test_a_foreach_that_can_t_be_is_told_so_after_an_interruption_too() -> None:
    made = steps({"id": "l", "run": "x"}, {"id": "e", "do": "x", "foreach": "l.items"})
    log: list[Event] = [
        PlanCreated(plan=made, source="file"),
        StepStarted(step="l", attempt=1),
        StepFinished(step="l", status="done", summary="no array"),
        StepStarted(step="e", attempt=1),
    ]
    assert Played(made, Written(), log).standing == {"l": "done", "e": "failed"}


# -- what is told of a run ---------------------------------------------------------------------


def test_a_run_counts_what_its_model_calls_use() -> None:
    def call(step: str, tokens: int, cost: float | None) -> ModelCalled:
        usage = Usage(input_tokens=tokens)
        return ModelCalled(
            step=step, model="m", usage=usage, cost_usd=cost, seconds=1, stop_reason="end"
        )

    state = State.of([call("a", 3, 0.5), call("a", 4, 0.25), call("b", 5, 0.0)])
    assert state.usage == Usage(input_tokens=12)
    assert {id: usage.input_tokens for id, usage in state.spent.items()} == {"a": 7, "b": 5}
    assert state.cost_usd == 0.75
    state.apply(call("b", 1, None))
    state.apply(call("b", 1, 1.0))
    assert state.cost_usd is None, "a sum without one of its parts is no sum"


def test_a_run_knows_where_and_when_it_began_and_how_often() -> None:
    state = State.of(
        [
            RunStarted(time="T1", run="r", goal="g", cwd="/w", model="m", version="1"),
            PlanCreated(time="T2", run="r", plan=plan(a=""), source="model"),
            RunFinished(
                time="T3", run="r", status="done", answer="", usage=Usage(), cost_usd=0, seconds=1
            ),
        ]
    )
    assert (state.run, state.goal, state.cwd, state.model) == ("r", "g", "/w", "m")
    assert (state.began, state.resumed) == ("T1", 1)
    again = State.of([RunResumed(time="T4", run="r", attempt=2)])
    assert state.finished is not None
    state.apply(RunResumed(time="T4", run="r", attempt=2))
    assert (state.began, state.resumed) == ("T1", 2)
    assert state.finished == again.finished


def test_the_answer_has_the_ends_in_plan_order_and_a_line_for_each_step_not_done() -> None:
    made = steps(
        {"id": "z", "run": "x", "writes": []},
        {"id": "a", "run": "x", "writes": []},
        {"id": "m", "run": "x", "writes": [], "needs": ["a"]},
        {"id": "q", "run": "x", "writes": [], "when": "z.done"},
        {"id": "f", "run": "x", "writes": []},
    )
    run = play(
        made, {"m": "M\n", "q": " Q", "a": "A", "z": "Z", "f": failing("", "\nx\n\nexit code 2\n")}
    )
    assert run.end.answer == "M\n\nQ\n\nf: failed: exit code 2"


def test_what_a_left_out_step_would_have_followed_is_the_answer() -> None:
    made = steps(
        {"id": "suite", "run": "x", "allow_failure": True},
        {"id": "fix", "do": "x", "when": "suite.failed"},
    )
    run = play(made, {"suite": "12 passed"})
    assert run.end.answer == "12 passed\n\nfix: skipped: when suite.failed"
    run = play(made, {"suite": "!x", "fix": "mended"})
    assert run.end.answer.startswith("mended")


def test_a_line_of_the_answer_is_a_line() -> None:
    run = play(steps({"id": "a", "run": "x"}), {"a": "!its check failed\n" + "y\n" * 9})
    assert run.end.answer == "a: failed: its check failed"
    run = play(steps({"id": "a", "run": "x"}), {"a": "!" + "y" * 9999})
    assert len(run.end.answer) < 400


def test_a_run_without_a_done_step_has_failed() -> None:
    run = play(steps({"id": "a", "run": "x"}), {"a": "!x"})
    assert run.end.outcome == "failed"
    assert State.of([]).outcome == "failed"


def test_the_parts_of_a_group_that_is_left_out_the_second_time_are_left_out_as_well() -> None:
    made = steps(
        {"id": "a", "run": "x", "writes": []},
        {"id": "sub", "skill": "x", "needs": ["a"]},
    )
    parts = (Step(id="sub.p", run="x", part_of="sub"), Step(id="sub.q", run="x", part_of="sub"))
    made = structs.replace(made, steps=(*made.steps, *parts))
    log = Played(made, Written(life=2)).log
    log.append(RunResumed(attempt=2, again=("a",)))
    state = State.of(log)
    assert (state.standing("sub"), state.standing("sub.p")) == ("waiting", "done")
    state = drive(state, Written({"a": ["!no"]}), lambda event: event)
    assert {step.id: state.standing(step.id) for step in state.listed} == {
        "a": "failed", "sub": "skipped", "sub.p": "done", "sub.q": "skipped",
    }  # fmt: skip

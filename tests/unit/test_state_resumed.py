"""What a run that goes on does again, what it does not, and what it knows of what was cut off."""

from agent.engine import prompt
from agent.event import (
    Event,
    ModelCalled,
    PlanCreated,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from agent.job import MOST_DEEDS, Deed
from agent.message import Usage
from agent.plan import Plan, Step
from agent.state import State
from tests.hands import End, Played, Written
from tests.plans import plan


def begun(made: Plan, *events: Event) -> list[Event]:
    return [PlanCreated(plan=made, source="file"), *events]


def asking(id: str, name: str = "bash", **input: str) -> ToolStarted:
    return ToolStarted(step="a", id=id, name=name, input=dict(input))


def came(id: str, output: str, *, ok: bool = True, name: str = "bash") -> ToolFinished:
    return ToolFinished(step="a", id=id, name=name, ok=ok, output=output, seconds=1)


def test_an_attempt_after_a_kill_is_told_what_the_one_before_did_as_far_as_the_log_knows() -> None:
    log = begun(
        plan(a=""),
        StepStarted(step="a", attempt=1),
        asking("1", "write_file", path="src/a.py", content="x" * 9999),
        came("1", "written\n--- a\n+++ b", name="write_file"),
        asking("2", command="make\ntest"),
        came("2", "compiling\nno rule\n[exit code 2]\n", ok=False),
        asking("3", command="deploy"),
    )
    job = Played(Plan(), Written(), log).pool.attempt("a", 2)
    assert job.deeds == (
        Deed(name="write_file", about="src/a.py", came="written", ok=True),
        Deed(name="bash", about="make test", came="[exit code 2]", ok=False),
        Deed(name="bash", about="deploy", ok=None),
    )
    told = prompt.step(job, {}, "/w")
    assert "- write_file src/a.py → written\n" in told
    assert "- bash make test → failed: [exit code 2]\n" in told
    assert "- bash deploy → cut off, perhaps half done\n" in told
    assert told.endswith('<step id="a">do a</step>')


def test_what_is_told_of_an_attempt_that_was_cut_off_is_bounded_and_the_last_of_it() -> None:
    calls: list[Event] = []
    for n in range(MOST_DEEDS * 3):
        calls += [asking(str(n), command=f"{n} " + "y" * 10_000), came(str(n), "z" * 100_000)]
    job = Played(Plan(), Written(), begun(plan(a=""), StepStarted(step="a", attempt=1), *calls))
    deeds = job.pool.attempt("a", 2).deeds
    assert len(deeds) == MOST_DEEDS
    assert deeds[-1].about.startswith(f"{MOST_DEEDS * 3 - 1} ")
    assert sum(len(deed.about) + len(deed.came) for deed in deeds) < 20_000


def test_what_two_attempts_that_were_cut_off_did_is_told_and_of_a_whole_one_it_is_not() -> None:
    cut: list[Event] = [
        StepStarted(step="a", attempt=1), asking("1", command="one"), came("1", "1"),
        RunResumed(attempt=2),
        StepStarted(step="a", attempt=2), asking("1", command="two"), came("1", "2"),
        StepFinished(step="a", status="cancelled"),
    ]  # fmt: skip
    job = Played(Plan(), Written(), begun(plan(a=""), *cut)).pool.attempt("a", 3)
    assert [deed.about for deed in job.deeds] == ["one", "two"]
    whole = [*cut[:3], StepFinished(step="a", status="failed", summary="no")]
    failed = Played(Plan(), Written(), begun(plan(a=""), *whole)).pool.attempt("a", 2)
    assert (failed.deeds, failed.cut_off, failed.failure) == ((), False, "no")


def test_an_attempt_that_was_cut_off_is_none_of_those_that_a_step_has() -> None:
    once = Plan(goal="", steps=(Step(id="a", do="x", attempts=2, allow_failure=True),))
    log = begun(
        once,
        StepStarted(step="a", attempt=1),
        StepFinished(step="a", status="failed", summary="no"),
        StepStarted(step="a", attempt=2),  # killed
        RunResumed(attempt=2),
        StepStarted(step="a", attempt=3),
        StepFinished(step="a", status="cancelled", summary="interrupted"),
    )
    run = Played(Plan(), Written({"a": ["!no"] * 5}), log)
    assert run.pool.order == ["a"], "one of two is used up, and two that were cut off are not"
    assert run.standing == {"a": "failed"}


def test_a_step_that_has_to_be_done_again_is_and_what_was_built_on_it_stays_done() -> None:
    first = Played(plan(a="", b="a", c="b"), Written({"c": [StepFinished(status="cancelled")]}))
    second = Played(Plan(), Written({"a": ["again"]}), first.log, again=("a",))
    assert second.pool.order == ["a", "c"]
    job = second.pool.attempt("a", 2)
    assert (job.again, job.cut_off) == (True, False)
    assert "done before" in prompt.step(job, {}, "/w")
    assert second.standing == {"a": "done", "b": "done", "c": "done"}
    assert second.end.text["a"] == "again"
    assert not second.end.again


def test_a_part_that_has_to_be_done_again_opens_its_group_and_what_waits_waits_for_it() -> None:
    made = Plan(
        goal="",
        steps=(
            Step(id="list", do="x", writes=()),
            Step(id="each", do="x", foreach="list.lines", needs=("list",), writes=()),
            Step(id="last", do="x", needs=("each",), writes=()),
        ),
    )
    ends: dict[str, list[End]] = {
        "list": ["one\ntwo"],
        "last": [StepFinished(status="cancelled")],
    }
    first = Played(made, Written(ends))
    assert first.standing["each"] == "done"
    second = Played(Plan(), Written({"each.2": ["TWO"]}), first.log, again=("each.2",))
    assert second.pool.order == ["each.2", "last"]
    assert second.pool.attempt("last", 2).results[0].text == "\nTWO"
    assert set(second.standing.values()) == {"done"}


def test_a_run_that_goes_on_elsewhere_tells_where_its_files_are_now() -> None:
    path = "/old/.agent/workspace/r/x.md"
    log: list[Event] = [
        RunStarted(goal="g", cwd="/old", model="m", version="1"),
        *begun(
            plan(a="", b="a"),
            StepStarted(step="a", attempt=1),
            StepFinished(
                step="a", status="done", summary=f"see {path} in /old",
                outputs=(path,), hashes={path: "1", "src/a": "2"},
            ),
            RunResumed(attempt=2, cwd="/new", model="other"),
        ),
    ]  # fmt: skip
    state = State.of(log)
    new = "/new/.agent/workspace/r/x.md"
    assert (state.cwd, state.model) == ("/new", "other")
    assert state.outputs["a"] == (new,)
    assert state.text["a"] == f"see {new} in /old"
    assert state.hashes["a"] == {new: "1", "src/a": "2"}


def test_the_cost_of_each_step_is_known_or_said_to_be_unknown() -> None:
    def called(step: str, cost: float | None) -> ModelCalled:
        usage = Usage(input_tokens=1)
        return ModelCalled(
            step=step, model="m", usage=usage, cost_usd=cost, seconds=1, stop_reason="end"
        )

    state = State.of([called("a", 1.0), called("a", 0.5), called("b", 1.0), called("b", None)])
    assert state.costs == {"a": 1.5, "b": None}

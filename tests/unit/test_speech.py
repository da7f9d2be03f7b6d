from typing import Any

import pytest

from agent.engine.speech import (
    ask_oracle,
    ask_user,
    drafted,
    report,
    revise_plan,
    run_skill,
    submit_plan,
)
from agent.errors import BudgetError, PlanError, ServiceError, ToolError, UsageError
from agent.event import Event
from agent.message import Message, Reply, Request, Say
from agent.plan import Plan
from agent.seams import Emit, Provider
from agent.stop import Stop
from agent.tool import Context, Outcome, Tool


@pytest.fixture
def context(tmp_path: Any) -> Context:
    return Context(cwd=tmp_path.resolve(), stop=Stop())


def wrong(*steps: Any) -> tuple[str, ...]:
    with pytest.raises(PlanError) as error:
        drafted("goal", list(steps))
    return error.value.faults


def refused(tool: Tool, context: Context, **input: Any) -> str:
    with pytest.raises(ToolError) as told:
        tool(context, input)
    return str(told.value)


# -- plans ---------------------------------------------------------------------------------------


def test_c070_a_model_may_write_ids_and_needs_in_any_of_their_forms(context: Context) -> None:
    made = list[Plan]()

    def run(plan: Plan) -> Outcome:
        made.append(plan)
        return Outcome(text="ran", ends=True)

    steps = [
        {"id": 1, "do": "x"},
        {"id": 2, "do": "y", "needs": ["1"]},
        {"id": "3", "do": "z", "needs": [2]},
        {"id": "2.1", "do": "w", "needs": None},
        {"id": "4", "do": "v", "needs": "3"},
    ]
    done = submit_plan(run, print)(context, {"goal": "g", "steps": steps})
    assert (done.text, done.ends) == ("ran", True)
    assert {step.id: step.needs for step in made[0].steps} == {
        "1": (),
        "2": ("1",),
        "3": ("2",),
        "2.1": (),
        "4": ("3",),
    }


def test_c071_steps_that_are_no_json_go_back_with_the_place_and_nothing_is_run(
    context: Context,
) -> None:
    def run(plan: Plan) -> Outcome:
        raise AssertionError("nothing is to be run")

    tool = submit_plan(run, lambda text: None)
    text = '[{"id": "a", "do": "write the \'x\' module", "needs": [],},]'
    told = refused(tool, context, goal="g", steps=text)
    assert "steps came as a text that is no JSON" in told
    assert "(byte " in told
    good = tool.read({"goal": "g", "steps": '[{"id": "a", "do": "x"}]'})
    assert getattr(good, "steps", None) == [{"id": "a", "do": "x"}], "a list in a text is read"


def test_every_fault_of_every_step_is_told_at_once() -> None:
    keys = (
        "there are allow_failure, attempts, cache, do, exclusive, foreach, id, max_cost_usd, "
        "max_tokens, max_turns, model, needs, outputs, permissions, reads, result, run, skill, "
        "timeout, tools, verify, when, writes"
    )
    assert wrong(
        {"id": "a", "task": "x", "neds": ["b"]},
        {"id": "b", "do": "y", "needs": ["a", "c"], "part_of": "a"},
        {"id": "b", "do": "z", "attempts": 0},
    ) == (
        f"step 'a' has the unknown key 'task'; {keys}",
        "step 'a' has the unknown key 'neds'; did you mean 'needs'?",
        f"step 'b' has the unknown key 'part_of'; {keys}",
        "2 steps have the id 'b'; give each its own",
        "step 'a' has nothing to do; it needs exactly one of `do`, `run` and `skill`",
        "step 'b' needs 'c', which is no step",
        "step 'b' has `attempts` 0; it must be more than 0",
    )


def test_every_step_that_can_t_be_read_is_named() -> None:
    assert wrong(
        {"id": "a", "do": 3}, {"do": "x"}, "y", {"id": "c", "do": "z", "attempts": "no"}
    ) == (
        "step 'a': Expected `str | null`, got `int` - at `do`",
        "step 2: Object missing required field `id`",
        "step 'c': Expected `int | null`, got `str` - at `attempts`",
    )
    assert wrong() == ("a plan needs at least one step",)
    with pytest.raises(PlanError, match="steps must be a list"):
        drafted("g", {"a": "x"})


def test_a_plan_with_faults_goes_back_twice_and_then_one_agent_does_the_task(
    context: Context,
) -> None:
    told = list[str]()
    runs = list[Plan]()

    def run(plan: Plan) -> Outcome:
        runs.append(plan)
        return Outcome(text="ran")

    tool = submit_plan(run, told.append)
    bad = {"goal": "g", "steps": [{"id": "a", "do": "x", "needs": ["b", "a"]}]}
    for _ in range(2):
        words = refused(tool, context, **bad)
        assert "1. step 'a' needs 'b', which is no step" in words
        assert "2. step 'a' needs itself" in words
        assert "submit the whole plan again" in words
    assert not told
    assert "Do the task yourself now" in refused(tool, context, **bad)
    assert told == ["the plan was refused 3 times; one agent does the task without one"]
    good = {"goal": "g", "steps": [{"id": "a", "do": "x"}]}
    assert "no more plans" in refused(tool, context, **good)
    assert not runs


def test_a_good_plan_makes_earlier_faults_forgotten(context: Context) -> None:
    tool = submit_plan(lambda plan: Outcome(text="ran"), print)
    bad = {"goal": "g", "steps": []}
    good = {"goal": "g", "steps": [{"id": "a", "do": "x"}]}
    for _ in range(3):
        refused(tool, context, **bad)
        refused(tool, context, **bad)
        assert tool(context, good).text == "ran"


def test_a_skill_that_a_plan_names_and_there_is_not_is_a_fault_of_the_plan(
    context: Context,
) -> None:
    def run(plan: Plan) -> Outcome:
        raise UsageError("there is no skill 'reviw'")

    tool = submit_plan(run, print)
    told = refused(tool, context, goal="g", steps=[{"id": "a", "skill": "reviw"}])
    assert "1. there is no skill 'reviw'" in told


def test_the_schema_of_a_plan_says_what_a_step_has_and_refuses_nothing_it_does_not_say() -> None:
    schema = submit_plan(lambda plan: Outcome(text=""), print).schema
    assert schema["required"] == ["goal", "steps"]
    step = schema["properties"]["steps"]["items"]
    assert step["required"] == ["id"]
    assert {"do", "run", "skill", "needs", "writes", "verify"} <= step["properties"].keys()
    assert not {"given", "part_of", "within"} & step["properties"].keys()
    assert "$ref" not in str(schema)


def test_a_skill_s_arguments_may_be_left_out(context: Context) -> None:
    seen = list[tuple[str, str]]()

    def run(name: str, arguments: str) -> Outcome:
        seen.append((name, arguments))
        return Outcome(text="ran")

    tool = run_skill(run)
    tool(context, {"name": "fix-tests"})
    tool(context, {"name": "fix-tests", "arguments": "src"})
    assert seen == [("fix-tests", ""), ("fix-tests", "src")]


# -- reports, revisions, questions ---------------------------------------------------------------


def test_a_report_ends_the_step_and_wants_one_of_three_words(context: Context) -> None:
    done = report(context, {"status": "blocked", "summary": "no key"})
    assert done.ends
    assert "Invalid enum value 'ok'" in refused(report, context, status="ok", summary="x")
    assert "summary" in refused(report, context, status="done")
    assert report.schema["required"] == ["status", "summary"]


def test_a_revision_wants_one_of_four_actions() -> None:
    tool = revise_plan()
    assert getattr(tool.read({"action": "skip"}), "because", None) == ""
    for input in ({}, {"action": "stop"}, {"action": "retry", "plan": []}):
        with pytest.raises(ToolError, match="revise_plan"):
            tool.read(input)
    assert tool.schema["required"] == ["action", "because"]


def test_a_question_is_put_with_the_step_that_asks(context: Context) -> None:
    seen = list[tuple[str, str]]()

    def inquire(step: str, question: str) -> str:
        seen.append((step, question))
        return "blue"

    assert ask_user(inquire, "paint")(context, {"question": "which?"}).text == "blue"
    assert seen == [("paint", "which?")]


def oracle(provider: Provider) -> Tool:
    def models(name: str, stop: Stop, emit: Emit) -> Provider:
        assert name == "oracle"
        return provider

    def emit(event: Event) -> None:
        raise AssertionError("the models tell of their calls themselves")

    return ask_oracle(models, Stop(), emit)


def test_the_oracle_sees_the_question_alone(context: Context) -> None:
    seen = list[Request]()

    def wise(request: Request, say: Say) -> Reply:
        seen.append(request)
        return Reply(message=Message(role="assistant", text="42"))

    assert oracle(wise)(context, {"question": "why?"}).text == "42"
    assert [message.text for message in seen[0].messages] == ["why?"]
    assert seen[0].tools == ()


def test_an_oracle_that_can_t_be_reached_is_a_tool_s_no_and_a_spent_budget_is_not(
    context: Context,
) -> None:
    def gone(request: Request, say: Say) -> Reply:
        raise ServiceError("overloaded")

    assert refused(oracle(gone), context, question="why?") == (
        "the other model gave no answer: overloaded"
    )

    def spent(request: Request, say: Say) -> Reply:
        raise BudgetError("spent", what="money")

    with pytest.raises(BudgetError):
        oracle(spent)(context, {"question": "why?"})

"""The tools by which a model speaks to us: it plans, reports, revises, asks."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from agent.engine import prompt
from agent.engine.chat import silent
from agent.errors import ModelError, PlanError, ToolError, UsageError, near
from agent.event import Action
from agent.message import Message, Request
from agent.plan import Plan, Step, convert, faults
from agent.seams import Emit, Models
from agent.stop import Stop
from agent.tool import Context, Function, Outcome, Tool, plain, tool

REFUSALS = 2  # how often a plan goes back to the model with its faults
OURS = {"given", "part_of", "within"}  # keys of a step that no model and no file sets

Inquire: TypeAlias = Callable[[str, str], str]
"""Puts a question (of a step, "" for a chat) to the user and returns the answer.

Raises ToolError where nobody can be asked."""

Maybe: TypeAlias = UnsetType


class Draft(Struct, frozen=True, kw_only=True):
    """A step as a model is told to write it: the keys of a plan file that serve a planner."""

    id: str
    do: Annotated[
        str | Maybe,
        Meta(description="an agent's task; it sees this, the goal, the plan, and what it needs"),
    ] = UNSET
    run: Annotated[str | Maybe, Meta(description="instead: a command")] = UNSET
    skill: Annotated[str | Maybe, Meta(description="instead: a skill's name and arguments")] = UNSET
    needs: Annotated[
        list[str] | Maybe, Meta(description="ids of steps whose results it must have")
    ] = UNSET
    reads: Annotated[list[str] | Maybe, Meta(description="globs it looks at")] = UNSET
    writes: Annotated[
        list[str] | Maybe,
        Meta(description="globs it changes, [] for none; left out: anything"),
    ] = UNSET
    verify: Annotated[
        str | Maybe, Meta(description="a command that exits 0 only if it is done")
    ] = UNSET
    outputs: Annotated[
        list[str] | Maybe, Meta(description="files it must leave in $TS_WORKSPACE")
    ] = UNSET
    when: Annotated[
        str | Maybe, Meta(description="only if: ID.failed, ID.done, ID.skipped, not, and, or")
    ] = UNSET
    foreach: Annotated[
        str | Maybe,
        Meta(description="ID.lines or ID.items (JSON): a copy for each, as $item"),
    ] = UNSET
    allow_failure: bool | Maybe = UNSET
    attempts: int | Maybe = UNSET
    timeout: Annotated[float | Maybe, Meta(description="seconds")] = UNSET
    exclusive: Annotated[
        list[str] | Maybe, Meta(description="what one step at a time may hold: port-8000")
    ] = UNSET
    model: Annotated[str | Maybe, Meta(description="small: for what is simple")] = UNSET


class PlanWords(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    goal: Annotated[str, Meta(description="the whole task, in the user's words")]
    steps: list[Draft]


class Loose(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plan's call is read as: its steps are looked at by agent.plan, with its words."""

    goal: str = ""
    steps: Any


class ReviseWords(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    action: Annotated[
        Action,
        Meta(
            description="retry: the step again, told as in do; skip: go on without it; replace: "
            "other steps instead of it and all that are not done; abort: give up"
        ),
    ]
    because: Annotated[str, Meta(description="the cause of the failure, in a sentence")]
    do: Annotated[str, Meta(description="with retry: the step's new words")] = ""
    steps: Annotated[
        list[Draft], Meta(description="with replace: the new steps; they may need done ones by id")
    ] = []


class LooseRevision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    action: Action
    because: str = ""
    do: str = ""
    steps: Any = ()


def spoken(
    name: str, description: str, words: type[Struct], args: type[Struct], function: Function
) -> Tool:
    """A tool whose schema is that of `words`, read as the laxer `args`."""
    return Tool(
        name=name,
        description=description,
        schema=plain(msgspec.json.schema(words)),
        args=args,
        function=function,
        writes=False,
    )


def submit_plan(run: Callable[[Plan], Outcome], tell: Callable[[str], None]) -> Tool:
    """`run` is given the checked plan and returns what the model is told of its run.

    A plan with faults goes back to the model REFUSALS times, numbered; after that it is told to
    work without one, and the user is told so by `tell`.
    """
    refused = 0

    def function(context: Context, goal: str, steps: Any) -> Outcome:
        nonlocal refused
        if refused > REFUSALS:
            raise ToolError("no more plans for this task: do it yourself, with the other tools")
        try:
            outcome = run(drafted(goal, steps))
        except UsageError as error:
            refused += 1
            found = error.faults if isinstance(error, PlanError) else (str(error),)
            told = "\n".join(f"{n}. {fault}" for n, fault in enumerate(found, 1))
            if refused > REFUSALS:
                tell(f"the plan was refused {refused} times; one agent does the task without one")
                raise ToolError(
                    f"The plan can't run:\n{told}\nDo the task yourself now, without a plan."
                ) from error
            raise ToolError(
                f"The plan can't run:\n{told}\nMend this and submit the whole plan again."
            ) from error
        refused = 0
        return outcome

    return spoken(
        "submit_plan",
        "Run a plan: a graph of steps, each done by an agent of its own, at once where needs and "
        "writes allow. Its results are the answer to the user.",
        PlanWords,
        Loose,
        function,
    )


def drafted(goal: str, steps: Any) -> Plan:
    """The checked plan of a model's words. Raises PlanError with every fault."""
    known, wrong = own_words(steps)
    try:
        plan = convert({"goal": goal, "steps": known})
    except msgspec.ValidationError as error:
        raise PlanError([*wrong, *misread(known, error)]) from error
    if found := [*wrong, *faults(plan)]:
        raise PlanError(found)
    return plan


def own_words(steps: Any) -> tuple[Any, list[str]]:
    """Steps as a model may write them, and a fault for each key that is none of a step's, or that
    only we set."""
    data = msgspec.to_builtins(steps)
    if not isinstance(data, list):
        return data, []
    keys = {*Step.__struct_fields__} - OURS
    wrong = []
    for number, step in enumerate(data, 1):
        for key in step if isinstance(step, dict) else ():
            if key not in keys:
                hint = near(str(key), keys) or f"; there are {', '.join(sorted(keys))}"
                wrong.append(f"step {step.get('id', number)!r} has the unknown key {key!r}{hint}")
    return [
        {key: value for key, value in step.items() if key in keys}
        if isinstance(step, dict)
        else step
        for step in data
    ], wrong


def misread(steps: Any, error: msgspec.ValidationError) -> list[str]:
    """The faults of each step that can't be read, not only of the first."""
    if isinstance(steps, str):
        try:
            msgspec.json.decode(steps)
        except (msgspec.DecodeError, RecursionError) as fault:
            return [f"steps came as a text that is no JSON: {fault}"]
    if not isinstance(steps, list):
        return [f"steps must be a list: {error}"]
    found = []
    for number, step in enumerate(steps, 1):
        try:
            convert({"steps": [step]})
        except msgspec.ValidationError as fault:
            name = step.get("id", number) if isinstance(step, dict) else number
            words = str(fault).replace(" - at `$.steps[0]`", "").replace("$.steps[0].", "")
            found.append(f"step {name!r}: {words}")
    return found or [str(error)]


def run_skill(run: Callable[[str, str], Outcome]) -> Tool:
    """`run` is given a skill's name and its arguments; raises ToolError for an unknown one."""

    @tool(writes=False)
    def run_skill(context: Context, name: str, arguments: str = "") -> Outcome:
        """Run a skill, a ready plan. Its results are the answer to the user.

        name: the skill's
        arguments: the words behind its name
        """
        return run(name, arguments)

    return run_skill


@tool(writes=False)
def report(
    context: Context,
    status: Literal["done", "failed", "blocked"],
    summary: str,
    outputs: list[str] | None = None,
) -> Outcome:
    """End this step. Say done only for what you have seen to work.

    status: done, failed, or blocked by something you can't change
    summary: what the next steps and the user must know: what you did, found, decided, changed
    outputs: files you left in the shared workspace
    """
    return Outcome(text="noted", ends=True)


class Report(Struct, frozen=True, kw_only=True):
    status: Literal["done", "failed", "blocked"]
    summary: str
    outputs: list[str] | None = None


def revise_plan() -> Tool:
    """The only tool of the model that judges a failure; its call is read, never run."""

    def function(context: Context, /, **words: Any) -> str:
        raise AssertionError("a revision is read from the call")

    return spoken(
        "revise_plan",
        "Decide what becomes of the plan after a step has finally failed.",
        ReviseWords,
        LooseRevision,
        function,
    )


def ask_user(inquire: Inquire, step: str = "") -> Tool:
    """The tool by which a chat, or a step, asks the user something."""

    @tool(writes=False)
    def ask_user(context: Context, question: str) -> str:
        """Ask the user what only they can decide. Don't ask what you can find out."""
        return inquire(step, question)

    return ask_user


def ask_oracle(models: Models, stop: Stop, emit: Emit) -> Tool:
    """The tool by which an agent asks the `oracle` model something, alone."""

    @tool(writes=False)
    def ask_oracle(context: Context, question: str) -> str:
        """Ask another model. It sees nothing but your question: give it the code and the errors."""
        message = Message(role="user", text=question)
        request = Request(system=prompt.ORACLE, messages=(message,))
        try:
            return models("oracle", stop, emit)(request, silent).message.text
        except ModelError as error:
            raise ToolError(f"the other model gave no answer: {error}") from error

    return ask_oracle

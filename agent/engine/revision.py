"""The question what becomes of a plan, one of whose steps has failed for good."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET, structs

from agent.engine import prompt
from agent.engine.chat import silent
from agent.engine.speech import LooseRevision, own_words, revise_plan
from agent.errors import (
    AgentError,
    BudgetError,
    PlanError,
    ServiceError,
    SetupError,
    StoppedError,
    ToolError,
    UsageError,
)
from agent.event import PlanRevised, RevisionFailed
from agent.job import Revise
from agent.message import Message, Request
from agent.plan import Plan, checked, convert, expanded
from agent.seams import Provider


def no_skill(name: str) -> Plan:
    raise UsageError(f"there is no skill {name!r}")


def decided(
    job: Revise, provider: Provider, system: str, find: Callable[[str], Plan]
) -> PlanRevised | RevisionFailed:
    """What the model decides. Raises what is no answer of its: a service's failure, a budget, a
    stop."""
    tool = revise_plan()
    request = Request(
        system=system,
        messages=(Message(role="user", text=prompt.revision(job)),),
        tools=(tool.spec,),
        must=tool.name,
    )

    def refused(why: str) -> RevisionFailed:
        return RevisionFailed(step=job.step.id or UNSET, because=why)

    try:
        reply = provider(request, silent)
    except (ServiceError, SetupError, BudgetError, StoppedError):
        raise
    except AgentError as error:
        return refused(str(error))
    call = next((call for call in reply.message.calls if call.name == tool.name), None)
    if call is None:
        return refused("the model called no revise_plan")
    try:
        if call.fault:
            raise ToolError(call.fault)
        words = tool.read(call.input)
        assert isinstance(words, LooseRevision), "it is what revise_plan is read as"
        return revised(job, words, find)
    except (ToolError, UsageError, msgspec.ValidationError) as error:
        return refused(f"no valid revision: {error}")


def revised(
    job: Revise, words: LooseRevision, find: Callable[[str], Plan] = no_skill
) -> PlanRevised:
    """The event of a revision. Raises UsageError, ValidationError for new steps that can't run."""
    plan, kept = None, tuple[str, ...]()
    users = not job.step.id
    if users and words.action not in {"replace", "abort"}:
        raise UsageError(f"the model left the plan as it is: {words.because or words.action}")
    if words.action == "retry" and words.do.strip() and job.step.do is not None:
        again = structs.replace(job.step, do=words.do)
        plan = Plan(
            goal=job.goal,
            steps=tuple(again if step.id == again.id else step for step in job.steps),
        )
    if words.action == "replace":
        kept = tuple(step.id for step in job.kept)
        known, wrong = own_words(words.steps)
        if wrong:
            raise PlanError(wrong)
        new = convert({"steps": known}).steps
        fresh = tuple(step for step in new if step.id not in kept)
        if not fresh:
            raise PlanError(["it names no step that is still to be done"])
        checked(Plan(goal=job.goal, steps=(*job.kept, *fresh)))
        fresh = expanded(Plan(steps=fresh), find).steps
        plan = checked(Plan(goal=job.goal, steps=(*job.kept, *fresh)))
    return PlanRevised(
        step=job.step.id or UNSET,
        action=words.action,
        plan=plan,
        because=f"the user: {job.failure}" if users else words.because,
        kept=kept,
        by="user" if users else "model",
    )

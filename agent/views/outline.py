"""A run in a few lines: what happened to which step. For reading, and for tests to compare with."""

from collections.abc import Iterable

from agent.event import (
    Event,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    RunResumed,
    StepFinished,
    StepStarted,
    step_of,
)


def outline(events: Iterable[Event]) -> str:
    """The lines of all events that have one."""
    return "\n".join(line for event in events if (line := sentence(event)))


def sentence(event: Event) -> str:
    """An event in a line; "" for what is not about the course of the run."""
    id = step_of(event)
    match event:
        case RunResumed(attempt=attempt):
            return f"resume (attempt {attempt})"
        case PlanCreated(plan=plan):
            return "plan " + " ".join(step.id for step in plan.steps)
        case StepStarted(attempt=attempt):
            return f"start {id}" + (f" (attempt {attempt})" if attempt > 1 else "")
        case StepFinished(status=status, reused=reused):
            return f"{status} {id}" + (" (reused)" if reused is True else "")
        case PlanRevised(action="replace", plan=plan) if plan is not None:
            return f"replace {id}: " + " ".join(step.id for step in plan.steps)
        case PlanRevised(action=action):
            return f"{action} {id}"
        case RevisionFailed():
            return f"no revision of {id}"
        case _:
            return ""

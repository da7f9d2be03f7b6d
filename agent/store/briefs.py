"""The runs of a directory, each in a line: read from the two ends of its log where that tells all.

A run that has not come to its end is folded from those events alone that change how it stands.
"""

from pathlib import Path

from msgspec import UNSET

from agent.errors import AgentError
from agent.event import (
    Event,
    ModelCalled,
    RunFinished,
    RunStarted,
)
from agent.standing import Brief
from agent.state import State
from agent.store import log, workspace
from agent.store.lines import holder

MOST_BYTES = 512 * 1024 * 1024  # of one log that is folded
STANDING: tuple[type[Event], ...] = (*log.BOUNDARIES, ModelCalled)


def briefs(cwd: Path, most: int | None = None) -> list[Brief]:
    """The runs of a directory, the newest first; of one whose log can't be read only the name."""
    found = []
    for place in workspace.runs(cwd)[:most]:
        try:
            found.append(brief(place))
        except AgentError:
            found.append(Brief(run=place.id))
    return found


def brief(place: workspace.Run) -> Brief:
    """How a run stands. Raises AgentError where its log can't be read."""
    first, last = log.ends(place.log)
    if (
        isinstance(first, RunStarted)
        and isinstance(last, RunFinished)
        and last.steps is not UNSET
        and last.done is not UNSET
    ):
        return Brief(
            run=place.id,
            status=last.status,
            began=first.time,
            done=last.done,
            steps=last.steps,
            cost_usd=last.cost_usd,
            goal=first.goal,
        )
    live = holder(place.log) is not None
    state = standing(place)
    done, steps = state.count
    end = state.finished.status if state.finished else None
    return Brief(
        run=place.id,
        status=end or ("running" if live else "unfinished"),
        began=state.began,
        done=done,
        steps=steps,
        cost_usd=state.cost_usd,
        goal=state.goal,
    )


def standing(place: workspace.Run) -> State:
    """A run folded from what changes how it stands; what its steps did is left out."""
    return State.of(log.picked(place.log, STANDING, most=MOST_BYTES))

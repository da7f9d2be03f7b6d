"""The one JSON object that says how a command has ended: for `json`, and last in `stream-json`.

Its names are fixed: scripts read them.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from agent.errors import AgentError, BudgetError
from agent.event import PermissionDecided, step_of
from agent.message import Usage
from agent.state import State
from agent.stop import WORDS

STOPPED = WORDS.keys()  # exit codes
OVER_BUDGET = BudgetError.exit_code


def result(  # noqa: PLR0913 - what each of its names is read from
    *,
    code: int,
    answer: str,
    state: State | None = None,
    run_id: str | None = None,
    session_id: str | None = None,
    num_turns: int = 0,
    duration_ms: int = 0,
    usage: Usage | None = None,
    cost_usd: float | None = 0.0,
    denials: Sequence[PermissionDecided] = (),
    error: AgentError | None = None,
) -> dict[str, Any]:
    """The object, in plain values.

    `code`: the exit code. `state`: of the run; None: a plain chat, or nothing was begun.
    `num_turns`: model calls. `cost_usd` None: a price is not known.
    """
    told: dict[str, Any] = {
        "type": "result",
        "subtype": _subtype(code, error),
        "is_error": code != 0,
        "result": answer,
        "status": _status(code, state),
        "session_id": session_id,
        "run_id": run_id or (state.run if state else None),
        "num_turns": num_turns,
        "duration_ms": duration_ms,
        "total_cost_usd": None if cost_usd is None else round(cost_usd, 6),
        "usage": to_builtins(usage or Usage()),
        "permission_denials": [
            {"tool": denial.tool, "input": denial.input, "step": step_of(denial) or None}
            for denial in denials
        ],
        "steps": _steps(state) if state else {},
    }
    if error is not None:
        told["error"] = {"code": error.code, "message": str(error), "hint": error.hint}
    return told


def _subtype(code: int, error: AgentError | None) -> str:
    if not code:
        return "success"
    if code == OVER_BUDGET:
        turns = isinstance(error, BudgetError) and error.what == "turns"
        return "error_max_turns" if turns else "error_max_budget_usd"
    return "error_interrupted" if code in STOPPED else "error_during_execution"


def _status(code: int, state: State | None) -> str:
    if state and state.finished:
        return state.finished.status
    if code in STOPPED:
        return "interrupted"
    if code == OVER_BUDGET:
        return "over-budget"
    if state and state.steps:
        return state.outcome
    return "failed" if code else "done"


def _steps(state: State) -> dict[str, dict[str, Any]]:
    return {
        step.id: {
            "status": state.standing(step.id),
            "summary": words(state, step.id),
            "outputs": list(state.outputs.get(step.id, ())),
            "attempts": state.tries.get(step.id, 0),
            "seconds": round(state.seconds.get(step.id, 0.0), 3),
        }
        for step in state.listed
    }


def words(state: State, id: str) -> str:
    """A step's text, or how it has failed."""
    return state.failure(id) if state.standing(id) == "failed" else state.text.get(id, "")

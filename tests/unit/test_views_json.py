import io
import json

import pytest

from agent.errors import AgentError, BudgetError, PlanError
from agent.event import (
    Event,
    PermissionDecided,
    PlanCreated,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    encode,
)
from agent.message import Usage
from agent.state import State
from agent.views.jsonl import harmless, jsonl
from agent.views.result import result
from tests.plans import plan

EVENTS: list[Event] = [
    RunStarted(run="r1", goal="g", cwd="/w", model="m", version="1"),
    PlanCreated(run="r1", plan=plan(a="", b="a"), source="model"),
    StepStarted(run="r1", step="a", attempt=1),
    TextDelta(run="r1", step="a", text="he"),
    Text(run="r1", step="a", text="hello\u2028天枢"),
    StepFinished(run="r1", step="a", status="failed", summary="no", seconds=1.5),
    StepStarted(run="r1", step="a", attempt=2),
    StepFinished(run="r1", step="a", status="done", summary="A", outputs=("/w/x",), seconds=2.25),
]


def test_each_event_is_a_line_of_the_bytes_that_the_log_has() -> None:
    out = io.BytesIO()
    sink = jsonl(out)
    for event in EVENTS:
        sink(event)
    kept = [event for event in EVENTS if not isinstance(event, TextDelta)]
    assert out.getvalue() == b"".join(encode(event) + b"\n" for event in kept)
    assert [json.loads(line)["type"] for line in out.getvalue().split(b"\n")[:-1]] == [
        "run.started", "plan.created", "step.started", "text",
        "step.finished", "step.started", "step.finished",
    ]  # fmt: skip


def test_pieces_of_text_are_shown_when_asked_for() -> None:
    out = io.BytesIO()
    sink = jsonl(out, partial=True)
    for event in EVENTS:
        sink(event)
    assert b'"text.delta"' in out.getvalue()
    assert out.getvalue().count(b"\n") == len(EVENTS)


def test_a_line_is_out_as_soon_as_it_is_written() -> None:
    raw = io.BytesIO()
    with io.BufferedWriter(raw) as buffered:
        jsonl(buffered)(EVENTS[0])
        assert raw.getvalue().endswith(b"\n")


def test_a_result_says_it_all_in_the_names_that_scripts_read() -> None:
    denied = PermissionDecided(
        step="b", tool="bash", rule="bash(rm *)", decision="deny", by="nobody",
        input={"command": "rm x"},
    )  # fmt: skip
    told = result(
        code=5,
        answer="b: cancelled",
        state=State.of(EVENTS),
        session_id="s1",
        num_turns=3,
        duration_ms=1234,
        usage=Usage(input_tokens=1, output_tokens=2, cache_read_input_tokens=3),
        cost_usd=0.25,
        denials=(denied,),
    )
    assert told == {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "result": "b: cancelled",
        "status": "partial",
        "session_id": "s1",
        "run_id": "r1",
        "num_turns": 3,
        "duration_ms": 1234,
        "total_cost_usd": 0.25,
        "usage": {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 0,
        },
        "permission_denials": [{"tool": "bash", "input": {"command": "rm x"}, "step": "b"}],
        "steps": {
            "a": {
                "status": "done",
                "summary": "A",
                "outputs": ["/w/x"],
                "attempts": 2,
                "seconds": 2.25,
            },
            "b": {
                "status": "waiting", "summary": "", "outputs": [], "attempts": 0, "seconds": 0.0,
            },
        },
    }  # fmt: skip
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(
    ("code", "error", "subtype", "status"),
    [
        (0, None, "success", "done"),
        (1, None, "error_during_execution", "failed"),
        (2, PlanError(["x"]), "error_during_execution", "failed"),
        (3, None, "error_during_execution", "failed"),
        (4, BudgetError("x", what="turns"), "error_max_turns", "over-budget"),
        (4, BudgetError("x", what="money"), "error_max_budget_usd", "over-budget"),
        (4, None, "error_max_budget_usd", "over-budget"),
        (5, None, "error_during_execution", "failed"),
        (70, None, "error_during_execution", "failed"),
        (75, None, "error_during_execution", "failed"),
        (124, None, "error_interrupted", "interrupted"),
        (129, None, "error_interrupted", "interrupted"),
        (130, None, "error_interrupted", "interrupted"),
        (143, None, "error_interrupted", "interrupted"),
    ],
)
def test_the_exit_code_decides_what_kind_of_end_it_was(
    code: int, error: AgentError | None, subtype: str, status: str
) -> None:
    told = result(code=code, answer="", error=error)
    assert (told["subtype"], told["status"]) == (subtype, status)
    assert told["is_error"] == (code != 0)
    assert (told["run_id"], told["steps"]) == (None, {})


def test_a_run_that_has_finished_says_its_status_itself() -> None:
    end = RunFinished(
        run="r1", status="partial", answer="", usage=Usage(), cost_usd=None, seconds=1
    )
    told = result(code=143, answer="", state=State.of([*EVENTS, end]), cost_usd=None)
    assert (told["status"], told["total_cost_usd"]) == ("partial", None)


def test_a_failed_step_s_summary_is_how_it_failed() -> None:
    failed = StepFinished(step="b", status="failed", summary="out", error="out\nexit code 1")
    steps = result(code=1, answer="", state=State.of([*EVENTS, failed]))["steps"]
    assert steps["b"]["summary"] == "out\nexit code 1"


def test_an_error_before_the_run_has_the_same_shape_and_says_what_would_help() -> None:
    error = PlanError(["a needs b, which is no step"], where="p.yaml:3")
    told = result(code=2, answer="", error=error)
    assert told["error"] == {
        "code": "bad-plan",
        "message": "p.yaml:3: a needs b, which is no step",
        "hint": "nothing has been run",
    }
    assert "error" not in result(code=1, answer="")


def test_json_acts_on_no_terminal_and_says_the_same() -> None:
    odd = "\x1b[2J \x9b31m \x7f \u202e \u2066 天枢 é \xa0 \U0001f600"
    data = json.dumps(odd, ensure_ascii=False).encode()
    assert json.loads(harmless(data)) == odd
    seen = harmless(data).decode()
    assert not set(seen) & {"\x1b", "\x9b", "\x7f", "\u202e", "\u2066"}
    assert "天枢 é" in seen

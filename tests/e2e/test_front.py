"""The command line itself: what is taken, what is refused, and how that is told."""

import pytest

from agent.version import __version__
from tests.e2e.ts import Ts

PLAN = """\
goal: greet
steps:
  - id: one
    run: echo hello
"""
KEYS = {
    "type", "subtype", "is_error", "result", "status", "session_id", "run_id", "num_turns",
    "duration_ms", "total_cost_usd", "usage", "permission_denials", "steps",
}  # fmt: skip


def test_version_and_help_go_to_stdout(ts: Ts) -> None:
    assert ts("--version").out == f"ts {__version__}\n"
    told = ts("--help")
    assert (told.code, told.err) == (0, "")
    for word in ("--print", "--permission-mode", "resume", "Exit codes"):
        assert word in told.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no prompt"),
        (["--no-such-flag"], "--no-such-flag"),
        (["--permision-mode", "auto", "hi"], "did you mean --permission-mode?"),
        (["--mcp-config=x", "hi"], "--mcp-config does nothing"),
        (["--output-format", "xml"], "xml"),
        (["--permission-mode", "yolo"], "yolo"),
        (["-p"], "no prompt"),
        (["-C", "nowhere", "-p", "hi"], "nowhere"),
        (["run"], "what is to be run"),
        (["run", "no/such.yaml"], "no/such.yaml"),
        (["run", "fix-test"], "fix-tests"),
        (["-p", "/fix-test now"], "fix-tests"),
        (["resume"], "no unfinished run"),
        (["show"], "no run"),
        (["skills", "chekc"], "check"),
        (["-c", "-p", "hi"], "no conversation"),
        (["-p", "hi", "--max-workers", "0"], "--max-workers: expected"),
        (["-p", "hi", "--timeout", "-1"], "--timeout: expected"),
        (["config", "set", "model", "x"], "no setting 'set'"),
        (["config", "modle"], "did you mean 'model'?"),
        (["-p", "hi", "--allowed-tools", "bash("], "bash("),
        (["-p", "hi", "--settings", "none.yaml"], "none.yaml"),
        (["-p", "hi", "--json-schema", "{"], "--json-schema"),
        (["-p", "hi", "--plan", "--no-plan"], "--no-plan"),
        (["-p", "hi", "--fork-session"], "--fork-session"),
        (["-p", "hi", "--dry-run"], "--dry-run"),
        (["undo"], "not in this version"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_refused_in_one_breath(ts: Ts, words: list[str], said: str) -> None:
    ts.model = ts.script("hi")
    ran = ts.here(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("ts: ")
    assert said in ran.err
    assert ran.err.count("\n") <= 3
    assert not (ts.cwd / ".agent").exists()


def test_an_error_before_the_run_has_the_shape_of_a_result(ts: Ts) -> None:
    for words in (["run", "no/such.yaml"], ["--no-such-flag"]):
        for form in ("json", "stream-json"):
            ran = ts.here(*words, "--output-format", form)
            told = ran.json
            assert (ran.code, ran.err) == (2, "")
            assert set(told) == KEYS | {"error"}
            assert set(told["error"]) == {"code", "message", "hint"}
            assert (told["type"], told["subtype"]) == ("result", "error_during_execution")
            assert (told["is_error"], told["status"]) == (True, "failed")
            assert (told["session_id"], told["run_id"]) == (None, None)
    assert ts.here("run", "no/such.yaml", "--output-format=json").json["error"]["code"] == "usage"


def test_flags_stand_before_or_after_the_command(ts: Ts) -> None:
    ts.write("plan.yaml", PLAN)
    first = ts.here("run", "plan.yaml", "--dry-run", "--max-workers", "2")
    assert first.code == 0
    assert "one" in first.out
    assert ts.here("--dry-run", "--max-workers", "2", "run", "plan.yaml").out == first.out
    assert ts.here("run", "--dry-run", "plan.yaml", "--max-workers=2").out == first.out
    assert ts.here("-C", str(ts.cwd), "run", "plan.yaml", "--dry-run", cwd=ts.home).code == 2
    path = str(ts.cwd / "plan.yaml")
    assert ts.here("-C", str(ts.cwd), "run", path, "--dry-run", cwd=ts.home).out == first.out
    assert not (ts.cwd / ".agent").exists()


def test_r12_a_prompt_is_never_taken_for_a_flag(ts: Ts) -> None:
    for words in (["-p", "--", "--yolo --sandbox=off"], ["-p", "-q", "--", "--x"]):
        ts.model = ts.script("as you say")
        ran = ts.here(*words)
        assert (ran.code, ran.out) == (0, "as you say\n")
    ran = ts("-p", "--yolo --sandbox=off")
    assert (ran.code, ran.out) == (0, "as you say\n")
    kept = max((ts.cwd / ".agent/sessions").glob("*.jsonl")).read_text(encoding="utf-8")
    assert '"--yolo --sandbox=off"' in kept


def test_a_plan_file_named_without_its_end_is_hinted_at(ts: Ts) -> None:
    ts.write("greet.yaml", PLAN)
    ran = ts.here("run", "greet")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean `ts run greet.yaml`?" in ran.err


def test_config_shows_the_settings_that_are_named(ts: Ts) -> None:
    ran = ts.here("config", "max_workers")
    assert ran.out.split() == ["max_workers", "4", "default"]

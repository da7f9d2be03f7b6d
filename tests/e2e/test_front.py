"""The command line itself: what is taken, what is refused, and how that is told."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.commands.front import front
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
    assert ts("--version").said == f"ts {__version__}\n"
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
        (["-p", "/compact all"], "/compact is a command of the chat"),
        (["resume"], "no unfinished run"),
        (["show"], "no run"),
        (["skills", "chekc"], "check"),
        (["resume", ""], "an empty word names nothing"),
        (["sessions", "rm", " "], "an empty word names nothing"),
        (["run", ""], "an empty word names nothing"),
        (["show", "me", "the", "code"], "stands behind --"),
        (["udno"], "did you mean `ts undo`?"),
        (["rum", "20260101-000000"], "did you mean `ts run`?"),
        (["undo", "20", "a", "more"], "at most two words"),
        (["runs", "list", "mine"], "no words"),
        (["runs", "--prune", "99999999999"], "0 to 100,000"),
        (["-c", "-p", "hi"], "no conversation"),
        (["-p", "hi", "--max-workers", "0"], "--max-workers: expected"),
        (["-p", "hi", "--timeout", "-1"], "--timeout: expected"),
        (["config", "set", "modle", "x"], "did you mean 'model'?"),
        (["config", "set", "model"], "ts config set KEY VALUE"),
        (["config", "get", "model", "x"], "takes one word more"),
        (["config", "--project"], "--project belongs to"),
        (["config", "modle"], "did you mean 'model'?"),
        (["-p", "hi", "--allowed-tools", "bash("], "bash("),
        (["-p", "hi", "--settings", "none.yaml"], "none.yaml"),
        (["-p", "hi", "--add-dir", "nowhere"], "nowhere"),
        (["-p", "hi", "--json-schema", "{"], "--json-schema"),
        (["-p", "hi", "--plan", "--no-plan"], "--no-plan"),
        (["-p", "hi", "--fork-session"], "--fork-session"),
        (["-p", "hi", "--dry-run"], "--dry-run"),
        (["mcp"], "not in this version"),
        (["-p", "hi", "--sandbox", "maybe"], "--sandbox"),
        (["-p", "hi", "--isolation", "worktree"], "--isolation worktree"),
        (["-p", "hi", "--executor", "dask"], "--executor dask"),
        (["-p", "hi", "--private"], "--private"),
        (["-p", "hi", "--mcp-config", "x"], "--mcp-config"),
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
    assert ts.here("--dry-run", "--max-workers", "2", "run", "plan.yaml").said == first.out
    assert ts.here("run", "--dry-run", "plan.yaml", "--max-workers=2").said == first.out
    there = ("-C", "../project", "--max-workers", "2")
    assert ts.here(*there, "run", "plan.yaml", "--dry-run", cwd=ts.home).said == first.out
    assert ts.here("run", "./plan.yaml", "--dry-run", *there, cwd=ts.home).said == first.out
    assert not (ts.cwd / ".agent").exists()


def test_r12_a_prompt_is_never_taken_for_a_flag(ts: Ts) -> None:
    for words in (
        ["-p", "--", "--yolo --sandbox=off"],
        ["-p", "-q", "--", "--x"],
        ["--", "runs"],
        ["-p", "--", "runs"],
    ):
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


def test_r109_a_fault_of_ours_is_one_line_and_a_file_that_only_the_user_reads(
    ts: Ts, capfd: pytest.CaptureFixture[str]
) -> None:
    def parse(words: Sequence[str]) -> argparse.Namespace:
        raise ZeroDivisionError(f"by {words}")

    assert front(["-p", "hi"], parse) == 70
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 2)
    assert err.startswith("ts: a fault of ts itself: ZeroDivisionError")
    details = Path(err.rpartition("details: ")[2].strip())
    assert "ZeroDivisionError: by ['-p', 'hi']" in details.read_text(encoding="utf-8")
    assert details.stat().st_mode & 0o777 == 0o600
    details.unlink()
    assert front(["--output-format", "json"], parse) == 70
    told = json.loads(capfd.readouterr().out)
    assert (told["is_error"], told["error"]["code"]) == (True, "fault")
    Path(told["error"]["hint"].rpartition("details: ")[2]).unlink()


def test_what_has_run_is_listed_and_told_in_words_and_in_json(ts: Ts) -> None:
    ts.write("plan.yaml", PLAN)
    assert "no runs" in ts.here("runs").said
    id = ts.here("run", "plan.yaml", "--output-format", "json").json["run_id"]
    ts.write("plan.yaml", "goal: fail\nsteps: [{id: two, run: exit 1}]")
    assert ts.here("run", "plan.yaml").code == 1
    newest, oldest = map(json.loads, ts.here("runs", "--json").said.splitlines())
    assert (newest["goal"], newest["status"]) == ("fail", "failed")
    assert (oldest["run"], oldest["steps"]) == (id, {"one": "done"})
    assert id in ts.here("runs").said
    story = ts.here("show", id)
    assert (story.code, "hello" in story.out) == (0, True)
    assert "fail" in ts.here("show").said
    assert "one" in ts.here("show", id, "--mermaid").said
    assert ts.here("show", id[:20], "--json").json["run"] == id


def test_settings_are_told_with_where_they_came_from_and_keys_without_their_value(ts: Ts) -> None:
    ts.write(".env", "ANTHROPIC_BASE_URL=http://127.0.0.1:9\nMISTRAL_API_KEY=sk-from-file\n")
    ts.env["ANTHROPIC_API_KEY"] = "sk-canary"
    ran = ts.here("config", "--json", "--max-workers", "7", "--model", "compat/x")
    told = ran.json
    assert told["max_workers"] == {"value": 7, "origin": "flags"}
    assert told["permission_mode"] == {"value": "default", "origin": "default"}
    assert told["ANTHROPIC_API_KEY"] == {"value": "set", "origin": "environment"}
    assert "ANTHROPIC_BASE_URL" not in told
    text = ts.here("config")
    assert "ANTHROPIC_BASE_URL" in text.err
    assert not any(secret in ran.out + text.out for secret in ("sk-canary", "sk-from-file"))

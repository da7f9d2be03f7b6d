"""Disks that take no more, at the front door. Limits on the size of files (RLIMIT_FSIZE) need no
other program; a disk that is really full or read-only needs bubblewrap."""

import json
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from tests.e2e.ts import MAIN, Ran, Ts, call, calling

PLAN = """\
goal: fill it
steps:
  - {id: one, run: echo first, writes: []}
  - {id: waits, needs: [one], run: 'echo > began; until [ -e go ]; do sleep 0.05; done', writes: []}
  - {id: fills, needs: [one], run: 'sleep 0.3; seq 1 9000', writes: []}
  - {id: after, needs: [fills], run: echo last}
"""


def under(ts: Ts, wrapper: Sequence[str], *words: str) -> Ran:
    """ts, started by another program that limits what it may do.

    Python writes no bytecode then: half a file of it would break every later start.
    """
    env = ts.environment({"PYTHONDONTWRITEBYTECODE": "1"})
    ran = subprocess.run(
        [*wrapper, *MAIN, *words], cwd=ts.cwd, env=env, check=False, timeout=60,
        capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return Ran(ran.returncode, ran.stdout, ran.stderr.decode())


def limited(blocks: int) -> list[str]:
    """No file grows beyond so many KiB."""
    return ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "ts"]


def bubbles(*options: str) -> list[str]:
    return ["bwrap", "--dev-bind", "/", "/", *options]


def usable() -> bool:
    if not shutil.which("bwrap"):
        return False
    return subprocess.run(bubbles("true"), check=False, capture_output=True).returncode == 0


bubblewrap = pytest.mark.skipif(not usable(), reason="bubblewrap is missing, or may not be used")


def test_r96_a_run_whose_log_takes_no_more_stops_and_can_be_gone_on_with(ts: Ts) -> None:
    ts.write("plan.yaml", PLAN)
    ran = under(ts, limited(16), "run", "plan.yaml")
    assert (ran.code, ran.out) == (1, "")
    told = ran.err.splitlines()[-2:]
    assert told[0].endswith("jsonl: File too large")
    assert "`ulimit -f`" in told[1]
    assert "`ts resume 2" in told[1]
    assert "fills done" not in ran.err
    assert ts.running() == {}, "what was running has been ended"
    before = ts.log()
    finished = [event["step"] for event in before if event["type"] == "step.finished"]
    assert finished == ["one"]
    ts.write("go", "")
    again = ts.here("resume", "--output-format", "json")
    assert (again.code, again.json["status"]) == (0, "done")
    after = ts.log()
    assert after[: len(before)] == before
    begun = [event["step"] for event in after if event["type"] == "step.started"]
    assert begun.count("one") == 1


@bubblewrap
def test_r96_a_full_disk_stops_a_run_with_what_helps(ts: Ts) -> None:
    ts.write("plan.yaml", PLAN)
    (ts.cwd / ".agent").mkdir()
    small = bubbles("--size", "65536", "--tmpfs", str(ts.cwd / ".agent"), "--chdir", str(ts.cwd))
    ran = under(ts, small, "run", "plan.yaml", "--output-format", "json")
    assert (ran.code, ran.json["subtype"]) == (1, "error_during_execution")
    assert "No space left on device" in ran.json["error"]["message"]
    assert "free some space" in ran.json["error"]["hint"]
    assert "Traceback" not in ran.err


@bubblewrap
def test_r96_a_read_only_folder_stops_a_run_before_anything_is_done(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: touch made}]")
    (ts.cwd / ".agent").mkdir()
    sealed = bubbles("--ro-bind", *[str(ts.cwd / ".agent")] * 2, "--chdir", str(ts.cwd))
    ran = under(ts, sealed, "run", "plan.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert "Read-only file system" in ran.err
    assert not (ts.cwd / "made").exists()


@bubblewrap
def test_a_conversation_that_can_t_be_saved_goes_on_and_says_so_once(ts: Ts) -> None:
    (ts.cwd / ".agent").mkdir()
    sealed = bubbles("--ro-bind", *[str(ts.cwd / ".agent")] * 2, "--chdir", str(ts.cwd))
    ts.model = ts.script(
        calling(call("bash", command="echo hi > made")),
        calling(call("save_memory", note="it can't be kept")),
        "done all the same",
    )
    ran = under(ts, sealed, "-p", "go", "-y", "--output-format", "stream-json")
    assert (ran.code, ran.events[-1]["result"]) == (0, "done all the same")
    said = [event["text"] for event in ran.events if event["type"] == "notice"]
    assert [text for text in said if "not saved" in text] == [
        f"{ts.cwd}/.agent/sessions: Read-only file system; "
        "this conversation goes on, but is not saved"
    ]
    results = {event["name"]: event for event in ran.events if event["type"] == "tool.finished"}
    assert results["bash"]["ok"]
    assert not results["save_memory"]["ok"]
    assert "Read-only file system" in results["save_memory"]["output"]


def test_what_a_disk_refused_of_a_conversation_is_said_and_the_answer_is_given(ts: Ts) -> None:
    ts.model = ts.script("word " * 2000)
    ran = under(ts, limited(4), "-p", "go")
    assert (ran.code, len(ran.out)) == (0, 10_001)
    assert ran.err.count("not saved") == 1
    (kept,) = (ts.cwd / ".agent/sessions").glob("*.jsonl")
    assert all(json.loads(line) for line in kept.read_bytes().splitlines())


def test_r96_too_few_files_may_be_open_is_told_in_a_line(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: echo hi}]")
    for most in (12, 18):
        ran = under(ts, ["bash", "-c", f'ulimit -n {most}; exec "$@"', "ts"], "run", "plan.yaml")
        assert ran.code in (0, 1, 70), ran
        if ran.code:
            assert "Too many open files" in ran.err or "could not be started" in ran.out + ran.err
        assert "Traceback" not in ran.err


def test_r96_a_full_disk_leaves_no_half_of_an_exported_conversation(ts: Ts) -> None:
    assert ts("-p", "go", env={"TS_MODEL": ts.script("word " * 2000)}).code == 0
    ran = under(ts, limited(1), "sessions", "export", "2", "talk.md")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("ts: talk.md: File too large")
    assert not (ts.cwd / "talk.md").exists()

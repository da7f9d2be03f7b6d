"""Going on with a run: what is done stays done, as far as what it left is still there."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.event import FORMAT
from agent.store.log import sealed
from tests.e2e.screen import Screen
from tests.e2e.ts import Ts

PLAN = """\
goal: parts
steps:
  - {id: one, run: 'echo one >> ran; echo 1 > "$TS_WORKSPACE/one.md"; echo 1 > one.txt', writes: [one.txt], outputs: [one.md]}
  - {id: two, run: 'echo two >> ran; mkdir "$TS_WORKSPACE/dir"; echo 2 > "$TS_WORKSPACE/dir/two.md"', writes: [], outputs: [dir]}
  - {id: both, needs: [one, two], run: 'echo both >> ran; cat $TS_OUTPUTS_ONE', writes: []}
  - {id: last, needs: [both, one], run: 'echo last >> ran; cat "$TS_OUTPUTS_ONE"', writes: []}
"""  # noqa: E501


def cut_off(ts: Ts, step: str) -> Path:
    """Let the log of the one run end where a step has begun, as a kill would."""
    (log,) = (ts.cwd / ".agent/runs").glob("*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    begun = [json.loads(line) for line in lines]
    end = next(n for n, each in enumerate(begun)
               if (each["type"], each.get("step")) == ("step.started", step))  # fmt: skip
    log.write_bytes(b"".join(lines[: end + 1]))
    return log


class Halted:
    """A run whose last step was cut off; the others are done."""

    def __init__(self, ts: Ts) -> None:
        self.ts = ts
        ts.write("plan.yaml", PLAN)
        assert ts.here("run", "plan.yaml").code == 0
        assert self.ran == ["both", "last", "one", "two"]
        (ts.cwd / "ran").unlink()
        self.log = cut_off(ts, "last")
        self.place = ts.cwd / ".agent/workspace" / self.log.stem

    @property
    def ran(self) -> list[str]:
        """The steps whose commands have been run since it was halted."""
        path = self.ts.cwd / "ran"
        return sorted(path.read_text(encoding="utf-8").split()) if path.exists() else []

    @property
    def resumed(self) -> dict[str, Any]:
        return next(each for each in reversed(self.ts.log()) if each["type"] == "run.resumed")


@pytest.fixture
def halted(ts: Ts) -> Halted:
    return Halted(ts)


def test_what_is_done_and_as_it_was_is_not_looked_at_again(halted: Halted) -> None:
    ran = halted.ts.here("resume")
    assert (ran.code, ran.out, halted.ran) == (0, "1\n", ["last"])
    assert halted.resumed["again"] == []
    (one,) = [each for each in halted.ts.log() if each.get("step") == "one" and "hashes" in each]
    assert one["hashes"].keys() == {"one.txt", f"{halted.place}/one.md"}


def test_a_step_whose_output_has_vanished_runs_again_and_one_whose_output_changed_does_not(
    halted: Halted,
) -> None:
    (halted.place / "one.md").unlink()
    (halted.place / "dir/two.md").write_text("other", encoding="utf-8")
    ran = halted.ts.here("resume")
    assert (ran.code, ran.out) == (0, "1\n")
    assert halted.ran == ["last", "one"], "what was built on it stays done"
    assert halted.resumed["again"] == ["one"]
    assert "step one: one.md has vanished; it runs again" in ran.err
    assert "step two: dir has changed since; kept as it is" in ran.err
    assert "one is done again" in halted.ts.here("show").said


def test_a_workspace_that_is_no_directory_of_its_own_is_refused(halted: Halted) -> None:
    log, elsewhere = halted.log.read_bytes(), halted.ts.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(halted.place)
    halted.place.symlink_to(elsewhere)
    ran = halted.ts.here("resume")
    assert (ran.code, halted.ran) == (1, [])
    assert "is a symbolic link" in ran.err
    halted.place.unlink()
    halted.place.touch()
    ran = halted.ts.here("resume")
    assert (ran.code, halted.ran) == (1, [])
    assert f"{halted.place} stands where ts keeps a directory of its own" in ran.err
    assert halted.log.read_bytes() == log, "nothing was written"


def test_a_file_of_the_project_that_has_changed_since_is_the_user_s_and_only_verbose_says_so(
    halted: Halted,
) -> None:
    halted.ts.write("one.txt", "the user's")
    ran = halted.ts.here("resume")
    assert (ran.code, halted.ran) == (0, ["last"])
    assert "one.txt" not in ran.err
    assert "changed since: one.txt" in halted.ts.here("show", "-v").said


@pytest.mark.parametrize(
    ("typed", "code", "ran"),
    [("r", 0, ["last", "two"]), ("k", 0, ["last"]), ("x\ns", 130, [])],
)
def test_at_a_terminal_the_user_chooses_what_becomes_of_what_has_changed(
    halted: Halted, typed: str, code: int, ran: list[str]
) -> None:
    shutil.rmtree(halted.place / "dir")
    before = halted.log.read_bytes()
    screen = Screen(halted.ts, "resume")
    screen.sees("step two: dir has vanished")
    for letter in typed.split("\n"):
        screen.sees("which?")
        screen.types(f"{letter}\r")
    screen.child.expect(pexpect.EOF)
    screen.child.close()
    assert screen.child.exitstatus == code
    assert halted.ran == ran
    assert (halted.log.read_bytes() == before) == (code == 130), "nothing is noted of a no"


def test_a_run_whose_directory_was_moved_goes_on_with_its_files_where_they_are_now(
    halted: Halted,
) -> None:
    there = halted.ts.cwd.parent / "moved"
    halted.ts.cwd.rename(there)
    halted.ts.cwd.mkdir()
    ran = halted.ts.here("resume", "-y", cwd=there)
    assert (ran.code, ran.out) == (0, "1\n")
    assert "was begun in" in ran.err
    assert "vanished" not in ran.err


def test_a_directory_that_is_moved_under_a_run_does_not_come_back(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: 'echo > began; [ -e moved ] || sleep 60'}]")
    moved = ts.home / "elsewhere"
    with ts.started("run", "plan.yaml") as process:
        assert ts.there("began")
        ts.cwd.rename(moved)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 130
    assert not ts.cwd.exists()
    (moved / "moved").touch()
    assert ts("resume", "-y", cwd=moved).code == 0


def test_r94_a_log_of_a_newer_format_is_refused_and_left_as_it_is(ts: Ts) -> None:
    runs = ts.cwd / ".agent/runs"
    runs.mkdir(parents=True)
    head = {"time": "2030-01-01T00:00:00.000Z", "run": "r"}
    events: list[dict[str, Any]] = [
        {"type": "run.started", "goal": "g", "cwd": str(ts.cwd), "model": "", "version": "9.0",
         "format": FORMAT + 1},
        {"type": "plan.imagined", "plan": 1},
    ]  # fmt: skip
    lines = [
        sealed(json.dumps({**event, **head, "seq": n}, separators=(",", ":")).encode())
        for n, event in enumerate(events, 1)
    ]
    log = runs / "20300101-000000-0000.jsonl"
    log.write_bytes(b"\n".join(lines) + b"\n")
    before = log.read_bytes()
    ran = ts.here("resume", log.stem)
    assert ran.code == 2
    assert f"newer version of ts (9.0): its log has format {FORMAT + 1}" in ran.err
    assert log.read_bytes() == before
    assert ts.here("show", log.stem).code == 0


ASKING = "goal: g\nsteps: [{id: a, do: x, writes: []}, {id: b, needs: [a], do: y, writes: []}]"


def test_a_model_that_is_not_there_now_is_said_before_anything_is_written(ts: Ts) -> None:
    ts.write("plan.yaml", ASKING)
    assert ts.here("run", "plan.yaml", model=ts.script("A", "B")).code == 0
    log = cut_off(ts, "b")
    before = log.read_bytes()
    ran = ts.here("resume", "--model", "anthropic/none")
    assert ran.code == 3, ran
    assert log.read_bytes() == before
    other = ts.script("B")
    ran = ts.here("resume", "--model", other)
    assert (ran.code, ran.out) == (0, "B\n")
    assert f"and goes on with {other}" in " ".join(ran.err.split())


def test_without_a_model_that_is_set_a_run_goes_on_with_its_own(ts: Ts) -> None:
    ts.write("plan.yaml", ASKING)
    assert ts.here("run", "plan.yaml", "--model", ts.script("A", "B")).code == 0
    cut_off(ts, "b")
    ran = ts.here("resume")
    assert (ran.code, ran.out) == (0, "A\n"), "the script begins anew"
    assert "goes on with" not in ran.err


def test_the_newest_unfinished_run_is_gone_on_with_and_not_one_that_is_under_way(ts: Ts) -> None:
    ts.write("halted.yaml", "steps: [{id: a, run: ':'}]")
    assert ts.here("run", "halted.yaml").code == 0
    cut_off(ts, "a")
    ts.write("slow.yaml", "steps: [{id: a, run: 'echo > began; sleep 60'}]")
    with ts.started("run", "slow.yaml") as process:
        assert ts.there("began")
        ran = ts.here("resume", "--output-format", "json")
        assert (ran.code, ran.json["status"]) == (0, "done")
        busy = ts.here("resume")
        assert (busy.code, str(process.pid) in busy.err) == (2, True)
        listed = ts.here("runs").said.splitlines()
        assert [line.split()[1] for line in listed[1:]] == ["running", "done"]
        process.kill()
        process.wait(10)
    assert "unfinished" in ts.here("runs").said

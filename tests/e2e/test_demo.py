"""`ts demo` as a process: what it does to its folder, what it shows, how it ends."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pexpect
import pyte
import pytest
import yaml

import agent
from agent.cli import main
from agent.event import Event, PlanRevised, StepFinished, StepStarted
from agent.store import log, workspace

ROOT = Path(agent.__file__).parents[1]
SAMPLE, RECORDED = ROOT / "agent/demo/sample", ROOT / "agent/demo/recorded.yaml"
TS = [sys.executable, "-m", "agent.cli", "demo"]
NEEDED = (
    "bash",
    "head",
    "tail",
    "grep",
    "mkdir",
)  # the programs that its commands use, besides Python
STEPS = ["reproduce", "survey", "totals", "columns", "notes", "export", "readme", "suite"]


def quick(place: Path, seconds: float = 0.0) -> str:
    """The recorded model, which answers that soon, as a model's name."""
    replies = yaml.safe_load(RECORDED.read_text(encoding="utf-8"))
    path = place / "quick.json"
    path.write_text(json.dumps([{**each, "seconds": seconds} for each in replies]), "utf-8")
    return f"script/{path}"


def saying(place: Path, *replies: dict[str, Any]) -> str:
    """A model that says this in its chat, as its name."""
    path = place / "replies.json"
    path.write_text(json.dumps([{"for": "chat", **each} for each in replies]), "utf-8")
    return f"script/{path}"


def bash(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "bash", "input": {"command": command}}]}


def environment(place: Path, *programs: str) -> dict[str, str]:
    """An environment with these programs and what the demo needs, a home and nothing else."""
    bin, tmp, home = place / "bin", place / "tmp", place / "home"
    for each in (bin, tmp, home / ".config/tianshu"):
        each.mkdir(parents=True)
    own = home / ".config/tianshu/settings.yaml"
    own.write_text("sandbox: off\n", encoding="utf-8")  # there is no bwrap on that PATH
    for name in (*NEEDED, *programs):
        found = shutil.which(name)
        assert found, f"these tests need {name}"
        (bin / name).symlink_to(found)
    (bin / "python3").symlink_to(Path(sys.executable).resolve())
    return {
        "PATH": str(bin),
        "TMPDIR": str(tmp),
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm-256color",
    }


def ran(
    env: dict[str, str], *words: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TS, *words],
        env=env,
        cwd=cwd or env["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def folders(env: dict[str, str]) -> list[Path]:
    """All that is left in the temporary directory."""
    return sorted(Path(env["TMPDIR"]).iterdir())


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the demo with the recorded model, and what it has left."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def events(self) -> list[Event]:
        (place,) = workspace.runs(self.folder)
        return list(log.read(place.log))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Where there is no git, told as JSON, in a folder of the user's choice."""
    place = tmp_path_factory.mktemp("demo")
    env = environment(place)
    parent = place / "elsewhere"
    parent.mkdir()
    end = ran(env, "--model", quick(place), "--output-format", "json", "-C", str(parent))
    (folder,) = parent.iterdir()
    assert folders(env) == []
    return Done(code=end.returncode, out=end.stdout, err=end.stderr, folder=folder)


def test_the_sample_comes_with_tests_that_fail() -> None:
    end = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"],
        cwd=SAMPLE,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert end.returncode
    assert "Ran 10 tests" in end.stderr
    assert "failures=5" in end.stderr


def test_every_step_of_the_last_plan_ends_done(done: Done) -> None:
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["subtype"], told["status"], told["is_error"]) == ("success", "done", False)
    assert {id: step["status"] for id, step in told["steps"].items()} == dict.fromkeys(
        STEPS, "done"
    )
    assert "Ran 12 tests" in told["result"]


def test_one_step_really_fails_its_check_twice_and_is_replaced_by_two(done: Done) -> None:
    ends = [event for event in done.events if isinstance(event, StepFinished)]
    failed = [event for event in ends if event.status == "failed"]
    assert [event.step for event in failed] == ["csv", "csv"]
    for event in failed:
        assert "its check failed (exit code 1)" in f"{event.error}{event.summary}"
        assert "AssertionError" in f"{event.error}{event.summary}"
    (revision,) = [event for event in done.events if isinstance(event, PlanRevised)]
    assert (revision.step, revision.action) == ("csv", "replace")
    assert "tally/ledger.py" in revision.because
    assert revision.plan
    assert {step.id for step in revision.plan.steps} == set(STEPS)


def test_what_does_not_depend_on_each_other_runs_at_once(done: Done) -> None:
    marks = [
        (type(event).__name__, event.step)
        for event in done.events
        if isinstance(event, StepStarted | StepFinished)
    ]
    for beside in (("reproduce", "survey"), ("totals", "columns", "csv")):
        begun = [marks.index(("StepStarted", id)) for id in beside]
        ended = [marks.index(("StepFinished", id)) for id in beside]
        assert max(begun) < min(ended), f"{beside} were not at work at once"


def test_the_changes_are_in_the_folder_and_nothing_else(done: Done) -> None:
    def names(folder: Path) -> set[str]:
        every = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        hidden = {".git", ".agent", "__pycache__"}
        return {str(path) for path in every if hidden.isdisjoint(path.parts)}

    assert names(done.folder) - names(SAMPLE) == {"tally/export.py", "tests/test_notes.py"}
    assert names(SAMPLE) <= names(done.folder)
    same = {
        name
        for name in names(SAMPLE)
        if (SAMPLE / name).read_bytes() == (done.folder / name).read_bytes()
    }
    changed = {"README.md"} | {
        f"tally/{name}.py" for name in ("__main__", "ledger", "report", "table")
    }
    assert names(SAMPLE) - same == changed
    report = subprocess.run(
        [sys.executable, "-m", "tally", "example.txt"],
        cwd=done.folder,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert report.stdout.splitlines()[1] == "food       23.50"


def test_json_is_alone_on_stdout_and_the_rest_is_told_on_stderr(done: Done) -> None:
    assert done.out.count("\n") == 1
    assert str(done.folder) in done.err
    assert not (done.folder / ".git").exists()
    assert "git diff" not in done.err
    assert "↻ csv is replaced" in done.err
    assert "-from itertools import groupby\n+from collections import Counter\n" in done.err
    assert "--- /dev/null\n+++ b/tally/export.py\n" in done.err
    assert "ts demo --model anthropic/" in done.err
    assert "ANTHROPIC_API_KEY" in done.err


class Screen:
    """A terminal of 100 columns and 60 lines at which someone watches the demo."""

    def __init__(self, env: dict[str, str], *words: str) -> None:
        self.screen = pyte.Screen(100, 60)
        self._stream = pyte.ByteStream(self.screen)
        self._child = pexpect.spawn(
            TS[0], [*TS[1:], *words], env=env, cwd=env["HOME"], dimensions=(60, 100), timeout=50
        )

    def shown(self) -> Iterator[str]:
        """What stands on the screen, again and again until the program has ended."""
        until = monotonic() + 50
        while monotonic() < until:
            try:
                self._stream.feed(self._child.read_nonblocking(65536, 1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                self._child.close()
                return
            yield "\n".join(line.rstrip() for line in self.screen.display)

    def interrupt(self) -> None:
        self._child.sendintr()

    @property
    def code(self) -> int | None:
        return self._child.exitstatus  # type: ignore[no-any-return]


def test_at_a_terminal_the_plan_is_seen_at_work_and_the_tests_pass(tmp_path: Path) -> None:
    env = environment(tmp_path, "git")
    screen = Screen(env, "--model", quick(tmp_path, 0.1))
    seen = list(screen.shown())
    assert screen.code == 0, seen[-1]
    assert any("waits for totals, columns, csv" in each for each in seen)
    assert any("attempt 2 · " in each for each in seen)
    assert any("↻ csv" in each and "the planner is asked" in each for each in seen)
    assert any("waits for notes" in each for each in seen)
    assert any("✓ done in" in each and "8 of 8 steps done" in each for each in seen)
    assert "Ran 12 tests" in seen[-1]
    assert "\nOK\n" in seen[-1]
    (folder,) = folders(env)
    assert f"cd {folder}" in seen[-1].replace("\n", "")  # a long one goes on in the next row
    assert git(folder, "log", "--format=%s") == ["the sample as it comes"]
    assert {"tally/report.py", "tally/export.py"} <= {*git(folder, "diff", "--name-only")}
    assert not [line for line in git(folder, "status", "--porcelain") if line.startswith("?")]


def git(folder: Path, *words: str) -> list[str]:
    """The lines that git prints there."""
    end = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, encoding="utf-8", check=True
    )
    return end.stdout.splitlines()


def test_ctrl_c_ends_it_at_once_and_takes_the_folder_away(tmp_path: Path) -> None:
    env = environment(tmp_path)
    screen = Screen(env)
    last, asked = "", False
    for last in screen.shown():
        if not asked and "waits for readme" in last:
            assert [path.name[:8] for path in folders(env)] == ["ts-demo-"]
            screen.interrupt()
            asked = True
    assert asked
    assert screen.code == 128 + signal.SIGINT, last
    assert "A recorded model answers; nothing is sent anywhere." in last
    assert "⊘ interrupted" in last
    assert "ts resume" not in last
    assert "the demo's folder is removed" in last
    assert folders(env) == []


def test_a_model_that_changes_the_tests_does_not_pass_them(tmp_path: Path) -> None:
    env = environment(tmp_path)
    model = saying(tmp_path, bash("for f in tests/test_*.py; do : > $f; done"), {"text": "Done."})
    end = ran(env, "--model", model, "-q")
    assert end.returncode == 1
    assert end.stderr == "ts: the sample's own tests do not pass\n"
    answer, _, rest = end.stdout.partition("\nWhat has changed\n")
    assert answer == "Done.\n"
    changes, _, own = rest.partition("The sample's own tests")
    assert "-class Report(unittest.TestCase):" in changes
    assert "Ran 10 tests" in own
    assert len(folders(env)) == 1


def test_a_live_model_is_asked_the_same_and_without_its_key_nothing_is_left(tmp_path: Path) -> None:
    env = environment(tmp_path)
    end = ran(env, "--model", "anthropic/claude-sonnet-5-5", "--output-format", "json")
    assert end.returncode == 3
    told = json.loads(end.stdout)
    assert told["error"]["code"] == "no-model"
    assert "anthropic/claude-sonnet-5-5 answers." in end.stderr
    assert "recorded" not in end.stderr
    assert folders(env) == []


def test_without_a_python3_for_commands_it_says_so(tmp_path: Path) -> None:
    env = environment(tmp_path)
    (tmp_path / "bin/python3").unlink()
    end = ran(env)
    assert end.returncode == 1
    assert "no python3 (3.8 or newer)" in end.stderr
    assert (end.stdout, folders(env)) == ("", [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mend it"], "takes no words"),
        (["-c"], "-c has no meaning"),
        (["-r"], "-r has no meaning"),
        (["--no-plan"], "--no-plan has no meaning"),
        (["-C", "nowhere"], "there is no such directory"),
    ],
)
def test_flags_that_mean_nothing_here_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["demo", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in shown.err


def test_the_recorded_pace_can_be_followed_and_is_soon_over() -> None:
    replies = yaml.safe_load(RECORDED.read_text(encoding="utf-8"))
    assert all(0.3 <= each["seconds"] <= 1 for each in replies)
    beside = {"totals", "columns"}  # while csv is tried
    assert sum(each["seconds"] for each in replies if each["for"] not in beside) < 14
    assert all(each["usage"] == {} for each in replies), "nothing is spent"

"""Taking changes back as a user does: `ts undo` by the front door."""

import signal
import subprocess
from pathlib import Path

import pytest

from agent.store import undo, worked
from agent.store.snapshots import Snapshots
from tests.e2e.screen import chatting
from tests.e2e.ts import Ts, call, calling

PLAN = """\
goal: change things
steps:
  - {id: tool, do: x, writes: [src.py]}
  - {id: command, needs: [tool], run: 'rm old.txt; mkdir made; echo new > made/new.txt'}
  - {id: look, needs: [command], run: cat src.py, writes: []}
"""
EDIT = call("edit_file", path="src.py", old_string="v = 1", new_string="v = 2")
YES = ("-y", "-q")


def git(cwd: Path, *words: str) -> str:
    names = ("-c", "user.name=u", "-c", "user.email=u@h")
    ran = subprocess.run(
        ["git", *names, *words], cwd=cwd, check=True, capture_output=True, encoding="utf-8"
    )
    return ran.stdout


def files(ts: Ts) -> dict[str, str]:
    return {
        str(path.relative_to(ts.cwd)): path.read_text(encoding="utf-8")
        for path in sorted(ts.cwd.rglob("*"))
        if path.is_file() and not {".agent", ".git"} & set(path.relative_to(ts.cwd).parts)
    }


def prepared(ts: Ts) -> dict[str, str]:
    """A project in which a run has changed files; what was there before it."""
    ts.write("src.py", "v = 1\n")
    ts.write("old.txt", "old\n")
    ts.write("plan.yaml", PLAN)
    before = files(ts)
    model = ts.script(calling(EDIT), "done")
    ran = ts.here("run", "plan.yaml", *YES, model=model)
    assert (ran.code, ran.out) == (0, "v = 2\n")
    return before


@pytest.mark.parametrize("versioned", [True, False])
def test_a_run_is_taken_back_with_what_its_commands_did_and_brought_again(
    ts: Ts, versioned: bool
) -> None:
    if versioned:
        git(ts.cwd, "init", "-q")
    before = prepared(ts)
    after = files(ts)
    run = ts.log()[0]["run"]
    ran = ts.here("undo")
    assert ran.code == 5
    assert f"`ts undo {run} -y` does it" in ran.err
    assert [line.split() for line in ran.out.splitlines()[1:]] == [
        ["-", "made/new.txt", "-1", "removed"],
        ["+", "old.txt", "+1", "restored"],
        ["~", "src.py", "+1", "-1", "changed", "back"],
    ]
    assert files(ts) == after
    assert ts.here("undo", "--dry-run", "-v").said.endswith("-v = 2\n+v = 1\n")
    assert files(ts) == after
    ran = ts.here("undo", run, "-y")
    assert ran.code == 0
    assert files(ts) == before
    assert not (ts.cwd / "made").exists()
    again = ran.err.split("`")[1].split()[1:]
    assert ts.here("undo").code == 2
    assert ts.here("undo", run, "-y").code == 0
    assert ts.here(*again, "-y").code == 0
    assert files(ts) == after


def test_a_step_alone_is_taken_back_and_a_script_is_told_all(ts: Ts) -> None:
    before = prepared(ts)
    ts.write("made/new.txt", "the user's\n")
    ran = ts.here("undo", ts.log()[0]["run"], "command", "-y", "--output-format", "json")
    assert ran.code == 1  # one is left, and nobody was asked
    told = ran.json
    assert told.pop("undo").startswith("undo-")
    assert told == {
        "type": "undo",
        "of": f"{ts.log()[0]['run']}#command",
        "changed": [{"path": "old.txt", "what": "restored"}],
        "kept": [{"path": "made/new.txt", "what": "removed", "why": "since"}],
        "failed": [],
    }
    assert files(ts) == before | {"src.py": "v = 2\n", "made/new.txt": "the user's\n"}
    assert ts.here("undo", "nope").code == 2
    assert ts.here("undo", ts.log()[0]["run"], "look").code == 2
    assert ts.here("undo", "a", "b", "c").code == 2


def test_c089_a_chat_is_taken_back_turn_by_turn_and_what_others_made_stays(ts: Ts) -> None:
    ts.write("src.py", "v = 1\n")
    ts.write("data/out.csv", "precious\n")
    ts.write(".gitignore", "*.log\n")
    ts.write("run.log", "precious too\n")
    git(ts.cwd, "init", "-q")
    git(ts.cwd, "add", "src.py")
    git(ts.cwd, "commit", "-q", "-m", "x")
    git(ts.cwd, "add", "data/out.csv")
    start = files(ts)
    own = {name: (ts.cwd / ".git" / name).read_bytes() for name in ("index", "HEAD")}
    model = ts.script(calling(EDIT), "done")
    ran = ts.here("-p", "edit it", "-y", "--output-format", "json", model=model)
    session = ran.json["session_id"]
    ts.write("new.txt", "another program's\n")
    make = call("bash", command="echo made > made.txt; echo more >> run.log")
    assert ts.here("-c", "-p", "make it", "-y", model=ts.script(calling(make), "done")).code == 0
    both = files(ts)

    assert ts.here("undo", "-y").code == 0  # the newest turn
    assert files(ts) == {name: text for name, text in both.items() if name != "made.txt"}
    assert ts.here("undo", "-y").code == 0  # and the one before
    rest = {"new.txt": "another program's\n", "run.log": "precious too\nmore\n"}
    assert files(ts) == start | rest

    for each in [*worked.works(ts.cwd)][:2]:  # both again, and then from the first message on
        assert ts.here("undo", each.id, "-y").code == 0
    assert files(ts) == both
    store = Snapshots(ts.cwd, ts.environment({}))
    first = worked.turns(ts.cwd, session, "1")
    undo.undo(store, undo.preview(store, first))
    assert len(first) == 2
    assert files(ts) == start | rest
    assert own == {name: (ts.cwd / ".git" / name).read_bytes() for name in own}


def test_at_a_terminal_each_file_that_somebody_else_changed_is_asked_about(ts: Ts) -> None:
    before = prepared(ts)
    ts.write("src.py", "v = 3\n")
    ts.write("made/new.txt", "the user's\n")
    with chatting(ts, "undo") as screen:
        screen.sees("left alone, unless you say otherwise")
        screen.sees("put it back?")
        screen.types("y\r")
        screen.sees("made/new.txt: has been changed since")
        screen.types("n\r")
        screen.sees("src.py: has been changed since")
        screen.types("y\r")
        screen.sees("2 files put back, 1 file left alone")
        screen.ended()
    assert files(ts) == before | {"made/new.txt": "the user's\n"}
    with chatting(ts, "undo", next(worked.works(ts.cwd)).id) as screen:
        screen.sees("put them back?")
        screen.types("n\r")
        screen.sees("nothing has been put back")
        screen.ended()
    assert files(ts) == before | {"made/new.txt": "the user's\n"}


def test_what_only_reads_and_a_plain_answer_keep_nothing(ts: Ts) -> None:
    ts.write("a.txt", "a\n")
    ts.write("plan.yaml", "steps: [{id: a, run: cat a.txt, writes: []}]")
    assert ts.here("run", "plan.yaml").code == 0
    read = calling(call("read_file", path="a.txt"), call("list_files"))
    assert ts.here("-p", "hi", model=ts.script(read, "hello")).code == 0
    write = calling(call("write_file", path="b.txt", content="b"))
    assert ts.here("-p", "hi", model=ts.script(write, "not allowed")).code == 5
    assert not (ts.cwd / ".agent/undo").exists()


def test_without_git_a_run_goes_on_and_says_once_that_it_can_not_be_undone(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: echo 1 > a}, {id: b, run: echo 2 > b}]")
    folder = ts.home / "bin"
    folder.mkdir()
    for name in ("bash", "cat"):
        (folder / name).symlink_to(f"/bin/{name}")
    ts.env["PATH"] = str(folder)
    ran = ts.here("run", "plan.yaml")
    assert ran.code == 0
    assert ran.err.count("can't be undone: there is no git") == 1
    assert set(files(ts)) == {"a", "b", "plan.yaml"}
    assert ts.here("undo").code == 2


def test_a_git_that_is_too_old_is_named_as_such(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: echo 1 > a}]")
    old = ts.home / "bin/git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'error: unknown option' >&2; exit 129\n", encoding="utf-8")
    old.chmod(0o755)
    ts.env["PATH"] = f"{old.parent}:/usr/bin:/bin"
    ran = ts.here("run", "plan.yaml")
    assert ran.code == 0
    assert "can't be undone: this git is too old" in ran.err


def test_what_a_killed_run_was_at_is_named_and_what_it_had_done_is_taken_back(ts: Ts) -> None:
    ts.write("plan.yaml", """\
steps:
  - {id: one, run: 'echo 1 > one'}
  - {id: two, needs: [one], run: 'echo 2 > two; sleep 60'}
""")  # fmt: skip
    with ts.started("run", "plan.yaml") as process:
        assert ts.there("two")
        process.send_signal(signal.SIGKILL)
    ran = ts.here("undo", "-y")
    assert ran.code == 0
    assert "two" in ran.out.split("left alone")[1]
    assert set(files(ts)) == {"two", "plan.yaml"}


def test_what_an_interrupted_step_has_changed_is_taken_back_too(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: one, run: 'echo 1 > one; sleep 60'}]")
    with ts.started("run", "plan.yaml") as process:
        assert ts.there("one")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    assert process.returncode == 130
    assert ts.here("undo", "-y").code == 0
    assert set(files(ts)) == {"plan.yaml"}

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.tools.child import after
from agent.tools.child.family import living
from agent.tools.child.survivor import ROOT, Survivor
from tests.unit.processes import children, gone, running

# What stands for ts: it runs a command in a thread, as steps are run, until it is killed.
HOLDER = """
import os, sys
from pathlib import Path
from threading import Event, Thread
from agent.stop import Stop
from agent.tools.child.command import command
from agent.tools.child.survivor import Survivor
heir = Survivor()
cwd = Path.cwd()
env = {"PATH": os.defpath, "TS_TEST": str(cwd)}
def work():
    command(sys.argv[1], cwd=cwd, env=env, stop=Stop(), heir=heir)
    print("over", flush=True)
heir.made(cwd / "kept")
Thread(target=work, daemon=True).start()
Event().wait(60)
"""
WAYS_OUT = """
sleep 60 &
nohup sleep 61 >/dev/null 2>&1 &
setsid sleep 62 &
(setsid sleep 63 &)
setsid bash -c "trap '' TERM INT HUP; sleep 64; sleep 65" &
env -i sleep 66 &
trap '' TERM
echo begun >begun
sleep 67; sleep 68
"""


@contextmanager
def holding(cwd: Path, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a command, once that is under way."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, text],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as holder:
        try:
            until = time.monotonic() + 20
            while not running(str(cwd)) and time.monotonic() < until:
                os.sched_yield()
            yield holder
        finally:
            holder.kill()


def survivors(of: int) -> list[int]:
    """The ids of the survivors that a process has started."""
    found = []
    for id in living():
        try:
            stat = Path(f"/proc/{id}/stat").read_bytes().rpartition(b")")[2].split()
            words = Path(f"/proc/{id}/cmdline").read_bytes()
        except OSError:
            continue
        if int(stat[1]) == of and b"child.after" in words:
            found.append(id)
    return found


linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@linux
def test_r101_a_killed_ts_leaves_no_process_wherever_it_went(tmp_path: Path) -> None:
    with holding(tmp_path, WAYS_OUT) as holder:
        (survivor,) = survivors(holder.pid)
        until = time.monotonic() + 20
        while not (tmp_path / "begun").exists() and time.monotonic() < until:
            os.sched_yield()
        holder.kill()
        holder.wait()
        began = time.monotonic()
        assert gone(survivor, 3)
        assert time.monotonic() - began < 2
    assert running(str(tmp_path)) == {}


@linux
def test_a_command_that_has_only_just_begun_is_ended_too(tmp_path: Path) -> None:
    with holding(tmp_path, "sleep 60") as holder:
        holder.kill()
        holder.wait()
    until = time.monotonic() + 3
    while running(str(tmp_path)) and time.monotonic() < until:
        os.sched_yield()
    assert running(str(tmp_path)) == {}


@linux
def test_a_killed_ts_leaves_nobody_on_its_output(tmp_path: Path) -> None:
    with holding(tmp_path, "sleep 60") as holder:
        holder.kill()
        assert holder.stdout
        began = time.monotonic()
        assert holder.stdout.read() == b""
        assert time.monotonic() - began < 1


@linux
def test_what_ends_the_group_of_ts_does_not_end_its_survivor(tmp_path: Path) -> None:
    with holding(tmp_path, "sleep 60") as holder:
        (survivor,) = survivors(holder.pid)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(survivor, number)
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
        assert gone(survivor, 3)
    assert running(str(tmp_path)) == {}


@linux
def test_a_survivor_that_was_killed_is_replaced_by_one_that_knows_all(tmp_path: Path) -> None:
    before = children()
    heir = Survivor()
    command = subprocess.Popen(["sleep", "60"], env={"TS_CALL": "m1"}, start_new_session=True)
    heir.begun("m1", command.pid)
    (first,) = survivors(os.getpid())
    os.kill(first, signal.SIGKILL)
    assert gone(first)
    heir.begun("m2")
    (second,) = survivors(os.getpid())
    assert second != first
    heir.close()
    assert command.wait(1) == -signal.SIGTERM
    assert children() == before


@linux
def test_without_anything_left_it_ends_at_once_and_was_never_started_without_need() -> None:
    before = children()
    heir = Survivor()
    assert children() == before
    heir.begun("m1")
    heir.ended("m1")
    began = time.monotonic()
    heir.close()
    heir.close()
    assert time.monotonic() - began < 0.2
    assert children() == before


@linux
def test_a_survivor_is_small_and_quickly_begun() -> None:
    heir = Survivor()
    began = time.monotonic()
    heir.begun("m1")
    assert time.monotonic() - began < 0.1  # 1 ms on an idle machine
    bare = [sys.executable, "-I", "-S", "-c", "import os; os.read(0, 1)"]
    with subprocess.Popen(bare, stdin=subprocess.PIPE, env={}) as other:
        (survivor,) = survivors(os.getpid())
        asleep(survivor)
        asleep(other.pid)
        assert rss(survivor) < rss(other.pid) + 3_000  # KiB
    heir.close()


def asleep(id: int) -> None:
    """Wait until a process waits for its input."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if b"pipe" in Path(f"/proc/{id}/wchan").read_bytes():
            return
        os.sched_yield()


def rss(id: int) -> int:
    pages = int(Path(f"/proc/{id}/statm").read_bytes().split()[1])
    return pages * resource.getpagesize() // 1024


def test_r22_temporary_files_of_a_killed_ts_go_and_no_others(tmp_path: Path) -> None:
    place, other, shell = (tmp_path / name for name in ("place", "other", "place/ts-shell-x"))
    for folder in (place, other, shell):
        folder.mkdir()
    shell.chmod(0o700)
    for path in (place / ".ts-1.tmp", shell / "carried", shell / "output-a.txt", other / "mine"):
        path.write_text("x", encoding="utf-8")
    heir = Survivor()
    for path in (place / ".ts-1.tmp", shell, place / "never-made"):
        heir.made(path)
    (place / "link").symlink_to(other)
    heir.made(place / "link")
    heir.close()
    assert [*place.iterdir()] == []
    assert [*other.iterdir()] == [other / "mine"]


def test_r22_a_folder_that_was_exchanged_is_left_alone(tmp_path: Path) -> None:
    place, other = tmp_path / "place", tmp_path / "other"
    for folder in (place, other):
        folder.mkdir()
        (folder / "file").write_text("x", encoding="utf-8")
    heir = Survivor()
    heir.made(place / "file")
    place.rename(tmp_path / "away")
    place.symlink_to(other)
    heir.close()
    assert (other / "file").exists()
    assert (tmp_path / "away/file").exists()


def test_r22_a_shell_s_folder_that_holds_more_than_ours_stays(tmp_path: Path) -> None:
    shell = tmp_path / "ts-shell-x"
    shell.mkdir()
    (shell / "carried").write_text("x", encoding="utf-8")
    (shell / "treasure").write_text("x", encoding="utf-8")
    heir = Survivor()
    heir.made(shell)
    heir.close()
    assert [*shell.iterdir()] == [shell / "treasure"]


def test_what_was_taken_back_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a\nname \udcff"
    heir = Survivor()
    heir.made(path)
    heir.made(tmp_path / "b")
    path.write_text("x", encoding="utf-8")
    heir.removed(path)
    heir.close()
    assert path.exists()


def test_r39_shells_folders_that_nobody_has_any_more_are_swept(tmp_path: Path) -> None:
    hour_ago = time.time() - 3600
    for name in ("stray", "locked", "fresh", "open"):
        folder = tmp_path / f"ts-shell-{name}"
        folder.mkdir(mode=0o755 if name == "open" else 0o700)
        (folder / "carried").write_text("x", encoding="utf-8")
        if name != "fresh":
            os.utime(folder, (hour_ago, hour_ago))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "ts-shell-link").symlink_to(tmp_path / "elsewhere")
    held = os.open(tmp_path / "ts-shell-locked", after.FOLDER)
    fcntl.flock(held, fcntl.LOCK_EX)
    after.sweep(str(tmp_path))
    os.close(held)
    left = {path.name.removeprefix("ts-shell-") for path in tmp_path.iterdir()}
    assert left == {"locked", "fresh", "open", "link", "elsewhere"}
    after.sweep(str(tmp_path / "none"))

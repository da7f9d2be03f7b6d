import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.stop import Stop
from agent.tools.child.command import LIMIT, QUIET, Ran, command, shell
from tests.unit.processes import MARK, children, gone, running

ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    before = children()
    yield
    assert running(str(tmp_path)) == {}
    assert children() == before


def ran(text: str, cwd: Path, stop: Stop | None = None, timeout: float | None = 20) -> Ran:
    env = {**ENV, MARK: str(cwd)}
    return command(text, cwd=cwd, env=env, stop=stop or Stop(), timeout=timeout)


def test_a_command_gives_both_outputs_and_its_code(tmp_path: Path) -> None:
    done = ran("pwd; echo oops >&2; exit 3", tmp_path)
    assert (done.code, done.stdout, done.stderr) == (3, f"{tmp_path}\n", "oops\n")
    assert not done.timed_out
    assert not done.stopped
    assert 0 < done.seconds < 5


def test_a_command_has_its_arguments(tmp_path: Path) -> None:
    args = ("a b", "$x", "")
    done = command('printf "[%s]" "$@"; echo "$2"', cwd=tmp_path, env=ENV, stop=Stop(), args=args)
    assert done.stdout == "[a b][$x][]$x\n"


def test_a_command_ended_by_a_signal_has_the_shell_s_code(tmp_path: Path) -> None:
    assert ran("kill -9 $$", tmp_path).code == 137
    assert ran("sh -c 'kill -15 $$'", tmp_path).code == 143


def test_a_command_sees_the_environment_it_is_given_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    seen = dict(line.split("=", 1) for line in ran("env", tmp_path).stdout.splitlines())
    ours = {"PWD": str(tmp_path), "SHLVL": "1", "_": "/usr/bin/env", "TS_CALL": seen["TS_CALL"]}
    assert seen | {"SHLVL": "1"} == {**ENV, MARK: str(tmp_path), **QUIET, **ours}


def test_c044_a_command_has_no_input_and_no_terminal(tmp_path: Path) -> None:
    done = ran("cat; read x || echo end; tty; (echo </dev/tty) 2>/dev/null || echo none", tmp_path)
    assert done.stdout == "end\nnot a tty\nnone\n"


def test_c044_git_opens_no_editor(tmp_path: Path) -> None:
    done = ran(
        "git init -q . && git config user.email a@b.c && git config user.name n\n"
        "git commit --allow-empty; echo $?; git commit -q --allow-empty -m one; git log --oneline",
        tmp_path,
    )
    assert "empty commit message" in done.stderr
    assert done.stdout.startswith("1\n")
    assert done.stdout.endswith(" one\n")


def test_a_held_pipe_is_not_waited_for_and_its_holder_is_ended(tmp_path: Path) -> None:
    done = ran("sleep 60 & echo $!; setsid sleep 61 >/dev/null 2>&1 & echo $!", tmp_path)
    first, second = map(int, done.stdout.split())
    assert done.code == 0
    assert done.seconds < 1.5
    assert gone(first)
    assert gone(second)


def test_what_is_printed_a_moment_after_the_shell_s_end_is_not_lost(tmp_path: Path) -> None:
    assert ran("seq 1 3 > >(sleep 0.03; cat)", tmp_path).stdout == "1\n2\n3\n"


def test_c043_r102_a_command_that_takes_too_long_is_ended_and_its_output_kept(
    tmp_path: Path,
) -> None:
    done = ran("echo one; echo two >&2; sleep 100", tmp_path, timeout=0.3)
    assert (done.stdout, done.timed_out, done.code) == ("one\n", True, 143)
    assert done.stderr.startswith("two\n")
    assert done.seconds < 1.5


def test_no_process_outlives_a_time_out(tmp_path: Path) -> None:
    script = (
        "trap '' TERM; setsid sleep 50 & env -i setsid sleep 51 & (trap '' TERM; sleep 52) &\n"
        "(setsid nohup sleep 53 >/dev/null 2>&1 &); jobs -p; sleep 54"
    )
    done = ran(script, tmp_path, timeout=0.3)
    assert done.timed_out
    assert done.code == 137
    assert done.seconds < 2
    assert all(gone(int(id)) for id in done.stdout.split())


def test_many_processes_are_ended_at_once(tmp_path: Path) -> None:
    done = ran(
        "for i in $(seq 40); do setsid sleep 60 & done; echo up; wait", tmp_path, timeout=0.5
    )
    assert done.stdout == "up\n"
    assert done.seconds < 2.5


def test_the_stop_flag_ends_a_command_within_a_second(tmp_path: Path) -> None:
    stop = Stop()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    began = time.monotonic()
    done = ran("trap '' TERM; echo begun; sleep 60", tmp_path, stop)
    assert time.monotonic() - began < 1.2
    assert (done.stdout, done.stopped, done.timed_out) == ("begun\n", True, False)
    timer.join()


def test_nothing_is_begun_once_the_flag_is_set(tmp_path: Path) -> None:
    stop = Stop()
    stop.set()
    assert ran("touch made", tmp_path, stop).stopped
    assert not (tmp_path / "made").exists()


def test_long_outputs_lose_their_middle(tmp_path: Path) -> None:
    done = ran("seq 1 200000; seq 1 200000 >&2; echo end", tmp_path)
    for text in (done.stdout, done.stderr):
        assert text.startswith("1\n2\n")
        assert "characters" in text
        assert len(text) < LIMIT + 200
    assert done.stdout.endswith("200000\nend\n")


def test_r70_the_memory_used_does_not_grow_with_the_output(tmp_path: Path) -> None:
    ran("yes | head -c 10000000", tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = ran("yes | head -c 60000000", tmp_path)
    assert done.code == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


def test_outputs_of_any_bytes_are_text(tmp_path: Path) -> None:
    done = ran(r"printf 'ok \360\237 end\0\n'; exit 3", tmp_path)
    assert (done.stdout, done.code) == ("ok \ufffd end\n", 3)


@pytest.mark.parametrize("text", ["echo \0", "echo " + "x" * 200_000, "echo \ud800"])
def test_a_command_that_can_t_be_started_says_why(tmp_path: Path, text: str) -> None:
    done = ran(text, tmp_path)
    assert done.code == 126
    assert done.stderr.startswith("could not be started: ")


def test_a_missing_directory_is_said(tmp_path: Path) -> None:
    done = command("true", cwd=tmp_path / "gone", env=ENV, stop=Stop())
    assert done.code == 126
    assert "gone" in done.stderr


def test_bash_is_never_one_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bash").write_text("#!/bin/sh\necho hostile\n", encoding="utf-8")
    (tmp_path / "bin/bash").chmod(0o755)
    path = f".:{tmp_path}/bin:bin:..{tmp_path}/bin::/usr/bin:/bin"
    assert shell({"PATH": path}, tmp_path) == "/usr/bin/bash"
    assert command("echo fine", cwd=tmp_path, env={"PATH": path}, stop=Stop()).stdout == "fine\n"


def test_a_closed_output_does_not_end_the_wait(tmp_path: Path) -> None:
    done = ran("exec >&- 2>&-; sleep 0.2; exit 5", tmp_path)
    assert done.code == 5
    assert done.seconds >= 0.2


def test_no_descriptor_of_ours_reaches_a_command(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)
        seen = ran("ls /proc/self/fd | wc -l", tmp_path).stdout
    assert int(seen) == 4  # 0, 1, 2 and that of `ls` itself

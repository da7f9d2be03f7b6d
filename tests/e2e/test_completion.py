"""`ts completion`: what is offered, and that real shells offer it."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

import pexpect
import pyte
import pytest

from tests.e2e.ts import MAIN, Ts

RUN, TALK = "20261130-154501-8000", "20261130-160000-aaaa"
INIT = {
    "bash": ("bash", ["--norc", "--noprofile", "-i"], 'eval "$(ts completion bash)"'),
    "zsh": (
        "zsh", ["-f", "-i"],
        'autoload -Uz compinit; compinit -u -D; eval "$(ts completion zsh)"',
    ),
    "fish": ("fish", ["--no-config", "-i"], "ts completion fish | source"),
}  # fmt: skip


def offered(ts: Ts, *words: str, shell: str = "fish") -> tuple[str, list[str]]:
    """What the shell adds, and the words."""
    ran = ts("completion", "words", shell, "--", *words)
    assert (ran.code, ran.err) == (0, "")
    add, *lines = ran.out.splitlines()
    return add, [line.partition("\t")[0] for line in lines]


@pytest.fixture
def kept(ts: Ts) -> Ts:
    """With a run, a conversation, a skill and a name that a shell would run."""
    ts.write(f".agent/runs/{RUN}.jsonl", "")
    ts.write(".agent/runs/$(touch bad).jsonl", "")
    ts.write(f".agent/sessions/{TALK}.jsonl", "")
    ts.write(".agent/skills/own-skill.yaml", "name: own-skill\nsteps: [{id: a, run: ls}]\n")
    ts.write("plan.yaml", "steps: [{id: a, run: ls}]\n")
    return ts


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([""], ["plan", "run", "doctor", "help"]),
        (["ru"], ["run", "runs"]),
        (["--sand"], ["--sandbox"]),
        (["--sandbox", ""], ["auto", "required", "off"]),
        (["--sandbox=r"], ["--sandbox=required"]),
        (["--model", "anth"], ["anthropic/"]),
        (["-q", "show", ""], [RUN]),
        (["runs", "rm", "2"], [RUN]),
        (["sessions", "export", ""], [TALK]),
        (["-r", ""], [TALK]),
        (["run", "own"], ["own-skill"]),
        (["-p", "/own"], ["/own-skill"]),
        (["skills", ""], ["list", "show", "check", "new"]),
        (["config", "sand"], ["sandbox"]),
        (["--max-turns", "3", "completion", ""], ["bash", "zsh", "fish"]),
        (["doctor", "--js"], ["--json"]),
    ],
)
def test_what_may_come_next_is_offered(kept: Ts, words: Sequence[str], found: list[str]) -> None:
    _, said = offered(kept, *words)
    assert set(found) <= set(said)
    assert all(word.startswith(words[-1]) for word in said)


def test_where_a_file_or_directory_belongs_the_shell_offers_its_own(kept: Ts) -> None:
    assert offered(kept, "-C", "") == ("dirs", [])
    assert offered(kept, "--settings", "") == ("files", [])
    assert offered(kept, "plan", "-o", "") == ("files", [])
    assert offered(kept, "run", "zzz") == ("files", [])
    assert offered(kept, "doctor", "") == ("none", [])


def test_bash_takes_a_flag_and_its_value_for_three_words(kept: Ts) -> None:
    assert offered(kept, "--sandbox", "=", "r", shell="bash") == ("none", ["required"])
    assert offered(kept, "--sandbox", "=", shell="bash")[1] == ["auto", "required", "off"]


def test_a_command_offers_its_own_flags_alone(kept: Ts) -> None:
    _, said = offered(kept, "show", "--")
    assert "--mermaid" in said
    assert "--max-workers" not in said


def test_c_a_name_that_a_shell_would_run_is_not_offered(kept: Ts) -> None:
    assert offered(kept, "show", "") == ("none", [RUN])


def test_no_shell_that_is_known_is_a_mistake_with_the_nearest(ts: Ts) -> None:
    ran = ts.here("completion", "zhs")
    assert ran.code == 2
    assert "did you mean 'zsh'?" in ran.err
    assert ts.here("completion").code == 2


@pytest.mark.parametrize("shell", list(INIT))
def test_a_real_shell_completes_where_it_is_installed(kept: Ts, shell: str) -> None:
    program, words, begin = INIT[shell]
    if shutil.which(program) is None:
        pytest.skip(f"{shell} is not installed here")
    place = kept.home / "bin"
    place.mkdir()
    (place / "ts").write_text(f'#!/bin/sh\nexec {sys.executable} {MAIN[1]} "$@"\n', "utf-8")
    (place / "ts").chmod(0o755)
    env = kept.environment({"TERM": "xterm", "TMPDIR": str(kept.home)})  # fish leaves a folder
    env["PATH"] = f"{place}:{env['PATH']}"
    child = pexpect.spawn(
        program, words, cwd=str(kept.cwd), env=env, timeout=20, encoding="utf-8",
        dimensions=(40, 120),
    )  # fmt: skip
    child.delaybeforesend = None
    screen = pyte.Screen(120, 40)
    stream = pyte.Stream(screen)

    def sees(words: str) -> None:
        end = monotonic() + 20
        while not any(words in line for line in screen.display):
            assert monotonic() < end, "\n".join(line.rstrip() for line in screen.display)
            with suppress(pexpect.TIMEOUT):
                stream.feed(child.read_nonblocking(65536, 0.2))

    try:
        child.send(f"{begin}; echo rea''dy\r")
        sees("ready")
        for typed, seen in [
            ("ts doct", "ts doctor "),
            ("ts --sandbox req", "ts --sandbox required"),
            ("ts show 2026", f"ts show {RUN}"),
            ("ts run own", "ts run own-skill"),
            ("ts run pl", "ts run plan.yaml"),
        ]:
            child.send(f"\x15{typed}\t")
            sees(seen)
        child.send("\x15exit\r")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)


@pytest.mark.parametrize("shell", list(INIT))
def test_each_script_is_sound_where_its_shell_is_installed(ts: Ts, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    script = ts.write("script", ts.here("completion", shell).said)
    subprocess.run([shell, "-n", str(script)], check=True, timeout=20)

"""The sandbox of commands through the front door: where it is used, and where there is none."""

import os
import shutil
import signal
import socket
from time import monotonic

import pytest

from tests.e2e.ts import Ts, call, calling

PROGRAMS = ("bash", "git", "python3", "cat", "touch", "mkdir", "sleep", "sh", "env")


@pytest.fixture
def bare(ts: Ts) -> Ts:
    """A user whose PATH has no bwrap, with the usual settings."""
    (ts.home / ".config/tianshu/settings.yaml").unlink()
    bin = ts.home / "bin"
    bin.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name):
            (bin / name).symlink_to(found)
    ts.env["PATH"] = str(bin)
    return ts


REACH = """
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3)
print("REACHED")
"""


def bash(command: str, **more: object) -> dict[str, object]:
    return calling(call("bash", command=command, **more))


def told(ts: Ts, *words: str) -> str:
    """What the model was told of its first call."""
    ran = ts("-p", "go", "--output-format", "stream-json", *words)
    return str(next(each["output"] for each in ran.events if each["type"] == "tool.finished"))


@pytest.mark.parametrize("mode", ["default", "accept-edits", "auto"])
def test_r41_a_command_runs_in_it_by_default_and_is_not_asked_about(boxed: Ts, mode: str) -> None:
    outside = boxed.cwd.parent / "canary"
    line = f'python3 -c \'open("in", "w"); open("{outside}", "w")\''
    boxed.model = boxed.script(bash(line), "done")
    ran = boxed("-p", "go", "--permission-mode", mode)
    assert (ran.code, ran.out) == (0, "done\n"), ran
    assert (boxed.cwd / "in").exists()
    assert not outside.exists()


def test_what_the_sandbox_denied_is_told_to_the_model(boxed: Ts) -> None:
    line = 'python3 -c \'open("/etc/ts-canary", "w")\''
    boxed.model = boxed.script(bash(line), "done")
    assert "sandbox denied: only" in told(boxed, "-y")


def test_default_mode_asks_about_a_file_that_the_line_names(boxed: Ts) -> None:
    boxed.model = boxed.script(bash("echo x > named"), "done")
    ran = boxed("-p", "go")
    assert ran.code == 5
    assert not (boxed.cwd / "named").exists()


def test_what_needs_the_network_is_asked_about_in_every_mode(boxed: Ts) -> None:
    boxed.model = boxed.script(bash("curl -s http://127.0.0.1.nip.io/"), "done")
    assert boxed("-p", "go", "-y").code == 5


def test_a_rule_opens_the_network_for_that_command_alone(boxed: Ts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        boxed.write("net.py", REACH)
        boxed.model = boxed.script(bash(f"curl -m1 h.invalid; python3 net.py {port}"), "done")
        assert "REACHED" in told(boxed, "--allowed-tools", "bash(curl *)", "-y")
        boxed.model = boxed.script(bash(f"python3 net.py {port}"), "done")
        assert "refused" in told(boxed, "--allowed-tools", "bash(curl *)", "-y")


def test_run_and_verify_of_a_plan_run_in_it(boxed: Ts) -> None:
    outside = boxed.cwd.parent / "canary"
    plan = boxed.write(
        "plan.yaml",
        f"steps:\n  - id: a\n    run: echo x > $TS_WORKSPACE/out; touch {outside}; echo $?\n"
        f"    verify: test -e $TS_WORKSPACE/out && ! touch {outside}\n    outputs: [out]\n",
    )
    ran = boxed("run", plan.name)
    assert ran.code == 0, ran
    assert ran.out == "1\n"
    assert not outside.exists()


def test_a_plan_that_is_not_allowed_to_write_elsewhere_says_why_it_failed(boxed: Ts) -> None:
    plan = boxed.write("plan.yaml", "steps:\n  - id: a\n    run: touch /etc/ts-canary\n")
    ran = boxed("run", plan.name)
    assert ran.code == 1
    assert "sandbox denied" in ran.err


def test_plan_mode_lets_what_looks_run_and_nothing_be_written(boxed: Ts) -> None:
    boxed.write("a.txt", "seen\n")
    boxed.model = boxed.script(bash("cat a.txt; git status"), "done")
    assert "seen" in told(boxed, "--permission-mode", "plan")


def test_r50_a_killed_ts_leaves_nothing_running_in_it_and_no_file(boxed: Ts) -> None:
    wild = "(setsid env -i /bin/sleep 61 &) ; trap '' TERM; echo > begun; echo x > begun; sleep 62"
    boxed.model = boxed.script(bash(wild), {"text": "late", "seconds": 20})
    with boxed.started("-p", "go", "-y") as process:
        assert boxed.there("begun")
        process.send_signal(signal.SIGKILL)
        process.wait()
        until = monotonic() + 5
        while boxed.running() and monotonic() < until:
            os.sched_yield()
        assert boxed.running() == {}


def test_r25_a_project_can_not_switch_it_off(boxed: Ts) -> None:
    outside = boxed.cwd.parent / "canary"
    boxed.write(".agent/settings.yaml", "sandbox: off\nprivate: false\n")
    boxed.model = boxed.script(bash(f'python3 -c \'open("{outside}", "w")\''), "done")
    ran = boxed("-p", "go", "-y", "--trust")
    assert "`sandbox: off` is passed over" in ran.err
    assert not outside.exists()


def test_off_is_the_users_word_and_is_shown(boxed: Ts) -> None:
    outside = boxed.cwd.parent / "canary"
    boxed.model = boxed.script(bash(f'python3 -c \'open("{outside}", "w")\''), "done")
    ran = boxed("-p", "go", "-y", "--sandbox", "off")
    assert ran.code == 0
    assert outside.exists()
    assert "the sandbox is off" in ran.err


# -- where there is none --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "accept-edits"])
def test_r42_without_one_all_but_what_looks_is_asked_about(bare: Ts, mode: str) -> None:
    bare.model = bare.script(bash("touch made"), bash("python3 -c 1"), "done")
    ran = bare("-p", "go", "--permission-mode", mode)
    assert ran.code == 5
    assert ran.err.count("there is no sandbox for commands: bwrap is not on PATH") == 1
    assert not (bare.cwd / "made").exists()


def test_r42_without_one_what_looks_still_runs(bare: Ts) -> None:
    bare.write("a.txt", "seen\n")
    bare.model = bare.script(bash("cat a.txt"), "done")
    ran = bare("-p", "go", "-y")
    assert (ran.code, ran.out) == (0, "done\n")


def test_r42_without_one_auto_refuses_commands_and_says_what_mends_it(bare: Ts) -> None:
    bare.model = bare.script(bash("touch made"), bash("touch made"), "done")
    ran = bare("-p", "go", "-y")
    assert ran.code == 5
    assert ran.err.count("there is no sandbox for commands") == 1
    assert "--sandbox off" in ran.err
    assert "apt install bubblewrap" in ran.err
    assert not (bare.cwd / "made").exists()
    bare.model = bare.script(bash("touch made"), "done")
    assert bare("-p", "go", "-y", "--sandbox", "off").code == 0
    assert (bare.cwd / "made").exists()


@pytest.mark.parametrize(
    ("words", "own", "theirs", "runs"),
    [
        ("-y", "", "", False),
        ("--permission-mode auto", "", "", False),
        ("", "permission_mode: auto", "", False),
        ("-y --sandbox auto", "sandbox: off", "", False),
        ("-y --trust", "", "sandbox: off", False),
        ("--sandbox off --trust", "", "permission_mode: auto", False),
        ("--sandbox off", "", "permission_mode: auto", False),
        ("--sandbox off", "", "", False),
        ("-y --sandbox off", "", "", True),
        ("--sandbox off", "permission_mode: auto", "", True),
        ("-y", "sandbox: off", "", True),
    ],
)
def test_r25_without_one_auto_runs_commands_where_the_user_has_said_both_root_or_not(
    bare: Ts, words: str, own: str, theirs: str, runs: bool
) -> None:
    (bare.home / ".config/tianshu/settings.yaml").write_text(own, encoding="utf-8")
    bare.write(".agent/settings.yaml", theirs)
    bare.model = bare.script(bash("touch made"), "done")
    ran = bare.here("-p", "go", *words.split())
    assert ran.code == (0 if runs else 5)
    assert (bare.cwd / "made").exists() is runs


def test_r42_a_plan_that_the_user_named_runs_without_one_and_that_is_said(bare: Ts) -> None:
    bare.write("plan.yaml", "steps:\n  - id: a\n    run: touch made; echo ok\n")
    ran = bare("run", "plan.yaml", "-y")
    assert (ran.code, ran.out) == (0, "ok\n")
    assert "there is no sandbox for commands" in ran.err


@pytest.mark.parametrize("words", [("--sandbox", "required"), ("--private",)])
def test_r51_what_needs_one_does_not_begin_without(bare: Ts, words: tuple[str, ...]) -> None:
    bare.model = bare.script("never asked")
    ran = bare("-p", "go", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"ts: {' '.join(words)}: there is no sandbox for commands: bwrap")
    assert not (bare.cwd / ".agent").exists()


# -- private --------------------------------------------------------------------------------------


def test_private_keeps_all_on_the_machine(boxed: Ts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        boxed.write("net.py", REACH)
        boxed.model = boxed.script(bash(f"curl -m1 h.invalid; python3 net.py {port}"), "done")
        assert "refused" in told(boxed, "--private", "--allowed-tools", "bash(curl *)", "-y")
    boxed.model = boxed.script(calling(call("web_fetch", url="https://example.org/")), "done")
    assert "--private" in told(boxed, "--private", "-y")


@pytest.mark.parametrize(
    ("model", "url"),
    [("anthropic/x", ""), ("openai/x", "https://api.example.org/v1"),
     ("openai/x", "http://127.0.0.1.example.org/v1"), ("openai/x", "http://192.168.0.1/v1")],
)  # fmt: skip
def test_private_refuses_a_model_that_is_elsewhere(boxed: Ts, model: str, url: str) -> None:
    boxed.env |= {"ANTHROPIC_API_KEY": "sk-test", "OPENAI_API_KEY": "sk-test"}
    if url:
        boxed.env["OPENAI_BASE_URL"] = url
    ran = boxed("-p", "go", "--private", "--model", model)
    assert (ran.code, ran.out) == (2, "")
    assert "is not asked on this machine" in ran.err

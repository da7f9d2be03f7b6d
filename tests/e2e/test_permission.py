"""What may be done without being asked, by mode and by rule, where nobody can be asked."""

import shutil

import pexpect
import pytest

from tests.e2e.ts import MAIN, Ts, call, calling

WRITE = call("write_file", path="a.txt", content="a\n")
RUN = call("bash", command="touch b.txt")
READ = call("list_files")


def attempt(ts: Ts, *words: str) -> tuple[int, set[str]]:
    """The exit code, and which of the two files were made."""
    for name in ("a.txt", "b.txt"):
        (ts.cwd / name).unlink(missing_ok=True)
    model = ts.script(calling(READ, WRITE, RUN), "that is all")
    ran = ts.here("-p", "do", *words, model=model)
    assert ran.out == "that is all\n"
    assert ("there is nobody to ask" in ran.err) == (ran.code == 5)
    return ran.code, {path.stem for path in ts.cwd.glob("*.txt")}


@pytest.mark.parametrize(
    ("words", "code", "made"),
    [
        ([], 5, ""),
        (["--permission-mode", "default"], 5, ""),
        (["--permission-mode", "accept-edits"], 0, "ab"),
        (["--permission-mode", "acceptEdits"], 0, "ab"),
        (["--permission-mode", "auto"], 0, "ab"),
        (["--permission-mode", "bypassPermissions"], 0, "ab"),
        (["-y"], 0, "ab"),
        (["--dangerously-skip-permissions"], 0, "ab"),
        (["--permission-mode", "plan"], 0, ""),
        (["--allowed-tools", "bash(touch *)"], 5, "b"),
        (["--allowedTools", "Bash(touch *), Write"], 0, "ab"),
        (["--allowed-tools", "Edit", "--allowed-tools", "bash"], 0, "ab"),
        (["-y", "--disallowed-tools", "bash(touch *)"], 0, "a"),
        (["-y", "--disallowedTools", "Edit(*.txt)"], 0, ""),
        (["--allowed-tools", "bash", "--disallowed-tools", "bash"], 5, ""),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else "",
)
def test_modes_and_rules_decide_what_is_done(
    ts: Ts, words: list[str], code: int, made: str
) -> None:
    assert attempt(ts, *words) == (code, set(made))


def test_a_refusal_names_the_call_and_the_flags_that_would_allow_it(ts: Ts) -> None:
    ran = ts.here("-p", "do", model=ts.script(calling(RUN), "no"))
    assert ran.code == 5
    assert "touch b.txt" in ran.err
    for flag in ("--permission-mode auto", "--allowed-tools 'edit_file'"):
        assert flag in ran.err


def test_a_step_that_needed_a_permission_fails_at_once_and_is_not_revised(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: x}, {id: b, run: touch c.txt, writes: [c.txt]}]")
    model = ts.script({**calling(RUN), "for": "a"}, {"for": "a", "text": "done anyhow"})
    ran = ts.here("run", "plan.yaml", "--output-format", "json", model=model)
    assert (ran.code, ran.json["num_turns"]) == (5, 2)
    step = ran.json["steps"]["a"]
    assert (step["status"], step["attempts"]) == ("failed", 1)
    assert ran.json["permission_denials"] == [
        {"tool": "bash", "input": {"command": "touch b.txt"}, "step": "a"}
    ]
    assert ran.json["steps"]["b"]["status"] == "done"  # a named file's commands are the user's


def test_the_commands_of_a_models_plan_are_asked_about(ts: Ts) -> None:
    plan = call(
        "submit_plan",
        goal="g",
        steps=[
            {"id": "a", "run": "touch b.txt"},
            {"id": "b", "do": "x", "writes": [], "verify": "touch a.txt"},
        ],
    )
    replies = (calling(plan), {"for": "b", "text": "fine"})
    ran = ts.here("-p", "do", "--output-format", "json", model=ts.script(*replies))
    assert ran.code == 5
    assert {denial["step"] for denial in ran.json["permission_denials"]} == {"a", "b"}
    assert not list(ts.cwd.glob("*.txt"))
    ran = ts.here("-p", "do", "--allowed-tools", "bash(touch *)", model=ts.script(*replies))
    assert (ran.code, {path.stem for path in ts.cwd.glob("*.txt")}) == (0, {"a", "b"})


def test_a_folder_that_is_not_trusted_loosens_nothing(ts: Ts) -> None:
    ts.write(".agent/settings.yaml", "permission_mode: auto\npermissions: {allow: [bash]}\n")
    ts.write(
        ".agent/skills/fix-tests.yaml",
        "name: fix-tests\ndescription: x\nsteps: [{id: a, run: touch b.txt}]\n",
    )
    ts.write(
        ".agent/skills/own.yaml",
        "name: own\ndescription: x\nmatch: [do it]\nsteps: [{id: a, run: touch b.txt}]\n",
    )
    ran = ts.here("-p", "do it", model=ts.script(calling(RUN), "no"))
    assert ran.code == 5
    assert "settings.yaml" in ran.err
    assert ts.here("run", "own").code == 5
    shown = ts.here("skills", "show", "fix-tests").said
    assert "touch b.txt" not in shown
    assert not list(ts.cwd.glob("*.txt"))
    assert ts.here("-p", "do it", "--trust", "-q").code == 0
    assert (ts.cwd / "b.txt").exists()


def test_the_keys_and_the_python_of_ts_itself_do_not_reach_commands_c050(ts: Ts) -> None:
    model = ts.script(calling(call("bash", command="env; command -v python3")), "seen")
    own = {
        "OPENAI_API_KEY": "sk-secret", "MY_TOKEN": "t0ken", "TZ": "Asia/Tokyo",
        "PYTHONPATH": "/user/own",
    }  # fmt: skip
    ran = ts("-p", "look", "-y", "--output-format", "stream-json", env={**own, "TS_MODEL": model})
    output = next(event["output"] for event in ran.events if event["type"] == "tool.finished")
    lines = output.splitlines()
    assert "TZ=Asia/Tokyo" in lines
    for never in ("sk-secret", "t0ken", "VIRTUAL_ENV=", "PYTHONHOME=", "__PYVENV_LAUNCHER__"):
        assert never not in output
    assert "PYTHONPATH=/user/own" in lines
    assert shutil.which("python3", path=ts.environment({})["PATH"]) in lines


def test_a_plan_run_at_a_terminal_asks_who_sits_there(ts: Ts) -> None:
    plan = ts.write("plan.yaml", "goal: g\nsteps:\n  - {id: one, do: Write a.txt, writes: ['*']}\n")
    ts.model = ts.script(calling(WRITE), "written")
    child = pexpect.spawn(
        MAIN[0],
        [*MAIN[1:], "run", plan.name],
        cwd=str(ts.cwd),
        env=ts.environment({"TERM": "xterm"}),
        dimensions=(30, 90),
        timeout=20,
    )
    try:
        child.expect_exact("allow it?")
        assert not (ts.cwd / "a.txt").exists()
        child.sendline("y")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    assert child.exitstatus == 0
    assert (ts.cwd / "a.txt").read_text(encoding="utf-8") == "a\n"

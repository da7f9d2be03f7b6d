"""What may be done without being asked, by mode and by rule, where nobody can be asked."""

import shutil

import pexpect
import pytest

from tests.e2e.screen import chatting
from tests.e2e.ts import MAIN, Ran, Ts, call, calling

SHIFT_TAB = "\x1b[Z"
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


def planned(ts: Ts, *words: str) -> tuple[int, dict[str, str]]:
    """The exit code of a plan whose steps each try one thing, and what came of each: done, asked
    (and nobody was there), refused (by the mode), outside (which no tool writes)."""
    ts.write("frob", "#!/bin/sh\n: > frobbed\n").chmod(0o755)
    ts.write("note.txt", "seen\n")
    ts.write("kept/a", "the user's\n")
    tries = {
        "inside": call("write_file", path="in.txt", content="x\n"),
        "outside": call("write_file", path=str(ts.cwd.parent / "out.txt"), content="x\n"),
        "unknown": call("bash", command="./frob --now"),
        "looks": call("bash", command="cat note.txt"),
        "removes": call("bash", command="rm -rf kept"),
    }
    steps = "".join(f"  - {{id: {step}, do: try it}}\n" for step in tries)
    ts.write("plan.yaml", f"goal: g\nsteps:\n{steps}")
    replies = [({**calling(each), "for": step}, {"for": step, "text": "tried"})
               for step, each in tries.items()]  # fmt: skip
    ts.model = ts.script(*(reply for both in replies for reply in both))
    ran = ts("run", "plan.yaml", "--output-format", "stream-json", *words)
    return ran.code, {step: came(ran, step) for step in tries}


def came(ran: Ran, step: str) -> str:
    events = {event["type"]: event for event in ran.events if event.get("step") == step}
    result, decided = events["tool.finished"], events.get("permission.decided", {})
    by = decided.get("by")
    assert ("permission.asked" in events) == (by == "nobody")
    assert events["step.finished"]["status"] == ("failed" if by == "nobody" else "done")
    assert result["ok"] == (not decided and "outside the working" not in result["output"])
    if by:
        assert decided["decision"] == "deny"
        return {"nobody": "asked", "mode": "refused"}[by]
    return "done" if result["ok"] else "outside"


TRIED = ("inside", "outside", "unknown", "looks", "removes")
UNBOXED = {
    "default": (5, "asked asked asked done asked"),
    "accept-edits": (5, "done outside asked done asked"),
    "plan": (0, "refused refused refused done refused"),
    "auto": (5, "done outside done done asked"),
}
BOXED = {
    "default": (5, "asked asked done done asked"),
    "accept-edits": (5, "done outside done done asked"),
    "plan": (0, "refused refused refused done refused"),
    "auto": (5, "done outside done done asked"),
}


def check_planned(ts: Ts, mode: str, code: int, outcomes: str) -> None:
    assert planned(ts, "--permission-mode", mode) == (
        code,
        dict(zip(TRIED, outcomes.split(), strict=True)),
    )
    assert (ts.cwd / "in.txt").exists() == outcomes.startswith("done")
    assert (ts.cwd / "frobbed").exists() == (outcomes.split()[2] == "done")
    assert (ts.cwd / "kept/a").read_text(encoding="utf-8") == "the user's\n"
    assert not (ts.cwd.parent / "out.txt").exists()


@pytest.mark.parametrize("mode", UNBOXED)
def test_what_a_plan_tries_in_each_mode_without_a_sandbox(ts: Ts, mode: str) -> None:
    check_planned(ts, mode, *UNBOXED[mode])


@pytest.mark.parametrize("mode", BOXED)
def test_what_a_plan_tries_in_each_mode_in_the_sandbox(boxed: Ts, mode: str) -> None:
    check_planned(boxed, mode, *BOXED[mode])


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


def test_r24_steps_that_ask_at_once_each_do_what_they_were_let(ts: Ts) -> None:
    names = [[f"s{step}/{n}.txt" for n in range(5)] for step in range(4)]
    steps = "".join(f"  - {{id: s{n}, do: x, writes: [s{n}/**]}}\n" for n in range(4))
    for step in range(4):
        (ts.cwd / f"s{step}").mkdir()
    ts.write("plan.yaml", f"goal: g\nsteps:\n{steps}")
    ts.model = ts.script(
        *(
            {**calling(call("bash", command=f"touch {name}")), "for": f"s{step}"}
            for step, each in enumerate(names)
            for name in each
        ),
        *({"for": f"s{step}", "text": "tried"} for step in range(4)),
    )
    with chatting(ts, "run", "plan.yaml", TERM="dumb") as screen:
        for _ in range(20):
            screen.child.expect(rb"step s(\d) wants to run a command\s+\S+ touch s(\d)/(\d)\.txt")
            label, step, number = map(int, screen.child.match.groups())
            assert label == step
            screen.child.expect_exact("allow it?")
            screen.child.send("y\r" if (step + number) % 2 else "n\r")
        screen.child.expect(pexpect.EOF)
    let = {name for step, each in enumerate(names) for n, name in enumerate(each) if (step + n) % 2}
    assert {f"{path.parent.name}/{path.name}" for path in ts.cwd.glob("s*/*.txt")} == let
    kinds = [event["type"] for event in ts.log()]
    assert kinds.index("step.finished") > max(
        at for at, kind in enumerate(kinds) if kind == "step.started"
    )


def test_r25_auto_is_shown_in_the_status_line_and_no_key_leads_back_to_it(ts: Ts) -> None:
    ts.model = ts.script("never")
    with chatting(ts, "-y") as screen:
        screen.asked()
        screen.sees("· auto mode")
        for mode in ("default", "accept-edits", "plan", "default"):
            screen.types(SHIFT_TAB)
            screen.sees(f"· {mode} mode")
        screen.says("/mode auto", "there is no mode 'auto'")
        screen.sees("· default mode")
        assert screen.leaves() == 0


def test_r25_the_status_line_shows_a_mode_that_is_the_users(ts: Ts) -> None:
    ts.model = ts.script("never")
    ts.write(".agent/settings.yaml", "permission_mode: auto\n")
    with chatting(ts, "--trust") as screen:
        screen.asked()
        screen.sees("· default mode")
        assert "auto mode" not in screen.text
        assert screen.leaves() == 0
    own = ts.home / ".config/tianshu/settings.yaml"
    own.write_text("permission_mode: auto\n", encoding="utf-8")
    with chatting(ts, "--trust") as screen:
        screen.asked()
        screen.sees("· auto mode")
        assert screen.leaves() == 0

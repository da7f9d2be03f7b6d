"""Plans as the real program carries them out: ends, limits, files, two at once, going on."""

import json
import signal

import pytest

from tests.e2e.ts import Ts, call, calling

FAULTS = """\
goal: broken
steps:
  - id: a
    do: one
    need: [b]
  - id: a
    run: echo
  - id: b
    needs: [c, b2]
    run: echo
  - id: c
    needs: [b]
    run: echo
"""


def test_every_fault_of_a_plan_is_told_with_its_line_before_anything_runs(ts: Ts) -> None:
    ts.write("plan.yaml", FAULTS)
    ran = ts.here("run", "plan.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "plan.yaml:5: " in ran.err
    assert "needs" in ran.err
    ts.write("plan.yaml", FAULTS.replace("    need: [b]\n", ""))
    ran = ts.here("run", "plan.yaml", "--output-format", "json")
    told = ran.json["error"]
    assert (ran.code, told["code"]) == (2, "bad-plan")
    for line in ("plan.yaml:5: ", "plan.yaml:8: "):
        assert line in told["message"]
    assert "b2" in told["message"]
    ts.write("plan.yaml", "steps: [{id: a, needs: [b], run: x}, {id: b, needs: [a], run: x}]")
    assert "a → b → a" in ts.here("run", "plan.yaml").err.replace("b → a → b", "a → b → a")
    ts.write("plan.yaml", "steps: []")
    assert ts.here("run", "plan.yaml").code == 2
    ts.write("plan.yaml", "steps: [{id: a, do: x, writes: [../out]}]")
    assert ts.here("run", "plan.yaml").code == 2
    assert not (ts.cwd / ".agent").exists()


def test_how_a_run_of_commands_ends_is_read_from_its_steps(ts: Ts) -> None:
    ts.write("plan.yaml", """\
goal: ends
steps:
  - {id: good, run: 'echo out; echo err >&2', writes: []}
  - {id: bad, run: 'echo half; exit 3', writes: []}
  - {id: behind, needs: [bad], run: echo never}
  - {id: rescue, when: bad.failed, run: 'printf "saved from $TS_STEP_BAD"'}
  - {id: spared, when: good.failed, run: echo no}
""")  # fmt: skip
    ran = ts.here("run", "plan.yaml", "--output-format", "json")
    assert (ran.code, ran.json["status"], ran.json["subtype"]) == (
        1, "partial", "error_during_execution",
    )  # fmt: skip
    told = {id: (step["status"], step["summary"]) for id, step in ran.json["steps"].items()}
    assert told["good"] == ("done", "out\n")
    assert told["bad"][0] == "failed"
    assert told["behind"] == ("skipped", "skipped: bad failed")
    assert told["rescue"] == ("done", "saved from half\n")
    assert told["spared"][0] == "skipped"
    text = ts.here("run", "plan.yaml")
    assert text.code == 1
    assert text.out.startswith("out\n\nsaved from half\n\nbad: failed: exit code 3\n")
    ts.write("plan.yaml", "steps: [{id: a, run: exit 1}]")
    assert ts.here("run", "plan.yaml", "--output-format=json").json["status"] == "failed"
    ts.write("plan.yaml", "steps: [{id: a, run: exit 1, allow_failure: true}, {id: b, run: ':'}]")
    fine = ts.here("run", "plan.yaml", "--output-format=json")
    assert (fine.code, fine.json["status"]) == (0, "done")
    assert fine.json["steps"]["a"]["status"] == "failed"


def test_a_step_is_done_when_its_check_says_so_and_a_revision_mends_the_rest(ts: Ts) -> None:
    ts.write("plan.yaml", """\
goal: write it
steps:
  - {id: write, do: write a, verify: test -e good, writes: [good, bad]}
  - {id: after, needs: [write], run: cat good}
""")  # fmt: skip
    write = call("write_file", path="good", content="yes\n")
    model = ts.script(
        {"for": "write", "text": "it is there"},
        {"for": "write", "text": "now it is"},
        calling(
            call("revise_plan", action="retry", do="write good", because="not there"),
            **{"for": "revise"},
        ),
        calling(write, **{"for": "write"}),
        calling(call("report", status="done", summary="wrote it"), **{"for": "write"}),
    )
    words = ("run", "plan.yaml", "--permission-mode", "acceptEdits", "--output-format", "json")
    ran = ts.here(*words, model=model)
    assert (ran.code, ran.json["result"]) == (0, "yes")
    assert ran.json["steps"]["write"]["attempts"] == 3
    events = ts.log()
    revised = [event for event in events if event["type"] == "plan.revised"]
    assert [(event["step"], event["action"]) for event in revised] == [("write", "retry")]
    assert all(line.endswith("}") for line in map(json.dumps, events))


def test_a_revision_may_use_a_skill(ts: Ts) -> None:
    ts.write(
        ".agent/skills/mend.yaml",
        "name: mend\ndescription: mends\nsteps: [{id: it, run: echo mended}]",
    )
    ts.write("plan.yaml", "steps: [{id: a, do: x, attempts: 1}]")
    model = ts.script(
        calling(call("report", status="failed", summary="no"), **{"for": "a"}),
        calling(
            call(
                "revise_plan", action="replace", because="x", steps=[{"id": "b", "skill": "mend"}]
            ),
            **{"for": "revise"},
        ),
    )
    words = ("run", "plan.yaml", "-y", "--trust", "--output-format", "json")
    ran = ts.here(*words, model=model)
    assert (ran.code, ran.json["result"]) == (0, "mended")


def test_budgets_end_a_run_with_4_and_it_can_be_gone_on_with(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: x}, {id: b, needs: [a], do: y}]")
    usage = {"input_tokens": 60, "output_tokens": 50}
    model = ts.script({"text": "ok", "usage": usage}, {"text": "ok", "usage": usage})
    ran = ts.here(
        "run", "plan.yaml", "--max-tokens-total", "100", "--output-format", "json", model=model
    )
    assert (ran.code, ran.json["status"]) == (4, "over-budget")
    assert ran.json["subtype"] == "error_max_budget_usd"
    assert [step["status"] for step in ran.json["steps"].values()] == ["done", "cancelled"]
    assert ts.log()[-1]["status"] == "over-budget"
    warnings = [event for event in ts.log() if event["type"] == "notice"]
    assert [(event["step"], event["text"]) for event in warnings] == [
        ("a", "110% of the budget is spent")
    ]
    again = ts.here("resume", "--output-format", "json", model=ts.script("ok"))
    assert (again.code, again.json["run_id"]) == (0, ran.json["run_id"])
    begun = [event["step"] for event in ts.log() if event["type"] == "step.started"]
    assert begun == ["a", "b", "b"]
    ran = ts.here("-p", "hi", "--max-budget-usd", "1", model="compat/unknown")
    assert (ran.code, "price" in ran.err) == (2, True)


def test_turns_end_a_chat_with_4_and_fail_a_step(ts: Ts) -> None:
    looks = [calling(call("list_files", pattern=f"*.{n}")) for n in range(4)]
    ran = ts.here(
        "-p", "look", "--max-turns", "2", "--output-format", "json", model=ts.script(*looks)
    )
    assert (ran.code, ran.json["subtype"], ran.json["num_turns"]) == (4, "error_max_turns", 2)
    ts.write("plan.yaml", "steps: [{id: a, do: x, attempts: 1}]")
    gives_up = calling(call("revise_plan", action="abort", because="x"), **{"for": "revise"})
    model = ts.script(gives_up, *looks)
    ran = ts.here("run", "plan.yaml", "--max-turns=2", "--output-format", "json", model=model)
    assert (ran.code, ran.json["status"]) == (1, "failed")
    assert "2 model calls" in ran.json["steps"]["a"]["summary"]


SLOW = """\
goal: slow
steps:
  - {id: first, run: 'echo one', writes: []}
  - id: slow
    needs: [first]
    run: "echo began > began; sleep 60 & sleep 60; wait"
  - {id: last, needs: [slow], run: 'echo three'}
"""
QUICK = SLOW.replace("sleep 60 & sleep 60; wait", ":")


def test_time_that_runs_out_ends_it_with_124_and_nothing_is_left_running(ts: Ts) -> None:
    ts.write("plan.yaml", SLOW)
    ran = ts.here("run", "plan.yaml", "--timeout", "1.5", "--output-format", "json")
    assert (ran.code, ran.json["status"]) == (124, "interrupted")
    assert ran.json["subtype"] == "error_interrupted"
    states = {id: step["status"] for id, step in ran.json["steps"].items()}
    assert states == {"first": "done", "slow": "cancelled", "last": "waiting"}
    assert ts.running() == {}
    chat = ts.here("-p", "hi", "--timeout", "0.2", model=ts.script({"text": "late", "seconds": 20}))
    assert (chat.code, chat.out) == (124, "")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_all_that_runs_and_the_run_can_be_gone_on_with(
    ts: Ts, number: int, code: int
) -> None:
    ts.write("plan.yaml", SLOW)
    with ts.started("run", "plan.yaml", "--output-format", "json") as process:
        assert ts.there("began")
        while sum(what.startswith("sleep") for what in ts.running().values()) < 2:
            assert process.poll() is None
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == code
    told = json.loads(out)
    assert (told["status"], told["subtype"]) == ("interrupted", "error_interrupted")
    assert f"ts resume {told['run_id']}" in told["error"]["hint"]
    assert ts.running() == {}
    assert ts.log()[-1]["status"] == "interrupted"
    if number == signal.SIGINT:
        resumed = ts.here("resume", "--timeout", "0.5", "--output-format", "stream-json")
        assert resumed.code == 124
        assert [event["attempt"] for event in resumed.events if event["type"] == "run.resumed"]
        begun = [event["step"] for event in ts.log() if event["type"] == "step.started"]
        assert begun == ["first", "slow", "slow"]


def test_a_second_signal_ends_it_soon_and_leaves_no_command_behind(ts: Ts) -> None:
    deaf = "trap '' INT TERM HUP; echo > began; for i in {1..60}; do sleep 1; done"
    ts.write("plan.yaml", f'steps: [{{id: a, run: "{deaf}"}}]')
    with ts.started("run", "plan.yaml", "--output-format", "json") as process:
        assert ts.there("began")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode in {130, 143}
        assert ts.running() == {}
    assert ts.log()[-1]["status"] == "interrupted"


def test_two_ts_on_one_run_are_one_too_many(ts: Ts) -> None:
    ts.write("plan.yaml", SLOW)
    with ts.started("run", "plan.yaml") as process:
        assert ts.there("began")
        second = ts.here("resume")
        assert second.code == 2
        assert str(process.pid) in second.err
        assert ts.here("show").code == 0
        assert "slow" in ts.here("show").said
        third = ts.here("run", "plan.yaml", "--timeout", "0.5")  # another run of it may be
        assert third.code == 124
        process.kill()
        process.wait(10)
    assert ts.here("resume", "--timeout", "0.5").code == 124  # the lock has gone with it


def test_what_was_killed_outright_is_gone_on_with_where_it_stood(ts: Ts) -> None:
    ts.write("plan.yaml", SLOW)
    with ts.started("run", "plan.yaml") as process:
        assert ts.there("began")
        process.kill()
        process.wait(10)
    ts.write("plan.yaml", QUICK)
    before = ts.log()
    ts.write("sleep", "#!/bin/sh\n").chmod(0o755)
    ran = ts("resume", "--trust", env={"PATH": f"{ts.cwd}:/usr/bin:/bin"})
    assert (ran.code, ran.out) == (0, "three\n")
    after = ts.log()
    assert after[: len(before)] == before
    begun = [event["step"] for event in after if event["type"] == "step.started"]
    assert begun == ["first", "slow", "slow", "last"]
    assert ts.here("resume").code == 2


def test_the_commands_of_a_run_that_came_with_a_folder_are_nobody_s_word(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: touch made}]")
    assert ts.here("run", "plan.yaml").code == 0
    (log,) = (ts.cwd / ".agent/runs").glob("*.jsonl")
    begun = b"".join(log.read_bytes().splitlines(keepends=True)[:3])
    other = ts.cwd.parent / "cloned"
    (other / ".agent/runs").mkdir(parents=True)
    (other / ".agent/runs" / log.name).write_bytes(begun)
    there = ts.here("resume", cwd=other)
    assert (there.code, (other / "made").exists()) == (5, False)
    assert "was begun in" in there.err
    (ts.cwd / "made").unlink()
    log.write_bytes(begun)
    assert ts.here("resume").code == 0
    assert (ts.cwd / "made").exists()


def test_a_stop_before_anything_has_begun_leaves_no_trace(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: x}]")
    words = ("run", "plan.yaml", "--timeout", "0.000001", "--output-format", "json")
    ran = ts.here(*words, model=ts.script("late"))
    assert (ran.code, ran.json["run_id"]) == (124, None)
    assert not (ts.cwd / ".agent").exists()


def test_a_dry_run_says_what_runs_at_once_and_runs_nothing(ts: Ts) -> None:
    ts.write("plan.yaml", """\
steps:
  - {id: a, run: touch a, writes: [a]}
  - {id: b, run: touch b, writes: [b]}
  - {id: c, needs: [a, b], run: touch c}
""")  # fmt: skip
    ran = ts.here("run", "plan.yaml", "--dry-run")
    assert ran.code == 0
    waves = [line.split()[:2] for line in ran.out.splitlines()[1:4]]
    assert waves == [["1", "a"], ["b", "$"], ["2", "c"]]
    assert not list(ts.cwd.glob("[abc]"))

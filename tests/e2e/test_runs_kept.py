"""The runs of a directory: listed at once however many there are, and deleted only on request."""

import shutil
from pathlib import Path
from time import perf_counter

import pytest

from agent.event import PlanCreated, RunFinished, RunStarted, StepFinished, StepStarted, Text
from agent.message import Usage
from agent.plan import Plan, Step
from agent.store import briefs, log, workspace
from tests.e2e.ts import Ts


def made(ts: Ts, *names: str) -> None:
    for name in names:
        ts.write("plan.yaml", f"goal: {name}\nsteps: [{{id: {name}, run: 'echo {name}'}}]")
        assert ts.here("run", "plan.yaml").code == 0


def runs(ts: Ts) -> list[str]:
    return sorted(path.stem for path in (ts.cwd / ".agent/runs").glob("*.jsonl"))


def test_r72_runs_are_deleted_by_name_with_their_workspaces_and_no_others(ts: Ts) -> None:
    made(ts, "one", "two", "three")
    first, second, third = runs(ts)
    for name in ("none", "", " "):
        assert ts.here("runs", "rm", first, name).code == 2
    assert runs(ts) == [first, second, third], "none is deleted unless all are there"
    ran = ts.here("runs", "rm", first, third, first)
    assert (ran.code, ran.out) == (0, "")
    assert f"deleted 2 runs: {first}, {third}" in ran.err
    assert runs(ts) == [second]
    assert [path.name for path in (ts.cwd / ".agent/workspace").iterdir()] == [second]
    assert not list((ts.cwd / ".agent/runs").glob("*.pid"))
    assert "two" in ts.here("runs").said
    assert ts.here("runs", "rm").code == 2
    assert "did you mean 'list'" in ts.here("runs", "lst").err


def test_a_run_that_is_under_way_is_not_deleted(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: 'echo > began; sleep 60'}]")
    with ts.started("run", "plan.yaml") as process:
        assert ts.there("began")
        (run,) = runs(ts)
        ran = ts.here("runs", "rm", run)
        assert (ran.code, str(process.pid) in ran.err) == (2, True)
        assert ts.here("runs", "--prune", "0").code == 0
        assert runs(ts) == [run]
        assert (ts.cwd / ".agent/workspace" / run).is_dir()
        process.kill()
        process.wait(10)


def test_r72_old_runs_are_deleted_on_request_but_none_that_could_be_gone_on_with(ts: Ts) -> None:
    made(ts, "over", "cut")
    over, cut = runs(ts)
    path = ts.cwd / ".agent/runs" / f"{cut}.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    assert ts.here("runs", "--prune").code == 0
    assert runs(ts) == [over, cut], "they are not old"
    ran = ts.here("runs", "--prune", "0")
    assert ran.code == 0
    assert "left 1 run" in ran.err
    assert runs(ts) == [cut]
    assert ts.here("runs", "rm", cut, "-q").err == ""
    assert "no runs" in ts.here("runs").said
    assert ts.here("show", "--prune").code == 2


def test_five_hundred_runs_are_listed_from_the_ends_of_their_logs(tmp_path: Path) -> None:
    place = workspace.begun(tmp_path)
    plan = Plan(goal="g", steps=(Step(id="a", do="x"), Step(id="b", do="x", attempts=1)))
    with log.Log(place.log) as record:
        record(RunStarted(goal="g", cwd=str(tmp_path), model="m", version="1"))
        record(PlanCreated(plan=plan, source="file"))
        for id in "ab":
            record(StepStarted(step=id, attempt=1))
            for _ in range(150):
                record(Text(step=id, text="x" * 1000))
            record(StepFinished(step=id, status="done" if id == "a" else "failed"))
        cut = place.log.read_bytes()
        record(
            RunFinished(
                status="done", answer="", usage=Usage(), cost_usd=1.5, seconds=1, done=2, steps=2
            )
        )
    for n in range(499):
        shutil.copy(place.log, place.log.with_name(f"2000-{n:03}.jsonl"))
    place.log.with_name("2000-000.jsonl").write_bytes(cut)

    began = perf_counter()
    found = briefs.briefs(tmp_path)
    taken = perf_counter() - began
    began = perf_counter()
    for n in range(1, 51):
        list(log.read(place.log.with_name(f"2000-{n:03}.jsonl")))
    whole = (perf_counter() - began) * 10
    assert taken < whole, "they are not read whole"
    told = {(one.status, one.done, one.steps, one.cost_usd, one.goal) for one in found}
    assert told == {("done", 2, 2, 1.5, "g"), ("unfinished", 1, 2, 0.0, "g")}
    assert len(found) == 500


@pytest.mark.parametrize("end", [b"", b"\n", b"{}\n", b"\xff\xfe\n"])
def test_a_run_whose_log_is_damaged_is_listed_all_the_same(ts: Ts, end: bytes) -> None:
    made(ts, "good")
    (run,) = runs(ts)
    (ts.cwd / ".agent/runs/20000101-000000-0000.jsonl").write_bytes(end)
    lines = ts.here("runs").said.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        [run, "done"],
        ["20000101-000000-0000", "unfinished"],
    ]


def test_a_step_that_removes_what_is_kept_of_runs_does_not_remove_its_own(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: rm -rf .agent}, {id: b, needs: [a], run: echo b}]")
    assert ts("run", "plan.yaml").code == 0
    told = ts.here("show").said
    assert "2 of 2 steps done" in told
    assert "damaged" not in told

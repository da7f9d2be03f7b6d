import json
from datetime import timedelta

from msgspec import structs, to_builtins

from agent.event import RunFinished
from agent.message import Usage
from agent.standing import Brief
from agent.state import State
from agent.views.plain import cells
from agent.views.show import runs, steps, story, summary
from tests.plans import plan
from tests.scenes import BEGAN, RUN, diamond, played


def test_a_story_has_a_head_the_time_of_each_line_and_the_answer() -> None:
    told = list(story(played(plan(a="", b="a"), {"b": ["no"]}), 80))
    assert told == [
        f"run {RUN} · 2026-01-02 03:04 UTC",
        "1s       plan: 2 steps",
        "           a      do a",
        "           b ← a  do b",
        "2s       ▸ a started",
        "4s           a: read_file a.py → 2 lines",
        "6s       ✓ a 2.5s 1.0k tok — a is done",
        "7s       ▸ b started",
        "9s           b: read_file a.py → 2 lines",
        "11s      ✗ b (attempt 1 of 2) 2.5s 1.0k tok — no",
        "12s      ▸ b started again (attempt 2)",
        "14s          b: read_file a.py → 2 lines",
        "16s      ✓ b 2.5s 2.0k tok — b is done",
        "17s      ✓ done in 1m 15s · 2 of 2 steps done · 3.0k tok · $0.03",
        "",
        "b is done",
    ]


def test_a_story_that_breaks_off_says_so() -> None:
    events = list(played(diamond()))[:8]
    told = [line.strip() for line in story(events, 80)]
    assert told[-2:] == ["the log ends here: 1 of 4 steps done", f"`ts resume {RUN}` goes on"]
    told = [line.strip() for line in story(events, 80, live=True)]
    assert told[-1] == "it is under way: 1 of 4 steps done"
    assert list(story([], 80)) == []


def test_a_story_of_what_can_be_gone_on_with_says_how() -> None:
    whole = list(played(diamond()))
    end = whole[-1]
    assert isinstance(end, RunFinished)
    told = list(story([*whole[:-1], structs.replace(end, status="interrupted", answer="")], 80))
    assert told[-1].strip() == f"`ts resume {RUN}` goes on"
    assert not any("goes on" in line for line in story(whole, 80))


def test_whoever_asks_for_the_steps_of_a_run_that_has_begun_none_yet_is_told_so() -> None:
    assert list(steps(State(), 80, live=True)) == ["no step has begun yet"]
    assert list(steps(State(), 80)) == []


def test_a_story_fits_its_width() -> None:
    told = list(story(played(diamond(), {"fix": ["x" * 300]}), 40))
    assert max(map(cells, told)) <= 40


def test_a_summary_is_one_json_object() -> None:
    told = summary(played(diamond(), {"fix": ["a", "b"]}))
    assert json.loads(json.dumps(told)) == told
    assert (told["run"], told["status"], told["revisions"]) == (RUN, "partial", 1)
    assert told["steps"]["fix"] == {
        "status": "failed",
        "summary": "b",
        "outputs": [],
        "attempts": 2,
        "seconds": 2.5,
        "reused": False,
        "usage": to_builtins(Usage(input_tokens=2000, output_tokens=20)),
        "cost_usd": 0.02,
        "needs": ["look"],
    }
    assert summary(list(played(diamond()))[:8])["status"] == "unfinished"


def test_a_table_of_runs_lists_how_each_stands() -> None:
    began = BEGAN.isoformat()
    part = Brief(
        run="r2", status="running", began=began, done=1, steps=4, cost_usd=0.01, goal="Mend it"
    )
    listed = [
        Brief(run="r1", status="partial", began=began, done=4, steps=4, cost_usd=None, goal="Do"),
        part,
        structs.replace(part, run="r3", status="unfinished"),
        Brief(run="r4"),
    ]
    table = list(runs(listed, BEGAN + timedelta(hours=3), 60))
    assert table == [
        "RUN  STATE        AGE     STEPS  COST   GOAL",
        "r1   partly done  3h ago  4/4    ?      Do",
        "r2   running      3h ago  1/4    $0.01  Mend it",
        "r3   unfinished   3h ago  1/4    $0.01  Mend it",
        "r4   unfinished   ?       0/0    $0",
    ]
    assert max(map(cells, runs(listed, BEGAN, 30))) <= 30
    assert list(runs([], BEGAN, 80)) == ["no runs in this directory yet"]


def test_a_table_of_steps_tells_what_each_took_and_left() -> None:
    state = State.of(played(diamond(), {"fix": ["a", "b"]}))
    state.outputs["docs"] = (f"{state.cwd}/.agent/workspace/{state.run}/docs/a.md", "/else/b.md")
    state.reused.add("look")
    assert list(steps(state, 90)) == [
        "",
        "STEP  STATE   TRIES  TIME  TOKENS  COST   FILES",
        "look  reused  1            1.0k    $0.01",
        "fix   failed  2      2.5s  2.0k    $0.02",
        "docs  done    1      2.5s  1.0k    $0.01  docs/a.md /else/b.md",
    ]
    assert max(map(cells, steps(state, 30))) <= 30
    assert list(steps(State(), 80)) == []

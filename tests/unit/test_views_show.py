import json
from datetime import timedelta

from agent.state import State
from agent.views.plain import cells
from agent.views.show import Listed, runs, story, summary
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
    assert list(story(events, 80))[-1].strip() == "the log ends here: 1 of 4 steps done"
    assert list(story([], 80)) == []


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
        "needs": ["look"],
    }
    assert summary(list(played(diamond()))[:8])["status"] == "unfinished"


def test_a_table_of_runs_lists_how_each_stands() -> None:
    whole, part = State.of(played(diamond())), State.of(list(played(diamond()))[:8])
    listed = [
        Listed(run="r1", state=whole),
        Listed(run="r2", state=part, live=True),
        Listed(run="r3", state=part),
        Listed(run="r4", state=State()),
    ]
    table = list(runs(listed, BEGAN + timedelta(hours=3), 60))
    assert table == [
        "RUN  STATE       AGE     STEPS  COST   GOAL",
        "r1   done        3h ago  4/4    $0.04  Mend the parser",
        "r2   running     3h ago  1/4    $0.01  Mend the parser",
        "r3   unfinished  3h ago  1/4    $0.01  Mend the parser",
        "r4   unfinished  ?       0/0    $0",
    ]
    assert max(map(cells, runs(listed, BEGAN, 30))) <= 30
    assert list(runs([], BEGAN, 80)) == ["no runs in this directory yet"]

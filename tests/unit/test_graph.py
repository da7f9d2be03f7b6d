import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import agent
from agent.plan import Plan, Step
from agent.state import State
from agent.views.graph import (
    at_once,
    besides,
    critical_path,
    dry_run,
    mermaid,
    reduced,
    waits,
    waves,
)
from agent.views.plain import cells
from tests.plans import plan
from tests.scenes import diamond, fan, played


def ids(plan: Plan, workers: int) -> list[list[str]]:
    return [[step.id for step in wave] for wave in waves(plan, workers)]


def test_waves_are_what_runs_at_once() -> None:
    assert ids(diamond(), 4) == [["look"], ["fix", "docs"], ["report"]]
    assert ids(diamond(), 1) == [["look"], ["fix"], ["docs"], ["report"]]
    assert [len(wave) for wave in waves(fan(10), 4)] == [1, 4, 4, 2, 1]
    assert at_once(fan(10)) == 10


def test_writers_of_the_same_come_one_after_the_other_and_that_is_said() -> None:
    writers = Plan(
        goal="g",
        steps=(
            Step(id="api", do="x", writes=("src/api/**",)),
            Step(id="all", do="x", writes=("src/**",)),
            Step(id="read", do="x", reads=("src/api/a.py",), writes=()),
            Step(id="any", do="x"),
        ),
    )
    assert [sorted(wave) for wave in ids(writers, 4)] == [["api"], ["all"], ["any", "read"]]
    shown = dry_run(writers, 4, 80)
    assert "all comes after api: both write src/**" in shown
    assert "read comes after all: it reads src/api/a.py, which all writes" in shown
    assert "any comes after all: any may write anything; `writes` would tell" in shown


def test_what_only_one_may_hold_is_held_by_one() -> None:
    steps = tuple(Step(id=id, do="x", writes=(), exclusive=("port",)) for id in "abc")
    assert ids(Plan(steps=steps), 4) == [["a"], ["b"], ["c"]]


def test_groups_run_as_their_parts_and_a_foreach_as_one_copy() -> None:
    groups = Plan(
        goal="g",
        steps=(
            Step(id="list", run="ls", writes=()),
            Step(id="each", foreach="list.lines", do="Review $item", writes=()),
            Step(id="sub", skill="s", needs=("each",)),
            Step(id="sub.one", do="1", part_of="sub", writes=()),
            Step(id="sub.two", do="2", part_of="sub", writes=()),
            Step(id="end", do="e", when="sub.failed"),
        ),
    )
    assert ids(groups, 4) == [["list"], ["each.1"], ["sub.one", "sub.two"], ["end"]]
    shown = dry_run(groups, 4, 80).split("\n")
    assert shown == [
        "g · 6 steps in 4 waves, 2 at once",
        "   1  list     $ ls",
        "   2  each.1   Review $item · for each of list.lines",
        "   3  sub.one  1",
        "      sub.two  2",
        "   4  end      e · if sub.failed",
        "longest path: list → each → sub.one → end",
    ]


def test_a_dry_run_fits_its_width() -> None:
    for width in (40, 80, 200):
        assert max(map(cells, dry_run(fan(30), 4, width).split("\n"))) <= width


def test_the_longest_path_counts_steps_or_the_seconds_they_took() -> None:
    steps = plan(a="", b="a", c="b", d="a").steps
    apart = Plan(steps=tuple(structs.replace(step, writes=()) for step in steps))
    assert critical_path(apart) == ("a", "b", "c")
    assert critical_path(apart, {"a": 1.0, "b": 1.0, "c": 1.0, "d": 9.0}) == ("a", "d")
    assert critical_path(Plan(steps=steps)) == ("a", "b", "c", "d")  # each may write anything


def test_drawing_leaves_out_what_follows_from_the_rest() -> None:
    assert reduced({"a": [], "b": ["a"], "c": ["a", "b"]}) == {"a": set(), "b": {"a"}, "c": {"b"}}


@given(st.integers(2, 8), st.data())
def test_a_thinned_relation_means_the_same(size: int, data: st.DataObject) -> None:
    needs = {
        str(n): data.draw(st.sets(st.sampled_from(range(n)))) if n else set() for n in range(size)
    }
    relation = {id: {str(one) for one in of} for id, of in needs.items()}

    def reach(graph: dict[str, set[str]], id: str) -> set[str]:
        return graph[id] | {far for one in graph[id] for far in reach(graph, one)}

    thin = reduced(relation)
    assert all(reach(thin, id) == reach(relation, id) for id in relation)
    assert all(
        not (thin[id] & {far for one in thin[id] for far in reach(thin, one)}) for id in thin
    )


@given(st.integers(1, 4))
def test_no_wave_holds_a_step_before_what_it_waits_for(workers: int) -> None:
    of = waits(diamond())
    seen: set[str] = set()
    for wave in waves(diamond(), workers):
        assert len(wave) <= workers
        assert all(of[step.id] <= seen for step in wave)
        seen |= {step.id for step in wave}
    assert seen == set(of)


def test_order_that_needs_say_already_is_not_said_again() -> None:
    assert besides(diamond()) == {"look": set(), "fix": set(), "docs": set(), "report": set()}


def test_a_flowchart_has_steps_needs_groups_and_how_each_stands() -> None:
    groups = Plan(
        steps=(
            Step(id="a", do='say "hi" [x] <b>; 天枢'),
            Step(id="sub", skill="s", needs=("a",)),
            Step(id="sub.one", do="1", part_of="sub", needs=()),
            Step(id="z", run="true", needs=("sub", "a")),
        )
    )
    assert (
        mermaid(groups)
        == """\
flowchart TD
  s1["a<br/>say #34;hi#34; #91;x#93; #60;b#62;#59; 天枢"]
  subgraph s2["sub<br/>/s"]
  s3["sub.one<br/>1"]
  end
  s4["z<br/>#36; true"]
  s1 --> s2
  s2 --> s4
"""
    )
    state = State.of(played(diamond(), {"fix": ["x", "y"]}))
    drawn = mermaid(diamond(), state).split("\n")
    assert "  class s1,s3 done" in drawn
    assert "  class s2 failed" in drawn
    assert "  class s4 skipped" in drawn


def test_order_besides_needs_is_drawn_dotted() -> None:
    writers = Plan(steps=tuple(Step(id=id, do="x", writes=("a.py",)) for id in "ab"))
    assert "  s1 -.-> s2" in mermaid(writers).split("\n")


def test_views_load_nothing_heavy_before_it_is_used() -> None:
    root = Path(agent.__file__).parent
    names = [f"agent.views.{file.stem}" for file in (root / "views").glob("[a-z]*.py")]
    assert len(names) > 10
    heavy = {"rich", "prompt_toolkit", "networkx", "markdown_it", "pygments"}
    code = f"import sys, {', '.join(names)}; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8",
        env={"PYTHONPATH": str(root.parent)}, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"

"""The live plan as it stands on a screen: golden ones at three widths, and what it may cost."""

from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest

from agent.event import (
    Event,
    ModelCalled,
    PlanCreated,
    RunStarted,
    StepFinished,
    StepStarted,
    Text,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from agent.message import Usage
from agent.plan import Plan, Step
from agent.state import State
from agent.views.plain import cells
from agent.views.terminal import Terminal
from agent.views.tree import Tree, whole
from tests.scenes import fan
from tests.unit.test_views_terminal import Clock, Stage

GOLDEN = Path(__file__).parent / "golden"


def made() -> Plan:
    return Plan(
        goal="Move the config parser to TOML",
        steps=(
            Step(id="list", run="git ls-files '*.py'", writes=()),
            Step(id="parser", do="Read settings with tomllib", writes=("src/config.py",)),
            Step(id="migrate", do="Write the migration", writes=("tools/**",), exclusive=("port",)),
            Step(id="serve", do="Try the server", writes=(), exclusive=("port",)),
            Step(id="types", do="Mend the types", writes=("src/**",)),
            Step(id="review", foreach="list.lines", do="Review $item", writes=()),
            Step(id="docs", do="写文档 🚀", needs=("parser", "migrate"), writes=("docs/**",)),
            Step(id="changelog", do="Say it", needs=("docs",), writes=("CHANGELOG.md",)),
            Step(id="report", do="Sum up", needs=("changelog", "review"), writes=()),
        ),
    )


def scene() -> Iterator[Event]:
    """A run with something of everything in it."""
    yield RunStarted(goal="g", cwd="/w", model="m", version="0", run="r")
    yield PlanCreated(plan=made(), source="file")
    yield StepStarted(step="list", attempt=1)
    yield StepFinished(step="list", status="done", summary="\n".join("abcd"), seconds=1)
    yield StepStarted(step="parser", attempt=1)
    yield StepStarted(step="migrate", attempt=1)
    yield StepStarted(step="review", attempt=1)
    yield StepStarted(step="review.1", attempt=1)
    yield StepStarted(step="review.2", attempt=1)
    used = Usage(input_tokens=41_000, output_tokens=900)
    for id in ("parser", "review.1"):
        yield ModelCalled(
            step=id, model="m", usage=used, cost_usd=0.02, seconds=1, stop_reason="calls"
        )
    path = {"path": "src/config.py", "start_line": 10}
    yield ToolStarted(step="parser", id="1", name="read_file", input=path)
    yield StepFinished(step="review.1", status="done", summary="fine", seconds=4, usage=used)
    yield Text(step="review.2", text="The second file opens a file without an encoding.")
    yield StepStarted(step="review.3", attempt=1)
    yield Text(step="review.3", text="文件 🚀 é: wide signs keep their columns")
    command = {"command": "python -m pytest -q tests/test_migrate.py"}
    yield ToolStarted(step="migrate", id="1", name="bash", input=command)
    yield ToolFinished(step="migrate", id="1", name="bash", ok=True, output="", seconds=1)
    yield UserSaid(step="docs", wish="tell", words="in plain English")


def shown(width: int, height: int = 30) -> str:
    """The screen 65 seconds after all of it."""
    stage, clock = Stage(width, height), Clock()
    view = Terminal(stage.out, prose=False, clock=clock)
    *events, last = scene()
    for event in events:
        view(event)
    with view.still():  # the clock of the screen draws no more
        clock.now += 65
        view(last)
        screen = stage.shown
    view.close()
    return "\n".join(screen) + "\n"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_plan_is_seen_as_it_was_drawn_before(width: int) -> None:
    assert shown(width) == (GOLDEN / f"live-{width}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("height", [3, 5, 8, 12])
def test_a_short_terminal_has_no_more_rows_than_fit(height: int) -> None:
    state, tree = State(), Tree(lambda style, text: text, Clock())
    for event in scene():
        state.apply(event)
        tree.take(event, state)
        rows = tree.rows(state, 79, height)
        assert 1 <= len(rows) <= height
        assert max(map(cells, rows)) <= 79


def test_the_rest_of_a_run_is_told_where_all_of_it_is_known_and_else_not() -> None:
    plan = Plan(
        steps=(
            Step(id="a", do="x", writes=()),
            Step(id="b", do="x", writes=()),
            Step(id="c", do="x", writes=(), needs=("a", "b")),
        )
    )

    def heading(past: dict[str, float], workers: int, passed: float = 0.0) -> str:
        clock, state = Clock(), State()
        tree = Tree(lambda style, text: text, clock)
        tree.past, tree.workers = lambda state: past, workers
        for event in (
            PlanCreated(plan=plan, source="file"),
            StepStarted(step="a", attempt=1),
            StepStarted(step="b", attempt=1),
        ):
            state.apply(event)
            tree.take(event, state)
        clock.now += passed
        return tree.rows(state, 80, 24)[0]

    past = {"a": 60.0, "b": 20.0, "c": 30.0}
    assert heading(past, 4).endswith("about 1m 30s left")
    assert heading(past, 1).endswith("about 1m 50s left")
    assert heading(past, 4, passed=15).endswith("about 1m 15s left")
    assert "left" not in heading({"a": 60.0, "b": 20.0}, 4)
    assert "left" not in heading(past, 4, passed=70)  # longer than ever: nobody knows


def test_copies_tell_how_long_the_others_take() -> None:
    plan = Plan(
        steps=(
            Step(id="list", run="ls", writes=()),
            Step(id="each", foreach="list.lines", do="x", writes=()),
        )
    )
    clock, state = Clock(), State()
    tree = Tree(lambda style, text: text, clock)
    ends = (StepFinished(step=f"each.{n}", status="done", seconds=10.0 * n) for n in range(1, 4))
    events: list[Event] = [
        PlanCreated(plan=plan, source="file"),
        StepStarted(step="list", attempt=1),
        StepFinished(step="list", status="done", summary="\n".join("abcde")),
        StepStarted(step="each", attempt=1),
        *ends,
        StepStarted(step="each.4", attempt=1),
    ]
    for event in events:
        state.apply(event)
        tree.take(event, state)
    assert tree.rows(state, 80, 24)[0].endswith("about 40s left")


def test_the_whole_plan_is_told_step_by_step() -> None:
    rows = list(whole(State.of(scene()), 60))
    assert len(rows) == 13
    assert rows[1] == "  ▸ parser      42k tok · Read settings with tomllib"
    assert rows[6].startswith("    ✓ review.1")
    assert rows[10] == "  · docs        needs parser, migrate"
    assert all(cells(row) < 60 for row in rows)


def test_frames_of_three_hundred_steps_cost_little() -> None:
    """Eight frames a second are drawn; here a second's worth costs less than a tenth of it."""
    clock = Clock()
    events: list[Event] = [
        RunStarted(goal="g", cwd="/w", model="m", version="0", run="r"),
        PlanCreated(plan=fan(300), source="file"),
        StepStarted(step="list", attempt=1),
        StepFinished(step="list", status="done", summary=""),
        *(StepStarted(step=f"review-{n}", attempt=1) for n in range(1, 17)),
    ]
    tree, state = Tree(lambda style, text: text, clock), State()
    for event in events:
        state.apply(event)
        tree.take(event, state)
    began = process_time()
    for _ in range(80):
        clock.now += 0.125
        assert len(tree.rows(state, 119, 39)) == 20
    assert process_time() - began < 1.0

import io
import os
import re
import termios
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from time import monotonic, perf_counter

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionAsked,
    PermissionDecided,
    RevisionFailed,
    RunFinished,
    RunResumed,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from agent.message import Usage
from agent.plan import Plan, Step
from agent.state import State
from agent.views.plain import Output, cells
from agent.views.region import Region
from agent.views.terminal import Terminal
from agent.views.tree import Tree
from tests.scenes import diamond, fan, played


class Stage(io.StringIO):
    """A terminal that shows what has been written to it."""

    def __init__(self, columns: int = 80, lines: int = 24, **environ: str) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self._fed = 0
        environ = {"TERM": "xterm-256color"} | environ
        self.size = (columns, lines)
        self.out = Output(self, environ, size=lambda: self.size)

    def isatty(self) -> bool:
        return True

    def _feed(self) -> None:
        fresh = self.getvalue()[self._fed :]
        self._fed += len(fresh)
        self._stream.feed(fresh.replace("\n", "\r\n"))

    @property
    def shown(self) -> list[str]:
        """The lines of the screen, without those below the last that holds something."""
        self._feed()
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def past(self) -> list[str]:
        """What has scrolled out of the screen."""
        self._feed()
        rows = self.screen.history.top
        width = self.screen.columns
        return ["".join(row[n].data for n in range(width)).rstrip() for row in rows]


def after(events: Iterable[Event], show: Callable[[Event], None], kind: type) -> Iterator[Event]:
    """Show events up to the first of a kind; the rest."""
    rest = iter(events)
    for event in rest:
        show(event)
        if isinstance(event, kind):
            break
    return rest


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


# -- the region at the foot -------------------------------------------------------------------


def test_what_is_printed_scrolls_and_the_foot_is_drawn_again_in_place() -> None:
    stage = Stage(40, 8)
    rows = ["foot 1", "foot 2"]
    region = Region(stage.out, lambda width, height: rows)
    region.open()
    for n in range(20):
        region.print(f"line {n}\n")
        rows = [f"after {n}", "foot 2"]
    assert stage.shown == [*[f"line {n}" for n in range(14, 20)], "after 18", "foot 2"]
    assert stage.past == [f"line {n}" for n in range(14)]
    rows = ["only one"]
    region.draw()
    assert stage.shown[-2:] == ["line 19", "only one"]
    region.close()
    assert stage.shown[-1] == "line 19"
    region.print("after\n")
    assert stage.shown[-1] == "after"


def test_a_row_of_doubtful_width_takes_one_line_all_the_same() -> None:
    stage = Stage(20, 8)
    region = Region(stage.out, lambda width, height: ["x" * 30, "end"])
    region.open()
    region.draw()
    region.draw()
    assert stage.shown == ["x" * 20, "end"]
    region.close()
    assert stage.shown == []
    assert stage.screen.mode == pyte.Screen(20, 8).mode  # it wraps, and shows its cursor


def test_closing_leaves_the_cursor_and_the_modes_as_they_were() -> None:
    stage = Stage(20, 8)
    region = Region(stage.out, lambda width, height: ["a", "b", "c"])
    region.open()
    region.print("text\n")
    region.close()
    region.close()
    assert stage.shown == ["text"]
    assert (stage.screen.cursor.x, stage.screen.cursor.y) == (0, 1)
    assert not stage.screen.cursor.hidden


def test_while_paused_the_terminal_is_the_caller_s() -> None:
    stage = Stage(40, 12)
    region = Region(stage.out, lambda width, height: ["foot"])
    region.open()
    with region.paused():
        stage.out.line("question?")
        region.print("happened meanwhile\n")
        region.draw()
        with region.paused():
            stage.out.line("another")
        assert stage.shown == ["question?", "another"]
    assert stage.shown == ["question?", "another", "happened meanwhile", "foot"]
    region.close()


def test_the_foot_is_drawn_by_the_clock_too_and_not_after_the_end() -> None:
    drawn = threading.Semaphore(0)

    def rows(width: int, height: int) -> list[str]:
        drawn.release()
        return ["x"]

    stage = Stage()
    region = Region(stage.out, rows)
    region.open()
    for _ in range(3):
        assert drawn.acquire(timeout=10)
    region.close()
    end = len(stage.getvalue())
    for ticker in [thread for thread in threading.enumerate() if thread.name == "screen"]:
        ticker.join(10)
    assert len(stage.getvalue()) == end


def test_what_is_typed_is_not_echoed_into_the_foot_but_during_a_pause() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, encoding="utf-8") as keys:

        def echoes() -> bool:
            return bool(termios.tcgetattr(keys)[3] & termios.ECHO)

        region = Region(Stage().out, lambda width, height: ["x"], keys=keys)
        seen = [echoes()]
        region.open()
        seen.append(echoes())
        with region.paused():
            seen.append(echoes())
        seen.append(echoes())
        region.close()
        assert [*seen, echoes()] == [True, False, True, False, True]
    os.close(ours)


def test_lines_typed_at_work_are_heard_and_what_is_typed_in_a_pause_is_the_caller_s() -> None:
    ours, theirs = os.openpty()
    heard: SimpleQueue[str] = SimpleQueue()
    with os.fdopen(theirs, encoding="utf-8") as keys:
        stage = Stage()
        view = Terminal(stage.out, keys=keys)
        view.listen(heard.put)
        with view.turn():
            os.write(ours, "/dag\x1b[A\r天x\x7f枢\r".encode())
            assert [heard.get(timeout=10) for _ in range(2)] == ["/dag", "天枢"]
            with view.paused():
                os.write(ours, b"y\n")
                assert keys.readline() == "y\n"
            os.write(ours, b"half a li")
            while "› half a li" not in stage.shown:
                assert heard.empty()
            assert view.draft() == "half a li"
    os.close(ours)


def test_only_rows_that_have_changed_are_drawn_again() -> None:
    stage, rows = Stage(), ["one", "two", "three"]
    region = Region(stage.out, lambda width, height: list(rows))
    region.open()
    with region.lock:
        begin = len(stage.getvalue())
        region.draw()
        assert len(stage.getvalue()) == begin
        rows[1] = "2"
        region.draw()
        drawn = stage.getvalue()[begin:]
        assert "2" in drawn
        assert "one" not in drawn
        assert "three" not in drawn
    region.print("above\n")
    assert stage.shown == ["above", "one", "2", "three"]
    region.close()


def test_a_terminal_made_narrower_keeps_what_was_printed() -> None:
    stage = Stage(40, 12)
    region = Region(stage.out, lambda width, height: ["a" * 30, "b"])
    region.open()
    region.print("kept\n")
    with region.lock:  # the clock does not draw in between
        painted = stage.getvalue()
        stage.size = (20, 12)
        region.draw()
        # 30 columns are two lines of 20 now, and the foot's begin is two lines up, not one
        assert stage.getvalue().removeprefix(painted).startswith("\r\x1b[2A\x1b[J")
    region.close()


# -- the tree --------------------------------------------------------------------------------


def rows_after(events: Iterable[Event], width: int = 80, height: int = 24) -> list[str]:
    clock = Clock()
    tree, state = Tree(lambda style, text: text, clock), State()
    for event in events:
        state.apply(event)
        tree.take(event, state)
    clock.now += 65
    return tree.rows(state, width, height)


def until(events: Iterable[Event], *, started: str) -> Iterator[Event]:
    for event in events:
        yield event
        if isinstance(event, StepStarted) and event.step == started:
            return


def test_each_step_says_what_it_does_or_waits_for() -> None:
    events = [
        *until(played(diamond()), started="docs"),
        ToolStarted(step="fix", id="1", name="bash", input={"command": "make\nmore"}),
        ModelCalled(
            step="fix", model="m", usage=Usage(input_tokens=4100), cost_usd=None, seconds=1,
            stop_reason="calls",
        ),
    ]  # fmt: skip
    assert rows_after(events) == [
        "⠋ 1/4 · 1m 05s · 5.1k tok · cost unknown",
        "  ⠋ fix     1m 05s  4.1k tok  bash make …",
        "┃ ⠋ docs    1m 05s            thinks",
        "┃ └ report  waits for fix, docs",
    ]


def test_what_an_agent_says_and_asks_is_seen() -> None:
    start = list(until(played(diamond()), started="look"))

    def doing(*events: Event) -> str:
        return rows_after([*start, *events], 70)[1].rpartition("  ")[2]

    pieces = ["I will look", " at \x1b[2J it\n", "Then", " fix"]
    assert doing(*(TextDelta(step="look", text=piece) for piece in pieces)) == "Then fix"
    assert doing(Text(step="look", text="First\nsecond")) == "First"
    assert doing(PermissionAsked(step="look", tool="bash", rule="")) == "asks you about bash"
    finished = ToolFinished(step="look", id="1", name="x", ok=True, output="", seconds=0)
    assert doing(ToolStarted(step="look", id="1", name="x", input={}), finished) == "thinks · x"


def test_a_command_is_named_as_long_as_it_runs() -> None:
    start = list(until(played(fan(2)), started="list"))
    used = ToolFinished(step="list", id="1", name="bash", ok=True, output="", seconds=0)
    assert rows_after([*start, used])[1].endswith("  $ git ls-files")


def test_a_failed_step_shows_its_next_attempt_and_that_the_planner_is_asked() -> None:
    events = list(played(diamond(), {"look": ["no", "no"]}))
    second = [event for event in events if isinstance(event, StepStarted)][1]
    assert "attempt 2 · thinks" in rows_after(events[: events.index(second) + 1])[1]
    last = [event for event in events if isinstance(event, StepFinished)][1]
    rows = rows_after(events[: events.index(last) + 1])
    assert rows[1].split("  ")[-1] == "failed; the planner is asked how to go on"
    assert "waits for look" in rows[2]


def test_parts_and_copies_stand_under_their_group_which_counts_them() -> None:
    plan = Plan(
        steps=(
            Step(id="list", run="ls"),
            Step(id="each", foreach="list.lines", do="Review $item", writes=()),
            Step(id="sub", skill="s", needs=("each",)),
            Step(id="sub.one", do="one", part_of="sub"),
        )
    )
    events = list(until(played(plan, texts={"list": "a\nb\nc"}), started="each.3"))
    assert [row[:36].rstrip() for row in rows_after(events, 60)] == [
        "⠋ 3/5 · 1m 05s · 2.0k tok · $0.02",
        "  ⠋ each      1m 05s            2 of",
        "    ⠋ each.3  1m 05s            thin",
        "  └ sub       waits for each",
    ]


@pytest.mark.parametrize("width", [24, 40, 80, 200])
@pytest.mark.parametrize("height", [3, 10, 60])
def test_three_hundred_steps_fit_and_the_running_ones_are_seen(width: int, height: int) -> None:
    rows = rows_after(until(played(fan(300), workers=8), started="review-8"), width, height)
    assert len(rows) <= height
    assert max(map(cells, rows)) <= width
    assert rows[0].startswith("⠋ 1/302")
    assert sum(row.startswith("  · ") for row in rows) <= 6
    if height >= 10:
        assert sum(row.startswith("  ⠋ review") for row in rows) >= min(8, len(rows) - 2)
        assert rows[-1].startswith("  … ")


def test_of_many_that_wait_the_next_ones_are_shown_and_the_rest_is_counted() -> None:
    rows = rows_after(until(played(fan(10)), started="review-2"), 80, 60)
    assert [row.split()[1] for row in rows[3:-1]] == [f"review-{n}" for n in range(3, 9)]
    assert rows[-1] == "  … 3 more waiting"


def test_a_frame_of_many_steps_costs_little() -> None:
    clock = Clock()
    tree, state = Tree(lambda style, text: text, clock), State()
    for event in until(played(fan(1000), workers=8), started="review-8"):
        state.apply(event)
        tree.take(event, state)
    tree.rows(state, 80, 24)
    began = perf_counter()
    for _ in range(100):
        tree.rows(state, 80, 24)
    assert perf_counter() - began < 0.01 * 100


# -- a run at a terminal -----------------------------------------------------------------------


def test_a_run_leaves_its_story_and_takes_its_tree_away() -> None:
    stage = Stage(60, 30)
    view = Terminal(stage.out, prose=False)
    events = after(played(diamond()), view, StepStarted)
    assert stage.shown[-5].endswith("0/4 · 0s")
    assert [row[2:].split()[:2] for row in stage.shown[-4:]] == [
        ["·", "look"],
        ["└", "fix"],
        ["└", "docs"],
        ["└", "report"],
    ]
    for event in events:
        view(event)
    assert stage.shown == [
        "plan: Mend the parser · 4 steps, 2 at once",
        "  look                Find the cause",
        "  fix ← look          Mend the code · check: make",
        "  docs ← look         写文档 🚀",
        "  report ← fix, docs  Say what was done",
        "✓ look 2.5s 1.0k tok — look is done",
        "✓ fix 2.5s 1.0k tok — fix is done",
        "✓ docs 2.5s 1.0k tok — docs is done",
        "✓ report 2.5s 1.0k tok — report is done",
        "✓ done in 1m 15s · 4 of 4 steps done · 4.0k tok · $0.04",
    ]
    view.close()


def test_a_question_finds_the_screen_still() -> None:
    stage = Stage(60, 30)
    view = Terminal(stage.out, prose=False)
    events = after(played(diamond()), view, StepStarted)
    with view.paused():
        stage.out.line("allow it?")
        still = stage.shown
        for event in events:
            view(event)
        assert stage.shown == still
    assert stage.shown[stage.shown.index("allow it?") + 1].startswith("✓ look")
    assert stage.shown[-1].startswith("✓ done")
    view.close()


def test_a_run_that_goes_on_shows_what_is_left_of_it() -> None:
    events = list(played(diamond()))
    second = next(n for n, event in enumerate(events) if getattr(event, "step", "") == "fix")
    stage = Stage(60, 20)
    view = Terminal(stage.out, prose=False)
    view.recall(events[:second])
    view(RunResumed(attempt=2))
    assert stage.shown[0] == "↻ resumed (attempt 2): 1 of 4 steps done"
    view(events[second])
    assert [row[2:].split()[1] for row in stage.shown[-3:]] == ["fix", "docs", "report"]
    for event in events[second + 1 :]:
        view(event)
    assert "4 of 4 steps done" in stage.shown[-1]


def test_a_run_that_breaks_off_leaves_a_clean_terminal() -> None:
    stage = Stage(60, 30)
    view = Terminal(stage.out, prose=False)
    after(played(diamond()), view, StepStarted)
    view.close()
    assert stage.shown[-1].startswith("  report")
    assert stage.screen.cursor.x == 0


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_c103_a_plain_terminal_gets_lines_without_escapes(environ: dict[str, str]) -> None:
    stage = Stage(60, 60, **environ)
    view = Terminal(stage.out)
    for event in played(diamond(), {"fix": ["no"]}):
        view(event)
    for event in (TextDelta(text="Hel"), TextDelta(text="lo"), Text(text="Hello")):
        view(event)
    view.close()
    assert not set("\x1b\r") & set(stage.getvalue())
    assert "▸ fix started again (attempt 2)\n" in stage.getvalue()
    assert stage.getvalue().endswith("Hello\n")


def test_events_from_many_threads_keep_lines_whole() -> None:
    stage = Stage(80, 40)
    view = Terminal(stage.out, prose=False)
    after(played(diamond()), view, StepStarted)

    def tell(name: str) -> None:
        for n in range(20):
            view(Notice(text=f"{name} {n} end"))

    threads = [threading.Thread(target=tell, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    view.close()
    told = [line for line in [*stage.past, *stage.shown] if line.startswith("! ")]
    assert sorted(told) == sorted(f"! t{k} {n} end" for k in range(4) for n in range(20))


# -- a conversation ----------------------------------------------------------------------------


@contextmanager
def conversation(columns: int = 60, lines: int = 30) -> Iterator[tuple[Stage, Terminal]]:
    stage = Stage(columns, lines)
    view = Terminal(stage.out, clock=Clock())
    with view.turn():
        yield stage, view
    view.close()


def foot(stage: Stage, view: Terminal) -> str:
    """The last line, drawn anew."""
    with view.paused():
        pass
    return stage.shown[-1]


def test_an_answer_streams_and_stands_there_once() -> None:
    text = "# Title\n\nSome **bold** text.\n\n- one\n- two\n\n```python\nx = 1\n```\n\nEnd."
    with conversation() as (stage, view):
        assert [line[1:] for line in stage.shown] == [" 0s · thinks"]
        for n in range(0, len(text), 3):
            view(TextDelta(text=text[n : n + 3]))
        view(Text(text=text))
        shown = stage.shown
    assert stage.shown == shown[:-2]  # the foot has gone
    assert [line.strip() for line in stage.shown] == [
        "Title", "", "Some bold text.", "", "• one", "• two", "", "x = 1", "", "End.",
    ]  # fmt: skip
    assert "\x1b[1mbold\x1b[0m" in stage.getvalue()


def test_a_long_wait_says_how_it_is_ended() -> None:
    stage, clock = Stage(60, 12), Clock()
    view = Terminal(stage.out, clock=clock)
    with view.turn():
        clock.now += 65
        assert foot(stage, view).endswith("1m 05s · thinks · Ctrl-C stops it")
        view(ToolStarted(id="1", name="bash", input={"command": "make " * 30}))
        clock.now += 5
        assert foot(stage, view).endswith("… · Ctrl-C stops it")
    view.close()


def test_an_answer_longer_than_the_screen_is_printed_whole_and_once() -> None:
    text = "```\n" + "".join(f"line {n}\n" for n in range(100)) + "```\n\nEnd."
    with conversation(60, 12) as (stage, view):
        for n in range(0, len(text), 40):
            view(TextDelta(text=text[n : n + 40]))
            assert len(stage.shown) <= 12
        view(Text(text=text))
    printed = [line.strip() for line in [*stage.past, *stage.shown] if line.strip()]
    assert printed == [*(f"line {n}" for n in range(100)), "End."]


def test_calls_are_one_line_each_and_edits_show_what_changed() -> None:
    with conversation() as (stage, view):
        edit = {"path": "a.py", "old_string": "x", "new_string": "y"}
        view(ToolStarted(id="1", name="edit_file", input=edit))
        assert foot(stage, view).endswith("0s · edit_file a.py")
        diff = "done\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n same\n-x\n+y"
        view(ToolFinished(id="1", name="edit_file", ok=True, output=diff, seconds=0))
        view(ToolStarted(id="2", name="bash", input={"command": "make"}))
        view(ToolFinished(id="2", name="bash", ok=False, output="no such file", seconds=0))
    assert stage.shown == [
        "  edit_file a.py → +1 -1",
        "        1  same",
        "        2 -x",
        "        2 +y",
        "  bash make ✗ no such file",
    ]
    assert "\x1b[31m    2 -x\x1b[0m" in stage.getvalue()
    assert "\x1b[32m    2 +y\x1b[0m" in stage.getvalue()


def test_a_plan_in_a_conversation_is_a_tree_and_then_the_talk_goes_on() -> None:
    with conversation(60, 40) as (stage, view):
        view(ToolStarted(id="1", name="submit_plan", input={"goal": "g", "steps": []}))
        for event in played(diamond()):
            view(event)
        view(ToolFinished(id="1", name="submit_plan", ok=True, output="a\nb", seconds=9))
        assert foot(stage, view).endswith("0s · thinks")
        view(Text(text="All is done."))
    assert [line[:9] for line in stage.shown[-4:]] == ["✓ report ", "✓ done in", "", "All is do"]


def test_a_refused_plan_says_why() -> None:
    with conversation(60, 40) as (stage, view):
        view(ToolStarted(id="1", name="submit_plan", input={"goal": "g", "steps": [1]}))
        refused = ToolFinished(
            id="1", name="submit_plan", ok=False, output="step 'a' needs 'b'", seconds=0
        )
        view(refused)
    assert stage.shown == ["  submit_plan g (1 step) ✗ step 'a' needs 'b'"]


def test_text_that_was_streamed_and_thrown_away_is_followed_by_what_counts() -> None:
    with conversation() as (stage, view):
        for piece in ("Old start\n\n", "of an answer", " cut"):
            view(TextDelta(text=piece))
        view(Text(text="New answer."))
    assert stage.shown == ["Old start", "", "New answer."]


def test_an_interrupted_answer_stays_as_far_as_it_came() -> None:
    with conversation() as (stage, view):
        view(TextDelta(text="Half an ans"))
    assert stage.shown == ["Half an ans"]


def test_the_answer_of_a_headless_run_is_left_to_others() -> None:
    stage = Stage(60, 20)
    view = Terminal(stage.out, prose=False)
    with view.turn():
        view(TextDelta(text="Hello"))
        view(Text(text="Hello"))
        view(Notice(text="careful"))
    assert stage.shown == ["! careful"]


OURS = re.compile(r"\r?\x1b\[(?:\?25[lh]|\?7[lh]|\d*[AJK]|\d+(?:;\d+)*m)")
hostile = st.text(
    st.sampled_from("ab \x1b[]2J0;mA\x07\x9b\u202e\u200b\r\n\x08天`*#&\\$"), max_size=40
)


@given(hostile, st.sampled_from(["step", "chat"]))
@settings(max_examples=40)
def test_r66_hostile_words_anywhere_bring_no_escape_sequence_of_their_own(
    words: str, where: str
) -> None:
    step = "a" if where == "step" else UNSET
    stage = Stage(60, 20)
    view = Terminal(stage.out, "verbose")
    plan = Plan(goal=words, steps=(Step(id="a", do=words, verify=words), Step(id="b", run=words)))
    with view.turn():
        for event in list(played(plan, {"a": [words]}, texts={"a": words})):
            view(event)
        for event in (
            TextDelta(step=step, text=words),
            ToolStarted(step=step, id="1", name=words, input={"command": words, "path": words}),
            PermissionAsked(step=step, tool=words, rule=words),
            PermissionDecided(step=step, tool=words, rule=words, decision="deny", by="user"),
            ToolFinished(step=step, id="1", name=words, ok=False, output=words, seconds=0),
            Text(step=step, text=words),
            Notice(step=step, text=words),
            RevisionFailed(step="a", because=words),
        ):
            view(event)
            with view.paused():
                pass
    view.close()
    left = OURS.sub("", stage.getvalue())
    assert set(left) & set("\x1b\r\x07\x08\x9b\u202e\u200b") == set()


def test_closing_during_a_question_leaves_it_on_the_screen() -> None:
    stage = Stage(60, 30)
    view = Terminal(stage.out, prose=False)
    after(played(diamond()), view, StepStarted)
    with view.paused():
        stage.out.write("allow it? ")
        view.close()
    assert stage.shown[-1] == "allow it?"


def test_closing_takes_no_long_time_and_may_be_done_by_anyone() -> None:
    stage = Stage()
    view = Terminal(stage.out)
    after(played(diamond()), view, StepStarted)
    began = monotonic()
    closer = threading.Thread(target=view.close)
    closer.start()
    closer.join(5)
    assert monotonic() - began < 5
    view(RunFinished(status="done", answer="", usage=Usage(), cost_usd=0, seconds=1))
    assert stage.shown[-1].startswith("✓ done")

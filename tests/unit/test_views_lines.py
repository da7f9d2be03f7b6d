import io

import pytest
from msgspec import structs

from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionDecided,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from agent.message import Usage
from agent.plan import Plan, Step
from agent.views import figures
from agent.views.gist import diff, gist, hint
from agent.views.lines import Level
from agent.views.outline import outline, sentence
from agent.views.plain import Output, cells
from agent.views.plan_text import described
from agent.views.terminal import Terminal
from tests.plans import plan
from tests.scenes import RUN, diamond, fan, played


def told(events: list[Event], level: Level = "normal") -> str:
    out = io.StringIO()
    view = Terminal(Output(out, {"TERM": "xterm"}), level, prose=False)
    for event in events:
        view(event)
    view.close()
    return out.getvalue()


def test_a_run_is_one_line_a_happening() -> None:
    assert (
        told(list(played(diamond())))
        == """\
plan: Mend the parser · 4 steps, 2 at once
  look                Find the cause
  fix ← look          Mend the code · check: make
  docs ← look         写文档 🚀
  report ← fix, docs  Say what was done
▸ look started
    look: read_file a.py → 2 lines
✓ look 2.5s 1.0k tok — look is done
▸ fix started
▸ docs started
    fix: read_file a.py → 2 lines
✓ fix 2.5s 1.0k tok — fix is done
    docs: read_file a.py → 2 lines
✓ docs 2.5s 1.0k tok — docs is done
▸ report started
    report: read_file a.py → 2 lines
✓ report 2.5s 1.0k tok — report is done
✓ done in 1m 15s · 4 of 4 steps done · 4.0k tok · $0.04
"""
    )


def test_failures_say_why_and_what_was_decided() -> None:
    skip = PlanRevised(step="fix", action="skip", because="not needed")
    events = list(played(diamond(), {"fix": ["no\n\nmore", "again"]}, revisions={"fix": skip}))
    shown = [line for line in told(events).split("\n") if line[:1] in "✗↻"]
    assert shown[:3] == [
        "✗ fix (attempt 1 of 2) 2.5s 1.0k tok — no",
        "✗ fix (attempt 2 of 2) 2.5s 2.0k tok — again",
        "↻ fix is left out — not needed",
    ]
    assert "▸ fix started again (attempt 2)\n" in told(events)
    assert "✗ partly done in 1m 15s · 3 of 4 steps done" in told(events)


def test_a_replacing_plan_shows_its_new_steps_only() -> None:
    keep = diamond().steps[0]
    new = Plan(steps=(keep, Step(id="small", do="Only the lexer", needs=("look",))))
    replace = PlanRevised(step="fix", action="replace", plan=new, because="smaller")
    shown = told(list(played(diamond(), {"fix": ["a", "b"]}, revisions={"fix": replace})))
    assert "↻ fix is replaced — smaller\n  small ← look  Only the lexer\n" in shown


def test_what_needs_a_failed_step_says_so() -> None:
    commands = Plan(
        steps=(
            Step(id="build", run="make"),
            Step(id="lint", run="ruff", allow_failure=True),
            Step(id="mend", do="mend it", when="lint.failed"),
            Step(id="test", run="pytest", needs=("build",)),
        )
    )
    shown = told(list(played(commands, {"build": ["cc\nError\nexit code 2"], "lint": ["E1"]})))
    assert "  lint          $ ruff · may fail\n  mend          mend it · if lint.failed\n" in shown
    assert "✗ build 2.5s — exit code 2: Error\n" in shown
    assert "↷ test skipped — build failed\n" in shown


def test_how_a_command_failed_is_told_though_it_wrote_nothing_to_stdout() -> None:
    begun = list(played(Plan(steps=(Step(id="a", run="make"),))))[:3]
    end = StepFinished(step="a", status="failed", error="cc: no\nexit code 1", seconds=0.5)
    assert "✗ a 0.5s — exit code 1: cc: no\n" in told([*begun, end])
    assert "    cc: no\n    exit code 1\n" in told([*begun, end], "verbose")


def test_a_foreach_shows_its_copies_with_their_items() -> None:
    each = Plan(
        steps=(
            Step(id="list", run="ls"),
            Step(id="each", foreach="list.lines", do="Review $item", writes=()),
        )
    )
    shown = told(list(played(each, texts={"list": "a.py\nb.py\n"})))
    assert "▸ each started: 2 copies\n▸ each.1 started: a.py\n▸ each.2 started: b.py\n" in shown
    assert "✓ each 11.0s 2.0k tok — 2 of 2 done\n" in shown
    assert "3 of 3 steps done" in shown


def test_quiet_tells_only_what_went_wrong() -> None:
    assert told(list(played(diamond())), "quiet") == ""
    events = [*played(diamond(), {"look": ["x", "y"]}), Notice(text="the disk is full")]
    shown = told(events, "quiet")
    assert shown.split("\n") == [
        "✗ failed in 1m 15s · 0 of 4 steps done · 2.0k tok · $0.02", "", "! the disk is full", "",
    ]  # fmt: skip


def test_verbose_tells_of_models_and_of_whole_failures() -> None:
    shown = told(list(played(diamond(), {"look": ["first\nsecond"]})), "verbose")
    assert f"run {RUN} in /w with script/x\n" in shown
    assert "    look: script/x · 1.0s · 1.0k tok · $0.01\n" in shown
    assert "    first\n    second\n" in shown


def test_notices_refusals_and_resumption_are_told() -> None:
    shown = told(
        [
            RunStarted(goal="", cwd="/w", model="m", version="0"),
            PlanCreated(plan=plan(a="", b="a"), source="file"),
            StepFinished(step="a", status="done", reused=True),
            RunResumed(attempt=2),
            Notice(step="b", text="two\nlines\x1b[2J"),
            PermissionDecided(step="b", tool="bash", rule="x", decision="deny", by="nobody"),
            StepFinished(step="b", status="cancelled", summary="a budget ran out"),
            RevisionFailed(step="b", because="no answer"),
            RunFinished(
                run="r7", status="interrupted", answer="", usage=Usage(), cost_usd=None, seconds=1
            ),
        ]
    )
    assert (
        shown
        == """\
plan: 2 steps
  a      do a
  b ← a  do b
✓ a reused
↻ resumed (attempt 2): 1 of 2 steps done
! b: two
  lines
⊘ b: bash was not allowed (nobody could be asked)
⊘ b cancelled — a budget ran out
↻ b: no revision — no answer
⊘ interrupted in 1.0s · 1 of 2 steps done · 0 tok · cost unknown
"""
    )


def test_what_is_done_again_and_what_was_cut_off_before_is_told() -> None:
    cut = ToolStarted(step="b", id="1", name="bash", input={"command": "make test"})
    check = ToolStarted(step="b", id="b.2", name="bash", input={"command": "make check"})
    checked = ToolFinished(step="b", id="b.2", name="bash", ok=True, output="fine", seconds=1)
    made = Plan(
        goal="", steps=(Step(id="a", do="x"), Step(id="b", run="make", verify="make check"))
    )
    events: list[Event] = [
        PlanCreated(plan=made, source="file"),
        StepStarted(step="a", attempt=1),
        StepFinished(step="a", status="done"),
        StepStarted(step="b", attempt=1),
        cut,
        RunResumed(attempt=2, again=("a",), changed=("src/a.py",)),
        StepStarted(step="b", attempt=2),
        check,
        checked,
    ]
    shown = told(events)
    assert "↻ resumed (attempt 2): 0 of 2 steps done\n↻ a is done again\n" in shown
    assert "▸ b started again (attempt 2) after 1 call, cut off, the last bash make test\n" in shown
    assert "    b: check make check → fine\n" in shown
    assert "src/a.py" not in shown
    assert "    changed since: src/a.py\n" in told(events, "verbose")


def test_c103_lines_for_a_pipe_hold_no_escape_byte_whatever_the_run_says() -> None:
    evil = "\x1b[31m\x1b]0;t\x07ok\r\x1b[2K\x9b1m"
    plan = Plan(goal=evil, steps=(Step(id="a", do=evil), Step(id="b", run=evil, needs=("a",))))
    events = [*played(plan, {"a": [evil, evil]}), Notice(text=evil)]
    called = ToolFinished(step="a", id="1", name=evil, ok=False, output=evil, seconds=0)
    shown = told([*events, called], "verbose")
    assert not set("\x1b\r\x07\x9b") & set(shown)
    assert "ok" in shown


def test_a_terminal_s_lines_fit_it_and_what_went_wrong_is_wrapped() -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Tty()
    view = Terminal(Output(stream, {"TERM": "dumb"}, size=lambda: (40, 20)), prose=False)
    reason = "the check has failed because " + "x" * 40
    for event in played(diamond(), {"fix": [reason]}, texts={"docs": "天枢" * 30}):
        view(event)
    shown = stream.getvalue().split("\n")
    assert max(map(cells, shown)) <= 40
    assert "".join(line.strip() for line in shown).count("x" * 40) == 1
    assert any(line.endswith("…") for line in shown)


def test_a_second_run_of_a_chat_starts_from_nothing() -> None:
    shown = told([*played(diamond()), *played(plan(a=""))])
    assert shown.count("✓ done") == 2
    assert "1 of 1 step done · 1.0k tok · $0.01" in shown


def test_a_big_plan_is_shown_in_part() -> None:
    rows = list(described(fan(100), 80, at_once=100))
    assert len(rows) == 42
    assert rows[0] == "plan: Review 100 files · 102 steps, 100 at once"
    assert rows[-1] == "  … and 62 steps more"


def test_parts_stand_below_their_group() -> None:
    group = Plan(
        steps=(
            Step(id="sub", skill="code-review src"),
            Step(id="sub.one", do="one", part_of="sub"),
            Step(id="sub.two", do="two", needs=("sub.one",), part_of="sub"),
        )
    )
    assert list(described(group, 60))[1:] == [
        "  sub          /code-review src",
        "    one        one",
        "    two ← one  two",
    ]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_plan_fits_the_width(width: int) -> None:
    assert all(cells(row) <= width for row in list(described(diamond(), width))[1:])


@pytest.mark.parametrize(
    ("name", "input", "line"),
    [
        ("bash", {"command": "pytest -q"}, "bash pytest -q"),
        ("bash", {"command": "cat <<E\nx\nE"}, "bash cat <<E …"),
        ("read_file", {"path": "a.py", "start_line": 3, "end_line": 9}, "read_file a.py:3-9"),
        ("read_file", {"path": "a.py"}, "read_file a.py"),
        ("grep_files", {"pattern": "def x", "directory": "src"}, "grep_files def x src"),
        ("submit_plan", {"goal": "g", "steps": [{}, {}]}, "submit_plan g (2 steps)"),
        ("mcp__hub__find", {"query": "x"}, "hub: find x"),
        ("odd", {"command": ["no", "text"]}, "odd"),
    ],
)
def test_a_call_is_told_by_what_tells_it_from_others(
    name: str, input: dict[str, object], line: str
) -> None:
    assert gist(name, input, 80) == line


@pytest.mark.parametrize(
    ("name", "ok", "output", "words"),
    [
        ("bash", True, "a\n13 passed\n[exit code 0]", "13 passed"),
        ("bash", True, "E x\n1 failed\n[exit code 1]", "exit code 1: 1 failed"),
        ("bash", True, "(no output)\n[exit code 137 (SIGKILL)]",
         "exit code 137 (SIGKILL): (no output)"),
        ("bash", True, "[1, 2]\n[exit code 0]", "[1, 2]"),
        ("read_file", True, "a\nb\nc", "3 lines"),
        ("web_search", True, "one", "one"),
        ("edit_file", True, "done\n--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x\n+y\n+z", "+2 -1"),
        ("edit_file", False, "a.py: not there\nmore", "a.py: not there"),
    ],
)  # fmt: skip
def test_what_came_of_a_call_in_a_few_words(name: str, ok: bool, output: str, words: str) -> None:
    assert hint(ToolFinished(id="1", name=name, ok=ok, output=output, seconds=0), 80) == words


def test_text_that_only_looks_like_a_diff_is_none() -> None:
    assert diff("--- a heading\nand text") == []
    assert diff("nothing") == []


def test_figures_are_short() -> None:
    assert [figures.took(s) for s in (0, 59.94, 59.96, 3599.6)] == [
        "0.0s", "59.9s", "1m 00s", "1h 00m",
    ]  # fmt: skip
    assert [figures.tokens(n) for n in (0, 999, 9949, 9950, 999_499, 999_500)] == [
        "0 tok", "999 tok", "9.9k tok", "10k tok", "999k tok", "1.0M tok",
    ]  # fmt: skip


def test_an_outline_is_a_run_in_a_few_lines() -> None:
    skip = PlanRevised(step="b", action="skip")
    events = list(played(plan(a="", b="a", c="b"), {"b": ["x", "y"]}, revisions={"b": skip}))
    assert outline(events) == (
        "plan a b c\n"
        "start a\n"
        "done a\n"
        "start b\n"
        "failed b\n"
        "start b (attempt 2)\n"
        "failed b\n"
        "skip b\n"
        "start c\n"
        "done c"
    )  # fmt: skip


def test_an_outline_tells_what_else_can_become_of_a_run() -> None:
    assert outline(
        [
            RunResumed(attempt=2),
            PlanRevised(step="b", action="replace", plan=plan(a="", d="a")),
            StepFinished(step="a", status="done", reused=True),
            StepFinished(step="c", status="skipped"),
            RevisionFailed(step="d", because="x"),
            PlanRevised(step="d", action="abort"),
        ]
    ) == (
        "resume (attempt 2)\nreplace b: a d\ndone a (reused)\nskipped c\nno revision of d\nabort d"
    )
    assert sentence(ToolStarted(id="1", name="x", input={})) == ""


def test_a_model_s_cost_that_is_not_known_is_said_to_be_so() -> None:
    events = [
        structs.replace(event, cost_usd=None) if isinstance(event, ModelCalled | RunFinished)
        else event for event in played(plan(a=""))
    ]  # fmt: skip
    assert "cost unknown" in told(events)

"""Whatever anybody says, a view that a person reads holds nothing that acts on a terminal."""

import io
import unicodedata
from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from agent.plan import Plan, Step
from agent.state import State
from agent.views import graph, plan_text, show, undo
from agent.views.gist import diff, gist
from agent.views.pick import Row, pick
from agent.views.plain import Output
from tests.scenes import played

HOSTILE = st.text(
    st.sampled_from(
        "ab \x1b[]2J0;mA\x07\x9b\x90\x9d\x9c\u202e\u200b\u2066\ufeff\r\n\t\x08\x00天`*#+-\\$é"
    ),
    max_size=30,
)
OSC = "\x1b]52;c;eA==\x07\x1b[2J\x9b2J\r\x08\u202eb\u200b\nforged"


class Change(Struct, frozen=True):
    path: str
    what: str = "removed"
    why: str = ""
    lines: tuple[int, int] | None = None


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def sound(lines: Iterable[str], *, one_line: bool = False) -> None:
    for line in lines:
        bad = {
            ascii(char)
            for char in line
            if unicodedata.category(char) in {"Cc", "Cf", "Cs"} and char not in "\n\t"
        }
        assert bad == set(), line
        assert not (one_line and "\n" in line), line


@given(HOSTILE)
@example(OSC)
@settings(max_examples=60)
def test_r66_runs_plans_and_tables_are_safe_whatever_is_said_in_them(words: str) -> None:
    plan = Plan(
        goal=words,
        name=words,
        steps=(
            Step(id="a", do=words, verify=words, writes=(words,), exclusive=(words,)),
            Step(id="b", run=words, needs=("a",), when="a.done", outputs=(words,)),
        ),
    )
    events = list(played(plan, {"a": [words]}, texts={"a": words, "b": words}))
    state = State.of(events)
    sound(show.story(events, 60, level="verbose"))
    sound(show.steps(state, 60))
    sound(plan_text.described(plan, 60), one_line=True)
    sound([graph.dry_run(plan, 2, 60)])
    sound([gist("bash", {"command": words, "path": words, words: words}, 60)], one_line=True)
    shown = Tty()
    Output(shown, {"TERM": "xterm"}).answer(graph.mermaid(plan, state))
    Output(shown, {"TERM": "xterm"}).answer(words)
    sound([shown.getvalue()])


@given(HOSTILE)
@example(OSC)
@settings(max_examples=60)
def test_r66_what_is_chosen_from_and_what_is_taken_back_is_safe(words: str) -> None:
    changes = [Change(words), Change(words + "2", what="restored", why="since", lines=(1, 2))]
    sound(undo.rows(changes, plan_text.unstyled), one_line=True)
    sound(map(undo.question, changes[1:]), one_line=True)
    sound(undo.difference(f"--- {words}\n+++ {words}\n+{words}", plan_text.unstyled))
    sound(diff(f"edited x\n--- a\n+++ b\n@@ -1 +1 @@\n-{words}\n+{words}"))
    shown = Tty()
    keys = io.StringIO("x\n1\n")
    pick(Output(shown, {"TERM": "dumb"}), keys, "which", [Row(words=words, note=words)], words)
    sound([shown.getvalue()])

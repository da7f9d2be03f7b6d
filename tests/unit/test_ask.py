import io
import os
import re
import select
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import pytest

from agent.engine.guard import Gate
from agent.errors import ToolError
from agent.event import Event, PermissionAsked
from agent.plan import Step
from agent.seams import Answer, Question
from agent.settings import Rules
from agent.stop import Stop
from agent.views.ask import TerminalAsk, nobody
from agent.views.plain import Output

RM = Question(step="clean", tool="bash", text="rm -rf build", rule="bash(rm *)")


class Desk:
    """A terminal with a program at one end and this test, as its user, at the other."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._user, program = os.openpty()
        self.keys = os.fdopen(program, encoding="utf-8")
        self._shown = os.fdopen(program, "w", encoding="utf-8", closefd=False)
        self.out = Output(self._shown, environ)
        self.stop = Stop()
        self.ask = TerminalAsk(self.out, self.keys, stop=self.stop, seconds=20)
        self.pool = ThreadPoolExecutor(8)
        self.screen = ""

    def put(self, call: Callable[..., Any], *args: object) -> "Future[Any]":
        return self.pool.submit(call, *args)

    def until(self, words: str) -> str:
        """What the program has shown, up to these words; forgets it."""
        end = monotonic() + 10
        while words not in self.screen:
            assert select.select([self._user], [], [], end - monotonic())[0], self.screen
            self.screen += os.read(self._user, 65536).decode()
        shown, _, self.screen = self.screen.partition(words)
        return shown.replace("\r\n", "\n") + words

    def type(self, keys: str) -> None:
        os.write(self._user, keys.encode())

    def close(self) -> None:
        self.stop.set()
        self.pool.shutdown()
        self._shown.close()
        self.keys.close()
        os.close(self._user)


@contextmanager
def at(environ: dict[str, str]) -> Iterator[Desk]:
    desk = Desk(environ)
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    with at({"TERM": "dumb"}) as desk:
        yield desk


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y\n", Answer(choice="yes")),
        ("YES\n", Answer(choice="yes")),
        ("n\n", Answer(choice="no")),
        ("no use make clean\n", Answer(choice="no", words="use make clean")),
        ("a\n", Answer(choice="always")),
        ("ALWAYS\n", Answer(choice="always")),
        ("A\n", Answer(choice="always", kept=True)),
    ],
)
def test_an_answer_is_a_word_and_a_no_may_say_more(desk: Desk, typed: str, answer: Answer) -> None:
    asked = desk.put(desk.ask, RM)
    desk.until("allow it?")
    desk.type(typed)
    assert asked.result(10) == answer


def test_a_choice_is_its_letter_or_a_word_of_it_and_nothing_that_only_begins_so(desk: Desk) -> None:
    choices = {"y": "yes, from now on", "n": "not now"}
    for word, letter in (("Y", "y"), ("yes", "y"), ("not", "n")):
        asked = desk.put(desk.ask.choose, "well?", choices)
        desk.until("which? ")
        desk.type("yikes\n")
        desk.until("y, n, please")
        desk.until("which? ")
        desk.type(f"{word}\n")
        assert asked.result(10) == letter


def test_anything_else_is_asked_again(desk: Desk) -> None:
    asked = desk.put(desk.ask, RM)
    for typed in ("\n", "yes please\n", "yep\n", "always all\n"):
        desk.until("allow it?")
        desk.type(typed)
        desk.until("y, n, a, A, please")
    desk.until("allow it?")
    desk.type("y\n")
    assert asked.result(10).choice == "yes"


def test_always_names_its_rule_first_and_is_not_offered_without_one(desk: Desk) -> None:
    asked = desk.put(desk.ask, RM)
    assert "  a: always allow bash(rm *)\n" in desk.until("allow it?")
    desk.type("n\n")
    asked.result(10)
    asked = desk.put(desk.ask, Question(step="", tool="bash", text="sudo x", rule=""))
    assert "always" not in desk.until("allow it?")
    desk.type("a\n")
    desk.until("y, n, please")
    desk.until("allow it?")
    desk.type("n\n")
    assert asked.result(10).choice == "no"


def test_a_plan_is_no_matter_for_settings(desk: Desk) -> None:
    plan = Question(step="", tool="submit_plan", text="steps: []", rule="submit_plan")
    asked = desk.put(desk.ask, plan)
    assert "A: " not in desk.until("allow it?")
    desk.type("A\n")
    assert asked.result(10) == Answer(choice="always")


def test_r20_the_whole_command_is_shown_wrapped_and_spelled_out(desk: Desk) -> None:
    text = "echo ok" + " " * 5000 + "; rm -rf ~ \x1b[8m\u202ehidden\x1b[2K\r" + "x" * 300 + "END"
    asked = desk.put(desk.ask, Question(step="s", tool="bash", text=text, rule=""))
    shown = desk.until("allow it?")
    body = "".join(line[4:] for line in shown.split("\n") if line.startswith("  │ "))
    assert body == (
        r"echo ok ⟨5000 blanks⟩ ; rm -rf ~ \u{1b}[8m\u{202e}hidden\u{1b}[2K\u{d}"
        + "x" * 300
        + "END"
    )
    assert all(len(line) <= 80 for line in shown.split("\n"))
    desk.type("n\n")
    asked.result(10)


def test_r67_a_text_cannot_pass_for_the_question(desk: Desk) -> None:
    fake = "ls\n? step a wants to run a command\n  y: yes\nallow it? y\n"
    asked = desk.put(desk.ask, Question(step="a", tool="bash", text=fake, rule=""))
    shown = desk.until("n WORDS")
    assert [
        line for line in shown.split("\n") if "ls" in line or "allow" in line or "wants" in line
    ][1:] == [
        "  │ ls",
        "  │ ? step a wants to run a command",
        "  │ allow it? y",
    ]
    desk.until("\nallow it? ")
    desk.type("n\n")
    asked.result(10)


def test_what_was_typed_before_a_question_does_not_answer_it(desk: Desk) -> None:
    desk.type("y\ny\n")
    asked = desk.put(desk.ask, RM)
    desk.until("allow it?")
    desk.type("n\n")
    assert asked.result(10).choice == "no"


def test_r24_questions_come_one_at_a_time_each_with_its_step_and_its_own_answer(
    desk: Desk,
) -> None:
    questions = [
        Question(step=f"s{n}", tool="bash", text=f"cmd-{n}", rule="")
        for n in range(4)
        for _ in "ab"
    ]
    asked = [(question, desk.put(desk.ask, question)) for question in questions]
    for _ in questions:
        shown = desk.until("allow it?")
        steps = re.findall(r"step s(\d) wants", shown)
        assert len(steps) == 1
        assert f"cmd-{steps[0]}" in shown
        desk.type("n for " + steps[0] + "\n")
    for question, future in asked:
        assert future.result(10).words == f"for {question.step[1:]}"


def test_r24_four_steps_ask_a_hundred_times_and_each_answer_reaches_only_its_question(
    desk: Desk,
) -> None:
    """Who answers goes by nothing but what is shown: the label and the command."""
    gate = Gate("default", Rules(), desk.ask)
    events: list[tuple[str, Event]] = []

    def step(id: str) -> dict[str, str]:
        """What came of each command: "" where it was let."""
        came = {}
        for n in range(100):
            input = {"command": f"./run {id} {n}"}
            try:
                gate.let("bash", True, input, lambda event: events.append((id, event)), made[id])
                came[input["command"]] = ""
            except ToolError as error:
                came[input["command"]] = str(error)
        return came

    made = {f"s{n}": Step(id=f"s{n}", do="x") for n in range(4)}
    steps = {id: desk.put(step, id) for id in made}
    for _ in range(400):
        shown = desk.until("n WORDS") + desk.until("allow it? ")
        [(label, id, n)] = re.findall(r"step (s\d) wants to run .*\n  │ ./run (\S+) (\d+)\n", shown)
        assert label == id
        desk.type("y\n" if int(n) % 3 == 0 else f"n not {id} {n}\n")
    for id, future in steps.items():
        assert future.result(10) == {
            f"./run {id} {n}": f"not allowed: the user said no: not {id} {n}" if n % 3 else ""
            for n in range(100)
        }
    asked = [(id, event.rule) for id, event in events if isinstance(event, PermissionAsked)]
    assert len(set(asked)) == len(asked) == 400
    assert all(rule.startswith(f"bash(./run {id} ") for id, rule in asked)


def test_r23_the_end_of_input_is_a_no(desk: Desk) -> None:
    asked = desk.put(desk.ask, RM)
    desk.until("allow it?")
    desk.type("\x04")
    assert asked.result(10) == Answer(choice="no", by="nobody")


def test_r23_no_answer_in_time_is_a_no(desk: Desk) -> None:
    ask = TerminalAsk(desk.out, desk.keys, stop=Stop(), seconds=0.05)
    assert ask(RM) == Answer(choice="no", by="nobody")


def test_stopping_ends_the_question_and_those_that_wait(desk: Desk) -> None:
    asked = [desk.put(desk.ask, RM) for _ in range(3)]
    desk.until("allow it?")
    desk.stop.set()
    assert {one.result(10).choice for one in asked} == {"no"}


def test_c095_without_a_terminal_nobody_is_asked() -> None:
    reading, writing = os.pipe()  # open, and never sends
    closed = io.StringIO()
    closed.close()
    shown = io.StringIO()
    with (
        os.fdopen(reading, encoding="utf-8") as pipe,
        Path(os.devnull).open(encoding="utf-8") as null,
    ):
        for keys in (pipe, null, closed, None, io.StringIO("y\n")):
            ask = TerminalAsk(Output(shown, {}), keys, stop=Stop())
            assert ask(RM) == Answer(choice="no", by="nobody")
            with pytest.raises(ToolError, match="nobody can be asked"):
                ask.inquire("", "Which one?")
    os.close(writing)
    assert shown.getvalue() == ""
    assert nobody(RM) == Answer(choice="no", by="nobody")


def test_an_agent_s_question_gets_the_user_s_words(desk: Desk) -> None:
    asked = desk.put(desk.ask.inquire, "plan", "Which \x1b[31mdatabase\x1b[0m?\nallow it?")
    shown = desk.until("answer: ")
    assert "? step plan has a question" in shown
    assert "  │ Which database?\n  │ allow it?" in shown
    desk.type("PostgreSQL 天枢\n")
    assert asked.result(10) == "PostgreSQL 天枢"


def test_the_screen_stands_still_during_a_question(desk: Desk) -> None:
    still = Lock()

    @contextmanager
    def pause() -> Iterator[None]:
        with still:
            yield

    ask = TerminalAsk(desk.out, desk.keys, stop=desk.stop, pause=pause)
    asked = desk.put(ask, RM)
    desk.until("allow it?")
    assert still.locked()
    desk.type("y\n")
    asked.result(10)
    assert not still.locked()


def test_an_edit_is_shown_in_colours_where_they_can_be() -> None:
    edit = Question(step="", tool="edit_file", text="a.py\n- old\n+ new", rule="")
    with at({"TERM": "xterm"}) as desk:
        asked = desk.put(desk.ask, edit)
        shown = desk.until("allow it?")
        assert "\x1b[31m- old\x1b[0m" in shown
        assert "\x1b[32m+ new\x1b[0m" in shown
        desk.type("y\n")
        assert asked.result(10).choice == "yes"

"""The gate that all tools pass: what "always" allows, and what is asked about all the same."""

import pytest

from agent.engine.guard import Gate
from agent.errors import ToolError
from agent.event import Event, PermissionAsked
from agent.seams import Answer, Question
from agent.settings import Rules


class User:
    """Says the same to every question, and remembers them."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.asked = answer, list[Question]()

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answer


def edit(gate: Gate, path: str) -> list[Event]:
    told = list[Event]()
    gate.let("edit_file", True, {"path": path, "old_string": "a", "new_string": "b"}, told.append)
    return told


def run(gate: Gate, command: str) -> None:
    gate.let("bash", True, {"command": command}, lambda event: None)


def test_always_spares_the_next_question_of_its_kind() -> None:
    user = User(Answer(choice="always"))
    gate = Gate("default", Rules(), user)
    assert isinstance(edit(gate, "a.py")[0], PermissionAsked)
    assert edit(gate, "b.py") == []
    assert len(user.asked) == 1


def test_what_steers_later_runs_is_asked_about_whatever_was_allowed_always() -> None:
    user = User(Answer(choice="always"))
    gate = Gate("default", Rules(), user)
    edit(gate, "a.py")
    edit(gate, ".git/hooks/pre-commit")
    edit(gate, ".git/hooks/pre-push")
    assert [question.text.partition("\n")[0] for question in user.asked] == [
        "a.py",
        ".git/hooks/pre-commit",
        ".git/hooks/pre-push",
    ]
    edit(gate, ".git/hooks/pre-commit")  # this one has been allowed by name
    assert len(user.asked) == 3


def test_a_rule_that_asks_beats_one_that_allows() -> None:
    user = User(Answer(choice="no", words="not that"))
    rules = Rules(ask=("edit_file(deploy/**)",), allow=("edit_file", "bash"))
    gate = Gate("default", rules, user)
    with pytest.raises(ToolError, match="not that"):
        edit(gate, "deploy/prod.yaml")
    assert len(user.asked) == 1


def test_what_a_rule_asks_about_is_asked_each_time_and_no_always_is_offered() -> None:
    user = User(Answer(choice="yes"))
    gate = Gate("auto", Rules(ask=("bash(git push *)",)), user)
    run(gate, "git push origin")
    run(gate, "git push origin")
    assert [question.rule for question in user.asked] == ["", ""]

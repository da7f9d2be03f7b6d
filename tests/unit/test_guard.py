"""The gate that all tools pass: what "always" allows, and what is asked about all the same."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest

from agent.engine.guard import Gate, all_guarded
from agent.errors import ToolError
from agent.event import Event, Notice, PermissionAsked
from agent.plan import Step
from agent.seams import Answer, Question
from agent.settings import Rules
from agent.shell.place import Facts
from agent.stop import Stop
from agent.tool import Context
from agent.tools.files import read_file, write_file


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


def test_one_answer_grants_each_part_of_a_chain_that_it_showed() -> None:
    user = User(Answer(choice="always"))
    gate = Gate("default", Rules(), user)
    run(gate, "git add -A && git commit -m x")
    assert [question.rule for question in user.asked] == ["bash(git add *), bash(git commit *)"]
    run(gate, "git commit -m y")
    run(gate, "git add b")
    assert len(user.asked) == 1
    run(gate, "git add b && git commit --amend && git push")
    assert len(user.asked) == 2


def test_a_shell_that_has_gone_into_a_directory_is_judged_from_there_too() -> None:
    user = User(Answer(choice="no"))
    rules = Rules(deny=("read_file(secret/key.txt)",))
    gate = Gate("default", rules, user, Facts(cwd="/w", made=frozenset({"/w/a"})))
    run(gate, "rm a")
    run(gate, "cd secret && ls")
    with pytest.raises(ToolError, match="forbids"):
        run(gate, "cat key.txt")
    with pytest.raises(ToolError, match="said no"):
        run(gate, "rm a")


def test_what_a_run_has_made_it_may_remove(tmp_path: Path) -> None:
    user = User(Answer(choice="no"))
    gate = Gate("auto", Rules(), user, Facts(cwd=str(tmp_path)))
    context = Context(cwd=tmp_path, stop=Stop())
    (tmp_path / "old").write_text("x", encoding="utf-8")
    tools = all_guarded({"write_file": write_file}, gate, lambda event: None)
    tools["write_file"].function(context, path="new", content="x")
    run(gate, "rm new")
    with pytest.raises(ToolError, match="said no"):
        run(gate, "rm old")


def test_r53_an_empty_list_lets_nothing_through(tmp_path: Path) -> None:
    user = User(Answer(choice="no"))
    gate = Gate("auto", Rules(), user, Facts(cwd=str(tmp_path)))
    bare = Step(id="a", do="x", tools=())
    with pytest.raises(ToolError, match="no tools"):
        gate.let("read_file", False, {"path": "a"}, lambda event: None, bare)
    still = Step(id="a", do="x", writes=())
    with pytest.raises(ToolError, match="changes nothing"):
        gate.let("write_file", True, {"path": "a"}, lambda event: None, still)
    with pytest.raises(ToolError, match="said no"):  # no server has been named
        gate.let("web_fetch", True, {"url": URL}, lambda event: None)
    with pytest.raises(ToolError, match="outside"):  # no further directory may be used
        Context(cwd=tmp_path, stop=Stop(), roots=()).inside(str(tmp_path.parent / "b"))


URL = "https://docs.example.org/a?b"


def test_r63_in_auto_a_server_that_nobody_has_named_is_asked_about() -> None:
    user = User(Answer(choice="no"))
    gate = Gate("auto", Rules(allow=("web_fetch(domain:ok.example)",)), user)

    def fetch(url: str, **more: str) -> None:
        gate.let("web_fetch", True, {"url": url, **more}, lambda event: None)

    gate.heard("read www.example.com, http://192.0.2.7:80/x and bücher.example")
    fetch("https://example.com/a")
    fetch("http://192.0.2.7/")
    fetch("https://BÜCHER.example./")
    fetch("https://sub.ok.example/")
    for url in (URL, "https://example.com.evil.example/", "https://a.example.com/", "https://com/"):
        with pytest.raises(ToolError, match="said no"):
            fetch(url)
    with pytest.raises(ToolError, match="said no"):
        fetch(URL, save_to="a.txt")
    assert user.asked[0].rule == "web_fetch(domain:docs.example.org)"
    gate.heard(f"more is at <{URL}>")
    fetch(URL)


def test_r63_what_a_tool_gives_back_names_servers(tmp_path: Path) -> None:
    (tmp_path / "README").write_text(f"see {URL}", encoding="utf-8")
    gate = Gate("auto", Rules(), User(Answer(choice="no")), Facts(cwd=str(tmp_path)))
    tools = all_guarded({"read_file": read_file}, gate, lambda event: None)
    tools["read_file"].function(Context(cwd=tmp_path, stop=Stop()), path="README")
    gate.let("web_fetch", True, {"url": URL}, lambda event: None)


def test_a_step_that_waits_for_an_answer_stops_no_other(tmp_path: Path) -> None:
    asked, answered = Flag(), Flag()

    def slow(question: Question) -> Answer:
        asked.set()
        answered.wait(10)
        return Answer(choice="no")

    gate = Gate("default", Rules(), slow)

    def refused() -> None:
        with suppress(ToolError):
            edit(gate, "a.py")

    waiting = Thread(target=refused)
    waiting.start()
    try:
        assert asked.wait(5)
        others = [
            Thread(target=gate.owns, args=(tmp_path,), daemon=True),
            Thread(target=run, args=(gate, "ls"), daemon=True),
            Thread(target=gate.heard, args=(URL,), daemon=True),
        ]
        for other in others:
            other.start()
        for other in others:
            other.join(5)
        assert not any(other.is_alive() for other in others)
    finally:
        answered.set()
        waiting.join(5)


def test_what_is_allowed_for_good_is_handed_to_the_settings_and_told() -> None:
    user, kept, told = (
        User(Answer(choice="always", kept=True)),
        list[tuple[str, ...]](),
        list[Event](),
    )
    gate = Gate("default", Rules(), user)

    def remember(rules: tuple[str, ...]) -> str:
        kept.append(rules)
        return "noted"

    gate.remember = remember
    for _ in range(2):
        gate.let("bash", True, {"command": "npm run build"}, told.append)
    assert kept == [("bash(npm run build *)",)]
    assert [event.text for event in told if isinstance(event, Notice)] == ["noted"]


def test_r24_an_answer_reaches_only_its_request() -> None:
    def answer(question: Question) -> Answer:
        return Answer(choice="yes" if question.text.endswith(question.step) else "no")

    gate = Gate("default", Rules(), answer)
    steps = [Step(id=f"s{n}", do="x") for n in range(4)]

    def ask(n: int) -> bool:
        step, mine = steps[n % 4], n % 3 == 0
        command = f"./run {n} {step.id if mine else 'other'}"
        try:
            gate.let("bash", True, {"command": command}, lambda event: None, step)
        except ToolError:
            return not mine
        return mine

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ask, range(400)))

"""`ts help`, `ts COMMAND --help`: a page a command, from the table that the parser is made of."""

import re
import shlex
from pathlib import Path

import pytest

from agent.cli import parsed
from agent.commands import manual
from agent.commands.front import PLACES
from agent.commands.slash import COMMANDS as SLASH
from agent.commands.slash import OTHERS
from agent.settings import MODES
from tests.e2e.screen import chatting
from tests.e2e.ts import Ts

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = {name for group in manual.FLAGS.values() for names, _ in group for name in names.split()}


@pytest.mark.parametrize("command", list(manual.PAGES))
def test_each_command_has_a_page_with_usage_and_only_its_flags(ts: Ts, command: str) -> None:
    told = ts.here("help", command).said
    assert ts.here(command, "--help").said == told
    assert f"usage: ts {command}" in told
    page = manual.PAGES[command]
    shown = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", told, re.MULTILINE))
    assert shown == {*page.flags, *manual.EVERYWHERE}
    assert all(len(line) <= 100 for line in told.splitlines() if "ts " not in line)


def test_every_command_that_can_be_done_has_a_page_and_every_page_a_command() -> None:
    assert set(manual.PAGES) == set(PLACES) - {""}
    assert not set(manual.PAGES) & set(manual.LATER)
    assert set(manual.MODES) == set(MODES)
    for page in manual.PAGES.values():
        assert set(page.flags) <= FLAGS
        for usage in page.usage:
            assert usage.startswith("ts ")


def test_the_examples_of_a_page_are_read_by_the_command_line() -> None:
    for name, page in manual.PAGES.items():
        for example, _ in page.examples:
            words = shlex.split(example.partition(" > ")[0])
            if words[0] == "ts":
                assert parsed(words[1:]).command == name


def test_help_alone_lists_all_commands_and_flags(ts: Ts) -> None:
    told = ts.here("help").said
    assert ts.here("--help").said == told == ts.here("-h").said
    for name in manual.COMMANDS:
        assert re.search(rf"(?m)^  {name}\b", told)
    for group in manual.FLAGS.values():
        for names, _ in group:
            assert manual.long(names) in told


def test_what_documents_name_is_there() -> None:
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        typed = re.findall(r"(?:^|`|\$ )((?:ts |--)[^`\n#|]*)", text, re.MULTILINE)
        flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(typed))
        assert flags or path.name != "README.md"
        assert set(flags) <= FLAGS | {"--help"}, path
        named = set(re.findall(r"(?:^|`|\$ |; )ts ([a-z]+)", text, re.MULTILINE))
        assert named <= set(manual.COMMANDS), path


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {name for name in manual.COMMANDS if f"ts {name}" not in text} == set()


def test_a_command_that_is_none_gets_the_nearest_and_a_task_goes_to_the_model(ts: Ts) -> None:
    ran = ts.here("help", "pln")
    assert ran.code == 2
    assert "did you mean 'plan'?" in ran.err
    assert "`ts plan`" in ts.here("plna").err
    for later in manual.LATER:
        assert "not in this version" in ts.here(later, "--help").err
    assert parsed(["help", "me", "mend", "the", "tests"]).command == ""
    assert parsed(["-p", "help"]).command == ""
    assert parsed(["--", "plna"]).words == ["plna"]
    assert parsed(["run", "x", "--", "--help"]).command == "run"


def test_a_command_of_the_chat_is_told_inside_and_outside(ts: Ts) -> None:
    for name in (*SLASH, *OTHERS):
        assert ts.here("help", f"/{name}").said.startswith("/")
    assert "did you mean" in ts.here("help", "/compat").err
    ts.model = ts.script("hi")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("/help compact", "/compact: send less of the conversation")
        screen.says("/help fix-tests", "/fix-tests: Run the test suite")
        screen.says(
            "/help", *(f"/{name} " for name in [*SLASH][-30:])
        )  # what is on the screen then
        assert screen.leaves() == 0


def test_skills_are_listed_for_a_script(ts: Ts) -> None:
    lines = ts.here("skills", "--json").out.splitlines()
    assert any('"name":"check"' in line for line in lines)

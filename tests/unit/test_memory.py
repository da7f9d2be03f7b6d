from pathlib import Path

import pytest

from agent.store import memory
from agent.store.memory import MOST, MOST_OF_USER


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.config/tianshu").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "repo/.agent").mkdir(parents=True)
    return tmp_path / "repo"


def told(cwd: Path, home: Path) -> tuple[str, list[str]]:
    notices: list[str] = []
    return memory.told(cwd, home, notices), notices


def notes(count: int) -> str:
    return "".join(f"- note ü {number}\n" for number in range(count))


def test_what_is_known_is_the_user_s_and_the_project_s(cwd: Path, home: Path) -> None:
    assert told(cwd, home) == ("", [])
    memory.project_path(cwd).write_text("\ufeff- one\n- two\n", encoding="utf-8")
    assert told(cwd, home) == ("- one\n- two", [])
    memory.user_path(home).write_text("- tabs\n", encoding="utf-8")
    text, notices = told(cwd, home)
    assert not notices
    assert text == (
        "From ~/.config/tianshu/memory.md:\n\n- tabs\n\nFrom .agent/memory.md:\n\n- one\n- two"
    )


def test_of_much_the_newest_is_read_and_what_is_left_out_is_counted(cwd: Path, home: Path) -> None:
    memory.project_path(cwd).write_text(notes(2000), encoding="utf-8")
    memory.user_path(home).write_text(notes(1000), encoding="utf-8")
    user, project = memory.memories(cwd, home)
    for found, count, most in ((user, 1000, MOST_OF_USER), (project, 2000, MOST)):
        lines = found.text.split("\n")
        assert lines == [f"- note ü {number}" for number in range(found.left, count)]
        assert most - 16 < len(found.text.encode()) <= most
    text, notices = told(cwd, home)
    assert f"({project.left} older notes are left out)\n- note ü {project.left}\n" in text
    assert [f"{each.left} older ones are left out" in told for each, told in zip(
        (user, project), notices, strict=True
    )] == [True, True]  # fmt: skip


def test_a_line_that_is_longer_than_all_is_cut(cwd: Path, home: Path) -> None:
    memory.project_path(cwd).write_text("- a\n- " + "ü" * MOST, encoding="utf-8")
    (found,) = memory.memories(cwd, home)
    assert found.text == "- " + "ü" * (MOST // 2 - 1)
    assert found.left == 1


def test_what_a_repository_s_link_leads_to_is_not_read(cwd: Path, home: Path) -> None:
    secret = home / "secret"
    secret.write_text("key", encoding="utf-8")
    memory.project_path(cwd).symlink_to(secret)
    text, notices = told(cwd, home)
    assert text == ""
    assert len(notices) == 1
    assert notices[0].startswith("passed over: ")
    assert "symbolic link, and could lead anywhere" in notices[0]
    memory.user_path(home).symlink_to(secret)  # the user's own may be kept elsewhere
    assert "key" in told(cwd, home)[0]

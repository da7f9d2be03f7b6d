"""Which directories the user trusts: by place, device, inode and what would count."""

import json
import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.store import trust
from agent.store.settingsfile import environment
from agent.store.trust import FILE, Found, look, remember

ENV = {"PATH": os.defpath}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    return place


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    place = tmp_path / "repo"
    written(place, ".agent/settings.yaml", "permission_mode: accept-edits\n")
    return place


def written(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def seen(repo: Path, home: Path) -> Found:
    return look(repo.resolve(), home, ENV)


def names(found: Found) -> list[str]:
    return [item.name for item in found.items]


def test_what_would_count_is_found_and_nothing_else(repo: Path, home: Path) -> None:
    written(
        repo, ".agent/settings.local.yaml", "permissions: {deny: [bash]}\npermission_mode: plan\n"
    )
    written(repo, ".agent/skills/a.yaml", "steps: [{id: a, run: ls}]\n")
    written(repo, ".agent/skills/notes.txt", "")
    written(repo, ".claude/skills/b/SKILL.md", "---\nname: b\ndescription: x\n---\n")
    written(repo, ".agents/skills/c/SKILL.md", "no front matter: it can't be loaded, now")
    written(repo, ".agent/mcp.json", "{}")
    written(repo, ".env", "A=1\nTS_MODEL=x/y\n")
    written(repo, "AGENTS.md", "obey")
    assert names(seen(repo, home)) == [
        ".agent/settings.yaml",
        ".agent/mcp.json",
        ".env TS_MODEL",
        ".claude/skills/b/SKILL.md",
        ".agents/skills/c/SKILL.md",
        ".agent/skills/a.yaml",
    ]


def test_a_directory_with_nothing_that_counts_is_not_asked_about(repo: Path, home: Path) -> None:
    written(repo, ".agent/settings.yaml", "permissions: {deny: [bash], ask: [web_fetch]}\n")
    written(repo, "AGENTS.md", "obey")
    assert seen(repo, home).standing == "empty"


@pytest.mark.parametrize("said", [True, False])
def test_what_the_user_says_is_kept_outside_for_them_alone(
    said: bool, repo: Path, home: Path
) -> None:
    assert seen(repo, home).standing == "new"
    remember(seen(repo, home), home, trusted=said)
    assert seen(repo, home).standing == ("trusted" if said else "refused")
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((home / FILE).parent.stat().st_mode) == 0o700
    assert [path.name for path in repo.iterdir()] == [".agent"]


@pytest.mark.parametrize("said", [True, False])
def test_r5_any_change_of_what_counts_asks_again_and_is_named(
    said: bool, repo: Path, home: Path
) -> None:
    written(repo, ".agent/skills/old.yaml", "steps: []\n")
    remember(seen(repo, home), home, trusted=said)
    written(repo, ".agent/settings.yaml", "permission_mode: accept-edits \n")
    written(repo, ".agent/skills/a.yaml", "steps: [{id: a, run: ls}]\n")
    (repo / ".agent/skills/old.yaml").unlink()
    found = seen(repo, home)
    assert found.standing == ("changed" if said else "new")
    assert found.changes == [".agent/settings.yaml has changed", ".agent/skills/a.yaml is new"]


def test_what_has_gone_and_notes_that_change_ask_nothing(repo: Path, home: Path) -> None:
    written(repo, ".agent/mcp.json", "{}")
    written(repo, "AGENTS.md", "one")
    remember(seen(repo, home), home, trusted=True)
    (repo / ".agent/mcp.json").unlink()
    written(repo, "AGENTS.md", "two")
    assert seen(repo, home).standing == "trusted"


def test_r5_a_directory_in_another_s_place_asks_again(repo: Path, home: Path) -> None:
    remember(seen(repo, home), home, trusted=True)
    repo.rename(repo.with_name("old"))
    written(repo, ".agent/settings.yaml", "permission_mode: accept-edits\n")  # the same bytes
    assert seen(repo, home).standing == "new"


def test_r5_a_link_to_a_trusted_directory_is_that_directory_and_one_elsewhere_is_not(
    repo: Path, home: Path, tmp_path: Path
) -> None:
    remember(seen(repo, home), home, trusted=True)
    link = tmp_path / "link"
    link.symlink_to(repo)
    assert seen(link, home).standing == "trusted"
    other = tmp_path / "other"
    written(other, ".agent/settings.yaml", "permission_mode: accept-edits\n")
    link.unlink()
    link.symlink_to(other)
    assert seen(link, home).standing == "new"


def test_r5_a_worktree_that_names_a_trusted_repository_is_not_that_one(
    repo: Path, home: Path, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q", repo], check=True, timeout=20)
    remember(seen(repo, home), home, trusted=True)
    fake = tmp_path / "fake"
    written(fake, ".git", f"gitdir: {repo}/.git\n")
    written(fake, ".agent/settings.yaml", "permission_mode: accept-edits\n")
    assert seen(fake, home).standing == "new"


def test_programs_that_git_s_settings_name_count(repo: Path, home: Path) -> None:
    subprocess.run(["git", "init", "-q", repo], check=True, timeout=20)
    written(repo, "more", '[filter "Big.One"]\n\tclean = ./run\n[user]\n\tname = x\n')
    for name, value in {"core.fsmonitor": "./run", "include.path": "../more"}.items():
        subprocess.run(["git", "-C", repo, "config", name, value], check=True, timeout=20)
    hook = repo / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n", encoding="utf-8")
    hook.chmod(0o755)
    found = [item.name for item in seen(repo, home).items if item.kind == "git"]
    assert found == ["core.fsmonitor", "filter.Big.One.clean", ".git/hooks/pre-commit"]
    remember(seen(repo, home), home, trusted=True)
    written(repo, "more", '[filter "Big.One"]\n\tclean = ./other\n')
    assert seen(repo, home).changes == ["filter.Big.One.clean has changed"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"folders": {"/": {"trusted": "yes"}}}', "\0" * 99]
)
def test_a_file_that_can_t_be_read_trusts_nothing_and_is_named(
    text: str, repo: Path, home: Path
) -> None:
    remember(seen(repo, home), home, trusted=True)
    (home / FILE).write_text(text, encoding="utf-8")
    found = seen(repo, home)
    assert found.standing == "new"
    assert FILE in found.fault


def test_answers_from_many_at_once_are_all_kept(home: Path, tmp_path: Path) -> None:
    repos = [tmp_path / f"repo{number}" for number in range(12)]
    for repo in repos:
        written(repo, ".agent/mcp.json", "{}")
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda repo: remember(seen(repo, home), home, trusted=True), repos))
    assert {seen(repo, home).standing for repo in repos} == {"trusted"}
    assert len(json.loads((home / FILE).read_bytes())["folders"]) == 12
    assert {path.name for path in (home / FILE).parent.iterdir()} == {"trust.json", "trust.lock"}


def test_a_lock_that_is_never_freed_is_not_waited_for_for_ever(home: Path) -> None:
    lock = home / "a.lock"
    with trust.locked(lock), pytest.raises(BlockingIOError), trust.locked(lock, seconds=0.1):
        pass


def test_any_name_can_stand_there(home: Path, tmp_path: Path) -> None:
    repo = tmp_path / os.fsdecode(b"r\xff\x1b[31m\n")
    written(repo, ".agent/skills/x\x1b]0;y\x07\n.yaml", "steps: []\n")
    found = seen(repo, home)
    remember(found, home, trusted=True)
    assert seen(repo, home).standing == "trusted"
    assert all(name.isprintable() for name in names(found))


def test_at_home_the_user_s_own_skills_are_no_directory_s(home: Path) -> None:
    written(home, ".agents/skills/a/SKILL.md", "---\nname: a\ndescription: x\n---\n")
    assert look(home.resolve(), home, environment()).standing == "empty"

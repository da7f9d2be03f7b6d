"""Rules that are allowed for good are in the user's settings, and all else is as it was."""

import stat
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.store.allow import FILE, allow
from agent.store.settingsfile import load

ASIDE = "# mine\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    return tmp_path / "home"


def allowed(home: Path) -> tuple[str, ...]:
    found = load(home.parent / "repo", home=home).layered.settings
    return found.permissions.allow


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ()),
        ("# mine\n", ()),
        ("# mine\nmax_workers: 2", ()),
        ("max_workers: 2\n# mine\n", ()),
        ("permissions:\n  # mine\n  deny: [bash(rm *)]\n", ()),
        ("permissions:\n  allow:\n  - a # mine\n  - b\nmax_workers: 2\n", ("a", "b")),
        ("permissions:\n    allow:\n        # mine\n        - 'a'\n", ("a",)),
        ("permissions: {allow: [a, b]} # mine\n", ("a", "b")),
        ("permissions: {deny: [a]} # mine\n", ()),
        ("permissions: {} # mine\n", ()),
        ("permissions:\n  allow: [] # mine\n", ()),
        ('{"permissions": {"allow": ["a"]}, "max_workers": 2}', ("a",)),
        ('{"max_workers": 2}', ()),
        ("\ufeff# mine\r\nmax_workers: 2\r\n", ()),
    ],
)
def test_a_rule_is_added_whatever_form_the_file_has(
    text: str, rules: tuple[str, ...], home: Path
) -> None:
    file = home / FILE
    if text:
        file.parent.mkdir(parents=True)
        file.write_bytes(text.encode())
    new = ("bash(npm run *)", 'bash(echo "a: #b" *)')
    assert allow(home, new) == file
    allow(home, new)  # they are there already
    assert set(allowed(home)) == {*rules, *new}
    assert len(allowed(home)) == len(rules) + 2
    after = file.read_bytes().decode()
    assert ("# mine" in after) == ("# mine" in text)
    assert ("max_workers" in after) == ("max_workers" in text)
    assert stat.S_IMODE(file.stat().st_mode) == (0o600 if not text else file.stat().st_mode & 0o777)
    assert [path.name for path in file.parent.iterdir()] == ["settings.yaml"]


@pytest.mark.parametrize(
    "text", ["- a\n", "a: [\n", "permissions: no\n", "permissions:\n  allow: a\n"]
)
def test_a_file_without_a_place_for_it_stays_as_it_is(text: str, home: Path) -> None:
    file = home / FILE
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"settings\.yaml"):
        allow(home, ("bash(ls *)",))
    assert file.read_text(encoding="utf-8") == text


def test_a_link_to_the_file_stays_one(home: Path) -> None:
    own = home / "dotfiles/settings.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("max_workers: 2\n", encoding="utf-8")
    (home / FILE).parent.mkdir(parents=True)
    (home / FILE).symlink_to(own)
    allow(home, ("a",))
    assert (home / FILE).is_symlink()
    assert allowed(home) == ("a",)

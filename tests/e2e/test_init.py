"""`ts init`: an AGENTS.md without a model, from what a project shows."""

import json
import os

from tests.e2e.ts import Ts, call, calling

PYPROJECT = """\
[project]
name = "tally"
description = "Adds up what was spent"
[tool.ruff]
line-length = 88
[tool.pytest.ini_options]
"""


def project(ts: Ts) -> None:
    ts.write("pyproject.toml", PYPROJECT)
    ts.write("tally/__init__.py", '"""The sums, and nothing else."""\n')
    ts.write("tests/test_a.py", "import pytest\n")
    ts.write("data/a.sql", "select 1;\n")
    ts.write("node_modules/x/README.md", "Not ours at all, it was installed.\n")
    ts.write("uv.lock", "")
    ts.write("CONTRIBUTING.md", "x\n")


def test_it_says_what_the_project_is_its_commands_directories_and_conventions(ts: Ts) -> None:
    project(ts)
    for name in ("pytest", "ruff"):
        ts.write(f".venv/bin/{name}", "#!/bin/sh\ntouch ran\n").chmod(0o755)
    ran = ts("init")
    assert ran.code == 0, ran
    text = (ts.cwd / "AGENTS.md").read_text(encoding="utf-8")
    assert ran.out == text
    assert text.startswith("# tally\n\nAdds up what was spent.\n\nMade with Python.\n")
    for line in (
        "- Install: `uv sync`",
        "- Test: `.venv/bin/pytest -q`",
        "- Lint: `.venv/bin/ruff check .`",
        "- `tally/`: The sums, and nothing else.",
        "- `tests/`: tests",
        "- `data/`: SQL files",
        "- Ruff: as `pyproject.toml` says",
        "- Lines of Python have at most 88 characters",
        "- Read `CONTRIBUTING.md` before larger changes",
    ):
        assert f"{line}\n" in text
    assert "node_modules" not in text
    assert not (ts.cwd / "ran").exists()


def test_a_readme_is_told_by_its_first_prose_and_a_package_by_its_scripts(ts: Ts) -> None:
    ts.write(
        "README.md",
        "<h1 align=center>x</h1>\n\n[![badge](https://a)](https://b)\n\n# Tool\n\n"
        "A [tool](https://c) that draws\x1b[31m graphs \u202eof builds. More here.\n\n- list\n",
    )
    package = {"name": "drawn", "scripts": {"build": "tsc", "test": "vitest"}}
    ts.write("package.json", json.dumps(package))
    ts.write("pnpm-lock.yaml", "")
    text = ts.here("init").said
    assert text.startswith("# drawn\n\nA tool that draws")
    assert "- Install: `pnpm install`\n- Build: `pnpm run build`\n" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_notes_that_are_there_are_not_touched_and_what_they_lack_is_told(ts: Ts) -> None:
    project(ts)
    ts.write("CLAUDE.md", "Run `uv sync`. The sums are in tally/.\n")
    ran = ts.here("init")
    assert ran.code == 0
    assert "CLAUDE.md is there, so nothing is written" in ran.err
    assert "- `data/`: SQL files" in ran.out
    assert "uv sync" not in ran.out
    assert "`tally/`" not in ran.out
    assert sorted(path.name for path in ts.cwd.glob("*.md")) == ["CLAUDE.md", "CONTRIBUTING.md"]
    assert (ts.cwd / "CLAUDE.md").read_text(encoding="utf-8").startswith("Run")
    (ts.cwd / "CLAUDE.md").unlink()
    ts.here("init")
    again = ts.here("init")
    assert (again.code, again.out) == (0, "")
    assert "speaks of all" in again.err


def test_a_link_in_its_place_is_not_followed(ts: Ts) -> None:
    (ts.cwd / "AGENTS.md").symlink_to(ts.home / "elsewhere.md")
    assert ts.here("init").code == 2
    assert not (ts.home / "elsewhere.md").exists()


def test_where_nothing_can_be_written_it_says_so(ts: Ts) -> None:
    if os.getuid():
        ts.cwd.chmod(0o500)
        ran = ts.here("init")
        ts.cwd.chmod(0o700)
        assert ran.code == 1
        assert "AGENTS.md" in ran.err


def test_an_empty_directory_gets_a_place_to_say_what_it_is(ts: Ts) -> None:
    assert "TODO: say in a sentence what project is." in ts.here("init").said


def test_with_a_model_the_skill_writes_the_notes_and_they_have_to_be_there(ts: Ts) -> None:
    written = calling(call("write_file", path="AGENTS.md", content="# x\n"))
    ts.model = ts.script(written, "written", "nothing", "nothing")
    ran = ts.here("run", "init", "-y", "--allowed-tools", "write_file(AGENTS.md)")  # asks else
    assert ran.code == 0, ran
    assert (ts.cwd / "AGENTS.md").read_text(encoding="utf-8") == "# x\n"
    (ts.cwd / "AGENTS.md").unlink()
    ts.model = ts.script("done", "done", "done", "done")
    assert ts.here("run", "init", "-y").code == 1

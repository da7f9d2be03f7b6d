"""The built-in skills, each from its command line to its end, in real little repositories."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.plan import checked
from agent.store.skills import Skill, builtin, load_file, match
from agent.views.graph import at_once
from tests.e2e.ts import Ran, Reply, Ts, call, calling

WHO = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org"} | {
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
}
RUSTUP = Path.home() / ".rustup"  # where cargo finds itself, whatever HOME is
SKILLS = [load_file(path, "builtin") for path in sorted(builtin().glob("*.yaml"))]
NAMES = [skill.name for skill in SKILLS]


@dataclass
class Project:
    """A user's project, and what they call in it."""

    ts: Ts
    last: list[dict[str, Any]] = field(default_factory=list)  # events of the last run

    @property
    def path(self) -> Path:
        return self.ts.cwd

    def git(self, *words: str) -> str:
        ran = subprocess.run(
            ["git", *words],
            cwd=self.path,
            env=self.ts.environment({}),
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        return ran.stdout.strip()

    def tool(self, name: str, script: str) -> None:
        """A program of the project's own environment."""
        path = self.ts.write(f".venv/bin/{name}", f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def commit(self, message: str = "Begin", **files: str) -> str:
        """Write files, `__` in a name being a dot, and commit all that there is."""
        for name, text in files.items():
            self.ts.write(name.replace("__", "."), text)
        if not (self.path / ".git").exists():
            self.git("init", "-q", "-b", "main")
            self.ts.write(".git/info/exclude", ".venv/\n")
        self.git("add", "-A", ".", ":!.agent")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *words: str, replies: tuple[Reply, ...] = (), alone: bool = False) -> Ran:
        """`ts run …`; `alone`: as a process of its own. Without replies a model says nothing."""
        before = {*self.path.glob(".agent/runs/*")}
        model = self.ts.script(*replies)
        line = ("run", *words, "--model", model, "-y", "--trust", "--output-format", "json")
        ran = self.ts(*line) if alone else self.ts.here(*line)
        logs = {*self.path.glob(".agent/runs/*")} - before
        self.last = [json.loads(line) for log in logs for line in log.read_bytes().splitlines()]
        return ran

    def told(self, step: str) -> str:
        """The text of a step."""
        ends = [one for one in self.last if one["type"] == "step.finished" and one["step"] == step]
        return str(ends[-1]["summary"])

    def tried(self, step: str) -> list[tuple[bool, str]]:
        """What came of a step's calls, and of its check: whether it went well, and the words."""
        return [
            (one["ok"], one["output"])
            for one in self.last
            if one["type"] == "tool.finished" and one["step"] == step and one["name"] != "report"
        ]

    @property
    def calls(self) -> int:
        """How often a model was called."""
        return sum(one["type"] == "model.called" for one in self.last)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    path = f"{tmp_path / 'bin'}:{os.environ.get('PATH', os.defpath)}"  # noqa: TID251 - git's place
    env = {**WHO, "PATH": path, "RUSTUP_HOME": str(RUSTUP)}
    return Project(Ts(home=home, cwd=cwd, patch=monkeypatch, env=env))


def statuses(ran: Ran) -> dict[str, str]:
    return {id: step["status"] for id, step in ran.json["steps"].items()}


def says(step: str, summary: str, *, status: str = "done", **more: Any) -> dict[str, Any]:
    return calling(call("report", status=status, summary=summary, **more), **{"for": step})


def does(step: str, command: str) -> dict[str, Any]:
    return calling(call("bash", command=command), **{"for": step})


# -- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("skill", SKILLS, ids=NAMES)
def test_a_built_in_skill_can_run_and_its_commands_are_bash(skill: Skill) -> None:
    assert checked(skill.plan) == skill.plan
    assert skill.plan.description
    assert skill.plan.goal
    for step in skill.plan.steps:
        for text in filter(None, (step.run, step.verify)):
            ran = subprocess.run(["bash", "-n", "-c", text], check=False, capture_output=True)
            assert (ran.returncode, ran.stderr) == (0, b"")
        unknown = set(re.findall(r"\$\w+", step.do or "")) - {"$ARGUMENTS"}
        assert not unknown, "nothing would be put in its place"


def test_there_are_the_ten() -> None:
    first = ["check", "code-review", "commit", "document", "explain"]
    assert [*first, "fix-tests", "init", "refactor", "security-review", "upgrade-deps"] == NAMES


@pytest.mark.parametrize(
    ("name", "width"),
    {"check": 4, "code-review": 3, "security-review": 3, "upgrade-deps": 2, "document": 2}.items(),
)
def test_what_only_looks_runs_beside_each_other(name: str, width: int) -> None:
    assert at_once(SKILLS[NAMES.index(name)].plan) == width


PHRASES = [(phrase, skill.name) for skill in SKILLS for phrase in skill.plan.match]


@pytest.mark.parametrize(("phrase", "name"), PHRASES, ids=[phrase for phrase, _ in PHRASES])
def test_a_phrase_starts_its_own_skill(phrase: str, name: str) -> None:
    for said in (phrase, f"Please {phrase}!", f"{phrase.upper()}."):
        found = match(said, SKILLS)
        assert found
        assert (found.skill.name, found.words) == (name, "")


@pytest.mark.parametrize(
    "said",
    """\
    review the last commit
    review my changes to the parser
    review the changes of alice
    review the code
    don't commit my changes
    commit and push my changes
    commit the changes?
    amend the last commit
    explain the code
    explain the error
    explain this
    fix the failing tests in tests/unit
    fix the failing test
    how do I fix the failing tests?
    why do the tests fail
    write a test
    run the tests
    run the linter
    check the project
    check my code
    run the checks in CI
    document the code
    update the documentation
    document this function
    refactor the code
    refactor this
    update the dependencies
    upgrade the dependencies of the frontend
    upgrade pytest
    is this secure
    review the security of the login
    check this project""".splitlines(),
    ids=str.strip,
)
def test_a_message_that_may_want_something_else_starts_none(said: str) -> None:
    assert match(said.strip(), SKILLS) is None


# -- check --------------------------------------------------------------------------------------

ALL_SET_UP = "[tool.ruff.format]\n[tool.mypy]\nfiles = 'a.py'\n[tool.pytest.ini_options]\n"


def test_check_needs_no_model_and_tells_what_is_not_set_up(project: Project) -> None:
    project.ts.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    project.tool("pytest", 'read -t 5 line; echo "$CI $NO_COLOR ${line:-no input}"; echo 3 passed')
    ran = project.ts("-p", "--trust", "Run all checks, please.")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "format: not set up, or its program is not installed",
            "lint: not set up, or its program is not installed",
            "types: not set up, or its program is not installed",
            "tests: passed: .venv/bin/pytest -q",
        ],
    )
    ends = [one for one in project.ts.log() if one["type"] == "tool.finished"]
    assert "true 1 no input\n3 passed" in [one["output"].strip() for one in ends]


def test_check_runs_all_four_at_once(project: Project) -> None:
    project.ts.write("pyproject.toml", ALL_SET_UP)
    meet = 'touch "$1.here"; for _ in {1..100}; do [ $(ls *.here | wc -l) = %d ] && exit 0; '
    for name in ("pytest", "mypy"):
        project.tool(name, "set -- " + name + "; " + meet % 4 + "sleep 0.1; done; exit 1")
    project.tool("ruff", meet % 4 + "sleep 0.1; done; exit 1")
    ran = project.run("check")
    assert (ran.code, {*statuses(ran).values()}) == (0, {"done"})


def test_check_fails_with_the_words_of_the_tools_that_did(project: Project) -> None:
    project.ts.write("pyproject.toml", ALL_SET_UP)
    project.tool("ruff", '[ "$1" = format ] || { echo "a.py:1: E1 $#" >&2; exit 7; }')
    project.tool("mypy", "for n in {1..5000}; do echo a.py:$n: wrong; done; exit 1")
    project.tool("pytest", "echo 1 passed")
    ran = project.run("check")
    answer = ran.json["result"]
    assert (ran.code, statuses(ran)) == (
        1,
        {"format": "done", "lint": "failed", "types": "failed", "tests": "done", "report": "done"},
    )
    assert "== lint: .venv/bin/ruff check .\na.py:1: E1 2\n" in answer
    assert "a.py:100: wrong\n" in answer
    assert "a.py:101: wrong\n" not in answer
    assert "a.py:5000: wrong\n" in answer
    assert "lines left out" in answer
    assert len(answer) < 20_000
    assert answer.endswith(
        "format: passed: .venv/bin/ruff format --check .\nlint: FAILED: .venv/bin/ruff check .\n"
        "types: FAILED: .venv/bin/mypy\ntests: passed: .venv/bin/pytest -q\n\n"
        "lint: failed: exit code 7\ntypes: failed: exit code 1"
    )


def test_check_of_nothing_is_no_success(project: Project) -> None:
    ran = project.run("check")
    assert ran.code == 1
    assert ran.json["result"].startswith("No check was found that could be run here.")


def test_check_never_waits_for_ever() -> None:
    steps = SKILLS[NAMES.index("check")].plan.steps
    assert all(step.timeout and step.timeout <= 1800 for step in steps if step.id != "report")


def test_check_does_not_build_twice_in_one_directory(project: Project) -> None:
    project.ts.write("pom.xml", "<project/>")
    project.ts.write("mvnw", '#!/bin/bash\necho "$@" >>calls\n').chmod(0o755)
    ran = project.run("check")
    assert ran.code == 0
    assert "types: part of the tests\ntests: passed: ./mvnw -q test" in ran.json["result"]
    assert (project.path / "calls").read_text("utf-8") == "-q test\n"


UNIT = "import unittest\nfrom a import add\nclass T(unittest.TestCase):\n    def test_add(self):\n"
PYTHON = {
    "setup.py": "",
    "a.py": "def add(a, b):\n    return a - b\n",
    "tests/test_a.py": UNIT + "        self.assertEqual(add(1, 2), 3)\n",
}
LINTED = "lint:\n\tcc -Wall -Werror -fsyntax-only t.c\n"
LANGUAGES: dict[str, tuple[str, dict[str, str], str, str, str]] = {
    "python": ("python3", PYTHON, "", "tests", "AssertionError: -1 != 3"),
    "node": (
        "node npm",
        {
            "package.json": '{"scripts": {"test": "node t.js", "lint": "node --check t.js"}}',
            "t.js": "require('assert').equal(1 + 2, 4)\n",
        },
        "lint",
        "tests",
        "AssertionError",
    ),
    "rust": (
        "cargo",
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "#[test]\nfn adds() {\n    assert_eq!(1 + 2, 4);\n}\n",
        },
        "types",
        "tests",
        "test adds ... FAILED",
    ),
    "java": (
        "java make",
        {
            "Makefile": "test:\n\tjava A.java\n",
            "A.java": "class A { public static void main(String[] a) { int[] b = {}; b[0] = 1; } }",
        },
        "",
        "tests",
        "ArrayIndexOutOfBoundsException",
    ),
    "c": (
        "cc make",
        {
            "Makefile": "test: t\n\t./t\nt: t.c\n\tcc -o t t.c\n" + LINTED,
            "t.c": "int main(void) { int unused; return 0; }\n",
        },
        "tests",
        "lint",
        "unused",
    ),
}


def missing(language: str) -> str:
    tools = [tool for tool in LANGUAGES[language][0].split() if not shutil.which(tool)]
    return ", ".join(tools) if language != "python" else ""


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(bool(missing(name)), reason=f"no {missing(name)}")
        )
        for name in LANGUAGES
    ],
)
def test_check_knows_the_tools_of(language: str, project: Project) -> None:
    _, files, good, bad, words = LANGUAGES[language]
    for name, text in files.items():
        project.ts.write(name, text)
    ran = project.run("check")
    answer = ran.json["result"]
    assert (ran.code, statuses(ran)[bad]) == (1, "failed")
    assert not good or f"{good}: passed: " in answer
    assert f"{bad}: FAILED: " in answer
    assert words in answer
    assert "\x1b" not in answer


# -- code-review --------------------------------------------------------------------------------

REVIEW = (
    does("correctness", 'cat "$TS_OUTPUTS_CHANGE"'),
    says("correctness", "`a.py:1` is wrong"),
    says("security", "none"),
    says("tests", "none"),
    says("review", "1. `a.py:1` is wrong. Not fit to merge."),
)


def test_a_review_of_the_working_tree_has_all_that_is_not_committed(project: Project) -> None:
    project.commit(a__py="one\n", gone__py="old\n", moved__py="same\n" * 9, sub="x")
    project.git("config", "color.ui", "always")
    project.git("config", "diff.noprefix", "true")
    project.git("config", "diff.external", "false")
    project.git("mv", "moved.py", "to here.py")
    project.git("rm", "-q", "gone.py")
    project.ts.write("a.py", "two\n")
    (project.path / "b.bin").write_bytes(b"\0\1\2")
    project.git("add", "b.bin")
    project.ts.write("new é.py", "SECRET = 1\n")
    ran = project.run("code-review", replies=REVIEW, alone=True)
    assert (ran.code, ran.json["result"]) == (0, "1. `a.py:1` is wrong. Not fit to merge.")
    text, diff = project.told("change"), project.tried("correctness")[0][1]
    for told in (text, diff):
        for line in ("-one", "+two", "rename to to here.py", "deleted file mode", "Binary files"):
            assert line in told
        assert "--- a/a.py\n+++ b/a.py\n" in told
        assert "SECRET" not in told, "what is not yet in git is read by whom the rules let"
    assert "new é.py\n" in text
    assert ".agent" not in text
    assert "4 files changed, 1 new" in text


def test_a_review_of_nothing_asks_no_model(project: Project) -> None:
    project.commit(a="one\n")
    for words in ((), ("a",), ("HEAD..HEAD",)):
        ran = project.run("code-review", *words)
        assert (ran.code, project.calls) == (0, 0)
        assert ran.json["result"].startswith("There is nothing to review.")
    ran = project.ts("-p", "--trust", "Review my changes.", "--model", project.ts.script())
    assert (ran.code, ran.out.splitlines()[0]) == (0, "There is nothing to review.")


def test_a_commit_a_merge_and_a_range_are_reviewed(project: Project) -> None:
    first = project.commit(a="one\n")
    project.git("switch", "-q", "-c", "side")
    project.commit("On the side", side="s\n")
    project.git("switch", "-q", "main")
    project.commit('Second: it\'s "two"', a="two\n")
    project.git("merge", "-q", "--no-edit", "side")
    for words, there, not_there in (
        ((first,), "+one", "+two"),
        (("HEAD~1",), 'Second: it\'s "two"', "+s"),
        (("HEAD",), "+s", "+two"),
        (("HEAD~1..HEAD",), "On the side", "+two"),
        (("HEAD~2..HEAD", "a"), "+two", "+s"),
    ):
        ran = project.run("code-review", *words, replies=REVIEW)
        assert (ran.code, project.calls) == (0, 5), words
        assert there in project.told("change")
        assert not_there not in project.told("change").splitlines(), words


@pytest.mark.parametrize(
    "words",
    [
        ("HEAD~1..HEDA",),
        ("mian",),
        (
            "my",
            "file",
        ),
        ("../x",),
        ("a", "b"),
    ],
    ids=" ".join,
)
def test_what_can_t_be_reviewed_is_named_and_nobody_looks_at_it(
    words: tuple[str, ...], project: Project
) -> None:
    project.commit(a="one\n")
    project.commit(a="two\n")
    project.ts.write("a", "three\n")
    ran = project.run("code-review", *words)
    assert ran.code == 1
    assert {"done"} & {*statuses(ran).values()} == set()
    wrong = words[1] if words[0] == "a" else words[0]
    assert f"'{wrong}' is no " in project.tried("change")[0][1]


def test_outside_of_git_there_is_nothing_to_review_or_commit(project: Project) -> None:
    for skill, step in (("code-review", "change"), ("commit", "changes")):
        ran = project.run(skill)
        assert (ran.code, project.calls) == (1, 0)
        assert "not a git repository" in project.tried(step)[0][1]


def test_paths_with_blanks_and_deleted_ones_can_be_named(project: Project) -> None:
    project.commit(**{"my file": "one\n", "a": "x\n", "sub/b": "y\n"})
    project.ts.write("my file", "two\n")
    project.ts.write("sub/new", "z\n")
    project.git("rm", "-q", "a")
    for name, there in (("my file", "+two"), ("a", "-x"), ("sub", "sub/new")):
        model = project.ts.script(*REVIEW)
        ran = project.ts.here("-p", "--trust", f'/code-review "{name}"', "--model", model, "-y")
        assert ran.code == 0
        log = (each for each in project.ts.log() if each.get("step") == "change")
        text = next(each["summary"] for each in log if each["type"] == "step.finished")
        assert there in text.splitlines()
        assert "1 files changed" in text or "0 files changed, 1 new" in text


def test_a_long_diff_is_a_file_whose_index_leads_to_each_part(project: Project) -> None:
    names = [f"f{n:03}.txt" for n in range(120)]
    project.commit(**dict.fromkeys(names, "old\n" * 50))
    for name in names:
        project.ts.write(name, "new\n" * 50)
    ran = project.run("code-review", replies=REVIEW[1:])
    text = project.told("change")
    assert ran.code == 0
    assert len(text) < 10_000
    assert "… and 20 more" in text
    diff = next(project.path.glob(".agent/workspace/*/change.diff")).read_text("utf-8").splitlines()
    line, added, deleted, name = text.splitlines()[100].split("\t")
    assert (added, deleted) == ("50", "50")
    assert diff[int(line) - 1] == f"diff --git a/{name} b/{name}"


def test_in_a_subdirectory_the_paths_are_those_that_tools_know(project: Project) -> None:
    project.commit(**{"top": "one\n", "sub/a": "one\n"})
    project.ts.write("top", "two\n")
    project.ts.write("sub/a", "two\n")
    model = project.ts.script(*REVIEW)
    ran = project.ts.here(
        "run", "code-review", "-y", "--trust", "--model", model, cwd=project.path / "sub"
    )
    assert ran.code == 0
    diff = next(project.path.glob("sub/.agent/workspace/*/change.diff")).read_text("utf-8")
    assert "--- a/a\n+++ b/a\n" in diff
    assert "top" not in diff


# -- commit -------------------------------------------------------------------------------------


def test_commit_makes_the_commits_and_tells_them(project: Project) -> None:
    first = project.commit("area: begin\n\nBecause.", a="one\n")
    project.ts.write("a", "two\n")
    project.ts.write("b c", "new\n")
    project.ts.write(".env", "KEY=1\n")
    ran = project.run(
        "commit",
        'it\'s "new"',
        replies=(
            does("commit", "git add a 'b c' && git commit -qm \"area: two\n\nIt's new.\""),
            says("commit", "x area: two; left out: .env"),
        ),
        alone=True,
    )
    assert (ran.code, ran.json["result"]) == (0, "x area: two; left out: .env")
    assert project.git("rev-parse", "HEAD~1") == first
    text = project.told("changes")
    for line in ("# nothing is staged", "- area: begin", " M a", '?? "b c"', "?? .env", "+two"):
        assert line in text.replace("    Because.\n", "").splitlines(), line
    assert "KEY" not in text
    assert ".agent" not in text


def test_commit_of_nothing_asks_no_model(project: Project) -> None:
    project.commit(a="one\n")
    ran = project.run("commit")
    assert (ran.code, project.calls) == (0, 0)
    assert ran.json["result"].startswith("There is nothing to commit.")
    ran = project.ts("-p", "--trust", "commit my changes", "--model", project.ts.script())
    assert (ran.code, ran.out.splitlines()[0]) == (0, "There is nothing to commit.")


def test_the_first_commit_of_all_is_one(project: Project) -> None:
    project.git("init", "-q", "-b", "main")
    project.ts.write("a", "one\n")
    project.git("add", "a")
    ran = project.run(
        "commit", replies=(does("commit", "git commit -qm First"), says("commit", "x First"))
    )
    assert (ran.code, project.git("log", "--format=%s")) == (0, "First")
    assert "# STAGED" in project.told("changes")


def refusals(project: Project, *commands: str) -> Ran:
    """A run of `commit` whose agent does these things and says that all is done."""
    tries = [does("commit", command) for command in commands]
    return project.run("commit", replies=(*tries, says("commit", "done")))


def test_commit_pushes_amends_and_changes_nothing(project: Project, tmp_path: Path) -> None:
    project.commit(a="one\n")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far")], check=True)
    project.git("remote", "add", "origin", str(tmp_path / "far"))
    project.ts.write("a", "two\n")
    ran = refusals(
        project,
        "git add a && git commit -qm two && git push origin main",
        "git -C . push origin main",
        "git commit -q --all --amend -m two",
        "git commit -q --all --no-verify -m two",
        "git config user.name Me",
        "git stash",
        "git reset --hard",
    )
    assert ran.code == 1
    assert [ok for ok, _ in project.tried("commit")][:7] == [False] * 7
    assert "no commit was made" in project.tried("commit")[-1][1]
    assert (project.path / "a").read_text("utf-8") == "two\n"
    assert project.git("log", "--format=%s") == "Begin"


@pytest.mark.parametrize(
    ("command", "told"),
    {
        "git -c alias.x='commit --amend' x -qam two": "no longer part of the history",
        "git switch -qc other && git commit -qam two": "this is another branch now",
        "git commit -qam two && git -c alias.x='push -q' x origin main": "pushed or fetched",
        "true": "no commit was made",
    }.items(),
)
def test_what_a_rule_can_t_see_the_check_does(
    command: str, told: str, project: Project, tmp_path: Path
) -> None:
    project.commit(a="one\n")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far")], check=True)
    project.git("remote", "add", "origin", str(tmp_path / "far"))
    project.ts.write("a", "two\n")
    script = project.ts.home / "it.sh"
    script.write_text(command, encoding="utf-8")
    ran = refusals(project, f"bash {script}")
    assert ran.code == 1
    assert told in project.tried("commit")[-1][1]


def test_a_merge_with_conflicts_is_not_committed(project: Project) -> None:
    project.commit(a="one\n")
    project.git("switch", "-q", "-c", "side")
    project.commit(a="side\n")
    project.git("switch", "-q", "main")
    project.commit(a="main\n")
    with pytest.raises(subprocess.CalledProcessError):
        project.git("merge", "-q", "side")
    ran = project.run("commit")
    assert ran.code == 1
    assert "a merge is under way" in project.tried("changes")[0][1]


# -- fix-tests ----------------------------------------------------------------------------------


def broken(project: Project) -> None:
    """A Python project whose one test fails for `a.py`."""
    for name, text in PYTHON.items():
        project.ts.write(name, text)


MEND = calling(
    call("edit_file", path="a.py", old_string="a - b", new_string="a + b"), **{"for": "fix"}
)


def test_fix_tests_of_a_sound_suite_asks_no_model(project: Project) -> None:
    broken(project)
    project.ts.write("a.py", "def add(a, b):\n    return a + b\n")
    ran = project.ts("-p", "--trust", "Fix the failing tests!", "--model", project.ts.script())
    assert ran.code == 0
    said = ran.out.splitlines()
    assert said[0].startswith("There is nothing to fix: the tests pass (python3 -m unittest")
    assert said[1] == "OK"


def test_fix_tests_believes_the_suite_and_not_the_agent(project: Project) -> None:
    broken(project)
    ran = project.run(
        "fix-tests",
        replies=(
            does("fix", 'grep -c "AssertionError: -1 != 3" "$TS_OUTPUTS_SUITE"'),
            says("fix", "All fine now."),
            MEND,
            says("fix", "`a.py:2` subtracted."),
        ),
        alone=True,
    )
    assert (ran.code, ran.json["result"]) == (0, "`a.py:2` subtracted.")
    assert ran.json["steps"]["fix"]["attempts"] == 2
    assert [ok for ok, _ in project.tried("fix")] == [True, False, True, True]
    assert project.told("suite").splitlines()[1] == "exit code 1"


def test_fix_tests_of_a_long_failure_keeps_all_and_tells_the_end(project: Project) -> None:
    project.ts.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    project.tool("pytest", 'for n in {1..10000}; do echo "line $n"; done; exit 1')
    ran = project.run(
        "fix-tests", replies=(does("fix", 'sed -n 7p "$TS_OUTPUTS_SUITE"'), says("fix", "x"))
    )
    assert ran.code == 1
    text = project.told("suite")
    assert len(text) < 4000
    assert "(the last 150 of its 10000 lines; all are in suite.log)\nline 9851\n" in text
    assert text.rstrip().endswith("line 10000")
    assert project.tried("fix")[0] == (True, "line 7\n[exit code 0]")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("tests/a b.py",), "-q|tests/a b.py|"),
        (("tests/a b.py::test_x",), "-q|tests/a b.py::test_x|"),
        (("only", "the", "parser's"), "-q|"),
        ((), "-q|"),
    ],
    ids=["file", "test", "words", "none"],
)
def test_only_files_narrow_the_tests(words: tuple[str, ...], given: str, project: Project) -> None:
    project.ts.write("pyproject.toml", "[tool.pytest.ini_options]\n")
    project.ts.write("tests/a b.py", "")
    project.tool("pytest", 'printf "%s|" "$@" >>calls; echo >>calls; [ -e mended ]')
    ran = project.run(
        "fix-tests", *words, replies=(does("fix", "touch mended"), says("fix", "mended"))
    )
    assert ran.code == 0
    assert (project.path / "calls").read_text("utf-8").splitlines() == [given, given]


def test_a_runner_that_takes_no_files_gets_none(project: Project) -> None:
    project.ts.write("pom.xml", "<project/>")
    project.ts.write("mvnw", '#!/bin/bash\necho "$@" >>calls\n').chmod(0o755)
    assert project.run("fix-tests", "pom.xml").code == 0
    assert (project.path / "calls").read_text("utf-8") == "-q test\n"


def test_without_a_test_command_the_agent_is_asked_to_find_one(project: Project) -> None:
    ran = project.run("fix-tests", replies=(says("fix", "`./t` tests it; it passes"),))
    assert (ran.code, ran.json["result"]) == (0, "`./t` tests it; it passes")
    assert "no test command was found" in project.told("suite")


# -- refactor, document, upgrade-deps -----------------------------------------------------------


def witnessed(*change: Reply, witness: str = "grep -q 'return a' a.py") -> tuple[Reply, ...]:
    return (
        does("witness", f'echo "{witness}" >"$TS_WORKSPACE/witness.sh"'),
        says("witness", "`a.py:1`"),
        *change,
        says("judge", "it is simpler"),
    )


def test_refactor_holds_the_witness_that_was_before_the_change(project: Project) -> None:
    broken(project)  # its own tests say nothing
    ran = project.run(
        "refactor",
        "rename add's a",
        replies=witnessed(
            does(
                "change",
                'sed -i "s/return a/return x/" a.py; echo true >"$TS_WORKSPACE/witness.sh"',
            ),
            says("change", "renamed"),
            does("change", 'sed -i "s/return x/return a/" a.py'),
            says("change", "renamed again"),
        ),
        alone=True,
    )
    assert (ran.code, ran.json["result"]) == (0, "it is simpler")
    assert ran.json["steps"]["change"]["attempts"] == 2
    assert project.told("before").startswith("exit code 1 of: python3 -m unittest")


def test_refactor_holds_tests_that_passed_before(project: Project) -> None:
    broken(project)
    project.ts.write("a.py", "def add(a, b):\n    return a + b\n")
    ran = project.run(
        "refactor",
        "add",
        replies=witnessed(
            does("change", "sed -i 's/+/-/' a.py"), says("change", "x"), witness="true"
        ),
    )
    assert ran.code == 1
    assert "AssertionError: -1 != 3" in project.tried("change")[1][1]


def test_a_witness_that_fails_is_none(project: Project) -> None:
    broken(project)
    ran = project.run("refactor", "add", replies=witnessed(witness="false"))
    assert (ran.code, statuses(ran)["change"]) == (1, "skipped")


def test_refactor_has_to_be_told_what(project: Project) -> None:
    ran = project.run("refactor")
    assert ran.code == 1
    assert "say what to refactor" in project.tried("before")[0][1]


CHANGES: dict[str, Callable[[str], tuple[Reply, ...]]] = {
    "document": lambda command: (
        says("survey", "README"),
        does("write", command),
        says("write", "wrote"),
        says("examine", "mended README"),
    ),
    "upgrade-deps": lambda command: (
        says("outdated", "b 1 → 2"),
        does("upgrade", command),
        says("upgrade", "b is 2"),
    ),
}


@pytest.mark.parametrize("skill", CHANGES)
def test_tests_that_failed_before_are_not_its_to_mend(skill: str, project: Project) -> None:
    broken(project)
    ran = project.run(skill, replies=CHANGES[skill]("touch README"), alone=True)
    assert (ran.code, {*statuses(ran).values()}) == (0, {"done"})


@pytest.mark.parametrize("skill", CHANGES)
def test_tests_that_passed_before_have_to_pass_after(skill: str, project: Project) -> None:
    broken(project)
    project.ts.write("a.py", "def add(a, b):\n    return a + b\n")
    ran = project.run(skill, replies=CHANGES[skill]("sed -i 's/+/-/' a.py"))
    assert ran.code == 1
    last = "examine" if skill == "document" else "upgrade"
    assert "AssertionError: -1 != 3" in project.tried(last)[-1][1]


# -- explain, security-review -------------------------------------------------------------------

LOOKS: Mapping[str, tuple[str, ...]] = {
    "explain": ("explain",),
    "security-review": ("surface", "injection", "access", "secrets", "findings"),
}


@pytest.mark.parametrize("skill", LOOKS)
def test_who_only_looks_can_t_edit(skill: str, project: Project) -> None:
    project.ts.write("a.py", "x = 1\n")
    edits = [
        calling(call("write_file", path="a.py", content=""), **{"for": step})
        for step in LOOKS[skill]
    ]
    reports = [says(step, f"{step}: `a.py:1`") for step in LOOKS[skill]]
    ran = project.run(skill, 'a.py\'s "x" & $HOME', replies=(*edits, *reports), alone=True)
    assert (ran.code, ran.json["result"]) == (0, f"{LOOKS[skill][-1]}: `a.py:1`")
    assert [project.tried(step)[0][0] for step in LOOKS[skill]] == [False] * len(LOOKS[skill])
    assert (project.path / "a.py").read_text("utf-8") == "x = 1\n"
    goal = next(one["goal"] for one in project.last if one["type"] == "run.started")
    assert 'a.py\'s "x" & $HOME' in goal

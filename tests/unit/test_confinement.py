"""Where the file tools may go: inside, whatever a path says and whoever changes it meanwhile."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.engine.guard import Gate, guarded
from agent.errors import ToolError
from agent.event import Event, PermissionDecided
from agent.seams import Answer, Question
from agent.settings import Mode, Rules
from agent.shell.place import Facts
from agent.stop import Stop
from agent.tool import Context, Tool
from agent.tools import files, outline, search
from agent.tools.net.fetch import Web
from agent.tools.web import web_tools
from tests.unit.webserver import answer, anywhere, serving

CANARY = "canary-outside"
SPARE = ("renameat2", "Linux exchanges two names in one step")
ROUNDS = 150  # of a race, every day; more only until both sides have won once
MOST = 10_000
SWAP = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
one, other = (word.encode() for word in sys.argv[1:])
print("ready", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)  # RENAME_EXCHANGE
"""
linux = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), SPARE[0]), reason=SPARE[1])


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    for name in ("here", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out/f").write_text(CANARY, encoding="utf-8")
    made = Context(cwd=(tmp_path / "here").resolve(), stop=Stop(), env={"PATH": os.defpath})
    yield made
    made.close()


@pytest.fixture
def here(context: Context) -> Path:
    return context.cwd


def uses(path: str, folder: str) -> list[tuple[Tool, dict[str, Any]]]:
    """Each way in which a tool takes a path to a file, or to a folder."""
    return [
        (files.read_file, {"path": path}),
        (files.write_file, {"path": path, "content": "x"}),
        (files.edit_file, {"path": path, "old_string": "canary", "new_string": "x"}),
        (files.edit_file, {"path": path, "old_string": "", "new_string": "x"}),
        (
            files.multi_edit,
            {"path": path, "edits": [{"old_string": "canary", "new_string": "x"}]},
        ),
        (files.create_directory, {"path": f"{folder}/new"}),
        (search.list_files, {"directory": folder}),
        (search.grep_files, {"pattern": "canary", "directory": folder}),
        (search.grep_files, {"pattern": "canary", "directory": path}),
        (outline.get_outline, {"path": path}),
        (outline.get_outline, {"path": folder}),
        (outline.find_symbol, {"name": "canary", "directory": folder}),
    ]


def said(tool: Tool, context: Context, input: dict[str, Any]) -> str:
    """What a tool gives back, or why it does nothing."""
    try:
        return tool(context, input).text
    except (ToolError, OSError) as error:
        return str(error)


def whole(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
    }


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Two names are exchanged all the time, by another process."""
    argv = [sys.executable, "-I", "-S", "-c", SWAP, str(one), str(other)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@linux
@pytest.mark.parametrize(
    "rounds",
    [ROUNDS, pytest.param(20_000, marks=[pytest.mark.campaign, pytest.mark.timeout(1200)])],
)
def test_r27_whoever_swaps_a_folder_for_a_link_gets_nothing_out_and_nothing_in(
    context: Context, here: Path, tmp_path: Path, rounds: int
) -> None:
    (here / "d").mkdir()
    (here / "d/f").write_text("inside", encoding="utf-8")
    (here / "x").symlink_to(tmp_path / "out")
    before = whole(tmp_path / "out")
    own = uses("d/f", "d")[:6]
    done = number = 0
    with swapping(here / "d", here / "x"):
        while number < rounds or (not 0 < done < number and number < MOST):
            tool, input = own[number % len(own)]
            text = said(tool, context.fresh(Stop()), input)
            assert CANARY not in text
            done += "outside" not in text and "a link" not in text
            number += 1
    assert whole(tmp_path / "out") == before
    assert 0 < done < number  # both were met


@linux
def test_r18_r27_what_was_judged_is_what_is_written(context: Context, here: Path) -> None:
    (here / ".git").mkdir()
    (here / ".git/config").write_text("own", encoding="utf-8")
    (here / "a").write_text("", encoding="utf-8")
    write, _ = judged(files.write_file, "accept-edits", here)
    allowed = number = 0
    with swapping(here / "a", here / "l"):
        while number < ROUNDS or (not allowed and number < MOST):
            number += 1
            links = [(here / name).is_symlink() for name in "al"]
            if not any(links):  # the link was written over
                (here / "new").symlink_to(".git/config")
                (here / "new").replace(here / "l")
            elif all(links):  # the file was, by the line above: they were exchanged meanwhile
                (here / "new").write_text("", encoding="utf-8")
                (here / "new").replace(here / "a")
            with suppress(ToolError, OSError):
                write(context.fresh(Stop()), {"path": "a", "content": f"{number}"})
                allowed += 1
    assert (here / ".git/config").read_text(encoding="utf-8") == "own"
    assert allowed


OUTSIDE = [
    *(
        "..",
        "../out/f",
        "../here/../out/f",
        "./../out/f",
        "x/../../out/f",
        "../../../../etc/passwd",
    ),
    *("/etc/passwd", "//etc/passwd", "/etc/../etc/passwd", "~/x", "~root/x", "../here2/f"),
    *(f"/proc/self/{'root'}/etc/passwd", "/proc/self/cwd/f", "/proc/self/environ", "/dev/fd/0"),
    *("/dev/stdin", "/dev/zero", "..//out/f", "../OUT/f", "....//out/f/../../../x", "..\0/f"),
    *("x\0", "a" * 5000, "/" + "b/" * 3000, ".. /out/f", "../out/f/."),
]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: ascii(path)[:40])
def test_r28_no_way_of_writing_a_path_leads_outside(
    context: Context, here: Path, tmp_path: Path, path: str
) -> None:
    before = whole(tmp_path / "out")
    for tool, input in uses(path, path):
        text = said(tool, context, input)
        assert CANARY not in text
        assert "root:" not in text
    assert whole(tmp_path / "out") == before
    assert {each.name for each in tmp_path.iterdir()} == {"here", "out"}


@settings(max_examples=50, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from(
            ["..", ".", "", "in", "up", "out", "f", "here", "loop", "abs", "\\x2e\\x2e"]
        ),
        min_size=1,
        max_size=7,
    )
)
def test_r28_whatever_links_and_dots_make_of_a_path_it_stays_inside(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    root = tmp_path_factory.mktemp("r").resolve()
    (root / "here/in").mkdir(parents=True)
    (root / "out").mkdir()
    (root / "out/f").write_text(CANARY, encoding="utf-8")
    (root / "here/f").write_text("inside", encoding="utf-8")
    (root / "here/up").symlink_to("..")
    (root / "here/in/out").symlink_to("../../out")
    (root / "here/abs").symlink_to(root / "out")
    (root / "here/loop").symlink_to("loop")
    context = Context(cwd=root / "here", stop=Stop())
    path = "/".join(parts)
    for tool, input in uses(path, path)[:6]:
        assert CANARY not in said(tool, context, input)
    assert whole(root / "out") == {"f": CANARY.encode()}
    context.close()


def test_r29_a_link_to_outside_is_refused_by_every_tool(
    context: Context, here: Path, tmp_path: Path
) -> None:
    (here / "l").symlink_to("../out")
    (here / "g").symlink_to("../out/f")
    before = whole(tmp_path / "out")
    for path, folder in (("l/f", "l"), ("g", "g"), ("l/new", "l/deep")):
        for tool, input in uses(path, folder):
            assert "outside" in said(tool, context, input), (tool.name, input)
    with serving({"/x": answer(b"data")}) as server:
        fetch, _ = web_tools({}, web=Web(allow=anywhere))
        text = said(fetch, context, {"url": f"{server.url}/x", "save_to": "l/new"})
        assert "outside" in text
        assert server.seen == []
    assert whole(tmp_path / "out") == before


def nobody(question: Question) -> Answer:
    return Answer(choice="no", by="nobody")


def judged(
    tool: Tool, mode: Mode, here: Path, rules: Rules | None = None
) -> tuple[Tool, list[Event]]:
    """The tool as an agent has it where nobody can be asked, and what happens."""
    events = list[Event]()
    gate = Gate(mode, rules or Rules(), nobody, Facts(cwd=str(here)))
    return guarded(tool, gate, events.append), events


@pytest.mark.parametrize(
    "input",
    [
        {"path": "direct/x"},
        {"path": "l/x"},
        {"path": "a/../direct/x"},
        {"path": "a/b/x"},
    ],
)
def test_r29_rules_speak_of_the_path_as_given_and_of_where_it_leads(
    context: Context, here: Path, input: dict[str, str]
) -> None:
    (here / "direct").mkdir()
    (here / "direct/x").write_text(CANARY, encoding="utf-8")
    (here / "a").mkdir()
    (here / "l").symlink_to("direct")
    (here / "a/b").symlink_to("../direct")
    deny = Rules(deny=("read_file(direct/**)", "edit_file(direct/**)"))
    for tool, more in (
        (files.read_file, {}),
        (files.write_file, {"content": "x"}),
        (outline.get_outline, {}),
    ):
        own, _ = judged(tool, "auto", here, deny)
        assert "forbids" in said(own, context, {**input, **more})
    own, _ = judged(search.grep_files, "auto", here, deny)
    text = said(own, context, {"pattern": "canary", "directory": input["path"]})
    assert "forbids" in text


def test_r30_a_hard_link_to_outside_keeps_what_it_had(
    context: Context, here: Path, tmp_path: Path
) -> None:
    (here / "h").hardlink_to(tmp_path / "out/f")
    said(files.edit_file, context, {"path": "h", "old_string": "canary", "new_string": "mine"})
    assert (here / "h").read_text(encoding="utf-8") == "mine-outside"
    said(files.write_file, context, {"path": "h", "content": "other"})
    assert (tmp_path / "out/f").read_text(encoding="utf-8") == CANARY


PROTECTED = [
    *(".git/config", ".git/hooks/pre-commit", ".GIT/config", "sub/.git/config", ".Git/HEAD"),
    *(".agent/settings.yaml", ".agent/settings.local.yaml", ".agent/skills/x.yaml"),
    *(".agent/mcp.json", ".AGENT/Settings.yaml", ".mcp.json", ".vscode/tasks.json"),
    *(".idea/workspace.xml", ".husky/pre-commit", ".bashrc", ".zshrc", ".zshenv", ".profile"),
    *(".bash_profile", ".ssh/authorized_keys", ".github/workflows/ci.yml", ".gitlab-ci.yml"),
    *("AGENTS.md", "sub/AGENTS.md", "agents.md", "CLAUDE.md", "GEMINI.md", ".env", ".env.local"),
    *(".gitconfig", ".npmrc", ".envrc", "./.git//config", "a/../.git/config", "\\x2egit/config"),
]


@pytest.mark.parametrize("mode", ["accept-edits", "auto"])
@pytest.mark.parametrize("path", PROTECTED)
def test_r31_what_steers_later_runs_is_asked_about_in_every_mode(
    context: Context, here: Path, path: str, mode: Mode
) -> None:
    (here / ".git").mkdir()
    (here / ".git/config").write_text("own canary", encoding="utf-8")
    (here / "a").mkdir()
    before = whole(here)
    for tool, more in (
        (files.write_file, {"content": "x"}),
        (files.edit_file, {"old_string": "canary", "new_string": "x"}),
        (files.create_directory, {}),
    ):
        own, events = judged(tool, mode, here)
        assert "permission" in said(own, context, {"path": path, **more}), (tool.name, mode)
        assert [each.by for each in events if isinstance(each, PermissionDecided)] == ["nobody"]
    assert whole(here) == before


def test_r31_a_link_to_what_steers_is_asked_about_wherever_it_is_named(
    context: Context, here: Path
) -> None:
    (here / ".git/hooks").mkdir(parents=True)
    (here / ".ssh").mkdir()
    (here / ".ssh/id_rsa").write_text(CANARY, encoding="utf-8")
    (here / ".env").write_text(CANARY, encoding="utf-8")
    for name, to in (("h", ".git/hooks"), ("k", ".ssh"), ("e", ".env")):
        (here / name).symlink_to(to)
    with serving({"/x": answer(b"data")}) as server:
        fetch, _ = web_tools({}, web=Web(allow=anywhere))
        for tool, input in (
            (files.write_file, {"path": "h/post-checkout", "content": "x"}),
            (fetch, {"url": f"{server.url}/x", "save_to": "h/post-checkout"}),
            (files.read_file, {"path": "e"}),
            (files.read_file, {"path": "k/id_rsa"}),
            (search.grep_files, {"pattern": "c", "directory": "e"}),
            (search.grep_files, {"pattern": "c", "directory": "k"}),
        ):
            own, _ = judged(tool, "auto", here)
            assert "permission" in said(own, context, input), (tool.name, input)
        assert server.seen == []
    assert list((here / ".git/hooks").iterdir()) == []


SECRETS = [".env", ".env.production", "conf/.env", "id_rsa", "tls/server.key", "x.pem", ".netrc"]


@pytest.mark.parametrize("rg", [True, False], ids=["ripgrep", "own"])
def test_a_search_shows_nothing_of_what_looks_like_a_secret_unless_it_is_named(
    here: Path, rg: bool
) -> None:
    context = Context(cwd=here, stop=Stop(), env={"PATH": os.defpath if rg else ""})
    for name in (*SECRETS, ".env.example", "a.py"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(f"KEY = '{CANARY}'\n", encoding="utf-8")
    for more in ({}, {"files_only": True}, {"context": 2}, {"file_glob": "*"}, {"ignored": True}):
        own, _ = judged(search.grep_files, "default", here)
        text = said(own, context, {"pattern": "canary", **more})
        shown = {line.partition(":")[0] for line in text.splitlines()}
        assert {"a.py", ".env.example"} <= shown
        assert not shown & set(SECRETS)
    own, _ = judged(search.grep_files, "default", here)
    assert "permission" in said(own, context, {"pattern": "c", "file_glob": ".env*"})
    allowed, _ = judged(search.grep_files, "default", here, Rules(allow=("read_file(.env*)",)))
    text = said(allowed, context, {"pattern": "canary", "file_glob": ".env*"})
    assert ".env:1:" in text
    context.close()


def test_r32_what_is_no_file_is_refused_at_once_by_every_tool(context: Context, here: Path) -> None:
    os.mkfifo(here / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        cwd = Path.cwd()
        os.chdir(here)
        try:
            listening.bind("sock")
        finally:
            os.chdir(cwd)
        (here / "null").symlink_to(os.devnull)
        (here / "dir").mkdir()
        began = time.monotonic()
        for name in ("pipe", "sock", "null", "dir"):
            for tool, input in uses(name, name):
                if (name == "dir" and "directory" in input) or input.get("path") == "dir/new":
                    continue
                if name == "dir" and tool.name == "get_outline":
                    continue
                with pytest.raises((ToolError, OSError)):
                    tool(context, input)
        assert time.monotonic() - began < 5
    assert not search.grep_files(context, {"pattern": "x"}).text.startswith("pipe")


def test_what_may_only_be_read_is_read_and_never_written(here: Path, tmp_path: Path) -> None:
    place = (tmp_path / "out").resolve()
    context = Context(cwd=here, stop=Stop(), readable=(place,), env={"PATH": os.defpath})
    before = whole(place)
    reading = ("read_file", "list_files", "grep_files", "get_outline", "find_symbol")
    for tool, input in uses(str(place / "f"), str(place)):
        own, _ = judged(tool, "auto", here)
        for each in (tool, own):
            text = said(each, context, input)
            assert ("is outside" in text) == (tool.name not in reading), (tool.name, text)
    assert CANARY in said(files.read_file, context, {"path": str(place / "f")})
    assert whole(place) == before
    context.close()

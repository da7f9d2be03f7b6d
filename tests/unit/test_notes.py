import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context, Tool
from agent.tools.notes import NOTES, Todos, save_memory, todo_write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(cwd=tmp_path.resolve(), stop=Stop())


def refused(tool: Tool, context: Context, **input: Any) -> str:
    with pytest.raises(ToolError) as told:
        tool(context, input)
    return str(told.value)


def remember(context: Context, note: str) -> str:
    return save_memory(context, {"note": note}).text


def memory(context: Context) -> str:
    return (context.cwd / ".agent/memory.md").read_text(encoding="utf-8")


def test_a_note_is_one_dated_line(context: Context) -> None:
    assert remember(context, "  Tests run\nwith `make t` ") == "remembered in .agent/memory.md"
    remember(context, "Umlaute sind UTF-8: ü")
    lines = memory(context).split("\n")
    assert re.fullmatch(r"- \d{4}-\d\d-\d\d: Tests run with `make t`", lines[0])
    assert lines[1].endswith(": Umlaute sind UTF-8: ü")
    assert lines[2:] == [""]


def test_a_fact_is_kept_once(context: Context) -> None:
    (context.cwd / ".agent").mkdir()
    (context.cwd / ".agent/memory.md").write_text(
        "# Ours\n\n- 2020-01-01: Use tabs.\n* The port is 8000", encoding="utf-8"
    )
    for note in ("Use tabs", "use  TABS.", "The port is 8000."):
        assert remember(context, note) == ".agent/memory.md already says so"
    remember(context, "Use spaces")
    first, *_, port, last, end = memory(context).split("\n")
    assert (first, port, last[14:], end) == ("# Ours", "* The port is 8000", "Use spaces", "")


def test_a_note_is_short_and_not_empty(context: Context) -> None:
    assert "empty" in refused(save_memory, context, note=" \n")
    assert "keep to one fact" in refused(save_memory, context, note="x" * 501)
    assert not (context.cwd / ".agent").exists()


def test_memory_does_not_grow_without_end(context: Context) -> None:
    (context.cwd / ".agent").mkdir()
    (context.cwd / ".agent/memory.md").write_bytes(b"x\n" * (NOTES // 2))
    assert "full" in refused(save_memory, context, note="one more")


@pytest.mark.parametrize(
    "secret",
    [
        "the key is sk-ant-" + "a1B2" * 10,
        "sk-proj-" + "a1B2" * 10,
        "ghp_" + "a1B2" * 9,
        "hf_" + "aB" * 17,
        "AKIA" + "ABCD2345" * 2,
        "AIza" + "a1B2" * 9,
        "xoxb-" + "123456789012-abc",
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.abc",
        "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE",
        "postgres://admin:" + "hunter2@db/main",
        "Authorization: Bearer " + "abcdef0123456789abcdef",
        "password: " + "hunter2hunter2",
        "API_KEY=" + "abcd1234efgh",
        'the api key is "' + 'abcd1234efgh"',
    ],
)
def test_a_secret_is_not_remembered(context: Context, secret: str) -> None:
    assert "where the secret is kept" in refused(save_memory, context, note=secret)
    assert not (context.cwd / ".agent").exists()


@pytest.mark.parametrize(
    "fact",
    [
        "The API key is read from ANTHROPIC_API_KEY.",
        "token: see the vault, not the code",
        "Pinned to commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "The secret is to run make twice",
        "Passwords are hashed with argon2",
        "The constraint is pk_customer_order_line_items; run npm-run-all-parallel-build-and-test",
        "See https://example.org/a:b@c for the skill list of task-runner-configuration-files",
    ],
)
def test_a_fact_about_secrets_is_remembered(context: Context, fact: str) -> None:
    assert remember(context, fact).startswith("remembered")


def test_memory_outside_is_not_written(context: Context, tmp_path: Path) -> None:
    inside = Context(cwd=tmp_path / "in", stop=Stop())
    inside.cwd.mkdir()
    (inside.cwd / ".agent").symlink_to(tmp_path)
    assert "outside" in refused(save_memory, inside, note="x")
    assert not (tmp_path / "memory.md").exists()


def test_what_the_user_s_own_memory_says_is_not_written_again(context: Context) -> None:
    own = context.cwd / "home/.config/tianshu/memory.md"
    own.parent.mkdir(parents=True)
    own.write_text("- Use tabs.\n", encoding="utf-8")
    there = structs.replace(context, env={"HOME": str(context.cwd / "home")})
    assert remember(there, "use  TABS") == "~/.config/tianshu/memory.md already says so"
    assert not (context.cwd / ".agent").exists()
    assert remember(there, "Use spaces").startswith("remembered")
    own.unlink()
    os.mkfifo(own)
    assert remember(there, "Use both").startswith("remembered")


NOTE = """
import sys
from pathlib import Path
from agent.stop import Stop
from agent.tool import Context
from agent.tools.notes import save_memory
context = Context(cwd=Path.cwd(), stop=Stop())
for n in range(50):
    save_memory(context, {"note": f"{sys.argv[1]} {n}"})
    save_memory(context, {"note": f"all {n}"})
"""


def test_r99_four_processes_lose_no_note_and_write_none_twice(context: Context) -> None:
    names = ["one", "two", "three", "four"]
    peers = [
        subprocess.Popen(
            [sys.executable, "-c", NOTE, name], cwd=context.cwd, env={"PYTHONPATH": str(ROOT)}
        )
        for name in names
    ]
    assert [peer.wait(timeout=50) for peer in peers] == [0, 0, 0, 0]
    lines = memory(context).splitlines()
    assert all(re.fullmatch(r"- \d{4}-\d\d-\d\d: \w+ \d+", line) for line in lines)
    noted = sorted(line[14:] for line in lines)
    assert noted == sorted(f"{name} {n}" for name in (*names, "all") for n in range(50))


def test_the_list_of_things_to_do_is_kept_and_shown(context: Context) -> None:
    todos = [
        {"text": "read", "status": "done"},
        {"text": "mend\nit", "status": "in_progress"},
        {"text": "test"},
    ]
    assert todo_write(context, {"todos": todos}).text == (
        "[x] read\n[>] mend it\n[ ] test\n1 of 3 done"
    )
    assert [todo.status for todo in context.own(Todos).todos] == ["done", "in_progress", "pending"]
    assert context.fresh(Stop()).own(Todos).todos == ()
    assert todo_write(context, {"todos": []}).text == "the list is empty"


def test_a_list_that_helps_nobody_is_refused(context: Context) -> None:
    todo_write(context, {"todos": [{"text": "a"}]})
    assert "item 1 has no text" in refused(todo_write, context, todos=[{"text": " "}])
    assert "too many" in refused(todo_write, context, todos=[{"text": "a"}] * 101)
    assert "300" in refused(todo_write, context, todos=[{"text": "a" * 301}])
    assert "status" in refused(todo_write, context, todos=[{"text": "a", "status": "later"}])
    assert len(context.own(Todos).todos) == 1

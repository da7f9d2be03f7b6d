"""Tools by which an agent keeps something: a fact for later sessions, its list of things to do."""

import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from agent import secret
from agent.errors import ToolError
from agent.tool import Context, tool
from agent.tools.file.disk import locked, put, read, spot, told
from agent.tools.file.text import sound, visible

MEMORY = ".agent/memory.md"
USERS = ".config/tianshu/memory.md"  # in the home directory; agents don't write it
NOTE = 500  # characters of a note, at most
NOTES = 128 << 10  # bytes of all notes, at most: they are read at every start
TODOS = 100
TODO = 300  # characters of a thing to do, at most
TRIES = 20


@tool(writes=True)
def save_memory(context: Context, note: str) -> str:
    """Remember a fact about this project for later: a convention, a decision, a command that
    works. No secrets.

    note: one sentence that can be understood alone
    """
    fact = " ".join(sound(note, "note").split())
    if not fact:
        raise ToolError("note is empty")
    if len(fact) > NOTE:
        raise ToolError(f"note has {len(fact)} characters; {NOTE} is the most: keep to one fact")
    if secret.held(note):
        raise ToolError(
            "note looks as if it held a password or key, which memory is not for; say where the "
            "secret is kept instead"
        )
    if plain(fact) in {plain(each) for each in visible_lines(users(context))}:
        return f"~/{USERS} already says so"
    line = f"- {datetime.now(UTC).date()}: {fact}\n".encode()
    with told(context, MEMORY), spot(context, MEMORY, make=True) as place:
        for _ in range(TRIES):
            with locked(place, context.stop, os.O_RDWR | os.O_APPEND) as file:
                if file is None:
                    with put(place, line, None) as made:
                        if made:
                            return f"remembered in {MEMORY}"
                    continue
                old = read(file, NOTES + 1)
                if plain(fact) in {plain(each) for each in visible_lines(old)}:
                    return f"{MEMORY} already says so"
                if len(old) + len(line) > NOTES:
                    raise ToolError(f"{MEMORY} is full; remove from it what no longer holds")
                apart = b"" if not old or old.endswith(b"\n") else b"\n"
                os.write(file, apart + line)
                return f"remembered in {MEMORY}"
    raise ToolError(f"{MEMORY} appears and vanishes while it is being written; try again")


def users(context: Context) -> bytes:
    """What the user's own memory holds; nothing where it can't be read."""
    if not (home := context.env.get("HOME")):
        return b""
    try:
        file = os.open(Path(home) / USERS, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return read(file, NOTES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(file)


def visible_lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")


def plain(line: str) -> str:
    """What a line says, without its date, case, spacing and full stop."""
    said = re.sub(r"^\s*[-*]?\s*(?:\d{4}-\d\d-\d\d:)?", "", line)
    return " ".join(said.casefold().split()).rstrip(".")


class Todo(Struct, frozen=True, kw_only=True):
    """One thing to do."""

    text: str
    status: Literal["pending", "in_progress", "done"] = "pending"


class Todos:
    """What an agent has set itself to do."""

    def __init__(self, context: Context) -> None:
        self.todos: tuple[Todo, ...] = ()

    def close(self) -> None:
        self.todos = ()


@tool(writes=False)
def todo_write(context: Context, todos: list[Todo]) -> str:
    """Keep a list of what is to be done, for work of several parts.

    todos: the whole list, in order
    """
    if len(todos) > TODOS:
        raise ToolError(f"{len(todos)} items are too many; {TODOS} is the most")
    for number, todo in enumerate(todos, 1):
        if not todo.text.strip():
            raise ToolError(f"item {number} has no text")
        if len(todo.text) > TODO:
            raise ToolError(f"item {number} has more than {TODO} characters")
    kept = context.own(Todos)
    kept.todos = tuple(
        Todo(text=" ".join(visible(todo.text).split()), status=todo.status) for todo in todos
    )
    return rendered(kept.todos)


def rendered(todos: tuple[Todo, ...]) -> str:
    """The list as a model and a user read it."""
    marks = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}
    done = sum(todo.status == "done" for todo in todos)
    rows = [f"{marks[todo.status]} {todo.text}" for todo in todos]
    return "\n".join([*rows, f"{done} of {len(todos)} done"]) if todos else "the list is empty"

"""A project as its tools see it: the files and programs that are there, and what checks it has."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from agent.errors import UsageError
from agent.store.disk import contents
from agent.store.git import program

MOST = 512 * 1024  # bytes of a file that is looked into


class Commands(Struct, frozen=True, kw_only=True):
    """Shell commands for the working directory that exit 0 where all is well; "": none found."""

    test: str = ""
    lint: str = ""
    format: str = ""  # checks, changes nothing
    types: str = ""


class Kind(Struct, frozen=True, kw_only=True):
    name: str  # Python, Node (pnpm) …
    commands: Commands


class Look:
    """A directory as its tools see it."""

    def __init__(self, cwd: Path, path: str) -> None:
        self.cwd, self._path = cwd, path
        self._texts: dict[str, str] = {}

    def has(self, *names: str) -> bool:
        """Whether one of them is there; a name may hold `*`."""
        return any(
            any(self.cwd.glob(name)) if "*" in name else (self.cwd / name).exists()
            for name in names
        )

    def text(self, name: str) -> str:
        """What a file holds; "" if it can't be read."""
        if name not in self._texts:
            try:
                data = contents(self.cwd / name, MOST)
            except UsageError:
                data = b""
            self._texts[name] = data.decode("utf-8", "replace")
        return self._texts[name]

    def json(self, name: str) -> dict[str, Any]:
        return table(json.loads, self.text(name))

    def toml(self, name: str) -> dict[str, Any]:
        return table(tomllib.loads, self.text(name))

    def found(self, name: str) -> bool:
        """Whether the user has that program."""
        return bool(program(name, self._path, self.cwd))

    def own(self, *names: str) -> str:
        """The first of these programs that stands in the project; "" for none."""
        for name in names:
            if os.access(self.cwd / name, os.X_OK) and (self.cwd / name).is_file():
                return name if "/" in name else f"./{name}"
        return ""

    def if_found(self, name: str, command: str, *needs: str) -> str:
        """`command`, where the user has the program `name` and the files it needs are there."""
        return command if self.found(name) and (not needs or self.has(*needs)) else ""


def table(read: Callable[[str], Any], text: str) -> dict[str, Any]:
    try:
        data = read(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def part(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        inner = data.get(key)
        data = inner if isinstance(inner, dict) else {}
    return data


def commands(kinds: tuple[Kind, ...]) -> Commands:
    """The commands of the first kind that has each."""
    found = Commands()
    for kind in kinds:
        for slot in found.__struct_fields__:
            if not getattr(found, slot):
                found = structs.replace(found, **{slot: getattr(kind.commands, slot)})
    return found

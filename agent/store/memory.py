"""Long-term memory: a Markdown file of the project and one of the user, read at every start.

The newest notes stand last; of a file that is longer than its budget they are what is read.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from agent.errors import UsageError
from agent.store.disk import contents

PROJECTS = ".agent/memory.md"  # in the working directory
USERS = ".config/tianshu/memory.md"  # in the home directory
MINE = f"~/{USERS}"
MOST = 8 * 1024  # bytes that are read of the project's
MOST_OF_USER = 4 * 1024
LARGEST = 1_000_000  # bytes of a file that is looked at


class Memory(Struct, frozen=True, kw_only=True):
    """What is read of one file."""

    path: Path
    name: str  # as a user knows it
    text: str  # whole lines, the newest
    left: int = 0  # lines that the budget leaves out
    fault: str = ""  # why it can't be read


def project_path(cwd: Path) -> Path:
    return cwd / PROJECTS


def user_path(home: Path) -> Path:
    return home / USERS


def memories(cwd: Path, home: Path) -> Iterator[Memory]:
    """What is read of the user's file and of the project's; nothing of one that is not there."""
    for path, name, most, follow in (
        (user_path(home), MINE, MOST_OF_USER, True),
        (project_path(cwd), PROJECTS, MOST, False),  # a repository could point it anywhere
    ):
        if os.path.lexists(path):
            yield _read(path, name, most, follow=follow)


def _read(path: Path, name: str, most: int, *, follow: bool) -> Memory:
    try:
        data = contents(path, LARGEST, follow=follow)
    except UsageError as error:
        return Memory(path=path, name=name, text="", fault=str(error))
    lines = data.decode("utf-8-sig", "replace").strip().split("\n")
    kept, size = len(lines), -1
    while kept and (size := size + len(lines[kept - 1].encode()) + 1) <= most:
        kept -= 1
    text = "\n".join(lines[kept:])
    if kept == len(lines):  # not even the last line fits
        text = lines[-1].encode()[:most].decode("utf-8", "ignore")
        kept -= 1
    left = sum(bool(line.strip()) for line in lines[:kept])
    return Memory(path=path, name=name, text=text, left=left)


def told(cwd: Path, home: Path, notices: list[str], *, only: str = "") -> str:
    """Both for a model, or the one that is named; what is passed over or left out is added to
    `notices`."""
    parts = []
    for each in memories(cwd, home):
        if only and each.name != only:
            continue
        if each.fault:
            notices.append(f"passed over: {each.fault}")
        if each.left:
            notices.append(
                f"{each.path} is long: its newest notes are read, "
                f"{each.left} older ones are left out"
            )
        if each.text:
            older = f"({each.left} older notes are left out)\n" if each.left else ""
            parts.append((each.name, older + each.text))
    if [name for name, _ in parts] == [PROJECTS]:
        return parts[0][1]
    return "\n\n".join(f"From {name}:\n\n{text}" for name, text in parts)

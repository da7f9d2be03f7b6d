"""What is read from a shell line: its commands, and where each may run."""

import re
from typing import TypeAlias

from msgspec import Struct, structs

from agent.shell.word import ANY, HOME, SOME

MOST_DIRECTORIES = 8


class Command(Struct, frozen=True, kw_only=True):
    """A program with its arguments, or only what else a line does: redirects, assigns, defines."""

    words: tuple[str, ...] = ()  # with marks for what is unknown
    text: str  # as it stands in the line
    assigned: tuple[str, ...] = ()  # names set before it, or by it where there are no words
    defines: str = ""  # the function that is defined here
    outs: tuple[str, ...] = ()  # files that redirections write
    ins: tuple[str, ...] = ()  # files that redirections read
    dirs: tuple[str, ...] = (".",)  # where it may run, from where the line begins
    script: str | None = None  # its input where the line holds it
    piped: bool = False  # its input comes from another command
    code: bool = False  # not a command of the line: whatever a program would be told


class Line(Struct, frozen=True, kw_only=True):
    commands: tuple[Command, ...]
    doubt: str = ""  # why there may be more in the line than these
    ends: tuple[str, ...] = (".",)  # where a shell may be afterwards


class Scope(Struct, frozen=True, kw_only=True):
    dirs: tuple[str, ...]
    bound: dict[str, str] = {}  # loop variables whose values the line tells
    piped: bool = False
    depth: int = 0

    def at(self, dirs: tuple[str, ...]) -> "Scope":
        return structs.replace(self, dirs=dirs)


Ends: TypeAlias = tuple[
    tuple[str, ...], tuple[str, ...]
]  # directories after success, after failure


def union(*many: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each for some in many for each in some))
    return found if len(found) <= MOST_DIRECTORIES else (ANY,)


def moved(command: Command, dirs: tuple[str, ...]) -> Ends:
    """Where a shell is after a command: after success, after failure."""
    program, *words = command.words or ("",)
    while program in {"command", "builtin"} and words:
        program, *words = words
    if program in {"pushd", "popd", "eval", "source", ".", ANY} or program.startswith("-"):
        return union(dirs, (ANY,)), union(dirs, (ANY,))
    if program != "cd":
        return dirs, dirs
    words = [word for word in words if word not in {"-P", "-L", "-e", "-@", "--"}]
    if len(words) > 1 or (words and (ANY in words[0] or words[0].startswith("-"))):
        return (ANY,), union(dirs, (ANY,))
    target = words[0] if words else HOME
    if target.startswith(("/", HOME)):
        return (target,), dirs
    return tuple(f"{each}/{target}" for each in dirs), dirs


def alike(values: list[str]) -> str:
    """One value for all that a loop's variable takes: a name beneath the directory they share."""
    plain = re.compile(r"[\w./@%+:=\x01\x03][\w./@%+:=\x01-]*")
    if len(values) == 1 and plain.fullmatch(values[0]) and not values[0].startswith(SOME):
        return values[0]
    places = [value.rpartition("/")[0] for value in values]
    if not all(map(plain.fullmatch, values)) or any(".." in value for value in values):
        return ANY
    telling = re.compile(r"(?:^|/)\.|\.(?:pem|key|p12|pfx)$|id_\w+$|^[/\x03]")
    if any(map(telling.search, values)) or any(map(telling.search, places)):
        return ANY
    if len(set(places)) == 1 and places[0]:
        return f"{places[0]}/{SOME}"
    return f"./{SOME}"

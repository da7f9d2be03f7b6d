"""The files that a command reads and changes, as far as its words tell."""

import re
from collections.abc import Iterator

from msgspec import Struct

from agent.shell import place as at
from agent.shell import programs
from agent.shell.line import Command
from agent.shell.place import Facts
from agent.shell.within import program
from agent.shell.word import ANY, SOME

_NAMES = {
    "echo",
    "printf",
    "mkdir",
    "touch",
    "rm",
    "rmdir",
    "cd",
    "chmod",
    "chown",
    "which",
    "type",
    "command",
    "kill",
    "sleep",
    "exit",
    "export",
    "set",
}  # what they are given is not shown
_GREPS = {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack"}


def reads(command: Command, facts: Facts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that a command may read, by any word that may be a path; those that are secrets."""
    words = [*command.ins]
    if command.words and not command.code:
        name = program(command.words[0])
        operands = command.words[1:]
        looks = programs.LOOKS.get(name)
        if name in _GREPS and not any(
            re.match(r"-\w*[ef]|--(?:reg|file)", word) for word in operands
        ):
            pattern = next(
                (word for word in operands if not word.startswith("-") and not word.isdigit()), None
            )
            operands = tuple(word for word in operands if word is not pattern)
        if not (looks and looks.names and name != "find") and name not in _NAMES:
            words += [each for word in operands for each in _paths(word)]
    deep, follows = _recursive(command), _follows(command)
    reads: dict[str, None] = {}
    secrets: dict[str, None] = {}
    if (deep or follows) and not any(word and not word.startswith("-") for word in words):
        words.append(".")  # nothing named: the directory that it stands in
    for word in words:
        if not word or (ANY in word and not word.replace(ANY, "").strip("/")):
            continue
        for place in at.places(word, command.dirs, facts):
            reads[at.shown(place, facts)] = None
            links = facts.leads(place) if follows and facts.leads else ()
            hoard = (deep and at.hoard(place, facts)) or any(map(at.secret, links))
            if hoard or at.secret(place.replace(ANY, SOME)):
                secrets[at.shown(place, facts)] = None
    return tuple(reads), tuple(secrets)


def _recursive(command: Command) -> bool:
    """Whether a program shows what is in all files below a directory."""
    name = program(command.words[0]) if command.words else ""
    if name in {"rg", "ag", "ack"}:
        return True
    return name in _GREPS and any(
        re.match(r"-[A-Za-z]*[rR]|--(?:dereference-)?rec", word) for word in command.words[1:]
    )


def _follows(command: Command) -> bool:
    """Whether it looks behind links as well."""
    words = command.words[1:]
    deep = _recursive(command) and any(
        re.match(r"-[A-Za-z]*[LRS]|--(?:fol|deref)", word) for word in words
    )
    return deep or (bool(command.words) and program(command.words[0]) == "find" and "-L" in words)


def _paths(word: str) -> Iterator[str]:
    """A word, and what may be a path in it: --file=X, @X, REVISION:X, -fX."""
    if not word.startswith("-"):
        yield word
    for sign in "=@:":
        if sign in word:
            yield word.partition(sign)[2]
    if re.match(r"-[A-Za-z][./~\w]", word):
        yield word[2:]


class Writes(Struct, frozen=True, kw_only=True):
    """Files that a command would change, as rules name them."""

    asked: tuple[str, ...] = ()
    steers: tuple[str, ...] = ()  # those of them that are asked about in every mode
    own: bool = False  # the run itself has made some, which are not named


def writes(command: Command, facts: Facts) -> Writes:
    """The files that a command would change, by itself and by its redirections."""
    asked: dict[str, None] = {}
    steers: dict[str, None] = {}
    own = False
    for word in (*command.outs, *_changed(command)):
        for place in at.places(word, command.dirs, facts):
            if at.sink(place):
                continue
            if at.owned(place, facts):
                own = True
                continue
            name = at.shown(place, facts)
            asked[name] = None
            if _steers(place, facts):
                steers[name] = None
    return Writes(asked=tuple(asked), steers=tuple(steers), own=own)


def _steers(place: str, facts: Facts) -> bool:
    """Whether a change there is asked about in every mode."""
    told = place.replace(ANY, SOME)
    if at.kept(told) or at.secret(told):
        return True
    return not at.writable(place.partition(ANY)[0] if ANY in place else place, facts)


def _changed(command: Command) -> Iterator[str]:
    """The operands that a program is known to change."""
    if not command.words or command.code:
        return
    name, words = program(command.words[0]), command.words[1:]
    operands = [word for word in words if not word.startswith("-") or word == "-"]
    if name in {"mkdir", "touch", "tee", "truncate", *programs.REMOVES}:
        yield from operands
    elif name in {"chmod", "chown"}:
        yield from operands[1:]
    elif name in {"cp", "mv", "ln", "install"}:
        yield from _copied(name, words, operands)
    elif name in {"sed", "gsed"} and programs.sed(words).edits:
        yield from programs.sed(words).files
    elif name == "perl" and any(re.match(r"-\w*i", word) for word in words):
        yield from operands
    elif name == "dd":
        yield from (word[3:] for word in words if word.startswith("of="))
    elif name in {"sort", "curl", "wget", "git"}:
        yield from _outputs(words)


def _copied(name: str, words: tuple[str, ...], operands: list[str]) -> Iterator[str]:
    """What is written where something is copied or moved to, as a file or into a directory."""
    for word in words:
        if word.startswith(("-t", "--target-directory=")):
            yield word.partition("=")[2] or word[2:] or "."
    target = operands[-1] if operands else ""
    if target and not (target.endswith("/") or len(operands) > 2):
        yield target
    base = target.rstrip("/")
    for word in operands[:-1]:
        yield f"{base}/{word.rstrip('/').rpartition('/')[2]}"
        if name == "mv":
            yield word


def _outputs(words: tuple[str, ...]) -> Iterator[str]:
    for flag, word in zip(words, [*words[1:], ""], strict=False):
        if flag in {"-o", "-O", "--output", "--output-document"}:
            yield word
        elif flag.startswith(("--output=", "-o")):
            yield flag.partition("=")[2] or flag[2:]

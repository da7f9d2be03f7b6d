"""What a shell line amounts to: its commands, how free each is, which files it touches."""

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agent.shell import git as gits
from agent.shell import place as at
from agent.shell import programs
from agent.shell.files import reads, writes
from agent.shell.grammar import MOST_COMMANDS, MOST_TEXT, read
from agent.shell.line import Command
from agent.shell.place import Facts
from agent.shell.within import Within, program, within
from agent.shell.word import ANY, HOME, SOME, WORKSPACE, known, shown

Kind: TypeAlias = Literal["free", "plain", "always", "never"]

NESTED = 8  # shells within shells
MOST_PARTS = 400

_SYSTEM = re.compile(r"/(?:usr/(?:local/)?|opt/homebrew/)?s?bin/[^/]+")
_DEEP = {"rm": "rR", "srm": "rR", "chmod": "R", "chown": "R", "chgrp": "R"}  # into directories
_TESTS = re.compile(r"-i?(?:name|path|regex)|-[acm](?:time|min|newer)|-newer|-size|-empty")


class Part(Struct, frozen=True, kw_only=True):
    """One command of a line. What may happen without a question is for rules and modes to say."""

    kind: Kind  # free: it only looks · plain · always: asked about in every mode · never
    why: str = ""
    text: str  # as it stands in the line
    forms: tuple[str, ...]  # as rules may be written for it; the first is what runs, word by word
    verb: str = ""  # what a rule must name at least; "": all of it
    exact: bool = False  # its program's rule does not cover it
    inner: bool = False  # another part of the line runs it
    reads: tuple[str, ...] = ()  # files it may read, as rules name them
    secrets: tuple[str, ...] = ()  # those of them that are secrets
    writes: tuple[str, ...] = ()  # files it would change
    steers: tuple[str, ...] = ()  # those of them that are asked about in every mode
    own: bool = False  # it changes files that the run itself has made
    redirects: bool = False  # some of them because of a redirection


class Survey(Struct, frozen=True, kw_only=True):
    parts: tuple[Part, ...]
    doubt: str = ""  # why there may be more than these
    long: bool = False  # that is because of its length
    ends: tuple[str, ...] = (".",)  # where a shell may be afterwards


def survey(text: str, facts: Facts) -> Survey:
    """What a command line would do, as far as its text tells."""
    line = read(text, facts.dirs)
    doubt, long = line.doubt, len(text) > MOST_TEXT
    parts: list[Part] = []
    todo = [(command, 0) for command in line.commands]
    while todo:
        command, depth = todo.pop(0)
        inner = within(command)
        doubt = doubt or (inner.doubt if inner.doubt and not command.words else "")
        if depth >= NESTED or len(parts) > MOST_PARTS:
            doubt = doubt or "it is nested too deep"
            break
        parts.append(_part(command, inner, facts, inner_of=depth > 0))
        todo[:0] = [
            (structs.replace(each, outs=each.outs if each.text != command.text else ()), depth + 1)
            for each in inner.commands
        ]
    if len(parts) > MOST_COMMANDS:
        doubt, long = f"it has more than {MOST_COMMANDS} parts", True
    return Survey(parts=tuple(parts), doubt=doubt, long=long, ends=line.ends)


def _part(command: Command, inner: Within, facts: Facts, *, inner_of: bool) -> Part:
    kind, why, verb = _kind(command, inner, facts)
    read_files, secrets = reads(command, facts)
    changed = writes(command, facts)
    exact = bool(command.assigned and command.words) or _exact(command)
    if ANY in "".join(command.words[:1]):
        exact = True
    return Part(
        kind=kind,
        why=why,
        text=command.text.strip(),
        forms=tuple(dict.fromkeys(_forms(command))),
        verb=verb,
        exact=exact,
        inner=inner_of,
        reads=read_files,
        secrets=secrets,
        writes=changed.asked,
        redirects=bool(command.outs),
        steers=changed.steers,
        own=changed.own,
    )


def _forms(command: Command) -> Iterator[str]:
    """As rules may name a command; marks stay in."""
    if not command.words:
        yield command.text.strip()
        return
    words = tuple(
        word.replace(HOME, "~").replace(WORKSPACE, "$TS_WORKSPACE") for word in command.words
    )
    yield " ".join(words)
    name = program(words[0])
    if name != words[0]:
        yield " ".join((name, *words[1:]))
    if re.fullmatch(r"[gm](?:awk|sed|tar|find|sort|rm|make)", name):
        yield " ".join((name[1:], *words[1:]))
    if name == "git":
        yield f"git {gits.of(words[1:]).text}"
    if not command.code and known("".join(words)):
        yield command.text.strip()


# -- how free a command is ------------------------------------------------------------------------


def _kind(command: Command, inner: Within, facts: Facts) -> tuple[Kind, str, str]:
    """Its kind, why, and the words that a rule must name at least."""
    if command.code:
        return "plain", "what it runs is not told by the line", ""
    if not command.words:
        return _wordless(command)
    first, words = command.words[0], command.words[1:]
    if ANY in first or SOME in first or " " in first or not first:
        return "always", "which program would run is not told by the line", ""
    name = program(first)
    if why := _never(name, words, command.dirs, facts):
        return "never", why, ""
    if inner.doubt:
        return "always", inner.doubt, name
    if name in programs.REMOVES and _all_owned(words, command.dirs, facts):
        return "free", "", ""
    plain = " ".join((name, *words))
    if found := _always(name, words, plain):
        return "always", *found
    itself = not command.assigned and (name == first or _SYSTEM.fullmatch(first) is not None)
    if itself and not inner.wraps and _looks(name, words, plain, command.dirs, facts):
        return "free", "", ""
    return "plain", "", ""


def _wordless(command: Command) -> tuple[Kind, str, str]:
    if command.defines:
        return "plain", f"it defines {command.defines} for later commands", ""
    for name in command.assigned:
        if not name.islower() or name.endswith("_proxy") or name == "?":
            return "plain", f"it sets {name} for later commands", ""
    return "free", "", ""


def _always(name: str, words: tuple[str, ...], plain: str) -> tuple[str, str] | None:
    """Why a command is asked about in every mode, and the words that a rule must name."""
    if name == "git":
        git = gits.of(words)
        if destroys := git.destroys:
            return destroys
        if git.words and ANY in git.words[0]:
            return "which of git's commands would run is not told by the line", "git"
        return None
    if name == "find" and "-delete" in words:
        return "removes files", ""
    for expression, why in programs.ALWAYS:
        if found := expression.match(plain):
            return why, found[0].rstrip()
    return None


def _looks(
    name: str, words: tuple[str, ...], plain: str, dirs: tuple[str, ...], facts: Facts
) -> bool:
    """Whether a command only looks, or only changes the files that `files.writes` tells."""
    if name == "git":
        git = gits.of(words)
        elsewhere = (place for word in git.elsewhere for place in at.places(word, dirs, facts))
        return git.looks and all(at.inside(each, (facts.cwd, *facts.roots)) for each in elsewhere)
    if name == "cd":
        return _goes_inside(words, dirs, facts)
    looks = programs.LOOKS.get(name)
    if looks is None:
        return not any(ANY in word for word in words) and _unlisted(name, words, plain)
    told = words[:1] if name == "printf" else words
    if looks.more(told):
        return False
    if looks.strict and any(word.startswith(SOME) or ANY in word for word in told):
        return False
    return looks.names or not any(ANY in word for word in words)


def _unlisted(name: str, words: tuple[str, ...], plain: str) -> bool:
    """The same for programs with rules of their own; no word is unknown."""
    if programs.tells_version(name, words) or programs.LOOKING_TOOLS.fullmatch(plain):
        return True
    match name:
        case "set":
            return programs.harmless_set(words)
        case "command":
            return bool(words) and words[0] in {"-v", "-V"}
        case "sed" | "gsed":
            return programs.sed(words).looks
        case "awk" | "gawk" | "mawk":
            return programs.awk(words).looks
        case "tar":
            return 1 <= len(words) <= 2 and bool(re.fullmatch(r"-?[vzjJf]*t[vzjJf]*", words[0]))
        case _:
            return name in programs.EDITORS and _edits_only(name, words)


def _edits_only(name: str, words: tuple[str, ...]) -> bool:
    options = re.compile(programs.EDITORS[name] or "(?!)")
    for word in words:
        if ANY in word or word.startswith(SOME):
            return False
        if word.startswith("-") and word != "-" and not options.fullmatch(word):
            return False
    return any(not word.startswith("-") for word in words)


def _goes_inside(words: tuple[str, ...], dirs: tuple[str, ...], facts: Facts) -> bool:
    operands = [word for word in words if word not in {"-P", "-L", "--"}]
    return (
        len(operands) == 1
        and all(
            at.inside(place, (facts.cwd, *facts.roots, *facts.workspaces)) and SOME not in place
            for place in at.places(operands[0], dirs, facts)
        )
        and not operands[0].startswith("-")
    )


def _exact(command: Command) -> bool:
    """Whether arguments make a program that looks do more, which its rule does not cover."""
    if not command.words or command.code:
        return False
    name, words = program(command.words[0]), command.words[1:]
    name = re.sub(r"^[gm](?=awk|find|sed|sort|tar)", "", name)
    unknown = any(ANY in word or word.startswith(SOME) for word in words)
    match name:
        case "git":
            return gits.of(words).runs or unknown
        case "sed":
            return not programs.sed(words).looks or programs.sed(words).edits or unknown
        case "awk":
            return not programs.awk(words).looks or unknown
        case "less" | "more" | "man":
            return True
        case "ssh":
            return any(word.startswith(("-o", "-F")) for word in words) or unknown
        case "tar":
            return any(map(programs.tar_runs, words)) or unknown
        case _:
            looks = programs.LOOKS.get(name)
            told = words[:1] if name == "printf" else words
            return looks is not None and looks.strict and (bool(looks.more(told)) or unknown)


def _all_owned(words: tuple[str, ...], dirs: tuple[str, ...], facts: Facts) -> bool:
    operands = [word for word in words if not word.startswith("-")]
    return bool(operands) and all(
        at.owned(place, facts) for word in operands for place in at.places(word, dirs, facts)
    )


# -- what is refused in every mode ----------------------------------------------------------------


def _never(name: str, words: tuple[str, ...], dirs: tuple[str, ...], facts: Facts) -> str:
    """Why a command is never run: it removes or moves all that a place holds."""
    options = [word for word in words if word.startswith("-")]
    operands = [word for word in words if not word.startswith("-") or word == "-"]
    if name in _DEEP:
        if not (ANY in words or any(_deep(name, word) for word in options)):
            return ""
        operands = operands[1:] if name.startswith("ch") else operands
    elif name == "mv":
        into = any(word.startswith(("-t", "--target")) for word in options)
        operands = operands if into else operands[:-1]
    elif name == "find" and "-delete" in words:
        tested = any(map(_TESTS.fullmatch, words))
        operands = [word for word in _starts(words) if not tested or _far(word, dirs, facts)]
    elif name != "trash":
        return ""
    for word in operands:
        if why := at.critical(word, dirs, facts):
            return f"{name} would reach all of it: {why}"
    return ""


def _deep(name: str, option: str) -> bool:
    if option.startswith("--"):
        return len(option) > 3 and "--recursive".startswith(option)
    return any(letter in option for letter in _DEEP[name])


def _starts(words: tuple[str, ...]) -> list[str]:
    starts: list[str] = []
    for word in words:
        if word.startswith(("-", "(", "!")):
            break
        starts.append(word)
    return starts or ["."]


def _far(word: str, dirs: tuple[str, ...], facts: Facts) -> bool:
    return not all(
        at.inside(place, (facts.cwd, *facts.roots)) for place in at.places(word, dirs, facts)
    )


def described(part: Part) -> str:
    """A part for the user, one line."""
    text = " ".join(part.text.split()) or shown(part.forms[0])
    return text if len(text) <= 120 else text[:119] + "…"

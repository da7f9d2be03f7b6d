"""Which files there are: names below a directory, without what .gitignore leaves out.

The work is ripgrep's where it is found, else it is done here, by the same rules. Hidden files
count, version control's own folders never do, links are not followed. `.gitignore` and `.ignore`
count in every folder, with a git repository or without; those above the directory searched count
up to the repository's root, or up to the working directory where there is none.
"""

import os
import re
import sysconfig
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools.child.program import running
from agent.tools.file.disk import missing
from agent.tools.file.text import spelled
from agent.tools.find.glob import STARS, Glob, path_expression

SECONDS = 20.0  # that a walk or a search may take
FILES = 500_000  # names that are kept
CONTROLS = (".git", ".hg", ".svn", ".jj")
IGNORES = (".gitignore", ".ignore")  # a later one outranks an earlier one
IGNORE_BYTES = 1 << 20  # of one such file that are read


class Place(Struct, frozen=True, kw_only=True):
    """Where to look."""

    base: Path  # the paths that come back are written from here
    part: str  # the directory or file below it; "" is all
    shown: (
        str  # what stands before a path when it is shown; "" where `base` is the working directory
    )
    alone: bool  # a file, not a directory

    @property
    def full(self) -> Path:
        return self.base / self.part

    def path(self, found: str) -> str:
        """`found` as the model should name it."""
        return spelled(self.shown + found)

    def inner(self, found: str) -> str:
        """`found` from the directory searched."""
        return found[len(self.part) + 1 :] if self.part and not self.alone else found


class Names(Struct, frozen=True, kw_only=True):
    """Paths from the base of a place, in order; `cut`: there are more, which were not seen."""

    paths: list[str]
    cut: bool


def place(context: Context, directory: str) -> Place:
    """Raises ToolError for what is no directory or file inside."""
    full = context.inside(directory or ".", reading=True)
    try:
        alone = full.is_file()
        if not alone and not full.exists():
            raise ToolError(missing(context, directory))
        if not alone and not full.is_dir():
            raise ToolError(f"{spelled(directory)} is neither a directory nor a regular file")
    except OSError as error:
        raise ToolError(f"{spelled(directory)}: {error.strerror or error}") from error
    within = full.is_relative_to(context.cwd)
    base = context.cwd if within else full.parent if alone else full
    part = "" if full == base else str(full.relative_to(base))
    return Place(base=base, part=part, shown="" if within else f"{base}/", alone=alone)


def ordered(path: str) -> list[str]:
    """The key by which paths are sorted: folder by folder, as ripgrep does."""
    return path.split("/")


def ripgrep(context: Context) -> Path | None:
    """The `rg` to use, from PATH or beside this Python's own scripts; None: there is none.

    One that stands where the agent may write is passed over, whatever it is. An environment whose
    PATH is empty has no programs at all.
    """
    path = context.env.get("PATH")
    if path == "":
        return None
    folders = [*(path or "").split(os.pathsep), sysconfig.get_path("scripts")]
    homes = [context.cwd, *context.roots, *([context.workspace] if context.workspace else [])]
    for folder in folders:
        if not Path(folder).is_absolute():
            continue
        with suppress(OSError, ValueError):
            program = (Path(folder) / "rg").resolve()
            if any(each.is_relative_to(home) for home in homes for each in (program, Path(folder))):
                continue
            if program.is_file() and os.access(program, os.X_OK):
                return program
    return None


def command(rg: Path, place: Place, *, ignored: bool, globs: Sequence[Glob] = ()) -> list[str]:
    """ripgrep's command line for a place, up to what is searched for; `target` ends it."""
    argv = [str(rg), "--no-config", "--no-messages", "--hidden", "--no-require-git"]
    argv += ["--glob=!{" + ",".join(CONTROLS) + "}"]
    if ignored:
        argv += ["--no-ignore"]
    else:
        argv += ["--no-ignore-global"]
        if top(place) is None:
            argv += ["--no-ignore-parent"]
            argv += [f"--ignore-file={file}" for file in ignores_above(place)]
    if globs and all(each.names for each in globs):
        argv += [f"--type-add=wanted:{name}" for each in globs for name in each.names]
        argv += ["--type=wanted"]
    return argv


def target(place: Place) -> list[str]:
    return ["--", f"./{place.part}"]


def named(path: bytes) -> str:
    """A path of ripgrep's, from the base."""
    return os.fsdecode(path.removeprefix(b"./"))


def top(place: Place) -> Path | None:
    """The root of the git repository that the place is in."""
    full = place.full
    for folder in (full, *full.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return None


def ignores_above(place: Place) -> list[Path]:
    """The ignore files from the base down to the place, its own left out, where no git is."""
    folders = [place.base, *reversed([place.base / each for each in Path(place.part).parents])]
    folders = [folder for folder in dict.fromkeys(folders) if folder != place.full]
    return [folder / name for folder in folders for name in IGNORES if (folder / name).is_file()]


def names(
    context: Context,
    place: Place,
    *,
    ignored: bool = False,
    wanted: Glob | None = None,
    seconds: float = SECONDS,
) -> Names:
    """The files below a place, FILES of them at most. Raises StoppedError if that is set."""
    if place.alone:
        return Names(paths=[place.part], cut=False)
    rg = ripgrep(context)
    if rg is None:
        walk = Walk(context.stop, seconds)
        paths = list(islice(walk.files(place, ignored=ignored), FILES + 1))
        late = walk.late
    else:
        argv = command(rg, place, ignored=ignored, globs=[wanted] if wanted else [])
        argv += ["--files", "--null", *target(place)]
        with running(argv, cwd=place.base, stop=context.stop, seconds=seconds) as program:
            records = program.records(b"\0", longest=1 << 16)
            paths = [named(record) for record in islice(records, FILES + 1)]
        late = program.late
        if program.code == 2 and program.complaint:
            raise ToolError(f"{rg} can't list files: {program.complaint.partition(chr(10))[0]}")
    full = len(paths) > FILES
    if wanted:
        paths = [path for path in paths if wanted(place.inner(path)) or wanted(path)]
    return Names(paths=sorted(paths[:FILES], key=ordered), cut=late or full)


class Rule(Struct, frozen=True, kw_only=True):
    """A line of an ignore file."""

    expression: re.Pattern[str]  # of paths from the file's folder
    out: bool  # False: what an earlier rule left out is in again
    folders: bool  # it speaks of folders alone


Rules: TypeAlias = tuple[tuple[str, tuple[Rule, ...]], ...]
"""What folders leave out, outer ones first: each folder with a slash at its end, and its rules."""


class Walk:
    """A walk that reads the ignore files itself."""

    def __init__(self, stop: Stop, seconds: float) -> None:
        self._stop = stop
        self._end = time.monotonic() + seconds
        self.late = False  # the time was up before all was seen

    def files(self, place: Place, *, ignored: bool) -> Iterator[str]:
        """Paths from the base of `place`, in no order. What cannot be read is passed over."""
        start = slashed(str(place.base))
        rules = () if ignored else rules_above(place)
        folders: list[tuple[str, Rules]] = [(slashed(str(place.full)), rules)]
        while folders:
            self._stop.check()
            if time.monotonic() > self._end:
                self.late = True
                return
            folder, rules = folders.pop()
            entries = listed(folder)
            if not ignored:
                rules = rules_in(folder, {entry.name for entry in entries}, rules)
            for entry in entries:
                path = folder + entry.name
                if entry.name in CONTROLS or entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not left_out(f"{path}/", rules):
                        folders.append((f"{path}/", rules))
                elif entry.is_file(follow_symlinks=False) and not left_out(path, rules):
                    yield path.removeprefix(start)


def slashed(folder: str) -> str:
    return folder.rstrip("/") + "/"


def listed(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it cannot be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def rules_above(place: Place) -> Rules:
    """The rules of the folders above the place: none where they leave the place itself out, for
    whoever names it wants to see it."""
    root = top(place) or place.base
    rules: Rules = ()
    for parent in reversed(place.full.parents):
        if parent.is_relative_to(root):
            folder = slashed(str(parent))
            rules = rules_in(folder, {entry.name for entry in listed(folder)}, rules)
            on = place.full.relative_to(parent).parts[0]
            if left_out(f"{folder}{on}/", rules):
                return ()
    return rules


def rules_in(folder: str, names: Container[str], rules: Rules) -> Rules:
    """The rules that hold inside a folder. A repository's root ends what is above it."""
    files = [name for name in IGNORES if name in names]
    if CONTROLS[0] in names:
        rules = ()
        files = [".git/info/exclude", *files]
    for name in files:
        rules = (*rules, (folder, ignore_file(folder + name)))
    return rules


def ignore_file(path: str) -> tuple[Rule, ...]:
    """The rules in a file, the one that counts first before the others."""
    try:
        with Path(path).open("rb") as file:
            lines = os.fsdecode(file.read(IGNORE_BYTES)).split("\n")
    except OSError:
        return ()
    return tuple(filter(None, map(rule, reversed(lines))))


def rule(line: str) -> Rule | None:
    """A line of an ignore file (gitignore(5), Pattern Format); None for one that is no rule."""
    text = re.sub(r"(?<!\\)\s+$", "", line.removesuffix("\r"))
    out = not text.startswith("!")
    text = text if out else text[1:]
    parts = [part for part in text.split("/") if part]
    if not parts or text.startswith("#"):
        return None
    if "/" not in text.rstrip("/"):
        parts = [STARS, *parts]
    return Rule(
        expression=re.compile(path_expression(parts, literal=False), re.DOTALL),
        out=out,
        folders=text.endswith("/"),
    )


def left_out(path: str, rules: Rules) -> bool:
    """Whether the rules leave a path out; a folder's ends in a slash. The innermost rule counts,
    and in one file the last."""
    name = path.removesuffix("/")
    for folder, those in reversed(rules):
        inner = name.removeprefix(folder)
        for each in those:
            if each.expression.match(inner) and (name != path or not each.folders):
                return each.out
    return False

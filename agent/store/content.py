"""What files hold, as SHA-256: those that a step reads, those it writes, its outputs.

What can't be known for sure is not guessed: too many files, too many bytes, a file that can't be
read or has a name that no log can hold give None. Version control's folders and our own state are
never among a step's files. Links are not followed into folders; a link is its text and, where it
leads to a file, what that holds.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from time import monotonic, time_ns
from typing import TypeAlias

from agent.plan import Step
from agent.stop import Stop
from agent.store.disk import opened
from agent.store.workspace import OWN

MOST_READ = 20_000  # files of one step's reads
MOST_WRITTEN = 1_000  # likewise of its writes; each is named in its event
MOST_BYTES = 256 * 1024 * 1024  # of them together
MOST_SEEN = 200_000  # names that are looked at for one step
SECONDS = 20.0  # that may be looked for
PIECE = 1024 * 1024  # bytes that are read at once
SETTLED = 2_000_000_000  # nanoseconds after which a changed file has another time
DEEP = 4  # `**` in one pattern
CHOICES = 64  # patterns that braces may stand for

CONTROLS = frozenset({".git", ".hg", ".svn", ".jj"})
OURS = tuple(f".agent/{name.rstrip('/')}" for name in OWN)
WILD = re.compile(r"[*?\[\]{}]")
VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
BRACES = re.compile(r"\{([^{}]*)\}")

Hashes: TypeAlias = dict[str, str]
Pattern: TypeAlias = tuple[str, ...]  # the parts of a glob


class UnknownError(Exception):
    """What files hold can't be told."""


class Content:
    """The files of a working directory. Threads may share it.

    `visible` lists those that git would not ignore; None where it can't.
    """

    def __init__(
        self, cwd: Path, visible: Callable[[], Sequence[str] | None], *, stop: Stop | None = None
    ) -> None:
        self._cwd, self._visible, self._stop = cwd, visible, stop or Stop()
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}  # by what they are taken for

    def read(self, step: Step) -> str | None:
        """SHA-256 of all that a step reads, those files left out that it writes itself: they are
        judged by how it left them. A step that does not say what it reads, reads everything."""
        try:
            if step.reads is None:
                listed = self._visible()
                if listed is None:
                    return None
                found = iter(self._with_links(listed))
            else:
                found = self._matching(step.reads, fold=True)
            written = patterns(step.writes or ())
            paths = (path for path in found if not any(fits(path, each) for each in written))
            whole, root = hashlib.sha256(), str(self._cwd)
            for path, digest in sorted(self._hashed(paths, MOST_READ).items()):
                runs = "x" if os.access(f"{root}/{path}", os.X_OK) else ""
                whole.update(f"{path}\0{digest}{runs}\n".encode())
            return whole.hexdigest()
        except (UnknownError, OSError):
            return None

    def written(self, step: Step) -> Hashes | None:
        """The files that a step says it writes, by path from the working directory."""
        if step.writes is None:
            return {}
        try:
            return self._hashed(self._matching(step.writes), MOST_WRITTEN)
        except UnknownError:
            return None

    def outputs(self, paths: Sequence[str]) -> Hashes:
        """Files and directories by their absolute path, without those that are not there or can't
        be read."""
        found = {}
        for path in paths:
            try:
                found[path] = self.digest(Path(path))
            except (UnknownError, ValueError):
                continue
        return found

    def digest(self, path: Path) -> str:
        """SHA-256 of a file, or of all that is in a directory. Raises UnknownError."""
        try:
            if not path.is_dir() or path.is_symlink():
                return self._digest(str(path))
            whole = hashlib.sha256(b"directory\0")
            names = sorted(islice(below(str(path), "", self._stop), MOST_SEEN))
            for name in names:
                whole.update(f"{name}\0{self._digest(f'{path}/{name}')}\n".encode())
            return whole.hexdigest()
        except (OSError, UnicodeEncodeError) as error:
            raise UnknownError(str(error)) from error

    def _hashed(self, paths: Iterable[str], most: int) -> Hashes:
        """Raises UnknownError before anything is read where there is too much of it."""
        there, left, root = dict[str, os.stat_result](), MOST_BYTES, str(self._cwd)
        try:
            for path in paths:
                path.encode()
                with suppress(FileNotFoundError):  # it has gone since it was listed
                    there[path] = found = os.lstat(f"{root}/{path}")
                    left -= found.st_size
                if len(there) > most or left < 0:
                    raise UnknownError("too many files, or too large ones")
            return {path: self._digest(f"{root}/{path}", found) for path, found in there.items()}
        except (OSError, UnicodeEncodeError) as error:
            raise UnknownError(str(error)) from error

    def _digest(self, path: str, found: os.stat_result | None = None) -> str:
        """SHA-256 of a file. Raises OSError, UnknownError."""
        found = found or os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            text = os.fsencode(Path(path).readlink())
            whole = hashlib.sha256(b"link\0" + text + b"\0")
            if Path(path).is_file():
                whole.update(self._digest(os.path.realpath(path)).encode())
            return whole.hexdigest()
        if not stat.S_ISREG(found.st_mode):
            raise UnknownError(f"{path} is no file")
        mark = (
            found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns, found.st_mtime_ns,
        )  # fmt: skip
        if (known := self._known.get(path)) and known[0] == mark:
            return known[1]
        now = time_ns()
        whole = hashlib.sha256()
        with opened(Path(path), follow=False) as file:
            while piece := file.read(PIECE):
                whole.update(piece)
                self._stop.check()
        digest = whole.hexdigest()
        if now - max(found.st_ctime_ns, found.st_mtime_ns) > SETTLED:
            self._known[path] = mark, digest
        return digest

    def _with_links(self, paths: Sequence[str]) -> list[str]:
        """The listed files, and the links beside them, which a list leaves out."""
        folders = {""}
        for path in paths:
            while path := path.rpartition("/")[0]:
                if path in folders:
                    break
                folders.add(path)
        kept = [path for path in paths if not own(path)]
        for folder in folders:
            if own(folder):
                continue
            with os.scandir(self._cwd / folder) as entries:
                kept += [
                    f"{folder}/{each.name}".lstrip("/") for each in entries if each.is_symlink()
                ]
        return kept

    def _matching(self, globs: Sequence[str], *, fold: bool = False) -> Iterator[str]:
        """The files that any of the globs means, from the working directory; ignored ones too."""
        seen = set[str]()
        for each in patterns(globs):
            stem = stem_of(each)
            start = "/".join(stem)
            full = f"{self._cwd}/{start}" if start else str(self._cwd)
            folder = Path(full)
            if own(start) or CONTROLS & set(stem):
                continue
            if stem == each and (folder.is_file() or folder.is_symlink()):
                found = iter([start])
            else:
                found = below(full, f"{start}/" if start else "", self._stop)
            wanted = tuple(part.casefold() for part in each) if fold else each
            for path in found:
                if path not in seen and fits(path.casefold() if fold else path, wanted):
                    seen.add(path)
                    yield path


def below(folder: str, prefix: str, stop: Stop) -> Iterator[str]:
    """Files and links in a folder and below it, `prefix` before each; none where it is missing.

    Raises UnknownError for a folder that can't be read, and where there is no end of them.
    """
    waiting, seen, end = [(folder, prefix)], 0, monotonic() + SECONDS
    while waiting:
        full, start = waiting.pop()
        stop.check()
        try:
            with os.scandir(full) as entries:
                listed = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UnknownError(str(error)) from error
        seen += len(listed)
        if seen > MOST_SEEN or monotonic() > end:
            raise UnknownError(f"more than {MOST_SEEN} files in {folder}")
        for entry in listed:
            path = start + entry.name
            if entry.name in CONTROLS or own(path):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, f"{path}/"))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield path


def own(path: str) -> bool:
    """Whether a path from the working directory is our own state."""
    return path.startswith(OURS)


def patterns(globs: Sequence[str]) -> list[Pattern]:
    """The globs of a plan, in parts, braces spelled out. Raises UnknownError for one that is too
    wild to be told for sure.

    What a variable stands for may be anything; a wild name alone may be anywhere.
    """
    made = []
    for glob in globs:
        for one in _spelled(VARIABLE.sub("**", glob)):
            parts = [part for part in one.split("/") if part not in {"", "."}]
            if len(parts) == 1 and WILD.search(parts[0]):
                parts = ["**", *parts]
            if parts.count("**") > DEEP:
                raise UnknownError(f"{glob} is too wild")
            made.append(tuple(parts))
    return made


def _spelled(glob: str) -> list[str]:
    """What a glob means, without its braces.

    >>> _spelled("{a,b}.{c,d}")
    ['a.c', 'a.d', 'b.c', 'b.d']
    """
    open, done = [glob], list[str]()
    while open:
        one = open.pop(0)
        if not (found := BRACES.search(one)):
            done.append(one)
            continue
        open[:0] = [
            one[: found.start()] + each + one[found.end() :] for each in found[1].split(",")
        ]
        if len(open) + len(done) > CHOICES:
            raise UnknownError(f"{glob} is too wild")
    return done


def stem_of(pattern: Pattern) -> Pattern:
    """The parts before the first wild one."""
    wild = (n for n, part in enumerate(pattern) if WILD.search(part))
    return pattern[: next(wild, len(pattern))]


def fits(path: str, pattern: Pattern) -> bool:
    """Whether a pattern means a path; a directory stands for all that is in it.

    >>> fits("src/a/b.py", ("src", "**", "*.py")), fits("src/a.py", ("src",)), fits("a", ("b",))
    (True, True, False)
    """
    return _fits(tuple(path.split("/")), pattern)


def _fits(path: Pattern, pattern: Pattern) -> bool:
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_fits(path[n:], pattern[1:]) for n in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _fits(path[1:], pattern[1:])

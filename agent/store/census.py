"""The index of the store brought up to the working tree: what has changed is read, the rest known.

What is about to go from the index and is only lent is copied first. A file that is too large or
can't be read gets a mark: an entry of a kind that nothing else in our trees has, with an id made of
its size and times.
"""

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import structs

from agent.errors import AgentError
from agent.store.disk import opened
from agent.store.plumbing import Calls, GitError, lacking, object_id
from agent.store.repository import Repository
from agent.store.workspace import OWN

LARGE = 50 * 2**20  # bytes; a larger file is not kept
MOST_NEW = 2 * 2**30  # bytes of files that one snapshot may add
MOST_FILES = 200_000  # that one snapshot may add
BULK = 200  # files of one snapshot from which on they are written as one
AT_ONCE = 5000  # of them
MOST_INDEX = 256 * 2**20  # bytes of an index that is taken over
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the tree without files; git knows it

FILE, PROGRAM, LINK = "100644", "100755", "120000"
MARK = "160000"  # the mode of a mark

Stamp: TypeAlias = tuple[int, int, int]
Seen: TypeAlias = tuple[Stamp, str]
"""How the index stood after a snapshot, and the tree."""


def tree(calls: Calls, cwd: Path, repository: Repository | None, last: Seen, most: int) -> str:
    """The tree of `cwd` as it stands, the store's index brought up to it.

    `repository` lends its index for the first time. Where nothing has changed since `last`, that
    is it. Raises AgentError for more than `most` bytes of new files.
    """
    inner = cwd.relative_to(calls.top)
    prefix = os.fsencode(inner) + b"/" if inner.parts else b""
    if calls.lent and not calls.index.exists():
        _seed(calls, prefix, repository)
    within = ("--", f":(literal){os.fspath(inner)}") if prefix else ()
    words = ("ls-files", "-z", "-t", "--modified", "--deleted", "--others")
    todo = _Todo(calls.top, prefix + b".agent/", most)
    for row in set(calls(*words, "--exclude-standard", *within).split(b"\0")):
        todo.take(row[2:], known=row[:1] != b"?")
    stamp, known = last
    still = not (todo.gone or todo.marks or todo.files)
    if known and still and stamp == stamp_of(calls.index):
        return known
    if calls.lent and todo.known:
        _pin(calls, todo.known)
    if todo.gone:
        calls("update-index", "-z", "--force-remove", "--stdin", data=_rows(todo.gone))
    if todo.marks:
        calls("update-index", "-z", "--add", "--replace", "--index-info", data=_rows(todo.marks))
    calls = structs.replace(calls, settings=_writing(calls, len(todo.files)))
    words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    for start in range(0, len(todo.files), AT_ONCE):  # what was read in time need not be again
        calls(*words, data=_rows(todo.files[start : start + AT_ONCE]))
    if prefix and not calls("ls-files", "-z", *within):
        return EMPTY
    # Without the lent objects, so that every directory's tree is written into our store.
    where = (f"--prefix={os.fspath(inner)}/",) if prefix else ()
    return calls("write-tree", "--missing-ok", *where, lent=False).decode().strip()


def stamp_of(path: Path) -> Stamp:
    """What tells a file from what it was, as long as it is only ever exchanged."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _seed(calls: Calls, prefix: bytes, repository: Repository | None) -> None:
    """Begin with the index of the user's repository, which knows most files already."""
    if repository is None or calls.top != repository.top:
        return
    try:
        with opened(repository.index, follow=False) as source:
            status = os.fstat(source.fileno())
            if status.st_size > MOST_INDEX:
                return
            calls.index.write_bytes(source.read())
        # Git looks again at files that are as young as the index: it must not seem younger.
        os.utime(calls.index, ns=(status.st_atime_ns, status.st_mtime_ns))
    except OSError:
        return  # there is none; then all files are read
    try:
        _clean(calls, prefix)
        _take_trees(calls)
    except GitError:  # an index of a kind that stands not alone
        calls.index.unlink(missing_ok=True)


def _take_trees(calls: Calls) -> None:
    """Have the directories that the index knows as unchanged in our own store."""
    tree = calls("write-tree", "--missing-ok").decode().strip()
    rows = calls("ls-tree", "-r", "-d", "-z", tree).split(b"\0")
    ids = [row.split(b"\t")[0].split()[2] for row in rows if row]
    pack = os.fspath(calls.folder / "objects/pack/pack")
    calls("pack-objects", "-q", pack, data=b"\n".join([tree.encode(), *ids]) + b"\n")


def _pin(calls: Calls, names: Collection[bytes]) -> None:
    """Copy what the index has of these files, and is about to lose, where it is only lent."""
    rows = (row.partition(b"\t") for row in calls("ls-files", "-z", "--stage").split(b"\0"))
    ids = {
        about.split(b" ")[1].decode()
        for about, _, name in rows
        if name in names and not about.startswith(MARK.encode())
    }
    objects = calls.folder / "objects"
    ids = {id for id in ids if not (objects / id[:2] / id[2:]).exists()}
    lost = lacking(calls, ids, lent=False) if ids else ids
    if not lost:
        return
    wanted = "\n".join(lost).encode() + b"\n"
    with calls.piped("pack-objects", "-q", "--stdout", data=wanted) as pack:
        calls("unpack-objects", "-q", lent=False, input=pack)


class _Todo:
    """What the index has to be told of the files that have changed."""

    def __init__(self, top: Path, own: bytes, most: int) -> None:
        self.gone: list[bytes] = []
        self.marks: list[bytes] = []
        self.files: list[bytes] = []
        self.known = set[bytes]()  # those that the index has otherwise
        self._top = os.fsencode(top)
        self._own = tuple(own + name.encode() for name in OWN)
        self._folders: dict[bytes, bool] = {b"": True}
        self._new, self._most = 0, most  # bytes

    def take(self, name: bytes, *, known: bool) -> None:
        """Raises AgentError for more than may be kept at once."""
        nested = name.endswith(b"/")  # a repository inside
        if not name or nested or name.startswith(self._own) or _temporary(name):
            return
        if known:
            self.known.add(name)
        path = self._top + b"/" + name
        try:
            status = os.lstat(path) if self._real(name.rpartition(b"/")[0]) else None
        except (FileNotFoundError, NotADirectoryError):
            status = None
        if status is None or not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            self.gone.append(name)
        elif stat.S_ISREG(status.st_mode) and (
            status.st_size > LARGE or not os.access(path, os.R_OK)
        ):
            signs = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode)
            self.marks.append(
                f"{MARK} {object_id('mark', repr(signs).encode())} 0\t".encode() + name
            )
        else:
            self.files.append(name)
            self._new += status.st_size
        if self._new > self._most or len(self.files) > MOST_FILES:
            raise AgentError(
                f"there is more here than is kept of a working tree: {MOST_FILES:,} new files, or "
                f"{self._most / 2**30:g} GB of them",
                hint="a .gitignore file can name what need not be kept",
            )

    def _real(self, folder: bytes) -> bool:
        """Whether a directory is one, and none of those above it a link."""
        if folder not in self._folders:
            above = self._real(folder.rpartition(b"/")[0])
            mode = os.lstat(self._top + b"/" + folder).st_mode if above else 0
            self._folders[folder] = stat.S_ISDIR(mode)
        return self._folders[folder]


def _clean(calls: Calls, prefix: bytes) -> None:
    """Take from an index what does not begin so, and flags that hide changes."""
    gone, sure, skipped = [], [], []
    for row in calls("ls-files", "-z", "-v", "--stage").split(b"\0"):
        if not row:
            continue
        about, _, name = row.partition(b"\t")
        flag, mode, *_ = about.split(b" ")
        if mode == MARK.encode() or not name.startswith(prefix):
            gone.append(name)
        elif flag.upper() == b"S":
            skipped.append(name)
        elif flag.islower():
            sure.append(name)
    for option, names in (
        ("--force-remove", gone),
        ("--no-skip-worktree", skipped),
        ("--no-assume-unchanged", [*sure, *skipped]),
    ):
        if names:
            calls("update-index", "-z", option, "--stdin", data=_rows(names))


def _writing(calls: Calls, files: int) -> Mapping[str, str]:
    """How git best writes so many files: each by itself, on the disk when it has ended; or, in a
    fraction of the time, all into one pack."""
    if files < BULK:
        return {"core.fsync": "loose-object,pack,pack-metadata"}
    version = re.search(rb"(\d+)\.(\d+)", calls("version"))
    if version and (int(version[1]), int(version[2])) >= (2, 37):  # earlier: a pack for each
        return {"core.bigFileThreshold": "1", "core.compression": "1"}
    return {}


def _rows(names: Iterable[bytes]) -> bytes:
    return b"\0".join(names) + b"\0"


def _temporary(name: bytes) -> bool:
    """Whether it is a file of ours that is about to take the place of another."""
    last = name.rpartition(b"/")[2]
    return last.startswith(b".ts-") and last.endswith(b".tmp")

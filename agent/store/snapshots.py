"""The working tree as it stands, kept as git objects in a store of ours.

The store is a bare repository in `.agent/undo/`. A snapshot is a tree of the working directory:
every file that git would not ignore, its bytes, its execute bit, its links as links. The user's
repository, if there is one, lends its objects and once its index, so that the first snapshot need
not read every file; it is only read. Whatever undo needs of it is copied into ours, because the
user's own git may drop it.

None of the repository's settings count and nothing that it names is run: git is told where
everything is, reads no settings but ours, and attributes that would change bytes are overruled by
`info/attributes` of the store. What stands in the store's place before us is checked for links
and written anew: it may have come with the folder.

Left alone: ignored files, nested repositories, our own state. A file that is too large or can't
be read is kept as a mark of its size and times, in the form of a link to a commit (which
nothing else in our trees is): that it has changed is known, and what it held is not.
"""

import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from agent.errors import AgentError
from agent.stop import Stop
from agent.store import git, prune, workspace
from agent.store.disk import failed, opened, private
from agent.store.plumbing import Calls, Deadline, GitError
from agent.store.repository import Repository

SECONDS = 20.0  # that a snapshot may take
HASTE = 0.7  # seconds, once the work is to stop
LONG = 3600.0  # seconds that files may take to be put back
POLL = 0.005  # seconds between two looks at the lock
LARGE = 50 * 2**20  # bytes; a larger file is not kept
MOST_NEW = 2 * 2**30  # bytes of files that one snapshot may add
MOST_FILES = 200_000  # that one snapshot may add
BULK = 200  # files of one snapshot from which on they are written as one
MOST_INDEX = 256 * 2**20  # bytes of an index that is taken over
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the tree without files; git knows it
NONE = "0" * len(EMPTY)

FILE, PROGRAM, LINK = "100644", "100755", "120000"
MARK = "160000"  # the mode of a mark
OURS = (b"undo/", b"runs/", b"sessions/", b"workspace/", b"settings.local.yaml")  # in .agent/

CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
ATTRIBUTES = b"* -text !eol !crlf -ident !filter !working-tree-encoding !diff !merge\n"


class Entry(Struct, frozen=True):
    """What a tree has at a path."""

    mode: str  # FILE, PROGRAM, LINK or MARK
    id: str  # of the blob


Pair: TypeAlias = tuple[Entry | None, Entry | None]
"""What a path was and what it became; None: no file."""


class Snapshots:
    """The store of a working directory. Threads and processes may use it at once.

    `env` is the user's environment: where git is found, and what they have it ignore. Nothing
    is made before the first snapshot. A path is relative to the working directory; bytes of a
    name that are no UTF-8 are as in os.fsdecode.
    """

    def __init__(
        self,
        cwd: Path,
        env: Mapping[str, str],
        *,
        seconds: float = SECONDS,
        most: int = MOST_NEW,
    ) -> None:
        self.cwd, self.folder = cwd, cwd / ".agent" / "undo"
        self._env, self._seconds, self._most = env, seconds, most
        self._top: Path | None = None
        self._last = ((0, 0, 0), "")  # how the index stood after a snapshot, and the tree

    # -- what it does ---------------------------------------------------------------------------

    def keep(self, stop: Stop | None = None) -> str:
        """The tree of the directory as it stands.

        What has been lost since the last one is in the store itself from now on.
        Raises AgentError where it can't be kept, or not in time: soon, where `stop` is set
        before; at once, where it is set meanwhile.
        """
        with self._locked(stop) as calls:
            try:
                tree = self._kept(calls)
            except GitError:
                calls.index.unlink(missing_ok=True)  # it may be of no use to this git
                tree = self._kept(calls, seeded=False)
            self._last = (_stamp(calls.index), tree)
            return tree

    def changed(self, old: str, new: str) -> dict[str, Pair]:
        """The paths that differ between two trees, and how. Raises AgentError."""
        if old == new:
            return {}
        with self._locked() as calls:
            return _changed(calls, old, new)

    def entries(self, tree: str, paths: Collection[str] | None = None) -> dict[str, Entry]:
        """What a tree has at these paths, or at all. Raises AgentError."""
        with self._locked() as calls:
            rows = calls("ls-tree", "-r", "-z", tree).split(b"\0")
        found: dict[str, Entry] = {}
        for row in filter(None, rows):
            about, _, name = row.partition(b"\t")
            path = os.fsdecode(name)
            if paths is None or path in paths:
                mode, _, id = about.decode().split(" ")
                found[path] = Entry(mode, id)
        return found

    def lacking(self, ids: Collection[str]) -> set[str]:
        """Those that neither the store nor the user's repository has. Raises AgentError."""
        if not ids:
            return set()
        with self._locked() as calls:
            return _lacking(calls, ids)

    def counts(self, old: str, new: str) -> dict[str, tuple[int, int] | None]:
        """Lines added and removed, by path; None where it is no text. Raises AgentError."""
        words = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", old, new)
        found: dict[str, tuple[int, int] | None] = {}
        with self._locked() as calls:
            for row in filter(None, calls(*words).split(b"\0")):
                added, removed, path = row.split(b"\t", 2)
                lines = None if added == b"-" else (int(added), int(removed))
                found[os.fsdecode(path)] = lines
        return found

    def patch(self, old: str, new: str) -> str:
        """The difference as `git diff` tells it. Raises AgentError."""
        words = ("-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        with self._locked() as calls:
            return calls("diff-tree", *words, old, new).decode("utf-8", "surrogateescape")

    def edited(self, tree: str, entries: Mapping[str, Entry | None]) -> str:
        """The tree with these entries instead; None takes one away. Raises AgentError."""
        rows = [
            f"{entry.mode if entry else 0} {entry.id if entry else NONE} 0\t".encode()
            + os.fsencode(path)
            for path, entry in sorted(entries.items(), key=lambda each: each[1] is not None)
        ]  # those that go come first: a file may come where a directory was
        with self._locked() as calls:
            own = structs.replace(calls, index=self.folder / "index.edited")
            try:
                own("read-tree", tree)
                own("update-index", "-z", "--index-info", data=b"\0".join(rows) + b"\0")
                return own("write-tree", "--missing-ok").decode().strip()
            finally:
                own.index.unlink(missing_ok=True)

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """What these hold, one after another; None for one that is lost or not what it says.

        Raises AgentError.
        """
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return
        data = "\n".join(wanted).encode() + b"\n"
        with (
            self._locked(seconds=LONG) as calls,
            calls.piped("cat-file", "--batch", data=data) as out,
        ):
            for id in wanted:
                head = out.readline().split()
                body = out.read(int(head[2]) + 1)[:-1] if len(head) == 3 else b""
                yield id, body if _id("blob", body) == id else None

    def tidy(self, *, always: bool = False) -> bool:
        """Drop what no log of the directory names any more, once there is much; whether it did.

        Raises AgentError.
        """
        if not (always or prune.crowded(self.folder / "objects")):
            return False
        with self._locked() as calls:
            prune.prune(calls, prune.named(self.cwd))
        return True

    # -- where things are -----------------------------------------------------------------------

    @cached_property
    def _git(self) -> str:
        top = self._repository.top if self._repository else self.cwd
        found = git.program("git", self._env.get("PATH", ""), top)
        if not found:
            raise AgentError("there is no git", hint="install git, and changes can be taken back")
        return found

    @cached_property
    def _repository(self) -> Repository | None:
        return Repository.of(self.cwd)

    @contextmanager
    def _locked(self, stop: Stop | None = None, *, seconds: float | None = None) -> Iterator[Calls]:
        """Git in the store, which is ours alone meanwhile. Raises AgentError."""
        late = stop is not None and stop.is_set  # what is left to do is quick or not done
        stop = None if late else stop
        deadline = Deadline(HASTE if late else seconds or self._seconds)
        program, repository = self._git, self._repository
        workspace.prepared(self.cwd, "undo")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.open(self.folder / "lock", flags, 0o600)
        except OSError as error:
            raise failed(self.folder / "lock", error) from error
        try:
            _lock(lock, deadline, stop)
            self._prepare()
            calls = Calls(
                git=program,
                folder=self.folder,
                top=self.cwd,
                index=self.folder / "index",
                lent=repository.objects if repository and not repository.sha256 else None,
                lock=lock,
                deadline=deadline,
                stop=stop,
            )
            top = self._top = self._top or self._root(calls)
            index = self.folder / f"index.{_id('top', os.fsencode(top))[:12]}"
            yield structs.replace(calls, top=top, index=index)
        except OSError as error:
            raise failed(self.folder, error) from error
        finally:
            os.close(lock)

    def _root(self, calls: Calls) -> Path:
        """The root of what git is shown: of the user's repository, for its .gitignore files,
        unless they ignore all of the working directory."""
        top = self._repository.top if self._repository else self.cwd
        if top == self.cwd:
            return top
        inner = f"./{os.fspath(self.cwd.relative_to(top))}"
        try:
            structs.replace(calls, top=top)("check-ignore", "-q", "--", inner)
        except GitError:  # it is not ignored
            return top
        return self.cwd

    def _prepare(self) -> None:
        """Make the store, or see that it is sound. Raises AgentError where it can't be."""
        try:
            for name in (".", "info", "objects", "refs"):
                private(self.folder / name)
                with os.scandir(self.folder / name) as entries:
                    links = [entry.path for entry in entries if entry.is_symlink()]
                if links:
                    raise AgentError(f"{links[0]} is a symbolic link")
            for stray in self.folder.glob("*.lock"):
                stray.unlink(missing_ok=True)  # of one that was killed: the lock is ours
            (self.folder / "objects/info/alternates").unlink(missing_ok=True)
            ignored = self._repository.ignored(self._env) if self._repository else b""
            for name, data in {
                ".gitignore": b"*\n",
                "HEAD": b"ref: refs/heads/none\n",
                "config": CONFIG,
                "info/attributes": ATTRIBUTES,
                "info/exclude": ignored + b"\n",
            }.items():
                _write(self.folder / name, data)
        except OSError as error:
            raise failed(self.folder, error) from error

    # -- a snapshot -----------------------------------------------------------------------------

    def _kept(self, calls: Calls, *, seeded: bool = True) -> str:
        if seeded and calls.lent and not calls.index.exists():
            self._seed(calls)
        inner = self.cwd.relative_to(calls.top)
        prefix = os.fsencode(inner) + b"/" if inner.parts else b""
        within = ("--", f":(literal){os.fspath(inner)}") if prefix else ()
        words = ("ls-files", "-z", "-t", "--modified", "--deleted", "--others")
        todo = _Todo(calls.top, prefix + b".agent/", self._most)
        for row in set(calls(*words, "--exclude-standard", *within).split(b"\0")):
            todo.take(row[2:], known=row[:1] != b"?")
        stamp, tree = self._last
        if not (todo.gone or todo.marks or todo.files) and stamp == _stamp(calls.index):
            return tree
        if calls.lent and todo.known:
            self._pin(calls, todo.known)
        if todo.gone:
            calls("update-index", "-z", "--force-remove", "--stdin", data=_rows(todo.gone))
        if todo.marks:
            calls(
                "update-index", "-z", "--add", "--replace", "--index-info", data=_rows(todo.marks)
            )
        calls = structs.replace(calls, settings=_writing(calls, len(todo.files)))
        if todo.files:
            words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            calls(*words, data=_rows(todo.files))
        if prefix and not calls("ls-files", "-z", *within):
            return EMPTY
        # Without the lent objects, so that every directory's tree is written into our store.
        where = (f"--prefix={os.fspath(inner)}/",) if prefix else ()
        return calls("write-tree", "--missing-ok", *where, lent=False).decode().strip()

    def _seed(self, calls: Calls) -> None:
        """Begin with the index of the user's repository, which knows most files already."""
        repository = self._repository
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
            _clean(calls, self.cwd)
            self._take_trees(calls)
        except GitError:  # an index of a kind that stands not alone
            calls.index.unlink(missing_ok=True)

    def _take_trees(self, calls: Calls) -> None:
        """Have the directories that the index knows as unchanged in our own store."""
        tree = calls("write-tree", "--missing-ok").decode().strip()
        rows = calls("ls-tree", "-r", "-d", "-z", tree).split(b"\0")
        ids = [row.split(b"\t")[0].split()[2] for row in rows if row]
        pack = os.fspath(self.folder / "objects/pack/pack")
        calls("pack-objects", "-q", pack, data=b"\n".join([tree.encode(), *ids]) + b"\n")

    def _pin(self, calls: Calls, names: Collection[bytes]) -> None:
        """Copy what the index has of these files, and is about to lose, where it is only lent."""
        rows = (row.partition(b"\t") for row in calls("ls-files", "-z", "--stage").split(b"\0"))
        ids = {
            about.split(b" ")[1].decode()
            for about, _, name in rows
            if name in names and not about.startswith(MARK.encode())
        }
        objects = self.folder / "objects"
        ids = {id for id in ids if not (objects / id[:2] / id[2:]).exists()}
        lacking = _lacking(calls, ids, lent=False) if ids else ids
        if not lacking:
            return
        wanted = "\n".join(lacking).encode() + b"\n"
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
        self._own = tuple(own + name for name in OURS)
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
            self.marks.append(f"{MARK} {_id('mark', repr(signs).encode())} 0\t".encode() + name)
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


def _writing(calls: Calls, files: int) -> Mapping[str, str]:
    """How git best writes so many files: each by itself, on the disk when it has ended; or, in a
    fraction of the time, all into one pack."""
    if files < BULK:
        return {"core.fsync": "loose-object,pack,pack-metadata"}
    version = re.search(rb"(\d+)\.(\d+)", calls("version"))
    if version and (int(version[1]), int(version[2])) >= (2, 37):  # earlier: a pack for each
        return {"core.bigFileThreshold": "1", "core.compression": "1"}
    return {}


def _clean(calls: Calls, cwd: Path) -> None:
    """Take from an index what is not about files in `cwd`, and flags that hide changes."""
    inner = cwd.relative_to(calls.top)
    prefix = os.fsencode(inner) + b"/" if inner.parts else b""
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


def _changed(calls: Calls, old: str, new: str) -> dict[str, Pair]:
    fields = calls("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).split(b"\0")
    found: dict[str, Pair] = {}
    for about, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old_id, new_id, _ = about.decode().removeprefix(":").split(" ")
        pair = (_entry(old_mode, old_id), _entry(new_mode, new_id))
        found[os.fsdecode(path)] = pair
    return found


def _lacking(calls: Calls, ids: Iterable[str], *, lent: bool = True) -> set[str]:
    wanted = "\n".join(ids).encode() + b"\n"
    found = calls("cat-file", "--batch-check", data=wanted, lent=lent).decode().splitlines()
    return {row.split()[0] for row in found if row.endswith(" missing")}


def _entry(mode: str, id: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, id)


def _lock(file: int, deadline: Deadline, stop: Stop | None) -> None:
    """Wait for the lock. Raises SlowError, StoppedError; the kernel frees that of the dead."""
    wait = stop or Stop()
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        deadline.check(stop)
        wait.wait(POLL)


def _stamp(path: Path) -> tuple[int, int, int]:
    """What tells a file from what it was, as long as it is only ever exchanged."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)


def _write(path: Path, data: bytes) -> None:
    """Have a file hold this, and be one."""
    with suppress(OSError), opened(path, follow=False) as file:
        if file.read(len(data) + 1) == data:
            return
    fresh = path.with_name(f"{path.name}.lock")
    fresh.unlink(missing_ok=True)
    fresh.write_bytes(data)
    fresh.replace(path)


def _id(kind: str, data: bytes) -> str:
    """The id that git gives what it keeps."""
    head = f"{kind} {len(data)}\0".encode()
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


def _rows(names: Iterable[bytes]) -> bytes:
    return b"\0".join(names) + b"\0"


def _temporary(name: bytes) -> bool:
    """Whether it is a file of ours that is about to take the place of another."""
    last = name.rpartition(b"/")[2]
    return last.startswith(b".ts-") and last.endswith(b".tmp")

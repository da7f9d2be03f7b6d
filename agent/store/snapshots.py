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

Left alone: ignored files, nested repositories, our own state. Of a file that is too large or can't
be read it is known whether it has changed, and what it held is not.
"""

import fcntl
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, structs

from agent.errors import AgentError
from agent.stop import Stop
from agent.store import census, git, prune, workspace
from agent.store.census import MOST_NEW
from agent.store.disk import failed, opened, private
from agent.store.plumbing import Calls, Deadline, GitError, lacking, object_id
from agent.store.repository import Repository

SECONDS = 20.0  # that a snapshot may take
HASTE = 0.7  # seconds, once the work is to stop
LONG = 3600.0  # seconds that files may take to be put back
POLL = 0.005  # seconds between two looks at the lock
NONE = "0" * 40  # the id of nothing

_ID = re.compile(r"[0-9a-f]{40}")
CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
ATTRIBUTES = b"* -text !eol !crlf -ident !filter !working-tree-encoding !diff !merge\n"


class Entry(Struct, frozen=True):
    """What a tree has at a path."""

    mode: str  # as in agent.store.census
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
        self._late: tuple[Stop | None, Deadline] = (None, Deadline(0))
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
                tree = self._tree(calls)
            except GitError:  # a file may have gone meanwhile …
                try:
                    tree = self._tree(calls)
                except GitError:  # … or the index be of no use to this git
                    calls.index.unlink(missing_ok=True)
                    tree = self._tree(calls)
            self._last = (census.stamp_of(calls.index), tree)
            return tree

    def changed(self, old: str, new: str) -> dict[str, Pair]:
        """The paths that differ between two trees, and how. Raises AgentError."""
        if old == new:
            return {}
        with self._locked() as calls:
            return _changed(calls, *_sound(old, new))

    def entries(self, tree: str, paths: Collection[str] | None = None) -> dict[str, Entry]:
        """What a tree has at these paths, or at all. Raises AgentError."""
        with self._locked() as calls:
            rows = calls("ls-tree", "-r", "-z", *_sound(tree)).split(b"\0")
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
        if not _sound(*ids):
            return set()
        with self._locked() as calls:
            return lacking(calls, ids)

    def counts(self, old: str, new: str) -> dict[str, tuple[int, int] | None]:
        """Lines added and removed, by path; None where it is no text. Raises AgentError."""
        words = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", *_sound(old, new))
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
            return calls("diff-tree", *words, *_sound(old, new)).decode("utf-8", "surrogateescape")

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
                own("read-tree", *_sound(tree))
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
                yield id, body if object_id("blob", body) == id else None

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
        deadline = Deadline(seconds or self._seconds)
        if stop is not None and stop.is_set:  # what is left to do is quick, all of it, or not done
            if self._late[0] is not stop:
                self._late = stop, Deadline(HASTE)
            stop, deadline = None, self._late[1]
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
            index = self.folder / f"index.{object_id('top', os.fsencode(top))[:12]}"
            yield structs.replace(calls, top=top, index=index)
        except OSError as error:
            raise failed(self.folder, error) from error
        finally:
            os.close(lock)

    def _tree(self, calls: Calls) -> str:
        lender = self._repository if calls.lent else None
        return census.tree(calls, self.cwd, lender, self._last, self._most)

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


def _sound(*trees: str) -> tuple[str, ...]:
    """The same; raises AgentError for what is no id: a log may say anything."""
    for tree in trees:
        if not _ID.fullmatch(tree):
            raise AgentError(f"{git.shown(tree[:100])!r} is no tree")
    return trees


def _changed(calls: Calls, old: str, new: str) -> dict[str, Pair]:
    fields = calls("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).split(b"\0")
    found: dict[str, Pair] = {}
    for about, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old_id, new_id, _ = about.decode().removeprefix(":").split(" ")
        pair = (_entry(old_mode, old_id), _entry(new_mode, new_id))
        found[os.fsdecode(path)] = pair
    return found


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


def _write(path: Path, data: bytes) -> None:
    """Have a file hold this, and be one."""
    with suppress(OSError), opened(path, follow=False) as file:
        if file.read(len(data) + 1) == data:
            return
    fresh = path.with_name(f"{path.name}.lock")
    fresh.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(path)

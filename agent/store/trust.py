"""Which directories the user trusts, remembered outside of them.

Trust is for a directory as it stood: its real path, its device and inode, and the SHA-256 of each
thing in it that would run, redirect or loosen something. What has changed since, or is new, makes
it untrusted until the user has said so again; what has gone does not. Notes for agents (AGENTS.md)
change often and run nothing: they are no part of it.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from agent.errors import AgentError, UsageError
from agent.stop import Stop
from agent.store import gitsettings, settingsfile, skills
from agent.store.disk import contents, failed, private
from agent.store.git import shown

FILE = ".config/tianshu/trust.json"  # in the home directory
MOST = 8 * 2**20  # bytes of it, and of a file of a directory
PATIENCE, POLL = 5.0, 0.02  # seconds that the file's lock is waited for, and between looks
KINDS = {
    "settings": "settings",
    "skill": "skills",
    "server": "MCP servers",
    "git": "programs that git would run",
}  # of what counts only where it is trusted, as a user reads it

Standing: TypeAlias = Literal["trusted", "refused", "changed", "new", "empty"]
"""refused: the user has said no, and nothing has changed; empty: there is nothing to ask about."""


class Item(Struct, frozen=True, kw_only=True):
    """A thing that counts only in a trusted directory."""

    name: str  # a path in the directory, or a setting; safe to show
    kind: str  # a key of KINDS
    digest: str


class Record(Struct, frozen=True, kw_only=True):
    """What the user has said of a directory, and how it stood."""

    trusted: bool
    device: int
    inode: int
    items: dict[str, str] = {}  # name → SHA-256


class _File(Struct, kw_only=True):
    version: int = 1
    folders: dict[str, Record] = {}  # by real path


class Found(Struct, frozen=True, kw_only=True):
    """A directory, and what the user has said of it."""

    cwd: Path  # resolved
    items: tuple[Item, ...] = ()
    record: Record | None = None  # of this very directory
    fault: str = ""  # why what was said can't be read

    @property
    def standing(self) -> Standing:
        if self.record is None:
            return "new" if self.items else "empty"
        if self.changes:
            return "changed" if self.record.trusted else "new"
        return "trusted" if self.record.trusted else "refused"

    @property
    def changes(self) -> list[str]:
        """What is new or has changed since the user said something, in words."""
        known = self.record.items if self.record else {}
        return [
            f"{item.name} {'has changed' if item.name in known else 'is new'}"
            for item in self.items
            if known.get(item.name) != item.digest
        ]


def look(cwd: Path, home: Path, env: Mapping[str, str]) -> Found:
    """What of a directory would count if it were trusted, and what the user has said of it.

    Nothing of it is run or followed. `env` is the environment of commands: git is found by it.
    """
    items = (*_files(cwd), *_dotenv(cwd), *_skills(cwd, home), *_git(cwd, env))
    try:
        record = _read(home / FILE).folders.get(_name(cwd))
    except UsageError as error:
        return Found(cwd=cwd, items=items, fault=str(error))
    device, inode = _place(cwd)
    if record and (record.device, record.inode) != (device, inode):
        record = None  # another directory has taken its place
    return Found(cwd=cwd, items=items, record=record)


def remember(found: Found, home: Path, *, trusted: bool) -> None:
    """Keep what the user has said of a directory as it was found. Raises AgentError."""
    device, inode = _place(found.cwd)
    record = Record(
        trusted=trusted,
        device=device,
        inode=inode,
        items={item.name: item.digest for item in found.items},
    )

    def add(file: _File) -> None:
        file.folders[_name(found.cwd)] = record

    _change(home / FILE, add)


# -- what there is to ask about -----------------------------------------------------------------


def _files(cwd: Path) -> Iterator[Item]:
    for name in ("settings.yaml", "settings.local.yaml"):
        path = cwd / ".agent" / name
        if os.path.lexists(path) and settingsfile.loosens(path):
            yield _item(path, cwd, "settings")
    path = cwd / ".agent/mcp.json"
    if os.path.lexists(path):
        yield _item(path, cwd, "server")


def _dotenv(cwd: Path) -> Iterator[Item]:
    if model := settingsfile.model_of_dotenv(cwd):
        yield Item(name=".env TS_MODEL", kind="settings", digest=_digest(model.encode()))


def _skills(cwd: Path, home: Path) -> Iterator[Item]:
    user = {place.directory.resolve() for place in skills.places(cwd, home, cwd)[1:3]}
    for place in skills.places(cwd, home, cwd):
        if place.source == "project" and place.directory.resolve() not in user:
            for path in skills.files(place, []):
                yield _item(path, cwd, "skill")


def _git(cwd: Path, env: Mapping[str, str]) -> Iterator[Item]:
    for name, value in gitsettings.running(cwd, env).items():
        digest = _digest(value.encode("utf-8", "surrogateescape"))
        yield Item(name=shown(name)[:200], kind="git", digest=digest)


def _item(path: Path, cwd: Path, kind: str) -> Item:
    """A file of the directory; one that can't be read stands for itself, whatever it is."""
    try:
        data = contents(path, MOST)
    except UsageError:
        data = b""
    return Item(name=shown(str(path.relative_to(cwd)))[:200], kind=kind, digest=_digest(data))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- the file -----------------------------------------------------------------------------------


def _name(cwd: Path) -> str:
    return shown(os.path.realpath(cwd))


def _place(cwd: Path) -> tuple[int, int]:
    status = cwd.stat()
    return status.st_dev, status.st_ino


def _read(path: Path) -> _File:
    """Raises UsageError for what can't be read: then nothing is trusted."""
    if not os.path.lexists(path):
        return _File()
    try:
        return msgspec.json.decode(contents(path, MOST), type=_File)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}", hint="remove it; then you are asked again") from error


def _change(path: Path, change: Callable[[_File], None]) -> None:
    private(path.parent)
    try:
        with locked(path.with_suffix(".lock")):
            file = _read(path)
            change(file)
            data = msgspec.json.format(msgspec.json.encode(file))
            with NamedTemporaryFile(dir=path.parent, prefix=".trust-", delete=False) as fresh:
                fresh.write(data + b"\n")  # made with 0600
                fresh.flush()
                os.fsync(fresh.fileno())
            Path(fresh.name).replace(path)
    except UsageError:
        raise
    except OSError as error:
        raise failed(path, error) from error


@contextmanager
def locked(path: Path, seconds: float = PATIENCE) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        wait = Stop(seconds=seconds)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if wait.wait(POLL):
                    raise
        yield
    finally:
        os.close(lock)


def forgotten(error: AgentError) -> str:
    """What is told where an answer could not be kept."""
    return f"{error}; what you said holds for this time only"

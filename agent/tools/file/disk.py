"""Files as the tools reach and change them.

A path is resolved once (`Context.inside`) and then walked folder by folder from the directory that
it must stay in, each opened without following links. Whoever swaps a part of the path for a link
in between gets an error; there is no gap between check and use.

A file is changed by replacing it: a temporary file in its folder, written, synced, renamed. Until
the rename the old content stands, after it the new one. While it is read and replaced the file is
locked (`flock`) through a description opened for this change alone, so that the lock holds between
threads as well as between processes; whoever waited looks again which file the name means.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from msgspec import Struct

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context, Heir
from agent.tools.file.text import spelled

PATIENCE = 10.0  # seconds that a lock is waited for
POLL = 0.005  # seconds between two looks at a lock
STRAY = 600.0  # seconds after which a temporary file has lost its writer
LOOK = 4000  # names looked at, at most, when searching a folder
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
UNLOCKABLE = {errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}
KINDS = {
    stat.S_IFDIR: "a directory; list_files shows what is in it",
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
    stat.S_IFLNK: "a link that has just been made; try again",
}


class Spot(Struct, frozen=True, kw_only=True):
    """Where a file stands, or may: an open folder and a name in it."""

    path: Path  # resolved
    folder: int  # file descriptor
    name: str
    asked: str  # the path as it was asked for
    heir: Heir | None = None  # removes the temporary file if this process is killed


def shown(context: Context, path: Path) -> str:
    return spelled(context.shown(path))


@contextmanager
def spot(
    context: Context, path: str, *, make: bool = False, reading: bool = False
) -> Iterator[Spot]:
    """Where `path` leads. `make`: missing folders on the way are made. `reading`: it is not to be
    changed."""
    full = context.inside(path, reading=reading)
    homes = (*context.homes, *(context.readable if reading else ()))
    home = next((home for home in homes if full.is_relative_to(home)), None)
    if home is None:
        raise ToolError(f"{path} may be read, not changed")
    if full == home:
        raise ToolError(f"{path} is {KINDS[stat.S_IFDIR]}")
    *parts, name = full.relative_to(home).parts
    folder = os.open(home, FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield Spot(path=full, folder=folder, name=name, asked=spelled(path), heir=context.heir)
    finally:
        os.close(folder)


@contextmanager
def told(context: Context, path: str) -> Iterator[None]:
    """Turn what the system refuses into a ToolError that says what and, if it can, what to do."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(missing(context, path)) from error
    except NotADirectoryError as error:
        raise ToolError(
            f"{spelled(path)}: a part of it is a file or a link, not a directory"
        ) from error
    except OSError as error:
        raise ToolError(f"{spelled(path)}: {error.strerror or error}") from error


def opened(spot: Spot, flags: int = os.O_RDONLY) -> int:
    """The file, open. Never blocks. Raises ToolError for what is no regular file."""
    regular(os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False), spot)
    file = os.open(spot.name, flags | FILE, dir_fd=spot.folder)
    try:
        regular(os.fstat(file), spot)  # it may have been exchanged since
    except ToolError:
        os.close(file)
        raise
    return file


def regular(status: os.stat_result, spot: Spot) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise ToolError(f"{spot.asked} is {KINDS.get(kind, 'no regular file')}")


@contextmanager
def locked(spot: Spot, stop: Stop, flags: int = os.O_RDONLY) -> Iterator[int | None]:
    """The file, open and locked against every other change; None: there is none.

    Raises ToolError if it stays locked for long, StoppedError if the work is stopped meanwhile.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            file = opened(spot, flags)
        except FileNotFoundError:
            yield None
            return
        try:
            if mine(file) and current(file, spot):
                yield file
                return
        finally:
            os.close(file)
        if time.monotonic() > end:
            raise ToolError(f"{spot.asked} is being changed by someone else; try again later")
        if stop.wait(POLL):
            stop.check()


def mine(file: int) -> bool:
    """Whether the lock could be had. A file system without locks gives it to everybody."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in UNLOCKABLE:
            raise
    return True


def current(file: int, spot: Spot) -> bool:
    """Whether the name still means this file."""
    try:
        named = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(file))


def read(file: int, most: int) -> bytes:
    """The file's bytes from where it stands, no more than `most`."""
    with os.fdopen(os.dup(file), "rb", buffering=0) as source:
        data = bytearray()
        while len(data) < most and (block := source.read(min(most - len(data), 1 << 20))):
            data += block
    return bytes(data)


@contextmanager
def put(spot: Spot, data: bytes, old: int | None) -> Iterator[os.stat_result | None]:
    """Put `data` in the place of the file that is open as `old`, or where there is none.

    Mode, owner and extended attributes stay; other hard links keep the old content. Gives the new
    file's status, and holds its lock until the end; None: someone else has made a file there.
    """
    if old is not None and not os.access(spot.name, os.W_OK, dir_fd=spot.folder):
        raise ToolError(f"{spot.asked} is read-only")
    sweep(spot.folder)
    name = f".ts-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE
    if spot.heir:
        spot.heir.made(spot.path.with_name(name))
    file = os.open(name, flags, 0o666 if old is None else 0o600, dir_fd=spot.folder)
    try:
        with os.fdopen(file, "wb") as sink:
            mine(file)
            sink.write(data)
            sink.flush()
            if old is not None:
                resemble(file, old)
            os.fsync(file)
            placed = linked(spot, name) if old is None else renamed(spot, name)
            if placed:
                settle(spot.folder)
            yield os.fstat(file) if placed else None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=spot.folder)
        if spot.heir:
            spot.heir.removed(spot.path.with_name(name))


def settle(folder: int) -> None:
    """Have the folder's names on the disk, where a file system does that for a folder."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise


def renamed(spot: Spot, name: str) -> bool:
    os.rename(name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    return True


def linked(spot: Spot, name: str) -> bool:
    """Whether the file could be given its name, which nothing has had so far."""
    try:
        os.link(name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        with suppress(FileNotFoundError):
            os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
            return False
        return renamed(spot, name)
    return True


def resemble(file: int, like: int) -> None:
    """Give a file owner, mode and extended attributes of another, as far as we may."""
    status = os.fstat(like)
    with suppress(PermissionError):
        os.fchown(file, status.st_uid, status.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for key in os.listxattr(like):
                os.setxattr(file, key, os.getxattr(like, key))
    with suppress(PermissionError):  # a file system without modes
        os.fchmod(file, stat.S_IMODE(status.st_mode))


def sweep(folder: int) -> None:
    """Remove the temporary files that killed writers left in the folder."""
    late = time.time() - STRAY
    with os.scandir(folder) as entries:
        for entry in islice(entries, LOOK):
            if entry.name.startswith(".ts-") and entry.name.endswith(".tmp"):
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime < late:
                        os.unlink(entry.name, dir_fd=folder)


def missing(context: Context, path: str) -> str:
    """Say that there is no such file, and which names are near."""
    full = context.inside(path, reading=True)
    folder = next(each for each in full.parents if there(each))
    near = [folder / name for name in get_close_matches(full.name, names(folder), n=3, cutoff=0.6)]
    near += [file for file in elsewhere(context.cwd, full.name) if file not in near]
    text = f"there is no file {spelled(path)}"
    if folder != full.parent:
        text += f" and no directory {shown(context, full.parent)}"
    if near:
        text += "; did you mean " + " or ".join(shown(context, file) for file in near[:4]) + "?"
    return text


def there(folder: Path) -> bool:
    with suppress(OSError):  # a name that is too long
        return folder.is_dir()
    return False


def names(folder: Path) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, LOOK)]
    return []


def elsewhere(root: Path, name: str) -> list[Path]:
    """Files of this name below `root`, as far as a short look finds them."""
    found, looked = list[Path](), 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in (".git", "node_modules"))
        found += [Path(folder, name)] if name in files else []
        looked += len(files) + len(folders) + 1
        if looked > LOOK or len(found) > 2:
            break
    return found

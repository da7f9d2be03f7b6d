"""Files put back as they were: each is what it was or what it becomes, whenever this is cut short.

A path is walked folder by folder from the working directory, and no link on the way is followed.
What stands there is looked at right before it is replaced: somebody else's change is left alone.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.store.census import FILE, LARGE, LINK, MARK, PROGRAM
from agent.store.plumbing import object_id
from agent.store.snapshots import Entry

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class ChangedError(Exception):
    """Something else stands there than was expected; says what."""


def put_back(cwd: Path, path: str, now: Entry | None, old: Entry | None, data: bytes) -> None:
    """Have `path` hold `data` in the way of `old`, or nothing, if it is still as `now` says.

    Raises ChangedError where it is not, OSError where it can't be done.
    """
    with _folder(cwd, path, make=old is not None) as folder:
        name = path.rpartition("/")[2]
        there = _standing(folder, name)
        if there == old:
            return
        if there != now and not (there and now and there.mode == now.mode == MARK):
            raise ChangedError("it has been changed just now")
        if old is None:
            os.unlink(name, dir_fd=folder)
            _settle(folder)
        else:
            _replace(folder, name, old, data)


def clear(cwd: Path, path: str, held: Set[str]) -> None:
    """Remove the folders of a removed file that are empty now, but for those of `held`."""
    while path := path.rpartition("/")[0]:
        if path in held:
            return
        try:
            with _folder(cwd, path) as folder:
                os.rmdir(path.rpartition("/")[2], dir_fd=folder)
        except (OSError, ChangedError):  # not empty, or not ours to remove
            return


@contextmanager
def _folder(cwd: Path, path: str, *, make: bool = False) -> Iterator[int]:
    """The open folder that `path` is in. Raises ChangedError, OSError."""
    *parts, name = path.split("/")
    for part in (*parts, name):
        if part in {"", ".", ".."} or part.casefold() == ".git":
            raise OSError(errno.EINVAL, "this is no path that is ever changed")
    folder = os.open(cwd, FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            try:
                inner = os.open(part, FOLDER, dir_fd=folder)
            except (NotADirectoryError, FileNotFoundError) as error:
                raise ChangedError("a part of its path is no directory") from error
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise ChangedError("a part of its path is no directory") from error
                raise
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _standing(folder: int, name: str) -> Entry | None:
    """What is there, as a tree would have it. Raises ChangedError for what no tree has."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return Entry(LINK, object_id("blob", os.fsencode(os.readlink(name, dir_fd=folder))))
    if not stat.S_ISREG(status.st_mode):
        raise ChangedError("no file stands there any more")
    if status.st_size > LARGE:
        return Entry(MARK, "")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        data = file.read(LARGE + 1)
    mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
    return Entry(mode, object_id("blob", data))


def _replace(folder: int, name: str, old: Entry, data: bytes) -> None:
    fresh = f".ts-{secrets.token_hex(8)}.tmp"
    try:
        if old.mode == LINK:
            os.symlink(data, os.fsencode(fresh), dir_fd=folder)
        else:
            _write(folder, name, fresh, old, data)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        _settle(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)


def _write(folder: int, name: str, fresh: str, old: Entry, data: bytes) -> None:
    """The new file, whole, with owner, mode and attributes of the one whose place it takes."""
    runs = old.mode == PROGRAM
    with os.fdopen(os.open(fresh, NEW, 0o777 if runs else 0o666, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        with suppress(OSError):
            like = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(like.st_mode):
                mode = stat.S_IMODE(like.st_mode)
                mode = mode | (mode & 0o444) >> 2 if runs else mode & ~0o111
                with suppress(PermissionError):
                    os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _settle(folder: int) -> None:
    """Have the folder's names on the disk, where a file system does that for a folder."""
    with suppress(OSError):
        os.fsync(folder)

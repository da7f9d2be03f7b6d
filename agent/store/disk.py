"""What every store asks of the disk: private directories, bounded reads, refusals in words."""

import errno
import glob
import os
import stat
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from agent.errors import AgentError, UsageError

MOST_LOOKED = 5000  # entries of directories
HINTS = {
    errno.ENOSPC: "the disk is full; free some space, then go on",
    errno.EDQUOT: "the disk quota is used up; free some space, then go on",
    errno.EFBIG: "no file may grow beyond that (`ulimit -f`); raise the limit, then go on",
    errno.EROFS: "ts keeps its state in .agent/ of the working directory; -C names another one",
    errno.EACCES: "ts keeps its state in .agent/ of the working directory; -C names another one",
}


def failed(path: Path, error: OSError) -> AgentError:
    """The error that tells a user what the disk refused, and what may help."""
    if error.errno in {errno.EEXIST, errno.ENOTDIR}:
        for each in (path, *path.parents):
            if os.path.lexists(each) and not each.is_dir():
                return AgentError(
                    f"{each} stands where ts keeps a directory of its own",
                    hint="put it elsewhere, or name another working directory with -C",
                )
    why = error.strerror or str(error)
    return AgentError(f"{path}: {why}", hint=HINTS.get(error.errno or 0, ""))


def private(directory: Path) -> None:
    """Make a directory, and those above it that are missing, for the user alone (0700).

    Raises AgentError where that can't be done.
    """
    missing = [directory, *directory.parents]
    try:
        for each in reversed(missing):
            if not each.is_dir():
                each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise failed(directory, error) from error


def opened(path: Path, *, follow: bool = True) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError; for a pipe or a device too, at once.

    A symbolic link is refused unless `follow`.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    file = open(path, "rb", opener=lambda name, _: os.open(name, flags))  # noqa: SIM115
    try:
        regular(file.fileno())
    except OSError:
        file.close()
        raise
    return file


def regular(fd: int) -> None:
    """Raise OSError for what is no regular file."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "this is no regular file")


def contents(path: Path, most: int, *, follow: bool = True) -> bytes:
    """What a file holds. Raises UsageError, with the path, for more than `most` bytes and for
    what `opened` refuses."""
    try:
        with opened(path, follow=follow) as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if not follow and path.is_symlink():
            why = "this is a symbolic link, and could lead anywhere"
        raise UsageError(f"{path}: {why}") from error
    if len(data) > most:
        raise UsageError(f"{path}: this is larger than {most:,} bytes")
    return data


def leads(path: str, most: int = MOST_LOOKED) -> tuple[str, ...]:
    """The real paths of what a pattern (`*`) matches or, of a directory, of the links below it;
    after `most` entries no more is looked at."""
    if "*" in path:
        plain = path.replace("[", "[[]").replace("?", "[?]")
        names = glob.iglob(plain)  # noqa: PTH207 - as a shell does, it leaves out hidden files
        return tuple(os.path.realpath(name) for name in islice(names, most))
    found = []
    for seen, (folder, folders, files) in enumerate(os.walk(path)):
        for name in (*folders, *files):
            full = f"{folder}/{name}"
            if Path(full).is_symlink():
                found.append(os.path.realpath(full))
        most -= len(folders) + len(files)
        if most <= 0 or seen > MOST_LOOKED:
            break
    return tuple(found)

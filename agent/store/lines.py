"""A file of lines that is only ever added to, by one process at a time.

`\\n` ends a line and nothing else does. What a crash cut off at the end is taken away before the
first line is added, so that no line is ever glued to a fragment. A line that could not be
written whole is taken away again: the file holds what `add` returned from, and nothing else.
The kernel frees the lock of a process that dies. `NAME.pid` beside the file says who has it.
A file that is removed while it is added to (`rm -rf .agent`, by a step) is there again with the
next line.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from agent.errors import AgentError, UsageError
from agent.store.disk import contents, failed, opened, private, regular

T = TypeVar("T", bound=Struct)

PIECE = 1024 * 1024  # bytes that are copied at a time
LONGEST = 64 * 1024 * 1024  # bytes of a line; a reader takes no more of it
WAIT = "wait until that one has ended"
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


class Line(Struct, frozen=True):
    number: int  # from 1
    data: bytes  # without its end
    ended: bool  # false: the last one, without `\n`


def lines(path: Path) -> Iterator[Line]:
    """The lines of a file, oldest first. Raises AgentError where it can't be read."""
    try:
        with opened(path) as file:
            number = 0
            while data := file.readline(LONGEST):
                number += 1
                rest = data
                while len(rest) == LONGEST and not rest.endswith(b"\n"):
                    rest = file.readline(LONGEST)
                yield Line(number, data.removesuffix(b"\n"), rest.endswith(b"\n"))
    except OSError as error:
        raise failed(path, error) from error


class Lines:
    """Opens such a file for adding, and makes it (0600) where it is not there.

    `whole` says whether a last line without `\\n` is all there; it is kept then. `torn` is how
    many bytes were not. Raises UsageError with `hint` if another process has it open, and names
    that one; AgentError where the file can't be used.
    """

    def __init__(self, path: Path, whole: Callable[[bytes], bool], *, hint: str = WAIT) -> None:
        private(path.parent)
        self.path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise failed(path, error) from error
        try:
            regular(self._fd)
            self._lock(hint)
            self.torn = self._mend(whole)
        except OSError as error:
            os.close(self._fd)
            raise failed(path, error) from error
        except UsageError:
            os.close(self._fd)
            raise
        self._unsure = False  # whether the end of the file may hold a part of a line

    def _lock(self, hint: str) -> None:
        note = self.path.with_suffix(".pid")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{self.path.stem} is in use by {_named(note)}", hint=hint) from error
        if not os.fstat(self._fd).st_nlink:  # what is written to it now would go with it
            raise UsageError(f"{self.path.stem} has just been deleted by another process")
        with suppress(OSError):  # a courtesy: the lock holds without it
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            out = os.open(note, flags, 0o600)
            os.write(out, b"%d\n" % os.getpid())
            os.close(out)

    def _mend(self, whole: Callable[[bytes], bool]) -> int:
        """Take a cut line away and say how many bytes it had."""
        size = self._end = os.fstat(self._fd).st_size
        if not size:
            directory = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(directory)  # or a power cut takes the new name with it
            os.close(directory)
            return 0
        start = _after_last_end(self._fd, size)
        if start == size:
            return 0
        if size - start < LONGEST and whole(os.pread(self._fd, size - start, start)):
            os.write(self._fd, b"\n")
            self._end += 1
            return 0
        os.ftruncate(self._fd, start)
        self._end = start
        return size - start

    def add(self, line: bytes, *, sync: bool = False) -> None:
        """Add a line; with `sync`, it outlives a power cut once this returns.

        Raises AgentError if it could not be written; the file is then as it was before.
        """
        assert b"\n" not in line, "a line must not hold another"
        if len(line) >= LONGEST:
            raise AgentError(f"{self.path}: a line of {len(line):,} bytes could not be read again")
        try:
            if not os.fstat(self._fd).st_nlink:
                self._renew()
            if self._unsure:
                os.ftruncate(self._fd, self._end)
            self._unsure = True
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            if sync:
                _sync(self._fd)
        except OSError as error:
            with suppress(OSError):  # the next `add` tries it again
                os.ftruncate(self._fd, self._end)
                self._unsure = False
            raise failed(self.path, error) from error
        self._end += len(line) + 1
        self._unsure = False

    def _renew(self) -> None:
        """Write the file anew that has been removed; but no directory above `.agent`, which is
        gone because somebody wanted it gone. Raises OSError, AgentError."""
        for directory in (self.path.parent.parent, self.path.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            fresh = os.open(self.path, flags, 0o600)
        except FileExistsError as error:
            raise AgentError(
                f"{self.path}: another file has taken its place while it was written"
            ) from error
        old, self._fd = self._fd, fresh
        try:
            self._lock(WAIT)
            for at in range(0, self._end, PIECE):
                rest = memoryview(os.pread(old, min(PIECE, self._end - at), at))
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
        except (OSError, UsageError):
            os.close(self._fd)
            self._fd = old
            raise
        os.close(old)
        self._unsure = False

    def close(self) -> None:
        """Let the next process have it. Idempotent."""
        if self._fd >= 0:
            with suppress(OSError):
                self.path.with_suffix(".pid").unlink()
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def holder(path: Path) -> int | None:
    """The process that has such a file open for adding; None: there is none.

    Nobody is kept waiting by the question: the file's lock is only touched where the note beside
    it names a process that lives.
    """
    try:
        pid = int(contents(path.with_suffix(".pid"), 32, follow=False))
    except (UsageError, ValueError):
        return None
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass  # it lives, and is another user's
    except (OSError, OverflowError):
        return None
    try:
        with opened(path) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return pid
    except OSError:
        return None
    return None


def _named(note: Path) -> str:
    """The process that has left the note beside a file."""
    with suppress(UsageError, ValueError):
        pid = int(contents(note, 32, follow=False))
        return "this process" if pid == os.getpid() else f"process {pid}"
    return "another process"


def _after_last_end(fd: int, size: int) -> int:
    """Where the last line begins that does not end; `size` if all lines end."""
    end = size
    while end:
        start = max(end - 65536, 0)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def now() -> str:
    """The time as lines tell it: RFC 3339, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encodable(value: T) -> T:
    """The same value with what UTF-8 can't hold replaced: halves of characters, raw bytes."""

    def sound(each: Any) -> Any:
        match each:
            case str():
                return each.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            case dict():
                return {sound(key): sound(inner) for key, inner in each.items()}
            case list() | tuple():
                return [sound(inner) for inner in each]
            case _:
                return each

    return msgspec.convert(sound(msgspec.to_builtins(value)), type(value))

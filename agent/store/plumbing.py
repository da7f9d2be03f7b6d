"""Git's plumbing in a store of ours, so that nothing but our own settings counts.

Git is told where everything is, reads no settings of the user's or the repository's, and each
call ends in time: with its deadline, or when the work is stopped.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from time import monotonic
from typing import BinaryIO, cast

from msgspec import Struct

from agent.errors import AgentError
from agent.stop import Stop
from agent.store import git

MOST_OUTPUT = 256 * 2**20  # bytes that are read of what it prints
MOST_WORDS = 2000  # bytes of a complaint
MISUSED = 129  # how git ends where it does not know a command or an option of ours
PINNED = {
    **git.PINNED,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.checkStat": "default",
    "core.excludesFile": os.devnull,
    "core.fileMode": "true",
    "core.fsyncMethod": "batch",
    "core.ignoreCase": "false",
    "core.ignoreStat": "false",
    "core.precomposeUnicode": "false",
    "core.protectHFS": "false",  # names are kept whatever they are; what puts them back looks
    "core.protectNTFS": "false",
    "core.quotePath": "false",
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.symlinks": "true",
    "core.trustctime": "true",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "index.sparse": "false",
    "maintenance.auto": "false",
}


class GitError(AgentError):
    """Git did not do what it was asked."""


class SlowError(AgentError):
    """It would have taken too long."""


class Deadline:
    """When a piece of work has to be over."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._end = seconds, monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - monotonic()

    def check(self, stop: Stop | None = None) -> None:
        """Raise SlowError once it has passed, StoppedError once the work is to stop."""
        if stop is not None:
            stop.check()
        if self.left <= 0:
            raise SlowError(f"it was not done within {self.seconds:g} s")


class Calls(Struct, frozen=True, kw_only=True):
    """Calls of git in the store `folder`, by whoever has its lock."""

    git: str  # the program
    folder: Path  # the store
    top: Path  # the root of the working tree
    index: Path
    lent: Path | None  # the object directory of the user's repository
    lock: int  # held by what is called too, until it has ended
    deadline: Deadline
    stop: Stop | None = None  # ends calls early
    settings: Mapping[str, str] = {}  # of git, besides those that are pinned

    def __call__(
        self, *words: str, data: bytes = b"", lent: bool = True, input: BinaryIO | None = None
    ) -> bytes:
        """What git prints. `lent`: it sees the objects of the user's repository.

        Raises GitError if it fails, SlowError, StoppedError.
        """
        with self.piped(*words, data=data, lent=lent, input=input) as out:
            found = out.read(MOST_OUTPUT + 1)
            if len(found) > MOST_OUTPUT:
                raise GitError(f"git {words[0]} has more to tell than can be read")
        return found

    @contextmanager
    def piped(
        self, *words: str, data: bytes = b"", lent: bool = True, input: BinaryIO | None = None
    ) -> Iterator[BinaryIO]:
        """What git prints, to be read piece by piece; raises as a plain call does."""
        self.deadline.check(self.stop)
        with ExitStack() as stack:
            told = stack.enter_context(TemporaryFile())
            source = input
            if data:  # from a file: it is never waited for while git waits for us
                source = cast(BinaryIO, stack.enter_context(TemporaryFile()))
                source.write(data)
                source.seek(0)
            process = subprocess.Popen(
                [self.git, "--no-pager", *words],
                cwd=self.top,
                env=self._environment(lent),
                stdin=source or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=told,
                start_new_session=True,
                pass_fds=(self.lock,),
                umask=0o077,
            )
            with process, self._watched(process):
                assert process.stdout, "started with a pipe"
                try:
                    yield cast(BinaryIO, process.stdout)
                    process.stdout.close()
                    code = process.wait()
                except BaseException:
                    git.end(process)  # or it would be waited for
                    raise
            if code:
                self.deadline.check(self.stop)
                told.seek(0)
                why = told.read(MOST_WORDS).decode("utf-8", "replace").strip()
                if code == MISUSED:
                    raise GitError(f"this git is too old for `git {words[0]}` as ts calls it")
                raise GitError(f"git {words[0]} failed: {git.shown(why) or f'exit code {code}'}")

    @contextmanager
    def _watched(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        def end() -> None:
            git.end(process)

        timer = Timer(max(self.deadline.left, 0), end)
        timer.daemon = True
        timer.start()
        try:
            if self.stop is None:
                yield
            else:
                with self.stop.calling(end):
                    yield
        finally:
            timer.cancel()

    def _environment(self, lent: bool) -> dict[str, str]:
        settings = git.told({**PINNED, **self.settings})
        if lent and self.lent and not {":", '"', "\\", "\n"} & set(os.fspath(self.lent)):
            settings["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.fspath(self.lent)
        return {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "GIT_DIR": os.fspath(self.folder),
            "GIT_COMMON_DIR": os.fspath(self.folder),
            "GIT_WORK_TREE": os.fspath(self.top),
            "GIT_INDEX_FILE": os.fspath(self.index),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            **settings,
        }


def lacking(calls: Calls, ids: Iterable[str], *, lent: bool = True) -> set[str]:
    """Those of some objects that are not there."""
    wanted = "\n".join(ids).encode() + b"\n"
    found = calls("cat-file", "--batch-check", data=wanted, lent=lent).decode().splitlines()
    return {row.split()[0] for row in found if row.endswith(" missing")}


def object_id(kind: str, data: bytes) -> str:
    """The id that git gives what it keeps."""
    head = f"{kind} {len(data)}\0".encode()
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()

"""A command under way, and one run to its end.

Each has a session and process group of its own, no terminal, and standard input at its end. What
it prints is read until its shell has ended and not until the last holder of the pipe has gone, and
`end` ends all that it began. Nothing here asks the kernel to end a command with its parent: that
request (PR_SET_PDEATHSIG) fires when the thread that asked ends, and threads come and go.
"""

import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from agent.stop import Stop
from agent.tool import EVERYDAY, Box, Confined, Heir, Launch, Leave
from agent.tools.child.family import family, living
from agent.tools.child.output import Output

GRACE = 0.4  # seconds between asking a command's processes to end and ending them
CHUNK = 65_536  # bytes; what a pipe holds by default (pipe(7), "Pipe capacity")
DRAIN = 2_000_000  # bytes read at most once the shell has ended; a pipe holds at most 1 MiB
LOOK = 1.0  # seconds between two looks for what a command has left running
FRESH = 10.0  # seconds in which the ids of the processes before it are not given to others
SETTLE = 0.15  # seconds that are given to what outlives the shell for a moment: `> >(tee log)`
ROUNDS = 25  # of ending what is still there, 20 ms apart
MARK = "TS_CALL"  # the variable that marks what a command began
LIMIT = 1_000_000  # characters kept of each output of `command`

QUIET = {
    "EDITOR": "true",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "PAGER": "cat",
    "VISUAL": "true",
}
"""Variables that keep programs from waiting for a person."""

Feed: TypeAlias = Callable[[bytes], None]  # takes what a command prints
Why: TypeAlias = Literal["over", "time", "stop"]


class Ran(Struct, frozen=True, kw_only=True):
    """How a command went."""

    code: int  # as the shell tells it: 128 + N where signal N ended it
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    stopped: bool = False
    whole: bool = True  # whether stdout is, or its middle is left out


def command(  # noqa: PLR0913 - what a command is run with
    text: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    stop: Stop,
    timeout: float | None = None,
    args: tuple[str, ...] = (),
    heir: Heir | None = None,
    sandbox: Confined | None = None,
    leave: Leave = EVERYDAY,
    also: Sequence[Path] = (),
) -> Ran:
    """Run a command in a fresh bash and wait for its end, `timeout` seconds at most.

    `args` are its $1, $2, …. Each output is cut in the middle to about LIMIT characters.
    Whatever the command has left running is ended. One that can't be started has code 126 and
    says why on its stderr. In a sandbox it may do what `leave` says, and write `also`.
    """
    began = time.monotonic()
    outputs = Output(LIMIT, plain=False), Output(LIMIT, plain=False)
    if stop.is_set:
        return Ran(code=stop.why, stdout="", stderr="", seconds=0, stopped=True)
    argv = [shell(env, cwd), "--norc", "--noprofile", "-c", text, "ts", *args]
    try:
        running = Running(
            argv,
            cwd=cwd,
            env={**env, **QUIET},
            feeds=(outputs[0].feed, outputs[1].feed),
            heir=heir,
            box=sandbox.box(leave, also) if sandbox else None,
        )
    except (OSError, ValueError) as error:
        return Ran(code=126, stdout="", stderr=f"could not be started: {error}", seconds=0)
    try:
        why = running.attend(stop, timeout)
    finally:
        running.end()
    printed = [output.take() for output in outputs]
    if running.code and sandbox and (denied := sandbox.denied("\n".join(printed), leave)):
        printed[1] += f"[{denied}]\n"
    return Ran(
        code=running.code,
        stdout=printed[0],
        stderr=printed[1],
        seconds=time.monotonic() - began,
        timed_out=why == "time",
        stopped=why == "stop",
        whole=outputs[0].whole,
    )


def shell(env: Mapping[str, str], cwd: Path) -> str:
    """The user's bash: the first on PATH at an absolute place outside the working directory."""
    for place in env.get("PATH", os.defpath).split(os.pathsep):
        if not place.startswith("/") or Path(place).resolve().is_relative_to(cwd):
            continue
        if found := shutil.which("bash", path=place):
            return found
    return "/bin/bash"


class Running:
    """A command under way. One thread at a time attends to it; its starter ends it.

    `feeds` get what it prints: one for both outputs in their order, or one for each. `heir` ends
    it, with all that it began, if this process is killed. `box` puts it into a sandbox: then what
    stands for its shell is the sandbox's own process, which ends with the shell's code.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        feeds: tuple[Feed, ...],
        heir: Heir | None = None,
        box: Box | None = None,
    ) -> None:
        self._id, self._heir = secrets.token_hex(8), heir
        self._mark = f"{MARK}={self._id}".encode()
        self._before = living()
        self._began = time.monotonic()
        marked = {**env, MARK: self._id}
        self._launch = (
            box(argv, cwd, marked) if box else Launch(argv=tuple(argv), cwd=cwd, env=marked)
        )
        self._boxed = box is not None
        self._process = self._start(apart=len(feeds) > 1)
        self._code: int | None = None
        self._told: int | None = None  # the same, as a shell tells it
        self._drained = False  # what had been printed when the shell ended is read
        self._ended = False
        self._kin: frozenset[int] = frozenset()  # those found while they are being ended
        self._looked = 0.0
        self._pipes = selectors.DefaultSelector()
        for pipe, feed in zip((self._process.stdout, self._process.stderr), feeds, strict=False):
            assert pipe is not None, "it was asked for"
            os.set_blocking(pipe.fileno(), False)
            self._pipes.register(pipe, selectors.EVENT_READ, feed)

    def _start(self, *, apart: bool) -> "subprocess.Popen[bytes]":
        launch = self._launch
        try:
            if self._heir:
                self._heir.begun(self._id)  # a kill may come as soon as it runs
            process = subprocess.Popen(
                launch.argv,
                cwd=launch.cwd,
                env=launch.env,
                pass_fds=launch.fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if apart else subprocess.STDOUT,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError):
            if launch.status >= 0:
                os.close(launch.status)
            if self._heir:
                self._heir.ended(self._id)
            raise
        finally:
            for fd in launch.fds:
                os.close(fd)
        if self._heir:
            self._heir.begun(self._id, process.pid)
        return process

    @property
    def pid(self) -> int:
        """Also the id of its process group and session."""
        return self._process.pid

    @property
    def over(self) -> bool:
        """Whether the shell has ended and all that it printed is read."""
        return self._exited() and (self._drained or not self._pipes.get_map())

    @property
    def code(self) -> int:
        """The exit code, as a shell tells it. Only for one whose shell has ended."""
        assert self._code is not None, "it still runs"
        if self._told is None:
            code = self._code if self._code >= 0 else 128 - self._code
            self._told = self._launch.code(code, self._launch.status)
        return self._told

    def attend(self, stop: Stop, seconds: float | None = None) -> Why:
        """Read what it prints until its shell is over, the time is up or `stop` is set."""
        until = None if seconds is None else time.monotonic() + seconds
        pause = 0.001
        while not self.over:
            if stop.is_set:
                return "stop"
            if until is not None and time.monotonic() >= until:
                return "time"
            pause = 0.001 if self.pump(pause) else min(pause * 2, 0.05)
        until = time.monotonic() + SETTLE
        while self.left() and time.monotonic() < until:
            self.pump(0.01)
        return "over"

    def pump(self, seconds: float) -> bool:
        """Wait that long at most for something printed, read it, and say whether there was any."""
        ready = self._pipes.select(seconds)
        for key, _ in ready:
            self._read(key)
        if self._exited() and not self._drained:
            self._drained = True
            size, keys = 0, list(self._pipes.get_map().values())
            while keys and size < DRAIN:
                sizes = [self._read(key) for key in keys]
                keys = [key for key, read in zip(keys, sizes, strict=True) if read]
                size += sum(sizes)
        return bool(ready)

    def left(self) -> frozenset[int]:
        """Ids of the processes that it began and that still run, without its shell.

        Elsewhere than on Linux only the group is known: its id, while it has members.
        """
        if sys.platform == "linux":
            fresh = time.monotonic() < self._began + FRESH
            before = self._before if fresh else frozenset()
            return family(self.pid, self._mark, kin=self._kin, but=before)
        else:  # noqa: RET505 - without it mypy takes the rest for unreachable
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, 0)
                return frozenset({self.pid})
            return frozenset()

    def linger(self, stop: Stop, seconds: float | None = None) -> Why:
        """Attend to it until all that it began is over as well."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self.over or self._alive():
            if stop.is_set:
                return "stop"
            if until is not None and time.monotonic() >= until:
                return "time"
            self.pump(0.1)
        return "over"

    def end(self) -> None:
        """End all that it began, and let go of it. Takes a second at most; idempotent."""
        if self._ended:
            return
        self._ended = True
        if not self._gone():
            self._signal(signal.SIGTERM)
            until = time.monotonic() + GRACE
            while not self._gone() and time.monotonic() < until:
                self.pump(0.01)
        for _ in range(ROUNDS):
            if self._gone():
                break
            self._signal(signal.SIGKILL)
            self.pump(0.02)
        self.pump(0)
        with suppress(subprocess.TimeoutExpired):  # one that waits in the kernel can't be ended
            self._process.wait(timeout=0.2)
        if self._code is None:
            self._code = -signal.SIGKILL
        for key in list(self._pipes.get_map().values()):
            self._close(key)
        self._pipes.close()
        if self._launch.status >= 0:
            self._told = self.code  # what is read for it is closed now
            os.close(self._launch.status)
        self._launch.over()
        if self._heir:
            self._heir.ended(self._id)

    def _gone(self) -> bool:
        return self._exited() and not self.left()

    def _alive(self) -> bool:
        if time.monotonic() < self._looked + LOOK:
            return True
        self._looked = time.monotonic()
        return bool(self.left())

    def _signal(self, number: int) -> None:
        # Found first: once the shell has ended, no parent tells where its children come from.
        # The shell is waited for last, so that its id can't have become another group's.
        left = self.left()
        self._kin |= left
        if not self._boxed or number == signal.SIGKILL:  # a sandbox tells how its shell has ended
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)
        for id in left if sys.platform == "linux" else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(id, number)

    def _exited(self) -> bool:
        """Whether the shell has ended; on Linux it is left to be waited for."""
        if self._code is None:
            if sys.platform == "linux":
                try:
                    how = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                except ChildProcessError:  # SIGCHLD is ignored: the kernel kept no exit code
                    self._code = self._process.wait()
                else:
                    if how is not None:
                        ended = how.si_code == os.CLD_EXITED
                        self._code = how.si_status if ended else -how.si_status
            else:
                self._code = self._process.poll()
        return self._code is not None

    def _read(self, key: selectors.SelectorKey) -> int:
        """Hand on what has come; how many bytes."""
        try:
            data = os.read(key.fd, CHUNK)
        except BlockingIOError:
            return 0
        if data:
            key.data(data)
        else:
            self._close(key)
        return len(data)

    def _close(self, key: selectors.SelectorKey) -> None:
        self._pipes.unregister(key.fileobj)
        assert not isinstance(key.fileobj, int), "the pipes are file objects"
        key.fileobj.close()  # type: ignore[attr-defined]  # typeshed knows only its fileno

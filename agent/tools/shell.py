"""The shell that an agent has to itself.

Every call is a bash of its own, which reads what the one before left behind (directory,
variables, functions, aliases, options of `shopt`, umask) and writes it down when it ends. So a
syntax error, `exit`, `exec` or a killed command ends one call and never the shell, and each call
has a process group that can be ended. A call that is killed leaves things as they were before it,
and so does one that says `exit` under an EXIT trap of its own.

What a command leaves running becomes a job: its output is read on, so that it doesn't end by a
broken pipe, and it ends with the agent at the latest.
"""

import fcntl
import os
import shlex
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import EVERYDAY, Context, Leave, tool
from agent.tools.child.after import FOLDER, SHELL
from agent.tools.child.command import MARK, QUIET, Running, shell
from agent.tools.child.family import named
from agent.tools.child.output import Output

TIMEOUT, LONGEST = 120.0, 600.0  # seconds of one call
SHOWN = 30_000  # characters of one result
JOBS = 8  # that run at once
ENDED = 24  # jobs that have ended and are still remembered
STATE = 10_000_000  # bytes that may be carried from call to call
LENGTH = 100_000  # bytes of a command; Linux takes 131,072 in one argument (MAX_ARG_STRLEN)
GLIMPSE = 0.2  # seconds in which a job that fails at once is seen to
PATIENCE = 1.0  # seconds that `bash_output` waits for something new
LONGEST_PATH = 4096  # bytes of a directory's name (PATH_MAX)

KEPT = 256_000_000  # bytes of whole outputs in one directory, beyond which no more are kept

# Runs in a subshell once the command is over, and ends with the command's exit code. Not carried:
# what bash sets anew in each shell or counts on from, and the options of `set` (with `-e` the
# next call would end at its first failure). The directory comes last: it says that all is written.
SAVE = (
    "builtin set +eu -- $?; "
    f"builtin unset PWD SHLVL _ {MARK} RANDOM SRANDOM LINENO SECONDS EPOCHSECONDS EPOCHREALTIME "
    'HISTCMD COMP_WORDBREAKS DIRSTACK FUNCNAME GROUPS OPTIND PIPESTATUS "${!BASH_@}"; '
    "builtin declare -p; builtin umask -p; builtin shopt -p; builtin declare -fp; "
    "builtin alias -p; builtin pwd >&3; builtin exit $1"
)


@tool(writes=True)
def bash(
    context: Context, command: str, timeout: float | None = None, background: bool = False
) -> str:
    """Run a command with bash: its output, stdout and stderr in order, and its exit code.

    The shell is yours alone: `cd`, variables and functions are kept for your next call. Input is
    empty and there is no terminal. What a command leaves running (`server &`) goes on as a job
    until your work ends.

    command: as you would type it
    timeout: seconds; 120, at most 600
    background: start it as a job and return at once
    """
    own = context.own(Shell)
    if timeout is not None and not timeout > 0:
        raise ToolError(f"timeout is a number of seconds above 0, not {timeout:g}")
    do = own.start if background else own.run
    return do(command, timeout, context.stop, context.leave)


@tool(writes=False)
def bash_output(context: Context, id: str | int) -> str:
    """What a job of bash has printed since you last asked, and whether it still runs.

    id: the job's
    """
    return context.own(Shell).output(str(id).strip(), context.stop)


class Job:
    """A command that goes on beside the calls, until it and all that it began are over."""

    def __init__(self, command: str, running: Running, output: Output, stop: Stop) -> None:
        self.command = command
        self.running = running
        self.output = output
        self._stop = stop.child()
        self._over = threading.Event()
        self._began = time.monotonic()

    def begin(self, seconds: float | None = None) -> None:
        """Attend to it from now on, in a thread of its own."""

        def attend() -> None:
            try:
                self.running.linger(self._stop, seconds)
            finally:
                self.running.end()
                self._over.set()

        threading.Thread(target=attend, daemon=True).start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    @property
    def told(self) -> str:
        """How it stands, for the model. While it runs, no two looks at it are the same."""
        if self.over:
            return f"has ended: {exit_code(self.running.code)}"
        return f"still runs, for {time.monotonic() - self._began:.1f} s now"

    def stop(self) -> None:
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Wait that long at most for its end, and say whether it has come."""
        return self._over.wait(seconds)


class Shell:
    """One agent's shell and its jobs. Calls wait for each other.

    Each call has the stop flag of the work that makes it: an agent that talks with a user has a
    new one for every turn.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turn = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._cwd = context.cwd
        self._home: Path | None = None  # holds what is carried from call to call, and long outputs
        self._hold = -1  # the same folder, open and locked

    def run(self, command: str, timeout: float | None, stop: Stop, leave: Leave = EVERYDAY) -> str:
        """Run a command to its end and tell how it went."""
        seconds = min(timeout or TIMEOUT, LONGEST)
        with self._mine(stop):
            notes, output, began = [self._settle()], self._output(), time.monotonic()
            running = self._launch(command, output, stop, leave, keep=True)
            job = None
            try:
                why = running.attend(stop, seconds)
                if why == "over" and (left := running.left()):
                    job = self._adopt(Job(command, running, output, stop), named(left), notes)
            finally:
                if not job:
                    running.end()
            notes.append(self._carry(keep=why == "over"))
        if why == "time":
            notes.append(
                f"it took longer than {seconds:g} seconds and was ended with all that it began; "
                f"give a longer timeout ({LONGEST:g} at most) or `background: true`"
            )
        if why == "stop":
            notes.append(f"it was stopped after {time.monotonic() - began:.1f} seconds")
        text = output.take(final=job is None)
        if running.code and self._context.sandbox:
            notes.append(self._context.sandbox.denied(text, leave))
        return told(text or "(no output)", *notes, exit_code(running.code))

    def start(
        self, command: str, timeout: float | None, stop: Stop, leave: Leave = EVERYDAY
    ) -> str:
        """Start a command as a job and tell its id."""
        with self._mine(stop):
            self._room()
            note, output = self._settle(), self._output()
            running = self._launch(command, output, stop, leave, keep=False)
            job = Job(command, running, output, stop)
            id = self._remember(job)
            job.begin(timeout)
        job.wait(GLIMPSE)
        return told(
            job.output.take(final=job.over),
            note,
            f"job {id} (process group {running.pid}) {job.told}",
        )

    def output(self, id: str, stop: Stop) -> str:
        """What a job has printed since the last time, and whether it still runs."""
        job = self._jobs.get(id)
        if job is None:
            raise ToolError(f"there is no job {id!r}; there are: {', '.join(self._jobs) or 'none'}")
        until = time.monotonic() + PATIENCE
        text = ""
        while not text:
            over = job.over  # before the text is taken, so that nothing comes after it
            text = job.output.take(final=over)
            if over or time.monotonic() >= until or stop.wait(0 if text else 0.05):
                break
        return told(text or "(no new output)", f"job {id} {job.told}")

    def close(self) -> None:
        """End every job, and forget what was carried from call to call. Idempotent."""
        for job in self._jobs.values():
            job.stop()
        for job in self._jobs.values():
            job.wait(5)
        self._jobs.clear()
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)
            if self._context.heir:
                self._context.heir.removed(self._home)
            os.close(self._hold)
            self._home = None

    @contextmanager
    def _mine(self, stop: Stop) -> Iterator[None]:
        """Inside, no other call of this shell runs."""
        while not self._turn.acquire(timeout=0.05):
            stop.check()
        try:
            yield
        finally:
            self._turn.release()

    def _launch(
        self, command: str, output: Output, stop: Stop, leave: Leave, *, keep: bool
    ) -> Running:
        """Begin a command where the last one ended. `keep`: with what it leaves behind."""
        stop.check()
        old, new, cwd = self._files()
        save = f"({SAVE}) >{shlex.quote(str(new))} 3>{shlex.quote(str(cwd))} 2>/dev/null"
        again = f"[ -e {shlex.quote(str(new))} ] || {save}"  # `exit` comes past the last line
        carried = old.exists()
        lines = [
            f"builtin trap {shlex.quote(again)} EXIT" if keep else "",
            f"builtin . {shlex.quote(str(old))} 2>/dev/null" if carried else "",
            f"builtin eval {shlex.quote(command)}",
            save if keep else "",
        ]
        script = "; ".join(filter(None, lines))  # one line: bash counts the command's from 1
        env = {} if carried else {**self._context.env, **QUIET}
        bash = shell(self._context.env, self._context.cwd)
        sandbox, workspace = self._context.sandbox, self._context.workspace
        also = (self._place, *((workspace,) if workspace else ()))
        try:
            if len(os.fsencode(script)) > LENGTH:
                raise ToolError(
                    f"the command is longer than {LENGTH:,} bytes; write it to a file and run that"
                )
            return Running(
                [bash, "--norc", "--noprofile", "-c", script, "bash"],
                cwd=self._cwd,
                env={**env, "PWD": str(self._cwd)},
                feeds=(output.feed,),
                heir=self._context.heir,
                box=sandbox.box(leave, also) if sandbox else None,
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"the command could not be started: {error}") from error

    def _carry(self, *, keep: bool) -> str:
        """Take over what a command has left behind; words on it for the model."""
        old, new, cwd = self._files()
        note = ""
        with suppress(FileNotFoundError):
            place = left_in(cwd)
            if not keep or place == Path():  # it was killed before all was written
                pass
            elif new.lstat().st_size > STATE:
                note = "its variables and functions are too many to keep; those before it stay"
            else:
                new.replace(old)
                if place != self._cwd:
                    note = f"the shell is now in {self._context.shown(place)}"
                self._cwd = place
        new.unlink(missing_ok=True)
        cwd.unlink(missing_ok=True)
        return note

    def _settle(self) -> str:
        """Go back to the working directory where the shell's own is gone; words on it."""
        sandbox = self._context.sandbox
        if (sandbox.outside(self._cwd) if sandbox else self._cwd).is_dir():
            return ""
        gone, self._cwd = self._cwd, self._context.cwd
        return f"{gone} is gone; the command ran in {self._cwd}"

    def _adopt(self, job: Job, names: str, notes: list[str]) -> Job | None:
        """Make a job of what a command has left running, where there is room for one more."""
        try:
            self._room()
        except ToolError as error:
            notes.append(f"it left {names} running, which was ended: {error}")
            return None
        id = self._remember(job)
        job.begin()
        notes.append(
            f"it left {names} running, now job {id} (process group {job.running.pid}); "
            "it will be ended when your work ends"
        )
        return job

    def _room(self) -> None:
        if len(there := [id for id, job in self._jobs.items() if not job.over]) >= JOBS:
            raise ToolError(f"{JOBS} jobs run already ({', '.join(there)}); end one of them first")

    def _remember(self, job: Job) -> str:
        for id in [id for id, old in self._jobs.items() if old.over][:-ENDED]:
            del self._jobs[id]
        self._count += 1
        self._jobs[str(self._count)] = job
        return str(self._count)

    def _output(self) -> Output:
        place = self._context.workspace or self._place
        full = sum(file.stat().st_size for file in place.glob("output-*.txt")) > KEPT
        return Output(SHOWN, spill=None if full else place, path=self._context.shown)

    def _files(self) -> tuple[Path, Path, Path]:
        """What is carried; what the present command leaves behind; the directory it ends in."""
        return self._place / "carried", self._place / "left", self._place / "cwd"

    @property
    def _place(self) -> Path:
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix=SHELL))
            self._hold = os.open(self._home, FOLDER)
            fcntl.flock(self._hold, fcntl.LOCK_EX)  # who sweeps sees that it is in use
            if self._context.heir:
                self._context.heir.made(self._home)
        return self._home


def left_in(file: Path) -> Path:
    """The directory that a command says it ended in; an empty path where it says none.

    The command could write there what it likes: only a plain file is read, and only so much.
    """
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError:
        return Path()
    with os.fdopen(fd, "rb") as opened:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return Path()
        name = opened.read(LONGEST_PATH).removesuffix(b"\n")
    return Path(os.fsdecode(name)) if name.startswith(b"/") and b"\0" not in name else Path()


def told(text: str, *notes: str) -> str:
    """What is said to the model: the output, then each note on a line of its own."""
    lines = [f"[{note}]" for note in notes if note]
    return "\n".join([text.removesuffix("\n"), *lines] if text else lines)


def exit_code(code: int) -> str:
    with suppress(ValueError):
        if code > 128:
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"

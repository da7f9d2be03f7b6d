"""A program that is read while it works, and ended when its time is up or the work is stopped.

Searching and parsing are done in programs of their own, because only those can be ended: a regular
expression or a grammar that runs wild keeps the interpreter's lock, and takes memory without end.
"""

import os
import secrets
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Heir
from agent.tools.child.command import MARK

PIECE = 1 << 16  # bytes read at once
TICK = 0.1  # seconds: how soon the end of the stop flag's own time is seen
GRACE = 1.0  # seconds between the end of what a program prints and its own
COMPLAINT = 1 << 14  # bytes of stderr that are kept


class Program:
    """A program under way. `records` reads what it prints; after that the rest is known."""

    def __init__(self, process: subprocess.Popen[bytes], stop: Stop, seconds: float) -> None:
        self._process = process
        self._stop = stop
        self._end = time.monotonic() + seconds
        self._stderr = bytearray()
        self.late = False  # it was ended because its time was up
        self.code: int | None = None  # its exit code; minus the signal that ended it

    @property
    def complaint(self) -> str:
        """What it printed on stderr, or the start of that."""
        return self._stderr.decode(errors="replace")

    def records(self, end: bytes, *, longest: int) -> Iterator[bytes]:
        """What it prints, cut at each `end` (one byte, left out).

        Of a record longer than `longest` bytes only a first piece comes. Raises StoppedError when
        the stop flag is set. Read to the end, or left by closing: then the program is over.
        """
        rest = bytearray()
        dropping = False  # inside a record of which a first piece has been given
        for piece in self._pieces():
            first, *more = piece.split(end)
            if not dropping:
                rest += first
            for next_one in more:
                if not dropping:
                    yield bytes(rest)
                rest, dropping = bytearray(next_one), False
            if len(rest) > longest:
                yield bytes(rest[:PIECE])
                rest, dropping = bytearray(), True
        if rest:
            yield bytes(rest)

    def _pieces(self) -> Iterator[bytes]:
        assert self._process.stdout is not None, "started with a pipe"
        assert self._process.stderr is not None, "started with a pipe"
        stdout, stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while selector.get_map():
                self._stop.check()
                left = self._end - time.monotonic()
                if left <= 0:
                    self.late = True
                    self._process.kill()
                    break
                for key, _ in selector.select(min(left, TICK)):
                    piece = os.read(key.fd, PIECE)
                    if not piece:
                        selector.unregister(key.fd)
                    elif key.fd == stdout:
                        yield piece
                    else:
                        self._stderr += piece[: COMPLAINT - len(self._stderr)]
        self.close(GRACE)
        self._stop.check()

    def close(self, grace: float = 0) -> None:
        """End it, if it is not over after `grace` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        self._process.kill()
        self.code = self._process.wait()


@contextmanager
def running(
    argv: Sequence[str],
    *,
    cwd: Path,
    stop: Stop,
    seconds: float,
    input: bytes = b"",
    heir: Heir | None = None,
) -> Iterator[Program]:
    """`argv` as a program, without a shell, an environment or a terminal. Over when this is left.

    It is ended after `seconds`, when `stop` is set, and by `heir` if this process is killed: to be
    given for what does not end by itself when nobody reads it. Raises ToolError if it cannot be
    started.
    """
    stop.check()
    mark = secrets.token_hex(8) if heir else ""
    with ExitStack() as stack:
        try:
            if heir:
                heir.begun(mark)
                stack.callback(heir.ended, mark)
            # A file, not a pipe: what is written would wait for a reader, which waits for us.
            stdin = stack.enter_context(tempfile.TemporaryFile()) if input else None
            if stdin:
                stdin.write(input)
                stdin.seek(0)
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={MARK: mark} if heir else {},
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # a Ctrl-C in the terminal reaches it through `stop` alone
            )
        except OSError as error:
            raise ToolError(f"{argv[0]} can't be started: {error.strerror or error}") from error
        stack.enter_context(process)
        program = Program(process, stop, seconds)
        stack.callback(program.close)
        stack.enter_context(stop.calling(process.kill))
        yield program

"""A small process that stands beside ts and survives it, if ts is killed outright.

It is started with the first thing that would be left behind, and holds the end of a pipe: that is
all it needs to know that ts has gone. What it does then, and how it is told, is in after.py.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[3]  # where the package `agent` is
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from agent.tools.child.after import main; main()"
)
DEAF = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # what ends ts must not end it
PATIENCE = 2.0  # seconds that it is given to end what was left when ts ended in order


class Survivor:
    """The `Heir` of this process. Any thread may use it; close it at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._told: dict[str, bytes] = {}  # what there is, as it was told

    def begun(self, mark: str, leader: int = 0) -> None:
        """Processes with TS_CALL=`mark` in their environment are about to run, or do: then with
        their session's leader. Raises OSError where the survivor can't be started."""
        self._tell(mark, b"+ TS_CALL=%s %d\n" % (mark.encode(), leader))

    def ended(self, mark: str) -> None:
        """All those have ended."""
        self._forget(mark, b"- TS_CALL=%s\n" % mark.encode())

    def made(self, path: Path) -> None:
        """A temporary file, or a shell's folder, is about to be there. Raises OSError."""
        folder = path.parent.stat()
        names = os.fsencode(path.parent).hex(), os.fsencode(path.name).hex()
        line = f"> {folder.st_dev} {folder.st_ino} {names[0]} {names[1]}\n"
        self._tell(str(path), line.encode())

    def removed(self, path: Path) -> None:
        """It is there no more, or has become what it was made for."""
        self._forget(str(path), b"- %s\n" % os.fsencode(path.name).hex().encode())

    def close(self) -> None:
        """Let it go; what is left now it ends and removes. Idempotent."""
        with self._lock:
            self._end(PATIENCE if self._told else 0)
            self._told.clear()

    def _tell(self, key: str, line: bytes) -> None:
        with self._lock:
            self._told[key] = line
            if not self._write(line):
                self._start()

    def _forget(self, key: str, line: bytes) -> None:
        with self._lock:
            if self._told.pop(key, None):
                self._write(line)  # one that is not there needs no telling

    def _write(self, line: bytes) -> bool:
        """Whether it could be told: not where there is none, or it was killed or halted."""
        if self._process is None:
            return False
        assert self._process.stdin, "started with a pipe"
        try:
            return os.write(self._process.stdin.fileno(), line) == len(line)
        except OSError:
            return False

    def _start(self) -> None:
        self._end(0)
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, DEAF)  # the new process inherits that
        try:
            self._process = self._launched()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        self._write(b"".join(self._told.values()))

    def _launched(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, str(ROOT), tempfile.gettempdir()],
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert process.stdin, "started with a pipe"
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _end(self, seconds: float) -> None:
        """Have it end, by its own doing within so many seconds."""
        if self._process is None:
            return
        assert self._process.stdin, "started with a pipe"
        self._process.stdin.close()
        if seconds:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        else:
            self._process.kill()
            self._process.wait()
        self._process = None

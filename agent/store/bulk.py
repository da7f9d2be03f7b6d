"""Texts that a conversation no longer holds: a file each, for the user alone, found by its path.

A file is named by its text, so that the same text is kept once and has the same path each time.
"""

import hashlib
import os
from pathlib import Path
from threading import Lock

from agent.errors import AgentError
from agent.secret import Veil
from agent.store.disk import private
from agent.store.workspace import prepared

MOST_FILE = 16 * 2**20  # bytes of one text
MOST = 256 * 2**20  # bytes of all


class Bulk:
    """Keeps texts in `.agent/NAMES…` of a working directory, which is made for the first of them.

    Called with a text it returns its path from the working directory, and "" where it could not be
    kept: the disk refuses it, or it would be too much. What `veil` knows for a secret is not kept.
    Threads may share it.
    """

    most = MOST

    def __init__(self, cwd: Path, *names: str, veil: Veil | None = None) -> None:
        self._cwd, self._names, self._veil = cwd, names, veil or Veil()
        self._directory: Path | None = None
        self._bytes = 0
        self._lock = Lock()

    def __call__(self, text: str) -> str:
        data = self._veil.text(text).encode("utf-8", "surrogatepass")
        name = f"{hashlib.sha256(data).hexdigest()[:16]}.txt"
        with self._lock:
            try:
                return self._kept(name, data)
            except (OSError, AgentError):  # the conversation goes on without it, and says so
                return ""

    def _kept(self, name: str, data: bytes) -> str:
        directory = self._opened()
        path = directory / name
        if not (path.is_file() and path.stat().st_size == len(data)):
            if len(data) > MOST_FILE or self._bytes + len(data) > self.most:
                return ""
            self._write(path, data)
            self._bytes += len(data)
        return str(path.relative_to(self._cwd))

    def _opened(self) -> Path:
        if self._directory is None:
            above = prepared(self._cwd, *self._names[:-1])
            directory = above / self._names[-1]
            if directory.is_symlink():
                raise OSError(f"{directory} is a symbolic link")
            private(directory)
            self._bytes = sum(entry.stat().st_size for entry in os.scandir(directory))
            self._directory = directory
        return self._directory

    def _write(self, path: Path, data: bytes) -> None:
        """Whole or not at all; never through a link."""
        part = path.with_suffix(f".{os.getpid()}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        fd = os.open(part, flags, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

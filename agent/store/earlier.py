"""What earlier runs of a directory have done, and what of it is still there.

The logs are the only record. A log that is not the user's alone is passed over: it may have come
with the folder, and what it says was done may never have been.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

from agent.errors import AgentError
from agent.event import Event, RunResumed, RunStarted, StepFinished, step_of
from agent.store import log, workspace
from agent.store.content import Content

MOST_RUNS = 50  # the newest ones
MOST_BYTES = 64 * 1024 * 1024  # of one log
MOST_ALIKE = 5  # steps of one key that are tried


class Earlier:
    """Finished steps of earlier runs by the key of what they were made from. Threads may share it.

    `here` is the run that asks: what it has done itself is no earlier run's.
    """

    def __init__(self, cwd: Path, here: workspace.Run, content: Content) -> None:
        self._cwd, self._here, self._content = cwd, here, content
        self._lock = Lock()
        self._ends: dict[str, list[tuple[workspace.Run, StepFinished]]] | None = None

    def found(self, key: str, id: str) -> list[tuple[Path, StepFinished]]:
        """The workspaces and ends of steps of that key: those called `id` first, then the newest.

        Of two steps that are made from the same, others have been told what each has said.
        """
        with self._lock:
            if self._ends is None:
                self._ends = self._read()
            alike = sorted(self._ends.get(key, []), key=lambda each: step_of(each[1]) != id)
        return [(run.workspace.resolve(), end) for run, end in alike[:MOST_ALIKE]]

    def fetched(self, home: Path, end: StepFinished) -> tuple[str, ...] | None:
        """Bring a step's outputs from the workspace `home` into this run's; where they are now.

        None, and nothing is brought, where one is gone or no longer as the step left it.
        """
        names = []
        for path in end.outputs:
            inner = Path(path)
            if not inner.is_relative_to(home) or ".." in inner.parts:
                return None
            names.append(str(inner.relative_to(home)))
        if any(
            self._content.outputs([path]) != {path: end.hashes.get(path)} for path in end.outputs
        ):
            return None
        new = self._here.workspace.resolve()
        brought = tuple(str(new / name) for name in names)
        try:
            for old, target in zip(end.outputs, brought, strict=True):
                _copy(Path(old), Path(target))
        except OSError:
            self.dropped(brought)
            return None
        now = self._content.outputs(brought)
        if [now.get(path) for path in brought] != [end.hashes[path] for path in end.outputs]:
            self.dropped(brought)
            return None
        return brought

    def dropped(self, paths: tuple[str, ...]) -> None:
        """Take away what was brought."""
        for path in map(Path, paths):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def _read(self) -> dict[str, list[tuple[workspace.Run, StepFinished]]]:
        found: dict[str, list[tuple[workspace.Run, StepFinished]]] = {}
        runs = [run for run in workspace.runs(self._cwd) if run.id != self._here.id]
        for run in runs[:MOST_RUNS]:
            with suppress(AgentError):
                for end in reversed(list(_done(run, self._cwd))):
                    found.setdefault(str(end.key), []).append((run, end))
        return found


def _done(run: workspace.Run, cwd: Path) -> Iterator[StepFinished]:
    """The steps of a run that are done and may be used again, oldest first. Raises AgentError."""
    if not _ours(run.log):
        return
    kinds: tuple[type[Event], ...] = (RunStarted, RunResumed, StepFinished)
    done = dict[str, StepFinished]()
    for event in log.picked(run.log, kinds, most=MOST_BYTES):
        match event:
            case RunStarted(cwd=there) if Path(there) != cwd:
                return
            case RunResumed(again=again):
                for id in again:
                    done.pop(id, None)
            case StepFinished():
                done.pop(step_of(event), None)
                if event.status == "done" and isinstance(event.key, str):
                    done[step_of(event)] = event
            case _:
                pass
    yield from done.values()


def _ours(path: Path) -> bool:
    """Whether a file is the user's, and nobody else may even read it, as we make them."""
    try:
        found = path.lstat()
    except OSError:
        return False
    mine = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return mine and stat.S_ISREG(found.st_mode)


def _copy(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(old, new, follow_symlinks=False)

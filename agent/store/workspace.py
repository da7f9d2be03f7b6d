"""Where a directory's state lives: `.agent/`, its runs and their shared workspaces.

Nothing is made before it is needed. What we make is for the user alone. None of our directories
may be a symbolic link: a repository could send our files elsewhere by one.
"""

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from agent.errors import AgentError, UsageError
from agent.store.disk import failed, private

OWN = ("workspace/", "runs/", "sessions/", "undo/", "settings.local.yaml")  # no work of the user's

NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4,}")  # of a run


class Run(Struct, frozen=True, kw_only=True):
    """Where a run is kept; the files need not be there."""

    id: str
    log: Path
    workspace: Path  # the directory that its steps share


def folder(cwd: Path, *names: str) -> Path:
    """`.agent/…` of a working directory. Raises AgentError where a link stands in its place."""
    path = cwd / ".agent"
    for name in ("", *names):
        path = path / name
        if path.is_symlink():
            raise AgentError(
                f"{path} is a symbolic link; ts keeps its state in directories of its own",
                hint="put a directory there, or name another working directory with -C",
            )
    return path


def prepared(cwd: Path, *names: str) -> Path:
    """`.agent/…`, made if it is missing, with the .gitignore that keeps our files out of git.

    Raises AgentError where that can't be done, and where the working directory is gone: what was
    moved or removed while ts was at work does not come back as an empty one.
    """
    directory = folder(cwd, *names)
    if not cwd.is_dir():
        raise AgentError(f"{cwd} is not there any more")
    private(directory)
    note = cwd / ".agent" / ".gitignore"
    try:
        note_fd = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        os.write(note_fd, "".join(f"{name}\n" for name in OWN).encode())
        os.close(note_fd)
    except FileExistsError:
        return directory  # the .gitignore may be the user's own
    except OSError as error:
        raise failed(note, error) from error
    return directory


def run(cwd: Path, id: str) -> Run:
    """Where the run `id` of a working directory is kept."""
    return Run(
        id=id,
        log=folder(cwd, "runs") / f"{id}.jsonl",
        workspace=folder(cwd, "workspace") / id,
    )


def fresh(now: datetime | None = None) -> str:
    """A name that sorts after those of earlier times, to 1/65536 of a second.

    >>> fresh(datetime(2026, 11, 30, 15, 45, 1, 500_000, UTC))
    '20261130-154501-8000'
    """
    now = now or datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond * 65536 // 1_000_000:04x}"


def begun(cwd: Path, name: Callable[[], str] = fresh) -> Run:
    """A new run, with its workspace made; `name` is asked until it gives a name that is free.

    It sorts after those there are, whatever the clock says. Raises AgentError where nothing can
    be written.
    """
    home = prepared(cwd, "workspace")
    newest = next(filter(NAME.fullmatch, names(prepared(cwd, "runs"))), "")
    while True:
        own = name()
        if own <= newest:  # the clock was set back
            own = newest = f"{newest}0"
        new = run(cwd, own)
        try:
            (home / new.id).mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise failed(new.workspace, error) from error
        return new


def remove(run: Run) -> None:
    """Delete a run's workspace. Raises AgentError where that fails."""
    try:
        if run.workspace.exists():
            shutil.rmtree(run.workspace)
    except OSError as error:
        raise failed(run.workspace, error) from error


def runs(cwd: Path) -> list[Run]:
    """The runs that have a log, the newest first."""
    return [run(cwd, id) for id in names(folder(cwd, "runs"))]


def names(directory: Path) -> list[str]:
    """The names of the `.jsonl` files of a directory, the last one first; none if it is missing."""
    try:
        found = [
            entry.name for entry in os.scandir(directory) if entry.is_file(follow_symlinks=False)
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise failed(directory, error) from error
    return sorted((name[:-6] for name in found if name.endswith(".jsonl")), reverse=True)


def find(cwd: Path, id: str = "") -> Run:
    """The run of that id, or of the one id that begins so; without one, the newest.

    Raises UsageError, with the ids there are, where it is none or more than one.
    """
    return run(cwd, chosen(id, names(folder(cwd, "runs")), "run"))


def chosen(id: str, ids: list[str], kind: str) -> str:
    """The one of `ids` (newest first) that `id` means. Raises UsageError."""
    if not ids:
        raise UsageError(f"there is no {kind} in this directory")
    if not id or id in ids:
        return id or ids[0]
    fit = [each for each in ids if each.startswith(id)]
    if len(fit) == 1:
        return fit[0]
    if fit:
        some = ", ".join(fit[:5]) + (" …" if len(fit) > 5 else "")
        raise UsageError(f"{id!r} begins the name of {len(fit)} {kind}s: {some}")
    some = ", ".join(ids[:3]) + (" …" if len(ids) > 3 else "")
    raise UsageError(f"there is no {kind} {id!r} in this directory", hint=f"there are: {some}")

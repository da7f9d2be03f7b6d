"""`ts report`: a run written as one HTML file, without the secrets in it."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.commands.export import Strict
from agent.commands.front import directory, load, say
from agent.errors import AgentError, UsageError
from agent.event import Event
from agent.store import log, settingsfile, undo, worked, workspace
from agent.store.lines import holder
from agent.store.snapshots import Snapshots
from agent.views import report as view
from agent.views.report.page import MARK


class Whole(Strict):
    """Looks into all of a value: what a log holds under the names of images is text as well."""

    def value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.value(key): self.value(each) for key, each in value.items()}
            case list() | tuple():
                return [self.value(each) for each in value]
            case _:
                return value


def report(typed: argparse.Namespace) -> int:
    """`ts report [RUN] [-o FILE] [--open]`"""
    cwd = directory()
    place = workspace.find(cwd, typed.words[0] if typed.words else "")
    record = log.recorded(place.log)
    if record.notice:
        say(f"ts: {record.notice}")
    loaded = load(typed, cwd)
    veil = Whole([*loaded.secrets, *(key.value for key in loaded.keys.values())])
    patches = changes(cwd, record.events)
    text = view.page(
        view.Account(map(veil.over, record.events)),
        {step: veil.text(patch) for step, patch in patches.items()},
        notice=veil.text(record.notice),
        live=bool(holder(place.log)),
    )
    path = Path(typed.output or f"report-{place.id}.html").expanduser()
    write(path, text.encode("utf-8", "replace"))
    if not typed.quiet:
        say(f"written to {path}; keys and passwords that could be told are left out")
    if typed.open and not shown(path):
        say(f"ts: no browser could be started; open {path} in one")
    return 0


def changes(cwd: Path, events: Sequence[Event]) -> dict[str, str]:
    """What each step has changed, as `git diff` tells it; of what is not kept any more, nothing."""
    store, found = Snapshots(cwd, settingsfile.child_environment()), dict[str, str]()
    for part in worked.parts(events):
        if part.step and part.before != part.after:
            try:
                found[part.step] = found.get(part.step, "") + undo.made(store, part)
            except AgentError as error:
                say(f"ts: what {part.step} has changed can't be told: {error}")
    return found


def write(path: Path, data: bytes) -> None:
    """Write a file that only the user can read; an earlier report is replaced in one go.

    Raises UsageError where something else is there, AgentError where it can't be written.
    """
    try:
        if path.is_symlink() or (path.exists() and not ours(path)):
            raise UsageError(f"{path} exists", hint="name another file with -o")
        file, name = tempfile.mkstemp(prefix=".report-", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except (OSError, ValueError, RuntimeError) as error:
        raise AgentError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def ours(path: Path) -> bool:
    """Whether a file is an earlier report."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def shown(path: Path) -> bool:
    """Have the browser show a file of ours; whether one took it. Its address is made from the
    whole path, percent-encoded: nothing in a name is read as an option or another address."""
    import webbrowser  # late: few want it

    try:
        return webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False

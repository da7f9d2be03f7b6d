"""A file or a text in the user's own editor, which has the terminal meanwhile."""

import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import AgentError, UsageError
from agent.store import settingsfile
from agent.store.disk import contents

MOST = 1 << 20  # bytes of a text that comes back


def editor() -> str:
    """$VISUAL or $EDITOR, as the user's environment names it; "" for none."""
    environ = settingsfile.environment()
    return environ.get("VISUAL") or environ.get("EDITOR") or ""


def open_file(path: Path) -> None:
    """Let the user edit a file; no shell reads the editor's name. Raises AgentError."""
    name = editor()
    if not name:
        raise UsageError("no editor is named", hint="export EDITOR=vi, say, names one")
    try:
        with uninterrupted():
            subprocess.run([*shlex.split(name), str(path)], check=True)
    except (OSError, ValueError) as error:
        raise AgentError(f"{name} can't be started: {error}", hint=f"it is in {path}") from error
    except subprocess.CalledProcessError as error:
        raise AgentError(
            f"{name} ended with {error.returncode}", hint=f"it is in {path}"
        ) from error


def edited(text: str, name: str) -> str:
    """The text as the user leaves it in a file of that name. Raises AgentError."""
    with TemporaryDirectory(prefix="ts-") as place:  # only its user can look into it
        path = Path(place) / name
        path.write_text(text, encoding="utf-8")
        try:
            open_file(path)
        except AgentError as error:
            raise AgentError(str(error), hint="it is as it was") from error
        return contents(path, MOST).decode("utf-8", "replace")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside, Ctrl-C is for the program that has the terminal, and ends nothing of ours."""
    # No SIG_IGN: a program that is started inherits that.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

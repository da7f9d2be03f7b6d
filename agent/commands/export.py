"""A conversation written to a file of the user's, without the secrets in it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import AgentError, UsageError
from agent.secret import Veil, redacted
from agent.store.sessions import Session
from agent.views.transcript import FORMS, Said, Transcript


class Strict(Veil):
    """Takes out all that may be a key: what leaves is not gone on with, as what is kept may be."""

    def __init__(self, known: Iterable[str]) -> None:
        super().__init__()
        self._known = tuple(known)

    def text(self, text: str) -> str:
        return redacted(text, self._known)


def transcript(session: Session, secrets: Iterable[str] = ()) -> Transcript:
    """The conversation as it stands, with no key in it: none of `secrets`, none of a known form."""
    veil = Strict(secrets)
    return Transcript(
        id=session.id,
        title=veil.text(session.title),
        cwd=str(session.cwd),
        time=session.began,
        said=tuple(
            Said(
                id=entry.id,
                parent=entry.parent,
                time=entry.time,
                model=entry.model,
                message=veil.over(entry.message),
            )
            for entry in session.entries
        ),
    )


def export(session: Session, name: str, secrets: Iterable[str] = ()) -> Path:
    """Write the conversation to a new file, in the form that its ending names, without one as
    Markdown.

    Raises UsageError where there is nothing to write, the file is there or its ending names no
    form, AgentError where it can't be written.
    """
    if not session.entries:
        raise UsageError("there is nothing to export yet")
    path = Path(name or f"conversation-{session.id}.md").expanduser()
    form = FORMS.get(path.suffix.lower() or ".md")
    if form is None:
        raise UsageError(
            f"a conversation can't be written as {path.suffix}", hint="name a .md, .html or .jsonl"
        )
    data = form(transcript(session, secrets)).encode("utf-8", "replace")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file, unless_whole(path):
            file.write(data)
            file.flush()
    except FileExistsError as error:
        raise UsageError(f"{path} exists", hint="name another file") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise AgentError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return path


@contextmanager
def unless_whole(path: Path) -> Iterator[None]:
    """Remove a file of ours that the disk did not take, or that we were stopped at."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise

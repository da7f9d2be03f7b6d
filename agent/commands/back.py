"""The chat's commands that go back: to an earlier message, to files as they were."""

from datetime import datetime

from agent.commands.attach import said
from agent.commands.desk import Desk
from agent.commands.undo import listed, others
from agent.errors import UsageError
from agent.store import undo as store_undo
from agent.store import worked
from agent.store.sessions import Session
from agent.store.tree import Entry
from agent.store.undo import Preview
from agent.views import undo as view
from agent.views.pick import Row


def rewind(desk: Desk, words: str) -> None:
    """Go back to before a message of the user's, which may then be said otherwise; with it, or
    instead of it, what was done since is taken back."""
    asked = list(reversed(questions(desk.session)))
    if not asked:
        raise UsageError("there is nothing to go back to yet")
    rows = [Row(words=said(entry.message.text), note=clock(entry.time)) for entry in asked]
    at = desk.pick("back to before which message", rows, words)
    if at is None:
        return
    entry = asked[at]
    preview = changed(desk, entry)
    what = "c"
    if preview:
        listed(desk.out, preview)
        choices = {"c": "the conversation", "f": "the files", "b": "both", "n": "nothing"}
        what = desk.asks.choose("what is to go back?", choices)
    if preview and what in {"f", "b"}:
        put_back(desk, preview)
    if what in {"c", "b"}:
        if warning := desk.talk.rewind(entry.parent):
            desk.app.notice(warning)
        desk.draft = said(entry.message.text)
        desk.say(f"back to before your message of {clock(entry.time)}")
        if not desk.out.fancy:
            desk.say(f"which was: {said(entry.message.text)}")


def questions(session: Session) -> list[Entry]:
    """The user's own messages, oldest first."""
    return [
        entry
        for entry in session.entries
        if entry.message.role == "user" and entry.message.text.strip()
    ]


def clock(time: str) -> str:
    """A time of a file, as the user's clock showed it."""
    try:
        return f"{datetime.fromisoformat(time).astimezone():%d %b %H:%M}"
    except ValueError:
        return ""


def changed(desk: Desk, entry: Entry) -> Preview | None:
    """What the conversation has done to files since a message; None for nothing."""
    works = worked.turns(desk.app.cwd, desk.session.id, entry.id)
    if not works:
        return None
    preview = store_undo.preview(desk.app.snapshots, works)
    return preview if preview.changes else None


def undo(desk: Desk, words: str) -> None:
    """Take back what the newest turn, run or undo has done to files, or the one that is named."""
    take_back(desk, worked.work(desk.app.cwd, *words.split()[:2]))


def redo(desk: Desk, words: str) -> None:
    """Take back the newest undo."""
    take_back(desk, worked.undone(desk.app.cwd))


def take_back(desk: Desk, work: worked.Work) -> None:
    preview = store_undo.preview(desk.app.snapshots, [work])
    if not preview.changes:
        again = f"; `/undo {work.undone}` brings it back" if work.undone else ""
        desk.say(f"there is nothing of {work.id} to take back{again}")
        return
    listed(desk.out, preview)
    if not preview.sure or desk.asks.choose("put back?", {"y": "yes", "n": "no"}) == "y":
        put_back(desk, preview)


def put_back(desk: Desk, preview: Preview) -> None:
    """Do it, once the user has decided about the files that somebody else may have changed."""
    done = store_undo.undo(desk.app.snapshots, preview, others(preview, desk.asks))
    for path, why in done.failed:
        desk.say(f"{path}: {why}")
    if done.id:
        desk.say(view.outcome(len(done.changed), len(done.kept), f"/undo {done.id}"))
    else:
        desk.say("no file has been put back")

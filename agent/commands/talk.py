"""The chat's commands about conversations: another one, a fork, a title, a file."""

from agent.commands.desk import Desk
from agent.commands.export import export
from agent.errors import UsageError
from agent.runs import Ended
from agent.store import sessions
from agent.views import clip
from agent.views.context import filling_lines
from agent.views.figures import age, counted
from agent.views.pick import Row
from agent.views.plain import bare


def clear(desk: Desk, words: str) -> None:
    desk.turn_to(sessions.new(desk.app.cwd))
    desk.say("a new conversation")


def resume(desk: Desk, words: str) -> None:
    """Another conversation: the one that is named, else one that the user picks."""
    cwd = desk.app.cwd
    found = [each for each in sessions.listed(cwd) if each.id != desk.session.id]
    try:
        chosen = sessions.meant(cwd, words) if words else ""
    except UsageError:
        if not found:
            raise
        chosen = ""  # words to look for
    if chosen == desk.session.id:
        raise UsageError("this is that conversation")
    if not chosen:
        if not found:
            raise UsageError("there is no other conversation in this directory")
        at = desk.pick("which conversation", [row(each) for each in found], words)
        if at is None:
            return
        chosen = found[at].id
    desk.turn_to(sessions.load(cwd, chosen))
    desk.say(f"conversation {called(desk.session)}")
    desk.recall()


def row(one: sessions.Summary) -> Row:
    """A conversation to choose."""
    note = f"{age(one.age)}, {counted(one.count, 'message')}"
    return Row(words=one.title or one.words or one.id, note=note)


def called(session: sessions.Session) -> str:
    return f"{session.title} ({session.id})" if session.title else session.id


def fork(desk: Desk, words: str) -> None:
    if not desk.session.entries:
        raise UsageError("there is nothing to fork yet")
    old = desk.session
    desk.turn_to(old.fork())
    if words:
        desk.session.rename(words)
    desk.say(f"conversation {called(desk.session)}, a fork; `/resume {old.id}` goes back")


def rename(desk: Desk, words: str) -> None:
    if words:
        desk.session.rename(words)
    if not desk.session.title:
        raise UsageError("what is it to be called?", hint="/rename TITLE")
    desk.say(f"conversation {called(desk.session)}")


def export_talk(desk: Desk, words: str) -> None:
    loaded = desk.app.loaded
    known = [*loaded.secrets, *(key.value for key in loaded.keys.values())]
    path = export(desk.session, words, known)
    desk.say(f"written to {path}; keys and passwords that could be told are left out")


def compact(desk: Desk, words: str) -> None:
    def work() -> Ended:
        told.append(desk.talk.compact(words))
        return Ended(code=0, answer="")

    told = list[str]()
    desk.work(work)
    for line in told:
        desk.say(line)


def aside(desk: Desk, words: str) -> None:
    """`/btw QUESTION`"""
    if not words:
        raise UsageError("what do you want to know?", hint="/btw QUESTION")
    desk.work(lambda: desk.talk.aside(words))


def copy(desk: Desk, words: str) -> None:
    """`/copy`: the last answer into the clipboard."""
    said = (each.text for each in reversed(desk.talk.messages) if each.role == "assistant")
    answer = next((text for text in said if text.strip()), "")
    if not answer:
        raise UsageError("there is no answer to copy yet")
    if not (desk.out.fancy and clip.takes(desk.out.environ)):
        raise UsageError(
            "this terminal is not known to take a copy from a program",
            hint="/export FILE.md writes the conversation to a file",
        )
    data = bare(answer).encode("utf-8", "replace")
    if len(data) > clip.MOST:
        raise UsageError(f"the answer has {len(data):,} bytes; terminals take {clip.MOST:,}")
    desk.out.write(clip.copying(data))
    desk.say(f"the last answer, {counted(len(answer), 'character')}, is handed to the clipboard")


def context(desk: Desk, words: str) -> None:
    for line in filling_lines(desk.talk.filling(), desk.out.width):
        desk.out.line(line)

"""What the commands of a chat work on: the conversation under way, the screen, the user."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from agent.app import App
from agent.chat import Chat
from agent.commands.attach import attached, said
from agent.runs import Ended
from agent.store.sessions import Session
from agent.views.ask import TerminalAsk
from agent.views.figures import counted
from agent.views.pick import Row
from agent.views.plain import Output, cut, safe

RECALLED = 6  # messages that are shown of a conversation that goes on
LONG = 2000  # characters of one of them


class Desk:
    """One for a chat; `talk` and `session` are exchanged when the user turns to another one.

    `work` does what a model is asked for, and Ctrl-C ends. `pick` lets the user choose a row,
    `asks` puts questions.
    """

    def __init__(
        self,
        app: App,
        session: Session,
        out: Output,
        *,
        work: Callable[[Callable[[], Ended]], None],
        pick: Callable[[str, Sequence[Row], str], int | None],
        asks: TerminalAsk,
    ) -> None:
        self.app, self.out, self.work, self.pick, self.asks = app, out, work, pick, asks
        self.session = session
        self.talk = Chat(app, session)
        self.draft = ""  # what the next prompt begins with
        self.leaving = False
        self.brought = list[str]()  # what the next message brings along
        self.printed = ""  # by the user's newest command

    def turn(self, text: str) -> Ended:
        """Say something to the model, with what it names and what was printed meanwhile."""
        found = attached(self.talk, text)
        before = len(self.talk.messages)
        try:
            return self.talk.turn(text + found.text + "".join(self.brought), found.images)
        finally:
            self.printed = ""
            if len(self.talk.messages) > before:
                self.brought = []

    def turn_to(self, session: Session) -> None:
        """Go on with another conversation; this one is kept."""
        self.talk.close()
        self.session = session
        self.talk = Chat(self.app, session)
        for text in session.notices:
            self.app.notice(text)

    def recall(self) -> None:
        """Show how the conversation ends."""
        from agent.views.prose import rendered

        spoken = [each for each in self.talk.messages if each.text.strip()]
        if left := len(spoken[:-RECALLED]):
            self.out.line(self.out.styled("dim", f"… {counted(left, 'earlier message')}"))
        for message in spoken[-RECALLED:]:
            text = said(message.text)[:LONG]
            if message.role == "user":
                self.out.line(f"› {safe(text)}")
            else:
                self.out.line(
                    "\n".join(rendered(text, self.out) if self.out.fancy else [safe(text)])
                )
            if more := len(said(message.text)) - len(text):
                self.out.line(f"… {more:,} more characters")

    def row(self, name: str, about: str) -> None:
        self.out.line(cut(f"  /{name:18} {safe(about)}", self.out.width - 1))

    def say(self, text: str) -> None:
        """A line, or several, made safe."""
        self.out.line(safe(text))

    def close(self) -> None:
        self.talk.close()


Do: TypeAlias = Callable[[Desk, str], None]
"""Does a command with the words behind its name. Raises AgentError."""

"""The chat: what the user types is answered, line by line, until they leave."""

import argparse
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

from agent.app import App, People
from agent.commands.attach import dropped
from agent.commands.desk import Desk, Do
from agent.commands.editing import edited, editor
from agent.commands.front import directory, load, output, say_error, session_of
from agent.commands.listing import Listing
from agent.commands.live import Live
from agent.commands.marks import marked_line
from agent.commands.signals import heard
from agent.commands.slash import COMMANDS, CYCLE, OTHERS, keys, named, offered
from agent.commands.talk import called, row
from agent.commands.trust import consent
from agent.errors import AgentError, BudgetError, SetupError, UsageError, near
from agent.event import Text
from agent.runs import Ended
from agent.stop import INTERRUPTED, Stop
from agent.store import sessions, settingsfile
from agent.store.git import branch
from agent.store.sessions import Session
from agent.store.skills import Called, slashed
from agent.version import __version__
from agent.views.ask import TerminalAsk
from agent.views.attention import Attention
from agent.views.editor import Editor
from agent.views.figures import money, tokens
from agent.views.lines import Level
from agent.views.pick import Row, fitting, pick
from agent.views.plain import one_line, safe
from agent.views.terminal import Terminal
from agent.views.typed import ESC, PLAN, WHOLE

MOST_QUEUED = 100
FIRST = (
    "No model is set up yet; one of these is enough, then start ts again:",
    "  export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY=…), or start Ollama, LM Studio or llama.cpp",
    "  `ts demo` shows a run without any, `ts doctor` what is missing",
)
LEAVE = {"exit", "quit", ":q"}


def chat(typed: argparse.Namespace) -> int:
    """Talk until the user leaves; the exit code is 0, or that of the signal that ended it."""
    repl = Repl(typed)
    try:
        code = repl.loop(" ".join(typed.words))
        if not code and repl.desk.talk.messages:
            repl.out.line(repl.out.styled("dim", "`ts -c` goes on with this chat"))
        return code
    finally:
        repl.close()


class Repl:
    """A chat at a terminal."""

    def __init__(self, typed: argparse.Namespace) -> None:
        cwd = directory()
        self.out = output(sys.stdout)
        level: Level = "verbose" if typed.verbose else "normal"
        self.terminal = Terminal(self.out, level, keys=sys.stdin)
        self.stop = Stop()  # of the whole chat; each turn has a child
        self.attention = Attention(self.out, cwd.name)
        pause = self.attention.asking(self.terminal.paused)
        self.asks = TerminalAsk(self.out, sys.stdin, stop=self.stop, pause=pause)
        agreed = consent(cwd, flag=typed.trust, choose=self.asks.choose, all=True)
        loaded = load(typed, cwd, agreed)
        self.app = App(
            cwd,
            loaded,
            stop=self.stop,
            sinks=(self.terminal, self.attention),
            people=People(
                ask=self.asks,
                inquire=self.asks.inquire,
                choose=self.asks.choose,
                edit=self.edited if editor() else None,
            ),
            trusted=agreed.trusted,
        )
        self.attention.mode, self.out.theme = self.app.settings.notify, self.app.settings.theme
        self.reading = False  # whether the user is at the prompt
        self.queue = deque[str](maxlen=MOST_QUEUED)  # lines typed while a model was at work
        self.live = Live(self.app, self.terminal)
        self.terminal.listen(self.heard, ends="Esc")
        session = self.session(typed)
        self.desk = Desk(
            self.app, session, self.out, work=self.work, pick=self.pick, asks=self.asks
        )
        home = settingsfile.home()
        self.editor = Editor(
            self.out,
            sys.stdin,
            home / ".local/state/tianshu/history",
            commands=lambda: offered(self.desk),
            toolbar=self.status,
            cycle=self.cycle,
        )
        self.listing = Listing(self.files)
        self.editor.files = self.listing.fitting
        self.editor.meant = dropped
        self.editor.asides = {
            "c-o": self.whole,
            "c-t": self.plan,
            "?": lambda: keys(self.desk),
        }
        self.editor.back = "/rewind"
        self.loading: Thread | None = None
        self.editor.shown, self.editor.veil = self.warm, self.app.veil
        self.lacking: dict[str, str] = {}  # by the model that is set: why it can't be asked
        for text in (*agreed.notices, *loaded.notices, *session.notices):
            self.app.notice(text)

    def session(self, typed: argparse.Namespace) -> Session:
        """The conversation to go on with; of several, `-r` lets the user pick, from those that
        its words fit where they are neither an id nor a title."""
        cwd, words = self.app.cwd, typed.resume or ""
        found = sessions.listed(cwd) if typed.resume is not None else []
        if words:
            try:
                sessions.meant(cwd, words)
                found = []
            except UsageError:
                if not fitting(words, [row(each) for each in found]):
                    raise
        elif len(found) < 2:
            found = []
        if not found:
            return session_of(typed, self.app)
        at = self.pick("which conversation", [row(each) for each in found], words)
        if at is None:
            self.app.notice("none was chosen: this is a new conversation")
            return sessions.new(cwd)
        return sessions.load(cwd, found[at].id, fork=typed.fork_session)

    def close(self) -> None:
        self.terminal.close()
        self.attention.close()
        self.desk.close()
        self.app.close()

    # -- reading --------------------------------------------------------------------------------

    def loop(self, prompt: str) -> int:
        self.greet()
        line = prompt
        if prompt.strip():
            self.out.line(self.out.styled("bold", "› ") + safe(prompt))
        with leaving(self) as ended:
            while True:
                if line.strip() and not self.answer(line):
                    return 0
                try:
                    self.reading = True
                    if code := ended():
                        return code
                    line = self.queued() or self.read()
                except (EOFError, KeyboardInterrupt):
                    return ended()
                finally:
                    self.reading = False

    def heard(self, line: str) -> None:
        """A line or a key that was typed while a model is at work: what is not about the run under
        way is answered when that has ended."""
        keys = {ESC: self.interrupt, WHOLE: self.whole, PLAN: self.plan}
        if key := keys.get(line):
            key()
        elif line.strip() and not self.live.heard(line):
            self.queue.append(line)
            self.terminal.say([self.out.styled("dim", f"› {one_line(line, 400)} (next)")])

    def interrupt(self) -> None:
        """End the turn under way, and keep the chat."""
        if self.app.stop is not self.stop:
            self.app.stop.set(INTERRUPTED)

    def whole(self) -> None:
        """Show all of the newest output of a tool, as the model was given it."""
        said = reversed(self.desk.talk.messages)
        found = (result.text for message in said for result in reversed(message.results))
        text = self.desk.printed or next(found, "no tool has been used yet")
        self.terminal.say(safe(text).split("\n"))

    def plan(self) -> None:
        lines = self.terminal.plan()
        self.terminal.say(lines or ["there is no plan yet"])

    def edited(self, text: str, name: str) -> str:
        with self.terminal.paused():
            return edited(text, name)

    def queued(self) -> str:
        """The oldest line that was typed in the meantime; "" for none."""
        if not self.queue:
            return ""
        line = self.queue.popleft()
        self.out.line(self.out.styled("bold", "› ") + safe(line))
        return line

    def read(self) -> str:
        draft, self.desk.draft = self.desk.draft, ""
        return self.editor.read(default=draft + self.terminal.draft())

    def greet(self) -> None:
        out = self.out
        self.attention.title()
        out.line(out.styled("bold", "天枢 Tianshu") + f" {__version__}  {safe(str(self.app.cwd))}")
        out.line(out.styled("dim", "ask, /help for commands, ? for keys, Ctrl-D to leave"))
        if not self.app.settings.model:
            self.guide()
        if self.desk.talk.messages:
            out.line(out.styled("dim", safe(f"conversation {called(self.desk.session)}")))
        self.desk.recall()

    def guide(self) -> None:
        """Three lines for the first time, where no model can be asked yet."""
        try:
            self.app.main_model  # noqa: B018 - a local server may be there
        except SetupError:
            for line in FIRST:
                self.out.line(line)
        except AgentError:
            pass  # told when it is needed

    def warm(self) -> None:
        """Find the model, load its library and read the project while the user types."""

        asked = self.app.settings.model

        def load() -> None:
            try:
                self.app.warm()
            except AgentError as error:  # told in full when it is needed
                self.lacking[asked] = str(error)
            self.editor.redraw()

        self.loading = Thread(target=load, daemon=True)
        self.loading.start()

    def files(self) -> Sequence[str]:
        """All that `@` may name, but for what is ignored."""
        from agent.tools.find.walk import names, place

        context = self.app.context()
        try:
            return names(context, place(context, "."), seconds=5).paths
        except AgentError:  # a directory that can't be read
            return ()

    def status(self) -> str:
        tally = self.app.tally
        model = one_line(self.app.settings.model or self.app.model_in_use, 36)
        parts = [
            safe(self.lacking.get(self.app.settings.model, "")) or model,
            f"{self.app.gate.mode} mode",
        ]
        parts.append(one_line(branch(self.app.cwd), 40))
        if last := tally.last:
            used = last.usage.total / self.app.window(last.model)
            parts.append(f"{used:.0%} of context")
        if tally.calls:
            parts += [tokens(tally.usage.total), money(tally.cost_usd)]
        if last and last.seconds and last.usage.output_tokens:
            parts.append(f"{last.usage.output_tokens / last.seconds:.0f} tok/s")
        return " · ".join(filter(None, parts))

    def cycle(self) -> None:
        mode = self.app.gate.mode
        place = CYCLE.index(mode) if mode in CYCLE else -1
        self.app.gate.mode = CYCLE[(place + 1) % len(CYCLE)]

    # -- answering ------------------------------------------------------------------------------

    def answer(self, line: str) -> bool:
        """Do what a line says; False to leave."""
        text = line.strip()
        if text.lower() in LEAVE:
            return False
        name, words = slashed(text) or ("", "")
        try:
            if text.startswith("//"):
                self.turn(text[1:])
            elif marked_line(self.desk, text):
                pass
            elif command := named(name):
                self.command(command, words.strip())
            elif called := self.called(text, name):
                self.work(lambda: self.desk.talk.skill(called.skill, called.words, said=text))
            else:
                self.turn(text)
        except BudgetError as error:
            say_error(self.spent(error))
        except AgentError as error:
            say_error(error)
        return not self.desk.leaving

    def command(self, do: Do, words: str) -> None:
        """Do a command; Ctrl-C ends it and keeps the chat, unless a model is at work."""
        self.app.stop = self.asks.stop = self.stop
        try:
            do(self.desk, words)
        except KeyboardInterrupt:
            if self.app.stop is not self.stop:  # the second one of a turn
                raise
            self.out.line()

    def called(self, text: str, name: str) -> Called | None:
        """The skill that a message starts. Raises UsageError, with the nearest of all commands."""
        try:
            return self.app.called(text)
        except UsageError as error:
            known = [*COMMANDS, *OTHERS, *(skill.name for skill in self.app.skills.all)]
            nearest = near(f"/{name}", [f"/{each}" for each in known])
            raise UsageError(f"there is no /{name}{nearest}", hint="/help lists them") from error

    def turn(self, text: str) -> None:
        self.work(lambda: self.desk.turn(text))

    def pick(self, title: str, rows: Sequence[Row], typed: str) -> int | None:
        """The place of the row that the user chooses; None where they choose none, or leave."""
        self.reading = True
        try:
            return pick(self.out, sys.stdin, title, rows, typed)
        except KeyboardInterrupt:
            return None
        finally:
            self.reading = False

    def work(self, do: Callable[[], Ended]) -> None:
        """Do something that Ctrl-C ends, and show it."""
        self.app.stop = self.asks.stop = self.stop.child(self.app.settings.timeout)
        while self.loading and self.loading.is_alive() and not self.app.stop.is_set:
            self.loading.join(0.05)  # what it reads is read once
        with self.attention.working(), self.terminal.turn():
            ended = do()
        if ended.state is not None and ended.answer:
            self.app.shown(Text(text=ended.answer))
        if ended.error:
            say_error(ended.error)

    def spent(self, error: BudgetError) -> AgentError:
        """The same, with the command that goes on with the chat."""
        if not self.app.budget.fault:
            return error
        hint = f"`ts -c {self.app.budget.more}` goes on with this chat"
        return BudgetError(str(error), what=error.what, hint=hint)


@contextmanager
def leaving(repl: Repl) -> Iterator[Callable[[], int]]:
    """Ctrl-C ends the turn under way and keeps the chat; a second one, and the other signals, end
    the chat. Gives the exit code of what has ended it; 0 while nothing has."""
    ended = 0

    def hear(code: int) -> bool:
        nonlocal ended
        turn = repl.app.stop
        if code == INTERRUPTED and not repl.reading and turn is not repl.stop and not turn.is_set:
            turn.set(code)
            return True
        if code == INTERRUPTED and (repl.reading or turn is repl.stop):
            raise KeyboardInterrupt
        first, ended = not ended and code != INTERRUPTED, code
        repl.stop.set(code)
        if repl.reading:
            raise KeyboardInterrupt  # what the editor's loop lets through wherever it stands
        return first

    with heard(hear):
        yield lambda: ended

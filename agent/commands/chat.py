"""The chat: what the user types is answered, line by line, until they leave."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from types import FrameType

from agent.app import App, People
from agent.chat import Chat
from agent.commands.front import directory, load, output, say_error, session_of
from agent.errors import AgentError, UsageError, near
from agent.event import Text
from agent.runs import Ended
from agent.settings import Mode
from agent.stop import HUNG_UP, INTERRUPTED, TERMINATED, Stop
from agent.store import sessions, settingsfile
from agent.store.skills import Skill
from agent.version import __version__
from agent.views.ask import TerminalAsk
from agent.views.editor import Editor
from agent.views.figures import counted, money, tokens
from agent.views.lines import Level
from agent.views.plain import cut, safe
from agent.views.terminal import Terminal

LEAVE = {"exit", "quit", "/exit", "/quit", ":q"}
CYCLE: tuple[Mode, ...] = ("default", "accept-edits", "plan")  # Shift+Tab; auto is by a flag alone


def chat(typed: argparse.Namespace) -> int:
    """Talk until the user leaves; the exit code is 0, or that of the signal that ended it."""
    repl = Repl(typed)
    try:
        code = repl.loop(" ".join(typed.words))
        if not code and repl.talk.messages:
            repl.out.line(repl.out.styled("dim", "`ts -c` goes on with this chat"))
        return code
    finally:
        repl.close()


class Repl:
    """A chat at a terminal."""

    def __init__(self, typed: argparse.Namespace) -> None:
        cwd = directory()
        loaded = load(typed, cwd)
        self.out = output(sys.stdout)
        level: Level = "verbose" if typed.verbose else "normal"
        self.terminal = Terminal(self.out, level, keys=sys.stdin)
        self.stop = Stop()  # of the whole chat; each turn has a child
        self.asks = TerminalAsk(self.out, sys.stdin, stop=self.stop, pause=self.terminal.paused)
        self.app = App(
            cwd,
            loaded,
            stop=self.stop,
            sinks=(self.terminal,),
            people=People(ask=self.asks, inquire=self.asks.inquire),
            trusted=typed.trust,
        )
        self.session = session_of(typed, self.app)
        self.talk = Chat(self.app, self.session)
        home = settingsfile.home()
        self.editor = Editor(
            self.out,
            sys.stdin,
            home / ".local/state/tianshu/history",
            commands=self.commands,
            toolbar=self.status,
            cycle=self.cycle,
        )
        self.loading: Thread | None = None
        self.editor.shown = self.warm
        self.lacking = ""  # why no model can be asked
        self.reading = False  # whether the user is at the prompt
        for text in (*loaded.notices, *self.session.notices):
            self.app.notice(text)

    def close(self) -> None:
        self.terminal.close()
        self.talk.close()
        self.app.close()

    # -- reading --------------------------------------------------------------------------------

    def loop(self, prompt: str) -> int:
        self.greet()
        line = prompt
        if prompt.strip():
            self.out.line(self.out.styled("bold", "› ") + safe(prompt))
        with signals(self) as ended:
            while True:
                if line.strip() and not self.answer(line):
                    return 0
                try:
                    self.reading = True
                    if code := ended():
                        return code
                    line = self.editor.read()
                except (EOFError, KeyboardInterrupt):
                    return ended()
                finally:
                    self.reading = False

    def greet(self) -> None:
        out = self.out
        out.line(out.styled("bold", "天枢 Tianshu") + f" {__version__}  {safe(str(self.app.cwd))}")
        out.line(out.styled("dim", "ask, /help for commands, Ctrl-D to leave"))
        for message in [each for each in self.talk.messages if each.text][-6:]:
            mark = "› " if message.role == "user" else ""
            out.line(mark + safe(message.text))

    def warm(self) -> None:
        """Find the model, load its library and read the project while the user types."""

        def load() -> None:
            try:
                self.app.warm()
            except AgentError as error:  # told in full when it is needed
                self.lacking = str(error)
            self.editor.redraw()

        self.loading = Thread(target=load, daemon=True)
        self.loading.start()

    def status(self) -> str:
        tally = self.app.tally
        model = self.lacking or self.app.settings.model or self.app.model_in_use
        parts = [safe(model), f"{self.app.gate.mode} mode"]
        if tally.calls:
            parts += [tokens(tally.usage.total), money(tally.cost_usd)]
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
        name, _, words = text.removeprefix("/").partition(" ")
        try:
            if text.startswith("//"):
                self.turn(text[1:])
            elif text.startswith("/") and name in self.own:
                self.own[name][1](words)
            elif called := self.called(text, name):
                self.work(lambda: self.talk.skill(*called, said=text))
            else:
                self.turn(text)
        except AgentError as error:
            say_error(error)
        return True

    def called(self, text: str, name: str) -> tuple[Skill, str] | None:
        """The skill that a message starts. Raises UsageError, with the nearest of all commands."""
        try:
            return self.app.called(text)
        except UsageError as error:
            names = [*self.own, *(skill.name for skill in self.app.skills.all)]
            raise UsageError(
                f"there is no /{name}{near(name, names)}", hint="/help lists them"
            ) from error

    def turn(self, text: str) -> None:
        self.work(lambda: self.talk.turn(text))

    def work(self, do: Callable[[], Ended]) -> None:
        """Do something that Ctrl-C ends, and show it."""
        self.app.stop = self.asks.stop = self.stop.child(self.app.settings.timeout)
        while self.loading and self.loading.is_alive() and not self.app.stop.is_set:
            self.loading.join(0.05)  # what it reads is read once
        with self.terminal.turn():
            ended = do()
        if ended.state is not None and ended.answer:
            self.app.shown(Text(text=ended.answer))
        if ended.error:
            say_error(ended.error)

    @property
    def own(self) -> dict[str, tuple[str, Callable[[str], None]]]:
        return {
            "help": ("what can be typed here", self.help),
            "clear": ("begin a new conversation; the old one is kept", self.clear),
            "cost": ("what this chat has used", self.cost),
            "mode": ("the permission mode: default, accept-edits, plan", self.mode),
            "skills": ("the skills there are", self.skills),
            "exit": ("leave", lambda words: None),
        }

    def commands(self) -> Sequence[tuple[str, str]]:
        own = [(name, about) for name, (about, _) in self.own.items()]
        return own + [(skill.name, skill.plan.description) for skill in self.app.skills.all]

    def help(self, words: str) -> None:
        for name, about in self.commands():
            self.row(name, about)
        self.out.line(
            "Enter sends; \\ Enter, Alt+Enter, Ctrl+J begin a line; Ctrl+R searches what was "
            "typed;\nShift+Tab changes the mode; Ctrl-C stops the turn, or clears the line; "
            "Ctrl-D leaves. // begins a message with a slash."
        )

    def clear(self, words: str) -> None:
        self.talk.close()
        self.session = sessions.new(self.app.cwd)
        self.talk = Chat(self.app, self.session)
        self.out.line("a new conversation")

    def cost(self, words: str) -> None:
        tally = self.app.tally
        usage = tally.usage
        self.out.line(
            f"{counted(tally.calls, 'model call')}, {tokens(usage.input_tokens)} in, "
            f"{tokens(usage.cache_read_input_tokens)} from the cache, "
            f"{tokens(usage.output_tokens)} out, {money(tally.cost_usd)}"
        )

    def mode(self, words: str) -> None:
        if words and words not in CYCLE:
            raise UsageError(f"there is no mode {words!r}", hint=", ".join(CYCLE))
        for mode in CYCLE:
            if mode == words:
                self.app.gate.mode = mode
        self.out.line(f"permission mode: {self.app.gate.mode}")

    def skills(self, words: str) -> None:
        for skill in self.app.skills.all:
            self.row(skill.name, skill.plan.description)

    def row(self, name: str, about: str) -> None:
        self.out.line(cut(f"  /{name:18} {safe(about)}", self.out.width - 1))


@contextmanager
def signals(repl: Repl) -> Iterator[Callable[[], int]]:
    """Ctrl-C ends the turn under way and keeps the chat; the others end the chat."""
    ended = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        if repl.app.stop is repl.stop or repl.app.stop.is_set:
            raise KeyboardInterrupt
        repl.app.stop.set(INTERRUPTED)

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        ended = codes[number]
        repl.stop.set(ended)
        if repl.reading:
            raise KeyboardInterrupt  # what the editor's loop lets through wherever it stands

    codes: dict[int, int] = {signal.SIGTERM: TERMINATED, signal.SIGHUP: HUNG_UP}
    before = {number: signal.signal(number, leave) for number in codes}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""What all commands share: errors told, signals caught, output formats, the App opened."""

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import monotonic
from typing import Any, TextIO

import msgspec
from msgspec import structs

from agent.app import NOBODY, App, People
from agent.commands.signals import heard, signals
from agent.commands.trust import Consent, consent
from agent.errors import AgentError, ConsentError, FaultError, UsageError
from agent.event import Event
from agent.rule import listed
from agent.runs import Ended
from agent.seams import Sink
from agent.secret import Veil
from agent.settings import MODES
from agent.stop import HUNG_UP, INTERRUPTED, Stop
from agent.store import sessions, settingsfile
from agent.views.ask import TerminalAsk
from agent.views.attention import Attention
from agent.views.jsonl import harmless, jsonl
from agent.views.lines import Level
from agent.views.plain import Output, safe
from agent.views.result import result
from agent.views.terminal import Terminal
from agent.views.theme import THEMES

PLACES = {
    "": "work.headless",
    "plan": "work.plan",
    "run": "work.run",
    "resume": "work.resume",
    "undo": "undo.undo",
    "runs": "runs.run_commands",
    "show": "runs.show",
    "report": "report.report",
    "skills": "look.skill_commands",
    "sessions": "sessions.session_commands",
    "config": "config.config",
    "init": "init.init",
    "doctor": "doctor.doctor",
    "models": "models.models",
    "completion": "completion.completion",
    "help": "helping.help",
    "demo": "demo.demo",
}  # where each command stands; only that module is loaded
CHAT = "chat.chat"  # and with no command at a terminal; the line editor is for chats alone


Parse = Callable[[Sequence[str]], argparse.Namespace]


def front(words: Sequence[str], parse: Parse) -> int:
    """Do what was typed and return the exit code; whatever goes wrong is told here.

    A reader of our output that has gone (`ts … | head`) is no fault.
    """
    try:
        return done(words, parse)
    except BrokenPipeError:
        return 0
    finally:
        for stream in (sys.stdout, sys.stderr):
            flushed(stream)


def flushed(stream: TextIO | None) -> None:
    """Write what waits, or drop it where nobody reads it, so that the end has no word on it."""
    if stream is None or stream.closed:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def done(words: Sequence[str], parse: Parse) -> int:
    began = monotonic()
    form = _form(words)
    wished = INTERRUPTED

    def leave(code: int) -> bool:
        nonlocal wished
        wished = code
        raise KeyboardInterrupt

    try:
        with heard(leave):  # until the command hears signals itself, and afterwards
            typed = parse(words)
            enter(typed)
            place, _, name = place_of(typed).partition(".")
            command: Callable[[argparse.Namespace], int]
            command = getattr(import_module(f"agent.commands.{place}"), name)
            return command(typed)
    except AgentError as error:
        return told(error, form, began)
    except KeyboardInterrupt:
        return wished
    except BrokenPipeError:
        raise  # no fault of ours
    except Exception:  # noqa: BLE001 - the outermost wall: a fault of ours, told in one line
        return told(fault(), form, began)


def place_of(typed: argparse.Namespace) -> str:
    """Where what was typed is done: module and function."""
    chats = not typed.command and not typed.print and sys.stdin and sys.stdin.isatty()
    return CHAT if chats else PLACES[typed.command]


def _form(words: Sequence[str]) -> str:
    """The output format, read before the line is: errors in the line are told in it as well."""
    for word, after in pairwise([*words, ""]):
        if word == "--output-format":
            return after
        if word.startswith("--output-format="):
            return word.partition("=")[2]
    return "text"


def fault() -> FaultError:
    """The traceback in a file that only the user can read, and the line that names it."""
    kind, error, _ = sys.exc_info()
    with NamedTemporaryFile(
        "w", prefix="ts-fault-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
    ) as file:
        file.write(veil().text(traceback.format_exc()))
    name = kind.__name__ if kind else "error"
    return FaultError(f"a fault of ts itself: {name}: {error}", hint=f"details: {file.name}")


def veil() -> Veil:
    """What is known of the user's secrets where there is no App, or there may be none."""
    try:
        return Veil(settingsfile.own_secrets(Path.cwd()))
    except OSError:  # there is no such directory any more
        return Veil(settingsfile.own_secrets(settingsfile.home()))


def told(error: AgentError, form: str, began: float) -> int:
    """Tell an error that ended the command before there was an answer."""
    if form in {"json", "stream-json"}:
        taken = int((monotonic() - began) * 1000)
        try:
            made = result(code=error.exit_code, answer="", duration_ms=taken, error=error)
            print_json(veil().value(made))
        except BrokenPipeError:  # whoever hears of it, it has gone wrong
            pass
        except AgentError:  # nor can this
            say_error(error)
    else:
        say_error(error)
    return error.exit_code


def say_error(error: AgentError) -> None:
    hidden = veil()
    say(hidden.text(f"ts: {error}"))
    if error.hint:
        say(hidden.text(f"    {error.hint}"))


def say(text: str) -> None:
    """A line on stderr, with what a terminal must not get made visible."""
    out = output(sys.stderr)
    out.line(safe(text))


def answer(text: str) -> None:
    """A text on stdout. Raises AgentError."""
    out = output(sys.stdout)
    out.answer(text)
    if out.fault:
        raise unwritten(out.fault)


def print_json(value: Mapping[str, Any]) -> None:
    """JSON in a line on stdout. Raises AgentError, BrokenPipeError where its reader has gone."""
    if sys.stdout is None:  # closed
        return
    try:
        sys.stdout.buffer.write(harmless(msgspec.json.encode(value)) + b"\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritten(error) from error


def unwritten(error: OSError) -> AgentError:
    """What is told when a full disk, say, takes no more of the output."""
    return AgentError(f"the output can't be written: {error.strerror or error}")


# -- the parts of a command ---------------------------------------------------------------------


def flags(typed: argparse.Namespace) -> dict[str, Any]:
    """The settings that flags set, under their names in a settings file."""
    given: dict[str, Any] = {
        "model": typed.model,
        "fallback_model": typed.fallback_model,
        "effort": typed.effort,
        "max_workers": typed.max_workers,
        "max_turns": typed.max_turns,
        "max_budget_usd": typed.max_budget_usd,
        "max_tokens_total": typed.max_tokens_total,
        "timeout": typed.timeout,
        "stream_idle": typed.stream_idle,
        "append_system_prompt": typed.append_system_prompt,
        "permission_mode": MODES[typed.permission_mode] if typed.permission_mode else None,
        "plan": "always" if typed.plan else "never" if typed.no_plan else None,
        "skills": False if typed.no_skills else None,
        "reuse": True if typed.reuse else None,
        "add_dirs": tuple(map(added, typed.add_dir)) or None,
        "sandbox": typed.sandbox,
        "private": True if typed.private else None,
    }
    rules = {
        "allow": [rule for text in typed.allowed_tools for rule in listed(text)],
        "deny": [rule for text in typed.disallowed_tools for rule in listed(text)],
    }
    if any(rules.values()):
        given["permissions"] = rules
    return {name: value for name, value in given.items() if value is not None}


def enter(typed: argparse.Namespace) -> None:
    """Go where -C says, as `git -C` does: every path on the line is read from there."""
    if typed.cwd:
        if not Path(typed.cwd).is_dir():
            raise UsageError(f"-C {typed.cwd}: there is no such directory")
        try:
            os.chdir(typed.cwd)
        except OSError as error:
            raise UsageError(f"-C {typed.cwd}: {error.strerror}") from error


def added(directory: str) -> str:
    """A directory of --add-dir, absolute. Raises UsageError."""
    if not Path(directory).is_dir():
        raise UsageError(f"--add-dir {directory}: there is no such directory")
    return str(Path(directory).absolute())


def directory() -> Path:
    """Where to work, resolved. Raises UsageError."""
    try:
        return Path.cwd().resolve()
    except FileNotFoundError as error:
        raise UsageError("this directory has been removed", hint="go to another one") from error


class Screen:
    """What a headless command shows: progress on stderr, the answer or JSON on stdout."""

    def __init__(self, typed: argparse.Namespace) -> None:
        self.typed, self.began = typed, monotonic()
        self.sinks: list[Sink] = []
        self._terminal: Terminal | None = None
        self._attention: Attention | None = None
        if typed.output_format == "stream-json" and sys.stdout is not None:
            self.sinks.append(jsonl(sys.stdout.buffer, partial=typed.include_partial_messages))
        elif not typed.quiet:
            level: Level = "verbose" if typed.verbose else "normal"
            keys = sys.stdin if sys.stdin and sys.stdin.isatty() else None
            self._out, self._keys = output(sys.stderr), keys
            self._terminal = Terminal(self._out, level, keys=keys, prose=False)
            self._attention = Attention(self._out, Path.cwd().name)
            self.sinks += [self._terminal, self._attention]

    def recall(self, events: Iterable[Event]) -> None:
        """What a run's log tells, before it goes on."""
        if self._terminal:
            self._terminal.recall(events)

    def turn(self) -> AbstractContextManager[None]:
        """Inside, the model is at work on an answer: a terminal shows so."""
        return self._terminal.turn() if self._terminal else nullcontext()

    def listen(self, app: App) -> None:
        """Take what the user types while a run of `app` is under way."""
        self._heed(app)
        if self._terminal and self._keys and self._out.fancy:
            from agent.commands.live import HELP, Live

            terminal, live = self._terminal, Live(app, self._terminal)

            def heard(line: str) -> None:
                if line.strip() and not live.heard(line):
                    terminal.say(HELP.split("\n"))

            terminal.listen(heard)

    def people(self, stop: Stop) -> People:
        """Who can be asked: the user, where progress is shown at the terminal they type at."""
        if not (self._terminal and self._keys and self._out.tty):
            return NOBODY
        pause = self._terminal.paused
        if self._attention:
            pause = self._attention.asking(pause)
        asks = TerminalAsk(self._out, self._keys, stop=stop, pause=pause)
        return People(ask=asks, inquire=asks.inquire, choose=asks.choose)

    def _heed(self, app: App) -> None:
        """Call the user, and look, as the settings say."""
        if self._attention:
            self._attention.mode = app.settings.notify
            self._out.theme = app.settings.theme

    def close(self) -> None:
        if self._terminal:
            self._terminal.close()
        if self._attention:
            self._attention.close()

    def finish(self, app: App, ended: Ended, session: str | None = None) -> int:
        """Show how it has ended; the exit code, which is not 0 where the answer was lost."""
        self.close()
        self._heed(app)
        if self._attention:
            self._attention.call("done" if not ended.code else "it has ended")
        try:
            return self._finish(app, ended, session)
        except BrokenPipeError:  # it has ended as it has, whoever hears of it
            return ended.code
        except AgentError as error:
            say_error(error)
            return ended.code or error.exit_code

    def _finish(self, app: App, ended: Ended, session: str | None) -> int:
        if ended.code == ConsentError.exit_code and ended.error is None:
            ended = structs.replace(ended, error=refusal(app))
        if self.typed.output_format == "text":
            if ended.answer:
                answer(app.veil.spoken(ended.answer))
            if ended.error:
                say_error(ended.error)
            return ended.code
        tally = app.tally
        told = result(
            code=ended.code,
            answer=ended.answer,
            state=ended.state,
            run_id=ended.run,
            session_id=session,
            num_turns=tally.calls,
            duration_ms=int((monotonic() - self.began) * 1000),
            usage=tally.usage,
            cost_usd=tally.cost_usd,
            denials=tally.denials,
            error=ended.error,
        )
        print_json(app.veil.value(told))
        return ended.code


def as_json(typed: argparse.Namespace) -> bool:
    """Whether what is listed or shown is for a script."""
    return bool(typed.json or typed.output_format != "text")


def output(stream: TextIO | None) -> Output:
    """A stream as it can be written to, in the user's theme."""
    out = Output(stream, settingsfile.environment())
    if out.fancy and (name := settingsfile.theme(settingsfile.home())) in THEMES:
        out.theme = name
    return out


def refusal(app: App) -> ConsentError:
    """What was needed and nobody could be asked about, and the flag that would allow it."""
    denial = next(each for each in app.tally.denials if each.by in {"nobody", "sandbox"})
    what = denial.input.get("command") or denial.input.get("path") or ""
    others = len({each.rule for each in app.tally.denials}) - 1
    more = f", and {others} more" if others else ""
    if denial.by == "sandbox":
        return ConsentError(
            f"not allowed: {denial.tool} {what}{more}; there is no sandbox here",
            hint=f"{app.sandbox.found.why}; or say `--sandbox off`: commands then have your rights",
        )
    hint = "a rule under `permissions: {ask: …}` in the settings asks about it, in every mode"
    if denial.rule:
        hint = (
            f"--allowed-tools '{denial.rule}' allows this, --permission-mode accept-edits all "
            "edits in the working directory, --permission-mode auto everything"
        )
    return ConsentError(
        f"not allowed: {denial.tool} {what}{more}; there is nobody to ask",
        hint=hint,
    )


@contextmanager
def opened(
    typed: argparse.Namespace,
    sinks: Sequence[Sink] = (),
    cwd: Path | None = None,
    people: Callable[[Stop], People] = lambda stop: NOBODY,
) -> Iterator[App]:
    """The App of a command other than the chat, with its settings read and signals caught."""
    cwd = cwd or directory()
    asks = people(Stop())
    agreed = consent(cwd, flag=typed.trust, choose=asks.choose if asks.there else None)
    loaded = load(typed, cwd, agreed)
    stop = Stop(seconds=loaded.layered.settings.timeout)
    heard = [hearing(sink, stop) for sink in sinks]
    app = App(cwd, loaded, stop=stop, sinks=heard, people=people(stop), trusted=agreed.trusted)
    with signals(stop):
        try:
            for text in (*agreed.notices, *loaded.notices):
                app.notice(text)
            yield app
        finally:
            app.close()


def hearing(sink: Sink, stop: Stop) -> Sink:
    """The same sink; the work is stopped when its output can't be written or has no reader."""

    def heard(event: Event) -> None:
        try:
            sink(event)
        except BrokenPipeError:
            stop.set(HUNG_UP, "nobody reads the output any more")
        except OSError as error:
            stop.set(HUNG_UP, str(unwritten(error)))

    return heard


def load(
    typed: argparse.Namespace, cwd: Path, agreed: Consent | None = None
) -> settingsfile.Loaded:
    extra = Path(typed.settings) if typed.settings else None
    trusted = agreed is not None and agreed.trusted
    return settingsfile.load(cwd, flags=flags(typed), extra=extra, trusted=trusted)


def session_of(typed: argparse.Namespace, app: App) -> sessions.Session:
    """The conversation that was asked for: a new one, the newest, or one by its id."""
    if typed.resume:
        return sessions.load(app.cwd, typed.resume, fork=typed.fork_session)
    if typed.go_on or typed.resume == "":
        return sessions.newest(app.cwd, fork=typed.fork_session)
    return sessions.new(app.cwd)

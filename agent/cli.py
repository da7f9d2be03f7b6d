"""`ts`: the command line. What was typed is read here, and each command is a function of it.

Nothing heavy is loaded before it is needed: `ts --version` loads nothing but `sys`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from agent.commands import manual
from agent.version import __version__

if TYPE_CHECKING:
    import argparse


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line, do it, and return the exit code.

    stdout gets the answer and nothing else. What we know can go wrong is told in one line, with
    a hint; a fault of ours ends with exit 70, one line, and the place of its traceback.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"]):
        print(f"ts {__version__}")
        return 0
    if words[:2] == ["completion", "words"]:  # a shell asks, at each press of Tab
        from agent.commands.completion import complete

        return complete(words[2:])
    if argv is None:
        _leave_on_signals()
    from agent.commands.front import front  # late: see above

    code = front(words, parsed)
    if argv is not None:
        return code
    # All is closed and written. What the interpreter would still do is to take apart, module by
    # module, what was loaded: a quarter of a second with a model's library, after each Ctrl-C too.
    os._exit(code)


def _leave_on_signals() -> None:
    """Until commands hear signals, and once they have ended, a signal ends ts without a word."""
    import signal

    def leave(number: int, frame: object) -> None:
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, leave)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What was typed, with `command` and `words`; `ts COMMAND --help` is `ts help COMMAND`.

    Flags may stand before or after the command; what stands behind `--` is text. Raises
    UsageError.
    """
    parser = _parser()
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    typed, unknown = parser.parse_known_intermixed_args(words[:cut])
    if unknown:
        _no_flag(unknown[0].partition("=")[0])
    first = typed.words[0] if typed.words else ""
    typed.command = first if first in manual.COMMANDS or first in manual.LATER else ""
    if first == "help" and (typed.print or len(typed.words) + len(words[cut + 1 :]) > 2):
        typed.command = ""  # `ts help me mend the tests`
    if typed.help:
        typed.words = ["help", *typed.words[: bool(typed.command)]]
        typed.command = "help"
        cut = len(words)
    _mistyped(typed)
    typed.words = typed.words[bool(typed.command) :] + words[cut + 1 :]
    _later(typed)
    _out_of_place(typed)
    _words(typed)
    return typed


def _parser() -> argparse.ArgumentParser:
    import argparse

    from agent.errors import UsageError

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(message, hint="`ts --help` lists the flags")

    top = Parser(prog="ts", allow_abbrev=False, add_help=False)
    top.add_argument("words", nargs="*", metavar="PROMPT")
    top.add_argument("-h", "--help", action="store_true")
    top.add_argument("-V", "--version", action="version", version=f"ts {__version__}")
    for group in manual.FLAGS.values():
        for names, about in group:
            top.add_argument(*names.split(), **about)
    return top


def _no_flag(word: str) -> NoReturn:
    """Refuse a flag that there isn't, with the nearest one. Raises UsageError."""
    from difflib import get_close_matches

    from agent.errors import UsageError

    flags = [*(flag for group in manual.FLAGS.values() for flag, _ in group), "--version --help"]
    names = [name for flag in flags for name in flag.split()]
    near = get_close_matches(word, names, 1, 0.7)
    raise UsageError(
        f"there is no flag {word}" + (f"; did you mean {near[0]}?" if near else ""),
        hint="`ts --help` lists the flags; a text that begins with - stands behind --",
    )


def _mistyped(typed: argparse.Namespace) -> None:
    """Refuse what is a command with a slip of the finger: a model would take it for a task.
    `typed.words` are those that don't stand behind `--`. Raises UsageError."""
    from pathlib import Path

    first, *rest = typed.words or [""]
    if typed.command or typed.print or len(rest) > 1:
        return
    if rest and not (rest[0][:1].isdigit() or Path(rest[0]).exists()):
        return  # a task of two words, not a command and what it is for
    from difflib import get_close_matches

    from agent.errors import UsageError

    if near := get_close_matches(first, manual.COMMANDS, 1, 0.66 if rest else 0.75):
        raise UsageError(
            f"there is no command {first!r}; did you mean `ts {near[0]}`?",
            hint=f"as a task for the model: `ts -- {first} …`",
        )


def _later(typed: argparse.Namespace) -> None:
    """Refuse what asks for more than there is yet. Raises UsageError."""
    from agent.errors import UsageError

    if typed.command in manual.LATER:
        raise UsageError(
            f"`ts {typed.command}` ({manual.LATER[typed.command]}) is not in this version"
        )
    asked: list[tuple[bool, str, str]] = [
        (typed.isolation == "worktree", "--isolation worktree", "steps share the directory"),
        (typed.executor not in (None, "threads"), f"--executor {typed.executor}", "only threads"),
        (typed.mcp_config is not None, "--mcp-config", "MCP servers come later"),
    ]
    for wanted, flag, why in asked:
        if wanted:
            raise UsageError(
                f"{flag} does nothing in this version: {why}", hint="leave the flag out"
            )


def _out_of_place(typed: argparse.Namespace) -> None:
    """Refuse flags that would do nothing. Raises UsageError."""
    from agent.errors import UsageError

    only = {
        "--dry-run": typed.dry_run,
        "--output": typed.output,
        "--json": typed.json,
        "--mermaid": typed.mermaid,
        "--svg": typed.svg,
        "--open": typed.open,
        "--prune": typed.prune is not None,
        "--project": typed.project,
    }
    for flag, given in only.items():
        commands = [name for name, page in manual.PAGES.items() if flag in page.flags]
        if given and typed.command not in commands:
            raise UsageError(
                f"{flag} belongs to `ts {commands[0]}`",
                hint="`ts help COMMAND` lists the flags of one",
            )
    if typed.plan and typed.no_plan:
        raise UsageError("--plan and --no-plan can't both be meant")
    if typed.fork_session and not typed.go_on and typed.resume is None:
        raise UsageError("--fork-session needs -c or -r")


def _words(typed: argparse.Namespace) -> None:
    """Refuse words that would be passed over, and empty ones where a name belongs: whoever types
    `"$RUN"` and has none does not mean the newest. Raises UsageError."""
    from agent.errors import UsageError

    command, words = typed.command, typed.words
    if not command or command in {"plan", "demo"}:
        return
    named = {"run": 1, "config": 2}.get(command)  # behind them stand values
    if not all(word.strip() for word in words[:named]):
        raise UsageError(f"ts {command}: an empty word names nothing", hint="say which is meant")
    first = words[0] if words and words[0] in manual.PAGES[command].words else ""
    most = manual.most(command, first)
    if most is not None and len(words) - bool(first) > most:
        raise UsageError(
            f"ts {f'{command} {first}'.strip()} takes "
            f"{('no', 'one', 'at most two')[most]} word{'s'[: most != 1]} more",
            hint=f"a prompt that begins with {command!r} stands behind --",
        )


if __name__ == "__main__":
    raise SystemExit(main())

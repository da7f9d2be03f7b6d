"""`ts`: the command line. What was typed is read here, and each command is a function of it.

Nothing heavy is loaded before it is needed: `ts --version` loads nothing but `sys`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from agent.version import __version__

if TYPE_CHECKING:
    import argparse

COMMANDS = {
    "plan": "make a plan for a task and print it as YAML; nothing is run",
    "run": "run a plan file or a skill",
    "runs": "list the runs of this directory; `runs rm RUN…` deletes",
    "show": "tell the story of a run",
    "resume": "go on with an unfinished run",
    "undo": "take back what a run, or a step of it, has changed; `undo [RUN [STEP]]`",
    "skills": "list skills; `skills show NAME`, `check [FILE…]`, `new NAME`",
    "sessions": "list conversations; `sessions show ID`, `export ID FILE`, `rm ID…`",
    "config": "show each setting and where it came from",
    "doctor": "see whether all is there that ts needs, and how to mend it",
    "demo": "watch a plan run on a small sample project; needs no model",
}
LATER = {
    "report": "the HTML report of a run",
    "init": "writing an AGENTS.md",
    "mcp": "MCP servers",
    "completion": "completion for shells",
}  # named by the contract, not built yet: refused, so that nobody believes they worked
MOST_WORDS = {
    "resume": 1,
    "show": 1,
    "undo": 2,
    "runs list": 0,
    "skills list": 0,
    "skills show": 1,
    "skills new": 1,
    "sessions list": 0,
    "doctor": 0,
    "sessions show": 1,
    "sessions export": 2,
}  # fmt: skip - behind a command; of those that are not here, as many as one likes


FLAGS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "what to do": [
        ("-p --print", {"action": "store_true", "help": "do it, print the answer, exit"}),
        (
            "-c --continue",
            {"dest": "go_on", "action": "store_true", "help": "go on with the newest chat"},
        ),
        (
            "-r --resume",
            {
                "nargs": "?",
                "const": "",
                "metavar": "ID",
                "help": "go on with a chat: id, title or words of it",
            },
        ),
        ("--fork-session", {"action": "store_true", "help": "with -c or -r: as a new chat"}),
        ("-C --cwd", {"metavar": "DIR", "help": "work in this directory"}),
        (
            "--add-dir",
            {"action": "append", "default": [], "metavar": "DIR", "help": "may be written too"},
        ),
        ("--plan", {"action": "store_true", "help": "plan, whatever the size of the task"}),
        ("--no-plan", {"action": "store_true", "help": "don't plan"}),
        ("--no-skills", {"action": "store_true", "help": "no phrase starts a skill"}),
        ("--reuse", {"action": "store_true", "help": "what is unchanged is not done again"}),
        ("--dry-run", {"action": "store_true", "help": "run, undo: say what would be done"}),
        ("-o --output", {"metavar": "FILE", "help": "plan: write it to this file"}),
    ],
    "model": [
        ("--model", {"metavar": "SERVICE/NAME", "help": "anthropic/…, openai/…, script/FILE"}),
        ("--append-system-prompt", {"metavar": "TEXT", "help": "at the system prompt's end"}),
        ("--private", {"action": "store_true", "help": "nothing leaves this machine"}),
    ],
    "limits": [
        ("--max-workers", {"type": int, "metavar": "N", "help": "steps at once (4)"}),
        ("--max-turns", {"type": int, "metavar": "N", "help": "model calls of a conversation"}),
        ("--max-budget-usd", {"type": float, "metavar": "X", "help": "money for the whole"}),
        ("--max-tokens-total", {"type": int, "metavar": "N", "help": "tokens for the whole"}),
        ("--timeout", {"type": float, "metavar": "S", "help": "seconds for the whole"}),
        (
            "--stream-idle",
            {"type": float, "metavar": "S", "help": "seconds without a sign of a reply (60)"},
        ),
    ],
    "output": [
        (
            "--output-format",
            {"choices": ["text", "json", "stream-json"], "default": "text", "help": "with -p"},
        ),
        (
            "--include-partial-messages",
            {"action": "store_true", "help": "stream-json: text as it streams"},
        ),
        ("--json-schema", {"metavar": "FILE|JSON", "help": "the answer is JSON that fits"}),
        (
            "--json",
            {"action": "store_true", "help": "show, runs, sessions, config, doctor: as JSON"},
        ),
        (
            "--prune",
            {
                "type": int,
                "nargs": "?",
                "const": 30,
                "metavar": "DAYS",
                "help": "runs: delete those that are over and older (30)",
            },
        ),
        ("--mermaid", {"action": "store_true", "help": "show: the graph, for a README"}),
        ("-v --verbose", {"action": "store_true", "help": "more about each step"}),
        ("-q --quiet", {"action": "store_true", "help": "nothing on stderr but errors"}),
    ],
    "permissions": [
        (
            "-y --yes --dangerously-skip-permissions",
            {
                "action": "store_const",
                "const": "auto",
                "dest": "permission_mode",
                "help": "permission mode auto",
            },
        ),
        (
            "--allowed-tools --allowedTools",
            {
                "action": "append",
                "default": [],
                "metavar": "RULES",
                "help": "tool or tool(pattern): 'bash(npm test), edit_file(src/**)'",
            },
        ),
        (
            "--disallowed-tools --disallowedTools",
            {"action": "append", "default": [], "metavar": "RULES", "help": "never"},
        ),
        ("--trust", {"action": "store_true", "help": "the project's settings and skills count"}),
        (
            "--sandbox",
            {"choices": ["auto", "required", "off"], "help": "of commands: auto, where it works"},
        ),
        ("--isolation", {"choices": ["shared", "worktree"], "help": "shared: the only one yet"}),
        ("--executor", {"metavar": "threads", "help": "threads: the only one yet"}),
        ("--settings", {"metavar": "FILE", "help": "settings on top of the files'"}),
        ("--mcp-config", {"metavar": "FILE", "help": "MCP servers: not in this version"}),
    ],
}


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line, do it, and return the exit code.

    stdout gets the answer and nothing else. What we know can go wrong is told in one line, with
    a hint; a fault of ours ends with exit 70, one line, and the place of its traceback.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-V"]):
        print(f"ts {__version__}")
        return 0
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
    """What was typed, with `command` and `words`. Raises UsageError; ends the program for --help.

    Flags may stand before or after the command; what stands behind `--` is text.
    """
    parser = _parser()
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    typed, unknown = parser.parse_known_intermixed_args(words[:cut])
    if unknown:
        _no_flag(unknown[0].partition("=")[0])
    first = typed.words[0] if typed.words else ""
    typed.command = first if first in COMMANDS or first in LATER else ""
    _mistyped(typed)
    typed.words = typed.words[bool(typed.command) :] + words[cut + 1 :]
    _later(typed)
    _out_of_place(typed)
    _words(typed)
    return typed


def _parser() -> argparse.ArgumentParser:
    import argparse

    from agent.errors import UsageError
    from agent.settings import MODES

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(message, hint="`ts --help` lists the flags")

        def print_help(self, file: object = None) -> None:
            from agent.commands.front import answer

            answer(self.format_help().rstrip())  # whatever signs the terminal has

    top = Parser(
        prog="ts",
        usage="ts [FLAGS] [PROMPT]   or   ts [FLAGS] COMMAND [WORDS]",
        description="A coding agent that plans: a graph of verified steps, run in parallel.",
        epilog="commands:\n"
        + "\n".join(f"  {name:10} {what}" for name, what in COMMANDS.items())
        + "\n\nWithout a prompt, a chat. `/skill-name words` runs a skill. "
        "Exit codes: 0 done, 1 failed or partly done, 2 usage, 3 no model,\n4 a budget ran out, "
        "5 a permission was needed, 70 our fault, 75 the service failed, 124 --timeout, "
        "130 interrupted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("words", nargs="*", metavar="PROMPT", help=argparse.SUPPRESS)
    top.add_argument("-V", "--version", action="version", version=f"ts {__version__}")
    for title, group in FLAGS.items():
        section = top.add_argument_group(title)
        for names, about in group:
            section.add_argument(*names.split(), **about)
    section = top.add_argument_group("permission mode")
    section.add_argument(
        "--permission-mode", choices=list(MODES), metavar="MODE", help=", ".join(MODES)
    )
    return top


def _no_flag(word: str) -> NoReturn:
    """Refuse a flag that there isn't, with the nearest one. Raises UsageError."""
    from difflib import get_close_matches

    from agent.errors import UsageError

    names = [name for group in FLAGS.values() for names, _ in group for name in names.split()] + [
        "--permission-mode",
        "--version",
        "--help",
    ]
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

    if near := get_close_matches(first, COMMANDS, 1, 0.66 if rest else 0.75):
        raise UsageError(
            f"there is no command {first!r}; did you mean `ts {near[0]}`?",
            hint=f"as a task for the model: `ts -- {first} …`",
        )


def _later(typed: argparse.Namespace) -> None:
    """Refuse what asks for more than there is yet. Raises UsageError."""
    from agent.errors import UsageError

    if typed.command in LATER:
        raise UsageError(f"`ts {typed.command}` ({LATER[typed.command]}) is not in this version")
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

    places: list[tuple[Any, str, tuple[str, ...]]] = [
        (typed.dry_run, "--dry-run", ("run", "undo")),
        (typed.output, "-o", ("plan",)),
        (typed.json, "--json", ("show", "runs", "skills", "sessions", "config", "doctor")),
        (typed.mermaid, "--mermaid", ("show",)),
        (typed.prune is not None, "--prune", ("runs",)),
    ]
    for given, flag, commands in places:
        if given and typed.command not in commands:
            raise UsageError(f"{flag} belongs to `ts {commands[0]}`")
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
    if not all(word.strip() for word in words[: 1 if command == "run" else None]):
        raise UsageError(f"ts {command}: an empty word names nothing", hint="say which is meant")
    named = command if command in MOST_WORDS else " ".join([command, *words[:1]])
    most = MOST_WORDS.get(named)
    if most is not None and len(words) - named.count(" ") > most:
        raise UsageError(
            f"ts {named} takes {('no', 'one', 'at most two')[most]} word{'s'[: most != 1]} more",
            hint=f"a prompt that begins with {command!r} stands behind --",
        )


if __name__ == "__main__":
    raise SystemExit(main())

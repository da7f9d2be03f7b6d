"""What can be typed: every flag, and a page for each command. The parser, the help, the completion
of shells and their tests are made from it.

It is loaded whatever is typed, so it imports nothing that takes time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

# The names of agent.settings.MODES, which loads a library.
MODES = ["default", "accept-edits", "acceptEdits", "plan", "auto", "bypassPermissions"]

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
        ("--project", {"action": "store_true", "help": "config set, unset: the project's file"}),
        ("--dry-run", {"action": "store_true", "help": "run, undo: say what would be done"}),
        ("-o --output", {"metavar": "FILE", "help": "plan, report: write it to this file"}),
    ],
    "model": [
        ("--model", {"metavar": "SERVICE/NAME", "help": "anthropic/…, openai/…, script/FILE"}),
        (
            "--fallback-model",
            {"metavar": "SERVICE/NAME", "help": "asked instead where the model's service fails"},
        ),
        ("--effort", {"choices": ["low", "medium", "high"], "help": "how long a model may think"}),
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
            {"action": "store_true", "help": "what is listed or shown, as JSON"},
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
        ("--svg", {"action": "store_true", "help": "show: the graph as a picture"}),
        ("--open", {"action": "store_true", "help": "report: show it in the browser"}),
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
        (
            "--permission-mode",
            {
                "choices": MODES,
                "metavar": "MODE",
                "help": "default, accept-edits, plan, auto",
            },
        ),
        ("--isolation", {"choices": ["shared", "worktree"], "help": "shared: the only one yet"}),
        ("--executor", {"metavar": "threads", "help": "threads: the only one yet"}),
        ("--settings", {"metavar": "FILE", "help": "settings on top of the files'"}),
        ("--mcp-config", {"metavar": "FILE", "help": "MCP servers: not in this version"}),
    ],
}


class Page(NamedTuple):
    """What is told of a command. Flags stand under their first long name."""

    about: str  # a line
    usage: tuple[str, ...]
    # Kinds of the words behind it, by the first of them where that is one of a few ("" otherwise);
    # `*kind`: as many as one likes.
    words: dict[str, tuple[str, ...]]
    text: str = ""
    flags: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    exits: str = ""


MODEL = ("--model", "--fallback-model", "--effort", "--append-system-prompt", "--private")
LIMITS = (
    "--max-workers", "--max-turns", "--max-budget-usd", "--max-tokens-total", "--timeout",
    "--stream-idle",
)  # fmt: skip
RIGHTS = (
    "--yes", "--permission-mode", "--allowed-tools", "--disallowed-tools", "--trust", "--sandbox",
    "--add-dir",
)  # fmt: skip
SHOWN = ("--output-format", "--include-partial-messages", "--verbose", "--quiet")
WORK = (*MODEL, *LIMITS, *RIGHTS, *SHOWN)
EVERYWHERE = ("--cwd", "--settings")
RUN_EXITS = (
    "0 every step is done · 1 failed or partly done · 3 no model · 4 a budget ran out · "
    "5 a permission was needed · 75 the service failed for now · 124 --timeout · 130 interrupted"
)

PAGES: dict[str, Page] = {
    "plan": Page(
        about="make a plan for a task and print it as YAML; nothing is run",
        usage=("ts plan TASK",),
        text="The model looks at the project and gives a plan; `ts run FILE` runs it, as it is or "
        "as you have changed it.",
        flags=(
            "--output",
            *MODEL,
            "--max-budget-usd",
            "--max-tokens-total",
            "--timeout",
            "--trust",
        ),
        examples=(
            ('ts plan "move the settings to TOML" -o plan.yaml', "then: ts run plan.yaml"),
            ("ts plan", "asks at a terminal, or takes what is piped in"),
        ),
        exits="0 there is a plan · 1 the model gave none that can run · 3 no model",
        words={"": ("*text",)},
    ),
    "run": Page(
        about="run a plan file or a skill",
        usage=("ts run FILE|SKILL [ARGUMENTS…]",),
        text="A word that holds `/`, ends in .yaml or .yml or exists is a file; anything else is "
        "a skill.",
        flags=("--dry-run", "--reuse", *WORK),
        examples=(
            ("ts run plan.yaml --dry-run", "what would run at once, and what waits for what"),
            ("ts run check", "a skill that needs no model"),
            ("ts run fix-tests tests/unit -y", "only what destroys or publishes is asked about"),
        ),
        exits=RUN_EXITS,
        words={"": ("plan", "*file")},
    ),
    "runs": Page(
        about="list the runs of this directory; `runs rm RUN…` deletes",
        usage=("ts runs [list]", "ts runs rm RUN…", "ts runs --prune [DAYS]"),
        flags=("--json", "--prune"),
        examples=(("ts runs --prune 7", "delete those that are over and older than a week"),),
        words={"list": (), "rm": ("*run",)},
    ),
    "show": Page(
        about="tell the story of a run",
        usage=("ts show [RUN]",),
        text="Without RUN, of the newest. The beginning of its name is enough.",
        flags=("--json", "--mermaid", "--svg", "--verbose"),
        examples=(
            ("ts show --mermaid", "the graph, for a README or a pull request"),
            ("ts show --svg > run.svg", "the same as a picture, light and dark"),
        ),
        words={"": ("run",)},
    ),
    "report": Page(
        about="write a run as one HTML file: graph, time, steps, changes",
        usage=("ts report [RUN] [-o FILE] [--open]",),
        text="Without RUN, of the newest; without -o, to report-RUN.html. The file loads nothing "
        "and runs no script. Keys that can be told by their form are left out. An earlier report "
        "is replaced, no other file is.",
        flags=("--output", "--open", "--quiet"),
        examples=(("ts report --open", "write it and show it in the browser"),),
        words={"": ("run",)},
    ),
    "resume": Page(
        about="go on with an unfinished run",
        usage=("ts resume [RUN]",),
        text="What is done is not done again. Limits count for the run with all its resumptions.",
        flags=WORK,
        examples=(("ts resume --max-budget-usd 2", "2 dollars for the whole of it"),),
        exits=RUN_EXITS,
        words={"": ("run",)},
    ),
    "undo": Page(
        about="take back what a run, or a step of it, has changed; `undo [RUN [STEP]]`",
        usage=("ts undo [RUN [STEP]]",),
        text="Without RUN: the newest run, or turn of a chat, that still stands. It shows the "
        "files and asks. An undo can be undone.",
        flags=("--dry-run", "--verbose", "--yes", "--output-format"),
        examples=(("ts undo --dry-run -v", "the lines that would change; nothing is changed"),),
        exits="0 put back · 1 something was left as it is · 5 nobody could be asked",
        words={"": ("run", "step")},
    ),
    "skills": Page(
        about="list skills; `skills show NAME`, `check [FILE…]`, `new NAME`, `match WORDS`",
        usage=(
            "ts skills [list]",
            "ts skills show NAME",
            "ts skills check [FILE…]",
            "ts skills new NAME",
            "ts skills match WORDS…",
        ),
        text="A skill is a plan with a name: `/NAME` in a chat, `ts run NAME` without.",
        flags=("--json", "--trust"),
        examples=(("ts skills new release", "begins .agent/skills/release.yaml"),),
        exits="0 good · 1 `match` found none · 2 `check` found a fault",
        words={
            "list": (),
            "show": ("skill",),
            "check": ("*file",),
            "new": ("name",),
            "match": ("*word",),
        },
    ),
    "sessions": Page(
        about="list conversations; `sessions show ID`, `export ID FILE`, `rm ID…`",
        usage=(
            "ts sessions [list]",
            "ts sessions show [ID]",
            "ts sessions export ID [FILE]",
            "ts sessions rm ID…",
        ),
        text="An ID may be a title. Keys that can be told by their form are left out.",
        flags=("--json",),
        examples=(("ts sessions export 20261130 talk.html", "also .md and .jsonl"),),
        words={
            "list": (),
            "show": ("session",),
            "export": ("session", "file"),
            "rm": ("*session",),
        },
    ),
    "config": Page(
        about="show each setting and where it came from; `config get KEY`, `set KEY VALUE`",
        usage=(
            "ts config [KEY…]",
            "ts config get KEY",
            "ts config set KEY VALUE [--project]",
            "ts config unset KEY [--project]",
        ),
        words={
            "": ("*setting",),
            "get": ("setting",),
            "set": ("setting", "value"),
            "unset": ("setting",),
        },
        text="Settings are kept in ~/.config/tianshu/settings.yaml, or with --project in "
        ".agent/settings.yaml; comments and order stay. KEY may go one deeper: base_urls.ollama.",
        flags=("--json", "--project", "--trust"),
        examples=(
            ("ts config model", "this one, and where it came from"),
            ("ts config set model anthropic/claude-sonnet-5-5", "from now on"),
            ("ts config set permissions.allow '[bash(npm test)]' --project", "for a project"),
        ),
    ),
    "init": Page(
        about="write an AGENTS.md of what the project shows of itself; needs no model",
        usage=("ts init",),
        words={"": ()},
        text="What it is, its commands, its directories, its conventions. Where there are notes "
        "for agents already (AGENTS.md, CLAUDE.md, GEMINI.md), nothing is written, and what they "
        "don't speak of is printed. In a chat, `/init` has the model do it better.",
        examples=(("ts init", ""),),
    ),
    "doctor": Page(
        about="see whether all is there that ts needs, and how to mend it",
        usage=("ts doctor",),
        words={"": ()},
        text="Nothing leaves this machine for it, and no key is shown.",
        flags=("--json", "--model", "--sandbox", "--private", "--trust"),
        examples=(("ts doctor --model ollama/qwen3", "whether that one would answer"),),
        exits="0 ts can be used here · 3 no model · 1 something else is missing",
    ),
    "models": Page(
        about="list the models that a service has, with context and price where they are known",
        usage=("ts models [SERVICE]",),
        words={"": ("service",)},
        text="Without SERVICE: of all whose key or URL is set, and of servers on this machine. "
        "The services are asked; context and price are theirs, or else of the list that ts has.",
        flags=("--json", "--private", "--trust"),
        examples=(
            ("ts models anthropic", "what ANTHROPIC_API_KEY may ask"),
            ("ts models ollama --json", "a line of JSON for each"),
        ),
        exits="0 they are listed · 1 no list · 3 no key, or it was refused · 75 failed for now",
    ),
    "completion": Page(
        about="print what makes a shell complete `ts`: bash, zsh or fish",
        usage=("ts completion bash|zsh|fish",),
        text="It completes commands, flags, their choices, skills, runs and conversations.",
        examples=(
            ('eval "$(ts completion bash)"', "in ~/.bashrc; for zsh in ~/.zshrc, below compinit"),
            ("ts completion fish > ~/.config/fish/completions/ts.fish", "for fish"),
        ),
        words={"": ("shell",)},
    ),
    "demo": Page(
        about="watch a plan run on a small sample project; needs no model",
        usage=("ts demo",),
        words={"": ()},
        text="A recorded model answers, all else is real. With --model a live one does the same.",
        flags=("--model", "--max-workers", "--max-budget-usd", "--timeout", "--sandbox"),
        exits="0 the sample's own tests pass then",
    ),
    "help": Page(
        about="tell all of a command",
        usage=("ts help [COMMAND]", "ts COMMAND --help"),
        text="Without COMMAND: all commands and flags.",
        examples=(("ts help run", ""), ("ts help /compact", "what is typed in a chat")),
        words={"": ("command",)},
    ),
}
COMMANDS = {name: page.about for name, page in PAGES.items()}
LATER = {
    "mcp": "MCP servers",
}  # named by the contract, not built yet: refused, so that nobody believes they worked


def long(names: str) -> str:
    """The name under which pages list a flag: "-y --yes --dang…" is --yes."""
    return next(name for name in names.split() if name.startswith("--"))


def flags_of(command: str) -> list[tuple[str, dict[str, Any]]]:
    """The flags that a command's page lists, in the order of FLAGS."""
    listed = (*PAGES[command].flags, *EVERYWHERE)
    return [flag for group in FLAGS.values() for flag in group if long(flag[0]) in listed]


def most(command: str, first: str = "") -> int | None:
    """How many words a command takes, without `first`, its own next word; None: as many as one
    likes, or it says so itself."""
    words = PAGES[command].words
    kinds = words.get(first if first in words else "")
    return None if kinds is None or any(kind[0] == "*" for kind in kinds) else len(kinds)

"""`ts help`: all there is, or the page of a command, from the manual's table."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from agent.commands.front import answer, output
from agent.commands.manual import COMMANDS, FLAGS, LATER, PAGES, flags_of, long
from agent.errors import UsageError, near
from agent.views.plain import wrapped

NARROW = 60  # columns that a page is set in at least

OUTSET = """\
A coding agent that plans: a graph of verified steps, run in parallel.

usage: ts [FLAGS] [PROMPT]   or   ts [FLAGS] COMMAND [WORDS]

Without a prompt, a chat; -p answers one and ends. `/skill-name words` runs a skill."""
ENDING = """\
Exit codes: 0 done, 1 failed or partly done, 2 usage, 3 no model, 4 a budget ran out, 5 a \
permission was needed, 70 our fault, 75 the service failed, 124 --timeout, 130 interrupted."""


def help(typed: argparse.Namespace) -> int:
    """`ts help [COMMAND|/NAME]`, `ts COMMAND --help`"""
    out = output(sys.stdout)
    width = min(max(out.width, NARROW), 100)
    name = typed.words[0] if typed.words else ""
    if not name:
        told = overview(width)
    elif name in PAGES:
        told = page(name, width)
    elif name.startswith("/"):
        told = slashed(name, width)
    elif name in LATER:
        raise UsageError(f"`ts {name}` ({LATER[name]}) is not in this version")
    else:
        raise UsageError(
            f"there is no command {name!r}{near(name, [*COMMANDS])}",
            hint=f"`ts help` lists them; as a task for the model: `ts -- help {name}`",
        )
    answer("\n".join(row.rstrip() for row in told))
    return 0


def overview(width: int) -> Iterator[str]:
    yield from OUTSET.splitlines()
    yield ""
    yield "commands (`ts help COMMAND` tells all of one):"
    yield from pairs(list(COMMANDS.items()), width)
    for title, group in FLAGS.items():
        yield ""
        yield f"{title}:"
        yield from pairs([(spelled(names, about), about["help"]) for names, about in group], width)
    yield ""
    yield from pairs([("-h, --help", "this, or a command's page"), ("-V, --version", "")], width)
    yield ""
    yield from wrapped(ENDING, width)


def page(name: str, width: int) -> Iterator[str]:
    """All of one command."""
    told = PAGES[name]
    yield from wrapped(f"ts {name}: {told.about}", width)
    yield ""
    for number, usage in enumerate(told.usage):
        yield ("usage: " if not number else "       ") + usage
    if told.text:
        yield ""
        yield from wrapped(told.text, width)
    yield ""
    yield "flags:"
    flags = [(spelled(names, about), about["help"]) for names, about in flags_of(name)]
    yield from pairs(flags, width)
    if told.examples:
        yield ""
        yield "examples:"
        for example, about in told.examples:
            yield f"  {example}"
            yield from (f"      {row.rstrip()}" for row in wrapped(about, width - 6) if about)
    if told.exits:
        yield ""
        yield from wrapped(f"exit codes: {told.exits} · 2 usage", width)


def slashed(name: str, width: int) -> Iterator[str]:
    """What a name behind a slash does in a chat. Raises UsageError."""
    from agent.commands.slash import told

    yield from wrapped(told(name.removeprefix("/")), width)


def spelled(names: str, about: dict[str, Any]) -> str:
    """A flag as it is typed, without the names that others have for it: `-C, --cwd DIR`."""
    value = about.get("metavar") or "|".join(about.get("choices", ()))
    shown = [each for each in names.split() if each[1] != "-" or each == long(names)]
    value = f"[{value}]" if value and about.get("nargs") == "?" else value
    return ", ".join(shown) + (f" {value}" if value else "")


def pairs(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Two columns; a long first one has a line of its own."""
    left = 28 if any(each.startswith("-") for each, _ in rows) else 14
    for name, about in rows:
        told = wrapped(about, max(width - left - 2, 20))
        head = f"  {name}"
        if len(head) >= left:
            yield head
            head = ""
        yield f"{head:{left}}  {told[0]}".rstrip()
        yield from (f"{'':{left}}  {row}".rstrip() for row in told[1:])

"""A tool call in a line: what is asked for, and what came of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.event import ToolFinished
from agent.views.figures import counted
from agent.views.plain import one_line, safe

# The arguments that tell a call from others, most telling first.
TELLING = (
    "command", "path", "pattern", "query", "url", "name", "question", "note", "goal", "status",
    "directory", "file_glob", "arguments", "id", "summary",
)  # fmt: skip

SPAN = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
NOTE = re.compile(r"\[(?:exit code (\d+)(?: \(\w+\))?|[a-z][^\]]*)\]")  # ours, behind an output


def gist(name: str, input: Mapping[str, Any], width: int) -> str:
    """`read_file src/a.py:10-20`: a call in at most `width` columns.

    >>> gist("mcp__github__search", {"query": "bugs", "limit": 5}, 40)
    'github: search bugs'
    """
    if name.startswith("mcp__") and name.count("__") > 1:
        name = name.removeprefix("mcp__").replace("__", ": ", 1)
    return one_line(" ".join([name, *_words(input)]), width)


def _words(input: Mapping[str, Any]) -> Iterator[str]:
    for key in TELLING:
        value = input.get(key)
        if not isinstance(value, str | int) or value == "":
            continue
        text = str(value).strip()
        if "\n" in text:
            text = text.split("\n", 1)[0] + " …"
        yield text + (_lines(input) if key == "path" else "")
    for key, word in (("steps", "step"), ("edits", "edit"), ("todos", "item")):
        if isinstance(many := input.get(key), list):
            yield f"({counted(len(many), word)})"


def _lines(input: Mapping[str, Any]) -> str:
    first, last = input.get("start_line"), input.get("end_line")
    return f":{first or 1}-{last or ''}" if first or last else ""


def hint(event: ToolFinished, width: int) -> str:
    """What came of a call, in at most `width` columns; of a command, its last words."""
    if changed := diff(event.output):
        added = sum(row.startswith("+") for row in changed)
        return f"+{added} -{sum(row.startswith('-') for row in changed)}"
    lines = [line for line in event.output.split("\n") if line.strip()]
    if not event.ok:
        return one_line(event.output, width)
    if event.name in {"bash", "bash_output"} and lines:
        return one_line(_last_words(lines), width)
    return one_line(event.output, width) if len(lines) < 2 else counted(len(lines), "line")


def _last_words(lines: list[str]) -> str:
    """Of a command: its exit code, unless that is 0, and the last line that it printed."""
    said = [line for line in lines if not NOTE.fullmatch(line)]
    code = NOTE.fullmatch(lines[-1])
    failed = [lines[-1][1:-1]] if code and code[1] not in {None, "0"} else []
    return ": ".join([*failed, *said[-1:]]) or "no output"


def numbered(rows: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The rows of a diff with the numbers of their lines, each with the style of its kind.

    >>> list(numbered(["@@ -7,2 +7,2 @@", " a", "-b", "+c"]))
    [('dim', '    7  a'), ('red', '    8 -b'), ('green', '    8 +c')]
    """
    old = new = 0
    for n, row in enumerate(rows):
        if span := SPAN.match(row):
            old, new = int(span[1]), int(span[2])
            if n:
                yield "dim", "    …"
        elif row.startswith("-"):
            yield "red", f"{old:5} {row}"
            old += 1
        elif row.startswith("+"):
            yield "green", f"{new:5} {row}"
            new += 1
        elif row.startswith(" "):
            yield "dim", f"{new:5} {row}"
            old, new = old + 1, new + 1
        else:
            yield "dim", row


def diff(output: str) -> list[str]:
    """The lines of the unified diff that the output of an edit ends with, without its head.

    >>> diff("a.py: replaced 1\\n--- a.py\\n+++ a.py\\n@@ -1,1 +1,1 @@\\n-old\\n+new")
    ['@@ -1,1 +1,1 @@', '-old', '+new']
    """
    lines = output.split("\n")
    for n, line in enumerate(lines[:-1]):
        if line.startswith("--- ") and lines[n + 1].startswith("+++ "):
            rows = [safe(row) for row in lines[n + 2 :]]
            return [row for row in rows if row.startswith(("@@", "+", "-", " ", "…"))]
    return []

"""Searching files for a regular expression where ripgrep is not at hand: a program of its own.

It is run by its path, with the standard library alone: a program can be ended when an expression
like `(a+)+$` never comes back, a thread can't. It reads a line of JSON, the Query, and then the
names of the files, each ended by a NUL, and prints what `rg --json` prints, as far as search.py
reads that. An expression that is none ends it with code 2 and `error: …` on stderr.

Lines end in LF or CRLF and are matched one by one. A file with a NUL byte in it is binary and
passed over; UTF-16 with its mark is read.
"""

import base64
import codecs
import json
import os
import re
import resource
import stat
import sys
import warnings
from collections.abc import Iterator
from typing import TypedDict

BYTES = 20_000_000  # of a file that is searched; a longer one is left out and counted
CPU = 60  # seconds of work after which it ends itself, should nobody end it
PIECE = 100_000  # characters of a line that are printed
PLAIN = re.compile(r"[A-Za-z0-9_ ]+")
GROUPED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[^}]*\}|[()]|.", re.DOTALL)


class Query(TypedDict):
    pattern: str
    literal: bool
    ignore_case: bool
    context: int  # lines shown around a match
    once: bool  # one match a file is enough


def expression(query: Query) -> re.Pattern[str]:
    """Raises re.error for what is no regular expression of Python's, in its words."""
    text = re.escape(query["pattern"]) if query["literal"] else query["pattern"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a set inside a set, [[:alpha:]], would mean something else
        try:
            return re.compile(text, re.MULTILINE | (re.IGNORECASE if query["ignore_case"] else 0))
        except (Warning, OverflowError, RecursionError) as error:
            raise re.error(str(error)) from error


def needed(query: Query) -> bytes:
    """A piece of text that stands in every line that matches; b"" if none is certain.

    >>> query = Query(pattern="", literal=False, ignore_case=False, context=0, once=False)
    >>> needed(query | {"pattern": "def (a|b)?c+_of d*"}), needed(query | {"pattern": "if (x) go*"})
    (b'', b'if ')
    """
    pattern = query["pattern"]
    if query["ignore_case"]:
        return b""
    if query["literal"]:
        return pattern.encode("utf-8", "surrogateescape")
    if "|" in pattern or "(?" in pattern:
        return b""
    runs, depth = [""], 0
    for piece in GROUPED.findall(pattern):
        if piece in ("*", "?") or piece[0] == "{":
            runs[-1] = runs[-1][:-1]  # what stands before may be left out
        if piece in ("(", ")"):
            depth += 1 if piece == "(" else -1
        if depth == 0 and PLAIN.fullmatch(piece):
            runs[-1] += piece
        else:
            runs.append("")
    return max(runs, key=len).encode()


def read(name: str) -> bytes | None:
    """A file's text in UTF-8; None where there is none. Raises ValueError for one too long."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone, or not ours to read
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > BYTES:
            raise ValueError(name)
        data = os.read(file, BYTES)
    except OSError:
        return None
    finally:
        os.close(file)
    for mark, coding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            data = data[2:].decode(coding, "replace").encode()
    return None if b"\0" in data else data


def hits(text: str, wanted: re.Pattern[str], *, once: bool) -> dict[int, int]:
    """The lines that match, counted from 0, each with the place of its first match."""
    found: dict[int, int] = {}
    number = at = 0  # a line, and where it starts
    while at < len(text) and (match := wanted.search(text, at)):
        number += text.count("\n", at, match.start())
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.start())
        end = len(text) if end < 0 else end
        # What was found may reach into the next line: whether this one matches is asked anew.
        if start < len(text) and (inner := wanted.search(text[start:end])):
            found[number] = inner.start()
            if once:
                break
        number, at = number + 1, end + 1
    return found


def piece(text: str) -> dict[str, str]:
    """Text, or bytes that are none, as `rg --json` writes them."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode()}


def records(name: str, text: str, wanted: re.Pattern[str], query: Query) -> Iterator[str]:
    """The matching lines and those around them, in order, as `rg --json` prints them."""
    found = hits(text, wanted, once=query["once"])
    if not found:
        return
    lines = text.removesuffix("\n").split("\n")
    wide = query["context"]
    shown = {
        near for at in found for near in range(max(at - wide, 0), min(at + wide + 1, len(lines)))
    }
    path = piece(name)
    for at in sorted(shown):
        match = (
            [{"start": len(lines[at][: found[at]].encode("utf-8", "surrogateescape"))}]
            if at in found
            else []
        )
        data = {
            "path": path,
            "lines": piece(lines[at][:PIECE]),
            "line_number": at + 1,
            "submatches": match,
        }
        yield json.dumps({"type": "match" if match else "context", "data": data})


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    head, _, names = sys.stdin.buffer.read().partition(b"\n")
    query: Query = json.loads(head)
    try:
        wanted = expression(query)
    except re.error as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    needle = needed(query)
    searched = long = 0
    for name in names.split(b"\0")[:-1]:
        try:
            data = read(os.fsdecode(name))
        except ValueError:
            long += 1
            continue
        searched += 1
        if data is None or needle not in data:
            continue
        text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
        for record in records(os.fsdecode(name), text, wanted, query):
            sys.stdout.write(record + "\n")
        sys.stdout.flush()  # so that what was found stays found if the next file takes too long
    summary = {"stats": {"searches": searched}, "long": long}
    sys.stdout.write(json.dumps({"type": "summary", "data": summary}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

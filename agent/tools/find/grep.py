"""Lines of files that fit a pattern, in order and within bounds.

Both engines, ripgrep and our own (scan.py), print the same records, which are read here.
"""

import os
import sys
from base64 import b64decode
from collections.abc import Sequence

import msgspec
from msgspec import Struct, field

from agent.errors import ToolError
from agent.shell.place import secret
from agent.tool import Context
from agent.tools.child.program import Program, running
from agent.tools.file.text import visible
from agent.tools.find import scan
from agent.tools.find.glob import Glob
from agent.tools.find.walk import SECONDS, Place, command, named, names, ordered, ripgrep, target

LINE = 300  # characters of a line that are kept …
BEFORE = 100  # … of which so many may stand before the match
MOST = 5_000  # matches that are read before the search is begun anew, in order
FIRST = 1_000  # matches that are read then
LONGEST = 16_000_000  # bytes of one record


class Query(Struct, frozen=True, kw_only=True):
    """What is searched for."""

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    context: int = 0  # lines around a match
    once: bool = False  # one match a file is enough
    secrets: bool = False  # also in files that are secrets by their names


class Hit(Struct, frozen=True, kw_only=True):
    """A line that matches, or stands near one."""

    path: str  # from the base of the place
    number: int  # of the line, from 1; 0: not known
    text: str
    matches: bool
    cut: bool = False  # the line is longer than the text


class Found(Struct, frozen=True, kw_only=True):
    hits: list[Hit]  # in order
    searched: int | None = None  # files; None: not known
    long: int = 0  # files left out for their size
    more: bool = False  # there are more matches than were read
    late: bool = False  # the time was up first


class Text(Struct, frozen=True):
    """Text in a record of `rg --json`: base64 where it is no UTF-8."""

    text: str | None = None
    raw: str | None = field(name="bytes", default=None)

    @property
    def data(self) -> bytes:
        return b64decode(self.raw) if self.raw is not None else (self.text or "").encode()


class Match(Struct, frozen=True):
    start: int  # bytes


class Stats(Struct, frozen=True):
    searches: int


class Data(Struct, frozen=True):
    path: Text = Text()
    lines: Text = Text()
    line_number: int | None = None
    submatches: tuple[Match, ...] = ()
    stats: Stats | None = None
    long: int = 0


class Record(Struct, frozen=True):
    type: str
    data: Data


def search(
    context: Context,
    where: Place,
    query: Query,
    wanted: Glob | None = None,
    *,
    ignored: bool = False,
    seconds: float = SECONDS,
) -> Found:
    """Every line that matches, in order; of more than MOST only the first ones.

    Raises ToolError, with the reason, for a pattern that is no regular expression, and
    StoppedError when the work is stopped.
    """
    rg = ripgrep(context)
    if rg is None:
        return scanned(context, where, query, wanted, ignored=ignored, seconds=seconds)
    argv = command(rg, where, ignored=ignored, globs=[wanted] if wanted else [])
    argv += ["--json", "--crlf"]
    argv += ["--fixed-strings"] * query.literal + ["--ignore-case"] * query.ignore_case
    argv += ["--max-count=1"] * query.once + [f"--context={query.context}"]
    end = [f"--regexp={query.pattern}", *target(where)]

    def run(order: Sequence[str], most: int) -> Found:
        with running(
            [*argv, *order, *end], cwd=where.base, stop=context.stop, seconds=seconds
        ) as program:
            return read(program, where, query, wanted, most)

    found = run([], MOST)
    return run(["--sort=path"], FIRST) if found.more else found


def scanned(
    context: Context,
    where: Place,
    query: Query,
    wanted: Glob | None,
    *,
    ignored: bool,
    seconds: float,
) -> Found:
    """The same without ripgrep, by a Python of its own."""
    listing = names(context, where, ignored=ignored, wanted=wanted, seconds=seconds)
    argv = [sys.executable, "-I", "-S", scan.__file__]
    given = [
        msgspec.json.encode(query) + b"\n",
        *(os.fsencode(path) + b"\0" for path in listing.paths),
    ]
    with running(
        argv,
        cwd=where.base,
        stop=context.stop,
        seconds=seconds,
        input=b"".join(given),
        heir=context.heir,
    ) as program:
        found = read(program, where, query, wanted, MOST)
    return msgspec.structs.replace(found, late=True) if listing.cut else found


def read(program: Program, where: Place, query: Query, wanted: Glob | None, most: int) -> Found:
    """What a search prints, until `most` lines that match have come."""
    decode = msgspec.json.Decoder(Record).decode
    hits: list[Hit] = []
    path, counts, matches = "", True, 0
    last = Text()
    end = Data()
    for line in program.records(b"\n", longest=LONGEST):
        try:
            record = decode(line)
        except msgspec.DecodeError:  # a first piece of a record that is too long
            record = Record("match", Data(path=last, lines=Text("(a line of several megabytes)")))
        if record.data.path != last:
            last = record.data.path
            path = named(last.data)
            counts = wanted is None or wanted(where.inner(path)) or wanted(path)
            # Not even that there is a match is told: asked often enough, that tells all.
            counts = counts and (query.secrets or not secret(path))
        if record.type == "summary":
            end = record.data
        elif counts and record.type in ("match", "context"):
            matches += record.type == "match"
            if matches > most:
                break
            hits.append(hit(path, record))
    if program.code == 2 and "error: " in program.complaint:
        raise ToolError(refusal(query.pattern, program.complaint))
    if program.code not in (None, 0, 1, 2) and not program.late:
        raise ToolError(f"the search broke off (code {program.code}); search a smaller directory")
    return Found(
        hits=sorted(hits, key=lambda hit: (ordered(hit.path), hit.number)),
        searched=end.stats.searches if end.stats else None,
        long=end.long,
        more=matches > most,
        late=program.late,
    )


def hit(path: str, record: Record) -> Hit:
    """A record as a line to show, cut to a window around its first match."""
    line = record.data.lines.data.rstrip(b"\r\n")
    start = record.data.submatches[0].start if record.data.submatches else 0
    text = line.decode(errors="replace")
    cut = len(text) > LINE
    if cut:
        at = len(line[:start].decode(errors="replace"))
        first = max(0, min(at - BEFORE, len(text) - LINE))
        last = first + LINE
        text = "…" * (first > 0) + text[first:last] + "…" * (last < len(text))
    return Hit(
        path=path,
        number=record.data.line_number or 0,
        text=visible(text),
        matches=record.type == "match",
        cut=cut,
    )


def refusal(pattern: str, complaint: str) -> str:
    """Why a pattern is none, from what the engine says."""
    _, _, reason = complaint.partition("error: ")
    if "regex parse error" in complaint:
        reason = complaint.rpartition("\nerror: ")[2]
    reason = reason.partition("\n")[0] or complaint.strip().partition("\n")[0]
    return (
        f"{pattern} is no regular expression here: {reason}; "
        "literal=true searches for the text as it stands"
    )

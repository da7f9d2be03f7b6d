"""Tools that find files and what stands in them. Whatever a result leaves out is counted in it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from agent.errors import ToolError
from agent.permission import decide
from agent.settings import Rules
from agent.tool import Context, tool
from agent.tools.file.text import spelled, visible
from agent.tools.find.glob import glob
from agent.tools.find.grep import Found, Hit, Query, search
from agent.tools.find.scan import GROUPED
from agent.tools.find.walk import Place, names, place

BYTES = 30_000  # of a whole result …
LINES = 29_000  # … and of its lines without the remarks
ROOM = 4_000  # bytes of it for the names of files whose lines found none, and for remarks
FEW = 10  # lines of one file that are shown where not all can be
ROW = 12  # bytes of a line beside path and text, about
PATTERN = 10_000  # characters of a pattern
WIDEST = 20  # lines around a match
DEEP = 12  # folders below the one listed that may be shown in full
LEFT_OUT = "what .gitignore names was left out; ignored=true takes it in"


@tool(writes=False)
def list_files(
    context: Context, directory: str = ".", pattern: str | None = None, ignored: bool = False
) -> str:
    """List the files in a directory and below it. Hidden ones are listed; .git, links and what
    .gitignore names are not.

    directory: where; "."
    pattern: *.py (in any folder), src/**/*.{ts,tsx} (from directory), ./*.md (not below it)
    ignored: also what .gitignore names
    """
    where = place(context, directory)
    if where.alone:
        raise ToolError(f"{spelled(directory)} is a file, not a directory; read_file reads it")
    wanted = glob(relative(context, pattern)) if pattern else None
    listing = names(context, where, ignored=ignored, wanted=wanted)
    if wanted and not listing.paths:
        wanted = glob(f"{{**/{wanted.text},**/{wanted.text}/**}}".replace("//", "/"))
        listing = names(context, where, ignored=ignored, wanted=wanted)
    shown = [where.path(path) for path in listing.paths]
    count = f"{len(shown)} files" if len(shown) != 1 else "1 file"
    if not shown:
        what = f"no file fits {spelled(pattern)}" if pattern else "no files"
        return f"{what} in {spelled(directory)}" + ("" if ignored else f" ({LEFT_OUT})")
    if listing.cut:
        count = f"more than {count}; not all folders were seen"
    if size(shown) <= LINES:
        return "\n".join([*shown, f"({count})"])
    if wanted is None and (tree := folded(where, listing.paths, LINES)):
        return "\n".join([*tree, f"({count}; a folder with a number is not shown in full)"])
    few = fitting(shown, LINES)
    return "\n".join([*few, f"({count}, the first {len(few)} shown; narrow the pattern)"])


@tool(writes=False)
def grep_files(  # noqa: PLR0913 - each is an argument that a model may give
    here: Context,
    pattern: str,
    directory: str = ".",
    file_glob: str | None = None,
    ignore_case: bool = False,
    context: int = 0,
    literal: bool = False,
    files_only: bool = False,
    ignored: bool = False,
) -> str:
    r"""Search files for a regular expression of ripgrep's, line by line. Hidden files are searched;
    .git, links, binary files, secrets and what .gitignore names are not.

    pattern: the expression
    directory: a directory or a file; "."
    file_glob: only such files: *.py, src/**/*.{ts,tsx}
    ignore_case: upper and lower case are the same
    context: lines before and after each match
    literal: the pattern is plain text
    files_only: only the paths
    ignored: also what .gitignore names
    """
    where = place(here, directory)
    query = Query(
        pattern=usable(pattern, literal=literal),
        literal=literal,
        ignore_case=ignore_case,
        context=0 if files_only else min(max(context, 0), WIDEST),
        once=files_only,
        secrets=named(where.path(where.part) or ".", file_glob),
    )
    wanted = glob(relative(here, file_glob)) if file_glob else None
    found = search(here, where, query, wanted, ignored=ignored)
    if found.hits:
        return paths_of(where, found) if files_only else lines_of(where, found)
    notes = remarks(found)
    if found.searched == 0:
        notes.append(f"no file was searched: none fits {file_glob}" if wanted else "no files")
    if not (ignored or where.alone):
        notes.append(LEFT_OUT)
    said = f"no matches for {visible(pattern)} in {spelled(directory)}"
    return said + (f" ({'; '.join(notes)})" if notes else "")


def named(directory: str, file_glob: str | None) -> bool:
    """Whether a search is for secrets by what it names: the user has been asked about it then."""
    input = {"directory": directory, **({"file_glob": file_glob} if file_glob else {})}
    return decide("auto", Rules(), "grep_files", False, input).decision != "allow"


def relative(context: Context, pattern: str) -> str:
    """A pattern without the working directory, should it begin with that."""
    return pattern.removeprefix(f"{context.cwd}/")


def usable(pattern: str, *, literal: bool) -> str:
    """The pattern; raises ToolError for one that can match no line."""
    if not pattern:
        raise ToolError("the pattern is empty; list_files lists files")
    if len(pattern) > PATTERN:
        raise ToolError(f"the pattern is longer than {PATTERN} characters")
    if "\0" in pattern or visible(pattern) != pattern:
        raise ToolError("the pattern holds a NUL or half of a character, which no text has")
    if "\n" in pattern or (not literal and r"\n" in GROUPED.findall(pattern)):
        raise ToolError("a match stays within one line: search for a part without the line end")
    return pattern


def lines_of(where: Place, found: Found) -> str:
    """Each file's lines; where they are too many, a few of each and the names of the rest."""
    files = [list(hits) for _, hits in groupby(found.hits, key=lambda hit: hit.path)]
    notes = remarks(found)
    bytes = sum(len(hit.path) + len(hit.text) + ROW for hit in found.hits)
    most = FEW if bytes > BYTES - ROOM else None
    lines, left = list[str](), BYTES - ROOM
    for at, hits in enumerate(files):
        fresh = block(where, hits, most)
        left -= size(fresh)
        if left < 0:
            others = [f"{where.path(each[0].path)} ({matching(each)})" for each in files[at:]]
            few = fitting(others, ROOM // 2)
            lines += ["", "No room for the lines in:", *few]
            if len(few) < len(others):
                lines.append(f"and {len(others) - len(few)} more files")
            notes.append("narrow the pattern, the directory or file_glob to see all")
            break
        lines += fresh
    count = matching(found.hits)
    plural = "s" if count != 1 else ""
    total = f"{count} matching line{plural} in {len(files)} file{'s' if len(files) != 1 else ''}"
    return "\n".join([*lines, "(" + "; ".join([total, *notes]) + ")"])


def paths_of(where: Place, found: Found) -> str:
    """The files that have a match."""
    paths = [where.path(path) for path in dict.fromkeys(hit.path for hit in found.hits)]
    few = fitting(paths, BYTES - ROOM)
    total = f"{len(paths)} file{'s' if len(paths) != 1 else ''}"
    notes = remarks(found)
    if len(few) < len(paths):
        notes.append(f"the first {len(few)} shown")
    return "\n".join([*few, "(" + "; ".join([total, *notes]) + ")"])


def block(where: Place, hits: Sequence[Hit], most: int | None) -> list[str]:
    """The lines of one file, `most` matches of them."""
    path = where.path(hits[0].path)
    around = any(not hit.matches for hit in hits)
    lines, last, shown = list[str](), hits[0].number - 1, 0
    for hit in hits:
        if shown == most and hit.matches:
            lines.append(f"{path}: {matching(hits) - shown} more matching lines")
            break
        shown += hit.matches
        if around and hit.number > last + 1:
            lines.append("--")
        last = hit.number
        mark = ":" if hit.matches else "-"
        lines.append(f"{path}{mark}{hit.number or ''}{mark} {hit.text}")
    return [*lines, "--"] if around else lines


def remarks(found: Found) -> list[str]:
    """What a reader must know of a search that did not see or show everything."""
    notes = []
    if found.more:
        notes.append("the first ones; there are more")
    if found.late:
        notes.append("the time was up before all files were searched")
    if found.long:
        notes.append(f"{found.long} very large files were not searched")
    if any(hit.cut for hit in found.hits):
        notes.append("truncated: long lines are cut to a window around the match, marked …")
    return notes


def matching(hits: Iterable[Hit]) -> int:
    return sum(hit.matches for hit in hits)


def size(lines: Iterable[str]) -> int:
    """Bytes of the lines, with their ends."""
    return sum(len(line.encode()) + 1 for line in lines)


def fitting(lines: Sequence[str], most: int) -> Sequence[str]:
    """The first lines, of `most` bytes together."""
    for count, line in enumerate(lines):
        most -= size([line])
        if most < 0:
            return lines[:count]
    return lines


def folded(where: Place, paths: Sequence[str], most: int) -> list[str]:
    """The paths in `most` bytes: one line stands for each folder of a certain depth.

    Empty where even so there are too many.
    """
    start = f"{where.part}/" if where.part else ""
    split = [path.removeprefix(start).split("/") for path in paths]
    for depth in range(min(max(map(len, split)), DEEP), 0, -1):
        counts = Counter("/".join(parts[:depth]) + "/" * (len(parts) > depth) for parts in split)
        lines = [
            where.path(start + path) + (f" ({count} files)" if path.endswith("/") else "")
            for path, count in counts.items()
        ]
        if size(lines) <= most:
            return lines
    return []

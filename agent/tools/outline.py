"""Tools that show what code defines, and the outline of a project that stands in a prompt."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, structs

from agent.errors import ToolError
from agent.shell.place import secret
from agent.tool import Context, tool
from agent.tools.file.text import spelled
from agent.tools.find import parse, rank
from agent.tools.find.glob import glob
from agent.tools.find.grep import Query, search
from agent.tools.find.symbols import NOTES, Source, Symbol, sources
from agent.tools.find.walk import Place, names, ordered, place
from agent.tools.search import LINES, fitting, size

FILES = 400  # of a directory that an outline reads
CANDIDATES = 1_000  # files that a symbol is looked for in
SAMPLE = 1_000_000  # bytes of sources that a project's outline is made of
LARGE = 200_000  # bytes of one file that is left out of it: it is generated, most likely
LOOKING = 10.0  # seconds that reading files for a symbol may take
WALK, READ = 3.0, 6.0  # seconds that a project's outline may take to find and read its files
FEW = 100  # files that are all read for a symbol without guessing which come first
NAMED = 12  # names shown of a file that gets one line
QUALIFIED = re.compile(r"::|->|[.#/]")
DEFINED = (  # lines on which NAME looks defined, in any of the languages
    r"\b(class|def|fn|func|function|struct|union|enum|trait|interface|type|typedef|module|mod|"
    r"namespace|const|static|let|var|macro_rules!|define|record|delegate)\b.*\bNAME\b"
    r"|^\s*([\w\[\]<>,.*&:?~ \t]*[\s*&>\]:])?[~#]?NAME\s*([(<:={;,]|$)"
    r"|\.NAME\s*=|[{,]\s*(async\s+)?NAME\s*(:|\([^)]*\)\s*\{)"
)
CODE = glob("*.{" + ",".join(parse.LANGUAGES) + "}")


@tool(writes=False)
def get_outline(context: Context, path: str) -> str:
    """What a source file, or each in a directory, defines, with first and last lines. Python,
    JavaScript, TypeScript, Go, Rust, Java, C, C++, C#, Ruby, PHP."""
    where = place(context, path)
    if not where.alone:
        return directory_outline(context, where)
    source = sources(context.stop, [where.full])[0]
    shown = where.path(where.part)
    if source.note == "language":
        return f"{shown}: {NOTES['language']}; grep_files and read_file show what is in it"
    if source.note:
        return f"{shown}: no outline, {NOTES[source.note]}"
    head = f"{shown} ({source.language}, {source.lines} lines)"
    forms = [[line(each) for each in level] for level in levels(source)]
    lines = next((form for form in forms if size(form) <= LINES), forms[-1])
    if not lines:
        return f"{head}: nothing is defined in it"
    few = fitting(lines, LINES)
    left = len(forms[0]) - len(few)
    return "\n".join([head, *few, *([f"({left} smaller ones not shown)"] if left else [])])


def directory_outline(context: Context, where: Place) -> str:
    """What the files in a directory define, in the fullest form that fits."""
    listing = names(context, where, wanted=CODE)
    listing = structs.replace(listing, paths=[each for each in listing.paths if not secret(each)])
    paths = listing.paths[:FILES]
    if not paths:
        return f"{where.path(where.part) or '.'}: {NOTES['language']}s there; list_files shows them"
    found = sources(context.stop, [where.base / path for path in paths])
    notes = gave_up(where, paths, found)
    if len(listing.paths) > len(paths):
        notes.append(
            f"the first {len(paths)} of {len(listing.paths)} files; name a smaller directory"
        )
    forms = [
        [
            text
            for path, source in zip(paths, found, strict=True)
            if not source.note
            for text in (where.path(path), *(f"  {line(each)}" for each in levels(source)[level]))
        ]
        for level in range(3)
    ]
    forms.append(
        [flat(where, *each) for each in zip(paths, found, strict=True) if not each[1].note]
    )
    at = next((at for at, form in enumerate(forms) if size(form) <= LINES), -1)
    few = fitting(forms[at], LINES)
    if at:
        notes.insert(0, "shortened: get_outline of a file or a smaller directory shows more")
    if len(few) < len(forms[at]):
        notes.insert(0, f"{len(forms[at]) - len(few)} lines cut")
    return "\n".join([*few, *(f"({note})" for note in notes)])


@tool(writes=False)
def find_symbol(context: Context, name: str, directory: str = ".") -> str:
    """Where a function, class, method, type or constant is defined, in get_outline's languages.

    name: a name, or Class.method
    directory: where; "."
    """
    parts = [part for part in QUALIFIED.split(name.strip().removesuffix("()")) if part]
    if not parts or len(name) > 500 or "\n" in name or "\0" in name:
        raise ToolError("the name of a symbol is one word, or words joined by dots")
    where = place(context, directory)
    notes: list[str] = []
    looked = look(context, where, parts, exact=True)
    if not looked.hits:
        looked = look(context, where, parts, exact=False)
        notes += ["none in just these letters; these differ in case"] * bool(looked.hits)
    hits = sorted(looked.hits, key=lambda hit: (ordered(hit[0]), hit[1].line))
    lines = [described(where, path, symbol) for path, symbol in hits]
    few = fitting(lines, LINES)
    if len(few) < len(lines):
        notes.append(f"{len(lines)} definitions, the first {len(few)} shown")
    if not lines:
        few = [f"no definition of {spelled(name)} in {spelled(directory)}"]
        if looked.words:
            files = f"{looked.words} file{'s' * (looked.words != 1)}"
            notes.append(f"the word stands in {files}; grep_files shows where")
    return "\n".join([*few, *(f"({note})" for note in notes + looked.notes)])


class Looked(Struct, frozen=True, kw_only=True):
    """What came of looking for a symbol."""

    hits: list[tuple[str, Symbol]]
    words: int  # files that have the word
    notes: list[str]


def look(context: Context, where: Place, parts: Sequence[str], *, exact: bool) -> Looked:
    """The definitions that `parts` names; `exact`: the case counts."""
    holding, more = holders(context, where, parts, exact=exact)
    likely = holding
    if len(holding) > FEW:
        pattern = DEFINED.replace("NAME", re.escape(parts[-1]))
        those = set(files_with(context, where, pattern, exact=exact))
        likely = [path for path in holding if path in those]
    looked = Looked(hits=[], words=len(holding), notes=[])
    for paths in (likely, [path for path in holding if path not in likely]):
        if looked.hits or not paths:
            continue
        found = sources(context.stop, [where.base / path for path in paths], seconds=LOOKING)
        notes = looked.notes + gave_up(where, paths, found)
        hits = [
            (path, symbol)
            for path, source in zip(paths, found, strict=True)
            for symbol in source.definitions
            if means(symbol, path, parts, exact=exact)
        ]
        looked = Looked(hits=hits, words=len(holding), notes=notes)
    if more:
        looked.notes.append("not all files with that word were read; name a smaller directory")
    return looked


def project_outline(context: Context, budget: int) -> str:
    """The definitions of a project that the rest of it leans on, in `budget` characters.

    The same text for the same files. "" where there is no code that can be read. Takes a second
    or two, in programs of its own; a large project is judged by some of its files. Raises
    StoppedError when the work is stopped.
    """
    with suppress(ToolError):
        where = place(context, ".")
        listing = names(context, where, wanted=CODE, seconds=WALK)
        paths = sample(where, [path for path in listing.paths if not secret(path)])
        found = sources(
            context.stop, [where.base / path for path in paths], words=True, seconds=READ
        )
        read = {
            where.path(path): source
            for path, source in zip(paths, found, strict=True)
            if source.definitions
        }
        return rank.outline(read, budget)
    return ""


def sample(where: Place, paths: Sequence[str]) -> list[str]:
    """Files that stand for a project: those near its root, tests last, up to SAMPLE bytes."""
    chosen, left = list[str](), SAMPLE
    for path in sorted(paths, key=lambda path: (rank.testing(path), path.count("/"), path)):
        with suppress(OSError):
            bytes = (where.base / path).stat(follow_symlinks=False).st_size
            if bytes > LARGE:
                continue
            left -= bytes
            if left < 0 or len(chosen) == FILES:
                break
            chosen.append(path)
    return sorted(chosen)


def holders(
    context: Context, where: Place, parts: Sequence[str], *, exact: bool
) -> tuple[list[str], bool]:
    """Sources that hold the name and the one before it; and whether there are more of them."""
    if where.alone:
        return [] if secret(where.part) else [where.part], False
    *_, before, name = ["", *parts]
    holding = files_with(context, where, whole(name), exact=exact)
    if before and len(holding) > 1:
        both = set(files_with(context, where, whole(before), exact=exact))
        folded = before.casefold()
        holding = [
            path
            for path in holding
            if path in both or folded in path.casefold().replace(".", "/").split("/")
        ]
    return holding[:CANDIDATES], len(holding) >= CANDIDATES


def files_with(context: Context, where: Place, pattern: str, *, exact: bool) -> list[str]:
    """Sources with a line that matches."""
    query = Query(pattern=pattern, ignore_case=not exact, once=True)
    return [hit.path for hit in search(context, where, query, CODE).hits]


def whole(name: str) -> str:
    """The expression of a name that is no part of another."""
    word = re.escape(name)
    return rf"(^|[^\w$]){word}($|[^\w$])" if re.fullmatch(r"[\w$]+", name) else word


def means(symbol: Symbol, path: str, parts: Sequence[str], *, exact: bool) -> bool:
    """Whether a definition is the one that was asked for: its name, and before it the names of
    what it stands in, of which the file and its folders may be some."""
    if symbol.kind == "in.impl":
        return False
    home = Path(path).with_suffix("").parts
    full = [*home, *filter(None, symbol.owner.split(".")), symbol.name.lstrip("#")]
    last = full[-len(parts) :]
    if exact:
        return last == list(parts)
    return [each.casefold() for each in last] == [each.casefold() for each in parts]


def described(where: Place, path: str, symbol: Symbol) -> str:
    return f"{where.path(path)}:{lines_of(symbol)}: {symbol.kind} {symbol.full}, {symbol.signature}"


def lines_of(symbol: Symbol) -> str:
    return f"{symbol.line}-{symbol.end}" if symbol.end > symbol.line else str(symbol.line)


def line(symbol: Symbol) -> str:
    return f"{lines_of(symbol)}: {'  ' * symbol.depth}{symbol.signature}"


def levels(source: Source) -> list[list[Symbol]]:
    """The definitions of a source in three lengths: all, without what stands in functions, and
    only those at the top."""
    shown = [
        each
        for each in source.definitions
        if each.kind != "variable" or each.name[:1].isupper()  # a constant or a type, by its name
    ]
    functions = {each.full for each in shown if each.kind in parse.CALLABLE}
    outer = [each for each in shown if each.owner not in functions]
    return [shown, outer, [each for each in shown if not each.depth]]


def flat(where: Place, path: str, source: Source) -> str:
    """A file and the names at its top, on one line."""
    tops = [each.name for each in levels(source)[2]]
    return f"{where.path(path)}: {', '.join(tops[:NAMED])}" + ("…" if len(tops) > NAMED else "")


def gave_up(where: Place, paths: Sequence[str], found: Sequence[Source]) -> list[str]:
    """Notes on the files that were not read. One that is gone is no matter."""
    notes = []
    for note in ("size", "broke", "late", "text"):
        these = [path for path, source in zip(paths, found, strict=True) if source.note == note]
        if these:
            few = ", ".join(where.path(path) for path in these[:3])
            more = f" and {len(these) - 3} more files" if len(these) > 3 else ""
            notes.append(f"not read: {few}{more}: {NOTES[note]}")
    return notes

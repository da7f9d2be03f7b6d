"""What files define, read by tree-sitter: a program of its own.

It is run by its path. It reads one line of JSON, an Order, and prints one line of JSON a file, in
order: a Parsed. A program of its own because a grammar can take all memory or never come back
(`a<a<a<…` does both in Java's and C#'s), and because parsing keeps the interpreter's lock: then
this program ends, and whoever reads it knows from the lines that came which file it was.

What a definition is stands in `queries`: there the captures other than `@name` are the kinds.
What has an `@owner` belongs to what that names (Go's receivers). A kind that begins with `in.` is
no definition, but what stands within belongs to its name (Rust's `impl`).
"""

import codecs
import json
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

BYTES = 1_000_000  # of a file that is parsed
CPU = 2.0  # seconds of work that one file may take
MEMORY = 512 << 20  # bytes of address space
SIGNATURE = 160  # characters
DEFINITIONS = 20_000  # in one file

LANGUAGES = {
    "c": "c",
    "h": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "cxx": "cpp",
    "c++": "cpp",
    "hh": "cpp",
    "hpp": "cpp",
    "hxx": "cpp",
    "inl": "cpp",
    "cs": "c_sharp",
    "go": "go",
    "java": "java",
    "js": "javascript",
    "cjs": "javascript",
    "mjs": "javascript",
    "jsx": "javascript",
    "php": "php",
    "phtml": "php",
    "py": "python",
    "pyi": "python",
    "pyw": "python",
    "rb": "ruby",
    "rake": "ruby",
    "gemspec": "ruby",
    "rs": "rust",
    "ts": "typescript",
    "cts": "typescript",
    "mts": "typescript",
    "tsx": "tsx",
}
"""The language of a file's ending."""

SHEBANGS = {"python": "python", "node": "javascript", "ruby": "ruby", "php": "php"}

QUERIES = {
    "cpp": ("c", "cpp"),
    "javascript": ("script", "javascript"),
    "tsx": ("script", "typescript"),
    "typescript": ("script", "typescript"),
}
"""The files in `queries` for a language, where it is not the one of its name."""

DECORATIONS = {"decorator", "annotation", "marker_annotation", "attribute_list"}
BODIES = ("body", "accessors", "value", "right")
CALLABLE = {"function", "method", "property"}
SETS_SCOPE = {"class", "struct", "union", "interface", "trait", "enum", "in.impl"}
RUBY = {"method", "singleton_method", "class", "module"}  # have no mark before an empty body
LOCAL = {"declaration", "variable"}  # are worth nothing inside a function
CPP = re.compile(rb"^\s*(class|namespace|template|using)\b", re.MULTILINE)
USE = re.compile(rb"(?:([A-Za-z_$][\w$]*)?(\.|->|::))?\b([A-Za-z_$][\w$]{2,})(\s?\()?")
_SLASHES = rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/'
_QUOTES = rb"'(?:[^'\\\n]|\\.)*'"
_HASHES = rb'"""[^"]*(?:"{1,2}[^"]+)*"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*'
PROSE = {  # strings and comments, roughly
    "python": re.compile(_HASHES + b"|" + _QUOTES, re.DOTALL),
    "ruby": re.compile(_HASHES + b"|" + _QUOTES, re.DOTALL),
    "php": re.compile(_SLASHES + b"|#[^\n]*|" + _QUOTES, re.DOTALL),
    "javascript": re.compile(_SLASHES + b"|" + _QUOTES, re.DOTALL),
    "typescript": re.compile(_SLASHES + b"|" + _QUOTES, re.DOTALL),
    "tsx": re.compile(_SLASHES + b"|" + _QUOTES, re.DOTALL),
}
OTHER = re.compile(_SLASHES, re.DOTALL)
NAME = re.compile(r"[\w$]+")
ROUGH = re.compile(  # a line that begins a definition in most of the languages
    rb"(\s*)(?:(?:export|default|pub|async|static|abstract|public|private|protected|final)\s+)*"
    rb"(class|def|fn|func|function|struct|enum|trait|interface|module)\s+([\w$]+)"
    rb"\s*(?=[(<:{\[]|extends\b|implements\b)"
)


class Order(TypedDict):
    path: list[str]  # where Python finds tree-sitter
    files: list[str]
    words: bool  # whether the names that a file uses are wanted


class Definition(TypedDict):
    kind: str
    owner: str  # the names it stands in, with dots; "" at the top
    name: str
    line: int  # from 1
    end: int  # its last line
    depth: int  # how many definitions it stands in
    signature: str


class Parsed(TypedDict, total=False):
    note: str  # why there is nothing: "language", "gone", "size", "text"
    language: str
    lines: int
    definitions: list[Definition]
    words: str  # what `uses` says


class Grammar:
    """A language: its parser's tables and what its definitions look like."""

    def __init__(self, name: str) -> None:
        from importlib import import_module

        from tree_sitter import Language

        module = import_module(f"tree_sitter_{'typescript' if name == 'tsx' else name}")
        made = {"tsx": "language_tsx", "typescript": "language_typescript", "php": "language_php"}
        self.language = Language(getattr(module, made.get(name, "language"))())
        folder = Path(__file__).parent / "queries"
        files = [folder / f"{each}.scm" for each in QUERIES.get(name, (name,))]
        self.query = query(self.language, "".join(file.read_text("utf-8") for file in files))


def query(language: "Language", text: str) -> "Query":
    """The query, without the patterns that this version of the grammar does not know."""
    from tree_sitter import Query, QueryError

    def known(pattern: str) -> bool:
        try:
            Query(language, pattern)
        except QueryError:
            return False
        return True

    try:
        return Query(language, text)
    except QueryError:
        return Query(language, "\n".join(filter(known, re.split(r"\n(?=\()", text.strip()))))


def language_of(name: str, data: bytes) -> str:
    """The language of a file; "" for one that is not known here."""
    ending = Path(name).suffix.lower().removeprefix(".")
    found = LANGUAGES.get(ending, "")
    if ending == "h" and CPP.search(data):
        return "cpp"
    if not found and data.startswith(b"#!"):
        line = data[:200].split(b"\n")[0].decode("ascii", "replace")
        found = next((name for word, name in SHEBANGS.items() if word in line), "")
    return found


def read(name: str) -> bytes | str:
    """A file's bytes, in UTF-8; or the note that says why not."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return "gone"
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return "gone"
        if status.st_size > BYTES:
            return "size"
        data = os.read(file, BYTES)
    except OSError:
        return "gone"
    finally:
        os.close(file)
    for mark, coding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            data = data[2:].decode(coding, "replace").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    return "text" if b"\0" in data else data


class Found(NamedTuple):
    """A definition as it stands in the bytes of a file."""

    start: int
    end: int
    kind: str
    owners: list[str]  # beside those it stands in
    name: str
    line: int  # from 0
    last: int
    signature: str


def definitions(data: bytes, grammar: Grammar) -> list[Definition]:
    """What a source defines, in order. Never recurses: a tree may be as deep as it is long."""
    from tree_sitter import Parser, QueryCursor

    tree = Parser(grammar.language).parse(data)
    best: dict[int, tuple[int, str, dict[str, list[Node]]]] = {}
    for pattern, captures in QueryCursor(grammar.query).matches(tree.root_node):
        at = captures["name"][0].start_byte
        if at not in best or pattern < best[at][0]:
            kind = next(key for key in captures if key not in ("name", "owner"))
            best[at] = pattern, kind, captures
    found = [definition(data, kind, captures) for _, kind, captures in best.values()]
    if tree.root_node.has_error:
        found += guessed(data, {each.line for each in found})
    found = [each for each in found if each.name]
    return list(nested(sorted(found, key=lambda each: (each.start, -each.end))[:DEFINITIONS]))


def definition(data: bytes, kind: str, captures: dict[str, list["Node"]]) -> Found:
    """What a match of the query has found; without a name where the parser made that up."""
    node = captures[kind][0]
    *owners, name = names(data, captures["name"][0], one=kind == "in.impl")
    if "owner" in captures:
        owners = [*filter(None, names(data, captures["owner"][0], one=True)), *owners]
    first = beginning(node)
    line, last = first.start_point.row, node.end_point.row - (node.end_point.column == 0)
    head = signature(data, node, first, kind)
    return Found(*node.byte_range, kind, owners, name, line, max(line, last), head)


def guessed(data: bytes, known: Container[int]) -> Iterator[Found]:
    """What looks like a definition on other lines than `known`: what a parser could make nothing
    of, one bracket that is not closed may be the reason, is told by its first words. It reaches
    as far as the lines that stand further in."""
    lines = data.split(b"\n")
    start = 0
    for at, line in enumerate(lines):
        if at not in known and (match := ROUGH.match(line)):
            deep, last, end = len(match[1]), at, start + len(line)
            reached = end
            for number, inner in enumerate(lines[at + 1 :], at + 1):
                if inner.strip() and len(inner) - len(inner.lstrip()) <= deep:
                    break
                reached += 1 + len(inner)
                if inner.strip():
                    last, end = number, reached
            word, name = match[2].decode(), match[3].decode("utf-8", "replace")
            head = " ".join(line.decode("utf-8", "replace").split()).rstrip("{:")
            kind = "function" if word in ("def", "fn", "func", "function") else word
            yield Found(start + deep, end, kind, [], name, at, last, head[:SIGNATURE].rstrip())
        start += len(line) + 1


def nested(found: Sequence[Found]) -> Iterator[Definition]:
    """The definitions, each with what it stands in."""
    above: list[Found] = []
    for each in found:
        while above and (above[-1].end <= each.start or above[-1][:2] == each[:2]):
            above.pop()
        around = above[-1].kind if above else ""
        if each.kind in LOCAL and around in CALLABLE:
            continue
        method = each.kind == "function" and (around in SETS_SCOPE or each.owners)
        yield Definition(
            kind="method" if method else each.kind,
            owner=".".join([*(outer.name for outer in above), *each.owners]),
            name=each.name,
            line=each.line + 1,
            end=each.last + 1,
            depth=len(above),
            signature=each.signature,
        )
        above.append(each)


def names(data: bytes, node: "Node", *, one: bool) -> list[str]:
    """The parts of a name: `A::b` has two. `one`: only its last word, of a type its own name."""
    text = data[node.start_byte : node.end_byte][:SIGNATURE].decode("utf-8", "replace")
    if one:
        plain = re.sub(r"<.*|\[.*|\.prototype$", "", text.strip("*& "), flags=re.DOTALL)
        words = [word for word in NAME.findall(plain) if word not in ("this", "exports", "module")]
        return words[-1:] or [""]
    if text.startswith(("(", "*", "&")):
        return [""]
    text = " ".join(text.split())
    parts = [text] if "operator" in text else [part for part in text.split("::") if part]
    return parts or [""]


def beginning(node: "Node") -> "Node":
    """Where a definition begins, after its decorators and annotations."""
    for child in node.children:
        if child.type == "modifiers":
            for inner in child.children:
                if inner.type not in DECORATIONS:
                    return inner
        elif child.type not in DECORATIONS:
            return child
    return node


def signature(data: bytes, node: "Node", first: "Node", kind: str) -> str:
    """A definition's head on one line."""
    end = node.end_byte
    for field in BODIES:
        if body := node.child_by_field_name(field):
            if field in ("value", "right"):
                inner = body.child_by_field_name("body")
                end = inner.start_byte if inner and kind in CALLABLE else end
            else:
                end = body.start_byte
            break
    text = data[first.start_byte : end][: SIGNATURE * 8].decode("utf-8", "replace")
    text = re.sub(r"\s(#|//)\s[^\n]*\s*$", "", text)
    if kind not in CALLABLE | {"type"}:
        text = text.partition("{")[0]
    if kind in ("variable", "macro") or (end == node.end_byte and node.type in RUBY):
        text = re.split("[\n;]", text, maxsplit=1)[0]
    text = " ".join(text.split()).replace("( ", "(").replace(", )", ")").replace(" )", ")")
    text = text.rstrip("{:;=").removesuffix("=>").rstrip()
    if node.type == "variable_declarator":
        before = data[max(node.start_byte - 20, 0) : node.start_byte]
        word = re.search(rb"(const|let|var)\s+$", before)
        text = f"{word[1].decode()} {text}" if word else text
    elif node.type == "type_spec":
        text = f"type {text}"
    return text if len(text) <= SIGNATURE else text[: SIGNATURE - 1] + "…"


def uses(code: bytes) -> str:
    """The names in some code: `x`, `x(` for a call, `.x` and `a.x` for a member of `a`."""
    found: set[bytes] = set()
    for base, member, name, call in set(USE.findall(code)):
        found.add(name)
        if member:
            found |= {b"." + name, base, base + b"." + name}
        elif call:
            found.add(name + b"(")
    return b" ".join(sorted(found)).decode("ascii", "replace")


def parsed(name: str, grammars: dict[str, Grammar], *, words: bool) -> Parsed:
    """What is in a file. `grammars` are kept from one file to the next."""
    data = read(name)
    if isinstance(data, str):
        return {"note": data}
    language = language_of(name, data)
    if not language:
        return {"note": "language"}
    if language not in grammars:
        grammars[language] = Grammar(language)
    done: Parsed = {
        "language": language,
        "lines": data.count(b"\n") + (not data.endswith(b"\n")),
        "definitions": definitions(data, grammars[language]),
    }
    if words:
        done["words"] = uses(PROSE.get(language, OTHER).sub(b" ", data))
    return done


def encoded(order: Order) -> bytes:
    """An order as `main` reads it; names of any bytes."""
    return json.dumps(order).encode("ascii")


def main() -> int:
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, MEMORY),
    ):
        try:
            resource.setrlimit(limit, (value, value))
        except (OSError, ValueError):  # a system that has no such limit, or a lower one
            continue
    order: Order = json.load(sys.stdin)
    sys.path[:] = order["path"]
    grammars: dict[str, Grammar] = {}
    for name in order["files"]:
        signal.setitimer(signal.ITIMER_PROF, CPU)  # SIGPROF ends the program
        result = parsed(name, grammars, words=order["words"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

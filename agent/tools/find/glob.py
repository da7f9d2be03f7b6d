"""File patterns: `*.py`, `src/**/*.ts`, `*.{c,h}`, `[a-z]?.txt`.

`*` and `?` match within a name, `**` any number of folders, `{a,b}` either. A pattern without a
slash is looked for in every folder; one with a slash counts from the directory that is searched,
`/x` and `./x` are the way to say so for a single name, `x/` means all that is in a folder. What a
pattern matches when its brackets are taken as they stand counts too: `[id].tsx` is a usual name.

The expression that a pattern becomes never goes back over what it has matched between two stars
(an atomic group: the first place where the next piece fits is as good as any later one), so the
time stays small for every pattern and name.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from agent.errors import ToolError

LONGEST = 1000  # characters of a pattern
CHOICES = 64  # patterns that braces may stand for
STARS = "**"
PIECE = re.compile(r"\\.|\[[!^]?(?:\][^\]/]*|[^\]/]+)\]|\*+|\?|.", re.DOTALL)


class Glob(Struct, frozen=True, kw_only=True):
    """A file pattern, ready to match paths that are written from the directory searched."""

    text: str
    expression: re.Pattern[str]
    names: tuple[
        str, ...
    ]  # patterns of ripgrep's, one of which every match's last part fits; (): all

    def __call__(self, path: str) -> bool:
        return self.expression.match(path) is not None


def glob(text: str) -> Glob:
    """Raises ToolError, in words for the model, for what is no pattern."""
    if len(text) > LONGEST:
        raise ToolError(f"the file pattern is longer than {LONGEST} characters")
    choices = braced(text)
    if len(choices) > CHOICES:
        raise ToolError(f"the braces of {text!r} stand for more than {CHOICES} patterns")
    expressions, names = [], list[str]()
    for choice in choices:
        parts = [part for part in choice.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ToolError(f"{text!r}: a pattern can't lead out of the directory; set `directory`")
        if "/" not in choice.rstrip("/"):
            parts = [STARS, *parts]
        if not parts or choice.endswith("/"):
            parts = [*parts, STARS]
        expressions.append(path_expression(parts))
        names += last_names(parts)
    return Glob(
        text=text,
        expression=re.compile("|".join(expressions), re.DOTALL),
        names=tuple(names) if all(names) else (),
    )


def braced(text: str) -> list[str]:
    """The patterns that `{a,b}` stands for; one more than CHOICES of them where there are more."""
    depth, start, cuts = 0, -1, list[int]()
    for at, char in escaped(text):
        if char == "{":
            depth += 1
            if depth == 1:
                start, cuts = at, []
        elif char == "," and depth == 1:
            cuts.append(at)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0 and cuts:
                ends = [start, *cuts, at]
                inner = [text[a + 1 : b] for a, b in pairwise(ends)]
                found = list[str]()
                for choice in inner:
                    found += braced(text[:start] + choice + text[at + 1 :])
                    if len(found) > CHOICES:
                        break
                return found
    return [text]


def escaped(text: str) -> Iterator[tuple[int, str]]:
    """Each character with its place, without those that a backslash takes for themselves."""
    skip = False
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif char == "\\":
            skip = True
        else:
            yield at, char


def path_expression(parts: Sequence[str], *, literal: bool = True) -> str:
    """The expression of a path; between two `**`, the first fit is taken for good.

    `literal`: brackets may also stand for themselves.
    """
    groups: list[list[str]] = [[]]
    for part in parts:
        if part == STARS:
            groups.append([])
        else:
            groups[-1].append(name_expression(part, literal=literal))
    first, *rest = ["/".join(group) for group in groups]
    if not rest:
        return f"(?:{first})\\Z"
    *middle, last = rest
    expression = f"(?:{first})/" if first else ""
    for group in middle:
        if group:
            expression += f"(?>(?:[^/]*/)*?(?:{group})/)"
    return expression + (f"(?:[^/]*/)*(?:{last})\\Z" if last else r".*\Z")


def name_expression(part: str, *, literal: bool) -> str:
    """The expression of one name."""
    pieces = [""]
    for piece in PIECE.findall(part):
        if piece[0] == "*":
            pieces.append("")
        else:
            pieces[-1] += piece_expression(piece)
    first, *rest = pieces
    if rest:
        *middle, last = rest
        first += "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + f"[^/]*{last}"
    first += "(?![^/])"
    if literal and "[" in part:
        first = f"(?:{first}|{re.escape(part)}(?![^/]))"
    return first


def piece_expression(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    if piece[0] == "\\":
        return re.escape(piece[1:] or piece)
    if len(piece) == 1 or piece[0] != "[":
        return re.escape(piece)
    inner = piece[1:-1]
    no = inner[0] in "!^"
    members = re.sub(r"([\\\[\]&~|])", r"\\\1", inner[no:])
    members = "\\^" + members[1:] if members.startswith("^") else members
    members = members.replace("--", "\\--")  # two of them may come to mean something in a set
    try:
        re.compile(f"[{members}]")
    except re.error:  # an empty range, z-a
        return re.escape(piece)
    return f"(?!/)[{'^' if no else ''}{members}]"


def last_names(parts: Sequence[str]) -> list[str]:
    """Patterns of ripgrep's for the last part; an empty one where they would say too little."""
    last = parts[-1]
    if last == STARS or any(char in last for char in "\\{}") or not last.isprintable():
        return [""]
    # No brackets: a range that is none would be an error there. No colon: it ends a type's name.
    literal = re.sub(r"[\[\]:]", "?", last)
    pieces = ["?" if piece[0] in "[:" else piece for piece in PIECE.findall(last)]
    return list(dict.fromkeys(["".join(pieces), literal]))

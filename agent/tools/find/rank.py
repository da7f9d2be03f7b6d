"""Which definitions of a project the rest of it leans on: an outline within a budget.

A file that uses a name points to the files that define it; the more of them there are, the less
each gets. PageRank over these pointers weighs the files, and what flows along a name weighs its
definitions. Nothing else decides the order, so equal trees have equal outlines.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from agent.tools.find.parse import CALLABLE
from agent.tools.find.symbols import Source, Symbol

DAMPING = 0.85  # Brin and Page, 1998
ROUNDS = 20
COMMON = 5  # a name that more files define says little
SHORT = 3  # characters of a name, at least, that is followed
CHOSEN = 3_000  # definitions that are weighed for a place
SIGNATURE = 100  # characters
PASSED = ("variable", "in.impl")  # kinds that have no place of their own


class Place(Struct, frozen=True, kw_only=True):
    """A definition and where it stands."""

    path: str
    symbol: Symbol
    weight: float


def outline(files: Mapping[str, Source], budget: int) -> str:
    """The definitions that matter most, by file, in `budget` characters; "" where none fits."""
    places = ranked(files)[:CHOSEN] if files else []
    low, high, best = 0, len(places), ""
    while low < high:  # the longest outline that fits
        middle = (low + high + 1) // 2
        text = drawn(places[:middle], files)
        if len(text) <= budget:
            low, best = middle, text
        else:
            high = middle - 1
    return best


def ranked(files: Mapping[str, Source]) -> list[Place]:
    """All definitions that can be used elsewhere, those first that the rest leans on."""
    paths = sorted(files)
    tests = [testing(path) for path in paths]
    defined = [[(symbol, uses(path, symbol)) for symbol in usable(files[path])] for path in paths]
    homes: dict[str, set[int]] = defaultdict(set)
    for at, symbols in enumerate(defined):
        for symbol, words in symbols:
            if len(symbol.name) >= SHORT and not tests[at]:
                for word in words:
                    homes[word].add(at)
    pointers = [
        [
            (word, at, trust(word, len(homes[word])) / len(homes[word]))
            for word in sorted(homes.keys() & set(files[path].words.split()))
            if user not in homes[word] or word.startswith(".")  # else it means its own
            for at in sorted(homes[word] - {user})
        ]
        for user, path in enumerate(paths)
    ]
    weights = weighed(pointers)
    flow: dict[tuple[int, str], float] = defaultdict(float)
    for user, those in enumerate(pointers):
        total = sum(each[2] for each in those)
        for word, at, share in those:
            flow[at, word] += weights[user] * share / total
    found = [
        (sum(flow.get((at, word), 0.0) for word in words), at, symbol)
        for at, symbols in enumerate(defined)
        for symbol, words in symbols
    ]
    found.sort(key=lambda it: (-it[0], tests[it[1]], it[2].depth, -weights[it[1]], it[1]))
    return [Place(path=paths[at], symbol=symbol, weight=weight) for weight, at, symbol in found]


def usable(source: Source) -> list[Symbol]:
    """The definitions that another file can mean: none inside a function."""
    inside: list[str] = []
    found = []
    for symbol in source.definitions:
        del inside[symbol.depth :]
        if symbol.kind not in PASSED and not any(kind in CALLABLE for kind in inside):
            found.append(symbol)
        inside.append(symbol.kind)
    return found


def uses(path: str, symbol: Symbol) -> tuple[str, ...]:
    """What a use of it looks like (see parse.uses): the name of a type alone, a function's call,
    or its name behind that of its module or package, a method's behind its class or anything."""
    name = symbol.name
    if symbol.kind in ("method", "property"):
        return f".{name}", f"{symbol.owner.rpartition('.')[2]}.{name}"
    if symbol.kind in ("function", "macro", "declaration"):
        folder, _, file = path.rpartition("/")
        module, package = file.partition(".")[0], folder.rpartition("/")[2]
        return tuple(dict.fromkeys((f"{name}(", f"{module}.{name}", f"{package}.{name}")))
    return (name,)


def trust(word: str, homes: int) -> float:
    """How far a use of a name tells that one of its definitions is meant: a member may be that of
    anything, a name with many homes is a common word."""
    sure = 0.1 if homes > COMMON else 1.0
    if word.rpartition(".")[2].startswith("_"):
        sure *= 0.1
    return sure * (0.2 if word.startswith(".") else 1.0)


def testing(path: str) -> bool:
    """Whether a file is a test, by its name or folder: it uses much and is used by nothing."""
    return re.search(r"(^|[/_.-])(tests?|specs?)([/_.-]|$)", path.casefold()) is not None


def weighed(uses: Sequence[Sequence[tuple[str, int, float]]]) -> list[float]:
    """PageRank of each file."""
    count = len(uses)
    shares: list[dict[int, float]] = []
    for pointers in uses:
        total = sum(pointer[2] for pointer in pointers)
        share: dict[int, float] = defaultdict(float)
        for _, at, weight in pointers:
            share[at] += weight / total
        shares.append(share)
    weights = [1 / count] * count
    for _ in range(ROUNDS):
        idle = sum(weight for weight, share in zip(weights, shares, strict=True) if not share)
        fresh = [(1 - DAMPING + DAMPING * idle) / count] * count
        for weight, share in zip(weights, shares, strict=True):
            for at, part in share.items():
                fresh[at] += DAMPING * weight * part
        weights = fresh
    return weights


def drawn(places: Sequence[Place], files: Mapping[str, Source]) -> str:
    """The definitions by file, with what they stand in; the file that matters most first."""
    wanted: dict[str, set[Symbol]] = {}
    weights: dict[str, float] = defaultdict(float)
    for place in places:
        wanted.setdefault(place.path, set()).add(place.symbol)
        weights[place.path] += place.weight
    lines = []
    for path in sorted(wanted, key=lambda path: (-weights[path], path)):
        lines.append(path)
        for symbol in with_owners(files[path].definitions, wanted[path]):
            signature = symbol.signature
            if len(signature) > SIGNATURE:
                signature = signature[: SIGNATURE - 1] + "…"
            lines.append("  " * (symbol.depth + 1) + signature)
    if left := len(files) - len(wanted):
        lines.append(f"and {left} more files" if left > 1 else "and 1 more file")
    return "\n".join(lines)


def with_owners(definitions: Sequence[Symbol], wanted: set[Symbol]) -> list[Symbol]:
    """The wanted definitions and those around them, in order."""
    above: list[Symbol] = []
    shown: dict[Symbol, None] = {}
    for symbol in definitions:
        del above[symbol.depth :]
        above.append(symbol)
        if symbol in wanted:
            shown.update(dict.fromkeys(above))
    return list(shown)

"""What is new, written in the style of what stands there: its line ends, indentation, quotes.

A model's text often differs from the file's in what it could not see or did not copy exactly. What
it says of the lines is kept; how the lines are written is the file's.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations, pairwise
from math import gcd
from typing import Self, TypeAlias

from msgspec import Struct

SQUARE = 250_000  # old lines × new lines that are compared each with each, at most
LONG = 1000  # characters of a line that are compared one by one, at most
BLANK = " \t"

Opcode: TypeAlias = tuple[str, int, int, int, int]  # difflib's: what, from–to in old, in new
Fit: TypeAlias = Callable[[str, str, str], str]  # (new line, old line, file's line) → line


class Line(Struct, frozen=True):
    text: str
    end: str  # "\n", "\r\n", or "" for the last piece


def lines(raw: str) -> list[Line]:
    *ended, last = raw.split("\n")
    found = [Line(text[:-1], "\r\n") if text.endswith("\r") else Line(text, "\n") for text in ended]
    return [*found, Line(last, "")]


def literal(new: str, old: str, own: str) -> str:
    """Fits a new line to nothing."""
    return new


def rewritten(
    here: Sequence[Line], old: Sequence[str], new: Sequence[str], end: str, fit: Fit
) -> str:
    """The new lines in the place of `here`, which a model gave as `old`.

    An unchanged line keeps its bytes, a changed one its line end; a line more has the end of the
    line before it, the first one `end`.
    """
    out = list[str]()
    for what, start, stop, first, last in changes(old, new):
        for at in range(first, last):
            own = here[start + at - first] if start + at - first < stop else None
            end = own.end or end if own else end
            if what == "equal" and own:
                text = own.text
            elif own and stop - start == last - first:
                text = fit(new[at], old[start + at - first], own.text)
            else:
                text = fit(new[at], "", "")
            out.append(text + end if at < len(new) - 1 else text)
    return "".join(out)


def changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    """Which lines are the same and which are others. Long texts are compared at their ends only."""
    if len(old) * len(new) <= SQUARE:
        yield from SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return
    head, tail = shared(old, new)
    middle, over = len(old) - tail, len(new) - tail
    yield ("equal", 0, head, 0, head)
    yield ("replace", head, middle, head, over)
    yield ("equal", middle, len(old), over, len(new))


def shared(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and of the others at the end."""
    most, head, tail = min(len(old), len(new)), 0, 0
    while head < most and old[head] == new[head]:
        head += 1
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def retyped(new: str, old: str, own: str) -> str:
    """`new` with the file's own characters where it only repeats `old`: curly quotes stay."""
    body, given, typed = new.strip(BLANK), old.strip(BLANK), own.strip(BLANK)
    if typed == given or len(typed) != len(given) or max(len(body), len(given)) > LONG:
        return new
    out = list[str]()
    matcher = SequenceMatcher(None, given, body, autojunk=False)
    for what, start, stop, first, last in matcher.get_opcodes():
        out.append(typed[start:stop] if what == "equal" else body[first:last])
    head = len(new) - len(new.lstrip(BLANK))
    return new[:head] + "".join(out) + new[head + len(body) :]


def indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANK))]


def width(indent: str) -> int:
    return len(indent.expandtabs(8))


class Step(Struct, frozen=True, kw_only=True):
    """A step of indentation: `given` times `char` for the model, `own` times `mark` in the file."""

    given: int = 1
    char: str = ""  # "": there is nothing to go by, and steps are written as they were given
    own: int = 1
    mark: str = ""

    def steps(self, given: str) -> str | None:
        """So much deeper in the file; None where that can't be told."""
        if not self.char or (self.char == self.mark and self.given == self.own):
            return given
        if set(given) <= {self.mark} and self.char != self.mark:
            return given
        if not set(given) <= {self.char}:
            return None
        count, rest = divmod(len(given) * self.own, self.given)
        if rest and (self.mark != "\t" or self.own != 1):
            return None
        return self.mark * count + " " * rest  # behind tabs, blanks that align


class Indentation(Struct, frozen=True, kw_only=True):
    """From a model's indentation to the file's: known for the lines that both have, counted in
    steps from there for the others."""

    known: dict[str, str]
    step: Step

    @classmethod
    def of(cls, old: Sequence[str], here: Sequence[str], new: Sequence[str]) -> Self | None:
        """What the lines tell. None where deeper for the model is not deeper in the file: then
        their structure differs, and it is another text."""
        known = dict[str, str]()
        for given, own in zip(old, here, strict=True):
            if given.strip(BLANK) and known.setdefault(indent(given), indent(own)) != indent(own):
                return None
        depths = sorted((width(given), width(own)) for given, own in known.items())
        for (left, mine), (right, other) in pairwise(depths):
            if (left < right) != (mine < other):
                return None
        all_given = [indent(line) for line in [*old, *new] if line.strip(BLANK)]
        return cls(known=known, step=step(known, all_given))

    def __call__(self, given: str) -> str | None:
        """The file's indentation for a line that a model gave this one; None: can't be told."""
        if given in self.known:
            return self.known[given]
        above = [known for known in self.known if given.startswith(known)]
        if above:
            nearest = max(above, key=len)
            deeper = self.step.steps(given[len(nearest) :])
            return None if deeper is None else self.known[nearest] + deeper
        below = [known for known in self.known if known.startswith(given)]
        if below:
            nearest = min(below, key=len)
            less = self.step.steps(nearest[len(given) :])
            if less and self.known[nearest].endswith(less):
                return self.known[nearest].removesuffix(less)
        return None

    def fit(self, new: str, old: str, own: str) -> str:
        """The new line; raises LookupError where its indentation can't be told."""
        if not new.strip(BLANK):
            return new
        found = self(indent(new))
        if found is None:
            raise LookupError(new)
        return found + retyped(new.lstrip(BLANK), old, own)


def step(known: dict[str, str], given: Sequence[str]) -> Step:
    """From two depths, or from one and the margin; where the file has tabs and the model blanks,
    from all the blanks that the model gave."""
    depths = sorted(known.items(), key=lambda pair: len(pair[0]))
    if any(left[:1] != mine[:1] for left, mine in depths if left and mine):
        depths = [("", ""), *depths]
    for (left, mine), (right, other) in combinations(depths, 2):
        more, deeper = right.removeprefix(left), other.removeprefix(mine)
        plain = len(set(more)) == 1 and len(set(deeper)) == 1
        if plain and right.startswith(left) and other.startswith(mine):
            common = gcd(len(more), len(deeper))
            return Step(
                given=len(more) // common, char=more[0], own=len(deeper) // common, mark=deeper[0]
            )
    blanks = gcd(*(len(each) for each in given if set(each) == {" "}))
    if blanks > 1 and any("\t" in own for own in known.values()):
        return Step(given=blanks, char=" ", own=1, mark="\t")
    return Step()

"""Replacing a piece of text in a text.

The piece is looked for as it is; line ends don't count, since a model is not shown them. Where it
does not stand, a text that differs from it only in one of these ways is taken instead, in this
order, and only if there is exactly one:

    characters    quotes, dashes and blanks that look alike
    trailing      blanks at the ends of lines (whole lines)
    indentation   tabs and blanks before lines, if deeper stays deeper (whole lines)

Blanks within a line always count. What was tolerated is kept as the file has it: a line that the
edit does not change keeps its bytes, a changed one gets the file's indentation, its curly quotes
where they are not what changes, and its line end. All else is written as it is given.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from agent.errors import ToolError
from agent.tools.file.near import closest
from agent.tools.file.style import BLANK, Fit, Indentation, lines, literal, retyped, rewritten
from agent.tools.file.text import sound

MANY = 1_000_000  # places that are changed, at most
COUNTED = 1000  # places that a refusal counts, at most
TOLD = 20  # places that a refusal names, at most
# One character for one, so that places stay.
QUOTES = {"'": "‘’‚‛′", '"': "“”„‟″", "-": "‐‑‒–—―−"}
ALIKE = {**QUOTES, " ": "\u00a0\u2007\u202f"}


class Replacement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One edit, as a model asks for it."""

    old_string: str
    new_string: str
    replace_all: bool = False


class Edited(Struct, frozen=True, kw_only=True):
    text: str
    count: int = 1
    tolerated: str = ""  # in what the text found differs from `old_string`


class Place(Struct, frozen=True, kw_only=True):
    """A piece of the plain text that is meant by `old`, and what comes there."""

    start: int
    end: int
    old: str
    new: str
    fit: Fit = literal


class Plain:
    """A text with LF for every line end, and the way back to where it came from."""

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = lf(raw)
        self._ends = list[int]()  # places of the line ends that were CRLF
        if len(self.text) != len(raw):
            found = re.finditer("\r\n", raw)
            self._ends = [match.start() - before for before, match in enumerate(found)]

    @property
    def end(self) -> str:
        """The only kind of line end there is; "" if there are both."""
        if not self._ends:
            return "\n"
        return "\r\n" if self.text.count("\n") == len(self._ends) else ""

    def raw_place(self, at: int) -> int:
        return at + bisect_left(self._ends, at)

    def line(self, at: int) -> int:
        """The number of the line there."""
        return self.text.count("\n", 0, at) + 1


def lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def edited(text: str, edit: Replacement) -> Edited:
    """`text` with the edit done. Raises ToolError that says why not, and what would help."""
    old, new = edit.old_string, sound(edit.new_string, "new_string")
    if not old:
        if text:
            raise ToolError(
                "old_string is empty, but the file is not: give the text to replace, or use "
                "write_file to replace everything"
            )
        return Edited(text=new)
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change")
    if lf(old) == lf(new):
        return ends_changed(text, edit)
    plain = Plain(text)
    done = exact(plain, edit) or tolerant(plain, edit)
    if done is None:
        raise ToolError(closest(plain.text, lf(old), lf(new)))
    if done.text == text:
        raise ToolError("the file already has new_string there: there is nothing to change")
    return done


def ends_changed(text: str, edit: Replacement) -> Edited:
    """An edit of line ends alone: here they count, and are written as they are given."""
    old = edit.old_string
    places = (
        at
        for at in occurrences(text, old)
        if not (text.startswith("\n", at) and text.endswith("\r", 0, at))
        and not (old.endswith("\r") and text.startswith("\n", at + len(old)))
    )
    chosen = unique(places, len(old), edit.replace_all, lambda at: text.count("\n", 0, at) + 1)
    if not chosen:
        raise ToolError("old_string with these line ends is not there: there is nothing to change")
    pieces, done = list[str](), 0
    for at in chosen:
        pieces += [text[done:at], edit.new_string]
        done = at + len(old)
    return Edited(text="".join(pieces) + text[done:], count=len(chosen))


def exact(plain: Plain, edit: Replacement) -> Edited | None:
    """The edit at the places where the piece stands as it is; None: there is none."""
    old = lf(edit.old_string)
    chosen = unique(occurrences(plain.text, old), len(old), edit.replace_all, plain.line)
    if not chosen:
        return None
    if plain.end and "\r" not in edit.old_string + edit.new_string:
        old, new = (text.replace("\n", plain.end) for text in (old, edit.new_string))
        return Edited(text=plain.raw.replace(old, new), count=len(chosen))
    places = [
        Place(start=at, end=at + len(old), old=edit.old_string, new=edit.new_string)
        for at in chosen
    ]
    return Edited(text=put(plain, places), count=len(places))


def tolerant(plain: Plain, edit: Replacement) -> Edited | None:
    """The edit at the one place where the piece stands but for what may differ."""
    old, new = lf(edit.old_string), lf(edit.new_string)
    text, given = straight(plain.text, ALIKE), straight(old, ALIKE)
    alike = [
        Place(start=at, end=at + len(old), old=edit.old_string, new=edit.new_string, fit=retyped)
        for at in islice(occurrences(text, given), TOLD)
    ]
    if alike:
        return alone(plain, alike, "quotes, dashes or blanks that look alike")
    there, given = straight(plain.text, QUOTES).split("\n"), straight(old, QUOTES)
    trailing = list(islice(trailed(there, given, old, new), TOLD))
    if trailing:
        return alone(plain, trailing, "blanks at line ends")
    indented = list(islice(shifted(plain.text, there, given, old, new), TOLD))
    return alone(plain, indented, "indentation") if indented else None


def straight(text: str, signs: dict[str, str]) -> str:
    """`text` with the plain sign for each that looks like it. (`translate` takes seconds here.)"""
    for sign, others in signs.items():
        for other in others:
            text = text.replace(other, sign)
    return text


def alone(plain: Plain, places: list[Place], tolerated: str) -> Edited:
    """The edit at the only place; raises ToolError if there are more."""
    if len(places) > 1:
        where = listed([place.start for place in places], plain.line)
        raise ToolError(
            f"old_string is not there as given, but for {tolerated} it is in {where}; "
            "give it exactly, with lines around it so that it is the only one"
        )
    try:
        return Edited(text=put(plain, places), tolerated=tolerated)
    except LookupError as error:
        raise ToolError(
            f"old_string stands in line {plain.line(places[0].start)} with another indentation, "
            "to which new_string can't be fitted; give both with the file's own indentation"
        ) from error


def trailed(there: list[str], given: str, old: str, new: str) -> Iterator[Place]:
    """Where the whole lines stand but for blanks at their ends."""
    for first, last in runs([line.rstrip(BLANK) for line in there], given, str.rstrip):
        yield whole(there, first, last, old, new, retyped)


def shifted(text: str, there: list[str], given: str, old: str, new: str) -> Iterator[Place]:
    """Where the whole lines stand with an indentation that runs parallel."""
    raw = text.split("\n")
    for first, last in runs([line.strip(BLANK) for line in there], given, str.strip):
        olds = old.split("\n")[: last - first]
        if fit := Indentation.of(olds, raw[first:last], new.split("\n")):
            yield whole(there, first, last, old, new, fit.fit)


def runs(
    there: list[str], given: str, bare: Callable[[str, str], str]
) -> Iterator[tuple[int, int]]:
    """From which line to which (not included) the lines of `given` stand, all but bare of blanks.

    Each different line becomes one character, so that a search for text does the work.
    """
    wanted = [bare(line, BLANK) for line in given.removesuffix("\n").split("\n")]
    if not any(wanted):
        return
    codes = {line: chr(code) for code, line in enumerate(dict.fromkeys(wanted), 1)}
    text = "".join(codes.get(line, "\0") for line in there)
    for at in occurrences(text, "".join(codes[line] for line in wanted)):
        yield at, at + len(wanted)


def whole(there: list[str], first: int, last: int, old: str, new: str, fit: Fit) -> Place:
    """The place of whole lines; blanks behind the last one are not part of it unless its end is."""
    start = sum(len(line) + 1 for line in there[:first])
    end = start + sum(len(line) + 1 for line in there[first:last])
    if not old.endswith("\n"):
        end -= 1 + len(there[last - 1]) - len(there[last - 1].rstrip(BLANK))
    elif last == len(there):  # the file's last line has no end, and gets none
        end, old, new = end - 1, old.removesuffix("\n"), new.removesuffix("\n")
    return Place(start=start, end=end, old=old, new=new, fit=fit)


def occurrences(text: str, piece: str) -> Iterator[int]:
    """Every place of `piece`, overlapping ones too."""
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + 1)


def unique(places: Iterator[int], size: int, every: bool, line: Callable[[int], int]) -> list[int]:
    """The places to change: the only one, or every one that does not overlap the one before."""
    chosen, end, most = list[int](), -1, MANY if every else COUNTED
    for at in places:
        if len(chosen) == most:
            break
        if at >= end or not every:
            chosen.append(at)
            end = at + size
    if every and len(chosen) == MANY:
        raise ToolError(f"old_string stands there {MANY:,} times or more; use a command")
    if len(chosen) > 1 and not every:
        more = " or more" if len(chosen) == COUNTED else ""
        raise ToolError(
            f"old_string stands there {len(chosen):,} times{more}, in "
            f"{listed(chosen, line)}; add lines around it so that it is the only one, or set "
            "replace_all"
        )
    return chosen


def listed(places: Sequence[int], line: Callable[[int], int]) -> str:
    """The lines of the places, or of the first ones if there are many."""
    *numbers, last = dict.fromkeys(str(line(at)) for at in places[:TOLD])
    if len(places) > TOLD:
        return "lines " + ", ".join([*numbers, last]) + " …"
    return "lines " + ", ".join(numbers) + " and " + last if numbers else f"line {last}"


def put(plain: Plain, places: Sequence[Place]) -> str:
    """The raw text with what comes at each place."""
    pieces, done = list[str](), 0
    for place in places:
        start, end = plain.raw_place(place.start), plain.raw_place(place.end)
        pieces += [plain.raw[done:start], fitted(plain.raw, start, end, place)]
        done = end
    return "".join(pieces) + plain.raw[done:]


def fitted(raw: str, start: int, end: int, place: Place) -> str:
    """What to write from `start` to `end`.

    Line ends that a model writes out as CRLF are meant so, unless the file's differ from those in
    `old`: then CRLF is how this model writes all line ends.
    """
    here, old, new = raw[start:end], place.old, place.new
    if "\r\n" in new + old and ("\r\n" not in old or here == old):
        return new
    olds, news = lf(old).split("\n"), lf(new).split("\n")
    return rewritten(lines(here), olds, news, prevailing(raw, start), place.fit)


def prevailing(raw: str, at: int) -> str:
    """The line end there: the next one, else the one before."""
    found = raw.find("\n", at)
    if found < 0:
        found = raw.rfind("\n", 0, at)
    return "\r\n" if found > 0 and raw[found - 1] == "\r" else "\n"

"""What taking work back changes, told before and after."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from agent.views.figures import counted
from agent.views.plain import cells, named, padded, safe
from agent.views.plan_text import Style

SIGNS = {"removed": "-", "restored": "+", "changed back": "~"}
STYLES = {"-": "red", "+": "green", "~": "yellow", " ": "dim"}
WHY = {
    "since": "has been changed since",
    "between": "somebody else changed it in between",
    "unsure": "changed meanwhile, but no step had said that it would write it",
    "large": "too large to be kept: it can't be brought back",
    "lost": "what it was is lost",
}
WIDEST = 60  # columns of a path


class Change(Protocol):
    """A file that can be put back."""

    @property
    def path(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def lines(self) -> tuple[int, int] | None: ...


def rows(changes: Sequence[Change], styled: Style) -> Iterator[str]:
    """What happens to each file without being asked about, then what is left alone, and why."""
    paths = [named(change.path) for change in changes]
    width = min(max(map(cells, paths), default=0), WIDEST)
    sure = [change for change in changes if not change.why]
    asked = [change for change in changes if change.why]
    for change in sure:
        yield _row(change, SIGNS[change.what], change.what, width, styled)
    if asked:
        yield "left alone, unless you say otherwise:"
        for change in asked:
            yield _row(change, " ", WHY[change.why], width, styled)


def _row(change: Change, sign: str, words: str, width: int, styled: Style) -> str:
    path = named(change.path)
    name = padded(path, width) if cells(path) <= width else path
    return f"  {styled(STYLES[sign], sign)} {name}  {counts(change):>11}  {words}".rstrip()


def counts(change: Change) -> str:
    """The lines that a file gains and loses."""
    match change.lines:
        case (0, 0):
            return "mode"
        case (added, removed):
            return " ".join([f"+{added}"] * (added > 0) + [f"-{removed}"] * (removed > 0))
        case _:
            return "" if change.why in {"large", "lost"} else "binary"


def question(change: Change) -> str:
    """What is asked about a file that is left alone otherwise."""
    return f"{named(change.path)}: {WHY[change.why]}"


def difference(patch: str, styled: Style) -> Iterator[str]:
    """A patch, line by line."""
    for line in safe(patch).splitlines():
        plain = line.startswith(("+++", "---"))
        style = {"+": "green", "-": "red", "@": "magenta"}.get(line[:1], "")
        yield styled("bold" if plain else style, line)


def outcome(changed: int, kept: int, again: str) -> str:
    """How it has ended, and the command that takes it back."""
    left = f", {counted(kept, 'file')} left alone" if kept else ""
    return f"{counted(changed, 'file')} put back{left}; `{again}` takes this back"

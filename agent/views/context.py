"""What fills a model's context, as a bar and a table."""

from agent.message import Filling
from agent.views.figures import tokens

BAR = 40  # cells
MARKS = "█▓▒░"  # of neighbouring parts; what is free and what is left for the reply have their own
FREE, REPLY = "·", "-"


def filling_lines(filling: Filling, out_width: int = 80) -> list[str]:
    """A bar of the whole context, then a row for each part, what is left, and of how much."""
    cells = max(10, min(BAR, out_width - 4))
    whole = max(filling.window, filling.used, 1)
    about = "" if filling.exact else "about "
    rows = [(MARKS[at % len(MARKS)], *part) for at, part in enumerate(filling.parts)]
    rows += [(FREE, "free", filling.free), (REPLY, "kept for the reply", filling.reserved)]
    bar = "".join(
        mark * share for (mark, _, _), share in zip(rows, shares(rows, whole, cells), strict=True)
    )
    return [
        f"{about}{tokens(filling.used)} of {tokens(filling.window)} ({filling.model})",
        f"[{bar:{cells}}]",
        *(
            f"  {mark} {name:20} {tokens(count):>9} {count / whole:5.0%}"
            for mark, name, count in rows
        ),
    ]


def shares(rows: list[tuple[str, str, int]], whole: int, cells: int) -> list[int]:
    """The cells of each row: together never more than there are."""
    found, seen, used = list[int](), 0, 0
    for _, _, count in rows:
        seen += count
        upto = min(round(seen * cells / whole), cells)
        found.append(upto - used)
        used = upto
    return found

"""What an edit has changed, short enough to be read by a model and a user."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from agent.tools.file.style import Opcode, shared
from agent.tools.file.text import spelled, visible

ROWS = 40  # lines of a diff, at most
WIDTH = 300  # characters of each
AROUND = 3  # unchanged lines shown before and after
PAIRS = 1_000_000  # pairs of equal lines that are weighed against each other, at most


def diff(before: str, after: str, path: str, *, whole: bool = False) -> str:
    """A unified diff, cut with a note after `ROWS` lines unless `whole`; "" if nothing differs.

    Line ends are not shown.
    """
    start, stop, other = changed(before, after)
    above = before.count("\n", 0, start)
    old, new = listed(before[start:stop]), listed(after[start:other])
    rows = list[str]()
    for group in groups(old, new):
        first, last = group[0], group[-1]
        left = span(above + first[1], above + last[2])
        right = span(above + first[3], above + last[4])
        rows.append(f"@@ -{left} +{right} @@")
        for what, i, j, k, m in group:
            if what == "equal":
                rows += [f" {line}" for line in old[i:j]]
            else:
                rows += [f"-{line}" for line in old[i:j]] + [f"+{line}" for line in new[k:m]]
    if not rows:
        return ""
    rows = [piece for row in rows for piece in row.split("\n")]
    if whole:
        return "\n".join([f"--- {spelled(path)}", f"+++ {spelled(path)}", *map(visible, rows)])
    cut = [visible(row if len(row) <= WIDTH else row[:WIDTH] + "…") for row in rows[:ROWS]]
    if len(rows) > ROWS:
        cut.append(f"… {len(rows) - ROWS:,} more lines of the diff are not shown")
    return "\n".join([f"--- {spelled(path)}", f"+++ {spelled(path)}", *cut])


def changed(before: str, after: str) -> tuple[int, int, int]:
    """Where the lines begin that differ, a few around them included, and where they end in both.

    A big file is split into lines only there.
    """
    most = min(len(before), len(after))
    head = alike(lambda low, high: before[low:high] == after[low:high], most)
    ends = len(before), len(after)
    tail = alike(
        lambda low, high: (
            before[ends[0] - high : ends[0] - low] == after[ends[1] - high : ends[1] - low]
        ),
        most - head,
    )
    start, stop = head, len(before) - tail
    for _ in range(AROUND + 1):
        start = before.rfind("\n", 0, max(start - 1, 0)) + 1
        stop = before.find("\n", stop) + 1 or len(before)
    return start, stop, len(after) - (len(before) - stop)


def alike(same: Callable[[int, int], bool], most: int) -> int:
    """How far two texts are the same, by halves: each character is compared about once."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if same(low, middle) else (low, middle - 1)
    return low


def listed(text: str) -> list[str]:
    """The lines; the last one, if it has no end, with the words by which a diff says so."""
    *ended, last = text.split("\n")
    lines = [line.removesuffix("\r") for line in ended]
    return [*lines, last + "\n\\ No newline at end of file"] if last else lines


def groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    """What changed, with the lines around it; all from the first change to the last is one where
    comparing line by line would take long."""
    head, tail = shared(old, new)
    if head == len(old) == len(new):
        return
    first = max(head - AROUND, 0)
    left = old[first : len(old) - max(tail - AROUND, 0)]
    right = new[first : len(new) - max(tail - AROUND, 0)]
    there = Counter(right)
    if sum(count * there[line] for line, count in Counter(left).items()) <= PAIRS:
        found = SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(AROUND)
    else:
        found = iter([[("replace", 0, len(left), 0, len(right))]])
    for group in found:
        yield [(what, first + i, first + j, first + k, first + m) for what, i, j, k, m in group]


def span(start: int, stop: int) -> str:
    """Lines as a hunk's header names them: its first, from 1, and how many."""
    return f"{start + (stop > start)},{stop - start}"

"""What to tell a model whose text does not stand in the file: what stands there instead."""

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import accumulate

from agent.tools.file.text import visible

SEARCHED = 1 << 21  # characters of the file that are looked through, at most
SHOWN = 15  # lines shown, at most
WIDTH = 200  # characters of each line shown
ALIKE = 0.5  # share of characters that must be common for a region to be worth showing
TELLING = 12  # characters that hardly stand in a file by chance
WORD = re.compile(r"\w+")
NUMBERED = re.compile(r" *\d+\|")


def closest(text: str, old: str, new: str) -> str:
    """Why `old` is not in `text`, as far as that can be told, with the closest lines."""
    said = ["old_string is not in the file"]
    given = old.split("\n")
    if all(NUMBERED.match(line) for line in given if line):
        said.append("leave out the line numbers and the | behind them")
    elif "�" in old:
        said.append("� stands for bytes that can't be given; choose text without it")
    elif len(new.strip()) >= TELLING and text.count(new) == 1:
        line = text.count("\n", 0, text.find(new)) + 1
        said.append(f"new_string already is, in line {line}: the edit may have been done before")
    elif squeezed(old) in squeezed(text[:SEARCHED]):
        said.append("only blanks or line breaks differ: give them exactly as they are")
    first = nearest(text[:SEARCHED].split("\n"), given)
    if first is None:
        return "; ".join(said) + "; read it again, it may have changed"
    there = text[:SEARCHED].split("\n")[first : first + min(len(given), SHOWN)]
    rows = [f"{first + at}|{visible(line[:WIDTH])}" for at, line in enumerate(there, 1)]
    return "; ".join(said) + "; the closest lines are\n" + "\n".join(rows)


def squeezed(text: str) -> str:
    return " ".join(text.split())


def nearest(lines: list[str], given: list[str]) -> int | None:
    """Where the lines begin that have most in common with those given; None: nothing has much.

    Words that are rare in the file weigh more. One pass, so a big file takes no longer than it is.
    """
    words = [WORD.findall(line) for line in lines]
    often = Counter(word for line in words for word in line)
    wanted = Counter(word for line in given for word in WORD.findall(line))
    scores = [sum(1 / often[word] for word in set(line) if word in wanted) for line in words]
    if not any(scores):
        return None
    sums = [0.0, *accumulate(scores)]
    size = min(len(given), len(lines))
    first = max(range(len(lines) - size + 1), key=lambda at: sums[at + size] - sums[at])
    there = "\n".join(lines[first : first + size])
    return first if SequenceMatcher(None, there, "\n".join(given)).quick_ratio() >= ALIKE else None

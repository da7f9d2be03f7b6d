"""Long texts that are pasted, folded to a few words where one types, and sent whole."""

import re

LINES, LONG = 8, 1500  # lines and characters that stay as they are
FOLD = re.compile(r"\[pasted (\d[\d,]* (?:lines|characters))(?: #\d+)?\]")


class Folds:
    """What is folded, by the words that stand for it.

    >>> folds = Folds()
    >>> folds.folded("a\\n" * 20), folds.folded("b\\n" * 20)
    ('[pasted 20 lines]', '[pasted 20 lines #2]')
    >>> folds.unfolded("see [pasted 20 lines #2]") == "see " + "b\\n" * 20
    True
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str, *, long: int = LONG, lines: int = LINES) -> str:
        """The words for a text, which itself stands where it is short."""
        count = text.rstrip("\n").count("\n") + 1
        if count <= lines and len(text) <= long:
            return text
        what = f"{count:,} lines" if count > 1 else f"{len(text):,} characters"
        name, number = f"[pasted {what}]", 2
        while self._texts.get(name, text) != text:
            name, number = f"[pasted {what} #{number}]", number + 1
        self._texts[name] = text
        return name

    def unfolded(self, text: str) -> str:
        return FOLD.sub(lambda fold: self._texts.get(fold[0], fold[0]), text)

    def at_end(self, text: str) -> int:
        """The length of the fold that a text ends with; 0 where there is none."""
        folds = (name for name in self._texts if text.endswith(name))
        return max(map(len, folds), default=0)


def lost(text: str) -> str:
    """The same words where what they stand for is not kept: no later fold is taken for it."""
    return FOLD.sub(r"(pasted \1)", text)

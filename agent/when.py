"""The conditions of `when:`: what they name, and whether they hold.

condition = either { "or" either }      either = part { "and" part }
part = "not" part | "(" condition ")" | ID.failed | ID.done | ID.skipped
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

Test: TypeAlias = Callable[[Mapping[str, str]], bool]
"""Whether a condition holds, given the status of each step."""

OUTCOMES = ("failed", "done", "skipped")
JOINS = ("and", "or", "not")
WORD = re.compile(r"[A-Za-z0-9_.-]+")


class WhenError(ValueError):
    """Why a condition can't be read."""


def named(condition: str) -> tuple[str, ...]:
    """The ids of the steps that a condition asks about, each once. Raises WhenError."""
    return tuple(dict.fromkeys(id for id, _ in _read(condition)[1]))


def wanted(condition: str) -> frozenset[tuple[str, str]]:
    """The (id, outcome) that a condition asks for; one behind a `not` is not. Raises WhenError.

    >>> sorted(wanted("a.failed and not b.done"))
    [('a', 'failed')]
    """
    return frozenset(asked for asked, denied in _read(condition)[1].items() if not denied)


def holds(condition: str, statuses: Mapping[str, str]) -> bool:
    """Whether it holds; a step without a status has none of the outcomes. Raises WhenError.

    >>> holds("a.failed or not (b.done and c.done)", {"a": "done", "b": "done", "c": "done"})
    False
    """
    test, _ = _read(condition)
    return test(statuses)


def rewritten(condition: str, renamed: Callable[[str], str]) -> str:
    """The same condition about steps under other names."""
    return WORD.sub(lambda found: found[0] if found[0] in JOINS else renamed(found[0]), condition)


def _read(condition: str) -> tuple[Test, dict[tuple[str, str], bool]]:
    """The test, and all that is asked, with whether each stands only behind a `not`."""
    if len(condition) > 2000:
        raise WhenError("the condition is longer than 2000 characters")
    words = re.findall(rf"{WORD.pattern}|\S", condition)
    reader = _Reader(iter([*words, ""]))
    test = reader.condition(0)
    if reader.word:
        raise WhenError(f"{reader.word!r} is not expected there; join conditions by `and` or `or`")
    return test, reader.asked


class _Reader:
    def __init__(self, words: Iterator[str]) -> None:
        self._words, self.asked = words, dict[tuple[str, str], bool]()
        self.word = next(words)
        self._denied = False  # behind an odd number of `not`

    def take(self) -> str:
        word, self.word = self.word, next(self._words, "")
        return word

    def condition(self, depth: int) -> Test:
        tests = [self.both(depth)]
        while self.word == "or":
            self.take()
            tests.append(self.both(depth))
        return lambda of: any(test(of) for test in tests)

    def both(self, depth: int) -> Test:
        tests = [self.part(depth)]
        while self.word == "and":
            self.take()
            tests.append(self.part(depth))
        return lambda of: all(test(of) for test in tests)

    def part(self, depth: int) -> Test:
        if depth > 50:
            raise WhenError("the condition is nested too deeply")
        match self.take():
            case "not":
                self._denied = not self._denied
                test = self.part(depth + 1)
                self._denied = not self._denied
                return lambda of: not test(of)
            case "(":
                test = self.condition(depth + 1)
                if self.take() != ")":
                    raise WhenError("a `(` is not closed")
                return test
            case word:
                return self.outcome(word)

    def outcome(self, word: str) -> Test:
        id, _, outcome = word.rpartition(".")
        if not id or outcome not in OUTCOMES:
            raise WhenError(
                f"{word or 'the end'!r} is no condition; write ID.failed, ID.done or ID.skipped"
            )
        self.asked[id, outcome] = self._denied and self.asked.get((id, outcome), True)
        return lambda of: of.get(id) == outcome

"""How a run stands: what its events have told so far, and the questions that are asked of it.

Steps stand in levels: a step that is a skill, or a `foreach`, is a group, done by its parts.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from agent.event import PermissionDecided, RunFinished, RunStatus
from agent.job import Deed, Standing, Told
from agent.message import Usage
from agent.plan import Step

LINE = 300  # characters of a line about a step that is not done
MOST_TEXT = 8_000_000  # characters of a text that a foreach goes over, or that others are joined to

Skip: TypeAlias = Literal["when", "need", "revision"]
"""Why a step is skipped: its own `when`, something that it waited for, a revision."""


def workspaces(cwd: str) -> str:
    """Where the workspaces of the runs of a working directory are."""
    return f"{cwd}/.agent/workspace/"


class Brief(Struct, frozen=True, kw_only=True):
    """A run in a list of runs."""

    run: str
    status: RunStatus | Literal["running", "unfinished"] = "unfinished"
    began: str = ""  # time of its first event
    done: int = 0  # steps that ended as they should …
    steps: int = 0  # … of so many, groups not counted
    cost_usd: float | None = 0.0  # None: not known
    goal: str = ""


class Standings:
    """What is known of a run. Whoever reads it changes nothing; `State` adds what happens."""

    def __init__(self) -> None:
        self.run: str | None = None
        self.goal = ""
        self.cwd = ""
        self.model = ""
        self.began = ""  # time of the first event
        self.resumed = 1  # how often it was begun
        self.steps: dict[str, Step] = {}  # in plan order; copies and parts behind their group
        self.plan: tuple[Step, ...] = ()  # the same
        self.status: dict[str, Standing] = {}  # of the steps that have begun or ended
        self.tries: dict[str, int] = {}  # attempts begun
        self.text: dict[str, str] = {}
        self.error: dict[str, str] = {}  # how a step failed, where its text does not say it
        self.outputs: dict[str, tuple[str, ...]] = {}
        self.hashes: dict[str, dict[str, str]] = {}  # of the files that done steps have left
        self.seconds: dict[str, float] = {}  # of the last attempt
        self.spent: dict[str, Usage] = {}  # of a step, all attempts
        self.costs: dict[str, float | None] = {}  # likewise, in USD
        self.reused: set[str] = set()  # steps for which nothing was run
        self.again: set[str] = set()  # steps that were done and have to be done again
        self.deeds: dict[str, dict[str, Deed]] = {}  # of steps under way or cut off, by their call
        self.said: dict[str, tuple[str, ...]] = {}  # what the user has told a step
        self.usage = Usage()
        self.cost_usd: float | None = 0.0  # None once a price is unknown
        self.revisions = 0
        self.denials: list[PermissionDecided] = []
        self.refused: set[str] = set()  # steps that were denied what nobody could be asked about
        self.finished: RunFinished | None = None
        self._skips: dict[str, Skip] = {}
        self._causes: dict[str, str] = {}  # of a step skipped for a need: whose failure it was
        self._parts: dict[str, list[str]] = {}  # of a group

    def _told(self, id: str) -> Told:
        standing = self.standing(id)
        return Told(
            id=id,
            status=standing,
            text="" if standing == "skipped" else self.text.get(id, ""),
            outputs=self.outputs.get(id, ()),
            words=self.failure(id) if standing in {"failed", "skipped"} else "",
        )

    def _result(self, id: str) -> str:
        """The text that others get of a step."""
        return "" if self.standing(id) == "skipped" else self.text.get(id, "")

    def _above(self, step: Step) -> Iterator[Step]:
        """The groups that a step is in, the innermost first."""
        while step.part_of in self.steps:
            step = self.steps[step.part_of]
            yield step

    def parts(self, id: str) -> list[Step]:
        """The steps that are directly in a group."""
        return [self.steps[part] for part in self._parts.get(id, ())]

    def below(self, id: str) -> list[Step]:
        """All steps in a group, at any depth."""
        found = self.parts(id)
        return found + [step for part in found for step in self.below(part.id)]

    def standing(self, id: str) -> Standing:
        return self.status.get(id, "waiting")

    def failure(self, id: str) -> str:
        """How a step that failed has failed."""
        return self.error.get(id) or self.text.get(id, "")

    @property
    def listed(self) -> list[Step]:
        """The steps of the plan, without those that are only the pattern of copies to come."""
        patterns: set[str] = set()
        for id, step in self.steps.items():
            parent = self.steps.get(step.part_of)
            if parent and (
                parent.id in patterns or (parent.foreach and parent.id not in self.tries)
            ):
                patterns.add(id)
        return [step for id, step in self.steps.items() if id not in patterns]

    @property
    def top(self) -> list[Step]:
        """The steps that are no part of another."""
        return [step for step in self.steps.values() if step.part_of not in self.steps]

    def fine(self, id: str) -> bool:
        """Whether a step ended as it should: done, skipped by its `when`, or free to fail."""
        match self.standing(id):
            case "done":
                return True
            case "failed":
                return self.steps[id].allow_failure
            case "skipped":
                return self._skips.get(id) == "when"
            case _:
                return False

    @property
    def count(self) -> tuple[int, int]:
        """How many steps have ended as they should, and of how many; groups are not counted."""
        ids = [step.id for step in self.listed if not step.group]
        return sum(map(self.fine, ids)), len(ids)

    @property
    def outcome(self) -> Literal["done", "partial", "failed"]:
        """How the run ended, if nothing stopped it."""
        ids = [step.id for step in self.top]
        if ids and all(map(self.fine, ids)) and "revision" not in self._skips.values():
            return "done"
        return "partial" if "done" in self.status.values() else "failed"

    @property
    def answer(self) -> str:
        """The texts of the steps that nothing needs, and a line for each step not done."""
        return bounded("\n\n".join([*self._ends(self.top), *self._lines(self.listed)]))

    def _ends(self, steps: list[Step]) -> list[str]:
        """The texts of those of the steps that none of them needs, but what its `when` left out."""
        needed = {
            need for step in steps if self._skips.get(step.id) != "when" for need in step.after
        }
        ends = (step.id for step in steps if step.id not in needed)
        texts = (self.text.get(id, "").strip() for id in ends if self.standing(id) == "done")
        return [text for text in texts if text]

    def _lines(self, steps: Iterable[Step]) -> Iterator[str]:
        """One text with a line for each step that is not done, if there is one."""
        lines = (f"{step.id}: {self._words(step.id)}" for step in steps if self._missed(step))
        if text := "\n".join(lines):
            yield text

    def _missed(self, step: Step) -> bool:
        """Whether there is something to say of a step that is not done. Of the parts of a group
        that did not begin there is not, nor of those that it can do without."""
        if self.standing(step.id) == "done" or step.part_of not in self.steps:
            return self.standing(step.id) != "done"
        return bool(self.tries.get(step.part_of)) and not self.fine(step.id)

    def _words(self, id: str) -> str:
        """How a step that is not done stands, in a line."""
        standing = self.standing(id)
        if standing == "waiting":
            return "not begun"
        if self._parts.get(id) and standing == "failed":
            return standing  # its parts have lines of their own
        lines = [line.strip() for line in self.failure(id).splitlines() if line.strip()] or [""]
        # The output of a command tells how it ended in its last line, other words in their first.
        at = -1 if lines[-1].startswith(("exit code", "time ran out")) else 0
        if standing == "skipped" or not lines[at]:
            return lines[at][:LINE] or standing
        return f"{standing}: {lines[at][:LINE]}"


def bounded(text: str) -> str:
    """A joined text that a line of a log can hold."""
    left = len(text) - MOST_TEXT
    return f"{text[:MOST_TEXT]}\n… {left:,} characters left out …" if left > 0 else text

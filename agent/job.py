"""A job: what a worker is given to do, with all that it needs to know."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agent.event import Status, ToolFinished, ToolStarted
from agent.plan import Step

MOST_DEEDS = 30  # of a step that was cut off, its last ones
WORDS = 160  # characters of what is told of each
TELLING = ("command", "path", "pattern", "query", "url", "name", "question", "id")

Standing: TypeAlias = Status | Literal["running", "waiting"]


class Told(Struct, frozen=True, kw_only=True):
    """What a step is told of a step that it needs."""

    id: str
    status: Standing
    text: str  # "" where it was skipped
    outputs: tuple[str, ...]
    words: str = ""  # how it failed, or why it was skipped


class Deed(Struct, frozen=True, kw_only=True):
    """A call that an attempt has made, as far as its run's log knows."""

    name: str
    about: str  # what it was asked for, in a line
    came: str = ""  # what came of it, in a line
    ok: bool | None = None  # None: not known, it was cut off

    @classmethod
    def of(cls, event: ToolStarted) -> "Deed":
        given = (event.input.get(key) for key in TELLING)
        return cls(name=event.name, about=next((_line([one]) for one in given if one), ""))

    def ended(self, event: ToolFinished) -> "Deed":
        """The same, with what came of it: of a command its last words."""
        lines = event.output[:4000].split("\n"), event.output[-4000:].split("\n")[::-1]
        return structs.replace(self, ok=event.ok, came=_line(lines[event.name == "bash"]))


def _line(texts: Iterable[object]) -> str:
    """The first of the texts that holds something, in a line."""
    lines = (" ".join(str(text)[: 4 * WORDS].split()) for text in texts)
    return next((line for line in lines if line), "")[:WORDS]


class Attempt(Struct, frozen=True, kw_only=True):
    """Try a step. Holds all that its worker needs to know."""

    step: Step
    number: int  # from 1, over all revisions
    goal: str
    results: tuple[Told, ...]  # of the steps it waited for
    steps: tuple[Step, ...]  # the plan
    failure: str = ""  # how the last attempt that came to its end has failed
    cut_off: bool = False  # the attempt before was interrupted …
    deeds: tuple[Deed, ...] = ()  # … having done this, the last of it
    said: tuple[str, ...] = ()  # what the user has told it before it began
    again: bool = False  # it was done before, but what it left is no longer as it was


class Revise(Struct, frozen=True, kw_only=True):
    """Decide what becomes of a plan, one of whose steps has failed for good; or, where `step` has
    no id, which the user wants to be another: `failure` is in their words."""

    step: Step
    failure: str
    goal: str
    steps: tuple[Step, ...]
    standing: Mapping[str, Standing]
    kept: tuple[Step, ...]  # what a replacing plan keeps


Job: TypeAlias = Attempt | Revise

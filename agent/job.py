"""A job: what a worker is given to do, with all that it needs to know."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from agent.event import Status
from agent.plan import Step

Standing: TypeAlias = Status | Literal["running", "waiting"]


class Told(Struct, frozen=True, kw_only=True):
    """What a step is told of a step that it needs."""

    id: str
    status: Standing
    text: str  # "" where it was skipped
    outputs: tuple[str, ...]
    words: str = ""  # how it failed, or why it was skipped


class Attempt(Struct, frozen=True, kw_only=True):
    """Try a step. Holds all that its worker needs to know."""

    step: Step
    number: int  # from 1, over all revisions
    goal: str
    results: tuple[Told, ...]  # of the steps it waited for
    steps: tuple[Step, ...]  # the plan
    failure: str = ""  # how the last attempt that came to its end has failed
    cut_off: bool = False  # the attempt before was interrupted: what it did is not known


class Revise(Struct, frozen=True, kw_only=True):
    """Decide what becomes of a plan, one of whose steps has failed for good."""

    step: Step
    failure: str
    goal: str
    steps: tuple[Step, ...]
    standing: Mapping[str, Standing]
    kept: tuple[Step, ...]  # what a replacing plan keeps


Job: TypeAlias = Attempt | Revise

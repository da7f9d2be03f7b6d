"""A run step by step: each attempt with what was said, called, decided and checked in it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from msgspec import Struct, structs

from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionDecided,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    Text,
    ToolFinished,
    ToolStarted,
    UserSaid,
    step_of,
)
from agent.plan import Step
from agent.state import State


class Made(Struct, frozen=True, kw_only=True):
    """A tool call and what came of it."""

    id: str
    name: str
    input: dict[str, Any] = {}
    check: bool = False  # whether it is the step's own `verify`
    ok: bool | None = None  # None: it was cut off
    output: str = ""
    seconds: float = 0.0


Item: TypeAlias = Made | Text | ModelCalled | PermissionDecided | UserSaid | Notice | RevisionFailed


class Try(Struct, kw_only=True):
    """An attempt of a step; grows with the events of it."""

    number: int
    began: float  # seconds since the run began, pauses left out
    ended: float = 0.0
    status: str = ""  # "": it was cut off, or is under way
    reused: bool = False
    items: list[Item] = []


class Account:
    """What the report shows, as the events tell it."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.state = State()
        self.tries: dict[str, list[Try]] = {}
        self.known: dict[str, Step] = {}  # every step that was begun, in the plan still or not
        self.outside: list[Item] = []  # what belongs to no step
        self.plans: list[PlanCreated | PlanRevised] = []
        self.pauses: list[float] = []  # where on the clock the run was gone on with
        self.length = 0.0  # seconds that it was under way
        self.calls = {"model": 0, "tool": 0}
        self.version = ""
        self._began: float | None = None
        self._away = 0.0  # seconds that it was not under way
        for event in events:
            self.state.apply(event)
            self._pass(event)
            self._take(event)
        for tries in self.tries.values():
            for each in tries:
                each.ended = each.ended or (self.length if not each.status else each.began)

    def _pass(self, event: Event) -> None:
        """Let the clock go on to an event; it never goes back."""
        if (at := moment(event.time)) is None:
            return
        if self._began is None:
            self._began = at
        now = max(at - self._began - self._away, self.length)
        if isinstance(event, RunResumed):
            self._cut_off()
            self._away += now - self.length
            self.pauses.append(self.length)
        else:
            self.length = now

    def _cut_off(self) -> None:
        for tries in self.tries.values():
            if tries and not tries[-1].status:
                tries[-1].status, tries[-1].ended = "cancelled", self.length

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted(version=version):
                self.version = version
            case PlanCreated() | PlanRevised():
                self.plans.append(event)
            case StepStarted(attempt=number):
                id = step_of(event)
                self.known[id] = self.state.steps.get(id, Step(id=id))
                self.tries.setdefault(id, []).append(Try(number=number, began=self.length))
            case StepFinished():
                self._end(event)
            case ToolStarted(id=id, name=name, input=input):
                self._call(step_of(event), Made(id=id, name=name, input=input))
            case ToolFinished():
                self._answer(event)
            case ModelCalled():
                self.calls["model"] += 1
                self._items(step_of(event)).append(event)
            case Text() | PermissionDecided() | UserSaid() | Notice() | RevisionFailed():
                self._items(step_of(event)).append(event)
            case RunFinished():
                self._cut_off()
            case _:
                pass

    def _items(self, id: str) -> list[Item]:
        return self.tries[id][-1].items if self.tries.get(id) else self.outside

    def _end(self, event: StepFinished) -> None:
        tries = self.tries.setdefault(step_of(event), [])
        if not tries or tries[-1].status:  # a step that was skipped, or whose beginning is lost
            if event.status == "skipped":
                return
            tries.append(Try(number=len(tries) + 1, began=self.length))
        last = tries[-1]
        last.status, last.ended, last.reused = event.status, self.length, event.reused is True

    def _call(self, id: str, made: Made) -> None:
        self.calls["tool"] += 1
        step = self.state.steps.get(id)
        own = made.id.rpartition(".")[0] == id and step is not None
        check = own and step is not None and made.input.get("command") == step.verify
        self._items(id).append(structs.replace(made, check=check))

    def _answer(self, event: ToolFinished) -> None:
        items = self._items(step_of(event))
        for n in range(len(items) - 1, -1, -1):
            made = items[n]
            if isinstance(made, Made) and made.id == event.id and made.ok is None:
                items[n] = structs.replace(
                    made, ok=event.ok, output=event.output, seconds=event.seconds
                )
                return
        lost = Made(id=event.id, name=event.name, ok=event.ok, output=event.output)
        items.append(structs.replace(lost, seconds=event.seconds))


def moment(time: str) -> float | None:
    """A time of the log in seconds; None where it is none."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def taken(tries: Mapping[str, list[Try]]) -> dict[str, float]:
    """How long each step was under way, all attempts together."""
    return {
        id: sum(each.ended - each.began for each in of if not each.reused)
        for id, of in tries.items()
    }

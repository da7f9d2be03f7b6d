"""What happens, as lines: all that a pipe gets, and what stays on a terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, TypeAlias, assert_never

from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionAsked,
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
    TextDelta,
    ToolFinished,
    ToolStarted,
    TreeKept,
    UserSaid,
    step_of,
)
from agent.plan import Step
from agent.state import State
from agent.views import figures
from agent.views.figures import counted
from agent.views.gist import gist, hint
from agent.views.graph import at_once
from agent.views.plain import cut, one_line, safe, wrapped
from agent.views.plan_text import MANY, Style, described, rows

Level: TypeAlias = Literal["quiet", "normal", "verbose"]

SIGNS = {
    "done": ("green", "✓"),
    "failed": ("red", "✗"),
    "skipped": ("dim", "↷"),
    "cancelled": ("yellow", "⊘"),
    "partial": ("yellow", "✗"),
    "interrupted": ("yellow", "⊘"),
    "over-budget": ("yellow", "⊘"),
}
WORDS = {"partial": "partly done", "over-budget": "a budget ran out"}
REVISED = {
    "retry": "is tried again",
    "skip": "is left out",
    "replace": "is replaced",
    "abort": "has ended the run",
}
WHOLE = {  # what went wrong, was decided, is the end: wrapped, not cut
    "red", "yellow", "magenta", "bold green", "bold yellow", "bold red",
}  # fmt: skip
MOST_ROWS = 6  # of such a line


class Story:
    """Tells a run, or the runs of a chat, event by event; `state` is the run as it stands.

    `brief`: what a live tree shows anyway is left out: beginnings, tool calls, most of a big plan.
    """

    def __init__(
        self,
        styled: Style,
        width: Callable[[], int],
        level: Level = "normal",
        *,
        brief: bool = False,
    ) -> None:
        self.state = State()
        self._styled, self._width, self._level = styled, width, level
        self._brief = brief and level != "verbose"
        self._why_not = ""  # why what the user wanted last can't be done
        self._began: dict[str, str] = {}  # time of a step's last start
        self._asked: dict[tuple[str, str], ToolStarted] = {}  # calls under way

    @property
    def width(self) -> int:
        return self._width()

    def recall(self, events: Iterable[Event]) -> None:
        """Take in what has happened before, without telling it."""
        for event in events:
            self.state.apply(event)

    def lines(self, event: Event) -> Iterator[str]:
        """What is to be told of an event, in lines that fit; takes it in as well."""
        if isinstance(event, RunStarted):
            self.state = State()
            self._began, self._asked = {}, {}
        before = self.state.steps
        self._why_not = self.state.objection(event) if isinstance(event, UserSaid) else ""
        self.state.apply(event)
        width = self._width()
        for style, text in self._told(event, before):
            rows = [cut(line, width) for line in text.split("\n")]
            if style in WHOLE:
                rows = wrapped(text, width - 2)[:MOST_ROWS]
                rows = [row if not n else f"  {row}" for n, row in enumerate(rows)]
            yield from (self._styled(style, row) for row in rows)

    def _told(self, event: Event, before: dict[str, Step]) -> Iterator[tuple[str, str]]:
        """(style, lines) of an event."""
        match event:
            case StepStarted():
                yield from self._started(event)
            case StepFinished():
                yield from self._finished(event)
            case PlanCreated() | PlanRevised() | RevisionFailed() | RunResumed() | UserSaid():
                yield from self._planned(event, before)
            case RunStarted(run=run, model=model, cwd=cwd):
                if self._level == "verbose":
                    yield "dim", one_line(f"run {run} in {cwd} with {model or 'no model'}", 400)
            case RunFinished():
                if event.status != "done" or self._level != "quiet":
                    yield self._end(event)
            case Notice(text=text, warns=warns):
                style, sign = ("yellow", "!") if warns else ("dim", "·")
                yield style, f"{sign} {self._of(event)}{safe(text.strip())}"
            case PermissionDecided(decision="deny", tool=tool, by=by):
                why = "nobody could be asked" if by == "nobody" else f"by {by}"
                yield "yellow", f"⊘ {self._of(event)}{one_line(tool, 60)} was not allowed ({why})"
            case ToolStarted() | ToolFinished():
                yield from self._called(event)
            case (
                ModelCalled() | Text() | TextDelta() | TreeKept()
                | PermissionAsked() | PermissionDecided()
            ):  # fmt: skip
                yield from self._more(event)
            case _:
                assert_never(event)

    def _wished(self, event: UserSaid) -> Iterator[tuple[str, str]]:
        about = " ".join(filter(None, [event.wish, one_line(step_of(event), 60)]))
        yield "bold", f"› {about}" + (f": {one_line(event.words, 400)}" if event.words else "")
        if self._why_not:
            yield "yellow", f"  {safe(self._why_not)}"

    def _of(self, event: Event) -> str:
        name = step_of(event)
        return f"{one_line(name, 60)}: " if name else ""

    def _started(self, event: StepStarted) -> Iterator[tuple[str, str]]:
        id = step_of(event)
        self._began[id] = event.time
        if self._level == "quiet" or self._brief:
            return
        step = self.state.steps.get(id)
        parts = self.state.parts(id)
        more = ""
        if step and step.group:
            names = ("part", "parts") if step.skill else ("copy", "copies")
            more = f": {counted(len(parts), *names)}"
        elif event.attempt > 1:
            more = f" again (attempt {event.attempt})"
            if deeds := self.state.deeds.get(id):  # known of one that was cut off
                last = [*deeds.values()][-1]
                what = one_line(f"{last.name} {last.about}", 60)
                more += f" after {counted(len(deeds), 'call')}, cut off, the last {what}"
        elif step and "item" in step.given:
            more = f": {one_line(step.given['item'], 200)}"
        yield "", f"▸ {one_line(id, 60)} started{more}"

    def _finished(self, event: StepFinished) -> Iterator[tuple[str, str]]:
        if self._level == "quiet":
            return
        id, (style, sign) = step_of(event), SIGNS[event.status]
        figures_of = [] if event.status == "skipped" else self._figures(event)
        words = " ".join([sign, one_line(id, 60) + self._attempt(event), *figures_of])
        if event.status in {"skipped", "cancelled"}:
            words += f" {event.status}"
        said = self._said(event)
        yield style, words + (f" — {said}" if said else "")
        if self._level == "verbose" and event.status == "failed":
            rows = tail(event.error or event.summary, 10)
            yield "dim", "\n".join(f"    {line}" for line in rows)

    def _attempt(self, event: StepFinished) -> str:
        """Which attempt has failed, where there may be another."""
        step, number = self.state.steps.get(step_of(event)), self.state.tries.get(step_of(event), 1)
        if event.status != "failed" or not step or not number <= step.tries > 1:
            return ""
        return f" (attempt {number} of {step.tries})"

    def _figures(self, event: StepFinished) -> list[str]:
        """How long a step took and what it used; of a group, from its begin to its end."""
        id = step_of(event)
        if event.reused is True:
            return ["reused"]
        seconds = event.seconds or between(self._began.get(id, ""), event.time)
        spent = self.state.spent
        ids = (id, *(part.id for part in self.state.parts(id)))
        used = event.usage.total or sum(spent[one].total for one in ids if one in spent)
        return [
            *([figures.took(seconds)] if seconds else []),
            *([figures.tokens(used)] if used else []),
        ]

    def _said(self, event: StepFinished) -> str:
        """The line of a step's text that says most: of a command the last one."""
        step = self.state.steps.get(step_of(event))
        text = event.summary
        if step and step.group and event.status in {"done", "failed"}:
            fine = [self.state.fine(part.id) for part in self.state.parts(step.id)]
            return f"{sum(fine)} of {len(fine)} done"
        if event.status == "failed":
            return one_line(how_failed(event.error or text), 400)
        if step and step.run is not None and event.status == "done":
            text = next(iter(tail(text, 1)), "")
        return one_line(text, 400).removeprefix("skipped: ")

    def _planned(
        self,
        event: PlanCreated | PlanRevised | RevisionFailed | RunResumed | UserSaid,
        before: dict[str, Step],
    ) -> Iterator[tuple[str, str]]:
        if self._level == "quiet":
            return
        width = self._width()
        most = 10_000 if self._level == "verbose" else 12 if self._brief else MANY
        match event:
            case PlanCreated(plan=plan):
                rows_of = described(plan, width, most=most, at_once=at_once(plan))
                yield "", "\n".join(rows_of)
            case PlanRevised(action=action, plan=plan):
                words = f"↻ {self._of(event).removesuffix(': ') or 'the plan'} {REVISED[action]}"
                why = one_line(event.because, 400)
                yield "magenta", words + (f" — {why}" if why else "")
                fresh = [step for step in (plan.steps if plan else ()) if step.id not in before]
                if fresh:
                    yield "", "\n".join(rows(fresh, width, most=most))
            case RevisionFailed(because=because):
                yield "magenta", f"↻ {self._of(event)}no revision — {one_line(because, 400)}"
            case UserSaid():
                yield from self._wished(event)
            case RunResumed(attempt=attempt, again=again, changed=changed):
                yield "magenta", f"↻ resumed (attempt {attempt}): {self.progress}"
                for id in again:
                    yield "magenta", f"↻ {one_line(id, 60)} is done again"
                if changed and self._level == "verbose":
                    yield "dim", f"    changed since: {one_line(' '.join(changed), 400)}"
            case _:
                assert_never(event)

    @property
    def progress(self) -> str:
        """`3 of 5 steps done`, counting what ended as it should."""
        listed = [step for step in self.state.listed if not step.group]
        fine = sum(map(self.state.fine, (step.id for step in listed)))
        return f"{fine} of {counted(len(listed), 'step')} done"

    def _end(self, event: RunFinished) -> tuple[str, str]:
        style, sign = SIGNS[event.status]
        words = [
            f"{WORDS.get(event.status, event.status)} in {figures.took(event.seconds)}",
            self.progress,
            figures.tokens(event.usage.total),
            figures.money(event.cost_usd),
        ]
        return f"bold {style}", f"{sign} {' · '.join(words)}"

    def _called(self, event: ToolStarted | ToolFinished) -> Iterator[tuple[str, str]]:
        key = (step_of(event), event.id)
        if isinstance(event, ToolStarted):
            self._asked[key] = event
            return
        asked = self._asked.pop(key, None)
        step = self.state.steps.get(step_of(event))
        check = step is not None and asked is not None and asked.input == {"command": step.verify}
        itself = step is not None and step.run is not None and self._level != "verbose"
        if self._level == "quiet" or self._brief or (itself and not check):
            return
        words = gist(event.name, asked.input if asked else {}, max(self._width() * 3 // 5, 20))
        if check:
            words = f"check {words.removeprefix(event.name).strip()}"
        came = hint(event, 120)
        yield (
            "dim" if event.ok else "red",
            f"    {self._of(event)}{words}{' → ' if event.ok else ' ✗ '}{came}",
        )

    def _more(self, event: Event) -> Iterator[tuple[str, str]]:
        """What only `verbose` tells."""
        if self._level != "verbose":
            return
        match event:
            case ModelCalled(model=model, usage=usage, cost_usd=cost, seconds=seconds):
                words = [one_line(model, 60), figures.took(seconds), figures.tokens(usage.total)]
                yield "dim", f"    {self._of(event)}{' · '.join([*words, figures.money(cost)])}"
            case Text(text=text):
                yield "dim", f"    {self._of(event)}“{one_line(text, 400)}”"
            case PermissionDecided(tool=tool, by=by):
                yield "dim", f"    {self._of(event)}{one_line(tool, 60)} was allowed (by {by})"
            case _:
                pass


def how_failed(text: str) -> str:
    """The line that says most of a failure: how a command ended and its last words, or the first
    of other words."""
    lines = tail(text, 2)
    if lines and lines[-1].startswith(("exit code", "time ran out")):
        return ": ".join(reversed(lines))
    return text


def tail(text: str, count: int) -> Sequence[str]:
    """The last `count` lines that hold something, safe."""
    return [line for line in safe(text).split("\n") if line.strip()][-count:]


def between(first: str, last: str) -> float:
    """Seconds from one event's time to another's; 0 where they are not known."""
    with suppress(ValueError):
        return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    return 0.0

"""The steps that are under way or to come, as rows: what each does now, or waits for.

What has ended is not among them: it has been printed. Where there are more steps than rows, the
running ones are shown first and the rest is counted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from agent.event import (
    Event,
    PermissionAsked,
    PermissionDecided,
    PlanRevised,
    RevisionFailed,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    ToolFinished,
    ToolStarted,
    step_of,
)
from agent.job import Revise, Standing
from agent.plan import Step
from agent.state import State
from agent.views import figures
from agent.views.gist import gist
from agent.views.plain import cells, cut, one_line, padded
from agent.views.plan_text import Style, depth, does, unstyled

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
SIGNS: Mapping[Standing, tuple[str, str]] = {
    "waiting": ("dim", "·"),
    "running": ("cyan", "▸"),
    "done": ("green", "✓"),
    "failed": ("red", "✗"),
    "skipped": ("dim", "↷"),
    "cancelled": ("yellow", "⊘"),
}
THINKS = "thinks"
WORDS = 400  # characters that are kept of what an agent says
MOST_ROWS = 20
MOST_WAITING = 6  # of these rows
NARROW, VERY_NARROW = 60, 36  # columns; below, tokens and then times are left out


class Layout(Struct, frozen=True, kw_only=True):
    """What the rows show but for times: worked out after an event, not for every frame."""

    steps: tuple[Step, ...] = ()  # in the plan's order
    rest: str = ""  # the count of those for which there is no room
    heading: tuple[str, ...] = ()
    parts: Mapping[str, str] = {}  # of a running group: how many of its parts have ended


class Tree:
    """Remembers what a state does not: when things began, by `clock`, and what agents do now."""

    def __init__(self, styled: Style, clock: Callable[[], float], *, frames: str = FRAMES) -> None:
        self._styled, self._clock, self._frames = styled, clock, frames
        self._began: dict[str, float] = {"": clock()}
        self._doing: dict[str, str] = {}
        self._said: dict[str, str] = {}  # the end of what an agent is writing
        self._revising = ""  # the step about whose failure the planner is asked
        self._layout: tuple[int, Layout] | None = None  # for that many rows

    def take(self, event: Event, state: State) -> None:
        """Take in an event; `state` has taken it in already."""
        id = step_of(event)
        self._layout = None
        if not isinstance(event, TextDelta):
            self._said.pop(id, None)
        match event:
            case RunStarted() | RunResumed():
                self._began, self._doing = {"": self._clock()}, {}
            case StepStarted():
                self._began[id] = self._clock()
                self._doing[id] = self._at_rest(id, state)
            case ToolStarted(name=name, input=input):
                self._doing[id] = gist(name, input, WORDS)
            case ToolFinished() | PermissionDecided():
                self._doing[id] = self._at_rest(id, state)
            case PermissionAsked(tool=tool):
                self._doing[id] = f"asks you about {one_line(tool, 40)}"
            case Text(text=text):
                self._doing[id] = one_line(text, WORDS)
            case TextDelta(text=text):
                self._said[id] = (self._said.get(id, "") + text)[-WORDS:]
                self._doing[id] = one_line(_last(self._said[id]), WORDS) or THINKS
            case StepFinished() | PlanRevised() | RevisionFailed():
                self._doing.pop(id, None)
                self._revise(state)
            case _:
                pass

    def _at_rest(self, id: str, state: State) -> str:
        """What a step does while it uses no tool."""
        step = state.steps.get(id)
        return does(step, WORDS) if step and step.run else THINKS

    def _revise(self, state: State) -> None:
        job = next(state.jobs(), None)  # a revision stands first
        self._revising = job.step.id if isinstance(job, Revise) else ""
        if self._revising:
            self._began[self._revising] = self._clock()

    def rows(self, state: State, width: int, height: int) -> list[str]:
        """At most `height` rows of at most `width` columns: a heading, then steps."""
        most = max(min(height, MOST_ROWS, max(height * 2 // 3, 6)) - 1, 1)
        if self._layout is None or self._layout[0] != most:
            self._layout = most, self._laid_out(state, most)
        layout = self._layout[1]
        names = [2 * depth(step, state.steps) + cells(step.id) for step in layout.steps]
        wide = min(max(names, default=0), max(width // 3, 8))
        passed = figures.clock(self._clock() - self._began[""])
        heading = " · ".join([f"{self._frame()} {layout.heading[0]}", passed, *layout.heading[1:]])
        rows = [self._styled("bold", cut(heading, width))]
        rows += [self._row(step, state, wide, width) for step in layout.steps]
        if layout.rest:
            rows.append(self._styled("dim", cut(f"  … {layout.rest}", width)))
        return rows

    def _laid_out(self, state: State, most: int) -> Layout:
        listed = state.listed
        open = [step for step in listed if self._shown(step, state)]
        shown, rest = open, ""
        waiting = sum(state.standing(step.id) == "waiting" for step in open)
        if waiting > MOST_WAITING or len(open) > most:
            room = max(min(most - 1, len(open) - waiting + MOST_WAITING), 0)
            best = sorted(open, key=lambda step: self._rank(step, state))[:room]
            chosen = {step.id for step in best}
            shown = [step for step in open if step.id in chosen]
            rest = self._rest([step for step in open if step.id not in chosen], state)
        ends: dict[str, list[bool]] = {}
        for step in listed:
            ends.setdefault(step.part_of, []).append(self._ended(step.id, state))
        return Layout(
            steps=tuple(shown),
            rest=rest,
            heading=tuple(self._heading(listed, state)),
            parts={id: f"{sum(of)} of {len(of)} ended" for id, of in ends.items()},
        )

    def _ended(self, id: str, state: State) -> bool:
        return state.standing(id) not in {"running", "waiting"} and id != self._revising

    def _shown(self, step: Step, state: State) -> bool:
        inside = step.part_of in state.steps
        if inside and state.standing(step.part_of) != "running" and step.id != self._revising:
            return False
        return not self._ended(step.id, state)

    def _rank(self, step: Step, state: State) -> tuple[int, int]:
        """What is shown first where there is no room for all."""
        if state.standing(step.id) == "waiting":
            return 2, len(self._awaited(step, state))
        return (0, depth(step, state.steps)) if step.group else (1, 0)

    def _rest(self, steps: Sequence[Step], state: State) -> str:
        running = sum(state.standing(step.id) == "running" for step in steps)
        counts = ((running, "running"), (len(steps) - running, "waiting"))
        return ", ".join(f"{count} more {word}" for count, word in counts if count)

    def _heading(self, listed: Sequence[Step], state: State) -> Iterator[str]:
        steps = [step.id for step in listed if not step.group]
        ended = [id for id in steps if self._ended(id, state)]
        yield f"{len(ended)}/{len(steps)}"
        if bad := sum(state.standing(id) == "failed" and not state.fine(id) for id in ended):
            yield f"{bad} failed"
        if state.usage.total:
            yield figures.tokens(state.usage.total)
            yield figures.money(state.cost_usd)

    def _frame(self) -> str:
        return self._frames[int(self._clock() * 8) % len(self._frames)]

    def _row(self, step: Step, state: State, wide: int, width: int) -> str:
        standing = state.standing(step.id)
        indent = "  " * depth(step, state.steps)
        name = padded(indent + one_line(step.id, wide), wide)
        if standing == "waiting":
            waits = ", ".join(self._awaited(step, state))
            words = f"waits for {waits}" if waits else "waits its turn"
            return self._styled("dim", cut(f"  · {name}  {words}", width))
        style, sign = ("cyan", self._frame()) if standing == "running" else ("yellow", "↻")
        used = self._numbers(step, state, width)
        room = max(width - wide - cells(used) - 6, 0)
        doing = cut(self._words(step, state, standing), room)
        return f"  {self._styled(style, sign)} {name}{used}  {doing}"

    def _numbers(self, step: Step, state: State, width: int) -> str:
        if width < VERY_NARROW:
            return ""
        began = self._began.get(step.id, self._began[""])
        numbers = f"  {figures.clock(self._clock() - began):>6}"
        if width < NARROW:
            return numbers
        spent = state.spent.get(step.id)
        return numbers + f"  {figures.tokens(spent.total) if spent else '':>8}"

    def _words(self, step: Step, state: State, standing: str) -> str:
        if standing != "running":
            return "failed; the planner is asked how to go on"
        if step.group:
            return self._layout[1].parts.get(step.id, "") if self._layout else ""
        number = state.tries.get(step.id, 1)
        return (f"attempt {number} · " if number > 1 else "") + self._doing.get(step.id, "")

    def _awaited(self, step: Step, state: State) -> list[str]:
        return [one_line(id, 40) for id in step.after if not self._ended(id, state)]


def _last(text: str) -> str:
    """The line that is being written, or the one before while it is still empty."""
    return next((line for line in reversed(text.split("\n")) if line.strip()), "")


def whole(state: State, width: int, *, styled: Style = unstyled) -> Iterator[str]:
    """Every step of a run, parts under their group: how it stands, and what came of it, or what it
    waits for."""
    names = [2 * depth(step, state.steps) + cells(step.id) for step in state.listed]
    wide = min(max(names, default=0), max(width // 3, 8))
    for step in state.listed:
        style, sign = SIGNS[state.standing(step.id)]
        indent = "  " * depth(step, state.steps)
        spent = state.spent.get(step.id)
        used = [
            figures.took(state.seconds[step.id]) if step.id in state.seconds else "",
            figures.tokens(spent.total) if spent else "",
        ]
        words = " · ".join(filter(None, [*used, _outcome(step, state)]))
        name = padded(indent + one_line(step.id, wide), wide)
        yield styled(style, cut(f"  {sign} {name}  {words}", width - 1).rstrip())


def _outcome(step: Step, state: State) -> str:
    standing = state.standing(step.id)
    if standing == "waiting":
        needs = ", ".join(one_line(id, 40) for id in step.after)
        return f"needs {needs}" if needs else does(step, WORDS)
    if standing == "running":
        return does(step, WORDS)
    return one_line(state.failure(step.id), WORDS)

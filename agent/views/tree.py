"""The steps that are under way or to come, as rows: what each does now, or waits for.

What has ended is not among them: it has been printed. Where there are more steps than rows, the
running ones are shown first and the rest is counted.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from msgspec import Struct

from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionAsked,
    PermissionDecided,
    PlanCreated,
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
    UserSaid,
    step_of,
)
from agent.job import Revise, Standing
from agent.plan import Step
from agent.state import State
from agent.views import figures
from agent.views.gist import gist
from agent.views.graph import reason
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
LONGEST = "┃"  # before the steps on the path that takes longest
DEEPEST = 5  # levels of lanes
FEW = 3  # copies of a step by which the others are expected to take
PASSING = (ModelCalled, TextDelta, Text, ToolStarted, ToolFinished, PermissionAsked, Notice)
THINKS = "thinks"
WORDS = 400  # characters that are kept of what an agent says
MOST_ROWS = 20
MOST_WAITING = 6  # of these rows
NARROW, VERY_NARROW = 60, 36  # columns; below, tokens and then times are left out


class Row(Struct, frozen=True, kw_only=True):
    """A step in its lane."""

    step: Step
    deep: int = 0
    linked: bool = False  # it stands under one that it waits for
    longest: bool = False  # it is on the path that takes longest
    waits: str = ""


class Layout(Struct, frozen=True, kw_only=True):
    """What the rows show but for times: worked out after an event, not for every frame."""

    rows: tuple[Row, ...] = ()
    rest: str = ""  # the count of those for which there is no room
    counts: tuple[str, ...] = ()  # how many have ended, and how many of them badly
    parts: Mapping[str, str] = {}  # of a running group: how many of its parts have ended
    end: float | None = None  # when all will have ended, by the clock; None: not known


Past: TypeAlias = Callable[[State], Mapping[str, float]]
"""How many seconds the steps of a run have taken in earlier runs of the same, as far as known."""


def unknown(state: State) -> Mapping[str, float]:
    """A Past of which nothing is known."""
    return {}


class Tree:
    """Remembers what a state does not: when things began, by `clock`, and what agents do now."""

    def __init__(self, styled: Style, clock: Callable[[], float], *, frames: str = FRAMES) -> None:
        self._styled, self._clock, self._frames = styled, clock, frames
        self._began: dict[str, float] = {"": clock()}
        self._doing: dict[str, str] = {}
        self._called: dict[str, str] = {}  # the last call of an agent
        self._said: dict[str, str] = {}  # the end of what an agent is writing
        self.past: Past = unknown
        self.workers = 1
        self._past: Mapping[str, float] = {}
        self._replanning = False  # whether the user has asked for another plan
        self._revising = ""  # the step about whose failure the planner is asked
        self._layout: tuple[int, Layout] | None = None  # for that many rows

    def take(self, event: Event, state: State) -> None:
        """Take in an event; `state` has taken it in already."""
        id = step_of(event)
        if not isinstance(event, PASSING):
            self._layout = None
        if not isinstance(event, TextDelta):
            self._said.pop(id, None)
        match event:
            case RunStarted() | RunResumed() | PlanCreated():
                self._begin(event, state)
            case StepStarted():
                self._began[id] = self._clock()
                self._called.pop(id, None)
                self._doing[id] = self._at_rest(id, state)
            case ToolFinished() | PermissionDecided():
                self._doing[id] = self._at_rest(id, state)
            case StepFinished() | PlanRevised() | RevisionFailed():
                self._doing.pop(id, None)
                self._revise(state)
            case UserSaid():
                if event.wish != "tell" and id in self._doing:
                    self._doing[id] = "is being ended"
                self._revise(state)
            case _:
                if words := self._now(event, id):
                    self._doing[id] = words

    def _begin(self, event: RunStarted | RunResumed | PlanCreated, state: State) -> None:
        if not isinstance(event, PlanCreated):
            self._began, self._doing = {"": self._clock()}, {}
        self._past = {} if isinstance(event, RunStarted) else self.past(state)

    def _now(self, event: Event, id: str) -> str:
        """What an event says that a step does now; "" where it says nothing of that."""
        match event:
            case ToolStarted(name=name, input=input):
                self._called[id] = gist(name, input, WORDS)
                return self._called[id]
            case PermissionAsked(tool=tool):
                return f"asks you about {one_line(tool, 40)}"
            case Text(text=text):
                return one_line(text, WORDS)
            case TextDelta(text=text):
                self._said[id] = (self._said.get(id, "") + text)[-WORDS:]
                return one_line(_last(self._said[id]), WORDS) or THINKS
            case _:
                return ""

    def _at_rest(self, id: str, state: State) -> str:
        """What a step does while it uses no tool."""
        step = state.steps.get(id)
        if step and step.run:
            return does(step, WORDS)
        last = self._called.get(id, "")
        return f"{THINKS} · {last}" if last else THINKS

    def _revise(self, state: State) -> None:
        job = next(state.jobs(), None)  # a revision stands first
        self._revising = job.step.id if isinstance(job, Revise) else ""
        self._replanning = isinstance(job, Revise) and not job.step.id
        if self._revising:
            self._began[self._revising] = self._clock()

    def rows(self, state: State, width: int, height: int) -> list[str]:
        """At most `height` rows of at most `width` columns: a heading, then steps."""
        most = max(min(height, MOST_ROWS, max(height * 2 // 3, 6)) - 1, 1)
        if self._layout is None or self._layout[0] != most:
            self._layout = most, self._laid_out(state, most)
        layout = self._layout[1]
        names = [2 * (row.deep + (not row.linked)) + cells(row.step.id) for row in layout.rows]
        wide = min(max(names, default=0), max(width // 3, 10))
        heading = f"{self._frame()} {' · '.join(self._heading(layout, state))}"
        rows = [self._styled("bold", cut(heading, width))]
        rows += [self._row(row, state, wide, width) for row in layout.rows]
        if layout.rest:
            rows.append(self._styled("dim", cut(f"  … {layout.rest}", width)))
        return rows

    def _laid_out(self, state: State, most: int) -> Layout:
        listed, blockers = state.listed, state.blockers()
        open = [step for step in listed if self._shown(step, state)]
        shown, rest = open, ""
        waiting = sum(state.standing(step.id) == "waiting" for step in open)
        if waiting > MOST_WAITING or len(open) > most:
            room = max(min(most - 1, len(open) - waiting + MOST_WAITING), 0)
            best = sorted(open, key=lambda step: self._rank(step, state, blockers))[:room]
            chosen = {step.id for step in best}
            shown = [step for step in open if step.id in chosen]
            rest = self._rest([step for step in open if step.id not in chosen], state)
        ends: dict[str, list[bool]] = {}
        for step in listed:
            ends.setdefault(step.part_of, []).append(self._ended(step.id, state))
        left = self._left(state, blockers)
        return Layout(
            rows=tuple(self._arranged(shown, state, blockers)),
            rest=rest,
            counts=tuple(self._counts(listed, state)),
            parts={id: f"{sum(of)} of {len(of)} ended" for id, of in ends.items()},
            end=None if left is None else self._clock() + left,
        )

    def _arranged(
        self, shown: Sequence[Step], state: State, blockers: Mapping[str, Sequence[str]]
    ) -> Iterator[Row]:
        """The steps as lanes: parts under their group, what waits under the last that it waits
        for."""
        there = {step.id for step in shown}
        below: dict[str, list[Step]] = {}
        linked = set[str]()
        for step in shown:
            before = [id for id in blockers.get(step.id, ()) if id in there]
            if before:
                linked.add(step.id)
            above = before[-1] if before else step.part_of if step.part_of in there else ""
            below.setdefault(above, []).append(step)
        path = self._longest(state, blockers)
        stack = [(step, 0) for step in reversed(below.get("", ()))]
        while stack:
            step, deep = stack.pop()
            waits = (
                "" if state.standing(step.id) != "waiting" else self._waits(step, state, blockers)
            )
            yield Row(
                step=step,
                deep=deep,
                linked=step.id in linked,
                longest=step.id in path,
                waits=waits,
            )
            behind = sorted(below.get(step.id, ()), key=lambda each: each.id in linked)
            stack += [(each, min(deep + 1, DEEPEST)) for each in reversed(behind)]

    def _longest(self, state: State, blockers: Mapping[str, Sequence[str]]) -> Collection[str]:
        """The open steps, one waiting for the other, that take longest together, by what is known
        of all of them, else by their number; none where nothing else is open."""
        open = [step.id for step in state.top if not self._ended(step.id, state)]
        known = {id: self._expected(state.steps[id], state) for id in open}
        sure = all(seconds is not None for seconds in known.values())
        behind: dict[str, list[str]] = {}
        for id in open:
            for one in blockers.get(id, ()):
                behind.setdefault(one, []).append(id)
        left, after = dict[str, float](), dict[str, str]()
        for id in reversed(_in_order(open, blockers)):
            then = max(behind.get(id, ()), key=lambda one: left.get(one, 0.0), default="")
            after[id] = then
            left[id] = (known[id] or 0.0 if sure else 1.0) + left.get(then, 0.0)
        path = list[str]()
        at = max(left, key=lambda id: left[id], default="")
        while at:
            path.append(at)
            at = after[at]
        return path if 1 < len(path) < len(open) else ()

    def _waits(self, step: Step, state: State, blockers: Mapping[str, Sequence[str]]) -> str:
        """What a step waits for, in words."""
        before = blockers.get(step.id, ())
        needed = [one_line(id, 40) for id in step.after if not self._ended(id, state)]
        if needed:
            return f"waits for {', '.join(needed)}"
        if before:
            other = before[-1]
            return f"after {one_line(other, 40)}: {reason(step, state.steps[other])}"
        for name, id in state.holders(step).items():
            return f"waits for {one_line(name, 40)}, which {one_line(id, 40)} holds"
        return "waits its turn"

    def _expected(self, step: Step, state: State) -> float | None:
        """Seconds that a step takes, by earlier runs or by other copies of it; None: not known."""
        if step.id in self._past:
            return self._past[step.id]
        parent = state.steps.get(step.part_of)
        if parent is None or not parent.foreach:
            return None
        took = [state.seconds[one.id] for one in state.parts(parent.id) if state.fine(one.id)]
        return sum(took) / len(took) if len(took) >= FEW else None

    def _left(self, state: State, blockers: Mapping[str, Sequence[str]]) -> float | None:
        """Seconds until all has ended, if each open step takes as long as it is known to; None
        where that is not known of one of them."""
        open = [step for step in state.listed if not self._ended(step.id, state)]
        if (
            not open
            or self._revising
            or any(step.group and state.standing(step.id) == "waiting" for step in open)
        ):
            return None
        seconds = dict[str, float]()
        for step in open:
            took = 0.0 if step.group else self._expected(step, state)
            if took is None:
                return None
            if state.standing(step.id) == "running" and not step.group:
                took -= self._clock() - self._began.get(step.id, self._began[""])
                if took < 0:  # it has taken longer than it should, nobody knows how much
                    return None
            seconds[step.id] = took
        before = {step.id: list(blockers.get(step.id, ())) for step in open}
        for step in open:
            if step.part_of in before:
                before[step.part_of].append(step.id)
        return _played([step.id for step in open], before, seconds, self.workers)

    def _ended(self, id: str, state: State) -> bool:
        return state.standing(id) not in {"running", "waiting"} and id != self._revising

    def _shown(self, step: Step, state: State) -> bool:
        inside = step.part_of in state.steps
        if inside and state.standing(step.part_of) != "running" and step.id != self._revising:
            return False
        return not self._ended(step.id, state)

    def _rank(
        self, step: Step, state: State, blockers: Mapping[str, Sequence[str]]
    ) -> tuple[int, int]:
        """What is shown first where there is no room for all."""
        if state.standing(step.id) == "waiting":
            return 2, len(blockers.get(step.id, ()))
        return (0, depth(step, state.steps)) if step.group else (1, 0)

    def _rest(self, steps: Sequence[Step], state: State) -> str:
        running = sum(state.standing(step.id) == "running" for step in steps)
        counts = ((running, "running"), (len(steps) - running, "waiting"))
        return ", ".join(f"{count} more {word}" for count, word in counts if count)

    def _counts(self, listed: Sequence[Step], state: State) -> Iterator[str]:
        steps = [step.id for step in listed if not step.group]
        ended = [id for id in steps if self._ended(id, state)]
        yield f"{len(ended)}/{len(steps)}"
        if bad := sum(state.standing(id) == "failed" and not state.fine(id) for id in ended):
            yield f"{bad} failed"

    def _heading(self, layout: Layout, state: State) -> Iterator[str]:
        yield layout.counts[0]
        yield figures.clock(self._clock() - self._began[""])
        left = 0.0 if layout.end is None else layout.end - self._clock()
        if left >= 1:
            yield f"about {figures.clock(left)} left"
        yield from layout.counts[1:]
        if state.usage.total:
            yield figures.tokens(state.usage.total)
            yield figures.money(state.cost_usd)
        if self._replanning:
            yield "the planner is asked for another plan"

    def _frame(self) -> str:
        return self._frames[int(self._clock() * 8) % len(self._frames)]

    def _row(self, row: Row, state: State, wide: int, width: int) -> str:
        step = row.step
        standing = state.standing(step.id)
        mark = self._styled("magenta", LONGEST) if row.longest else " "
        lead = "  " * row.deep
        if standing == "waiting":
            sign = "└ " if row.linked else "· "
            lead = lead[2:] if row.linked else lead
            name = padded(lead + sign + one_line(step.id, wide), wide)
            return f"{mark} {self._styled('dim', cut(f'{name}  {row.waits}', width - 2))}"
        style, sign = ("cyan", self._frame()) if standing == "running" else ("yellow", "↻")
        name = padded(one_line(step.id, wide), wide - len(lead) - 2)
        used = self._numbers(step, state, width)
        room = max(width - wide - cells(used) - 4, 0)
        doing = cut(self._words(step, state, standing), room)
        return f"{mark} {lead}{self._styled(style, sign)} {name}{used}  {doing}".rstrip()

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


def _last(text: str) -> str:
    """The line that is being written, or the one before while it is still empty."""
    return next((line for line in reversed(text.split("\n")) if line.strip()), "")


def _in_order(ids: Sequence[str], before: Mapping[str, Sequence[str]]) -> list[str]:
    """The ids, each behind those of them that are before it."""
    place = {id: n for n, id in enumerate(ids)}
    unmet = {id: sum(one in place for one in before.get(id, ())) for id in ids}
    behind: dict[str, list[str]] = {}
    for id in ids:
        for one in before.get(id, ()):
            behind.setdefault(one, []).append(id)
    line = [id for id in ids if not unmet[id]]
    for id in line:
        for other in behind.get(id, ()):
            unmet[other] -= 1
            if not unmet[other]:
                line.append(other)
    return line


def _played(
    ids: Sequence[str],
    before: Mapping[str, Sequence[str]],
    seconds: Mapping[str, float],
    workers: int,
) -> float:
    """When the last of the steps ends, if that many are done at once, in this order."""
    ends = dict[str, float]()
    free = [0.0] * workers
    for id in _in_order(ids, before):
        ready = max((ends[one] for one in before.get(id, ()) if one in ends), default=0.0)
        if not seconds[id]:
            ends[id] = ready
            continue
        ends[id] = max(heappop(free), ready) + seconds[id]
        heappush(free, ends[id])
    return max(ends.values(), default=0.0)


def whole(state: State, width: int, *, styled: Style = unstyled) -> Iterator[str]:
    """Every step of a run, parts under their group: how it stands, and what came of it, or what it
    waits for."""
    names = [2 * depth(step, state.steps) + 2 + cells(step.id) for step in state.listed]
    wide = min(max(names, default=0), max(width // 3, 10))
    for step in state.listed:
        style, sign = SIGNS[state.standing(step.id)]
        lead = "  " * depth(step, state.steps) + f"{sign} "
        spent = state.spent.get(step.id)
        used = [
            figures.took(state.seconds[step.id]) if step.id in state.seconds else "",
            figures.tokens(spent.total) if spent else "",
        ]
        words = " · ".join(filter(None, [*used, _outcome(step, state)]))
        name = padded(lead + one_line(step.id, wide), wide)
        yield styled(style, cut(f"  {name}  {words}", width - 1).rstrip())


def _outcome(step: Step, state: State) -> str:
    standing = state.standing(step.id)
    if standing == "waiting":
        needs = ", ".join(one_line(id, 40) for id in step.after)
        return f"needs {needs}" if needs else does(step, WORDS)
    if standing == "running":
        return does(step, WORDS)
    text = state.failure(step.id)
    if step.run is not None:  # of a command the last line says most
        text = text.rstrip().rpartition("\n")[2]
    return one_line(text, WORDS)

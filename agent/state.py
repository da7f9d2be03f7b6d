"""A run as it stands: the fold of its events, and what it asks for next.

Steps stand in levels: a step that is a skill, or a `foreach`, is a group, done by its parts. A
group begins when its needs are met, which opens its parts, and ends when they all have.
Whatever follows from what has happened (a skipped step, a group's beginning and end) is itself an
event: `due` tells it, and it counts once it has been applied.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, TypeAlias, assert_never

import msgspec
from msgspec import Struct, structs

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
    Status,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    ToolFinished,
    ToolStarted,
    step_of,
)
from agent.message import Usage
from agent.order import order
from agent.plan import Plan, Step
from agent.when import holds

MOST_REVISIONS = 3  # of a run
MOST_COPIES = 1000  # of one foreach

Standing: TypeAlias = Status | Literal["running", "waiting"]


class Told(Struct, frozen=True, kw_only=True):
    """What a step is told of a step that it needs."""

    id: str
    status: Standing
    text: str
    outputs: tuple[str, ...]


class Attempt(Struct, frozen=True, kw_only=True):
    """A job: try a step. Holds all that its worker needs to know."""

    step: Step
    number: int  # from 1, over all revisions
    goal: str
    results: tuple[Told, ...]  # of the steps it waited for
    steps: tuple[Step, ...]  # the plan
    failure: str = ""  # how the attempt before has failed
    cut_off: bool = False  # the attempt before was interrupted: what it did is not known


class Revise(Struct, frozen=True, kw_only=True):
    """A job: decide what becomes of a plan, one of whose steps has failed for good."""

    step: Step
    failure: str
    goal: str
    steps: tuple[Step, ...]
    standing: Mapping[str, Standing]
    kept: tuple[Step, ...]  # what a replacing plan keeps


Job: TypeAlias = Attempt | Revise


class State:
    """The only thing of a run that changes. One thread owns it; only `apply` changes it.

    >>> State.of([]).over
    True
    """

    def __init__(self) -> None:
        self.run: str | None = None
        self.goal = ""
        self.cwd = ""
        self.model = ""
        self.began = ""  # time of the first event
        self.resumed = 1  # how often it was begun
        self.steps: dict[str, Step] = {}  # in plan order; copies and parts behind their group
        self.status: dict[str, Standing] = {}  # of the steps that have begun or ended
        self.tries: dict[str, int] = {}  # attempts begun
        self.text: dict[str, str] = {}
        self.error: dict[str, str] = {}  # how a step failed, where its text does not say it
        self.outputs: dict[str, tuple[str, ...]] = {}
        self.seconds: dict[str, float] = {}  # of the last attempt
        self.spent: dict[str, Usage] = {}  # of a step, all attempts
        self.usage = Usage()
        self.cost_usd: float | None = 0.0  # None once a price is unknown
        self.revisions = 0
        self.denials: list[PermissionDecided] = []
        self.refused: set[str] = set()  # steps that were denied what nobody could be asked about
        self.finished: RunFinished | None = None
        self._abandoned = False
        self._skips: dict[str, Literal["when", "need", "revision"]] = {}  # why a step was skipped
        self._left: dict[str, int] = {}  # attempts that a step still has
        self._settled: set[str] = set()  # ended for good
        self._unmet: dict[str, int] = {}  # how many of what a step waits for are to come
        self._behind: dict[str, list[str]] = {}  # the steps that wait for a step
        self._parts: dict[str, list[str]] = {}  # of a group
        self._rank: dict[str, tuple[int, int]] = {}  # what starts first: most steps behind it
        self._ready: list[tuple[tuple[int, int], str]] = []  # may be tried now, best first
        self._broken: dict[str, None] = {}  # out of attempts, oldest first
        self._due: dict[str, StepStarted | StepFinished] = {}
        self._held: dict[str, tuple[str, ...]] = {}  # what running steps hold exclusively

    @classmethod
    def of(cls, events: Iterable[Event]) -> "State":
        """Read a run back from its log; what a live run holds and what this returns are equal."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    # -- what is asked of it -----------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether there is nothing left to begin."""
        return not (self._ready or self._broken or self._due)

    def due(self) -> Event | None:
        """What follows from what has happened and is yet to be recorded, one at a time."""
        return next(iter(self._due.values()), None)

    def jobs(self) -> Iterator[Job]:
        """All that may be done now, best first, a revision under way included. Begins nothing.

        One revision at a time: the next failure is judged by the plan that the last one left.
        """
        for id in islice(self._broken, 1):
            yield Revise(
                step=self.steps[id],
                failure=self.failure(id),
                goal=self.goal,
                steps=tuple(self.steps.values()),
                standing={id: self.standing(id) for id in self.steps},
                kept=tuple(self._kept(id).values()),
            )
        held = {name for names in self._held.values() for name in names}
        plan: tuple[Step, ...] = ()
        for _, id in self._ready:
            step = self.steps[id]
            if not held.isdisjoint(step.exclusive):
                continue
            held.update(step.exclusive)
            plan = plan or tuple(self.steps.values())
            yield self._attempt(step, plan)

    def _attempt(self, step: Step, plan: tuple[Step, ...]) -> Attempt:
        waited = step.after
        if step.part_of in self.steps:  # its group's needs are its own
            waited = tuple(dict.fromkeys((*self.steps[step.part_of].after, *waited)))
        return Attempt(
            step=step,
            number=self.tries.get(step.id, 0) + 1,
            goal=self.goal,
            results=tuple(
                Told(
                    id=id,
                    status=self.standing(id),
                    text=self.text.get(id, ""),
                    outputs=self.outputs.get(id, ()),
                )
                for id in waited
                if id in self.steps
            ),
            steps=plan,
            failure=self.failure(step.id) if self.standing(step.id) == "failed" else "",
            cut_off=self.status.get(step.id) in {"running", "cancelled"},
        )

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
    def outcome(self) -> Literal["done", "partial", "failed"]:
        """How the run ended, if nothing stopped it."""
        ids = [step.id for step in self.top]
        if ids and all(map(self.fine, ids)):
            return "done"
        return "partial" if any(self.standing(id) == "done" for id in self.steps) else "failed"

    @property
    def answer(self) -> str:
        """The texts of the steps that nothing needs, and a line for each step not done."""
        return self._answer(self.top)

    def _answer(self, steps: list[Step]) -> str:
        needed = {need for step in steps for need in step.after}
        ends = [
            self.text.get(step.id, "").strip()
            for step in steps
            if step.id not in needed and self.standing(step.id) == "done"
        ]
        return "\n\n".join([*filter(None, ends), *self._undone(steps)])

    def _undone(self, steps: list[Step]) -> Iterator[str]:
        lines = [
            f"{step.id}: {self._words(step.id)}"
            for step in steps
            if self.standing(step.id) != "done" and self._skips.get(step.id) != "when"
        ]
        if lines:
            yield "\n".join(lines)

    def _words(self, id: str) -> str:
        """How a step that is not done stands, in a line or the last lines of its text."""
        standing, text = self.standing(id), self.failure(id).strip()
        if standing == "skipped":
            return text or "skipped"
        if standing == "waiting":
            return "not begun"
        return f"{standing}: {text[-2000:]}" if text else standing

    # -- the fold ----------------------------------------------------------------------------

    def apply(self, event: Event) -> None:  # noqa: C901 - one case an event, each a line or two
        """Take in what happened. The same events in the same order make the same state."""
        self.run = event.run or self.run
        self.began = self.began or event.time
        match event:
            case RunStarted(goal=goal, cwd=cwd, model=model):
                self.goal, self.cwd, self.model = goal, cwd, model
            case RunResumed(attempt=attempt):
                self.resumed, self.finished = attempt, None
                self._reopen()
            case PlanCreated(plan=plan):
                self.goal = plan.goal or self.goal
                self._take(plan.steps)
                self._rebuild()
            case StepStarted():
                self._start(step_of(event))
            case StepFinished():
                self._finish(step_of(event), event)
            case PlanRevised():
                self._revise(step_of(event), event)
            case RevisionFailed():
                self._give_up(step_of(event))
            case ModelCalled(usage=usage, cost_usd=cost):
                self.usage += usage
                id = step_of(event)
                self.spent[id] = self.spent.get(id, Usage()) + usage
                both_known = cost is not None and self.cost_usd is not None
                self.cost_usd = (self.cost_usd or 0) + (cost or 0) if both_known else None
            case PermissionDecided(decision="deny", by=by):
                self.denials.append(event)
                if by == "nobody":
                    self.refused.add(step_of(event))
            case RunFinished():
                self.finished = event
            case (
                Text() | TextDelta() | ToolStarted() | ToolFinished() | Notice()
                | PermissionAsked() | PermissionDecided()
            ):  # fmt: skip
                pass  # shown, but nothing follows from them
            case _:
                assert_never(event)

    def _take(self, steps: Iterable[Step]) -> None:
        """Add steps; those of a `foreach` that has not begun are what its copies are made from."""
        self.steps |= {step.id: step for step in steps}

    def _rebuild(self) -> None:
        """Work out from steps and statuses what waits for what, and what may begin."""
        self._parts, self._unmet, self._behind = {}, {}, {id: [] for id in self.steps}
        self._ready, self._due, self._rank = [], {}, {}
        for step in self.steps.values():
            self._parts.setdefault(step.part_of if step.part_of in self.steps else "", []).append(
                step.id
            )
        self._lay_out("", 0)

    def _lay_out(self, group: str, behind: int) -> None:
        """Put the parts of a group in order ("" for the whole plan), and theirs."""
        level = [self.steps[id] for id in self._parts.get(group, ())]
        further = order([_with_parts(step, self._below(step.id)) for step in level])
        waits = {step.id: {*step.after} & further.keys() | further[step.id] for step in level}
        self._rank |= _ranks(level, waits, behind, len(self._rank))
        for step in level:
            open = {id for id in waits[step.id] if id not in self._settled}
            for id in open:
                self._behind[id].append(step.id)
            self._unmet[step.id] = len(open)
        for step in level:
            if step.group and step.id in self.status:  # others are laid out when they begin
                self._lay_out(step.id, -self._rank[step.id][0])
        for step in level:
            self._look_at(step.id)

    def _below(self, id: str) -> list[Step]:
        """All steps in a group, at any depth."""
        found = [self.steps[part] for part in self._parts.get(id, ())]
        return found + [step for part in found for step in self._below(part.id)]

    def _look_at(self, id: str) -> None:
        """See whether a step may begin, or end, by what has settled so far."""
        step = self.steps[id]
        if id in self._settled or id in self._broken or self._unmet[id]:
            return
        if step.group and self.status.get(id) == "running":
            if all(part in self._settled for part in self._parts.get(id, ())):
                self._due[id] = self._group_end(step)
        elif self.status.get(id) == "running":
            pass
        elif self._abandoned:
            self._due[id] = StepFinished(
                step=id, status="cancelled", summary="the run was given up"
            )
        elif why := self._hindrance(step):
            self._due[id] = StepFinished(step=id, status="skipped", summary=f"skipped: {why}")
        elif step.group:
            self._due[id] = StepStarted(step=id, attempt=1)
        else:
            insort(self._ready, (self._rank[id], id))

    def _hindrance(self, step: Step) -> str:
        """Why a step is to be skipped, now that all it waits for has settled; "" if it is not."""
        parent = self.steps.get(step.part_of)
        if parent and self.standing(parent.id) != "running":
            return f"{parent.id} {self.standing(parent.id)}"
        for id in step.after:
            if id not in step.asks and not self._met(id):
                return f"{id} {self.standing(id)}"
        if step.when and not holds(step.when, self.status):
            return f"when {step.when}"
        return ""

    def _met(self, id: str) -> bool:
        return self.fine(id) or self._skips.get(id) == "revision"

    def _start(self, id: str) -> None:
        self._due.pop(id, None)
        self.status[id] = "running"
        self.tries[id] = self.tries.get(id, 0) + 1
        step = self.steps.get(id)
        if step is None:
            return
        if step.group:
            if step.foreach:
                self._copy(step)
            self._lay_out(id, -self._rank[id][0])
            self._look_at(id)
            return
        self._left[id] = self._left.get(id, step.tries) - 1
        entry = (self._rank[id], id)
        if entry in self._ready:
            self._ready.remove(entry)
        if step.exclusive:
            self._held[id] = step.exclusive

    def _copy(self, step: Step) -> None:
        """Put the copies of a `foreach` where its pattern stood."""
        pattern = self._below(step.id)
        copies: list[Step] = []
        for number, item in enumerate(items(step, self.text.get(step.source, "")), 1):
            copies += _copies(step, pattern, number, item)
        steps: dict[str, Step] = {}
        dropped = {part.id for part in pattern}
        for one in self.steps.values():
            if one.id not in dropped:
                steps[one.id] = one
            if one.id == step.id:
                steps |= {copy.id: copy for copy in copies}
        self.steps = steps
        self._parts[step.id] = []
        for copy in copies:
            self._parts.setdefault(copy.part_of, []).append(copy.id)
            self._behind.setdefault(copy.id, [])

    def _group_end(self, step: Step) -> StepFinished:
        parts = [self.steps[id] for id in self._parts.get(step.id, ())]
        standings = {self.standing(part.id) for part in parts if not self._met(part.id)}
        status: Status = "done"
        if standings:
            status = "cancelled" if standings == {"cancelled"} else "failed"
        if step.foreach and status == "done":
            text = "\n".join(self.text.get(part.id, "").rstrip("\n") for part in parts)
        else:
            text = self._answer(parts)
        return StepFinished(
            step=step.id,
            status=status,
            summary=text,
            outputs=tuple(path for part in parts for path in self.outputs.get(part.id, ())),
        )

    def _finish(self, id: str, event: StepFinished) -> None:
        self._due.pop(id, None)
        self._held.pop(id, None)
        self.text[id], self.outputs[id] = event.summary, event.outputs
        self.seconds[id] = event.seconds
        self.error[id] = event.error or ""
        step = self.steps.get(id)
        if step is None:  # a revision has dropped it while it was under way
            self.status[id] = event.status
            return
        if event.status == "skipped":
            parent = self._skips.get(step.part_of, "need")
            inherited = step.part_of in self.steps and self.standing(step.part_of) != "running"
            asked = step.when and not self._hindered_by_need(step)
            self._skips[id] = parent if inherited else "when" if asked else "need"
        self.status[id] = event.status
        if event.status == "failed" and not step.group and id not in self.refused:
            if self._left.get(id, 0) > 0 and not self._abandoned:
                insort(self._ready, (self._rank[id], id))
                return
            if self._may_revise(step):
                self._broken[id] = None
                return
        self._settle(id)

    def _hindered_by_need(self, step: Step) -> bool:
        return any(id not in step.asks and not self._met(id) for id in step.after)

    def _may_revise(self, step: Step) -> bool:
        return (
            not step.allow_failure
            and not self._abandoned
            and self.revisions < MOST_REVISIONS
            and any(each.do is not None for each in self.steps.values())
        )

    def _settle(self, id: str) -> None:
        self._settled.add(id)
        for behind in self._behind.get(id, ()):
            self._unmet[behind] -= 1
            self._look_at(behind)
        step = self.steps[id]
        if step.group and not step.foreach and not self.tries.get(id):  # nor do its parts begin
            self._lay_out(id, 0)
        if step.part_of in self.steps:
            self._look_at(step.part_of)

    # -- revisions ---------------------------------------------------------------------------

    def _revise(self, id: str, event: PlanRevised) -> None:
        self.revisions += 1
        self._broken.pop(id, None)
        match event.action:
            case "retry":
                changed = {step.id: step for step in (event.plan.steps if event.plan else ())}
                self.steps[id] = changed.get(id, self.steps[id])
                self._left[id] = self.steps[id].tries
                self._look_at(id)
            case "skip":
                self.status[id], self._skips[id] = "skipped", "revision"
                self._settle(id)
            case "replace":
                assert event.plan, "a replacing revision has a plan"
                self._replace(id, event.plan)
            case "abort":
                self._abandon(id)
            case _:
                assert_never(event.action)
        if self.revisions >= MOST_REVISIONS:
            for other in list(self._broken):
                self._give_up(other, counts=False)

    def _give_up(self, id: str, *, counts: bool = True) -> None:
        self._broken.pop(id, None)
        self.revisions += counts
        self._settle(id)
        if counts and self.revisions >= MOST_REVISIONS:
            for other in list(self._broken):
                self._give_up(other, counts=False)

    def _abandon(self, id: str) -> None:
        self._abandoned = True
        given_up = [id, *self._broken]
        waiting = [other for _, other in self._ready]
        self._broken, self._ready = {}, []
        for other in given_up:
            self._settle(other)
        for other in [*waiting, *self.steps]:
            if (
                other not in self._settled
                and other not in self._due
                and self.status.get(other) != "running"
            ):
                self._due[other] = StepFinished(
                    step=other, status="cancelled", summary="the run was given up"
                )

    def _kept(self, failed: str) -> dict[str, Step]:
        """What a plan that replaces the rest after the failure of `failed` keeps: what is settled
        well and what is under way. A group with a failed part is dissolved: the parts of it that
        are kept stand for themselves."""
        dissolved: set[str] = set()
        for id in (failed, *self._broken):
            parent = self.steps[id].part_of
            while parent in self.steps:
                dissolved.add(parent)
                parent = self.steps[parent].part_of
        kept: dict[str, Step] = {}
        for id, step in self.steps.items():
            standing = self.standing(id)
            well = standing == "running" or (id in self._settled and self._met(id))
            inside = step.part_of in kept and standing != "failed"
            if id not in dissolved and (well or inside):
                kept[id] = step
        return {
            id: structs.replace(
                step,
                needs=tuple(need for need in step.needs if need in kept),
                when=step.when if kept.keys() >= set(step.asks) else None,
                part_of=step.part_of if step.part_of in kept else "",
            )
            for id, step in kept.items()
        }

    def _replace(self, failed: str, plan: Plan) -> None:
        kept = self._kept(failed)
        new = {step.id: step for step in plan.steps if step.id not in kept}
        for id in [*self.steps, *new]:
            if id not in kept:
                self.status.pop(id, None)
                self._open_again(id)
        self._broken = {}
        self.steps = kept | new
        self._rebuild()

    def _reopen(self) -> None:
        """After an interruption: what ran, was cancelled, or was skipped for it, is open again."""
        self._abandoned = False
        self._held = {}
        for id, step in self.steps.items():
            cut_off = self.standing(id) in {"running", "cancelled"}
            if cut_off or self._skips.get(id) == "need":
                self._open_again(id)
                if self.standing(id) == "skipped" or (step.group and not self.tries.get(id)):
                    self.status.pop(id, None)
                parent = step.part_of
                while parent in self.steps and self.tries.get(parent):
                    self._open_again(parent)
                    self.status[parent] = "running"
                    parent = self.steps[parent].part_of
        self._rebuild()

    def _open_again(self, id: str) -> None:
        self._settled.discard(id)
        self._skips.pop(id, None)
        self._left.pop(id, None)


def _with_parts(step: Step, parts: list[Step]) -> Step:
    """A group as one step that reads and writes what its parts do."""
    if not parts:
        return step
    quiet = all(
        part.writes is not None or part.reads is not None for part in parts if not part.group
    )
    writes = tuple(path for part in parts for path in part.writes or ())
    reads = tuple(path for part in parts for path in part.reads or ())
    return structs.replace(step, writes=writes if quiet else None, reads=reads if quiet else None)


def _ranks(
    level: list[Step], waits: Mapping[str, set[str]], behind: int, first: int
) -> dict[str, tuple[int, int]]:
    """(-length of the longest path behind a step, place in the plan) for each."""
    users: dict[str, list[str]] = {step.id: [] for step in level}
    unmet = {id: len(of) for id, of in waits.items()}
    for id, of in waits.items():
        for one in of:
            users[one].append(id)
    line = [id for id, count in unmet.items() if not count]
    for id in line:
        for user in users[id]:
            unmet[user] -= 1
            if not unmet[user]:
                line.append(user)
    length: dict[str, int] = {}
    for id in reversed(line):
        length[id] = 1 + max((length[user] for user in users[id]), default=behind)
    return {step.id: (-length[step.id], first + n) for n, step in enumerate(level)}


def items(step: Step, text: str) -> list[str]:
    """What a `foreach` goes over: a text's lines that are not blank, or a JSON array's items."""
    if step.foreach and step.foreach.endswith(".lines"):
        return [line.strip("\r") for line in text.split("\n") if line.strip()][:MOST_COPIES]
    try:
        found: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return []
    if not isinstance(found, list):
        return []
    return [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in found][
        :MOST_COPIES
    ]


def _copies(step: Step, pattern: list[Step], number: int, item: str) -> Iterator[Step]:
    """The copy of a `foreach` step for one item, and of the parts that it has."""
    given = {"item": item}

    def of(one: Step, **changes: Any) -> Step:
        paths = {
            key: tuple(path.replace("${item}", item).replace("$item", item) for path in many)
            for key in ("reads", "writes", "outputs", "exclusive")
            if (many := getattr(one, key))
        }
        return structs.replace(one, given={**one.given, **given}, **paths, **changes)

    def renamed(id: str) -> str:
        return f"{step.id}.{number}{id.removeprefix(step.id)}"

    yield of(step, id=renamed(step.id), needs=(), when=None, foreach=None, part_of=step.id)
    for part in pattern:
        yield of(
            part,
            id=renamed(part.id),
            needs=tuple(map(renamed, part.needs)),
            part_of=renamed(part.part_of),
        )

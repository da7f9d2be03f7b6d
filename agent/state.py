"""A run as it stands: the fold of its events, and what it asks for next.

Steps stand in levels: a step that is a skill, or a `foreach`, is a group, done by its parts. A
group begins when its needs are met, which opens its parts, and ends when they all have.
Whatever follows from what has happened (a skipped step, a group's beginning and end) is itself an
event: `due` tells it, and it counts once it has been applied.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol, assert_never

from msgspec import structs

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
    TreeKept,
    UserSaid,
    Wish,
    step_of,
)
from agent.job import MOST_DEEDS, Attempt, Deed, Job, Revise
from agent.level import waiting
from agent.message import Usage, summed
from agent.order import ranks
from agent.plan import MOST_STEPS, Plan, Step, copies, items
from agent.standing import MOST_TEXT, Skip, Standings, bounded, workspaces
from agent.when import holds, wanted

MOST_REVISIONS = 3  # of a run
MOST_COPIES = MOST_STEPS  # of one foreach
CLOSED = {"waiting", "skipped"}  # groups that are so have no part that could be tried again
MOST_SAID = 20  # messages of the user that a step is told, the newest


class Busy(Protocol):
    """Tells which steps have a job under way."""

    def __contains__(self, id: str, /) -> bool: ...


class State(Standings):
    """The only thing of a run that changes. One thread owns it; only `apply` changes it.

    >>> State.of([]).over
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self._abandoned = False
        self._faults: dict[str, str] = {}  # why a foreach can't have copies
        self._copied: set[str] = set()  # the foreach steps that have their copies
        self._failures: dict[str, str] = {}  # how the last whole attempt of a step has failed
        self._left: dict[str, int] = {}  # attempts that a step still has
        self._settled: set[str] = set()  # ended for good
        self._unmet: dict[str, int] = {}  # how many of what a step waits for are to come
        self._behind: dict[str, list[str]] = {}  # the steps that wait for a step
        self._rank: dict[str, tuple[int, int]] = {}  # what starts first: most steps behind it
        self._ready: list[tuple[tuple[int, int], str]] = []  # may be tried now, best first
        self._broken: dict[str, None] = {}  # out of attempts, oldest first
        self._due: dict[str, StepStarted | StepFinished | PlanRevised] = {}
        self._wishes: dict[str, UserSaid] = {}  # what the user wants of steps, yet to be done
        self._replan = ""  # how the user wants the plan to change, until it does
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
        return not (self._ready or self._broken or self._due or self._replan)

    def due(self) -> Event | None:
        """What follows from what has happened and is yet to be recorded, one at a time."""
        return next(iter(self._due.values()), None)

    def jobs(self, busy: Busy = ()) -> Iterator[Job]:
        """All that may be done now, best first, a revision included. Begins nothing.

        One revision at a time: the next failure is judged by the plan that the last one left.
        `busy`: the steps whose jobs are under way.
        """
        first = next(iter(self._broken), "")
        if (self._broken or self._replan) and not (first in busy or "" in busy):
            yield Revise(
                step=self.steps[first] if first else Step(id=""),
                failure=self.failure(first) if first else self._replan,
                goal=self.goal,
                steps=self.plan,
                standing={id: self.standing(id) for id in self.steps},
                kept=tuple(self._kept(first).values()),
            )
        held = {name for names in self._held.values() for name in names}
        for _, id in self._ready:
            step = self.steps[id]
            if id not in busy and held.isdisjoint(step.exclusive):
                held.update(step.exclusive)
                yield self._attempt(step)

    def _attempt(self, step: Step) -> Attempt:
        waited = dict.fromkeys(step.after)
        for group in self._above(step):  # what its group needs it may need as well
            waited = dict.fromkeys(group.after) | waited
        return Attempt(
            step=step,
            number=self.tries.get(step.id, 0) + 1,
            goal=self.goal,
            results=tuple(self._told(id) for id in waited if id in self.steps),
            steps=self.plan,
            failure=self._failures.get(step.id, ""),
            cut_off=self.standing(step.id) == "cancelled",
            deeds=tuple(self.deeds.get(step.id, {}).values()),
            said=self.said.get(step.id, ()),
            again=step.id in self.again,
        )

    def blockers(self) -> dict[str, list[str]]:
        """For each step that waits for others of its level, those that have not ended: it needs
        them, or what they write and read puts them first."""
        found: dict[str, list[str]] = {}
        for id, behind in self._behind.items():
            if id not in self._settled:
                for other in behind:
                    if other not in self._settled and self.standing(other) != "running":
                        found.setdefault(other, []).append(id)
        return found

    def holders(self, step: Step) -> dict[str, str]:
        """The exclusive names of a step that others hold, each with its holder."""
        held = {name: id for id, names in self._held.items() for name in names}
        return {name: held[name] for name in step.exclusive if held.get(name, step.id) != step.id}

    def objection(self, event: UserSaid) -> str:
        """Why what the user wants can't be done as the run stands; "" if it can."""
        id, wish = step_of(event), event.wish
        if self._abandoned or self.finished:
            return "the run is at its end"
        if wish == "replan":
            return "the planner is at work on that already" if self._replan else ""
        if (step := next((one for one in self.listed if one.id == id), None)) is None:
            return f"there is no step {id}"
        return self._objection(step, wish)

    def _objection(self, step: Step, wish: Wish) -> str:
        id, standing = step.id, self.standing(step.id)
        named = f"{id} is {standing}"
        if step.group and standing != "waiting" and self._skips.get(id) != "revision":
            return f"{id} is a group: name one of its parts"
        above = {group.id: self.standing(group.id) for group in self._above(step)}
        if wish == "retry" and (closed := [id for id in above if above[id] in CLOSED]):
            return f"{closed[0]} is {above[closed[0]]}"
        match wish:
            case "tell" if step.do is None or step.group:
                return f"{id} is done by no agent: there is nobody to tell"
            case "tell" if id in self._settled:
                return named
            case "stop" if standing != "running":
                return named
            case "skip" if standing in {"done", "skipped"}:
                return named
            case "retry" if standing in {"done", "waiting"} or self._skips.get(id) == "when":
                return named
            case "retry" if self._skips.get(id) == "need":
                return f"{id} was left out for {self._causes[id]}: that can be tried again"
            case _:
                return ""

    # -- the fold ----------------------------------------------------------------------------

    def apply(self, event: Event) -> None:  # noqa: C901 - one case an event, each a line or two
        """Take in what happened. The same events in the same order make the same state."""
        self.run = event.run or self.run
        self.began = self.began or event.time
        match event:
            case RunStarted(goal=goal, cwd=cwd, model=model):
                self.goal, self.cwd, self.model = goal, cwd, model
            case RunResumed():
                self._resume(event)
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
            case UserSaid():
                self._hear(step_of(event), event)
            case RevisionFailed():
                self._give_up(step_of(event))
            case ModelCalled(usage=usage, cost_usd=cost):
                self.usage += usage
                id = step_of(event)
                self.spent[id] = self.spent.get(id, Usage()) + usage
                self.costs[id] = summed(self.costs.get(id, 0.0), cost)
                self.cost_usd = summed(self.cost_usd, cost)
            case ToolStarted() | ToolFinished():
                self._note(step_of(event), event)
            case PermissionDecided(decision="deny", by=by):
                self.denials.append(event)
                if by == "nobody":
                    self.refused.add(step_of(event))
            case RunFinished():
                self.finished = event
            case (
                Text() | TextDelta() | Notice() | PermissionAsked() | PermissionDecided()
                | TreeKept()
            ):  # fmt: skip
                pass  # shown, but nothing follows from them
            case _:
                assert_never(event)

    def _take(self, steps: Iterable[Step]) -> None:
        """Add steps; those of a `foreach` that has not begun are what its copies are made from."""
        self._set({**self.steps, **{step.id: step for step in steps}})

    def _set(self, steps: dict[str, Step]) -> None:
        self.steps, self.plan = steps, tuple(steps.values())

    def _rebuild(self) -> None:
        """Work out from steps and statuses what waits for what, and what may begin."""
        self._parts, self._unmet, self._behind = {}, {}, {id: [] for id in self.steps}
        self._ready, self._due, self._rank = [], {}, {}
        for step in self.plan:
            group = step.part_of if step.part_of in self.steps else ""
            self._parts.setdefault(group, []).append(step.id)
        self._lay_out("", 0)
        self._wishes = {id: wish for id, wish in self._wishes.items() if id in self.steps}
        for id in [*self._wishes]:
            self._grant(id)

    def _lay_out(self, group: str, behind: int) -> None:
        """Put the parts of a group in order ("" for the whole plan), and theirs."""
        level = [self.steps[id] for id in self._parts.get(group, ())]
        waits = waiting(self, level, self._settled)
        if self.status:  # what has begun waits no more, though what it needed is done again
            begun = {id for id in waits if self.status.get(id) == "running"} | self._settled
            waits = {id: set() if id in begun else of - self._settled for id, of in waits.items()}
        self._rank |= ranks(level, waits, behind, len(self._rank))
        for step in level:
            for id in waits[step.id]:
                self._behind[id].append(step.id)
            self._unmet[step.id] = len(waits[step.id])
        for step in level:
            if step.group and step.id in self.status:  # others are laid out when they begin
                self._lay_out(step.id, -self._rank[step.id][0])
        for step in level:
            self._look_at(step.id)

    def _look_at(self, id: str) -> None:
        """See whether a step may begin, or end, by what has settled so far."""
        step = self.steps[id]
        if id in self._settled or id in self._broken or self._unmet[id]:
            return
        if self.status.get(id) == "running":
            if step.group and all(part in self._settled for part in self._parts.get(id, ())):
                self._due[id] = self._group_end(step)
        elif self._abandoned:
            self._due[id] = _given_up(id)
        elif hindrance := self._hindrance(step):
            self._due[id] = StepFinished(
                step=id, status="skipped", summary=f"skipped: {hindrance[2]}"
            )
        elif step.group:
            self._due[id] = StepStarted(step=id, attempt=self.tries.get(id, 0) + 1)
        else:
            insort(self._ready, (self._rank[id], id))

    def _hindrance(self, step: Step) -> tuple[Skip, str, str] | None:
        """Why a step is to be skipped, now that all it waits for has settled: the kind, the step
        that is the cause, and words. None: it is not."""
        parent = self.steps.get(step.part_of)
        if parent and self.standing(parent.id) != "running":
            cause = self._causes.get(parent.id, parent.id)
            words = self.text.get(parent.id, "").removeprefix("skipped: ")
            skipped = self.standing(parent.id) == "skipped"
            kind = self._skips.get(parent.id, "need")
            return kind, cause, words if skipped else f"{parent.id} {self.standing(parent.id)}"
        true = step.when is not None and holds(step.when, self.status)
        asked = wanted(step.when) if step.when else frozenset[tuple[str, str]]()
        for id in step.after:
            if self._met(id) or (id, self.standing(id)) in asked or (true and id in step.asks):
                continue
            cause = self._causes.get(id, id)
            return "need", cause, f"{cause} {self.standing(cause)}"
        return None if step.when is None or true else ("when", step.id, f"when {step.when}")

    def _met(self, id: str) -> bool:
        met = self.status.get(id) == "done"  # mostly
        return met or self.fine(id) or self._skips.get(id) == "revision"

    def _note(self, id: str, event: ToolStarted | ToolFinished) -> None:
        """Keep in a line what a step under way has done: if it is cut off, the next is told."""
        if self.standing(id) != "running":
            return
        deeds = self.deeds.setdefault(id, {})
        key = f"{self.tries.get(id)} {event.id}"
        if isinstance(event, ToolStarted):
            deeds[key] = Deed.of(event)
            if len(deeds) > MOST_DEEDS:
                del deeds[next(iter(deeds))]
        elif key in deeds:
            deeds[key] = deeds[key].ended(event)

    def _start(self, id: str) -> None:
        self._due.pop(id, None)
        if self.standing(id) != "cancelled":
            self.deeds.pop(id, None)
        self.status[id] = "running"
        self.tries[id] = self.tries.get(id, 0) + 1
        self.refused.discard(id)
        step = self.steps.get(id)
        if step is None:
            return
        if step.group:
            if step.foreach and id not in self._copied:
                self._copy(step)
            self._lay_out(id, -self._rank[id][0])
            self._look_at(id)
            return
        self._left[id] = self._left.get(id, step.tries) - 1
        self._not_ready(id)
        if step.exclusive:
            self._held[id] = step.exclusive

    def _not_ready(self, id: str) -> None:
        if id not in self._rank:
            return
        entry = (self._rank[id], id)
        at = bisect_left(self._ready, entry)
        if self._ready[at : at + 1] == [entry]:
            del self._ready[at]

    def _copy(self, step: Step) -> None:
        """Put the copies of a `foreach` where its pattern stood."""
        self._copied.add(step.id)
        pattern = self.below(step.id)
        over: list[str] = []
        text = self._result(step.source)
        try:
            over = items(step, text)
        except ValueError as error:
            self._faults[step.id] = str(error)
        if len(text) > MOST_TEXT:  # some of it was left out
            self._faults[step.id] = f"the text of {step.source} is too long to go over its items"
            over = []
        if len(over) > MOST_COPIES:
            self._faults[step.id] = f"{step.foreach} are {len(over)}, more than {MOST_COPIES}"
            over = []
        numbers = (id.removeprefix(f"{step.id}.") for id in (*self.steps, *self.tries))
        taken = max((int(n) for n in numbers if n.isdecimal()), default=0)  # of a plan before
        made = {copy.id: copy for copy in copies(step, pattern, over, taken + 1)}
        steps: dict[str, Step] = {}
        dropped = {part.id for part in pattern}
        for one in self.plan:
            if one.id not in dropped:
                steps[one.id] = one
            if one.id == step.id:
                steps |= made
        self._set(steps)
        self._parts[step.id] = []
        for copy in made.values():
            self._parts.setdefault(copy.part_of, []).append(copy.id)
            self._behind.setdefault(copy.id, [])

    def _group_end(self, step: Step) -> StepFinished:
        parts = self.parts(step.id)
        standing = {part.id: self.standing(part.id) for part in parts}
        unmet = {standing[part.id] for part in parts if not self._met(part.id)}
        if step.foreach:  # its `allow_failure` lets others go on; what has failed has failed
            unmet |= {one for one in standing.values() if one == "failed"}
            text = "\n".join(self._result(part.id).rstrip("\n") for part in parts)
        else:
            text = "\n\n".join(self._ends(parts))
        error = "\n".join(self._lines(parts))
        if not parts and (step.skill or step.id in self._faults):
            unmet = {"failed"}
            error = self._faults.get(step.id) or f"the skill {step.skill} has no steps here"
        status: Status = "cancelled" if unmet == {"cancelled"} else "failed" if unmet else "done"
        outputs = (path for part in parts for path in self.outputs.get(part.id, ()))
        end = StepFinished(
            step=step.id,
            status=status,
            summary=bounded(text),
            outputs=tuple(dict.fromkeys(outputs)),
        )
        return structs.replace(end, error=error) if unmet else end

    def _finish(self, id: str, event: StepFinished) -> None:
        self._due.pop(id, None)
        self._held.pop(id, None)
        self.text[id], self.outputs[id] = event.summary, event.outputs
        self.seconds[id] = event.seconds
        self.error[id] = event.error or ""
        if event.status != "cancelled":
            self.deeds.pop(id, None)
        elif self.standing(id) == "running":
            self._give_back(id)
        step = self.steps.get(id)
        if step is None:  # a revision has dropped it while it was under way
            self.status[id] = event.status
            return
        if event.status == "skipped":
            self._skips[id], self._causes[id], _ = self._hindrance(step) or ("need", id, "")
        self.status[id] = event.status
        if event.status == "done":
            self._failures.pop(id, None)
            self.again.discard(id)
            self.hashes.pop(id, None)  # the last one to leave a file stands last
            self.hashes[id] = event.hashes
            if event.reused is True:
                self.reused.add(id)
        if event.status == "failed":
            self._failures[id] = self.failure(id)
        if step.id in self._wishes and self._ended_by_wish(step, event):
            return
        if event.status == "failed" and not step.group and id not in self.refused:
            if self._left.get(id, 0) > 0 and not self._abandoned:
                self._look_at(id)
                return
            if self._may_revise(step):
                self._broken[id] = None
                return
        self._settle(id)

    def _may_revise(self, step: Step) -> bool:
        return (
            not step.allow_failure
            and not self._abandoned
            and self.revisions < MOST_REVISIONS
            and any(each.do is not None for each in self.plan)
        )

    def _settle(self, id: str) -> None:
        self._settled.add(id)
        for behind in self._behind.get(id, ()):
            self._unmet[behind] -= 1
            if not self._unmet[behind]:
                self._look_at(behind)
        step = self.steps[id]
        patterns = step.foreach and id not in self._copied
        if not patterns and not self._settled.issuperset(self._parts.get(id, ())):
            self._lay_out(id, 0)  # it does not begin, and nor do its parts
        if step.part_of in self.steps:
            self._look_at(step.part_of)

    # -- what the user wants -----------------------------------------------------------------

    def _hear(self, id: str, event: UserSaid) -> None:
        if self.objection(event):
            return
        if event.wish == "replan":
            self._replan = event.words
            return
        if event.words:
            self.said[id] = (*self.said.get(id, ()), event.words)[-MOST_SAID:]
        if event.wish != "tell":
            self._wishes[id] = event
            self._grant(id)

    def _grant(self, id: str) -> None:
        """Let what the user wants of a step be due, once no attempt of it is under way."""
        wish = self._wishes[id]
        if self.standing(id) == "running":
            return
        if wish.wish == "stop":
            del self._wishes[id]
            return
        why = f"the user: {wish.words}" if wish.words else "the user"
        action: Literal["retry", "skip"] = "retry" if wish.wish == "retry" else "skip"
        self._due[id] = PlanRevised(step=id, action=action, because=why, by="user")

    def _ended_by_wish(self, step: Step, event: StepFinished) -> bool:
        """Go on with a step whose attempt the user has ended; whether they have."""
        if step.group:
            return False
        wish = self._wishes[step.id]
        if event.status != "done" and wish.wish != "stop":
            self._grant(step.id)
        else:  # it was done before it could be ended, or is to stay ended
            del self._wishes[step.id]
            self._settle(step.id)
        return True

    def _open(self, id: str) -> None:
        """Let a step that has ended be one that is to be done, and with it what was left out for
        it."""
        self._broken.pop(id, None)
        if id not in self._settled:
            return
        opened, fresh = set[str](), {id}
        while fresh := fresh - opened:
            opened |= fresh
            above = (group.id for one in fresh for group in self._above(self.steps[one]))
            begun = {group for group in above if self.standing(group) != "waiting"}
            fresh = begun | {one for one in self._skips if self._left_out_for(one, opened)}
        for one in opened:
            self._settled.discard(one)
            if self._skips.pop(one, None) and one not in self.tries:
                self.status.pop(one, None)
            elif self.steps[one].group:
                self.status[one] = "running"
            elif self.standing(one) == "skipped":
                self.status[one] = "cancelled"
        self._rebuild()

    def _left_out_for(self, id: str, of: set[str]) -> bool:
        """Whether a skipped step was skipped for what became of one of these."""
        if id not in self.steps or id not in self._settled:
            return False
        if self._skips[id] == "when":
            return not of.isdisjoint(self.steps[id].asks)
        return self._causes.get(id) in of

    # -- revisions ---------------------------------------------------------------------------

    def _revise(self, id: str, event: PlanRevised) -> None:
        if event.by == "user":
            self._asked_for(id)
        elif id in self._broken:
            self.revisions += 1
        else:
            return  # the user has decided before the planner
        self._broken.pop(id, None)
        match event.action:
            case "retry":
                changed = {step.id: step for step in (event.plan.steps if event.plan else ())}
                self._set({**self.steps, id: changed.get(id, self.steps[id])})
                self._left[id] = self.steps[id].tries
                self._not_ready(id)
                self._look_at(id)
            case "skip":
                self._not_ready(id)
                self.status[id], self._skips[id] = "skipped", "revision"
                self.text[id], self.error[id] = f"skipped: {event.because or 'revised'}", ""
                self._settle(id)
                if self._unmet.get(id):  # what waits for it may have to wait for the same
                    self._rebuild()
            case "replace":
                assert event.plan, "a replacing revision has a plan"
                self._replace(id, event.plan, event.kept)
            case "abort":
                self._abandon(id)
            case _:
                assert_never(event.action)
        self._last_revision()

    def _asked_for(self, id: str) -> None:
        """What the user has asked for is about to be."""
        self._due.pop(id, None)
        self._wishes.pop(id, None)
        if id:
            self._open(id)
        else:
            self._replan = ""

    def _give_up(self, id: str) -> None:
        """The failure stays: no valid revision was given for it. Or the plan stays as it is."""
        if id not in self._broken:
            self._replan = self._replan if id else ""
            return
        self.revisions += 1
        self._broken.pop(id, None)
        self._settle(id)
        self._last_revision()

    def _last_revision(self) -> None:
        """After the last revision the failures stay that are still to be judged."""
        if self.revisions >= MOST_REVISIONS:
            broken, self._broken = self._broken, {}
            for id in broken:
                self._settle(id)

    def _abandon(self, id: str) -> None:
        self._abandoned = True
        given_up = [*filter(None, [id]), *self._broken]
        self._broken, self._ready = {}, []
        for other in given_up:
            self._settle(other)
        for step in self.listed:
            if step.id not in self._settled and self.status.get(step.id) != "running":
                self._due[step.id] = _given_up(step.id)

    def _kept(self, failed: str) -> dict[str, Step]:
        """What a plan that replaces the rest after the failure of `failed` keeps: what is settled
        well and what is under way. A group with a failed part is dissolved: the parts of it that
        are kept stand for themselves."""
        dissolved = {
            group.id
            for id in (failed, *self._broken)
            if id
            for group in self._above(self.steps[id])
        }
        ids: set[str] = set()
        for id, step in self.steps.items():
            well = self.standing(id) == "running" or (id in self._settled and self._met(id))
            inside = step.part_of in ids and self.standing(id) != "failed"
            if id not in dissolved and (well or inside):
                ids.add(id)
        ids |= {self.steps[id].source for id in ids if self.steps[id].source in self.steps}
        return {
            id: structs.replace(
                step,
                needs=tuple(need for need in step.needs if need in ids),
                when=step.when if ids.issuperset(step.asks) else None,
                part_of=step.part_of if step.part_of in ids else "",
            )
            for id, step in self.steps.items()
            if id in ids
        }

    def _replace(self, failed: str, plan: Plan, judged: Iterable[str]) -> None:
        """Let `plan` be the plan. Of what it keeps, as it was when the failure was `judged`, some
        may have failed since: that waits for its own revision or its next attempt."""
        kept = self._kept(failed)
        new = {step.id: step for step in plan.steps}
        kept |= {id: new[id] for id in judged if id in self.steps and id in new}
        for id in {*self.steps, *new} - kept.keys():
            for known in (self.status, self._failures, self.deeds, self.hashes, self.said):
                known.pop(id, None)
            self._wishes.pop(id, None)
            self.again.discard(id)
            self.reused.discard(id)
            self._copied.discard(id)
            self._open_again(id)
        self._broken = {id: None for id in self._broken if id in kept}
        self._set(kept | {id: step for id, step in new.items() if id not in kept})
        self._rebuild()

    # -- resumption --------------------------------------------------------------------------

    def _resume(self, event: RunResumed) -> None:
        self.resumed, self.finished = event.attempt, None
        self.model = event.model or self.model
        if event.cwd and event.cwd != self.cwd:
            self._move(event.cwd)
        self.again = {id for id in (*self.again, *event.again) if id in self.steps}
        again = [self.steps[id] for id in event.again if id in self.steps]
        for step in again:
            self._forget(step)
        self._reopen(again)

    def _move(self, cwd: str) -> None:
        """The working directory is elsewhere now, and with it the workspace that others are told
        of."""
        old, new = map(workspaces, (self.cwd, cwd))
        self.cwd = cwd
        for id, paths in self.outputs.items():
            self.outputs[id] = tuple(path.replace(old, new) for path in paths)
            self.text[id] = self.text[id].replace(old, new)
        self.hashes = {
            id: {path.replace(old, new): digest for path, digest in files.items()}
            for id, files in self.hashes.items()
        }

    def _forget(self, step: Step) -> None:
        """Let a step that was done be one that waits."""
        self._open_again(step.id)
        self.status.pop(step.id, None)
        self.hashes.pop(step.id, None)
        self.reused.discard(step.id)
        for group in self._above(step):
            if self.standing(group.id) != "running":
                self._open_again(group.id)

    def _reopen(self, undone: Iterable[Step]) -> None:
        """After an interruption: what ran, was cancelled, or was skipped for it, is open again, and
        so are the steps `undone`. An attempt that was cut off does not count."""
        self._abandoned = False
        self._held = {}
        again = {id for id in self.steps if self.standing(id) in {"running", "cancelled"}}
        for id in again:
            if self.standing(id) == "running" and not self.steps[id].group:
                self._give_back(id)
        again |= {group.id for id in again for group in self._above(self.steps[id])}
        again |= {
            id for id in self.steps if self._skips.get(id) == "need" and self._causes[id] in again
        }
        for id in again:
            self._settled.discard(id)
            self._skips.pop(id, None)
            if not self.tries.get(id) or self.standing(id) == "skipped":
                self.status.pop(id, None)
            else:
                self.status[id] = "running" if self.steps[id].group else "cancelled"
        for id in self._disturbed(undone):
            self.status.pop(id, None)
        self._rebuild()

    def _disturbed(self, undone: Iterable[Step]) -> set[str]:
        """The groups that begin once more in their turn: a part of theirs, or what they need, is to
        be done again."""
        found = {group.id for step in undone for group in self._above(step)}
        for id, step in self.steps.items():
            if step.group and self.standing(id) == "running":
                needs = self._settled.issuperset(need for need in step.after if need in self.steps)
                found |= set() if needs else {id}
        return found

    def _give_back(self, id: str) -> None:
        """An attempt that was cut off is none of those that a step has."""
        if id in self._left:
            self._left[id] += 1

    def _open_again(self, id: str) -> None:
        self._settled.discard(id)
        self._skips.pop(id, None)
        self._left.pop(id, None)


def _given_up(id: str) -> StepFinished:
    return StepFinished(step=id, status="cancelled", summary="the run was given up")

"""Any plan, a pool that ends jobs as an example's data decide, and a witness of what is logged."""

from collections.abc import Sequence
from typing import get_args

from hypothesis import strategies as st
from msgspec import structs

from agent.event import (
    Action,
    Event,
    ModelCalled,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    RunResumed,
    Status,
    StepFinished,
    StepStarted,
    UserSaid,
    Wish,
    step_of,
)
from agent.job import Attempt, Job, Revise
from agent.message import Usage
from agent.order import overlap
from agent.plan import Plan, Step, checked
from agent.when import holds, named

WISHES: tuple[Wish, ...] = get_args(Wish)
PATHS = st.sampled_from(["a.py", "src/**", "src/b.py", "*.md"])
GLOBS = st.none() | st.lists(PATHS, max_size=2).map(tuple)


@st.composite
def plans(draw: st.DrawFn, most: int = 7) -> Plan:
    """Any plan without cycles: a step needs only steps before it; then they are shuffled."""
    steps = list[Step]()
    for n in range(draw(st.integers(1, most))):
        before = [step.id for step in steps]
        needs = draw(st.sets(st.sampled_from(before), max_size=3)) if before else set[str]()
        other = draw(st.sampled_from(before)) if before else ""
        outcome = draw(st.sampled_from(["done", "failed", "skipped"]))
        kind = draw(st.sampled_from(["do", "do", "run", "foreach", "when"])) if before else "do"
        steps.append(
            Step(
                id=f"s{n}",
                do=None if kind == "run" else "x",
                run="x" if kind == "run" else None,
                needs=tuple(sorted(needs)),
                when=draw(st.sampled_from(["", "not "])) + f"{other}.{outcome}"
                if kind == "when"
                else None,
                foreach=f"{other}.lines" if kind == "foreach" else None,
                writes=draw(GLOBS),
                reads=draw(GLOBS),
                exclusive=draw(st.sampled_from([(), ("port",)])),
                attempts=draw(st.sampled_from([1, 2])),
                allow_failure=draw(st.booleans()),
            )
        )
    shuffled = [*draw(st.permutations(steps))]
    if draw(st.booleans()):  # a skill, or a skill for each line
        each = draw(st.sampled_from([None, f"{steps[0].id}.lines"]))
        needs = {draw(st.sampled_from(steps)).id}
        after = Step(id="last", do="x", needs=("sub",), writes=())
        shuffled.append(Step(id="sub", skill="other", needs=tuple(needs), foreach=each))
        shuffled += [Step(id="sub.a", do="x", part_of="sub", writes=())]
        shuffled += [Step(id="sub.b", do="x", part_of="sub", needs=("sub.a",)), after]
        shuffled += [Step(id="sub.c", do="x", part_of="sub", when="sub.a.failed", writes=())]
    return checked(Plan(goal="", steps=tuple(shuffled)))


class Hands:
    """A pool without threads: the test's data decide which job ends next, and how."""

    most_asked = 1  # revisions at once

    def __init__(self, data: st.DataObject, size: int, life: int) -> None:
        self.data, self.size, self.jobs, self.life = data, size, list[Job](), life

    def __len__(self) -> int:
        return len(self.jobs)

    def __contains__(self, id: str) -> bool:
        return any(job.step.id == id for job in self.jobs)

    @property
    def stopped(self) -> bool:
        return self.life <= 0

    @property
    def room(self) -> int:
        return 0 if self.stopped else self.size - len(self.jobs)

    def start(self, job: Job) -> None:
        assert job.step.id not in self, "a step had two jobs at once"
        assert not job.step.group, "a group is done by its parts"
        self.jobs.append(job)
        assert len(self) <= self.size, "more jobs than there is room for"
        asked = sum(isinstance(job, Revise) for job in self.jobs)
        assert asked <= self.most_asked, "two revisions at once"
        steps = [job.step for job in self.jobs if isinstance(job, Attempt)]
        for n, one in enumerate(steps):
            for other in steps[:n]:
                assert not set(one.exclusive) & set(other.exclusive), "two hold one name"
                assert not clash(one, other), f"{one.id} and {other.id} write the same at once"

    def next(self) -> Event:
        self.life -= 1
        job = self.jobs[self.data.draw(st.integers(0, len(self.jobs) - 1))]
        if self.data.draw(st.integers(0, 5)) == 5:
            usage = Usage(input_tokens=1)
            return ModelCalled(
                step=job.step.id, model="m", usage=usage, cost_usd=1, seconds=0, stop_reason="end"
            )
        self.jobs.remove(job)
        if isinstance(job, Attempt):
            known = {told.id: told.status for told in job.results}
            assert known.keys() >= set(job.step.needs)
            assert not {"waiting", "running"} & {known[id] for id in job.step.needs}
            outcomes: list[Status] = ["done", "done", "failed"]
            status = self.data.draw(st.sampled_from(outcomes))
            lines = self.data.draw(st.sampled_from(["", "x", "x\n\ny"]))
            return StepFinished(
                step=job.step.id, status="cancelled" if self.stopped else status, summary=lines
            )
        actions: list[Action | None] = ["skip", "retry", "replace", "abort", None]
        action = self.data.draw(st.sampled_from(actions))
        if action is None:
            return RevisionFailed(step=job.step.id, because="no valid call")
        if action != "replace":
            return PlanRevised(step=job.step.id, action=action)
        kept = tuple(step.id for step in job.kept)
        return PlanRevised(step=job.step.id, action=action, plan=self.rest(job), kept=kept)

    def rest(self, job: Revise) -> Plan:
        """What is kept, and after it some of what was to come, or other steps."""
        kept = {step.id: step for step in job.kept}
        waiting = [step for step in job.steps if step.id not in kept and not step.part_of]
        again = [step for step in waiting if self.data.draw(st.booleans())]
        ids = {*kept, *(step.id for step in again)}
        new = [
            structs.replace(
                step,
                skill=None,
                do=step.do or (None if step.run else "x"),
                needs=tuple(need for need in step.needs if need in ids),
                when=step.when if ids >= set(step.asks) else None,
                foreach=step.foreach if step.source in ids else None,
            )
            for step in again
        ]
        name = f"n{sum(step.id.startswith('n') for step in job.steps) + 1}"
        extra = Step(id=name, do="x", needs=tuple(kept)[-2:])
        return checked(Plan(goal="", steps=(*kept.values(), *new, extra)))


class Ruled(Hands):
    """The same, and a user who now and then wants something of a step, or another plan. An attempt
    that they have ended may still come to an end of its own. What the planner is asked may be
    decided by the user before it answers, so that it is asked something else."""

    most_asked = 4

    def __init__(self, data: st.DataObject, size: int, life: int, wishes: int) -> None:
        super().__init__(data, size, life)
        self.wishes, self.ended = wishes, set[str]()

    def next(self) -> Event:
        if self.wishes and self.data.draw(st.integers(0, 2)) == 2:
            self.wishes -= 1
            wish = self.data.draw(st.sampled_from(WISHES))
            if wish == "replan":
                return UserSaid(wish=wish, words="otherwise")
            id = self.data.draw(st.sampled_from([step.id for step in self.jobs[0].steps]))
            if wish != "tell" and id in self:
                self.ended.add(id)
            return UserSaid(step=id, wish=wish, words=self.data.draw(st.sampled_from(["", "so"])))
        event = super().next()
        id = step_of(event)
        if isinstance(event, PlanRevised) and not id:
            if event.action in {"retry", "skip"}:
                return RevisionFailed(step=id, because="the plan stays")
            return structs.replace(event, by="user")
        if isinstance(event, StepFinished) and id in self.ended:
            self.ended.discard(id)
            if self.data.draw(st.booleans()):
                return structs.replace(event, status="cancelled")
        return event


def clash(one: Step, other: Step) -> bool:
    def writes(step: Step) -> tuple[str, ...]:
        return step.writes if step.writes is not None else () if step.reads is not None else ("**",)

    return any(overlap(a, b) for a in writes(one) for b in writes(other))


class Witness:
    """Reads a log as anyone would, and holds it against what the contract says of needs."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        self.status: dict[str, str] = {}
        self.met: set[str] = set()  # done, free to fail, skipped by its own `when` or a revision
        self.done: set[str] = set()
        self.tries: dict[str, int] = {}

    def see(self, event: Event) -> None:
        id = step_of(event)
        match event:
            case PlanCreated(plan=plan) | PlanRevised(action="replace", plan=Plan() as plan):
                self.planned(plan, event.kept if isinstance(event, PlanRevised) else ())
            case RunResumed(again=again):
                self.reopened(again)
            case PlanRevised(action="retry", by="user"):
                self.reopened([id])
            case PlanRevised(action="skip"):
                self.status[id] = "skipped"
                self.met.add(id)
            case StepStarted(attempt=attempt):
                assert id not in self.done, f"{id} was done and was begun again"
                self.tries[id] = self.tries.get(id, 0) + 1
                assert attempt == self.tries[id], "attempts are numbered on"
                if id in self.steps and (attempt == 1 or self.steps[id].group):
                    self.begun(self.steps[id])
                self.status[id] = "running"
            case StepFinished(status=status, summary=summary):
                self.status[id] = status
                self.met.discard(id)
                free = id in self.steps and self.steps[id].allow_failure
                if status == "done" or (status == "failed" and free):
                    self.met.add(id)
                if status == "done":
                    self.done.add(id)
                if status == "skipped":
                    self.skipped(id, summary.removeprefix("skipped: "))
            case _:
                pass

    def planned(self, plan: Plan, kept: Sequence[str]) -> None:
        self.steps |= {step.id: step for step in plan.steps}
        for step in plan.steps:  # an id that comes back is a new step, but for one that has begun
            begun = step.id in self.met or self.status.get(step.id) == "running"
            if step.id not in kept and not begun:
                self.status.pop(step.id, None)
            elif step.allow_failure and self.status.get(step.id) == "failed":
                self.met.add(step.id)  # a copy, of which no plan has told before

    def part_of(self, id: str) -> str:
        """The group that a step is in; that of a copy is told by its name."""
        return self.steps[id].part_of if id in self.steps else id.rpartition(".")[0]

    def reopened(self, again: Sequence[str]) -> None:
        """What was done is to be done again, so what it is part of is not yet done either."""
        for id in again:
            self.status.pop(id, None)
            above = id
            while above:
                self.done.discard(above)
                self.met.discard(above)
                above = self.part_of(above)

    def begun(self, step: Step) -> None:
        for id in step.after:
            if id in self.steps and id not in self.met:
                assert step.when, f"{step.id} was begun, but {id} is not met"
                assert id in named(step.when)
        if step.when:
            assert holds(step.when, self.status), f"{step.id} was begun against its `when`"

    def skipped(self, id: str, why: str) -> None:
        if why.startswith(("when ", "the user")):  # its own, or that of a group left out
            self.met.add(id)
            return
        cause, _, how = why.rpartition(" ")
        assert cause not in self.met, f"{id} was skipped for {cause}, which was met"
        assert how in {"failed", "cancelled"}, why

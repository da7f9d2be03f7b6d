"""A run on its log, through stops, deaths in the middle of a write, and resumptions."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.engine.run import drive
from agent.event import Event, ModelCalled, PlanCreated, RunFinished, RunResumed, RunStarted
from agent.message import Usage
from agent.plan import Plan
from agent.state import State
from agent.store.log import Log, recorded
from tests.property.runs import Hands, Witness, plans


class Runs(RuleBasedStateMachine):
    """One process after another carries a plan out; each ends well, is stopped, or is killed with
    the log cut at any byte of what nobody has been told is on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        self.path = Path(self.home.name) / "r.jsonl"
        self.shown: list[Event] = []
        self.alive = False

    @initialize(plan=plans(5), size=st.integers(1, 4))
    def begin(self, plan: Plan, size: int) -> None:
        self.size = size
        self.log = Log(self.path, [self.shown.append])
        self.state = State()
        self.tell(RunStarted(goal="g", cwd="/p", model="m", version="0"))
        self.tell(PlanCreated(plan=plan, source="file"))
        self.first = self.path.stat().st_size
        self.alive = True

    def tell(self, event: Event) -> None:
        self.state.apply(self.log(event))

    @property
    def done(self) -> bool:
        return self.state.finished is not None and self.state.finished.status == "done"

    @precondition(lambda self: self.alive)
    @rule(life=st.integers(1, 12), data=st.data())
    def work(self, life: int, data: st.DataObject) -> None:
        """Some jobs end; unless that was all, the run is stopped, and says so."""
        hands = Hands(data, self.size, life)
        drive(self.state, hands, self.log)
        over = self.state.over and not hands.stopped
        self.end(over)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def work_to_the_end(self, data: st.DataObject) -> None:
        drive(self.state, Hands(data, self.size, 10_000), self.log)
        assert self.state.over
        standing = {step.id: self.state.standing(step.id) for step in self.state.listed}
        assert set(standing.values()) <= {"done", "failed", "skipped", "cancelled"}
        self.end(True)

    def end(self, over: bool) -> None:
        self.tell(
            RunFinished(
                status=self.state.outcome if over else "interrupted",
                answer=self.state.answer,
                usage=self.state.usage,
                cost_usd=self.state.cost_usd,
                seconds=0,
            )
        )
        self.alive = False

    @precondition(lambda self: not self.alive)
    @rule(share=st.floats(0, 1), near=st.booleans())
    def it_had_been_killed_before(self, share: float, near: bool) -> None:
        """Cut the log at any byte behind the plan; often near its end."""
        self.log.close()
        size = self.path.stat().st_size
        first = max(self.first, size - 400) if near else self.first
        cut = first + round(share * (size - first))
        with self.path.open("r+b") as file:
            file.truncate(cut)
        lines = self.path.read_bytes().split(b"\n")
        whole = len(lines) - 1
        if cut < size and len(recorded(self.path).events) == whole + 1:
            whole += 1  # all but the end of its line
        assert len(recorded(self.path).events) == whole
        del self.shown[whole:]
        self.state = State.of(self.shown)

    @precondition(lambda self: not self.alive and not self.done)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        self.log.close()
        self.log = Log(self.path, [self.shown.append])
        assert list(self.log.before.events) == self.shown
        assert not self.log.before.faults
        before = State.of(self.log.before.events)
        self.state = State.of(self.log.before.events)
        leaves = [
            step.id
            for step in before.listed
            if not step.group and before.standing(step.id) == "done"
        ]
        again = data.draw(st.lists(st.sampled_from(leaves), unique=True)) if leaves else []
        self.tell(RunResumed(attempt=before.resumed + 1, again=tuple(again)))
        self.alive = True
        for step in before.listed:
            if before.standing(step.id) == "done" and step.id not in again and not step.group:
                assert self.state.standing(step.id) == "done", f"{step.id} was done"
        assert not {"running"} & {
            self.state.standing(step.id) for step in self.state.listed if not step.group
        }

    @invariant()
    def the_log_holds_what_was_shown_and_tells_the_run(self) -> None:
        record = recorded(self.path)
        assert (list(record.events), record.faults, record.torn) == (self.shown, (), record.torn)
        assert [event.seq for event in self.shown] == [*range(1, len(self.shown) + 1)]
        assert vars(State.of(record.events)) == vars(self.state)
        seen(record.events)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
        self.home.cleanup()


def seen(events: Sequence[Event]) -> None:
    """What every log tells: nothing that was done is begun again, all that was spent is counted."""
    witness, spent, cost = Witness(), Usage(), 0.0
    for event in events:
        witness.see(event)
        match event:
            case ModelCalled(usage=usage, cost_usd=float() | int() as price):
                spent, cost = spent + usage, cost + price
            case RunFinished():
                assert (event.usage, event.cost_usd) == (spent, cost)
            case _:
                pass


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=max(settings().max_examples // 6, 1),
    stateful_step_count=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)

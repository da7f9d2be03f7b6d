"""Runs made up for the views: the events of a plan whose steps end as a test says."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, islice

from msgspec import structs

from agent.event import (
    Event,
    ModelCalled,
    PlanCreated,
    RevisionFailed,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from agent.job import Revise
from agent.message import Usage
from agent.plan import Plan, Step
from agent.state import State

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUN = "20260102-030405-ab12"


def diamond() -> Plan:
    return Plan(
        goal="Mend the parser",
        steps=(
            Step(id="look", do="Find the cause"),
            Step(id="fix", do="Mend the code", needs=("look",), writes=("src/**",), verify="make"),
            Step(id="docs", do="写文档 🚀", needs=("look",), writes=("docs/**",)),
            Step(id="report", do="Say what was done", needs=("fix", "docs")),
        ),
    )


def fan(size: int) -> Plan:
    ids = [f"review-{n}" for n in range(1, size + 1)]
    return Plan(
        goal=f"Review {size} files",
        steps=(
            Step(id="list", run="git ls-files"),
            *(Step(id=id, do=f"Review {id}", needs=("list",), writes=()) for id in ids),
            Step(id="sum", do="Sum up", needs=tuple(ids)),
        ),
    )


def played(
    plan: Plan,
    ends: Mapping[str, Sequence[str]] | None = None,
    *,
    revisions: Mapping[str, Event] | None = None,
    texts: Mapping[str, str] | None = None,
    workers: int = 2,
) -> Iterator[Event]:
    """The events of a run, a second between any two. `ends`: the texts of a step's failed
    attempts; then it is done, with its text of `texts` or `ID is done`."""
    ends, revisions, texts = ends or {}, revisions or {}, texts or {}
    state, seq = State(), count(1)

    def told(event: Event) -> Event:
        number = next(seq)
        time = (BEGAN + timedelta(seconds=number - 1)).isoformat(timespec="milliseconds")
        event = structs.replace(event, time=time.replace("+00:00", "Z"), run=RUN, seq=number)
        state.apply(event)
        return event

    yield told(RunStarted(goal=plan.goal, cwd="/w", model="script/x", version="0"))
    yield told(PlanCreated(plan=plan, source="file"))
    while True:
        while (event := state.due()) is not None:
            yield told(event)
        jobs = list(islice(state.jobs(), workers))
        if not jobs:
            break
        if isinstance(jobs[0], Revise):
            id = jobs[0].step.id
            yield told(revisions.get(id) or RevisionFailed(step=id, because="no valid answer"))
            continue
        for job in jobs:
            yield told(StepStarted(step=job.step.id, attempt=state.tries.get(job.step.id, 0) + 1))
        for job in jobs:
            id = job.step.id
            if job.step.do:
                yield told(ToolStarted(step=id, id="c", name="read_file", input={"path": "a.py"}))
                yield told(
                    ToolFinished(
                        step=id, id="c", name="read_file", ok=True, output="1\n2", seconds=1
                    )
                )
                yield told(
                    ModelCalled(
                        step=id, model="script/x", usage=Usage(input_tokens=1000, output_tokens=10),
                        cost_usd=0.01, seconds=1, stop_reason="end",
                    )
                )  # fmt: skip
            bad = ends.get(id, ())
            number = state.tries[id]
            failed = number <= len(bad)
            text = bad[number - 1] if failed else texts.get(id, f"{id} is done")
            yield told(
                StepFinished(
                    step=id, status="failed" if failed else "done", summary=text, seconds=2.5
                )
            )
    yield told(
        RunFinished(
            status=state.outcome, answer=state.answer, usage=state.usage,
            cost_usd=state.cost_usd, seconds=75.0,
        )
    )  # fmt: skip

"""What scheduling costs: `python bench/schedule.py [--quick] [STEPS]`.

First our own time (CPU) to carry out a plan of 10,000 steps whose work is nothing, in this thread:
the fold, the order of reads and writes, and `drive`; beside it graphlib, which knows needs and
nothing else. Then how close plans of slow steps, on threads, come to their critical path, which no
scheduler can beat.
"""

import random
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

import rig

if TYPE_CHECKING:
    from agent.plan import Plan

CALL, QUICK = 0.2, 0.01  # seconds of one step in the second part
AIM, AIM_RATIO = 1.0, 1.05  # seconds, and times the critical path

Wiring = list[tuple[str, ...]]  # for each step the ids of those it needs


def chain(count: int) -> Wiring:
    return [(f"s{n - 1}",) if n else () for n in range(count)]


def fan(count: int) -> Wiring:
    return [(), *[("s0",)] * (count - 2), tuple(f"s{n}" for n in range(1, count - 1))]


def layers(count: int, width: int = 10) -> Wiring:
    """Each step needs all of the layer before."""
    return [
        tuple(f"s{of}" for of in range((n // width - 1) * width, n // width * width) if of >= 0)
        for n in range(count)
    ]


def diamond(_: int) -> Wiring:
    return [(), ("s0",), ("s0",), ("s1", "s2")]


def scattered(count: int) -> Wiring:
    """A random graph, the same each time: about one and a half needs a step."""
    dice = random.Random(5)
    return [
        tuple({f"s{dice.randrange(n)}" for _ in range(dice.choice((0, 1, 2, 3)))}) if n else ()
        for n in range(count)
    ]


WRITES: dict[str, Callable[[int], dict[str, Any]]] = {
    "says nothing": lambda n: {},
    "writes nothing": lambda n: {"writes": ()},
    "a file each": lambda n: {"writes": (f"src/part_{n}/out.py",)},
    "a glob each": lambda n: {"writes": (f"src/part_{n}/**",)},
    "one glob all": lambda n: {"writes": ("src/**",)},
    "reads the last": lambda n: {"reads": (f"out/{n - 1}.md",), "writes": (f"out/{n}.md",)},
}


def plan(wiring: Wiring, says: Callable[[int], dict[str, Any]]) -> "Plan":
    from agent.plan import Plan, Step

    steps = (Step(id=f"s{n}", do="work", needs=needs, **says(n)) for n, needs in enumerate(wiring))
    return Plan(steps=tuple(steps))


class Instant:
    """A pool in this thread whose jobs are done when they are asked for."""

    def __init__(self, size: int) -> None:
        self._size, self._ids = size, dict[str, None]()
        self.stopped = False

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    @property
    def room(self) -> int:
        return self._size - len(self._ids)

    def start(self, job: Any) -> None:
        self._ids[job.step.id] = None

    def next(self) -> Any:
        from agent.event import StepFinished

        id = next(iter(self._ids))
        del self._ids[id]
        return StepFinished(step=id, status="done", summary="")


def own_time(count: int, rounds: int) -> Iterable[tuple[str, dict[str, float]]]:
    """CPU seconds to check each kind of plan, to carry it out, and of graphlib for its needs."""
    from agent.engine.run import drive
    from agent.event import PlanCreated
    from agent.plan import checked
    from agent.state import State

    def run(made: "Plan") -> None:
        state = State.of([PlanCreated(plan=made, source="file")])
        end = drive(state, Instant(4), lambda event: event)
        assert end.outcome == "done", "every step is done"

    for shape in (chain, fan, layers):
        for words, says in WRITES.items():
            made = plan(shape(count), says)
            acts = {"check": checked, "run": run, "graphlib": sorted_through}
            rivals = {
                name: rig.seconds(partial(act, made), time.process_time)
                for name, act in acts.items()
            }
            yield f"{shape.__name__}, {words}", rig.medians(rivals, rounds)


def sorted_through(made: "Plan") -> None:
    """Go through a graph as its steps become ready, with the standard library."""
    sorter = TopologicalSorter({step.id: step.needs for step in made.steps})
    sorter.prepare()
    while sorter.is_active():
        for id in sorter.get_ready():
            sorter.done(id)


def critical_path(wiring: Wiring) -> int:
    """Steps on the longest path."""
    length: dict[str, int] = {}
    for n, needs in enumerate(wiring):
        length[f"s{n}"] = 1 + max((length[need] for need in needs), default=0)
    return max(length.values())


def on_threads(call: float) -> Iterable[tuple[str, int, float, float]]:
    """(shape, steps, seconds of the critical path, seconds it took) with steps of `call` s."""
    from agent.engine.pool import ExecutorPool
    from agent.engine.run import drive
    from agent.event import PlanCreated, StepFinished
    from agent.plan import checked
    from agent.state import State
    from agent.stop import Stop

    def work(job: Any, emit: object) -> StepFinished:
        time.sleep(call)
        return StepFinished(step=job.step.id, status="done")

    for shape, count in ((fan, 10), (diamond, 4), (scattered, 50)):
        wiring = shape(count)
        made = checked(plan(wiring, WRITES["writes nothing"]))
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda _: None, range(count)))
            pool = ExecutorPool(threads, count, work, Stop())
            began = time.perf_counter()
            state = State.of([PlanCreated(plan=made, source="file")])
            end = drive(state, pool, lambda event: event)
            took = time.perf_counter() - began
        assert end.outcome == "done", "every step is done"
        yield shape.__name__, count, critical_path(wiring) * call, took


def main() -> int:
    report = rig.Report(__doc__, count=10_000)
    count, call = report.count, QUICK if report.quick else CALL
    report.table(f"{count:,} steps whose work is nothing, CPU", "check ms", "run ms", "graphlib")
    most = AIM * max(count / 10_000, 0.1)
    for name, took in own_time(count, report.rounds(2)):
        cells = [f"{took[each] * 1000:.0f}" for each in ("check", "run", "graphlib")]
        report.row(name, *cells, aim=f"≤ {most * 1000:.0f} ms to run", met=took["run"] <= most)
    report.table(f"steps of {call * 1000:.0f} ms on threads", "least s", "took s", "× least")
    for shape, steps, path, seconds in on_threads(call):
        report.row(
            f"{shape} of {steps}",
            f"{path:.2f}",
            f"{seconds:.3f}",
            f"{seconds / path:.3f}",
            aim=f"≤ {AIM_RATIO} × least",
            met=seconds <= path * AIM_RATIO,
        )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

"""Whatever steps read and write, their order makes no cycle and keeps apart what has to be."""

from collections.abc import Mapping, Set
from graphlib import TopologicalSorter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from agent.order import order, overlap
from agent.plan import Step

PATHS = st.sampled_from(["a.py", "src/a.py", "src/b.py", "src", "src/*.py", "src/**", "*.md", "**"])
GLOBS = st.none() | st.lists(PATHS, max_size=2).map(tuple)


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    made = list[Step]()
    for n in range(draw(st.integers(1, 8))):
        before = [step.id for step in made]
        needs = draw(st.sets(st.sampled_from(before), max_size=2)) if before else set[str]()
        made.append(
            Step(id=f"s{n}", do="x", needs=tuple(needs), reads=draw(GLOBS), writes=draw(GLOBS))
        )
    return [*draw(st.permutations(made))]


def free(step: Step) -> bool:
    return step.reads is None and step.writes is None


def writes(step: Step) -> tuple[str, ...]:
    return ("**",) if free(step) else step.writes or ()


def touch(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return any(overlap(one, other) for one in some for other in others)


def behind(waits: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """All that each waits for, directly or not. Raises CycleError."""
    found: dict[str, set[str]] = {}
    for id in TopologicalSorter(waits).static_order():
        found[id] = set(waits[id]).union(*(found[one] for one in waits[id]))
    return found


@given(steps=steps())
def test_writers_of_the_same_are_never_at_once_and_readers_never_beside_them(
    steps: list[Step],
) -> None:
    further = order(steps)
    all_waits = behind({step.id: {*step.needs} | further[step.id] for step in steps})
    for one, other in combinations(steps, 2):
        apart = one.id in all_waits[other.id] or other.id in all_waits[one.id]
        if touch(writes(one), writes(other)):
            assert apart, f"{one.id} and {other.id} may write the same at once"
        if touch(one.reads or (), other.writes or ()) or touch(other.reads or (), one.writes or ()):
            assert apart, f"{one.id} and {other.id}: one reads what the other writes"


@given(steps=steps())
def test_no_step_waits_for_one_that_it_has_nothing_to_do_with(steps: list[Step]) -> None:
    known = {step.id: step for step in steps}
    for id, of in order(steps).items():
        for other in of:
            one, two = known[id], known[other]
            assert touch(writes(one), writes(two)) or touch(one.reads or (), two.writes or ())
            assert other not in one.needs


@given(steps=steps())
def test_of_two_steps_alone_the_reader_is_second_and_else_the_list_decides(
    steps: list[Step],
) -> None:
    for first, second in combinations(steps, 2):
        one, two = (Step(id=s.id, do="x", reads=s.reads, writes=s.writes) for s in (first, second))
        reads_second = touch(one.reads or (), two.writes or ())
        reads_first = touch(two.reads or (), one.writes or ())
        if reads_second and not reads_first:
            expected = {one.id: {two.id}, two.id: set[str]()}
        elif reads_first or touch(writes(one), writes(two)):
            expected = {one.id: set(), two.id: {one.id}}
        else:
            expected = {one.id: set(), two.id: set()}
        assert order([one, two]) == expected


@given(steps=steps(), data=st.data())
def test_what_has_begun_never_waits_and_new_writers_wait_for_it(
    steps: list[Step], data: st.DataObject
) -> None:
    ids = [step.id for step in steps]
    begun = data.draw(st.sets(st.sampled_from(ids)))
    for step in steps:  # what a begun step needs has ended
        if step.id in begun:
            begun -= {id for id in begun if id in step.needs}
    waits = {step.id: set() if step.id in begun else {*step.needs} for step in steps}
    further = order(steps, waits, begun)
    assert not any(further[id] for id in begun)
    all_waits = behind({id: waits[id] | further[id] for id in ids})
    known = {step.id: step for step in steps}
    for id in begun:
        for step in steps:
            if step.id not in begun and touch(writes(known[id]), writes(step)):
                assert id in all_waits[step.id]

"""A plan in a few lines, for a person to look at before it runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from agent.plan import Plan, Step
from agent.views.figures import counted
from agent.views.plain import cells, cut, one_line, padded

MANY = 40  # steps that are shown; the rest is counted

Style = Callable[[str, str], str]


def unstyled(style: str, text: str) -> str:
    return text


def described(
    plan: Plan, width: int, *, styled: Style = unstyled, most: int = MANY, at_once: int = 0
) -> Iterator[str]:
    """A heading and a line for each step: what it needs, what it does, how it is checked.

    `at_once`: how many steps can run beside each other at most, where that is known.
    """
    size = counted(len(plan.steps), "step") + (f", {at_once} at once" if at_once > 1 else "")
    title = one_line(plan.goal or plan.name or plan.description, max(width - len(size) - 9, 20))
    yield styled("bold", "plan: " + (f"{title} · " if title else "")) + size
    yield from rows(plan.steps, width, styled=styled, most=most)


def rows(
    steps: Sequence[Step], width: int, *, styled: Style = unstyled, most: int = MANY
) -> Iterator[str]:
    """A line for each step, parts indented under their group."""
    shown = steps[:most]
    by_id = {step.id: step for step in steps}
    heads = {step.id: _head(step, by_id) for step in shown}
    wide = min(max(map(cells, heads.values()), default=0), max(width // 2, 12))
    for step in shown:
        head = padded(heads[step.id], wide)
        rest = cut(" · ".join([does(step, 400), *notes(step)]), max(width - wide - 4, 0))
        yield f"  {head}  {styled('dim', rest)}".rstrip()
    if len(steps) > most:
        yield styled("dim", f"  … and {counted(len(steps) - most, 'step')} more")


def _head(step: Step, steps: Mapping[str, Step]) -> str:
    parent = steps.get(step.part_of)
    name = step.id.removeprefix(f"{parent.id}.") if parent else step.id
    needs = [need.removeprefix(f"{step.part_of}.") if parent else need for need in step.needs]
    return "  " * depth(step, steps) + one_line(
        name + (f" ← {', '.join(needs)}" if needs else ""), 60
    )


def depth(step: Step, steps: Mapping[str, Step]) -> int:
    """In how many groups a step stands."""
    deep = 0
    while (parent := steps.get(step.part_of)) is not None and deep < 20:
        step, deep = parent, deep + 1
    return deep


def does(step: Step, width: int) -> str:
    """What a step does, in a line: `$ command`, `/skill words`, or the words for its agent."""
    if step.run is not None:
        return one_line(f"$ {step.run.strip()}", width)
    if step.skill is not None:
        return one_line(f"/{step.skill}", width)
    return one_line(step.do or "", width)


def notes(step: Step) -> Iterator[str]:
    """What else decides about a step."""
    if step.foreach:
        yield one_line(f"for each of {step.foreach}", 60)
    if step.when:
        yield one_line(f"if {step.when}", 60)
    if step.verify:
        yield one_line(f"check: {step.verify.strip()}", 60)
    if step.allow_failure:
        yield "may fail"

"""A plan as a graph: in which order it runs, what its longest path is, how it is drawn.

The one home of networkx, which is loaded only when a path is asked for: it takes long to load.
The order itself is asked of `State`, so that a dry run and a run can't differ.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from agent.event import PlanCreated, StepFinished, StepStarted
from agent.order import order, overlap
from agent.plan import Plan, Step
from agent.state import State
from agent.views.figures import counted
from agent.views.plain import cells, cut, one_line, padded
from agent.views.plan_text import Style, does, notes, unstyled

if TYPE_CHECKING:
    from networkx import DiGraph

MANY = 1000  # steps of a plan whose needs are thinned for drawing
MOST_PLAYED = 1000  # steps of a plan for which it is worked out how many can run at once
ONE_ITEM = '["…"]'  # what a dry run takes for the result that a foreach goes over
MOST_ORDERS = 12  # lines of a dry run about order besides needs
COLOURS = {
    "done": "fill:#d8f3dc,stroke:#2d6a4f,color:#000",
    "failed": "fill:#ffd6d6,stroke:#b3261e,color:#000",
    "skipped": "fill:#eeeeee,stroke:#888888,color:#555",
    "cancelled": "fill:#fff3cd,stroke:#997404,color:#000",
    "running": "fill:#cfe8ff,stroke:#1d5b9b,color:#000",
    "waiting": "fill:#ffffff,stroke:#aaaaaa,color:#000",
}

Node: TypeAlias = tuple[str, str]
"""A kind ("step", or "begin" and "end" of a group) and the id of a step."""
Waits: TypeAlias = Mapping[str, frozenset[str]]


def waves(plan: Plan, workers: int) -> Iterator[tuple[Step, ...]]:
    """What runs at once, wave by wave, if each step takes as long as any other and ends well.

    Groups stand as their parts; a `foreach` as one copy; a `when` is taken to hold.
    """
    sure = tuple(structs.replace(step, when=None, needs=_needs(step)) for step in plan.steps)
    state = State.of([PlanCreated(plan=structs.replace(plan, steps=sure), source="file")])
    while True:
        while (event := state.due()) is not None:
            state.apply(event)
        wave = tuple(job.step for job in islice(state.jobs(), workers))
        if not wave:
            return
        for step in wave:
            state.apply(StepStarted(step=step.id, attempt=1))
        for step in wave:
            state.apply(StepFinished(step=step.id, status="done", summary=ONE_ITEM))
        yield wave


def _needs(step: Step) -> tuple[str, ...]:
    return tuple(id for id in step.after if id != step.source)


def at_once(plan: Plan) -> int:
    """How many steps can run beside each other at most; of a very large plan 0: not known."""
    if len(plan.steps) > MOST_PLAYED:
        return 0
    return max((len(wave) for wave in waves(plan, len(plan.steps) or 1)), default=0)


def further(plan: Plan) -> dict[str, set[str]]:
    """For each step those it comes after for what they read and write, needs aside."""
    levels: dict[str, list[Step]] = {}
    ids = {step.id for step in plan.steps}
    for step in plan.steps:
        levels.setdefault(step.part_of if step.part_of in ids else "", []).append(step)
    found: dict[str, set[str]] = {}
    for level in levels.values():
        found |= order([_as_one(step, levels) for step in level])
    return found


def _as_one(step: Step, levels: Mapping[str, Sequence[Step]]) -> Step:
    """A group as one step that reads and writes what its parts do."""
    parts = [_as_one(part, levels) for part in levels.get(step.id, ())]
    if not parts:
        return step
    silent = any(part.writes is None and part.reads is None for part in parts)
    return structs.replace(
        step,
        writes=None if silent else tuple(path for part in parts for path in part.writes or ()),
        reads=None if silent else tuple(path for part in parts for path in part.reads or ()),
    )


def dry_run(plan: Plan, workers: int, width: int = 100, *, styled: Style = unstyled) -> str:
    """The order that a plan would run in, for `ts run --dry-run`: lines of `width` columns."""
    found = list(waves(plan, workers))
    widest = max(map(len, found), default=0)
    title = one_line(plan.goal or plan.name, max(width - 40, 20))
    size = f"{counted(len(plan.steps), 'step')} in {counted(len(found), 'wave')}"
    rows = [styled("bold", cut(f"{title or 'plan'} · {size}, {widest} at once", width))]
    originals = {step.id: step for step in plan.steps}
    names = [one_line(step.id, 40) for wave in found for step in wave]
    wide = min(max(map(cells, names), default=0), width // 3)
    for number, wave in enumerate(found, 1):
        for n, step in enumerate(wave):
            known = originals.get(_pattern(step, originals), step)
            words = " · ".join([does(known, 400), *notes(known)])
            head = f"{number if not n else '':>4}  {padded(one_line(step.id, 40), wide)}  "
            rows.append(head + styled("dim", cut(words, max(width - cells(head), 0))))
    rows += _ordered(plan, width, styled)
    path = [id for id in critical_path(plan) if id in originals]
    if len(path) > 1:
        rows.append(cut("longest path: " + " → ".join(path), width))
    return "\n".join(rows)


def _pattern(step: Step, steps: Mapping[str, Step]) -> str:
    """The id of the step that a copy was made from: `each` of `each.1`, `each.x` of `each.1.x`."""
    for id, one in steps.items():
        if step.id not in steps and one.foreach and step.id.startswith(f"{id}.1"):
            return id + step.id.removeprefix(f"{id}.1")
    return step.id


def _ordered(plan: Plan, width: int, styled: Style) -> Iterator[str]:
    """Say which steps wait for others though they need nothing of them, and why."""
    steps = {step.id: step for step in plan.steps}
    found = [(id, other) for id, others in besides(plan).items() for other in sorted(others)]
    for id, other in found[:MOST_ORDERS]:
        why = reason(steps[id], steps[other])
        yield styled("yellow", cut(f"      {id} comes after {other}: {why}", width))
    if len(found) > MOST_ORDERS:
        yield styled("dim", f"      … and {len(found) - MOST_ORDERS} more such waits")


def reason(step: Step, other: Step) -> str:
    """Why a step comes after another that it does not need."""
    for path in step.reads or ():
        if any(overlap(path, written) for written in other.writes or ()):
            return f"it reads {path}, which {other.id} writes"
    for path in step.writes or ():
        if any(overlap(path, written) for written in other.writes or ()):
            return f"both write {path}"
    silent = [one.id for one in (step, other) if one.writes is None]
    return f"{' and '.join(silent) or step.id} may write anything; `writes` would tell"


def waits(plan: Plan) -> dict[str, set[str]]:
    """All that each step waits for: needs, and the order of reads and writes."""
    ids = {step.id for step in plan.steps}
    ordered = further(plan)
    return {step.id: {*step.after} & ids | ordered[step.id] for step in plan.steps}


def besides(plan: Plan) -> dict[str, set[str]]:
    """What each step waits for though no need, its own or another's, says so; thinned."""
    thin = reduced(waits(plan))
    return {step.id: thin[step.id] - {*step.after} for step in plan.steps}


def critical_path(plan: Plan, seconds: Mapping[str, float] | None = None) -> tuple[str, ...]:
    """The steps, one waiting for the other, that take longest together.

    `seconds`: how long each took; without it each counts the same. A group stands as its parts.
    """
    from networkx import dag_longest_path

    graph = _timed(plan, seconds)
    return tuple(name for kind, name in dag_longest_path(graph) if kind == "step" and name)


def strands(plan: Plan) -> tuple[list[list[Node]], list[tuple[Node, Node]]]:
    """A plan as it is drawn: its layers, each behind what it waits for, and its edges, thinned.

    A group stands as its parts; its begin and end are there only where they join several edges.
    """
    from networkx import topological_generations, transitive_reduction

    graph = _timed(plan, None)
    graph.remove_nodes_from([("begin", ""), ("end", "")])
    thin = graph if len(graph) > MANY else transitive_reduction(graph)
    for node in [node for node in thin if node[0] != "step"]:
        before, after = list(thin.predecessors(node)), list(thin.successors(node))
        if len(before) <= 1 or len(after) <= 1:
            thin.add_edges_from(product(before, after))
            thin.remove_node(node)
    place = {step.id: n for n, step in enumerate(plan.steps)}
    layers = [
        sorted(layer, key=lambda node: place[node[1]]) for layer in topological_generations(thin)
    ]
    return layers, list(thin.edges)


def _timed(plan: Plan, seconds: Mapping[str, float] | None) -> "DiGraph[tuple[str, str]]":
    """Steps, and begins and ends of groups, with the time of each on the edges that leave it."""
    from networkx import DiGraph

    groups = {step.part_of for step in plan.steps if step.part_of}
    place = {step.id: n for n, step in enumerate(plan.steps)}
    graph: DiGraph[tuple[str, str]] = DiGraph()

    def edge(before: tuple[str, str], after: tuple[str, str]) -> None:
        kind, id = before
        took = 0.0 if kind != "step" else 1.0 if seconds is None else seconds.get(id, 0.0)
        graph.add_edge(before, after, weight=took)

    for id, others in waits(plan).items():
        begin, end = (("begin", id), ("end", id)) if id in groups else (("step", id),) * 2
        edge(("begin", ""), begin)
        edge(end, ("end", ""))
        for other in sorted(others, key=place.__getitem__):
            edge(("end" if other in groups else "step", other), begin)
        if begin != end:
            edge(begin, end)
    for step in plan.steps:
        if step.part_of in groups:
            inner = step.id in groups
            edge(("begin", step.part_of), ("begin" if inner else "step", step.id))
            edge(("end" if inner else "step", step.id), ("end", step.part_of))
    return graph


def reduced(needs: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """The same relation without what follows from the rest; for drawing."""
    from networkx import DiGraph, transitive_reduction

    if len(needs) > MANY:
        return {id: set(of) for id, of in needs.items()}
    graph: DiGraph[str] = DiGraph()
    graph.add_nodes_from(needs)
    graph.add_edges_from((one, id) for id, of in needs.items() for one in of)
    thin = transitive_reduction(graph)
    return {id: set(thin.predecessors(id)) for id in needs}


def mermaid(plan: Plan, state: State | None = None) -> str:
    """The graph as a Mermaid flowchart; with a state, its steps and how each stands."""
    steps = list(state.steps.values()) if state else list(plan.steps)
    shown = structs.replace(plan, steps=tuple(steps))
    names = {step.id: f"s{n}" for n, step in enumerate(steps, 1)}
    needs = {step.id: {*step.after} & names.keys() for step in steps}
    rows = ["flowchart TD", *_nodes("", steps, names)]
    for id, of in reduced(needs).items():
        rows += [f"  {names[one]} --> {names[id]}" for one in sorted(of, key=names.__getitem__)]
    for id, of in besides(shown).items():
        rows += [f"  {names[one]} -.-> {names[id]}" for one in sorted(of, key=names.__getitem__)]
    if state:
        rows += _classes(state, names)
    return "\n".join(rows) + "\n"


def _nodes(group: str, steps: Sequence[Step], names: Mapping[str, str]) -> Iterator[str]:
    for step in steps:
        if (step.part_of if step.part_of in names else "") != group:
            continue
        words = [step.id, does(step, 60), *notes(step)]
        label = "<br/>".join(_label(word) for word in words if word)
        if any(part.part_of == step.id for part in steps):
            yield f'  subgraph {names[step.id]}["{label}"]'
            yield from _nodes(step.id, steps, names)
            yield "  end"
        else:
            yield f'  {names[step.id]}["{label}"]'


def _classes(state: State, names: Mapping[str, str]) -> Iterator[str]:
    for standing, look in COLOURS.items():
        if of := [names[id] for id in names if state.standing(id) == standing]:
            yield f"  classDef {standing} {look}"
            yield f"  class {','.join(of)} {standing}"


def _label(text: str) -> str:
    """Text within a label's quotes: all that Mermaid could read as its own is a number."""
    return "".join(
        sign if sign.isalnum() or sign in " .,_-/*:" else f"#{ord(sign)};" for sign in text
    )

"""The graph of a run as an SVG: layers from left to right, what it waits for to the left.

It stands alone (`ts show --svg`) or in the report, where each step leads to what is told of it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from agent.plan import Plan, Step
from agent.state import State
from agent.views import figures
from agent.views.graph import Node, critical_path, strands
from agent.views.lines import SIGNS
from agent.views.plain import cut, one_line
from agent.views.report.markup import Html, tag

GLYPHS = {"running": "▸", "waiting": "·"} | {name: sign for name, (_, sign) in SIGNS.items()}
MANY = 60  # steps from which on each is drawn small
SWEEPS = 4  # over the layers, to have fewer edges cross
BEND = "bend"  # a kind of node: where an edge crosses a layer
CHARACTER = 7.3  # pixels of one


class Size(Struct, frozen=True):
    wide: float
    high: float
    gap: float  # between columns
    rows: int  # of a column at most


class Spot(Struct, frozen=True):
    """Where a node is: its middle at the left, and how wide it is."""

    x: float
    y: float
    wide: float


def style(name: str) -> str:
    """A stylesheet of ours."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def alone(state: State, seconds: Mapping[str, float]) -> Html:
    """The drawing as a file of its own, light or dark as its reader is."""
    steps = state.listed
    path = longest(state, seconds)
    return Html(
        drawn(state, path, {}, Html(tag("style", Html(style("graph.css"))))) if steps else ""
    )


def longest(state: State, seconds: Mapping[str, float]) -> tuple[str, ...]:
    """The steps of the critical path, as long as they took; none where nothing has run."""
    took = {id: seconds.get(id, 0.0) for id in state.steps}
    path = critical_path(Plan(steps=tuple(state.listed)), took)
    return tuple(id for id in path if took.get(id))


def drawn(
    state: State, path: Sequence[str], links: Mapping[str, str], before: Html | None = None
) -> Html:
    """The drawing. `links`: where each step leads to; `before`: what stands at its beginning."""
    steps = {step.id: step for step in state.listed}
    layers, edges = strands(Plan(steps=tuple(state.listed)))
    size = _size(sum(map(len, layers)))
    chains = _bends(layers, edges) if len(steps) <= MANY else [[a, b] for a, b in edges]
    layers = _uncrossed(layers, [pair for chain in chains for pair in pairwise(chain)])
    spots, width, height = _spots(layers, size)
    pairs = set(pairwise(path))
    lines = [
        _edge([spots[node] for node in chain], _look(chain[0], chain[-1], steps, pairs))
        for chain in chains
    ]
    nodes = [
        _node(state, steps[id], spots[kind, id], size, links.get(id), id in path)
        if kind == "step"
        else tag("circle", cx=spots[kind, id].x, cy=spots[kind, id].y, r=3.5, class_="joint")
        for layer in layers
        for kind, id in layer
        if kind != BEND
    ]
    done, count = state.count
    words = f"The plan as a graph: {done} of {figures.counted(count, 'step')} done"
    return tag(
        "svg", before or Html(""), tag("title", words), tag("g", *lines, fill="none"), *nodes,
        xmlns="http://www.w3.org/2000/svg", class_="graph", role=None if links else "img",
        viewBox=f"0 0 {width:g} {height:g}", width=width, height=height,
    )  # fmt: skip


def _size(count: int) -> Size:
    rows = max(8, round(count**0.5 * 1.3))
    return Size(180.0, 48.0, 44.0, rows) if count <= MANY else Size(128.0, 28.0, 40.0, rows)


def _bends(layers: Sequence[list[Node]], edges: Sequence[tuple[Node, Node]]) -> list[list[Node]]:
    """For each edge the nodes that it passes; in a layer that it has to cross it gets a place of
    its own, so that it goes behind no step."""
    at = {node: n for n, layer in enumerate(layers) for node in layer}
    found = list[list[Node]]()
    for number, (one, other) in enumerate(edges):
        between = range(at[one] + 1, at[other])
        bends = [(BEND, f"{number}.{n}") for n in between]
        for n, bend in zip(between, bends, strict=True):
            layers[n].append(bend)
        found.append([one, *bends, other])
    return found


def _spots(layers: Sequence[Sequence[Node]], size: Size) -> tuple[dict[Node, Spot], float, float]:
    """Where each node is, and how large the whole."""
    columns: list[tuple[float, Sequence[Node], float]] = []
    x, edge = 12.0, 12.0
    for layer in layers:
        wide = size.wide if any(kind == "step" for kind, _ in layer) else 0.0
        for start in range(0, len(layer), size.rows):
            columns.append((x, layer[start : start + size.rows], wide))
            x += wide + (14.0 if start + size.rows < len(layer) else size.gap)
    slot = size.high + 14
    high = max((len(column) for _, column, _ in columns), default=1) * slot
    spots = {
        node: Spot(
            left + (wide / 2 if node[0] in {"begin", "end"} else 0),
            edge + (high - len(column) * slot) / 2 + (n + 0.5) * slot - 7,
            0 if node[0] in {"begin", "end"} else wide,
        )
        for left, column, wide in columns
        for n, node in enumerate(column)
    }
    return spots, max(x - size.gap, 0) + 12, high + 2 * edge - 14


def _uncrossed(
    layers: Sequence[Sequence[Node]], edges: Sequence[tuple[Node, Node]]
) -> list[list[Node]]:
    """The same layers, each in the order of the middle of its neighbours: fewer edges cross."""
    before, after = defaultdict[Node, list[Node]](list), defaultdict[Node, list[Node]](list)
    for one, other in edges:
        before[other].append(one)
        after[one].append(other)
    found = [list(layer) for layer in layers]
    place = {node: n / len(layer) for layer in found for n, node in enumerate(layer)}
    for sweep in range(SWEEPS):
        near = after if sweep % 2 else before
        for layer in reversed(found) if sweep % 2 else found:
            middle = {
                node: sum(place[one] for one in near[node]) / len(near[node])
                if near[node]
                else place[node]
                for node in layer
            }
            layer.sort(key=middle.__getitem__)
            place |= {node: (n + 0.5) / len(layer) for n, node in enumerate(layer)}
    return found


def _look(one: Node, other: Node, steps: Mapping[str, Step], path: set[tuple[str, str]]) -> str:
    if (one[1], other[1]) in path:
        return "edge critical"
    loose = one[0] == other[0] == "step" and one[1] not in steps[other[1]].after
    return "edge order" if loose and not steps[other[1]].part_of else "edge"


def _edge(spots: Sequence[Spot], look: str) -> Html:
    """A line from the right of the first to the left of the last, straight through the others."""
    first, *rest = spots
    left, y = first.x + first.wide, first.y
    line = f"M{left:g} {y:g}"
    for spot in rest:
        bend = max((spot.x - left) / 2, 18)
        line += f"C{left + bend:g} {y:g} {spot.x - bend:g} {spot.y:g} {spot.x:g} {spot.y:g}"
        left, y = spot.x + spot.wide, spot.y
        if spot is not rest[-1]:
            line += f"H{left:g}"
    return tag("path", d=line, class_=look)


def _node(
    state: State, step: Step, spot: Spot, size: Size, link: str | None, critical: bool
) -> Html:
    standing, small = state.standing(step.id), size.high < 40
    top, room = spot.y - size.high / 2, int((size.wide - 38) / CHARACTER)
    rows = [
        tag("rect", x=spot.x, y=top, width=size.wide, height=size.high, rx=8.0),
        tag("text", GLYPHS[standing], x=spot.x + 12, y=top + (19 if small else 20), class_="glyph"),
        tag(
            "text", cut(one_line(step.id, 80), room),
            x=spot.x + 30, y=top + (19 if small else 20), class_="name",
        ),
    ]  # fmt: skip
    if not small:
        words = cut(_figures(state, step.id), room + 3)
        rows.append(tag("text", words, x=spot.x + 30, y=top + 37, class_="figures"))
    title = tag("title", f"{one_line(step.id, 80)}: {standing}")
    look = f"node {standing}" + (" critical" if critical else "")
    inner = tag("g", title, *rows, class_=look)
    return tag("a", inner, href=link) if link else inner


def _figures(state: State, id: str) -> str:
    """What a step took, in a few words."""
    if id in state.reused:
        return "reused"
    words = [figures.took(state.seconds[id])] if id in state.seconds and state.tries.get(id) else []
    if (spent := state.spent.get(id)) and spent.total:
        words.append(figures.tokens(spent.total))
    if state.tries.get(id, 0) > 1:
        words.append(f"{state.tries[id]} tries")
    return " · ".join(words) or state.standing(id)

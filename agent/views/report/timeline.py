"""When each step was under way: a bar for each attempt, those of the critical path marked."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from agent.views import figures
from agent.views.plain import one_line
from agent.views.report.account import Account, Try
from agent.views.report.markup import Html, joined, tag

WIDE = 1000.0  # units of the axis
LEAST = 3.0  # units that a bar has at least: it is to be seen
TICKS = 5


def timeline(account: Account, path: Collection[str], links: Mapping[str, str]) -> Html:
    """The bars, in the order in which the steps began."""
    length = max(account.length, 0.001)
    groups = {step.id for step in account.state.listed if step.group}
    begun = [(id, tries) for id, tries in account.tries.items() if id not in groups and tries]
    rows = [
        _row(id, tries, length, account.pauses, critical=id in path, link=links.get(id))
        for id, tries in sorted(begun, key=lambda each: each[1][0].began)
    ]
    scale = tag(
        "div",
        *(tag("span", figures.took(length * n / (TICKS - 1))) for n in range(TICKS)),
        class_="ticks",
        aria_hidden="true",
    )
    return tag(
        "div", tag("div", tag("span"), scale, tag("span"), class_="bar"), *rows, class_="bars"
    )


def _row(
    id: str, tries: Sequence[Try], length: float, pauses: Sequence[float], *, critical: bool,
    link: str | None,
) -> Html:  # fmt: skip
    name = one_line(id, 60)
    took = sum(each.ended - each.began for each in tries)
    words = "reused" if tries[-1].reused else figures.took(took)
    if critical:
        words += " ◆"
    drawing = tag(
        "svg",
        *_marks(pauses, length),
        *(_bar(each, length, critical=critical) for each in tries),
        viewBox=f"0 0 {WIDE:g} 16",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    return tag(
        "div", tag("a", name, href=link, title=name), drawing, tag("span", words, class_="took"),
        class_="bar",
    )  # fmt: skip


def _bar(each: Try, length: float, *, critical: bool) -> Html:
    left = min(each.began / length * WIDE, WIDE - LEAST)
    wide = max((each.ended - each.began) / length * WIDE, LEAST)
    look = (each.status or "running") + (" critical" if critical else "")
    return tag("rect", x=left, y=2, width=min(wide, WIDE - left), height=12, class_=look)


def _marks(pauses: Sequence[float], length: float) -> Iterator[Html]:
    """Where the run had stopped and was gone on with."""
    for pause in pauses:
        at = pause / length * WIDE
        yield tag("line", x1=at, x2=at, y1=0, y2=16, class_="pause")


def chain(path: Sequence[str], seconds: Mapping[str, float], links: Mapping[str, str]) -> Html:
    """The critical path in words."""
    total = figures.took(sum(seconds.get(id, 0.0) for id in path))
    steps = [tag("a", one_line(id, 60), href=links.get(id)) for id in path]
    return tag("p", "◆ Critical path, ", total, ": ", joined(steps, " → "), class_="chain")

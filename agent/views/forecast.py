"""What a plan may cost, in a line, before it starts."""

from collections.abc import Callable, Sequence

from agent.message import Usage
from agent.plan import Plan, Step
from agent.views.figures import counted, tokens
from agent.views.graph import at_once

FEW = 4  # earlier steps; of fewer all count, of more the middle half

# Of a step, where nothing is known: from a look at a few files to a change with its tests.
LITTLE = Usage(input_tokens=6_000, cache_read_input_tokens=12_000, output_tokens=800)
MUCH = Usage(input_tokens=25_000, cache_read_input_tokens=200_000, output_tokens=8_000)

Price = Callable[[Step, Usage], float | None]
"""What a step's model takes for that, in US dollars; None: it is not known."""


def forecast(plan: Plan, workers: int, history: Sequence[Usage], price: Price) -> str:
    """How many steps a plan has, how many run at once, and what they may cost.

    `history`: what earlier steps have used. A step that is done for each item counts once.
    """
    size = counted(len(plan.steps), "step")
    wide = min(at_once(plan) or workers, workers)
    parts = [size + (f", up to {wide} at once" if wide > 1 else "")]
    asking = [step for step in plan.steps if step.do is not None]
    if not asking:
        return f"{parts[0]}, no model is asked"
    used = history or (LITTLE, MUCH)
    low, high = middle([usage.total for usage in used])
    spent = span(tokens(round(low * len(asking))), tokens(round(high * len(asking))))
    models = {step.model: step for step in asking}
    each_of = {model: bounds([price(step, one) for one in used]) for model, step in models.items()}
    costs = [each_of[step.model] for step in asking]
    known = [each for each in costs if each is not None]
    if len(known) < len(costs):
        parts.append(f"about {spent}, price unknown")
    elif not any(high for _, high in known):
        parts.append(f"about {spent}, free of charge")
    else:
        one, other = (sum(each[n] for each in known) for n in (0, 1))
        parts.append(f"about ${span(*dollars(one, other))}")
    if any(step.foreach for step in plan.steps):
        parts.append("more where a step is done for each item")
    whence = f"by {counted(len(history), 'earlier step')} here" if history else "a guess"
    return f"{', '.join(parts)} ({whence})"


def bounds(costs: Sequence[float | None]) -> tuple[float, float] | None:
    """The lowest and the highest that is likely; None where one is not known."""
    known = [cost for cost in costs if cost is not None]
    return middle(known) if len(known) == len(costs) else None


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The bounds of the middle half; of few, of all.

    >>> middle([1, 2, 3, 4, 5, 6, 7, 90]), middle([3, 1])
    ((2, 7), (1, 3))
    """
    ranked = sorted(values)
    off = (len(ranked) - 1) // 4 if len(ranked) > FEW else 0
    return ranked[off], ranked[-1 - off]


def dollars(low: float, high: float) -> tuple[str, str]:
    """
    >>> dollars(0.0412, 0.2249), dollars(0.0004, 0.0031), dollars(3, 12.345)
    (('0.04', '0.22'), ('0.0004', '0.0031'), ('3.00', '12.35'))
    """
    digits = 4 if high < 0.02 else 2
    return f"{low:.{digits}f}", f"{high:.{digits}f}"


def span(low: str, high: str) -> str:
    """
    >>> span("0.04", "0.22"), span("18k tok", "90k tok"), span("1 tok", "1 tok")
    ('0.04–0.22', '18–90k tok', '1 tok')
    """
    if low == high:
        return low
    unit = high.removeprefix(high.rstrip(" tok"))
    return f"{low.removesuffix(unit) if unit else low}–{high}"

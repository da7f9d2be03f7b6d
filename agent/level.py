"""What steps of one level wait for: those they need, and those that reads and writes put first."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from agent.order import order
from agent.plan import Step
from agent.standing import Standings


def waiting(stand: Standings, level: list[Step], settled: Collection[str]) -> dict[str, set[str]]:
    """For each step of a level those of the same level that it waits for; `settled` ones too."""
    ids = {step.id for step in level}
    waits = {step.id: _peers(step.after, ids, stand.steps) for step in level}
    for id, of in _ordered(stand, level, waits, settled).items():
        waits[id] |= of
    return waits


def _peers(waited: Iterable[str], level: set[str], steps: Mapping[str, Step]) -> set[str]:
    """The steps of a level that these are, or are in."""
    found = set(waited)
    while outside := {id for id in found - level if id in steps}:
        found = found - outside | {steps[id].part_of for id in outside}
    return found & level


def _ordered(
    stand: Standings,
    level: list[Step],
    waits: Mapping[str, set[str]],
    settled: Collection[str],
) -> dict[str, set[str]]:
    """What reads and writes let the open ones of a level wait for besides."""
    open = [step for step in level if step.id not in settled]
    ids = {step.id for step in open}
    touching, free = list[Step](), set[str]()
    for step in open:
        below = stand.below(step.id) if step.group else []
        parts = [part for part in below if not part.group]
        if any(part.reads is None and part.writes is None for part in parts):
            free.add(step.id)
        touching.append(_with_parts(step, parts) if parts else step)
    begun = {id for id in ids if stand.standing(id) == "running"}
    if len(open) < len(level):
        waits = {id: waits[id] & ids for id in ids}
    return order(touching, waits, begun, free)


def _with_parts(step: Step, parts: list[Step]) -> Step:
    """A group as one step that reads and writes what its parts say."""
    return structs.replace(
        step,
        reads=tuple(path for part in parts for path in part.reads or ()),
        writes=tuple(path for part in parts for path in part.writes or ()),
    )

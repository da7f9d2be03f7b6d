"""A run told afterwards, and the table of runs: both read from events alone."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins

from agent.event import Event, RunFinished, RunStarted
from agent.state import State
from agent.views import figures
from agent.views.lines import SIGNS, WORDS, Level, Story, between
from agent.views.plain import cells, cut, one_line, padded, safe
from agent.views.plan_text import Style, unstyled
from agent.views.result import words


def story(
    events: Iterable[Event],
    width: int,
    *,
    styled: Style = unstyled,
    level: Level = "normal",
) -> Iterator[str]:
    """What happened, each line with the time since the run began, and the answer at the end."""
    teller = Story(styled, lambda: width - 9, level)
    began, answer = "", ""
    for event in events:
        if not began:
            began = event.time
            yield from _head(event, styled, width)
        passed = figures.clock(between(began, event.time)) if event.time else ""
        for n, line in enumerate(teller.lines(event)):
            yield f"{padded('' if n else passed, 7)}  {line}".rstrip()
        if isinstance(event, RunFinished):
            answer = event.answer
    if not teller.state.finished and began:
        yield styled("yellow", f"{'':9}the log ends here: {teller.progress}")
    if answer:
        yield ""
        yield from safe(answer.rstrip("\n")).split("\n")


def _head(event: Event, styled: Style, width: int) -> Iterator[str]:
    words = [f"run {event.run or '?'}"]
    if event.time:
        words.append(event.time[:16].replace("T", " ") + " UTC")
    if isinstance(event, RunStarted) and event.goal:
        words.append(one_line(event.goal, width))
    yield styled("bold", cut(" · ".join(words), width))


def summary(events: Iterable[Event]) -> dict[str, Any]:
    """A run as one JSON object: how it stands, each step, and what it took."""
    state = State.of(events)
    end = state.finished
    return {
        "run": state.run,
        "goal": state.goal,
        "cwd": state.cwd,
        "model": state.model,
        "began": state.began,
        "status": end.status if end else "unfinished",
        "answer": end.answer if end else state.answer,
        "seconds": end.seconds if end else None,
        "usage": to_builtins(state.usage),
        "cost_usd": state.cost_usd,
        "revisions": state.revisions,
        "steps": {
            step.id: {
                "status": state.standing(step.id),
                "summary": words(state, step.id),
                "outputs": list(state.outputs.get(step.id, ())),
                "attempts": state.tries.get(step.id, 0),
                "seconds": state.seconds.get(step.id, 0.0),
                "needs": list(step.after),
            }
            for step in state.listed
        },
    }


class Listed(Struct, frozen=True, kw_only=True):
    """A run in the table of runs."""

    run: str
    state: State
    live: bool = False  # some process is carrying it on


def runs(
    listed: Sequence[Listed], now: datetime, width: int, *, styled: Style = unstyled
) -> Iterator[str]:
    """A table: run, how it stands, age, steps, cost, goal. `now` knows its time zone."""
    if not listed:
        yield "no runs in this directory yet"
        return
    rows = [_row(one, now) for one in listed]
    heads = ("RUN", "STATE", "AGE", "STEPS", "COST")
    wide = [max(map(cells, column)) for column in zip(heads, *rows, strict=True)]
    yield styled("bold", _line([*heads, "GOAL"], wide, width))
    for one, row in zip(listed, rows, strict=True):
        end = one.state.finished
        style = SIGNS[end.status][0] if end else "cyan" if one.live else "yellow"
        yield styled(style, _line([*row, one_line(one.state.goal, 400)], wide, width))


def _row(one: Listed, now: datetime) -> tuple[str, str, str, str, str]:
    state = one.state
    steps = [step for step in state.listed if not step.group]
    fine = sum(state.fine(step.id) for step in steps)
    end = state.finished
    word = WORDS.get(end.status, end.status) if end else "running" if one.live else "unfinished"
    passed = between(state.began, now.isoformat()) if state.began else 0
    return (
        one_line(one.run, 40),
        word,
        figures.age(passed) if state.began else "?",
        f"{fine}/{len(steps)}",
        "?" if state.cost_usd is None else figures.money(state.cost_usd),
    )


def _line(row: Sequence[str], wide: Sequence[int], width: int) -> str:
    fixed = "  ".join(padded(cell, size) for cell, size in zip(row, wide, strict=False))
    return cut(f"{fixed}  {row[-1]}", width).rstrip()

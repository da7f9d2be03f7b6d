"""A run told afterwards, and the table of runs: both read from events alone."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from agent.event import OVER, Event, RunFinished, RunStarted
from agent.message import Usage
from agent.standing import Brief, workspaces
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
    live: bool = False,
) -> Iterator[str]:
    """What happened, each line with the time since the run began, and the answer at the end.

    `live`: the run is under way.
    """
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
    end = teller.state.finished
    if not end and began:
        where = "it is under way" if live else "the log ends here"
        yield styled("yellow", f"{'':9}{where}: {teller.progress}")
    if began and not live and (not end or end.status not in OVER):
        yield styled("yellow", f"{'':9}`ts resume {teller.state.run}` goes on")
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
                "reused": step.id in state.reused,
                "usage": to_builtins(state.spent.get(step.id, Usage())),
                "cost_usd": state.costs.get(step.id, 0.0),
                "needs": list(step.after),
            }
            for step in state.listed
        },
    }


def steps(
    state: State, width: int, *, styled: Style = unstyled, live: bool = False
) -> Iterator[str]:
    """A table of the steps that were begun: how each ended, attempts, time, tokens, cost, files.

    `live`: the run is under way.
    """
    listed = [step.id for step in state.listed if not step.group and state.tries.get(step.id)]
    rows = [_step_row(state, id, live=live) for id in listed]
    if not rows:
        if live:  # whoever asks for it now waits for an answer
            yield "no step has begun yet"
        return
    heads = ("STEP", "STATE", "TRIES", "TIME", "TOKENS", "COST")
    wide = [max(map(cells, column)) for column in zip(heads, *rows, strict=True)]
    yield ""
    yield styled("bold", _line([*heads, "FILES"], wide, width))
    for id, row in zip(listed, rows, strict=True):
        style = SIGNS[state.status[id]][0] if state.status.get(id) in SIGNS else "cyan"
        yield styled(style, _line([*row, one_line(_files(state, id), 400)], wide, width))


def _step_row(state: State, id: str, *, live: bool) -> tuple[str, str, str, str, str, str]:
    reused, cost, standing = id in state.reused, state.costs.get(id, 0.0), state.standing(id)
    cut_off = standing == "running" and not live
    return (
        one_line(id, 40),
        "reused" if reused else "cut off" if cut_off else standing,
        str(state.tries[id]),
        figures.took(state.seconds[id]) if id in state.seconds and not reused else "",
        figures.tokens(state.spent[id].total).removesuffix(" tok") if id in state.spent else "",
        "?" if cost is None else figures.money(cost) if cost else "",
    )


def _files(state: State, id: str) -> str:
    """What a step has left, its outputs by their name in the workspace."""
    home = f"{workspaces(state.cwd)}{state.run}/"
    return " ".join(path.removeprefix(home) for path in state.outputs.get(id, ()))


def runs(
    listed: Sequence[Brief], now: datetime, width: int, *, styled: Style = unstyled
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
        style = {"running": "cyan", "unfinished": "yellow"}.get(one.status) or SIGNS[one.status][0]
        yield styled(style, _line([*row, one_line(one.goal, 400)], wide, width))


def _row(one: Brief, now: datetime) -> tuple[str, str, str, str, str]:
    return (
        one_line(one.run, 40),
        WORDS.get(one.status, one.status),
        figures.age(between(one.began, now.isoformat())) if one.began else "?",
        f"{one.done}/{one.steps}",
        "?" if one.cost_usd is None else figures.money(one.cost_usd),
    )


def _line(row: Sequence[str], wide: Sequence[int], width: int) -> str:
    fixed = "  ".join(padded(cell, size) for cell, size in zip(row, wide, strict=False))
    return cut(f"{fixed}  {row[-1]}", width).rstrip()

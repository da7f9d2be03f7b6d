"""`ts runs` and `ts show`: the runs of a directory listed, told, and deleted."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.commands.front import as_json, directory, output, print_json, say
from agent.errors import UsageError, near
from agent.event import OVER
from agent.plan import Plan
from agent.standing import Brief
from agent.state import State
from agent.store import briefs, log, workspace
from agent.store.lines import holder
from agent.views import graph
from agent.views import show as view
from agent.views.figures import counted
from agent.views.lines import Level

MOST_DAYS = 100_000  # that --prune looks back


def run_commands(typed: argparse.Namespace) -> int:
    """`ts runs [list|rm RUN…]`, `ts runs --prune [DAYS]`"""
    what, *words = typed.words or ["list"]
    if typed.prune is not None:
        if typed.words:
            raise UsageError("--prune takes a number of days and no more", hint="ts runs --prune 7")
        return prune(typed)
    doing = {"list": list_runs, "rm": remove}
    if what not in doing:
        raise UsageError(f"ts runs {what}{near(what, list(doing))}", hint=", ".join(doing))
    return doing[what](typed, words)


def list_runs(typed: argparse.Namespace, words: Sequence[str]) -> int:
    found = briefs.briefs(directory())
    if as_json(typed):
        for one in found:
            print_json(_told(one))
        return 0
    out = output(sys.stdout)
    for line in view.runs(found, datetime.now(UTC), out.width, styled=out.styled):
        out.line(line)
    return 0


def _told(one: Brief) -> dict[str, Any]:
    """How a run stands, for a script."""
    state = briefs.standing(workspace.run(directory(), one.run))
    return {
        "run": one.run,
        "goal": one.goal,
        "status": one.status,
        "began": one.began,
        "cost_usd": one.cost_usd,
        "done": one.done,
        "steps": {step.id: state.standing(step.id) for step in state.listed},
    }


def remove(typed: argparse.Namespace, words: Sequence[str]) -> int:
    """Delete runs, their logs and workspaces; none is deleted unless all are there."""
    if not words:
        raise UsageError("which run?", hint="ts runs rm RUN…; `ts runs` lists them")
    cwd = directory()
    places = {place.id: place for place in (workspace.find(cwd, word) for word in words)}
    _delete(typed, list(places.values()))
    return 0


def prune(typed: argparse.Namespace) -> int:
    """Delete the runs that began longer ago and have come to their end: no other could be resumed
    or is under way."""
    if not 0 <= typed.prune <= MOST_DAYS:
        raise UsageError(f"--prune takes days, 0 to {MOST_DAYS:,}")
    cwd = directory()
    until = (datetime.now(UTC) - timedelta(days=typed.prune)).isoformat()
    old = [one for one in briefs.briefs(cwd) if one.began and one.began < until]
    _delete(typed, [workspace.run(cwd, one.run) for one in old if one.status in OVER])
    if (left := sum(one.status not in OVER for one in old)) and not typed.quiet:
        say(f"left {counted(left, 'run')} that can be gone on with; `ts runs rm` deletes those too")
    return 0


def _delete(typed: argparse.Namespace, places: Sequence[workspace.Run]) -> None:
    for place in places:
        log.remove(place.log)
        workspace.remove(place)
    if not typed.quiet:
        ids = ", ".join(place.id for place in places[:5]) + (" …" if len(places) > 5 else "")
        say(f"deleted {counted(len(places), 'run')}" + (f": {ids}" if ids else ""))


def show(typed: argparse.Namespace) -> int:
    """`ts show [RUN]`"""
    place = workspace.find(directory(), typed.words[0] if typed.words else "")
    record = log.recorded(place.log)
    if record.notice:
        say(f"ts: {record.notice}")
    out = output(sys.stdout)
    if typed.mermaid:
        state = State.of(record.events)
        out.answer(graph.mermaid(Plan(goal=state.goal, steps=tuple(state.listed)), state))
    elif typed.svg:
        from agent.views import report  # late: most don't want a picture

        account = report.Account(record.events)
        out.answer(report.alone(account.state, report.taken(account.tries)))
    elif as_json(typed):
        print_json(view.summary(record.events))
    else:
        level: Level = "verbose" if typed.verbose else "normal"
        live, state = bool(holder(place.log)), State.of(record.events)
        told = view.story(record.events, out.width, styled=out.styled, level=level, live=live)
        for line in (*told, *view.steps(state, out.width, styled=out.styled, live=live)):
            out.line(line)
    return 0

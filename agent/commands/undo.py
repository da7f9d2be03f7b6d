"""`ts undo`: what a run, a turn of a chat or an undo has changed is put back."""

import argparse
import sys
from collections.abc import Collection
from typing import Any

from agent.commands.front import directory, output, print_json, say, veil
from agent.commands.signals import signals
from agent.errors import ConsentError
from agent.settings import MODES
from agent.stop import Stop
from agent.store import settingsfile, worked
from agent.store import undo as store_undo
from agent.store.snapshots import Snapshots
from agent.store.undo import Done, Preview
from agent.store.worked import Work
from agent.views import undo as view
from agent.views.ask import TerminalAsk
from agent.views.plain import Output, one_line, safe


def undo(typed: argparse.Namespace) -> int:
    """`ts undo [RUN [STEP]]`: shows what it changes, asks, does it; a way back is kept.

    The exit code is 1 where a file that the work has changed is left without anybody being asked,
    or could not be put back.
    Raises ConsentError where nobody can be asked and `-y` does not say so either.
    """
    cwd, stop = directory(), Stop()
    store = Snapshots(cwd, settingsfile.child_environment())
    with signals(stop):
        work = worked.work(cwd, *typed.words)
        preview = store_undo.preview(store, [work])
        stop.check()
        if not preview.changes:
            return nothing(typed, work)
        if typed.output_format == "text":
            show(typed, store, preview)
        if typed.dry_run:
            return told(typed, preview, Done(kept=preview.changes), asked=True)
        asks = asking(stop)
        also = agreed(typed, preview, asks)
        stop.check()
        if also is None:
            return told(typed, preview, Done(kept=preview.changes), asked=True)
        done = store_undo.undo(store, preview, also)
    return told(typed, preview, done, asked=asks is not None and not yes(typed))


def yes(typed: argparse.Namespace) -> bool:
    """Whether the command line has agreed already."""
    return MODES.get(typed.permission_mode or "") == "auto"


def asking(stop: Stop) -> TerminalAsk | None:
    """Who can be asked; None where there is no terminal."""
    out = output(sys.stderr)
    there = sys.stdin is not None and sys.stdin.isatty() and out.tty
    return TerminalAsk(out, sys.stdin, stop=stop) if there else None


def nothing(typed: argparse.Namespace, work: Work) -> int:
    """Say that there is nothing to do, and why."""
    if typed.output_format != "text":
        print_json(value(work.id, Done()))
    elif work.undone:
        say(f"ts: {work.id} is undone already; `ts undo {work.undone}` brings it back")
    else:
        say(f"ts: every file that {work.id} has changed is as it was before")
    return 0


def show(typed: argparse.Namespace, store: Snapshots, preview: Preview) -> None:
    """The files, and with -v the lines."""
    out = output(sys.stdout)
    listed(out, preview)
    if typed.verbose:
        for row in view.difference(veil().text(store_undo.patch(store, preview)), out.styled):
            out.line(row)


def listed(out: Output, preview: Preview) -> None:
    """The work that is taken back, and its files."""
    for work in preview.works:
        words = one_line(work.words, max(out.width - len(work.id) - 12, 20))
        out.line(out.styled("bold", " · ".join(filter(None, (f"undo {safe(work.id)}", words)))))
    for row in view.rows(preview.changes, out.styled):
        out.line(row)


def agreed(
    typed: argparse.Namespace, preview: Preview, asks: TerminalAsk | None
) -> Collection[str] | None:
    """The files besides the sure ones that are to be put back; None to do nothing.

    Raises ConsentError.
    """
    if yes(typed):
        return ()
    if asks is None:
        again = " ".join(
            ["ts undo", *typed.words] if typed.words else ["ts undo", preview.works[0].id]
        )
        raise ConsentError(
            "nothing has been put back: there is nobody to ask", hint=f"`{again} -y` does it"
        )
    if preview.sure:
        what = "put them back?" if len(preview.sure) > 1 else "put it back?"
        if asks.choose(what, {"y": "yes", "n": "no"}) != "y":
            return None
    return others(preview, asks)


def others(preview: Preview, asks: TerminalAsk) -> set[str]:
    """Those that the user wants put back although there is a reason to leave them alone."""
    also, open = set[str](), [change for change in preview.asked if change.possible]
    for number, change in enumerate(open):
        choices = {"y": "put it back", "n": "leave it", "a": "put all of the rest back"}
        choice = asks.choose(view.question(change), choices | {"q": "leave all of the rest"})
        if choice == "a":
            return also | {each.path for each in open[number:]}
        if choice in {"q", ""}:
            break
        if choice == "y":
            also.add(change.path)
    return also


def told(typed: argparse.Namespace, preview: Preview, done: Done, *, asked: bool) -> int:
    """Say what has become of it; the exit code."""
    if typed.output_format != "text":
        print_json(value(preview.works[0].id, done))
    else:
        for path, why in done.failed:
            say(f"ts: {path}: {why}")
        if done.id and not typed.quiet:
            say(view.outcome(len(done.changed), len(done.kept), f"ts undo {done.id}"))
        elif not typed.dry_run:
            say("ts: nothing has been put back")
    left = [change for change in done.kept if change.why != "unsure"] if done.id else done.kept
    return int(bool(done.failed) or (bool(left) and not asked))


def readable(path: str) -> str:
    """A path as JSON can hold it."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def value(work: str, done: Done) -> dict[str, Any]:
    """The same for a script."""
    return {
        "type": "undo",
        "of": work,
        "undo": done.id or None,
        "changed": [{"path": readable(each.path), "what": each.what} for each in done.changed],
        "kept": [
            {"path": readable(each.path), "what": each.what, "why": each.why} for each in done.kept
        ],
        "failed": [{"path": readable(path), "why": why} for path, why in done.failed],
    }

"""`ts sessions`: the conversations of a directory, one of them shown, exported, or deleted."""

import argparse
import sys
from collections.abc import Sequence

import msgspec

from agent.commands.export import export, transcript
from agent.commands.front import answer, as_json, directory, load, output, print_json, say
from agent.errors import UsageError, near
from agent.store import sessions
from agent.views.figures import age, counted
from agent.views.plain import cells, one_line
from agent.views.transcript import jsonl, markdown


def session_commands(typed: argparse.Namespace) -> int:
    """`ts sessions [list|show [ID]|export ID [FILE]|rm ID…]`; an ID may be a title."""
    what, *words = typed.words or ["list"]
    doing = {"list": list_sessions, "show": show, "export": export_session, "rm": remove}
    if what not in doing:
        raise UsageError(f"ts sessions {what}{near(what, list(doing))}", hint=", ".join(doing))
    return doing[what](typed, words)


def list_sessions(typed: argparse.Namespace, words: Sequence[str]) -> int:
    out = output(sys.stdout)
    for one in sessions.listed(directory()):
        if as_json(typed):
            print_json(msgspec.to_builtins(one))
        else:
            told = f"{one.id}  {age(one.age):>7}  {counted(one.count, 'message'):>13}  "
            begin = one_line(one.title or one.words, max(out.width - cells(told) - 1, 12))
            out.line(told + begin)
    return 0


def show(typed: argparse.Namespace, words: Sequence[str]) -> int:
    """What was said, as Markdown or JSON lines, without keys."""
    found = _read(words)
    form = jsonl if as_json(typed) else markdown
    answer(form(transcript(found, _secrets(typed))))
    return 0


def export_session(typed: argparse.Namespace, words: Sequence[str]) -> int:
    if not 0 < len(words) <= 2:
        raise UsageError("which conversation, and where to?", hint="ts sessions export ID [FILE]")
    path = export(_read(words), words[1] if words[1:] else "", _secrets(typed))
    if not typed.quiet:
        say(f"written to {path}; keys and passwords that could be told are left out")
    return 0


def remove(typed: argparse.Namespace, words: Sequence[str]) -> int:
    """Delete the files of conversations; none is deleted unless all are there."""
    if not words:
        raise UsageError("which conversation?", hint="ts sessions rm ID…; `ts sessions` lists them")
    cwd = directory()
    for id in dict.fromkeys(sessions.meant(cwd, word) for word in words):
        sessions.remove(cwd, id)
        if not typed.quiet:
            say(f"deleted {id}")
    return 0


def _read(words: Sequence[str]) -> sessions.Session:
    found = sessions.read(directory(), words[0] if words else "")
    for notice in found.notices:
        say(f"ts: {notice}")
    return found


def _secrets(typed: argparse.Namespace) -> list[str]:
    """The keys and secrets that are set now: they are in no text that leaves."""
    loaded = load(typed, directory())
    return [*loaded.secrets, *(key.value for key in loaded.keys.values())]

"""`ts skills`: those there are, one of them shown, checked, begun."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import matching
from agent.app import App
from agent.commands.front import answer, as_json, opened, output, print_json, say
from agent.errors import PlanError, UsageError, near
from agent.plan import NAME
from agent.store import planfile, skills, workspace
from agent.views.plain import cut, safe

NEAREST = 3  # skills that are shown for a message


def skill_commands(typed: argparse.Namespace) -> int:
    """`ts skills [list|show NAME|check [FILE…]|new NAME|match WORDS…]`"""
    what, *words = typed.words or ["list"]
    doing = {
        "list": list_skills,
        "show": show_skill,
        "check": check_skills,
        "new": new_skill,
        "match": match_skills,
    }
    if what not in doing:
        raise UsageError(f"ts skills {what}{near(what, list(doing))}", hint=", ".join(doing))
    with opened(typed) as app:
        if what == "list" and as_json(typed):
            return tell_skills(app)
        return doing[what](app, words)


def tell_skills(app: App) -> int:
    """A line of JSON for each skill."""
    for skill in app.skills.all:
        print_json(
            {
                "name": skill.name,
                "description": skill.plan.description,
                "source": skill.source,
                "trusted": skill.trusted,
                "path": str(skill.path),
            }
        )
    tell_faults(app)
    return 0


def list_skills(app: App, words: Sequence[str]) -> int:
    out = output(sys.stdout)
    for skill in app.skills.all:
        note = "" if skill.trusted else " (not trusted: its commands ask)"
        line = f"{skill.name:18} {skill.source:8} {skill.plan.description}{note}"
        out.line(cut(safe(line), max(out.width, 40)) if out.tty else safe(line))
    tell_faults(app)
    return 0


def tell_faults(app: App) -> None:
    for text in (*app.skills.faults, *app.skills.notices):
        say(f"ts: {text}")


def show_skill(app: App, words: Sequence[str]) -> int:
    if not words:
        raise UsageError("which skill?", hint="ts skills show NAME")
    skill = app.skills.find(words[0])
    answer(f"# {skill.path}\n{planfile.dump(skill.plan)}")
    return 0


def match_skills(app: App, words: Sequence[str]) -> int:
    """Say what a message would start and why, and which skills come near; 1 if none does."""
    text = " ".join(words)
    if not text:
        raise UsageError("which words?", hint='ts skills match "fix the failing tests"')
    called = skills.match(text, app.skills.all)
    near_by = matching.ranked(text, skills.offers(app.skills.all))
    if called:
        answer(f"{called.skill.name}  starts: {called.phrase or 'called by its name'}")
    for found in near_by[:NEAREST]:
        if not called or found.name != called.skill.name:
            told = "told to the model" if found.score >= matching.LIKELY else "nothing"
            answer(f"{found.name}  {found.score:.2f}, {told}: {found.because}")
    return 0 if called or near_by else 1


def check_skills(app: App, words: Sequence[str]) -> int:
    """Say of each file whether it is a skill that can run; 2 if one is not."""
    bad = list(app.skills.faults) if not words else []
    for word in words:
        try:
            app.ready(skills.load_file(Path(word)).plan)
            answer(f"{word}: good")
        except UsageError as error:
            bad += error.faults if isinstance(error, PlanError) else [str(error)]
    if not words:
        for skill in app.skills.all:
            try:
                app.ready(skill.plan)
            except UsageError as error:
                bad.append(f"{skill.path}: {error}")
        answer(f"{len(app.skills.all)} skills can run")
    for text in bad:
        say(f"ts: {text}")
    return 2 if bad else 0


NEW_SKILL = """\
name: {name}
description: Say here what it does, in one line; models choose by it.
arguments: [what]
match:
  - a phrase that starts it
goal: What is true when it is done. $ARGUMENTS
steps:
  - id: look
    run: git status --short
    writes: []
  - id: work
    needs: [look]
    do: What an agent is to do with $ARGUMENTS.
    verify: "true"
"""


def new_skill(app: App, words: Sequence[str]) -> int:
    if len(words) != 1 or not NAME.fullmatch(words[0].replace("_", "-")):
        raise UsageError("a skill's name is made of a-z, 0-9 and `-`", hint="ts skills new NAME")
    name = words[0].replace("_", "-")
    path = workspace.prepared(app.cwd, "skills") / f"{name}.yaml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(NEW_SKILL.format(name=name))
    except FileExistsError:
        raise UsageError(f"{path} exists") from None
    answer(f"{path}: write it, then `ts skills check {path}` and `ts run {name}`")
    return 0

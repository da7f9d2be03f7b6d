"""Whether this directory is trusted: said by a flag, remembered, or asked at the terminal.

One question names all that was found. No answer is a no, for this time.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from agent.errors import AgentError
from agent.seams import Choose
from agent.store import languages, memory, project, settingsfile, toolchain, trust
from agent.store.git import shown

CHOICES = {"y": "yes, from now on", "n": "not now", "d": "no, and don't ask again"}
NAMED = 8  # things of a kind that are named
ASKED = ("new", "changed")


class Consent(Struct, frozen=True, kw_only=True):
    """What holds for this command."""

    trusted: bool
    why: str  # where that was said, for `ts config`
    notices: tuple[str, ...] = ()


def consent(
    cwd: Path, *, flag: bool = False, choose: Choose | None = None, all: bool = False
) -> Consent:
    """Whether `cwd` is trusted, the user being asked with `choose` where they have not said so.

    `all`: also where there is nothing but notes for agents and checks to run, as in a chat.
    """
    if flag:
        return Consent(trusted=True, why="--trust")
    home, env = settingsfile.home(), settingsfile.child_environment()
    found = trust.look(cwd, home, env)
    notices = [found.fault] if found.fault else []
    standing = found.standing
    if standing in {"trusted", "refused"}:
        why = f"your answer, in ~/{trust.FILE}"
        return Consent(trusted=standing == "trusted", why=why, notices=tuple(notices))
    told = list(_told(cwd, env)) if all and choose and standing == "empty" else []
    if choose and (standing in ASKED or told):
        answer = choose("\n".join(_question(found, told or _told(cwd, env))), CHOICES)
        if answer in {"y", "d"}:
            try:
                trust.remember(found, home, trusted=answer == "y")
            except AgentError as error:
                notices.append(trust.forgotten(error))
        if answer:
            return Consent(trusted=answer == "y", why="your answer", notices=tuple(notices))
    if standing == "changed":
        notices.append(
            f"this directory was trusted, but {', '.join(found.changes[:NAMED])}: it is not "
            "until you say so again, in a chat here or with --trust"
        )
    notices += _passed_over(found)
    return Consent(trusted=False, why="nobody has said so", notices=tuple(notices))


def _question(found: trust.Found, told: Iterator[str] | list[str]) -> Iterator[str]:
    yield f"is {shown(str(found.cwd))} trusted?"
    if found.standing == "changed":
        yield f"It was, but {_few(found.changes)}."
    else:
        yield "What stands there could run programs or loosen what you are asked about."
    yield "Until you trust it, none of this counts:"
    for kind, words in trust.KINDS.items():
        if names := [item.name for item in found.items if item.kind == kind]:
            yield f"- {words}: {_few(names)}"
    yield from told


def _told(cwd: Path, env: Mapping[str, str]) -> Iterator[str]:
    """What is no program of its own, and yet the directory's word."""
    notes = [note.path for note in project.instructions(cwd, [])]
    if memory.project_path(cwd).is_file():
        notes.append(memory.PROJECTS)
    if notes:
        yield f"- notes for agents, which a model is told are data: {_few(notes)}"
    found = toolchain.commands(languages.kinds(cwd, env.get("PATH", "")))
    checks = [getattr(found, name) for name in found.__struct_fields__ if getattr(found, name)]
    if checks:
        yield f"- its own checks, which built-in skills run: {_few(checks)}"


def _passed_over(found: trust.Found) -> Iterator[str]:
    """What is not named elsewhere when it is passed over."""
    if names := [item.name for item in found.items if item.kind in {"server", "git"}]:
        yield f"not trusted, so passed over: {_few(names)}"
    if names := [item.name for item in found.items if item.kind == "skill"]:
        yield f"not trusted, so what they would run is asked about: {_few(names)}"


def _few(names: list[str]) -> str:
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*(shown(name)[:120] for name in names[:NAMED]), *more])

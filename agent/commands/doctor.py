"""`ts doctor`: whether all is there that ts needs, found out at once and within bounds.

Each look is a function of a Case and gives Checks. Nothing leaves this machine, nothing is
changed, and no key is shown.
"""

import argparse
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Literal

import msgspec
from msgspec import Struct

from agent.commands.front import as_json, directory, flags, output, print_json, veil
from agent.commands.trust import Consent, consent
from agent.errors import AgentError, SetupError, UsageError
from agent.providers import services
from agent.settings import Given
from agent.store import settingsfile, skills, workspace
from agent.store.git import PINNED, program, root, shown, told
from agent.store.settingsfile import Loaded
from agent.version import __version__
from agent.views.plain import Output, safe, wrapped

SECONDS = 12.0  # for all looks together: the sandbox's own trial may take 10
ASKING = 3.0  # seconds that a program has to tell its version
LITTLE, TOO_LITTLE = 512 * 2**20, 16 * 2**20  # bytes that are free

State = Literal["ok", "warn", "fail"]
STYLES: dict[State, str] = {"ok": "green", "warn": "yellow", "fail": "red"}


class Check(Struct, frozen=True, kw_only=True):
    """One thing looked at. fail: ts can't work so; warn: it works, with less."""

    name: str
    state: State = "ok"
    text: str
    mend: str = ""  # what can be done about it


class Case(Struct, frozen=True, kw_only=True):
    """What is looked at."""

    cwd: Path
    home: Path
    env: dict[str, str]  # of commands
    loaded: Loaded
    agreed: Consent
    fault: UsageError | None = None  # why the settings can't be read; `loaded` is without them


def doctor(typed: argparse.Namespace) -> int:
    """`ts doctor`: 0 where ts can be used, 3 without a model, 1 where something else is missing."""
    checks = examined(opened(typed))
    code, hidden = outcome(checks), veil()
    if as_json(typed):
        print_json(hidden.value({"usable": not code, "checks": msgspec.to_builtins(checks)}))
        return code
    out = output(sys.stdout)
    for line in lines(checks, out):
        out.line(hidden.text(line))
    return code


def opened(typed: argparse.Namespace) -> Case:
    """The case of what was typed; settings that can't be read are a part of it."""
    cwd, fault = directory(), None
    agreed = consent(cwd, flag=typed.trust)
    extra, given = Path(typed.settings) if typed.settings else None, flags(typed)
    try:
        loaded = settingsfile.load(cwd, flags=given, extra=extra, trusted=agreed.trusted)
    except UsageError as error:
        loaded, fault = settingsfile.load(cwd, flags=given, files=False), error
    home, env = settingsfile.home(), settingsfile.child_environment()
    return Case(cwd=cwd, home=home, env=env, loaded=loaded, agreed=agreed, fault=fault)


def examined(case: Case) -> list[Check]:
    """All checks, in the order of LOOKS, made at once. What has no answer in time says so."""
    found: dict[str, list[Check]] = {}

    def see(name: str) -> None:
        try:
            found[name] = list(LOOKS[name](case))
        except (AgentError, OSError) as error:
            found[name] = [Check(name=name, state="warn", text=f"can't be looked at: {error}")]

    threads = [Thread(target=see, args=(name,), daemon=True) for name in LOOKS]
    for thread in threads:
        thread.start()
    end = monotonic() + SECONDS
    for thread in threads:
        thread.join(max(end - monotonic(), 0))
    late = f"no answer after {SECONDS:.0f} s"
    return [
        check
        for name in LOOKS
        for check in found.get(name, [Check(name=name, state="warn", text=late)])
    ]


def outcome(checks: list[Check]) -> int:
    """The exit code that these mean."""
    failed = {check.name for check in checks if check.state == "fail"}
    return SetupError.exit_code if "model" in failed else AgentError.exit_code if failed else 0


def lines(checks: list[Check], out: Output) -> Iterator[str]:
    """What a person reads."""
    for check in checks:
        state = out.styled(STYLES[check.state], f"{check.state:4}")
        rows = wrapped(safe(check.text), max(out.width - 18, 30)) if out.tty else [safe(check.text)]
        yield f"{state}  {check.name:10}  {rows[0].rstrip()}"
        yield from (f"{'':18}{row.rstrip()}" for row in rows[1:])
        for row in safe(check.mend).splitlines():
            yield out.styled("dim", f"{'':18}{row.strip()}")
    bad = sum(check.state == "fail" for check in checks)
    doubtful = sum(check.state == "warn" for check in checks)
    yield ""
    if bad:
        yield f"{bad} of {len(checks)} must be mended before ts works here"
    else:
        yield "ts can be used here" + (f"; {doubtful} could be better" if doubtful else "")


# -- what is looked at --------------------------------------------------------------------------


def versions(case: Case) -> Iterator[Check]:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    yield Check(name="ts", text=f"{__version__}, Python {platform.python_version()}, {system}")


def model(case: Case) -> Iterator[Check]:
    """Which model would be asked, and why that one."""
    settings = case.loaded.layered.settings
    keys = {} if settings.private else case.loaded.keys
    urls, name = _urls(case.loaded), settings.model
    try:
        if name:
            why = case.loaded.layered.origins.get("model", "")
            services.build(name, case.loaded.keys, urls=urls, cwd=case.cwd)
        else:
            name = services.choose(keys)
            why = _reason(name, keys)
    except AgentError as error:
        yield Check(name="model", state="fail", text=str(error), mend=error.hint)
        return
    if settings.private and not services.here(name, urls):
        yield Check(
            name="model",
            state="fail",
            text=f"{name} is not on this machine, and nothing may leave it (private)",
            mend="name a model of a local server, as in --model ollama/NAME",
        )
        return
    yield _there(name, f"{name}, because of: {why}", urls)


def _reason(name: str, keys: dict[str, Given]) -> str:
    row = services.SERVICES[name.partition("/")[0]]
    if given := keys.get(row.key):
        return f"{row.key} ({given.origin})"
    return f"no key is set, and {row.name} answers at {row.url}"


def _there(name: str, text: str, urls: dict[str, Given]) -> Check:
    """Whether a model on this machine is being served; others are not asked."""
    service, _, wanted = name.partition("/")
    row = services.SERVICES.get(service)
    if row is None or not services.here(name, urls):
        return Check(name="model", text=text)
    url = urls[service].value if service in urls else row.url
    models = services.models_at(url)
    if models is None:
        return Check(
            name="model",
            state="fail",
            text=f"{text}; nothing answers at {url}",
            mend=f"start it: {row.help}" if row.help else "start the server",
        )
    if models and not any(wanted in {each, each.removesuffix(":latest")} for each in models):
        return Check(
            name="model",
            state="warn",
            text=f"{text}; its server does not list it",
            mend=f"it lists: {', '.join(models[:8])}",
        )
    return Check(name="model", text=text)


def _urls(loaded: Loaded) -> dict[str, Given]:
    rows = services.SERVICES.values()
    found = {row.name: loaded.url(row.name, row.url_variable) for row in rows}
    return {name: url for name, url in found.items() if url}


def keys(case: Case) -> Iterator[Check]:
    found = {**case.loaded.keys, **case.loaded.urls}
    names = [f"{name} ({given.origin})" for name, given in sorted(found.items())]
    yield Check(name="keys", text=", ".join(names) or "none is set")


def servers(case: Case) -> Iterator[Check]:
    running = services.running()
    rows = [row for row in services.SERVICES.values() if row.port]
    told = [
        f"{row.name} on port {row.port} ({', '.join(running[row.url][:5]) or 'no model'})"
        for row in rows
        if row.url in running
    ]
    others = ", ".join(f"{row.name} {row.port}" for row in rows)
    yield Check(name="servers", text="; ".join(told) or f"none answers here ({others})")


def settings(case: Case) -> Iterator[Check]:
    if case.fault:
        yield Check(
            name="settings",
            state="fail",
            text=str(case.fault),
            mend=case.fault.hint or "mend the file, or take it away; `ts config` shows what holds",
        )
    places = [settingsfile.users(case.home)]
    places += [case.cwd / ".agent" / name for name in ("settings.yaml", "settings.local.yaml")]
    there = [str(path) for path in places if path.exists()]
    if notices := case.loaded.notices:
        yield Check(name="settings", state="warn", text="; ".join(notices))
    elif not case.fault:
        yield Check(name="settings", text=", ".join(there) or "no files: everything is as it comes")


def trust(case: Case) -> Iterator[Check]:
    word = "trusted" if case.agreed.trusted else "not trusted"
    passed = [each for each in case.agreed.notices if each]
    mend = "start `ts` here and answer, or say --trust" if passed else ""
    text = "; ".join([f"this directory is {word}: {case.agreed.why}", *passed])
    yield Check(name="trust", state="warn" if passed else "ok", text=text, mend=mend)


def sandbox(case: Case) -> Iterator[Check]:
    from agent.tools.sandbox.sandbox import offered

    wanted = case.loaded.layered.settings
    needed = wanted.private or wanted.sandbox == "required"
    if wanted.sandbox == "off":
        origin = case.loaded.layered.origins.get("sandbox", "")
        text = f"switched off ({origin}): commands have your rights"
        yield Check(name="sandbox", state="fail" if wanted.private else "warn", text=text)
        return
    found = offered(case.env, case.home, [case.cwd])
    state: State = "ok" if found.works else "fail" if needed else "warn"
    mend = "" if found.works else "until then commands ask; `--sandbox off` says they need not"
    yield Check(name="sandbox", state=state, text=found.told, mend=mend)


def git(case: Case) -> Iterator[Check]:
    top = root(case.cwd)
    found = program("git", case.env.get("PATH", ""), top or case.cwd)
    if not found:
        yield Check(
            name="git",
            state="warn",
            text="there is no git: `ts undo` can't put files back",
            mend="install git (Debian, Ubuntu: apt install git; macOS: xcode-select --install)",
        )
        return
    where = f"repository {shown(str(top))}" if top else "this directory is in no repository"
    yield Check(name="git", text=f"{_version(found, '--version')} ({found}), {where}")


def ripgrep(case: Case) -> Iterator[Check]:
    from agent.stop import Stop
    from agent.tool import Context
    from agent.tools.find.walk import ripgrep as which

    found = which(Context(cwd=case.cwd, stop=Stop(), env=case.env))
    if found:
        yield Check(name="ripgrep", text=f"{_version(str(found), '--version')} ({found})")
    else:
        yield Check(
            name="ripgrep",
            state="warn",
            text="there is none: searching takes longer",
            mend="install ripgrep, or ts with its extra `rg`",
        )


def _version(program: str, *words: str) -> str:
    """What a program says of itself in its first line; it is given no environment of the user's."""
    try:
        ran = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASKING,
            check=False,
            cwd="/",
            env=told(PINNED),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no version: {type(error).__name__}"
    return ran.stdout[:200].decode("utf-8", "replace").partition("\n")[0].strip() or "no version"


def terminal(case: Case) -> Iterator[Check]:
    out = output(sys.stdout)
    if not out.tty:
        yield Check(name="terminal", text=f"stdout is no terminal; {out.encoding}")
        return
    environ = out.environ
    kind, columns, rows = environ.get("TERM", "none"), *out.size
    deep = environ.get("COLORTERM") in {"truecolor", "24bit"}
    colours = "16 million" if deep else "256" if "256" in kind else "8 or 16"
    if not out.fancy:
        colours = "none, for NO_COLOR is set" if environ.get("NO_COLOR") else "none"
    text = f"{kind}, {columns}×{rows}, colours: {colours}, {out.encoding}"
    mends = []
    if not out.unicode:
        mends.append("LANG=C.UTF-8 or another locale in UTF-8 shows all signs")
    if kind in {"dumb", "unknown", "none"}:
        mends.append("TERM names no terminal that can draw: lines only")
    if columns < 60:
        mends.append("60 columns and more show plans whole")
    yield Check(name="terminal", state="warn" if mends else "ok", text=text, mend="\n".join(mends))


def state(case: Case) -> Iterator[Check]:
    """Whether `.agent/` can be written, by whom else, and whether there is room."""
    try:
        own = workspace.folder(case.cwd, "runs").parent
    except AgentError as error:
        yield Check(name="state", state="fail", text=str(error), mend=error.hint)
        return
    place = own if own.is_dir() else case.cwd
    if own.exists() and not own.is_dir():
        yield Check(name="state", state="fail", text=f"{own} is no directory", mend="move it")
        return
    if not os.access(place, os.W_OK | os.X_OK):
        yield Check(
            name="state",
            state="fail",
            text=f"{place} can't be written: runs and chats are kept in {own}",
            mend="give yourself the right to write there, or name another directory with -C",
        )
        return
    free = shutil.disk_usage(place).free
    room: State = "ok" if free >= LITTLE else "warn" if free >= TOO_LITTLE else "fail"
    mends = ["free some space; `ts runs --prune` deletes old runs"] if room != "ok" else []
    if own.is_dir() and own.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        room = "warn" if room == "ok" else room
        mends.append(f"others may write there: chmod go-w {own}")
    there = "" if own.is_dir() else " (made when it is needed)"
    text = f"{own}{there}, {free / 2**30:.1f} GB free"
    yield Check(name="state", state=room, text=text, mend="\n".join(mends))


def known_skills(case: Case) -> Iterator[Check]:
    found = skills.load(skills.builtin(), case.home, case.cwd, trusted=case.agreed.trusted)
    faults = [*found.faults, *found.notices]
    yield Check(
        name="skills",
        state="warn" if faults else "ok",
        text="; ".join([f"{len(found.all)}", *faults]),
        mend="`ts skills check` names what is wrong" if faults else "",
    )


LOOKS: dict[str, Callable[[Case], Iterator[Check]]] = {
    "ts": versions,
    "model": model,
    "keys": keys,
    "servers": servers,
    "settings": settings,
    "trust": trust,
    "sandbox": sandbox,
    "git": git,
    "ripgrep": ripgrep,
    "terminal": terminal,
    "state": state,
    "skills": known_skills,
}

"""`ts config`: each setting and where it came from; one of them told, set, taken back."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.commands.front import answer, as_json, directory, load, output, print_json, say
from agent.commands.trust import Consent, consent
from agent.errors import UsageError, near
from agent.settings import Settings
from agent.store import settingsfile, workspace
from agent.store.settingsfile import Loaded
from agent.views.plain import safe

Row = tuple[str, Any, str]  # name, value, where it came from
DEEPER = ("permissions", "base_urls", "prices", "context")  # settings that hold others


def config(typed: argparse.Namespace) -> int:
    """`ts config [KEY…]`, `get KEY`, `set KEY VALUE`, `unset KEY`

    Raises UsageError for what is no setting, and for a value that does not fit.
    """
    what, *words = typed.words or [""]
    if typed.project and what not in {"set", "unset"}:
        raise UsageError("--project belongs to `ts config set` and `unset`")
    match what, words:
        case "get", [key]:
            return get(typed, key)
        case "set", [key, value]:
            return put(typed, key, value)
        case "unset", [key]:
            return put(typed, key, None)
        case (("get" | "unset"), _):
            raise UsageError("which setting?", hint=f"ts config {what} KEY")
        case "set", _:
            raise UsageError("which setting, and to what?", hint="ts config set KEY VALUE")
    return show(typed, typed.words)


def show(typed: argparse.Namespace, names: Sequence[str]) -> int:
    cwd = directory()
    agreed = consent(cwd, flag=typed.trust)
    loaded = load(typed, cwd, agreed)
    rows = chosen(listed(loaded, agreed), names)
    if as_json(typed):
        print_json({name: {"value": value, "origin": origin} for name, value, origin in rows})
        return 0
    out = output(sys.stdout)
    for line in map(line_of, rows):
        out.line(line)
    for text in (*agreed.notices, *loaded.notices):
        say(f"ts: {text}")
    return 0


def listed(loaded: Loaded, agreed: Consent) -> list[Row]:
    """All that is set; keys without their values."""
    origins = loaded.layered.origins
    values = msgspec.to_builtins(loaded.layered.settings)
    rows: list[Row] = [
        (name, value, origins.get(name, "default")) for name, value in values.items()
    ]
    rows.append(("trust", agreed.trusted, agreed.why))
    rows += [(name, "set", key.origin) for name, key in loaded.keys.items()]
    rows += [(name, url.value, url.origin) for name, url in loaded.urls.items()]
    return rows


def chosen(rows: list[Row], names: Sequence[str]) -> list[Row]:
    """Those of these names, or all. Raises UsageError, with the nearest."""
    known = [name for name, _, _ in rows]
    for word in names:
        if word not in known:
            raise UsageError(
                f"there is no setting {word!r}{near(word, known)}", hint="`ts config` lists them"
            )
    return [row for row in rows if not names or row[0] in names]


def line_of(row: Row) -> str:
    name, value, origin = row
    return safe(f"{name:22} {worded(value):30} {origin}")


def worded(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def get(typed: argparse.Namespace, key: str) -> int:
    """Print one value and nothing else."""
    cwd = directory()
    agreed = consent(cwd, flag=typed.trust)
    name, _, inner = key.partition(".")
    ((_, value, _),) = chosen(listed(load(typed, cwd, agreed), agreed), [name])
    if inner:
        if not isinstance(value, dict) or inner not in value:
            raise UsageError(f"{name} has no {inner!r}")
        value = value[inner]
    answer(worded(value))
    return 0


def put(typed: argparse.Namespace, key: str, value: str | None) -> int:
    """Set a value in the user's file or the project's; None: take it out there."""
    name, _, inner = key.partition(".")
    if name not in Settings.__struct_fields__ or (inner and name not in DEEPER):
        known = [*Settings.__struct_fields__]
        raise UsageError(
            f"there is no setting {key!r}{near(name, known)}",
            hint="keys of services stand in the environment or in .env"
            if name.isupper()
            else "`ts config` lists them",
        )
    cwd = directory()
    path = place(cwd) if typed.project else settingsfile.users(settingsfile.home())
    keys = (name, inner) if inner else (name,)
    fresh = settingsfile.put(path, keys, value, project=typed.project)
    if value is None:
        say(f"{key} is taken out of {path}" if fresh else f"{key} does not stand in {path}")
    else:
        say(f"{key} is set in {path}" if fresh else f"{key} was so in {path} already")
    told(typed, cwd, name, str(path))
    return 0


def place(cwd: Path) -> Path:
    """The project's settings file; its directory is made."""
    return workspace.prepared(cwd) / "settings.yaml"


def told(typed: argparse.Namespace, cwd: Path, name: str, path: str) -> None:
    """Say so where something else is stronger, or the file does not count."""
    agreed = consent(cwd, flag=typed.trust)
    loaded = load(typed, cwd, agreed)
    origin = loaded.layered.origins.get(name, "")
    if typed.project and not agreed.trusted:
        say("it counts once you trust this directory: start `ts` here, or say --trust")
    elif origin and origin != path:
        ((_, value, _),) = chosen(listed(loaded, agreed), [name])
        say(f"but here {origin} is stronger: {name} is {worded(value)}")

"""Settings from everywhere, each with where it came from; keys, and where each may be sent.

The only module that reads the environment. Later wins: defaults, the user's file, the project's,
its settings.local.yaml, --settings FILE, the environment, flags. What a directory that is not
trusted says counts only where it forbids, asks or lowers a limit. A key goes to a base URL of its
own source or to one the user has set, so that a cloned repository can't have it sent elsewhere.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agent.errors import UsageError
from agent.rule import read
from agent.settings import MODES, Given, Layered, Mode, Settings, merged
from agent.store import yamlfile
from agent.store.disk import contents
from agent.store.environment import allowed, secrets
from agent.store.yamlfile import Node

ENVIRONMENT = "environment"  # an origin
FLAGS = "flags"  # another
DOTENV_BYTES = 256 * 1024

_KEY = re.compile(r"([A-Z][A-Z0-9_]*)_API_KEY")
_URL = re.compile(r"([A-Z][A-Z0-9_]*)_BASE_URL")

# Settings that loosen what a user is protected by: no project sets them, trusted or not.
USERS_ALONE: dict[str, set[Any]] = {
    "permission_mode": {"auto"},
    "sandbox": {"off", "auto"},
    "private": {False},
}

# What of an untrusted file may make things stricter, and nothing else.
STRICTEST: tuple[Mode, ...] = ("plan", "default", "accept-edits", "auto")
LIMITS = ("max_budget_usd", "max_tokens_total", "max_turns", "max_workers", "timeout")

# What loads code, sends traffic elsewhere or vouches for servers; named where a .env has it.
NEVER = re.compile(
    r"(LD|DYLD)_\w+|PYTHON\w+|NODE_(OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|PERL5?\w+"
    r"|RUBY(OPT|LIB)|BASH_ENV|ENV|PATH|IFS|(HTTPS?|ALL|NO|FTP)_PROXY|SSL_\w+|\w*CA_BUNDLE|GIT_\w+",
    re.IGNORECASE,
)


class Loaded(Struct, frozen=True, kw_only=True):
    """All that was set."""

    layered: Layered
    keys: dict[str, Given] = {}  # by variable: ANTHROPIC_API_KEY
    urls: dict[str, Given] = {}  # by variable: ANTHROPIC_BASE_URL; each may get the key beside it
    secrets: dict[str, str] = {}  # what must not be kept or shown: value → its variable
    notices: tuple[str, ...] = ()  # what was passed over, and why

    def url(self, service: str, variable: str) -> Given | None:
        """The base URL of a service: of its variable, else of the setting `base_urls`."""
        if variable in self.urls:
            return self.urls[variable]
        if value := self.layered.settings.base_urls.get(service):
            return Given(value=value, origin=self.layered.origins.get("base_urls", ""))
        return None


Layer: TypeAlias = tuple[str, dict[str, Any]]


def home() -> Path:
    """The user's home directory."""
    return Path.home()


def environment() -> dict[str, str]:
    """A copy of the environment."""
    return dict(os.environ)  # noqa: TID251 - here, and nowhere else


def child_environment() -> dict[str, str]:
    """The environment of the commands that agents run: the user's, without any secret."""
    return allowed(environment())


def load(
    cwd: Path,
    *,
    flags: Mapping[str, Any] | None = None,
    extra: Path | None = None,
    trusted: bool = False,
    home: Path | None = None,
    files: bool = True,
) -> Loaded:
    """Read all that is set for `cwd`; `flags` are values by the names of settings. `files`:
    whether those of settings are read.

    Raises UsageError, with file and line, for what does not fit; a bad file of a directory that
    is not trusted is only named.
    """
    home = Path.home() if home is None else home
    notices: list[str] = []
    env, dotenv = environment(), _dotenv(cwd, notices)
    layers = _files(cwd, home, extra, trusted, notices) if files else []
    layers.append(_model_layer(env, dotenv, trusted, notices))
    layers.append((FLAGS, dict(flags or {})))
    layered = merged(*layers)
    sources = ((ENVIRONMENT, env), (str(cwd / ".env"), dotenv))
    keys, urls = _endpoints(sources, notices)
    return Loaded(
        layered=layered,
        keys=keys,
        urls=urls,
        secrets={**secrets(dotenv), **secrets(env)},
        notices=tuple(notices),
    )


def users(home: Path) -> Path:
    """The user's own file."""
    return home / ".config/tianshu/settings.yaml"


def theme(home: Path) -> str:
    """The theme that the user's file names, before all settings are read; "" for none."""
    path = users(home)
    if not os.path.lexists(path):
        return ""
    try:
        given, _ = _said(yamlfile.load(path))
    except UsageError:  # told when all of it is read
        return ""
    return str(given.get("theme", ""))


def put(path: Path, keys: tuple[str, ...], value: str | None, *, project: bool) -> bool:
    """Set a value, written as in a file, under a setting's name; None: take it out. Whether that
    has changed the file.

    Comments and order stay. Raises UsageError for what would not fit, and for what no project
    may say; AgentError where it can't be written.
    """
    from agent.store import yamledit

    text = yamlfile.text(contents(path, yamlfile.MOST_BYTES), str(path)) if path.exists() else ""
    if value is None:
        fresh = yamledit.without(text, keys, str(path))
    else:
        meant: Any = value
        if not isinstance(getattr(Settings(), keys[0]), str):  # what is a text is taken as it is
            meant = yamlfile.plain(yamlfile.composed(value, ".".join(keys)))
        fresh = yamledit.changed(text, keys, meant, str(path))
    values = _checked(path, yamlfile.composed(fresh, str(path)))
    if project and keys[0] in _loosening(values):
        raise UsageError(
            f"`{keys[0]}: {value}` is for you alone to say: in a project's file it is passed over",
            hint="leave --project out",
        )
    if fresh != text:
        yamledit.write(path.resolve(), fresh)
    return fresh != text


def _files(
    cwd: Path, home: Path, extra: Path | None, trusted: bool, notices: list[str]
) -> list[Layer]:
    layers = [_user_layer(users(home))]
    for name in ("settings.yaml", "settings.local.yaml"):
        base = None if trusted else merged(*layers).settings
        layers += [_project_layer(cwd / ".agent" / name, base, notices)]
    if extra is not None:
        layers.append(_user_layer(extra, needed=True))
    return layers


def own_secrets(cwd: Path) -> dict[str, str]:
    """The secrets of the environment and of the `.env` of a directory: value → its variable."""
    return {**secrets(_dotenv(cwd, [])), **secrets(environment())}


def _user_layer(path: Path, *, needed: bool = False) -> Layer:
    if not needed and not os.path.lexists(path):
        return (str(path), {})
    node = yamlfile.load(path)
    return (str(path), _checked(path, node))


def _project_layer(path: Path, base: Settings | None, notices: list[str]) -> Layer:
    """What the project's file may say; `base`: without trust, what it can only make stricter."""
    if not os.path.lexists(path):
        return (str(path), {})
    try:
        node = yamlfile.load(path)
    except UsageError as error:
        if base is None:
            raise
        notices.append(f"passed over: {error}")
        return (str(path), {})
    if base is not None:
        return (str(path), _tightening(path, node, base, notices))
    values = _checked(path, node)
    notices += [
        f"{path}: `{name}: {values.pop(name)}` is passed over: only a flag or your own settings "
        "can say so"
        for name in _loosening(values)
    ]
    return (str(path), values)


def _loosening(values: dict[str, Any]) -> list[str]:
    """Which of checked settings no project may say, by what they mean, however that is spelled."""
    meant = msgspec.convert(values, Settings, strict=False)
    return [
        name
        for name, loose in USERS_ALONE.items()
        if name in values and getattr(meant, name) in loose
    ]


def _tightening(
    path: Path, node: Node | None, base: Settings, notices: list[str]
) -> dict[str, Any]:
    """The rules of an untrusted file that forbid or ask, its limits that are lower than those of
    `base`, its stricter mode; the rest is named and passed over."""
    given, rules = _said(node)
    tight: dict[str, Any] = {}
    for name in ("deny", "ask"):
        for rule in rules[name] if isinstance(rules.get(name), list) else ():
            with suppress(UsageError):  # what is no rule forbids nothing
                read(str(rule))
                tight.setdefault("permissions", {}).setdefault(name, []).append(str(rule))
    mode = MODES.get(str(given.get("permission_mode")))
    if mode and STRICTEST.index(mode) < STRICTEST.index(base.permission_mode):
        tight["permission_mode"] = mode
    for name in (name for name in LIMITS if name in given):
        with suppress(msgspec.ValidationError):
            read_as = msgspec.convert({name: given[name]}, Settings, strict=False)
            value, most = getattr(read_as, name), getattr(base, name)
            if value is not None and (most is None or value < most):
                tight[name] = value
    loose = set(given) - set(tight) - {"permissions"}
    if loose or set(rules) - set(tight.get("permissions", ())) or not given:
        notices.append(
            f"{path} is passed over: it counts with --trust"
            + (" (what makes things stricter counts)" if tight else "")
        )
    return tight


def _said(node: Node | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file sets, and its permission rules, whatever it is."""
    values = yamlfile.plain(node)
    given = values if isinstance(values, dict) else {}
    rules = given.get("permissions")
    return given, rules if isinstance(rules, dict) else {}


def loosens(path: Path) -> bool:
    """Whether a project's file says more than what it forbids or asks about."""
    try:
        given, rules = _said(yamlfile.load(path))
    except UsageError:
        return True
    mode = {"permission_mode"} if given.get("permission_mode") == "plan" else set()
    return bool(set(given) - {"permissions"} - mode or set(rules) - {"deny", "ask"} or not given)


def model_of_dotenv(cwd: Path) -> str:
    """The model that the `.env` of a directory names; "" for none."""
    return _dotenv(cwd, []).get("TS_MODEL", "").strip()


def _checked(path: Path, node: Node | None) -> dict[str, Any]:
    """The settings of a file. Raises UsageError with the line for what does not fit."""
    values = yamlfile.plain(node)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(f"{path}:1: settings are written `name: value`")
    for line, why in yamlfile.unknown(node, Settings):
        raise UsageError(f"{path}:{line}: {why}")
    if (mode := values.get("permission_mode")) in MODES:
        values["permission_mode"] = MODES[mode]
    try:
        rules = msgspec.convert(values, Settings, strict=False).permissions
    except msgspec.ValidationError as error:
        line, why = yamlfile.misfit(error, node)
        raise UsageError(f"{path}:{line}: {why}") from error
    for name in ("deny", "ask", "allow"):
        for number, rule in enumerate(getattr(rules, name)):
            try:
                read(rule)
            except UsageError as error:
                line = yamlfile.line(node, f"$.permissions.{name}[{number}]")
                raise UsageError(f"{path}:{line}: {error}", hint=error.hint) from error
    return values


def _model_layer(
    env: Mapping[str, str], dotenv: Mapping[str, str], trusted: bool, notices: list[str]
) -> Layer:
    if name := env.get("TS_MODEL", "").strip():
        return (f"{ENVIRONMENT} TS_MODEL", {"model": name})
    if name := dotenv.get("TS_MODEL", "").strip():
        if trusted:
            return (".env TS_MODEL", {"model": name})
        notices.append(".env: TS_MODEL is passed over: it counts with --trust")
    return (ENVIRONMENT, {})


def _dotenv(cwd: Path, notices: list[str]) -> dict[str, str]:
    """What the `.env` of a directory says, as it stands there; nothing enters the environment."""
    path = cwd / ".env"
    if not os.path.lexists(path):
        return {}
    try:
        text = yamlfile.text(contents(path, DOTENV_BYTES), str(path))
    except UsageError as error:
        notices.append(f"passed over: {error}")
        return {}
    from dotenv.parser import parse_stream  # 29 ms, and most directories have no such file

    values: dict[str, str] = {}
    for binding in parse_stream(StringIO(text)):
        if binding.error:
            notices.append(f"{path}:{binding.original.line}: this can't be read")
        elif binding.key and binding.value is not None:
            values[binding.key] = binding.value
    if never := sorted(name for name in values if NEVER.fullmatch(name)):
        notices.append(f".env: never taken from there: {', '.join(never)}")
    return values


def _endpoints(
    sources: tuple[tuple[str, Mapping[str, str]], ...], notices: list[str]
) -> tuple[dict[str, Given], dict[str, Given]]:
    """The keys, each of the first source that has it, and the base URLs of the same sources.

    A URL without a key is taken from the environment alone: a server that needs none.
    """
    keys: dict[str, Given] = {}
    urls: dict[str, Given] = {}
    for origin, values in sources:
        for name, value in values.items():
            if _KEY.fullmatch(name) and value.strip() and name not in keys:
                keys[name] = Given(value=value.strip(), origin=origin)
    for origin, values in sources:
        for name, value in values.items():
            found = _URL.fullmatch(name)
            if not found or not value.strip():
                continue
            key = keys.get(f"{found[1]}_API_KEY")
            if (key.origin if key else ENVIRONMENT) == origin:
                urls[name] = Given(value=value.strip(), origin=origin)
            else:
                why = f"its key is from {key.origin}" if key else "no key is beside it"
                notices.append(f"{name} of {origin} is passed over: {why}")
    return keys, urls

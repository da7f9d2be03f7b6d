"""What of a repository's own git settings would run programs or lead elsewhere, and the
environment in which none of it does.

For commands in a directory that nobody has vouched for: `git status` alone runs a file monitor
that `.git/config` names. What the user has set themselves stays as it is.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.errors import UsageError
from agent.store import git
from agent.store.disk import contents

# Names of settings, from git-config(1), whose value is run, or says where git looks or sends.
_RUNS = re.compile(
    r"core\.(fsmonitor|hookspath|pager|editor|sshcommand|askpass|gitproxy|worktree"
    r"|alternaterefscommand|attributesfile)|sequence\.editor|interactive\.difffilter"
    r"|diff\.external|diff\..+\.(command|textconv)|filter\..+\.(clean|smudge|process|required)"
    r"|merge\..+\.driver|(difftool|mergetool|man|browser|guitool)\..+\.(cmd|path)|pager\..+"
    r"|alias\..+|gpg\.(.+\.)?program|gpg\.ssh\.defaultkeycommand|credential\.(.+\.)?helper"
    r"|trailer\..+\.(cmd|command)|submodule\..+\.update|tar\..+\.command|web\.browser"
    r"|remote\..+\.(uploadpack|receivepack|vcs|proxy)|url\..+\.(insteadof|pushinsteadof)"
    r"|https?\.(.+\.)?(proxy|sslverify|sslcainfo|sslcert|sslkey|cookiefile)"
    r"|sendemail\..+|instaweb\..+|protocol\.(.+\.)?allow|core\.alternate\w*"
)
_NEUTRAL = {
    "core.fsmonitor": "false",
    "core.hookspath": os.devnull,
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "core.sshcommand": "false",
    "core.askpass": "false",
    "core.attributesfile": os.devnull,
    "core.alternaterefscommand": "false",
    "gpg.program": "false",
    "protocol.allow": "user",
}
_ENDS = {
    "textconv": "cat",  # shows the file as it is
    "required": "false",
    "driver": "false",  # a conflict, to be solved by hand
    "cmd": "false",
    "program": "false",
    "sslverify": "true",
    "allow": "never",
    "update": "checkout",
    "vcs": "none",
    "uploadpack": "git-upload-pack",
    "receivepack": "git-receive-pack",
}
_ALWAYS = ("core.fsmonitor", "core.hookspath")  # a repository below may say it as well
MOST_HOOKS = 100


def running(cwd: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The settings of the repository around `cwd` that run something or lead elsewhere, by name;
    what it has for hooks, by path. Nothing is run."""
    found: dict[str, str] = {}
    for scope, name, value in _listed(cwd, env):
        if scope in {"local", "worktree"} and _RUNS.fullmatch(_key(name)):
            found[name] = f"{found[name]}\n{value}" if name in found else value
    return found | dict(_hooks(cwd))


def calmed(cwd: Path, env: Mapping[str, str]) -> dict[str, str]:
    """What an environment has to hold so that git runs none of it, and no repository that is
    hidden among the files is taken for one."""
    listed = list(_listed(cwd, env))
    own = {_key(name): value for scope, name, value in listed if scope in {"global", "system"}}
    theirs = [name for scope, name, _ in listed if scope in {"local", "worktree"}]
    pins = {name: _neutral(name) for name in _ALWAYS} | {"safe.bareRepository": "explicit"}
    for name in theirs:
        if _RUNS.fullmatch(_key(name)):
            pins[name] = own.get(_key(name), _neutral(name))
    settings = git.told(pins)
    if top := git.root(cwd) if "core.worktree" in map(_key, theirs) else None:
        settings["GIT_WORK_TREE"] = os.fspath(top)  # no setting of ours is stronger than theirs
    return settings


def _neutral(name: str) -> str:
    key = _key(name)
    if key.startswith("alias."):
        return "!false"
    if key.startswith("pager."):
        return "false"
    return _NEUTRAL.get(key, _ENDS.get(key.rpartition(".")[2], ""))


def _key(name: str) -> str:
    """A setting's name with the parts in small letters whose case does not count."""
    section, dot, rest = name.partition(".")
    inner, other, last = rest.rpartition(".")
    return f"{section.lower()}{dot}{inner}{other}{last.lower()}"


def _listed(cwd: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Scope, name and value of each setting, as git reads them."""
    top = git.root(cwd)
    program = git.program("git", env.get("PATH", ""), top or cwd)
    if not (top and program):
        return
    words = ("config", "-z", "--list", "--show-scope", "--includes")
    fields = git.asked(program, top, env, {}, *words).split("\0")
    for scope, field in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = field.partition("\n")
        yield scope, name, value


def _hooks(cwd: Path) -> Iterator[tuple[str, str]]:
    top = git.root(cwd)
    folder = (top or cwd) / ".git" / "hooks"
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix != ".sample")
    except OSError:
        return
    for path in names[:MOST_HOOKS]:
        try:
            if os.access(path, os.X_OK):
                yield f".git/hooks/{path.name}", contents(path, 1_000_000).decode("latin-1")
        except UsageError:
            continue

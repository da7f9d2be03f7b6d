"""Git, asked about a repository that nobody vouches for: it reads, and runs nothing.

A repository's own configuration can name programs (a file monitor, hooks, filters, a pager, ssh);
each is overridden for our calls. Git itself is never taken from the working directory.
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer

SECONDS = 2.0  # that a call may take
MOST = 64 * 1024  # bytes that are read of what it prints
SHOWN = 30  # changed files that are named

PINNED = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "protocol.allow": "never",
    "submodule.recurse": "false",
}
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def root(cwd: Path) -> Path | None:
    """The top directory of the repository that `cwd` is in; None outside of one."""
    for directory in (cwd, *cwd.parents):
        if os.path.lexists(directory / ".git"):
            return directory
    return None


def branch(cwd: Path) -> str:
    """The branch that is checked out, the begin of a commit's id where it is none; "" where that
    is not known. Runs nothing."""
    top = root(cwd)
    if top is None:
        return ""
    place = top / ".git"
    try:
        if place.is_file():  # of a worktree: where it is
            place = top / _begin(place).removeprefix("gitdir:").strip()
        head = _begin(place / "HEAD").strip()
    except (OSError, ValueError):
        return ""
    name = head.removeprefix("ref: refs/heads/")
    return name if name != head else head[:8]


def _begin(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(path)
    with path.open(encoding="utf-8") as file:
        return file.read(4096)


def program(name: str, path: str, cwd: Path) -> str:
    """The absolute path of a program on the search path `path`; "" if there is none.

    A directory inside `cwd`, or a relative one, is passed over: what stands there is the
    project's word, not the user's.
    """
    for directory in path.split(os.pathsep):
        if not directory.startswith(os.sep):
            continue
        file = Path(directory, name)
        inside = Path(os.path.realpath(directory)).is_relative_to(cwd)
        if not inside and file.is_file() and os.access(file, os.X_OK):
            return str(file)
    return ""


def standing(cwd: Path, env: Mapping[str, str]) -> str:
    """The branch and the changed files, in words; "" outside of a repository or without git."""
    top = root(cwd)
    git = program("git", env.get("PATH", ""), top or cwd)
    if not (top and git):
        return ""
    calm = {**PINNED, **_without_filters(git, top, env)}
    words = ("status", "--porcelain", "--branch", "-z", "--untracked-files=normal")
    found = asked(git, top, env, calm, *words, "--no-renames", "--ignore-submodules=all")
    if not found:
        return ""
    head, *changes = found.split("\0")
    lines = [f"branch: {_branch(head, git, top, env)}"]
    changes = [shown(change) for change in changes if change]
    lines.append(f"changed files: {len(changes)}" if changes else "no changes")
    lines += changes[:SHOWN]
    if len(changes) > SHOWN:
        lines.append(f"… and {len(changes) - SHOWN} more")
    return "\n".join(lines)


def difference(cwd: Path, env: Mapping[str, str]) -> str:
    """What differs from the last commit in `cwd`, as `git diff` tells it, then the names of files
    that are not known to git; "" for nothing, outside of a repository and without git."""
    top = root(cwd)
    git = program("git", env.get("PATH", ""), top or cwd)
    if not (top and git):
        return ""
    calm = {**PINNED, **_without_filters(git, top, env)}
    quiet = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
    place = f":(top,literal){cwd.relative_to(top)}" if cwd != top else ":(top)"
    patch = asked(git, top, env, calm, "diff", *quiet, "HEAD", "--", place)
    new = asked(git, top, env, calm, "ls-files", "-z", "-o", "--exclude-standard", "--", place)
    names = [shown(name) for name in new.split("\0") if name]
    more = [f"… and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return patch + "".join(f"not known to git: {each}\n" for each in [*names[:SHOWN], *more])


def shown(name: str) -> str:
    """A name that others chose, with what can't be seen or decoded as escapes."""
    sound = name.encode("utf-8", "backslashreplace").decode()
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), sound)


def _branch(head: str, git: str, top: Path, env: Mapping[str, str]) -> str:
    name = head.removeprefix("## ").partition("...")[0]
    if name.startswith("No commits yet on "):
        return f"{shown(name.removeprefix('No commits yet on '))} (no commit yet)"
    if name == "HEAD (no branch)":
        at = asked(git, top, env, PINNED, "rev-parse", "--short", "HEAD").strip()
        return f"none, at {shown(at)}"
    return shown(name)


def _without_filters(git: str, top: Path, env: Mapping[str, str]) -> dict[str, str]:
    """What switches off every filter that is configured: comparing a file would run it."""
    wanted = r"^filter\..*\.(clean|smudge|process|required)$"
    found = asked(git, top, env, PINNED, "config", "-z", "--name-only", "--get-regexp", wanted)
    return {key: "false" if key.endswith(".required") else "" for key in found.split("\0") if key}


def asked(
    git: str, top: Path, env: Mapping[str, str], config: Mapping[str, str], *words: str
) -> str:
    """What git prints, or the first part of it; "" if it fails or takes too long."""
    place = [f"--git-dir={top / '.git'}", f"--work-tree={top}", "--no-pager"]
    own = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in env}
    fixed = {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
    }
    try:
        process = subprocess.Popen(
            [git, *place, *words],
            cwd=top,
            env={**own, **fixed, **told(config)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return ""
    with process:
        timer = Timer(SECONDS, end, (process,))
        timer.daemon = True
        timer.start()
        assert process.stdout, "started with a pipe"
        data = process.stdout.read(MOST)
        cut = len(data) == MOST
        if cut:
            end(process)
        code = process.wait()
        timer.cancel()
    text = os.fsdecode(data)
    if cut:
        return text.rpartition("\0" if "\0" in text else "\n")[0]
    return text if code == 0 else ""


def told(config: Mapping[str, str]) -> dict[str, str]:
    """The variables by which git takes these settings as stronger than those of its files."""
    settings = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config.items()):
        settings |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return settings


def end(process: subprocess.Popen[bytes]) -> None:
    """End a call and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

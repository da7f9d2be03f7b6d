"""What a machine offers: the program, whether what it says is true, and if not why, in words."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

SECONDS = 10.0  # that the probe is given
SEATBELT = "/usr/bin/sandbox-exec"
INSTALL = (
    "install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap)"
)

Argv: TypeAlias = Callable[[Path, Path, Path], tuple[list[str], tuple[int, ...]]]
"""The arguments, and descriptors to hand on, for a command that works in a folder and has a
private one; of the third it must see nothing. What is run is put behind."""


class Found(Struct, frozen=True, kw_only=True):
    """What there is, and in words for the user why it is so."""

    kind: str = ""  # bubblewrap, seatbelt; "": none works
    program: str = ""  # absolute
    why: str = ""  # what is missing, and what can be done

    @property
    def works(self) -> bool:
        return bool(self.kind)

    @property
    def told(self) -> str:
        """One line for a user: what there is, or what is missing."""
        if self.kind == "seatbelt":
            return f"commands run in a sandbox ({self.program}; not tried by its makers)"
        if self.kind:
            return f"commands run in a sandbox ({self.program})"
        return f"there is no sandbox for commands: {self.why}"


def located(name: str, env: Mapping[str, str], roots: Sequence[Path]) -> str:
    """The absolute path of a program on PATH that nothing in `roots` can stand for; "" for none.

    A relative entry of PATH counts for nothing, nor does a program that others may change.
    """
    for entry in env.get("PATH", os.defpath).split(os.pathsep):
        if not entry.startswith("/"):
            continue
        path = Path(os.path.realpath(os.path.join(entry, name)))  # noqa: PTH118 - may be no path
        if any(path.is_relative_to(root) or Path(entry).is_relative_to(root) for root in roots):
            continue
        if os.access(path, os.X_OK) and path.is_file() and not path.stat().st_mode & 0o002:
            return str(path)
    return ""


def _scratch(home: Path) -> "tempfile.TemporaryDirectory[str]":
    """A folder that the private /tmp does not cover, where there can be one."""
    for place in (home / ".cache", home):
        with suppress(OSError):
            if place.is_dir():
                return tempfile.TemporaryDirectory(prefix=".ts-probe-", dir=place)
    return tempfile.TemporaryDirectory(prefix="ts-probe-")


# What the probe says of itself, in bash alone. Each word is a promise that was not kept.
_PROBE = r"""
no() { printf '%s\n' "$1"; }
(: >"$1/canary") 2>/dev/null
(: >inside) 2>/dev/null || no "the working directory can't be written"
(: >/tmp/probe) 2>/dev/null || no "the private /tmp can't be written"
[ -n "$(ls -A "$1/secret" 2>/dev/null)" ] && no "secrets can be read"
(exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null && no "the network can be reached"
[ -e "/proc/$3/environ" ] && no "other processes can be seen"
(: >>/proc/sys/kernel/domainname) 2>/dev/null && no "the kernel's settings can be changed"
mv .git .git2 2>/dev/null && no "what is kept can be moved away"
while read -r name value; do
  case $name in
    CapEff:|CapBnd:) [ "$value" = 0000000000000000 ] || no "it keeps rights of root" ;;
    NoNewPrivs:) [ "$value" = 1 ] || no "it can gain rights" ;;
    Seccomp:) [ "$value" = 2 ] || [ -z "$4" ] || no "system calls are not filtered" ;;
  esac
done </proc/self/status
exit 42
"""


def faults(argv: Argv, home: Path, *, filtered: bool) -> list[str]:
    """What a sandbox does not keep, seen by its doing; [] if all holds.

    `filtered`: there is a filter of system calls for this machine.
    """
    with _scratch(home) as folder, socket.socket() as server:
        outside = Path(os.path.realpath(folder))
        inside, private = outside / "work", outside / "private"
        for each in (inside, private, inside / ".git", outside / "secret"):
            each.mkdir(mode=0o700)
        for name, text in (("HEAD", "ref: refs/heads/main\n"), ("config", ""), ("hooks", "")):
            path = inside / ".git" / name
            path.mkdir() if name == "hooks" else path.write_text(text, encoding="utf-8")
        (outside / "secret" / "key").write_text("canary", encoding="utf-8")
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        words, fds = argv(inside, private, outside / "secret")
        shell = ["/bin/bash", "--norc", "--noprofile", "-c", _PROBE, "probe", str(outside)]
        more = [str(server.getsockname()[1]), str(os.getpid()), "x" if filtered else ""]
        try:
            ran = subprocess.run(
                [*words, "--", *shell, *more],
                cwd="/",
                env={"PATH": os.defpath},
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [f"it does not come up within {SECONDS:g} s"]
        except OSError as error:
            return [f"it can't be started: {error.strerror or error}"]
        finally:
            for fd in fds:
                os.close(fd)
        said = ran.stdout.decode(errors="replace").splitlines()
        if ran.returncode != 42:
            return [diagnosis(ran.stderr.decode(errors="replace"))]
        return said + ["files outside can be written"] * (outside / "canary").exists()


def diagnosis(complaint: str, release: Mapping[str, str] | None = None) -> str:
    """What bwrap's complaint means, and what can be done. `release`: what the kernel allows, by
    the names of its files; read where it is not given."""
    line = next((each for each in complaint.splitlines() if each.strip()), "it says nothing")
    line = line.strip().removeprefix("bwrap: ")[:300]
    allowed = _allowed() if release is None else release
    cause = ""
    if re.search(r"nknown option", line):
        cause = "bubblewrap is too old: version 0.8 or newer is needed"
    elif re.search(r"No space left on device|nesting depth|max_\w+_namespaces", line):
        cause = "no further user namespace is allowed here: ts itself runs in a sandbox"
    elif re.search(r"proc on|mount proc", line):
        cause = "/proc can't be mounted: this is a container that covers a part of it"
    elif re.search(r"uid map|gid map|new namespace|NEWUSER|Operation not permitted|clone", line):
        cause = "user namespaces are not allowed here"
        if allowed.get("unprivileged_userns_clone") == "0":
            cause += " (sysctl kernel.unprivileged_userns_clone=1 allows them)"
        elif allowed.get("apparmor_restrict_unprivileged_userns") == "1":
            cause += " (AppArmor forbids them: it needs a profile for bwrap)"
        else:
            cause += ": this is a container without them, or a sandbox"
    elif re.search(r"Permission denied", line):
        cause = "mounting is forbidden here: ts itself runs in a sandbox (Landlock, AppArmor)"
    return f"{cause}; bwrap says: {line}" if cause else f"bwrap says: {line}"


def _allowed() -> dict[str, str]:
    found = {}
    for name in ("unprivileged_userns_clone", "apparmor_restrict_unprivileged_userns"):
        with suppress(OSError):
            text = Path("/proc/sys/kernel", name).read_text(encoding="ascii")
            found[name] = text.strip()
    return found


def found(
    argv: Callable[[str], Argv], env: Mapping[str, str], home: Path, roots: Sequence[Path]
) -> Found:
    """What there is on this machine, found out by trying it."""
    if sys.platform == "darwin":
        if os.access(SEATBELT, os.X_OK):
            return Found(kind="seatbelt", program=SEATBELT)
        return Found(why=f"{SEATBELT} is not there")
    if sys.platform != "linux":
        return Found(why=f"there is none for {sys.platform}")
    program = located("bwrap", env, roots)
    if not program:
        return Found(why=f"bwrap is not on PATH; {INSTALL}")
    from agent.tools.sandbox.filter import program as filter_of

    wrong = faults(argv(program), home, filtered=bool(filter_of(os.uname().machine)))
    if wrong:
        return Found(why=f"{program} is there and does not work: {'; '.join(wrong)}")
    return Found(kind="bubblewrap", program=program)


def reported(text: bytes) -> bool:
    """Whether bwrap told, on its status descriptor, how the command ended: else it never ran."""
    for line in text.splitlines():
        with suppress(ValueError):
            if "exit-code" in json.loads(line):
                return True
    return False

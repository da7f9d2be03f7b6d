"""The sandbox of one ts: what this machine offers is found out at the first command.

A command sees the whole file system and may change the working directory, what was added to it,
the run's workspace and a /tmp of its own. Keys, the sockets of /run and other processes are not
there, and neither is the network. What would steer git, ts or an editor later stays as it is.

What bwrap is not asked for is --die-with-parent: that request of the kernel fires when the thread
that started a command ends, and with the command's shell it would end what that leaves running.
A command is ended from outside by its family (tools/child), and with its first process, bwrap's
own, the kernel ends all the others.
"""

import fcntl
import os
import re
import resource
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agent.errors import UsageError
from agent.settings import SandboxMode
from agent.tool import Box, Heir, Launch, Leave
from agent.tools.child.after import FOLDER, PRIVATE
from agent.tools.sandbox import find, hidden
from agent.tools.sandbox.filter import program as filter_of
from agent.tools.sandbox.find import Found
from agent.tools.sandbox.profile import KERNEL, RESOLVERS, Place, bubblewrap, seatbelt

TEMPORARY = ("/tmp", "/var/tmp")
CACHES = {"GOCACHE": "/tmp/.cache/go-build", "UV_CACHE_DIR": "/tmp/.cache/uv"}
STATUS = 65_536  # bytes that bwrap may tell of a command
# What one command may take, where `prlimit` is there (util-linux). The kernel counts processes by
# user and namespace, so these are the command's own; those of root it does not count.
PROCESSES = 4096  # threads counted
LARGEST = 8 << 30  # bytes of a file

_WRITES = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_BUSY = re.compile(r"device or resource busy|EBUSY", re.IGNORECASE)
_NETWORK = re.compile(
    r"temporary failure in name resolution|could not resolve|name or service not known|EAI_AGAIN"
    r"|ENOTFOUND|network is unreachable|ENETUNREACH|no address associated|nodename nor servname"
    r"|failed to resolve|failed to lookup address|dial tcp: lookup|getaddrinfo failed"
    r"|unable to resolve",
    re.IGNORECASE,
)
_SOCKET = re.compile(
    r"cannot connect to the docker daemon|/run/[\w./-]*(?:sock\b|socket)"
    r"|error connecting to /tmp/tmux|couldn't create socket|socket: operation not permitted",
    re.IGNORECASE,
)


State: TypeAlias = Literal["on", "none", "off"]


class Scope(Struct, frozen=True, kw_only=True):
    """Where commands work. Resolved, and fixed before the first of them runs."""

    cwd: Path
    home: Path
    roots: tuple[Path, ...] = ()  # further directories that may be written
    env: Mapping[str, str] = {}  # of commands; programs are found by its PATH
    granted: tuple[str, ...] = ()  # secret files of the project that rules let be read


class Sandbox:
    """Any thread may use it. Close it at the end."""

    def __init__(
        self,
        scope: Scope,
        mode: SandboxMode,
        *,
        offline: bool = False,
        tell: Callable[[str], None],
        heir: Heir | None = None,
    ) -> None:
        """`offline`: no leave opens the network. `tell` hears, once, where there is no sandbox."""
        self._scope, self._mode, self._offline = scope, mode, offline
        self._tell, self._heir = tell, heir
        self._lock = Lock()
        self._found: Found | None = None
        self._private: Path | None = None
        self._hold = -1  # the same folder, open and locked
        self._stores: list[Path] | None = None
        self._bounds: tuple[str, ...] | None = None

    @property
    def found(self) -> Found:
        """What this machine offers; found out when first asked for."""
        with self._lock:
            if self._found is None:
                roots = (self._scope.cwd, *self._scope.roots)
                self._found = offered(self._scope.env, self._scope.home, roots)
            return self._found

    @property
    def state(self) -> State:
        """on; none: there is none here; off: the user has said so. Told once where not on."""
        state: State = "off"
        if self._mode != "off":
            state = "on" if self.found.works else "none"
        with self._lock:
            tell, self._tell = self._tell, _untold
        if state == "off":
            tell("the sandbox is off: commands have your rights")
        elif state == "none":
            tell(f"{self.found.told}. `--sandbox off` says that this is meant")
        return state

    def needed(self, who: str) -> None:
        """Raise UsageError where there is none, for `who` does not go without it."""
        if not self.found.works:
            raise UsageError(f"{who}: {self.found.told}")

    def box(self, leave: Leave, also: Sequence[Path] = ()) -> Box | None:
        """What puts a command into the sandbox; None where it is to run without.

        `also` may be written by it: the run's workspace, what a shell carries.
        """
        if self._mode == "off" or not self.found.works or (leave.outside and not self._offline):
            return None
        if self._offline:
            leave = structs.replace(leave, network=False, keys=False, outside=False)
        place = self._place(leave, also)

        def around(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Launch:
            given = {**env, "TMPDIR": TEMPORARY[0]}
            if "PATH" in env:
                given = {**CACHES, **given}
            if self.found.kind == "seatbelt":
                given["TMPDIR"] = str(place.private)
                profile = seatbelt(place, network=leave.network, changes=leave.changes)
                words = (self.found.program, "-p", profile, *argv)
                return Launch(argv=words, cwd=cwd, env=given)
            return self._launch(place, leave, argv, cwd, given)

        return around

    def _launch(
        self, place: Place, leave: Leave, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
    ) -> Launch:
        folders = frozenset(path for path in place.hidden if path.is_dir())
        words = bubblewrap(place, network=leave.network, changes=leave.changes, folders=folders)
        fds = []
        if rules := _filter():
            words += ["--seccomp", str(rules[0])]
            fds += rules
        heard, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        words += ["--json-status-fd", str(told), "--chdir", str(cwd)]
        absent = place.absent
        return Launch(
            argv=(self.found.program, *words, "--", *self._bounded(), *argv),
            cwd=Path("/"),
            env=env,
            fds=(*fds, told),
            status=heard,
            code=_told_code,
            over=lambda: self._planted(absent),
        )

    def denied(self, text: str, leave: Leave) -> str:
        """What of a command that has failed the sandbox stood in the way of; "" for nothing."""
        if self._mode == "off" or leave.outside or not self.found.works:
            return ""
        why = []
        if _WRITES.search(text):
            where = " and ".join(map(str, (self._scope.cwd, *self._scope.roots)))
            why.append(
                f"only {where} and /tmp can be written, but for what steers git, editors and ts"
                if leave.changes
                else "in plan mode only /tmp can be written"
            )
        elif _BUSY.search(text):
            why.append("what steers git, editors and ts can't be changed, moved or removed")
        if not leave.network and _NETWORK.search(text):
            why.append("commands have no network unless the user allows it")
        if _SOCKET.search(text):
            why.append("sockets of other programs can't be reached")
        return f"sandbox denied: {'; '.join(why)}" if why else ""

    def outside(self, path: Path) -> Path:
        """Where a place that a command names is, seen from outside."""
        if not self._private or any(path.is_relative_to(root) for root in self._roots):
            return path
        for name in _temporary():
            if path.is_relative_to(name):
                return self._private / path.relative_to(name)
        return path

    def close(self) -> None:
        """Remove the private folder. Idempotent."""
        with self._lock:
            private, self._private = self._private, None
        if private:
            shutil.rmtree(private, ignore_errors=True)
            os.close(self._hold)
            if self._heir:
                self._heir.removed(private)

    @property
    def _roots(self) -> tuple[Path, ...]:
        return (self._scope.cwd, *self._scope.roots)

    def _own(self) -> Path:
        """The private folder, which all commands of this ts see as /tmp."""
        with self._lock:
            if self._private is None:
                made = Path(os.path.realpath(tempfile.mkdtemp(prefix=PRIVATE)))
                if self._heir:
                    self._heir.made(made)
                self._hold = os.open(made, FOLDER)
                fcntl.flock(self._hold, fcntl.LOCK_EX)  # who sweeps sees that it is in use
                self._private = made
            return self._private

    def _place(self, leave: Leave, also: Sequence[Path]) -> Place:
        scope = self._scope
        if self._stores is None:
            self._stores = hidden.stores(scope.home)
        kept: list[Path] = []
        folders: list[Path] = []
        absent: list[Path] = []
        for root in self._roots:
            kept += hidden.policies(root)
            if repository := _completed(root):
                folders += repository.folders
                absent += repository.absent
                kept += [*repository.kept, *([repository.link] if repository.link else [])]
        shown = [scope.cwd / name for name in leave.shows]
        free = [scope.cwd / name for name in leave.steers]
        secret = [] if leave.keys else self._stores
        secret = [*secret, *(path for root in self._roots for path in self._dotenvs(root))]
        secret += [path for name in hidden.LOGS if (path := scope.cwd / name).is_dir()]
        return Place(
            roots=self._roots,
            private=self._own(),
            temporary=_temporary(),
            folders=tuple(dict.fromkeys(folders)),
            also=tuple(dict.fromkeys(also)),
            kept=tuple(path for path in dict.fromkeys(kept) if not _among(path, free)),
            hidden=tuple(path for path in dict.fromkeys(secret) if not _among(path, shown)),
            absent=tuple(absent),
            programs=_programs(scope.env),
            kernel=tuple(name for name in KERNEL if os.path.lexists(name) and not os.geteuid()),
            resolvers=tuple(path for name in RESOLVERS if (path := Path(name)).exists()),
        )

    def _dotenvs(self, root: Path) -> list[Path]:
        return hidden.dotenvs(root, self._scope.granted)

    def _bounded(self) -> tuple[str, ...]:
        """What a command begins with, so that it does not take all of the machine."""
        if self._bounds is None:
            prlimit = find.located("prlimit", self._scope.env, self._roots)
            self._bounds = bounds(prlimit) if prlimit else ()
        return self._bounds

    def _planted(self, absent: Sequence[Path]) -> None:
        """Remove what has come to be since: nothing that is mounted can stand for it."""
        for path in absent:
            with suppress(OSError):
                path.unlink()


def offered(env: Mapping[str, str], home: Path, roots: Sequence[Path] = ()) -> Found:
    """What this machine offers, found out by trying it: 0.1 seconds. `env`: of commands; a program
    in `roots` is never it."""
    return find.found(_probed, env, home, roots)


def bounds(prlimit: str, processes: int = PROCESSES) -> tuple[str, ...]:
    """A command before a command: it lowers what that may take, where it is not lower already."""

    def least(kind: int, wanted: int) -> int:
        return min(wanted, *(each for each in resource.getrlimit(kind) if each >= 0), wanted)

    return (
        prlimit,
        f"--nproc={least(resource.RLIMIT_NPROC, processes)}",
        f"--fsize={least(resource.RLIMIT_FSIZE, LARGEST)}",
        "--",
    )


def _untold(text: str) -> None:
    """Hears what has been told already."""


def _told_code(code: int, status: int) -> int:
    """The exit code of the command, from that of bwrap: 126 where it never came to run."""
    if code != 1:
        return code
    try:
        told = os.read(status, STATUS)
    except OSError:
        return code
    return code if find.reported(told) else 126


def _temporary() -> tuple[str, ...]:
    return tuple(name for name in TEMPORARY if os.path.realpath(name) == name)


def _programs(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Places on PATH that the sandbox's own folders would cover: a virtual environment in /tmp."""
    found = []
    for entry in env.get("PATH", "").split(os.pathsep):
        path = Path(os.path.realpath(entry))
        if entry.startswith("/") and any(
            path.is_relative_to(each) for each in (*TEMPORARY, "/run")
        ):
            place = path.parent if path.name == "bin" else path
            if path.is_dir() and str(place) not in TEMPORARY:
                found.append(place)
    return tuple(dict.fromkeys(found))


def _among(path: Path, places: Sequence[Path]) -> bool:
    """Whether a path is one of some places, in one of them, or holds one."""
    return any(path.is_relative_to(place) or place.is_relative_to(path) for place in places)


def _completed(root: Path) -> hidden.Repository | None:
    """The repository that `root` is in. What git does without is made: nobody else then can."""
    found = hidden.repository(root)
    if found and (missing := [path for path in found.missing if not os.path.lexists(path)]):
        with suppress(OSError):
            for path in missing:
                path.mkdir() if path.name == "hooks" else path.touch()
        found = hidden.repository(root)
    return found


def _filter() -> list[int]:
    """A descriptor with the filter of system calls, for one start; [] where there is none."""
    rules = filter_of(os.uname().machine)
    if not rules:
        return []
    fd = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(fd, rules)
    os.lseek(fd, 0, os.SEEK_SET)
    return [fd]


def _probed(program: str) -> find.Argv:
    """How the probe is started: as a command is, in a place made for it."""

    def argv(inside: Path, private: Path, secret: Path) -> tuple[list[str], tuple[int, ...]]:
        place = Place(
            roots=(inside,),
            private=private,
            temporary=_temporary(),
            folders=(inside / ".git",),
            kept=(inside / ".git" / "hooks", inside / ".git" / "config"),
            hidden=(secret,),
        )
        words = bubblewrap(place, network=False, changes=True, folders=frozenset({secret}))
        fds = _filter()
        rules = ["--seccomp", str(fds[0])] if fds else []
        return [program, *words, *rules, "--chdir", str(inside)], tuple(fds)

    return argv

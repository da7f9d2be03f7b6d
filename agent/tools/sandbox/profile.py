"""What one command is given of the machine: as arguments of bubblewrap, as a profile of macOS.

Both are functions of values; nothing is looked at here.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

EMPTY = "4096"  # bytes of a folder that stands for a hidden one; what is written there is lost
KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/mtrr", "/proc/fs")
# /etc/resolv.conf may be a link into /run, which is hidden.
RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")


class Place(Struct, frozen=True, kw_only=True):
    """Which files a command may change, may only read, and does not see. All are resolved."""

    roots: tuple[Path, ...]  # may be written
    private: Path  # a folder of the run's own, seen as `temporary`
    temporary: tuple[str, ...] = ("/tmp",)
    folders: tuple[Path, ...] = ()  # may be written, but not moved: a repository's
    also: tuple[Path, ...] = ()  # may be written though they are in what is kept
    kept: tuple[Path, ...] = ()  # may only be read, though they are in what may be written
    hidden: tuple[Path, ...] = ()
    absent: tuple[Path, ...] = ()  # is not there, and must not be when the command is over
    kernel: tuple[str, ...] = KERNEL[:1]  # root may write these, without any of its rights
    programs: tuple[Path, ...] = ()  # places of programs that would be covered; only read
    resolvers: tuple[Path, ...] = ()  # what the names of the internet are looked up by, in /run


def bubblewrap(
    place: Place, *, network: bool, changes: bool, folders: frozenset[Path]
) -> list[str]:
    """Arguments of bwrap but for its own name, descriptors and the command (bwrap(1)).

    `folders` are those of the hidden places that are folders. Later mounts lie over earlier ones.
    """
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for name in place.kernel:
        words += ["--ro-bind", name, name]
    for name in place.temporary:
        words += ["--bind", str(place.private), name]
    words += ["--tmpfs", "/run"]
    for path in (*place.programs, *(place.resolvers if network else ())):
        words += ["--ro-bind", str(path), str(path)]
    around = [path for path in place.hidden if _holds(path, place.roots)]
    words += _hide(around, folders, shut=False)
    # Each is a mount of its own, so that it can't be moved away with what is kept in it.
    bind = "--bind" if changes else "--ro-bind"
    for path in (*_outer(place.roots), *place.folders):
        words += [bind, str(path), str(path)]
    for path in place.kept:
        words += ["--ro-bind", str(path), str(path)]
    words += _hide([path for path in place.hidden if path not in around], folders)
    for path in place.also:
        words += ["--bind", str(path), str(path)]
    words += ["--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc"]
    words += ["--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--new-session"]
    return words if network else [*words, "--unshare-net"]


def _hide(paths: Iterable[Path], folders: frozenset[Path], *, shut: bool = True) -> list[str]:
    words: list[str] = []
    for path in paths:
        if path in folders:
            words += [*(["--size", EMPTY] if shut else []), "--tmpfs", str(path)]
        else:
            words += ["--ro-bind", "/dev/null", str(path)]
    return words


def _holds(path: Path, roots: Iterable[Path]) -> bool:
    return any(root.is_relative_to(path) for root in roots)


def _outer(roots: Iterable[Path]) -> list[Path]:
    """The roots, those that hold others first."""
    return sorted(dict.fromkeys(roots), key=lambda path: len(path.parts))


def seatbelt(place: Place, *, network: bool, changes: bool) -> str:
    """A profile for macOS's sandbox-exec, last match wins. Untried: no such machine was at hand."""
    lines = ["(version 1)", "(allow default)"]
    if not network:
        lines += [
            "(deny network*)",
            '(allow network* (local ip "localhost:*") (remote ip "localhost:*"))',
        ]
    lines += ['(deny network* (remote unix-socket (path-regex #"^/")))', "(deny file-write*)"]
    sinks = (
        "/dev/null",
        "/dev/zero",
        "/dev/tty",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/dtracehelper",
    )
    lines.append(f"(allow file-write* {' '.join(f'(literal {_quoted(each)})' for each in sinks)})")
    writable = (*place.roots, *place.folders) if changes else ()
    for path in (*writable, place.private):
        lines.append(f"(allow file-write* (subpath {_quoted(path)}))")
    for path in place.kept:
        lines.append(f"(deny file-write* (subpath {_quoted(path)}))")
    for path in place.folders:
        lines.append(f"(deny file-write-unlink (literal {_quoted(path)}))")
    for path in place.hidden:
        lines.append(f"(deny file-read* file-write* (subpath {_quoted(path)}))")
    for path in place.also:
        lines.append(f"(allow file-read* file-write* (subpath {_quoted(path)}))")
    lines += ["(deny process-info* (target others))", "(deny mach-priv*)"]
    return "\n".join(lines) + "\n"


def _quoted(path: Path | str) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'

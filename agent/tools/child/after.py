"""What a killed `ts` leaves behind, ended and removed: a program of its own that outlives it.

`survivor.py` starts it and tells it, line by line, what there is; standard input ends when ts does,
however that comes about. Then every process of the commands that were under way is asked to end,
ended after GRACE, and the temporary files go. It has a session of its own, no terminal, and the
signals that end ts are blocked in it. It imports little: one stands beside each ts that runs
commands.

    + MARK LEADER           a command is about to run (LEADER 0), or does, as the head of a session
    > DEV INO FOLDER NAME   there is a temporary file or folder; FOLDER and NAME are in hex
    - KEY                   the command with that MARK, the file of that NAME, is done with

Only what is named so is removed, and only in the very folder that was meant. At its start it also
removes the shells' folders that nobody has any more, because a machine lost its power, say.
Elsewhere than on Linux only the process group of a command is known (see family.py).
"""

import fcntl
import os
import select
import stat
import sys
import time

from agent.tools.child.family import family, lives

TERM, KILL = 15, 9  # POSIX; the module `signal` would be a tenth of the memory
GRACE = 0.4  # seconds between asking processes to end and ending them
LOOK = 0.02  # seconds between two looks
CALM = 3  # looks without finding anything, after which nothing is left: a child may be on its way
ROUNDS = 100  # looks at most
SHELL = "ts-shell-"  # how the names of the shells' folders begin
PRIVATE = "ts-private-"  # how those of the sandboxes' do
DEEP = 100  # folders within folders that are removed
CARRIED = ("carried", "left", "cwd")  # names in such a folder, besides those of long outputs
AGE = 60.0  # seconds after which such a folder has been locked by its shell
NAMES = 20_000  # that are looked at in the folder of temporary files
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main() -> None:
    """Sweep the folder of temporary files (the last word), then wait for the end of ts."""
    sweep(sys.argv[-1])
    commands, files = told()
    end(commands)
    for line in files:
        remove(line)


def told() -> tuple[dict[bytes, int], list[bytes]]:
    """What is left when standard input has ended: commands with their leaders, files."""
    commands, files = dict[bytes, int](), dict[bytes, bytes]()
    rest = b""
    while data := os.read(0, 65_536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            kind, *words = line.split(b" ")
            if kind == b"+":
                commands[words[0]] = int(words[1])
            elif kind == b">":
                files[words[3]] = line
            else:
                commands.pop(words[0], None)
                files.pop(words[0], None)
    return commands, list(files.values())


def end(commands: dict[bytes, int]) -> None:
    """End all that the commands have begun."""
    found = {mark: frozenset[int]() for mark in commands}
    asked = set[int]()
    until, calm = time.monotonic() + GRACE, 0
    for _ in range(ROUNDS):
        late = time.monotonic() >= until
        left = set[int]()
        for mark, leader in commands.items():
            there = family(leader or -1, mark, kin=found[mark])
            found[mark] |= there
            left |= there | ({leader} if leader and lives(leader) else set())
        for id in left if late else left - asked:
            signalled(id, KILL if late else TERM, group=sys.platform != "linux")
        asked |= left
        calm = 0 if left else calm + 1
        if calm == CALM:
            break
        select.select((), (), (), LOOK)


def signalled(id: int, number: int, *, group: bool) -> None:
    try:
        (os.killpg if group else os.kill)(id, number)
    except (ProcessLookupError, PermissionError):
        return  # it has just ended


def remove(line: bytes) -> None:
    """Remove a file or folder of ours, if its folder is still the one that was meant."""
    _, device, inode, *names = line.split(b" ")
    path, name = (bytes.fromhex(word.decode()) for word in names)
    try:
        folder = os.open(path, FOLDER)
    except OSError:
        return  # it has gone, and the file with it
    try:
        status = os.fstat(folder)
        if (status.st_dev, status.st_ino) == (int(device), int(inode)):
            removed(os.fsdecode(name), folder)
    finally:
        os.close(folder)


def removed(name: str, folder: int) -> None:
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                purged(inner) if name.startswith(PRIVATE) else emptied(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except OSError:
        return  # it has gone, or holds what is not ours


def emptied(folder: int) -> None:
    """Remove what a shell keeps in its folder, and nothing else."""
    for name in os.listdir(folder):
        if name in CARRIED or (name.startswith("output-") and name.endswith(".txt")):
            os.unlink(name, dir_fd=folder)


def purged(folder: int, deep: int = 0) -> None:
    """Remove all that is in what was a sandbox's /tmp: only commands have written there."""
    for name in os.listdir(folder):
        try:
            inside = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(inside.st_mode):
                os.unlink(name, dir_fd=folder)
            elif deep < DEEP:
                inner = os.open(name, FOLDER, dir_fd=folder)
                try:
                    purged(inner, deep + 1)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=folder)
        except OSError:
            continue  # it has gone, or can't be


def sweep(path: str) -> None:
    """Remove the shells' and sandboxes' folders that nobody holds (each locks its own)."""
    try:
        folder = os.open(path, FOLDER)
    except OSError:
        return  # then there are none
    with os.scandir(folder) as entries:
        for _, entry in zip(range(NAMES), entries, strict=False):
            if entry.name.startswith((SHELL, PRIVATE)):
                swept(entry.name, folder)
    os.close(folder)


def swept(name: str, folder: int) -> None:
    try:
        inner = os.open(name, FOLDER, dir_fd=folder)
    except OSError:
        return  # no folder, or not ours
    try:
        status = os.fstat(inner)
        mine = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == stat.S_IRWXU
        if mine and status.st_mtime < time.time() - AGE:
            fcntl.flock(inner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removed(name, folder)
    except OSError:
        return  # its shell is there
    finally:
        os.close(inner)

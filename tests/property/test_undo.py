"""Whatever state a repository is in, undo brings every byte back and leaves git's own alone."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.store import undo, worked
from agent.store.snapshots import Snapshots
from agent.store.worked import Part, Work

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}  # noqa: TID251 - where git is
NAMES = ("a", "b", "d/a", "d/e/f", "sp ace", "ümlaut", "x.log", "sub/s", os.fsdecode(b"\xff"))
CONTENTS = (b"", b"one\n", b"two\r\n", b"$Id$\n", b"\x00\xff\xfe", b"a\n" * 500)
KINDS = ("born", "unborn", "detached", "conflict", "submodule", "sparse", "inner", "none")

actions = st.lists(
    st.tuples(
        st.sampled_from(
            ("write", "write", "program", "link", "remove", "stage", "rename", "stash")
        ),
        st.sampled_from(NAMES),
        st.sampled_from(CONTENTS),
    ),
    max_size=8,
)


Actions: TypeAlias = list[tuple[str, str, bytes]]


def git(cwd: Path, *words: str) -> None:
    names = ("-c", "user.name=u", "-c", "user.email=u@h", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *words], cwd=cwd, check=False, capture_output=True, env=ENV)


def act(cwd: Path, action: str, name: str, data: bytes) -> None:
    path = cwd / name
    for above in path.relative_to(cwd).parents:
        if (cwd / above).is_symlink() or (cwd / above).is_file():
            (cwd / above).unlink()
    if action in {"write", "program", "link"}:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        if action == "link":
            path.symlink_to("a")
        else:
            path.write_bytes(data)
            path.chmod(0o755 if action == "program" else 0o644)
    elif action == "remove":
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    elif action == "stage":
        git(cwd, "add", "-A", "--", name)
    elif action == "rename":
        git(cwd, "mv", name, "renamed")
    else:
        git(cwd, "stash")


def begun(home: Path, kind: str) -> Path:
    """A working directory in a repository of that kind."""
    cwd = home / "work"
    cwd.mkdir()
    (cwd / ".gitignore").write_bytes(b"*.log\n")
    (cwd / ".gitattributes").write_bytes(b"* text eol=crlf ident\n")
    for name in ("a", "d/a", "d/e/f", "x.log"):
        act(cwd, "write", name, b"first\n")
    if kind == "none":
        return cwd
    git(cwd, "init", "-q", "-b", "main")
    if kind == "unborn":
        return cwd
    git(cwd, "add", "-A")
    git(cwd, "commit", "-q", "-m", "first")
    match kind:
        case "detached":
            git(cwd, "checkout", "-q", "--detach")
        case "conflict":
            git(cwd, "checkout", "-q", "-b", "other")
            act(cwd, "write", "a", b"theirs\n")
            git(cwd, "commit", "-q", "-a", "-m", "theirs")
            git(cwd, "checkout", "-q", "main")
            act(cwd, "write", "a", b"ours\n")
            git(cwd, "commit", "-q", "-a", "-m", "ours")
            git(cwd, "merge", "-q", "other")
        case "submodule":
            other = home / "other"
            other.mkdir()
            git(other, "init", "-q")
            (other / "s").write_bytes(b"s\n")
            git(other, "add", "s")
            git(other, "commit", "-q", "-m", "s")
            git(cwd, "submodule", "--quiet", "add", str(other), "sub")
        case "sparse":
            git(cwd, "sparse-checkout", "set", "--sparse-index", "d/e")
        case "inner":
            return cwd / "d"
    return cwd


def state(cwd: Path, *, own: bool = True) -> dict[str, tuple[int, bytes]]:
    """All that is in a directory: bytes, modes and links."""
    found = {}
    for path in sorted(cwd.rglob("*")):
        inner = path.relative_to(cwd).parts
        mode = path.lstat().st_mode
        if ".agent" in inner or (path.is_dir() and not path.is_symlink()):
            continue
        if ".git" in inner:
            if not own or "objects" in inner:
                continue
            mode = 0
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[str(path)] = (mode, data)
    return found


@settings(max_examples=12)
@given(st.sampled_from(KINDS), actions, actions, actions)
def test_r98_every_byte_comes_back_whatever_state_the_repository_is_in(
    kind: str, dirty: Actions, work: Actions, user: Actions
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        cwd = begun(home, kind)
        for each in dirty:
            act(cwd, *each)
        store = Snapshots(cwd, ENV)
        before, first = state(home), store.keep()
        assert state(home) == before
        changed(cwd, work)
        after, second = state(home), store.keep()
        done = undo.undo(store, undo.preview(store, [work_of(first, second)]))
        assert (done.kept, done.failed) == ((), ())
        assert state(home) == before
        if done.id:
            undo.undo(store, undo.preview(store, [worked.work(cwd, done.id)]))
        assert state(home) == after
        # What the user does to files afterwards is never lost.
        changed(cwd, user)
        now = state(home)
        preview = undo.preview(store, [work_of(first, second)])
        theirs = {path for path in {*now, *after} if now.get(path) != after.get(path)}
        assert not theirs & {str(cwd / change.path) for change in preview.sure}
        undo.undo(store, preview)
        rest = state(home)
        assert {path: rest.get(path) for path in theirs} == {path: now.get(path) for path in theirs}


def changed(cwd: Path, work: Actions) -> None:
    """Change files that are neither ignored nor a submodule's."""
    for action, name, data in work:
        mine = not name.endswith(".log") and not name.startswith("sub")
        if action in {"write", "program", "link", "remove"} and mine:
            act(cwd, action, name, data)


def work_of(first: str, second: str) -> Work:
    part = Part(before=first, after=second)
    return Work(id="r", kind="run", words="", time="", parts=(part,))

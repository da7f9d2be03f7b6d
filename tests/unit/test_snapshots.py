"""The working tree kept as git objects, and nothing of the user's repository changed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from time import monotonic, time

import pytest

from agent.errors import AgentError, StoppedError
from agent.stop import Stop
from agent.store import prune
from agent.store.census import EMPTY, LARGE, MARK
from agent.store.snapshots import Entry, Snapshots

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}  # noqa: TID251 - where git is


def git(cwd: Path, *words: str) -> str:
    """Git as the user has it."""
    names = (
        "-c",
        "user.name=u",
        "-c",
        "user.email=u@example.org",
        "-c",
        "protocol.file.allow=always",
    )
    ran = subprocess.run(
        ["git", *names, *words], cwd=cwd, check=True, capture_output=True, encoding="utf-8", env=ENV
    )
    return ran.stdout


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


def repository(cwd: Path) -> Path:
    git(cwd, "init", "-q", "-b", "main")
    (cwd / "a.py").write_bytes(b"one\r\ntwo\n$Id$\n")
    (cwd / "inner").mkdir()
    (cwd / "inner/b.txt").write_bytes(b"b\n")
    git(cwd, "add", "-A")
    git(cwd, "commit", "-q", "-m", "first")
    return cwd


def names(store: Snapshots, tree: str) -> set[str]:
    return {path for path in store.entries(tree) if not path.startswith(".agent/")}


def content(store: Snapshots, tree: str, path: str) -> bytes | None:
    [(_, data)] = store.blobs([store.entries(tree)[path].id])
    return data


def state(cwd: Path) -> dict[str, bytes]:
    """All that a repository holds, but for what git itself keeps in order: its objects."""
    found = {}
    for path in sorted((cwd / ".git").rglob("*")):
        if path.is_file() and "objects" not in path.parts:
            found[str(path)] = path.read_bytes() + str(path.stat().st_mtime_ns).encode()
    return found


@pytest.mark.parametrize("make", [repository, lambda cwd: cwd])
def test_bytes_modes_and_links_are_kept_as_they_are(
    cwd: Path, make: Callable[[Path], Path]
) -> None:
    make(cwd)
    odd = os.fsdecode(b"odd \xff\tname\n")
    (cwd / odd).write_bytes(b"\x00\r\n\xff")
    (cwd / "tool").write_bytes(b"#!/bin/sh\n")
    (cwd / "tool").chmod(0o700)
    (cwd / "link").symlink_to("/etc/passwd")
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    entries = store.entries(tree)
    assert entries["tool"].mode == "100755"
    assert entries["link"].mode == "120000"
    assert content(store, tree, "link") == b"/etc/passwd"
    assert content(store, tree, odd) == b"\x00\r\n\xff"
    assert store.keep() == tree
    (cwd / "tool").chmod(0o600)
    (cwd / "link").unlink()
    changed = store.changed(tree, store.keep())
    assert {path: new and new.mode for path, (_, new) in changed.items()} == {
        "tool": "100644",
        "link": None,
    }


def test_nothing_is_made_before_the_first_snapshot_and_nothing_of_the_users_is_touched(
    cwd: Path,
) -> None:
    repository(cwd)
    (cwd / "a.py").write_text("staged\n", encoding="utf-8")
    git(cwd, "add", "a.py")
    (cwd / "a.py").write_text("dirty\n", encoding="utf-8")
    git(cwd, "stash")
    git(cwd, "stash", "apply", "-q", "--index")
    before = state(cwd)
    store = Snapshots(cwd, ENV)
    assert not (cwd / ".agent").exists()
    tree = store.keep()
    (cwd / "inner/b.txt").unlink()
    store.changed(tree, store.keep())
    assert state(cwd) == before
    assert git(cwd, "status", "--porcelain", "--", "a.py", "inner") == "MM a.py\n D inner/b.txt\n"
    assert git(cwd, "status", "--porcelain", "--", ".agent/undo") == ""


def test_ignored_files_nested_repositories_and_our_own_state_are_left_alone(cwd: Path) -> None:
    repository(cwd)
    for name in (".ts-00ff.tmp", "run.log", "x.own", "y.bak", "kept.log", "inner/z.local"):
        (cwd / name).write_text("x", encoding="utf-8")
    (cwd / ".gitignore").write_text("*.log\n!kept.log\n", encoding="utf-8")
    (cwd / "inner/.gitignore").write_text("*.local\n", encoding="utf-8")
    (cwd / ".git/info/exclude").write_text("*.own\n", encoding="utf-8")
    home = cwd.parent / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.bak\n", encoding="utf-8")
    for name in ("nested", "empty"):
        (cwd / name).mkdir()
        git(cwd / name, "init", "-q")
    (cwd / "nested/file").write_text("theirs\n", encoding="utf-8")
    git(cwd / "nested", "add", "file")
    git(cwd / "nested", "commit", "-q", "-m", "x")
    for name in ("runs/1.jsonl", "sessions/1.jsonl", "workspace/1/out", "settings.local.yaml"):
        path = cwd / ".agent" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    (cwd / ".agent/.gitignore").write_text("", encoding="utf-8")  # of before there was undo
    (cwd / ".agent/memory.md").write_text("the project's\n", encoding="utf-8")
    store = Snapshots(cwd, ENV | {"HOME": str(home)})
    assert set(store.entries(store.keep())) == {
        ".agent/.gitignore",
        ".agent/memory.md",
        ".gitignore",
        "a.py",
        "inner/.gitignore",
        "inner/b.txt",
        "kept.log",
    }


def test_what_the_user_hides_from_git_by_flags_is_seen_all_the_same(cwd: Path) -> None:
    repository(cwd)
    git(cwd, "update-index", "--assume-unchanged", "a.py")
    git(cwd, "update-index", "--skip-worktree", "inner/b.txt")
    before = git(cwd, "ls-files", "-v")
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    (cwd / "a.py").write_bytes(b"1ne\r\ntwo\n$Id$\n")
    (cwd / "inner/b.txt").write_bytes(b"c\n")
    assert set(store.changed(tree, store.keep())) == {"a.py", "inner/b.txt"}
    assert git(cwd, "ls-files", "-v") == before


HOSTILE = """\
[core]
    fsmonitor = {canary}
    hooksPath = {hooks}
    pager = {canary}
    sshCommand = {canary}
    editor = {canary}
    attributesFile = {attributes}
    excludesFile = {attributes}
    autocrlf = true
    eol = crlf
    ignoreCase = true
    symlinks = false
    fileMode = false
[diff]
    external = {canary}
[diff "evil"]
    textconv = {canary}
    command = {canary}
[filter "evil"]
    clean = {canary}
    smudge = {canary}
    process = {canary}
    required = true
[gpg]
    program = {canary}
[alias]
    ls-files = !{canary}
    write-tree = !{canary}
[gc]
    auto = 1
    recentObjectsHook = {canary}
[uploadpack]
    packObjectsHook = {canary}
"""


def hostile(cwd: Path, canary: Path) -> None:
    """A repository whose every setting runs the canary, and a store like it, with a submodule."""
    hooks, attributes = cwd.parent / "hooks", cwd.parent / "attributes"
    hooks.mkdir()
    for hook in ("post-index-change", "pre-auto-gc", "reference-transaction", "post-checkout"):
        shutil.copy(canary, hooks / hook)
        shutil.copy(canary, cwd / ".git/hooks" / hook)
    words = "* filter=evil diff=evil ident text eol=crlf working-tree-encoding=UTF-16LE\n"
    settings = HOSTILE.format(canary=canary, hooks=hooks, attributes=attributes)
    for place in (attributes, cwd / ".gitattributes", cwd / ".git/info/attributes"):
        place.write_text(words, encoding="utf-8")
    (cwd / "inner/.gitattributes").write_text(f"[attr]x text\n{words}", encoding="utf-8")
    (cwd / ".git/config").write_text(settings, encoding="utf-8")
    store = cwd / ".agent/undo"
    for place in (store, cwd.parent / "common", cwd / "bare.git", cwd / "sub/.git"):
        shutil.copytree(cwd / ".git", place)
    (store / "commondir").write_text("../../../common\n", encoding="utf-8")
    (store / "objects/info").mkdir(exist_ok=True)
    (store / "objects/info/alternates").write_text("/nowhere\n", encoding="utf-8")
    (store / "config.worktree").write_text(settings, encoding="utf-8")
    (cwd / "sub/s.txt").write_text("s\n", encoding="utf-8")
    modules = f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{canary}\n'
    (cwd / ".gitmodules").write_text(modules, encoding="utf-8")


def test_r55_nothing_that_a_repository_names_is_run_and_no_byte_changes(cwd: Path) -> None:
    repository(cwd)
    canary, sang = cwd.parent / "canary", cwd.parent / "sang"
    canary.write_text(f"#!/bin/sh\necho ran >> {sang}\ncat\n", encoding="utf-8")
    canary.chmod(0o755)
    hostile(cwd, canary)
    data = b"one\r\ntwo\nthree $Id$ \xff\xfe\n"
    (cwd / "new.txt").write_bytes(data)
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    (cwd / "a.py").write_bytes(data)
    after = store.keep()
    store.patch(tree, after)
    store.counts(tree, after)
    store.tidy(always=True)
    assert not sang.exists()
    assert content(store, after, "a.py") == data
    assert content(store, tree, "new.txt") == data
    assert content(store, tree, "a.py") == b"one\r\ntwo\n$Id$\n"
    assert not {path for path in store.entries(after) if path.startswith("sub/")}
    words = ["git", "status"]  # the canary does sing where git is asked without care
    subprocess.run(words, cwd=cwd, env=ENV, check=False, capture_output=True)
    assert sang.exists()


@pytest.mark.parametrize("where", ["undo", "undo/objects", "undo/info", "undo/index.lock"])
def test_a_store_with_links_in_it_is_refused(cwd: Path, where: str) -> None:
    outside = cwd.parent / "outside"
    outside.mkdir()
    place = cwd / ".agent" / where
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    with pytest.raises(AgentError, match="symbolic link"):
        Snapshots(cwd, ENV).keep()
    assert not [*outside.iterdir()]


def test_a_directory_inside_a_repository_is_kept_alone_with_the_ignore_files_above(
    cwd: Path,
) -> None:
    repository(cwd)
    (cwd / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    inner = cwd / "inner"
    (inner / "x.log").write_text("x", encoding="utf-8")
    store = Snapshots(inner, ENV)
    tree = store.keep()
    assert names(store, tree) == {"b.txt"}
    (inner / "new").write_text("n", encoding="utf-8")
    (cwd / "a.py").write_text("changed above\n", encoding="utf-8")
    assert set(store.changed(tree, store.keep())) == {"new"}
    build = cwd / "build"  # all of it is ignored: then nothing above says what is to be kept
    build.mkdir()
    (build / "out").write_text("o", encoding="utf-8")
    other = Snapshots(build, ENV)
    assert names(other, other.keep()) == {"out"}


def test_worktrees_submodules_and_other_kinds_of_repositories_do(cwd: Path) -> None:
    repository(cwd)
    tree = cwd.parent / "tree"
    git(cwd, "worktree", "add", "-q", str(tree))
    store = Snapshots(tree, ENV)
    assert names(store, store.keep()) == {"a.py", "inner/b.txt"}
    assert not (tree / ".agent/undo/objects" / store.entries(store.keep())["a.py"].id[:2]).exists()
    outer = cwd.parent / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(cwd), "sub")
    store = Snapshots(outer, ENV)
    assert names(store, store.keep()) == {".gitmodules"}
    store = Snapshots(outer / "sub", ENV)
    assert names(store, store.keep()) == {"a.py", "inner/b.txt"}
    for words in (("--split-index",), ("--index-version", "4"), ("--untracked-cache",)):
        git(cwd, "update-index", *words)
        shutil.rmtree(cwd / ".agent", ignore_errors=True)
        store = Snapshots(cwd, ENV)
        assert names(store, store.keep()) == {"a.py", "inner/b.txt"}
    other = cwd.parent / "sha256"
    other.mkdir()
    git(other, "init", "-q", "--object-format=sha256")
    (other / "f").write_text("f", encoding="utf-8")
    git(other, "add", "f")
    store = Snapshots(other, ENV)
    assert names(store, store.keep()) == {"f"}


def test_what_was_only_lent_is_there_when_the_user_has_thrown_it_away(cwd: Path) -> None:
    repository(cwd)
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    assert store.blobs([]) is not None
    (cwd / "a.py").write_text("new\n", encoding="utf-8")
    (cwd / "inner/b.txt").unlink()
    after = store.keep()
    shutil.rmtree(cwd / ".git")
    store = Snapshots(cwd, ENV)
    assert set(store.changed(tree, after)) == {"a.py", "inner/b.txt"}
    assert content(store, tree, "a.py") == b"one\r\ntwo\n$Id$\n"
    assert content(store, tree, "inner/b.txt") == b"b\n"


def test_a_file_too_large_or_not_readable_is_a_mark_of_what_it_was(cwd: Path) -> None:
    with (cwd / "big").open("wb") as file:
        file.truncate(LARGE + 1)
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    assert store.entries(tree)["big"].mode == MARK
    assert store.keep() == tree
    os.utime(cwd / "big", (1, 1))
    after = store.keep()
    assert set(store.changed(tree, after)) == {"big"}
    (cwd / "big").unlink()
    assert store.changed(after, store.keep())["big"][1] is None


def test_files_that_become_directories_and_links_and_back_are_followed(cwd: Path) -> None:
    (cwd / "a").mkdir()
    (cwd / "a/x").write_text("x\n", encoding="utf-8")
    (cwd / "f").write_text("f\n", encoding="utf-8")
    store = Snapshots(cwd, ENV)
    first = store.keep()
    (cwd / "a").rename(cwd / "b")
    (cwd / "a").symlink_to("b")
    (cwd / "f").unlink()
    (cwd / "f").mkdir()
    (cwd / "f/in").write_text("in\n", encoding="utf-8")
    second = store.keep()
    assert names(store, second) == {"a", "b/x", "f/in"}
    shutil.rmtree(cwd / "f")
    (cwd / "f").write_text("f\n", encoding="utf-8")
    (cwd / "a").unlink()
    (cwd / "b").rename(cwd / "a")
    os.mkfifo(cwd / "pipe")
    assert store.keep() == first


def test_a_file_changed_within_the_same_tick_is_seen(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    seen = set()
    for number in range(10):
        (cwd / "f").write_text(f"{number}\n", encoding="utf-8")
        seen.add(store.keep())
    assert len(seen) == 10


def test_a_change_in_the_second_of_the_users_staging_is_seen(cwd: Path) -> None:
    repository(cwd)
    while time() % 1 > 0.3:
        Event().wait(0.01)
    (cwd / "inner/b.txt").write_bytes(b"1\n")
    git(cwd, "add", "-A")
    (cwd / "inner/b.txt").write_bytes(b"2\n")  # git can't tell by its times, where it has seconds
    while time() % 1 > 0.1:
        Event().wait(0.01)
    store = Snapshots(cwd, ENV)
    assert content(store, store.keep(), "inner/b.txt") == b"2\n"


MANY = """\
import sys
from pathlib import Path
from agent.store.snapshots import Snapshots
store = Snapshots(Path(sys.argv[1]), {"PATH": sys.argv[2]})
for number in range(5):
    (store.cwd / sys.argv[3]).write_text(f"{number}")
    tree = store.keep()
    [(_, data)] = store.blobs([store.entries(tree)[sys.argv[3]].id])
    assert data == b"%d" % number, data
"""


def test_threads_and_processes_may_keep_at_once(cwd: Path) -> None:
    repository(cwd)
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", MANY, str(cwd), ENV["PATH"]]
    others = [subprocess.Popen([*words, name], cwd=root) for name in ("p", "q")]
    store = Snapshots(cwd, ENV)

    def work(name: str) -> None:
        for number in range(5):
            (cwd / name).write_text(f"{number}", encoding="utf-8")
            assert content(store, store.keep(), name) == b"%d" % number

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, ["x", "y", "z"]))
    assert [other.wait() for other in others] == [0, 0]
    assert names(store, store.keep()) == {"a.py", "inner/b.txt", "p", "q", "x", "y", "z"}


def test_what_a_killed_one_left_behind_hinders_nobody(cwd: Path) -> None:
    repository(cwd)
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    [index] = store.folder.glob("index.*")
    index.with_name(index.name + ".lock").write_bytes(b"half")
    assert store.keep() == tree
    index.write_bytes(index.read_bytes()[:100])
    (cwd / "a.py").write_text("more\n", encoding="utf-8")
    assert set(store.changed(tree, store.keep())) == {"a.py"}


def test_a_snapshot_ends_in_time_and_when_the_work_is_stopped(cwd: Path) -> None:
    os.mkfifo(cwd / ".gitignore")  # git waits for its words
    began = monotonic()
    with pytest.raises(AgentError, match="within"):
        Snapshots(cwd, ENV, seconds=0.3).keep()
    stop = Stop()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(Snapshots(cwd, ENV).keep, stop)
        assert not stop.wait(0.3)
        stop.set()
        with pytest.raises(StoppedError):
            waiting.result()
    with pytest.raises(AgentError, match="within"):
        Snapshots(cwd, ENV).keep(stop)  # in haste
    assert monotonic() - began < 5


def test_without_git_it_is_said(cwd: Path) -> None:
    (cwd / "git").write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    (cwd / "git").chmod(0o755)
    for path in (str(cwd), "/nonexistent", ""):
        with pytest.raises(AgentError, match="there is no git"):
            Snapshots(cwd, {"PATH": path}).keep()
    assert not (cwd / "ran").exists()


def test_more_than_is_ever_kept_is_refused_with_what_helps(cwd: Path) -> None:
    for name in range(4):
        with (cwd / f"{name}").open("wb") as file:
            file.truncate(LARGE)
    with pytest.raises(AgentError, match="more here than is kept") as caught:
        Snapshots(cwd, ENV, most=LARGE * 3).keep()
    assert ".gitignore" in caught.value.hint


def test_an_empty_directory_has_the_empty_tree(cwd: Path) -> None:
    repository(cwd)
    folder = cwd / "empty"
    folder.mkdir()
    (folder / ".agent").mkdir()
    (folder / ".agent/.gitignore").write_text("*\n", encoding="utf-8")
    assert Snapshots(folder, ENV).keep() == EMPTY
    bare = cwd.parent / "bare"
    (bare / ".agent").mkdir(parents=True)
    (bare / ".gitignore").write_text("*\n", encoding="utf-8")
    store = Snapshots(bare, ENV)
    assert [store.keep(), store.keep()] == [EMPTY, EMPTY]


def test_the_store_keeps_what_a_log_names_and_drops_the_rest(cwd: Path) -> None:
    repository(cwd)
    store = Snapshots(cwd, ENV)
    trees = []
    for number in range(4):
        (cwd / "a.py").write_text(f"version {number}\n", encoding="utf-8")
        trees.append(store.keep())
    runs = cwd / ".agent/runs"
    runs.mkdir()
    lines = [f'{{"type":"tree.kept","tree":"{tree}","moment":"after"}}\n' for tree in trees[:2]]
    gone = '{"type":"tree.kept","tree":"%s","moment":"after"}\n' % ("1" * 40)
    (runs / "r.jsonl").write_text("".join([*lines, gone]), encoding="utf-8")
    ids = [store.entries(tree)["a.py"].id for tree in trees]
    for path in (store.folder / "objects").rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    assert not store.tidy()
    assert store.tidy(always=True)
    assert store.lacking(ids) == {ids[2]}  # the last one is what stands now
    assert content(store, trees[0], "a.py") == b"version 0\n"
    (cwd / "b").write_text("b\n", encoding="utf-8")
    assert set(store.changed(trees[3], store.keep())) == {"b"}
    assert not prune.crowded(store.folder / "objects")
    assert store.entries(trees[1])["a.py"] == Entry("100644", ids[1])

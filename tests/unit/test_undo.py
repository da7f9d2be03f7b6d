"""What work has changed is put back, and what somebody else did is left alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from msgspec import UNSET

from agent.errors import AgentError, UsageError
from agent.event import Event, PlanCreated, RunStarted, TreeKept
from agent.message import Message
from agent.plan import Plan, Step
from agent.store import log, sessions, undo, worked, workspace
from agent.store.census import LARGE
from agent.store.snapshots import Snapshots
from agent.store.worked import Part, Work

ENV = {"PATH": os.environ["PATH"]}  # noqa: TID251 - where git is


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


def write(cwd: Path, **files: str) -> None:
    for name, text in files.items():
        (cwd / name).write_text(text, encoding="utf-8")


def read(cwd: Path) -> dict[str, str]:
    return {
        str(path.relative_to(cwd)): path.read_text(encoding="utf-8")
        for path in sorted(cwd.rglob("*"))
        if path.is_file() and ".agent" not in path.parts
    }


def of(*parts: Part, id: str = "20260101-000000-0000") -> Work:
    return Work(id=id, kind="run", words="the goal", time=id, parts=parts)


def why(preview: undo.Preview) -> dict[str, str]:
    return {change.path: change.why for change in preview.changes}


def test_what_was_changed_is_put_back_and_that_is_taken_back_again(cwd: Path) -> None:
    write(cwd, a="1\n2\n", gone="was here\n", mode="x\n")
    (cwd / "link").symlink_to("a")
    store = Snapshots(cwd, ENV)
    first = store.keep()
    write(cwd, a="1\n3\n4\n")
    (cwd / "gone").unlink()
    (cwd / "mode").chmod(0o755)
    (cwd / "link").unlink()
    (cwd / "deep/er").mkdir(parents=True)
    (cwd / "deep/er/new").write_bytes(b"\x00")
    second = store.keep()
    preview = undo.preview(store, [of(Part(before=first, after=second))])
    assert [(each.path, each.what, each.lines) for each in preview.changes] == [
        ("a", "changed back", (1, 2)),
        ("deep/er/new", "removed", None),
        ("gone", "restored", (1, 0)),
        ("link", "restored", (1, 0)),
        ("mode", "changed back", (0, 0)),
    ]
    done = undo.undo(store, preview)
    assert (len(done.changed), done.kept, done.failed) == (5, (), ())
    assert store.keep() == first
    assert not (cwd / "deep").exists()
    assert not undo.preview(store, preview.works).changes
    [back] = worked.works(cwd)
    assert (back.id, back.kind, back.words) == (done.id, "undo", "the goal")
    undo.undo(store, undo.preview(store, [back]))
    assert store.keep() == second


def test_a_file_changed_since_or_in_between_is_named_and_left_alone(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    write(cwd, mine="0", since="0", between="0", back="0", again="0")
    trees = [store.keep()]
    write(cwd, mine="1", since="1", between="1", back="1", again="1")
    trees.append(store.keep())
    write(cwd, between="user", other="user")
    trees.append(store.keep())
    write(cwd, between="2", again="2")
    trees.append(store.keep())
    write(cwd, since="user", back="0")
    work = of(Part(before=trees[0], after=trees[1]), Part(before=trees[2], after=trees[3]))
    preview = undo.preview(store, [work])
    assert why(preview) == {"again": "", "between": "between", "mine": "", "since": "since"}
    done = undo.undo(store, preview, also={"between"})
    assert [change.path for change in done.kept] == ["since"]
    assert read(cwd) == {
        "again": "0", "back": "0", "between": "0", "mine": "0", "other": "user", "since": "user",
    }  # fmt: skip


def test_steps_at_work_at_once_have_each_what_they_had_said_they_write(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    write(cwd, a="0", b="0", c="0")
    first = store.keep()
    write(cwd, b="half")
    middle = store.keep()
    write(cwd, a="1", b="1", c="user")
    last = store.keep()
    one = Part(before=first, after=last, step="one", writes=("a",))
    two = Part(before=middle, after=last, step="two", writes=("b",))
    whole = Part(before=first, after=last, sure=False)
    assert why(undo.preview(store, [of(one)])) == {"a": "", "b": "unsure", "c": "unsure"}
    preview = undo.preview(store, [of(one, two, whole)])
    assert why(preview) == {"a": "", "b": "", "c": "unsure"}
    assert {change.path: change.old for change in preview.changes}["b"] != store.entries(first)["b"]


def test_what_a_step_at_work_beside_it_had_named_is_not_of_a_steps_making(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    write(cwd, a="0", b="0", c="0")
    first = store.keep()
    write(cwd, a="1", b="1", c="user")
    last = store.keep()
    steps = (Step(id="one", do="x", writes=("a",)), Step(id="two", do="x", writes=("b",)))
    id = run(
        cwd,
        PlanCreated(plan=Plan(goal="g", steps=steps), source="file"),
        *(kept(first, "before", each) for each in ("one", "two")),
        *(kept(last, "after", each) for each in ("one", "two")),
    )
    assert why(undo.preview(store, [worked.work(cwd, id, "one")])) == {"a": "", "c": "unsure"}
    assert why(undo.preview(store, [worked.work(cwd, id, "two")])) == {"b": "", "c": "unsure"}
    assert why(undo.preview(store, [worked.work(cwd, id)])) == {"a": "", "b": "", "c": "unsure"}


def test_what_a_step_that_names_nothing_changed_beside_another_is_asked_about(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    first = store.keep()
    write(cwd, a="1", b="1")
    last = store.keep()
    steps = (Step(id="one", do="x", writes=("a",)), Step(id="two", do="x"))
    id = run(
        cwd,
        PlanCreated(plan=Plan(goal="g", steps=steps), source="file"),
        *(kept(first, "before", each) for each in ("one", "two")),
        *(kept(last, "after", each) for each in ("one", "two")),
    )
    assert why(undo.preview(store, [worked.work(cwd, id, "two")])) == {"b": "unsure"}


def test_work_that_was_cut_off_may_have_changed_whatever_differs_now(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    write(cwd, a="0")
    work = of(Part(before=store.keep(), sure=False))
    write(cwd, a="1", b="1")
    preview = undo.preview(store, [work])
    assert why(preview) == {"a": "unsure", "b": "unsure"}
    undo.undo(store, preview, also={"a"})
    assert read(cwd) == {"a": "0", "b": "1"}


def test_what_can_not_be_brought_back_is_said(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    for name in ("big", "deleted"):
        with (cwd / name).open("wb") as file:
            file.truncate(LARGE + 1)
    write(cwd, lost="precious")
    first = store.keep()
    os.utime(cwd / "big", (1, 1))
    (cwd / "deleted").unlink()
    write(cwd, lost="other")
    with (cwd / "made").open("wb") as file:
        file.truncate(LARGE + 1)
    second = store.keep()
    id = store.entries(first)["lost"].id
    (store.folder / "objects" / id[:2] / id[2:]).unlink()
    preview = undo.preview(store, [of(Part(before=first, after=second))])
    assert why(preview) == {"big": "large", "deleted": "large", "lost": "lost", "made": "large"}
    assert {change.path: change.possible for change in preview.changes} == {
        "big": False, "deleted": False, "lost": False, "made": True,
    }  # fmt: skip
    undo.undo(store, preview, also={"big", "deleted", "lost", "made"})
    assert (cwd / "big").stat().st_size == LARGE + 1
    assert read(cwd)["lost"] == "other"
    assert not (cwd / "made").exists()


def test_an_object_that_is_not_what_its_name_says_is_not_put_back(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    write(cwd, a="mine", evil="evil")
    first = store.keep()
    write(cwd, a="other")
    second = store.keep()
    ids = [store.entries(first)[name].id for name in ("a", "evil")]
    mine, evil = (store.folder / "objects" / id[:2] / id[2:] for id in ids)
    mine.unlink()
    shutil.copy(evil, mine)
    done = undo.undo(store, undo.preview(store, [of(Part(before=first, after=second))]))
    assert [path for path, _ in done.failed] == ["a"]
    assert read(cwd)["a"] == "other"


def test_no_link_is_followed_and_what_came_meanwhile_stays(cwd: Path) -> None:
    outside = cwd.parent / "outside"
    outside.mkdir()
    write(outside, x="theirs")
    store = Snapshots(cwd, ENV)
    (cwd / "d").mkdir()
    (cwd / "d/x").write_text("0", encoding="utf-8")
    write(cwd, f="0", g="0")
    first = store.keep()
    (cwd / "d/x").write_text("1", encoding="utf-8")
    write(cwd, f="1", g="1")
    preview = undo.preview(store, [of(Part(before=first, after=store.keep()))])
    shutil.rmtree(cwd / "d")
    (cwd / "d").symlink_to(outside)
    write(cwd, f="user")
    done = undo.undo(store, preview)
    assert {path for path, _ in done.failed} == {"d/x", "f"}
    assert [change.path for change in done.changed] == ["g"]
    assert read(outside) == {"x": "theirs"}
    assert (cwd / "f").read_text(encoding="utf-8") == "user"


def test_permissions_stay_and_only_the_execute_bit_follows(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    write(cwd, secret="0", tool="0")
    (cwd / "secret").chmod(0o600)
    (cwd / "tool").chmod(0o750)
    first = store.keep()
    write(cwd, secret="1", tool="1")
    (cwd / "tool").chmod(0o640)
    undo.undo(store, undo.preview(store, [of(Part(before=first, after=store.keep()))]))
    modes = [(cwd / name).stat().st_mode & 0o777 for name in ("secret", "tool")]
    assert modes == [0o600, 0o750]


def run(cwd: Path, *events: Event) -> str:
    place = workspace.begun(cwd)
    with log.Log(place.log) as record:
        record(RunStarted(goal=f"goal of {place.id}", cwd=str(cwd), model="", version="0"))
        for event in events:
            record(event)
    return place.id


def kept(tree: str, moment: Literal["before", "after"], step: str = "") -> TreeKept:
    return TreeKept(tree=tree, moment=moment, step=step or UNSET)


def test_the_parts_of_a_run_are_read_from_its_log(cwd: Path) -> None:
    steps = (
        Step(id="a", do="x", writes=("src/**",)),
        Step(id="b", do="x"),
        Step(id="c", do="x", reads=("docs",)),
    )
    id = run(
        cwd,
        PlanCreated(plan=Plan(goal="g", steps=steps), source="file"),
        kept("1", "before"),
        kept("2", "before", "a"),
        kept("2", "before", "c"),
        kept("3", "after", "a"),
        kept("4", "after", "c"),
        kept("4", "before", "b"),  # … and here it was killed
        kept("5", "before"),
        kept("5", "before", "b"),
        kept("6", "after", "b"),
        kept("7", "after"),
    )
    run(cwd, PlanCreated(plan=Plan(goal="g", steps=steps), source="file"))  # changed nothing
    [work] = worked.works(cwd)
    assert (work.id, work.kind, work.undone) == (id, "run", "")
    told = [(p.step, p.before, p.after, p.writes, p.sure) for p in work.parts]
    assert told == [
        ("a", "2", "3", ("src/**",), True),
        ("c", "2", "4", None, False),  # it says nothing, and was not alone
        ("", "1", "5", None, False),
        ("b", "4", "5", None, False),
        ("b", "5", "6", None, True),
        ("", "5", "7", None, False),
    ]
    assert worked.work(cwd, id[:-1], "a").parts == work.parts[:1]
    with pytest.raises(UsageError, match="no step 'z'"):
        worked.work(cwd, id, "z")
    with pytest.raises(UsageError, match="no change 'zz'"):
        worked.work(cwd, "zz")


def test_the_newest_that_stands_is_meant_and_an_undo_can_be_undone(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    runs = []
    for number in range(3):
        before = store.keep()
        write(cwd, f=str(number))
        runs.append(run(cwd, kept(before, "before", "s"), kept(store.keep(), "after", "s")))
    same = store.keep()
    idle = run(cwd, kept(same, "before", "s"), kept(same, "after", "s"))  # changed nothing

    def take(work: Work) -> str:
        return undo.undo(store, undo.preview(store, [work])).id

    first = take(worked.work(cwd))
    assert (cwd / "f").read_text(encoding="utf-8") == "1"
    second = take(worked.work(cwd))
    assert (cwd / "f").read_text(encoding="utf-8") == "0"
    assert worked.work(cwd).id == runs[0]
    third = take(worked.work(cwd, second))
    assert (cwd / "f").read_text(encoding="utf-8") == "1"
    assert worked.work(cwd).id == runs[1]
    undone = {work.id: work.undone for work in worked.works(cwd)}
    assert undone == {
        third: "", second: third, first: "", idle: "", runs[2]: first, runs[1]: "", runs[0]: "",
    }  # fmt: skip
    take(worked.work(cwd))
    take(worked.work(cwd))
    assert not (cwd / "f").exists()
    with pytest.raises(UsageError, match="left to take back"):
        worked.work(cwd)


def test_a_log_that_names_no_tree_of_ours_changes_nothing(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    tree = store.keep()
    for before in ("--output=evil", "HEAD", "1" * 40, tree[:10]):
        with pytest.raises(AgentError):
            undo.preview(store, [of(Part(before=before, after=tree))])
        with pytest.raises(AgentError):
            store.changed(before, tree)
    assert not (cwd / "evil").exists()


def test_the_turns_of_a_conversation_are_found_from_a_message_on(cwd: Path) -> None:
    store = Snapshots(cwd, ENV)
    with sessions.new(cwd) as session:
        said = []
        for number in range(3):
            said.append(session.add(Message(role="user", text=f"message {number}\nand more")))
            session.kept(said[-1], store.keep(), "before")
            session.add(Message(role="assistant", text='"type":"kept"'))
            write(cwd, **{f"f{number}": "x"})
            session.kept(said[-1], store.keep(), "after")
        before = store.keep()
        write(cwd, r="x")
        id = run(cwd, kept(before, "before", "s"), kept(store.keep(), "after", "s"))
        session.started(said[-1], id)
        session.kept(said[-1], store.keep(), "before")
        write(cwd, cut="x")
    found = worked.turns(cwd, session.id, said[1])
    assert [(work.id, work.kind) for work in found] == [
        (f"{session.id}/{said[1]}", "turn"),
        (f"{session.id}/{said[2]}", "turn"),
        (id, "run"),
    ]
    assert found[0].words == "message 1\nand more"
    preview = undo.preview(store, found)
    assert why(preview) == {"cut": "unsure", "f1": "", "f2": "", "r": ""}
    undo.undo(store, preview)
    assert read(cwd) == {"cut": "x", "f0": "x"}
    assert worked.turns(cwd, session.id, said[1]) == []
    assert [work.id for work in worked.turns(cwd, session.id, said[0])] == [
        f"{session.id}/{said[0]}"
    ]
    assert worked.turns(cwd, "none", "1") == []


UNDO = """\
import sys
from pathlib import Path
from agent.store import undo, worked
from agent.store.snapshots import Snapshots
store = Snapshots(Path(sys.argv[1]), {"PATH": sys.argv[2]})
preview = undo.preview(store, [worked.work(store.cwd)])
print("begun", flush=True)
print(len(undo.undo(store, preview).changed), flush=True)
"""


def test_an_undo_that_is_killed_leaves_each_file_old_or_new_and_can_be_repeated(
    cwd: Path,
) -> None:
    store = Snapshots(cwd, ENV)
    names = [f"file-{number}" for number in range(100)]
    write(cwd, **dict.fromkeys(names, "old\n" * 100))
    before = store.keep()
    write(cwd, **dict.fromkeys(names, "new\n" * 100))
    id = run(cwd, kept(before, "before", "s"), kept(store.keep(), "after", "s"))
    words = [sys.executable, "-c", UNDO, str(cwd), ENV["PATH"]]
    for ended in (False, False, True):
        with subprocess.Popen(
            words, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout
            assert process.stdout.readline() == b"begun\n"
            while not ended and len(set(read(cwd).values())) == 1 and process.poll() is None:
                pass
            if not ended:
                process.kill()
        for stray in cwd.glob(".ts-*.tmp"):
            stray.unlink()  # whoever writes there next does it
        assert set(read(cwd).values()) <= {"old\n" * 100, "new\n" * 100}
    assert set(read(cwd).values()) == {"old\n" * 100}
    assert worked.work(cwd, id).undone

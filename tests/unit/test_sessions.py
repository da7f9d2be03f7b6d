import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import msgspec
import pytest

from agent.errors import AgentError, UsageError
from agent.message import Call, Image, Message, Result, Thought
from agent.store import sessions
from agent.store.sessions import Session
from agent.store.tree import CUT, Entry, repaired


def user(text: str) -> Message:
    return Message(role="user", text=text)


def model(text: str, *calls: str) -> Message:
    made = tuple(Call(id=id, name="bash", input={"command": id}) for id in calls)
    return Message(role="assistant", text=text, calls=made)


def results(*ids: str) -> Message:
    return Message(role="user", results=tuple(Result(call=id, text=f"of {id}") for id in ids))


def cut(id: str) -> Result:
    return Result(call=id, text=CUT, ok=False)


def kept(cwd: Path, *texts: str) -> Session:
    session = sessions.new(cwd)
    for number, text in enumerate(texts):
        session.add(model(text) if number % 2 else user(text))
    session.close()
    return session


def texts(session: Session) -> list[str]:
    return [message.text for message in session.messages]


def test_a_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    said = (
        Message(
            role="user", text="ü\u2028 x", images=(Image(media_type="image/png", data="AA=="),)
        ),
        Message(
            role="assistant",
            thoughts=(Thought(text="hm", signature="s"),),
            text="go",
            calls=(Call(id="1", name="bash", input={"a": [1, None]}, extra={"k": "v"}),),
        ),
        Message(role="user", results=(Result(call="1", text="no", ok=False),)),
    )
    with sessions.new(tmp_path) as session:
        for message in said:
            session.add(message, model="anthropic/x")
    with sessions.load(tmp_path, session.id) as again:
        assert again.messages == said
        assert again.notices == ()
        assert {entry.model for entry in again.entries} == {"anthropic/x"}
        again.add(user("more"))
    with sessions.newest(tmp_path) as last:
        assert last.messages == (*said, user("more"))


def test_nothing_is_made_before_the_first_message(tmp_path: Path) -> None:
    with sessions.new(tmp_path) as session:
        assert session.messages == ()
    assert list(tmp_path.iterdir()) == []
    assert sessions.listed(tmp_path) == []
    with pytest.raises(UsageError, match="no conversation in this directory"):
        sessions.newest(tmp_path)


def test_a_conversation_is_for_the_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = kept(tmp_path, "a").path
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent == tmp_path / ".agent/sessions"
    assert "sessions/" in (tmp_path / ".agent/.gitignore").read_text(encoding="utf-8")


def test_a_line_is_a_message_with_its_parent(tmp_path: Path) -> None:
    path = kept(tmp_path, "a", "b").path
    head, first, second = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert head["type"] == "session"
    assert head["cwd"] == str(tmp_path)
    assert (first["parent"], second["parent"]) == ("", first["id"])
    assert first["message"] == {"role": "user", "text": "a"}


def test_a_session_is_found_by_the_beginning_of_its_id_or_as_the_one_used_last(
    tmp_path: Path,
) -> None:
    first, second = kept(tmp_path, "one"), kept(tmp_path, "two")
    os.utime(first.path, (2_000_000_000, 2_000_000_000))
    with sessions.newest(tmp_path) as found:
        assert found.id == first.id
    with sessions.load(tmp_path, second.id[:-1]) as found:
        assert texts(found) == ["two"]
    with pytest.raises(UsageError, match="begins the name of 2 conversations"):
        sessions.load(tmp_path, first.id[:5])
    with pytest.raises(UsageError, match="no conversation 'x' in this directory"):
        sessions.load(tmp_path, "x")


def test_the_list_says_how_each_began_how_long_it_is_and_how_old(tmp_path: Path) -> None:
    first = kept(tmp_path, "  tell\nme  " + "x" * 200, "b", "c")
    second = kept(tmp_path, "short")
    os.utime(first.path, (first.path.stat().st_mtime - 3600,) * 2)

    new, old = sessions.listed(tmp_path)

    assert (new.id, new.words, new.count) == (second.id, "short", 1)
    assert (old.id, old.count) == (first.id, 3)
    assert old.words.startswith("tell me xxx")
    assert len(old.words) == 80
    assert 3600 <= old.age < 3700
    assert 0 <= new.age < 100


@pytest.mark.parametrize("after", [b"", b"\n\n"])
def test_c085_a_torn_last_line_is_dropped_and_told_and_work_goes_on(
    after: bytes, tmp_path: Path
) -> None:
    path = kept(tmp_path, "1", "2").path
    with path.open("ab") as file:
        file.write(b'{"type":"message","id":"4","parent":"3","text":"abc' + after)

    with sessions.newest(tmp_path) as session:
        assert texts(session) == ["1", "2"]
        (notice,) = session.notices
        assert ("cut short" in notice) or ("1 lines" in notice)
        session.add(user("3"))

    with sessions.newest(tmp_path) as session:
        assert texts(session) == ["1", "2", "3"]
        assert (session.notices == ()) is (not after)
    assert path.read_bytes().endswith(b"\n")


def test_c086_a_bad_line_in_the_middle_is_counted_and_the_rest_is_there(tmp_path: Path) -> None:
    path = kept(tmp_path, "1", "2", "3", "4").path
    head, one, two, three, four = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([head, one, b'{"t":"meta","x', b"\0" * 300, b"", two, three, b""]))
    with sessions.newest(tmp_path) as session:
        assert texts(session) == ["1", "2", "3"]
        (notice,) = session.notices
        assert notice.startswith("2 lines of this conversation can't be read")
        assert notice.endswith(": 3, 4")

    path.write_bytes(b"\n".join([head, one, two[:-5], three, four, b""]))
    with sessions.newest(tmp_path) as session:
        assert texts(session) == ["1", "3", "4"]
        ids = [entry.id for entry in session.entries]
        assert session.rewind(ids[1]) == ""
        assert texts(session) == ["1", "3"]
        assert "are lost between" in session.rewind(ids[0])
        assert texts(session) == ["1"]


def test_what_hung_on_a_lost_line_stays_on_its_own_branch(tmp_path: Path) -> None:
    with sessions.new(tmp_path) as session:
        first = session.add(user("1"))
        session.add(model("left"))
        session.rewind(first)
        lost = session.add(model("lost"))
        session.add(user("3"))
        session.rewind(lost)
        session.add(user("other"))
    lines = session.path.read_bytes().split(b"\n")
    (at,) = (at for at, line in enumerate(lines) if b'"lost"' in line)
    session.path.write_bytes(b"\n".join([*lines[:at], b"\0", *lines[at + 1 :]]))
    with sessions.newest(tmp_path) as again:
        assert texts(again) == ["1", "other"]


def test_a_record_of_a_later_version_is_passed_over_without_a_word(tmp_path: Path) -> None:
    path = kept(tmp_path, "1", "2").path
    head, *rest = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([head, b'{"type":"mood","is":["good"]}', *rest]))
    with sessions.newest(tmp_path) as session:
        assert (texts(session), session.notices) == (["1", "2"], ())


def test_a_conversation_has_a_title_by_which_it_is_found(tmp_path: Path) -> None:
    first, second = kept(tmp_path, "one"), kept(tmp_path, "two")
    with sessions.load(tmp_path, first.id) as session:
        session.rename(" The\nfirst  one ")
        with pytest.raises(UsageError, match="a letter in it"):
            session.rename(" \n")
    with sessions.load(tmp_path, "the FIRST one") as session:
        assert (session.id, session.title) == (first.id, "The first one")
        forked = session.fork()
        forked.rename("the first one")
        forked.close()
    assert [each.title for each in sessions.listed(tmp_path)].count("the first one") == 1
    with pytest.raises(UsageError, match="is the title of 2 conversations: "):
        sessions.load(tmp_path, "the first one")
    with sessions.load(tmp_path, second.id) as session:
        assert session.title == ""


def test_what_the_disk_refuses_is_told_and_kept_with_what_comes_next(tmp_path: Path) -> None:
    session = sessions.new(tmp_path)
    session.add(user("1"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (session.path.stat().st_size + 20, hard))
    try:
        with pytest.raises(AgentError, match="File too large"):
            session.add(model("2"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert texts(session) == ["1", "2"]
    with sessions.read(tmp_path) as seen:
        assert (texts(seen), seen.notices) == (["1"], ())
    session.add(user("3"))
    session.close()
    with sessions.newest(tmp_path) as again:
        assert texts(again) == ["1", "2", "3"]


def test_a_conversation_is_deleted_unless_it_is_in_use(tmp_path: Path) -> None:
    first, second = kept(tmp_path, "one"), kept(tmp_path, "two")
    with sessions.load(tmp_path, first.id), pytest.raises(UsageError, match="in use by this"):
        sessions.remove(tmp_path, first.id)
    assert sessions.remove(tmp_path, first.id) == first.id
    assert [each.id for each in sessions.listed(tmp_path)] == [second.id]
    assert [path.name for path in second.path.parent.iterdir()] == [second.path.name]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all")
def test_a_conversation_that_can_t_be_read_hides_no_other(tmp_path: Path) -> None:
    one, two = kept(tmp_path, "hi"), kept(tmp_path, "ho")
    two.path.chmod(0)
    assert {each.id: each.words for each in sessions.listed(tmp_path)} == {one.id: "hi", two.id: ""}


def test_what_was_too_long_for_a_conversation_goes_with_its_last_fork(tmp_path: Path) -> None:
    old = sessions.new(tmp_path)
    texts = old.path.with_suffix(".kept")
    with old, old.fork() as fork, fork.fork() as last:
        for each in (old, fork, last):
            each.add(user(f"the whole is in .agent/sessions/{texts.name}/a.txt"))
    texts.mkdir()
    (texts / "a.txt").write_text("long", encoding="utf-8")
    sessions.remove(tmp_path, fork.id)
    sessions.remove(tmp_path, old.id)
    assert (texts / "a.txt").exists(), "the fork of the fork names it"
    other = kept(tmp_path, "two")
    other.path.with_suffix(".kept").symlink_to(texts)
    sessions.remove(tmp_path, other.id)
    assert (texts / "a.txt").exists(), "what a link leads to is not ours"
    third = kept(tmp_path, "three")
    texts.rename(third.path.with_suffix(".kept"))
    sessions.remove(tmp_path, third.id)
    assert not third.path.with_suffix(".kept").exists()


def test_a_conversation_of_1000_turns_is_forked_and_gone_back_in_at_once(tmp_path: Path) -> None:
    texts = [str(number) for number in range(2000)]
    forked = kept(tmp_path, *texts[:2]).fork()
    for number, text in enumerate(texts[2:]):
        forked._take(Entry(
            id=str(number + 10), parent=forked._tree.at, time="", message=user(text)
        ))  # fmt: skip
    began = perf_counter()
    with forked.fork() as again:
        again.rewind(again.entries[1].id)
        again.add(user("x"))
        assert len(again.messages) == 3
    assert perf_counter() - began < 2, "the disk is asked for each line"
    with sessions.load(tmp_path, again.id) as found:
        assert len(found.messages) == 3


def test_c088_each_directory_sees_its_own_conversations_only(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a-b/c", "a/b-c", "项目甲", "测试乙")]
    ids = []
    for number, cwd in enumerate(folders):
        cwd.mkdir(parents=True)
        ids.append(kept(cwd, f"hello {number}").id)
    for number, cwd in enumerate(folders):
        assert [summary.words for summary in sessions.listed(cwd)] == [f"hello {number}"]
        with sessions.newest(cwd) as session:
            assert (session.id, session.notices) == (ids[number], ())

    folders[0].rename(tmp_path / "moved")
    with sessions.load(tmp_path / "moved", ids[0]) as session:
        assert texts(session) == ["hello 0"]
        assert session.notices == (f"this conversation was begun in {folders[0]}",)


def test_a_conversation_can_go_back_and_on_from_there(tmp_path: Path) -> None:
    with sessions.new(tmp_path) as session:
        first = session.add(user("1"))
        session.add(model("2"))
        session.add(user("left"))
        assert session.rewind(first) == ""
        assert texts(session) == ["1"]
        with pytest.raises(UsageError, match="no message '99'"):
            session.rewind("99")
    with sessions.newest(tmp_path) as session:
        assert texts(session) == ["1"], "it stands where it was left"
        session.add(model("other"))
        assert texts(session) == ["1", "other"]
        session.rewind("")
        session.add(user("anew"))
    with sessions.newest(tmp_path) as session:
        assert texts(session) == ["anew"]
    assert sessions.listed(tmp_path)[0].count == 5, "nothing is ever taken out"


def test_a_fork_begins_with_the_old_messages_and_leaves_the_old_one(tmp_path: Path) -> None:
    old = kept(tmp_path, "1", "2", "3")
    before = old.path.read_bytes()
    with (
        sessions.load(tmp_path, old.id) as held,  # another one is in it
        sessions.load(tmp_path, old.id, fork=True) as fork,
    ):
        assert fork.id != held.id
        assert not fork.path.exists()
        assert texts(fork) == ["1", "2", "3"]
        fork.rewind(fork.entries[1].id)
        fork.add(user("mine"))
        fork.add(model("yours"))
        assert texts(fork) == ["1", "2", "mine", "yours"]
    assert old.path.read_bytes() == before
    with sessions.load(tmp_path, fork.id) as again:
        assert texts(again) == ["1", "2", "mine", "yours"]
        assert again.notices == ()


HOLDER = """
import sys
from pathlib import Path
from agent.store import sessions
session = sessions.newest(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    session = kept(tmp_path, "1")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(UsageError, match=f"{session.id} is in use by process {holder.pid}"):
            sessions.newest(tmp_path)
        assert sessions.listed(tmp_path)[0].count == 1
        holder.kill()
    with sessions.newest(tmp_path) as free:
        assert texts(free) == ["1"]


def test_halves_of_characters_do_not_break_a_conversation(tmp_path: Path) -> None:
    with sessions.new(tmp_path) as session:
        session.add(user("a\udcff \ud83d\ude00"))
        assert texts(session) == ["a\ufffd 😀"]
    with sessions.newest(tmp_path) as again:
        assert texts(again) == ["a\ufffd 😀"]


def test_a_repository_can_t_send_conversations_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "repo/.agent").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "repo/.agent/sessions").symlink_to(tmp_path / "out")
    with pytest.raises(AgentError, match="symbolic link"):
        sessions.new(tmp_path / "repo")


# -- a conversation that was cut ----------------------------------------------------------------


def test_c059_every_call_has_a_result_after_an_interruption(tmp_path: Path) -> None:
    with sessions.new(tmp_path) as session:
        session.add(user("go"))
        session.add(model("", "t1", "t2"))
        session.add(results("t1"))
    with sessions.newest(tmp_path) as session:
        assert session.messages == (
            user("go"),
            model("", "t1", "t2"),
            Message(role="user", results=(Result(call="t1", text="of t1"), cut("t2"))),
        )
        session.add(user("and now?"))
        now = session.messages
    assert now[-1] == user("and now?")
    with sessions.newest(tmp_path) as session:
        assert session.messages == now, "it is the same each time it is read"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([user("a"), model("b")], [user("a"), model("b")]),
        (
            [model("", "1")],
            [model("", "1"), Message(role="user", results=(cut("1"),))],
        ),
        (
            [model("", "1"), user("words")],
            [model("", "1"), Message(role="user", results=(cut("1"),)), user("words")],
        ),
        (
            [model("", "1"), model("b")],
            [model("", "1"), Message(role="user", results=(cut("1"),)), model("b")],
        ),
        ([model("", "1", "2"), results("2", "1")], [model("", "1", "2"), results("1", "2")]),
        (
            [model("", "1", "2"), results("2"), results("1"), user("w")],
            [model("", "1", "2"), results("1", "2"), user("w")],
        ),
        ([results("9"), user("a")], [user("a")]),
        (
            [model("", "1"), results("1", "9"), results("9")],
            [model("", "1"), results("1")],
        ),
        (
            [user("a"), Message(role="user", text="b", results=results("9").results)],
            [user("a"), user("b")],
        ),
        ([user("")], [user("")]),
    ],
)
def test_calls_and_results_are_paired(given: list[Message], wanted: list[Message]) -> None:
    assert list(repaired(given)) == wanted
    assert list(repaired(wanted)) == wanted


def made(upto: int) -> dict[str, Any]:
    return {"messages": (user(f"instead of {upto}"),), "covered": upto, "summed": 1, "summary": "S"}


def test_what_a_model_is_sent_instead_is_read_back_and_the_whole_stays(tmp_path: Path) -> None:
    with sessions.new(tmp_path) as session:
        for number in range(4):
            session.add(user(f"wish {number}"))
            session.add(model(f"answer {number}"))
        assert session.compacted is None
        assert session.compact(session.messages[:4], **made(4))
        assert not session.compact((user("another"),), **made(1)), "of another conversation"
        id = session.id
    for fork in (True, False):
        with sessions.load(tmp_path, id, fork=fork) as again:
            assert len(again.messages) == 8
            assert again.compacted is not None
            before, record = again.compacted
            assert before == again.messages[:4]
            assert (record.messages, record.covered) == ((user("instead of 4"),), 4)
            forked = again.fork()
            assert forked.compacted is not None
            forked.close()
            again.rewind(again.entries[1].id)
            assert again.compacted is None, "it stood for messages that are no longer on the way"


def test_it_is_read_back_where_a_call_was_cut_off(tmp_path: Path) -> None:
    call = Call(id="c", name="bash", input={})
    with sessions.new(tmp_path) as session:
        session.add(user("go"))
        session.add(Message(role="assistant", calls=(call,)))
        session.add(user("and now"))
        session.add(model("yes"))
        before = session.messages[:4]
        assert [bool(message.results) for message in before] == [False, False, True, False]
        assert session.compact(before, **made(4))
        assert session.compact(session.messages[:3], **made(3))
        id = session.id
    with sessions.load(tmp_path, id) as again:
        assert again.compacted is not None
        assert again.compacted[0] == again.messages[:3]


def test_a_long_conversation_is_repaired_in_time_that_grows_with_it() -> None:
    said = [user("a"), model("", "1"), results("1"), model("b")] * 10_000
    began = process_time()
    assert list(repaired(said)) == said
    assert process_time() - began < 5, "it takes 0.2; half a minute if each is looked for anew"

import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from agent.errors import AgentError, UsageError
from agent.event import Event, RunFinished, RunStarted, StepFinished, StepStarted, Text, TextDelta
from agent.message import Usage
from agent.secret import Veil
from agent.store import workspace
from agent.store.lines import LONGEST, Lines
from agent.store.log import Log, ends, read, recorded, sealed

WHOLE = re.compile(rb'(\{.*),"crc":"([0-9a-f]{8})"\}', re.DOTALL)


def filled(path: Path, *words: str) -> Path:
    with Log(path) as log:
        for word in words:
            log(Text(text=word))
    return path


def said(path: Path) -> list[str]:
    return [event.text for event in read(path) if isinstance(event, Text)]


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """The disk takes no file beyond that many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_each_line_ends_with_the_checksum_of_the_line_without_it(tmp_path: Path) -> None:
    path = filled(tmp_path / "r1.jsonl", "a", "ü\u2028\n")
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    for number, line in enumerate(lines, 1):
        found = WHOLE.fullmatch(line)
        assert found
        body = found[1] + b"}"
        assert found[2] == b"%08x" % zlib.crc32(body)
        data = msgspec.json.decode(body)
        assert (data["type"], data["run"], data["seq"]) == ("text", "r1", number)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", data["time"])


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\r\nfive\x0b\x0csix"
    assert said(filled(tmp_path / "r.jsonl", text, "next")) == [text, "next"]


def test_a_log_goes_on_after_the_last_whole_line(tmp_path: Path) -> None:
    path = filled(tmp_path / "r1.jsonl", "first")
    with path.open("ab") as file:
        file.write(b'{"type":"text","te')  # the power went
    assert recorded(path).torn

    with Log(path) as log:
        assert log.before.torn
        assert [event.seq for event in log.before.events] == [1]
        log(Text(text="again"))

    assert [(event.seq, event.run) for event in read(path)] == [(1, "r1"), (2, "r1")]
    assert not recorded(path).faults
    assert not recorded(path).torn


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.jsonl", "a", "b")
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert said(path) == ["a", "b"]
    filled(path, "c")
    assert said(path) == ["a", "b", "c"]


def test_a_fragment_longer_than_a_block_is_taken_away(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.jsonl", "a")
    with path.open("ab") as file:
        file.write(b"\0" * 200_000)
    filled(path, "b")
    assert said(path) == ["a", "b"]
    assert b"\0" not in path.read_bytes()


def test_damage_before_the_end_is_told_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.jsonl", "a", "b", "c", "d")
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'"b"', b'"x"')
    lines[2] = b"\0" * 40
    path.write_bytes(b"\n".join(lines))

    record = recorded(path)

    assert said(path) == ["a", "d"]
    assert [fault.line for fault in record.faults] == [2, 3]
    assert "line 2: its checksum does not fit" in record.notice
    assert "line 3: it is no line of a log" in record.notice
    assert not record.torn
    filled(path, "e")
    assert [event.seq for event in read(path)] == [1, 4, 5]


def test_lines_that_were_taken_out_or_doubled_are_told(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.jsonl", "a", "b", "c")
    a, b, c, _ = path.read_bytes().split(b"\n")

    path.write_bytes(b"\n".join([a, c, b""]))
    assert said(path) == ["a", "c"]
    assert "line 2: events before 3 are missing" in recorded(path).notice

    path.write_bytes(b"\n".join([a, b, b, c, b""]))
    assert said(path) == ["a", "b", "c"]
    assert "line 3: event 2 stands there again" in recorded(path).notice


def test_an_event_of_an_unknown_type_is_passed_over_without_a_word(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.jsonl", "a")
    with path.open("ab") as file:
        file.write(sealed(b'{"type":"step.dreamt","run":"r","seq":2,"of":"sheep"}') + b"\n")
    filled(path, "b")
    record = recorded(path)
    assert [event.seq for event in record.events] == [1, 3]
    assert record.notice == ""


def test_an_event_that_a_newer_version_wrote_differently_is_told(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.jsonl", "a")
    with path.open("ab") as file:
        file.write(sealed(b'{"type":"text","run":"r","seq":2,"text":["b"]}') + b"\n")
    assert "line 2: a text that this version can't read" in recorded(path).notice


def test_an_event_is_kept_before_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    seen: list[tuple[Event, list[Event]]] = []
    with Log(path, [lambda event: seen.append((event, list(read(path))))]) as log:
        log(StepStarted(step="a", attempt=1))
        log(Text(text="b"))
    assert [event for event, _ in seen] == list(read(path))
    assert [kept[-1] for _, kept in seen] == [event for event, _ in seen]


PHRASE = "correct horse\nbattery staple"
BLOCK = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nxy==\n-----END RSA PRIVATE KEY-----"
FORMS = (PHRASE, "cnry-Env7f3a9b2c", "sk-ant-" + "a1B2" * 10, "Bearer " + "ab" * 9 + "1", BLOCK)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 19, 400])
def test_r68_a_secret_that_comes_in_pieces_is_in_none_of_them(size: int) -> None:
    text = "".join(f"it is {form}, they say.\n" for form in FORMS) + "天枢 and the end"
    veil = Veil({PHRASE: "MY_PASSPHRASE", FORMS[1]: "DEPLOY_TOKEN"})
    seen: list[Event] = []
    log = Log(None, [seen.append], veil)
    for at in range(0, len(text), size):
        log(TextDelta(step="a", text=text[at : at + size]))
        log(TextDelta(step="b", text="of another step "))
    log(Text(step="a", text=text))
    pieces = [each.text for each in seen if isinstance(each, TextDelta) and each.step == "a"]
    assert "".join(pieces) == veil.text(text)
    assert isinstance(seen[-1], Text)


def test_text_that_streams_waits_for_a_word_at_most() -> None:
    seen: list[Event] = []
    log = Log(None, [seen.append])
    for piece in ("Hello wor", "ld, 天枢", " how", " are you", "x" * 9000):
        log(TextDelta(text=piece))
    texts = [each.text for each in seen if isinstance(each, TextDelta)]
    assert texts[:4] == ["Hello ", "world, 天枢", " ", "how are "]
    assert len("".join(texts)) > 800  # a word without end is shown as it grows


def test_what_streams_is_shown_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    seen: list[Event] = []
    with Log(path, [seen.append]) as log:
        log(Text(text="a"))
        log(TextDelta(text="b"))
        log(Text(text="c"))
    assert [(type(event), event.seq) for event in seen] == [(Text, 1), (TextDelta, 1), (Text, 2)]
    assert list(read(path)) == [seen[0], seen[2]]
    assert not recorded(path).faults


def test_without_a_path_events_are_numbered_and_shown_and_belong_to_no_run(tmp_path: Path) -> None:
    seen: list[Event] = []
    with Log(None, [seen.append]) as log:
        log(Text(text="a"))
        log(Text(text="b"))
    assert [(event.run, event.seq) for event in seen] == [(None, 1), (None, 2)]
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_for_the_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = filled(tmp_path / ".agent" / "runs" / "r.jsonl", "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_a_link_in_place_of_a_log_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AgentError, match=r"r\.jsonl"):
        Log(tmp_path / "r.jsonl")
    assert not (tmp_path / "elsewhere").exists()


def test_halves_of_characters_are_replaced_and_shown_as_they_are_kept(tmp_path: Path) -> None:
    seen: list[Event] = []
    path = tmp_path / "r.jsonl"
    with Log(path, [seen.append]) as log:
        log(Text(text="a\ud83d\ude00 b\udcff"))
        log(StepFinished(step="a", status="done", outputs=("/x\udc80",)))
    assert said(path) == ["a😀 b\ufffd"]
    assert seen == list(read(path))


def test_r73_no_text_is_one_that_can_t_be_kept(tmp_path: Path) -> None:
    chance = Random(1)
    kinds = (0x80, 0x2100, 0xD800, 0xE000, 0x110000)
    path = tmp_path / "r.jsonl"
    with Log(path) as log:
        for _ in range(10_000):
            most = chance.choice(kinds)
            low = 0xD800 if most == 0xE000 else 0
            letters = (chr(chance.randrange(low, most)) for _ in range(chance.randrange(12)))
            log(Text(text="".join(letters)))
    found = recorded(path)
    assert (len(found.events), found.faults) == (10_000, ())


HOLDER = """
import sys
from pathlib import Path
from agent.event import Text
from agent.store.log import Log
log = Log(Path(sys.argv[1]))
log(Text(text="mine"))
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "r1.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(UsageError, match=f"r1 is in use by process {holder.pid}"):
            Log(path)
        assert said(path) == ["mine"], "it can be read meanwhile"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        filled(path, "then")
    assert said(path) == ["mine", "then"]


def test_a_second_writer_in_this_process_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Log(path), pytest.raises(UsageError, match="in use by this process"):
        Log(path)
    filled(path, "free")


def test_a_line_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    with Lines(tmp_path / "r1.jsonl", bool) as file:
        with pytest.raises(AgentError, match="a line of 67,108,864 bytes could not be read again"):
            file.add(b"x" * LONGEST)
        file.add(b"{}")
    assert (tmp_path / "r1.jsonl").read_bytes() == b"{}\n"


def test_a_log_that_is_deleted_while_it_is_opened_takes_no_event(tmp_path: Path) -> None:
    path = tmp_path / "r1.jsonl"
    path.touch()

    class Late(Lines):
        def _lock(self, hint: str) -> None:
            path.unlink()  # another process had the lock, and has let go
            super()._lock(hint)

    with pytest.raises(UsageError, match="r1 has just been deleted"):
        Late(path, bool)
    assert not list(tmp_path.iterdir())


def test_a_child_process_does_not_keep_the_log(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with Log(path) as log:
        log(Text(text="a"))
        child = subprocess.Popen(["sleep", "30"])
    try:
        filled(path, "b")
    finally:
        child.kill()
        child.wait()


def test_what_can_t_be_kept_is_not_shown_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    seen: list[Event] = []
    with Log(path, [seen.append]) as log:
        log(Text(text="a"))
        size = path.stat().st_size
        with full_at(size + 20), pytest.raises(AgentError, match=r"r\.jsonl: File too large"):
            log(Text(text="lost"))
        assert path.stat().st_size == size
        log(Text(text="b"))
    assert said(path) == ["a", "b"]
    assert [event.seq for event in seen] == [1, 2]
    assert not recorded(path).faults


def test_a_disk_that_is_full_is_told_with_what_helps(tmp_path: Path) -> None:
    with full_at(0), Log(tmp_path / "r.jsonl") as log, pytest.raises(AgentError, match="too large"):
        log(Text(text="a"))
    assert (tmp_path / "r.jsonl").read_bytes() == b""


def test_a_pipe_in_place_of_a_log_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.jsonl")
    opened = threading.Event()

    def attempt() -> None:
        with pytest.raises(AgentError, match="no regular file"):
            Log(tmp_path / "r.jsonl")
        with pytest.raises(AgentError, match="no regular file"):
            recorded(tmp_path / "r.jsonl")
        opened.set()

    threading.Thread(target=attempt, daemon=True).start()
    assert opened.wait(5)


def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="No such file"):
        recorded(tmp_path / "r.jsonl")


def test_the_ends_of_a_long_log_tell_how_it_began_and_ended(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    begin = RunStarted(goal="g", cwd="/", model="m", version="1")
    end = RunFinished(status="done", answer="x" * 400_000, usage=Usage(), cost_usd=None, seconds=1)
    with Log(path) as log:
        first = log(begin)
        for number in range(5):
            log(Text(text=str(number)))
        last = log(end)
    with path.open("ab") as file:
        file.write(b'{"type":')
    assert ends(path) == (first, last)
    path.write_bytes(b"")
    assert ends(path) == (None, None)


def test_a_run_s_name_sorts_by_time_and_its_files_are_made_when_it_begins(tmp_path: Path) -> None:
    assert workspace.runs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []

    begun = [workspace.begun(tmp_path) for _ in range(20)]
    for run in begun:
        filled(run.log, "a")

    ids = [run.id for run in begun]
    assert sorted(set(ids)) == ids
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", id) for id in ids)
    assert workspace.runs(tmp_path) == begun[::-1]
    assert begun[0].workspace == tmp_path / ".agent/workspace" / ids[0]
    assert begun[0].workspace.is_dir()
    ignored = (tmp_path / ".agent/.gitignore").read_text(encoding="utf-8").split()
    assert ignored == ["workspace/", "runs/", "sessions/", "undo/", "settings.local.yaml"]


def test_git_sees_nothing_of_a_run(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
        return done.stdout.decode()

    git("init", "-q")
    run = workspace.begun(tmp_path)
    filled(run.log, "a")
    (run.workspace / "notes.md").write_text("x", encoding="utf-8")
    assert git("status", "--porcelain", "-uall") == "?? .agent/.gitignore\n"


def test_a_user_s_own_gitignore_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".agent").mkdir()
    (tmp_path / ".agent/.gitignore").write_text("*\n", encoding="utf-8")
    workspace.begun(tmp_path)
    assert (tmp_path / ".agent/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_run_begun_after_the_clock_was_set_back_is_still_the_newest(tmp_path: Path) -> None:
    times = iter(["20261130-154501-8000", "20261129-090000-0000", "20261129-090001-0000"])
    for _ in range(3):
        run = workspace.begun(tmp_path, times.__next__)
        run.log.write_bytes(b"")
        assert workspace.find(tmp_path).id == run.id


def test_a_run_is_found_by_its_name_or_the_one_beginning(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run in this directory"):
        workspace.find(tmp_path)
    for id in ("20261130-154501-3f2a", "20261130-154501-3fff", "20261201-000000-0000"):
        filled(tmp_path / ".agent/runs" / f"{id}.jsonl", "a")

    assert workspace.find(tmp_path).id == "20261201-000000-0000"
    assert workspace.find(tmp_path, "202612").id == "20261201-000000-0000"
    assert workspace.find(tmp_path, "20261130-154501-3f2a").id == "20261130-154501-3f2a"
    with pytest.raises(UsageError, match="begins the name of 2 runs: 20261130-154501-3fff"):
        workspace.find(tmp_path, "20261130")
    with pytest.raises(UsageError, match=r"no run '\.\./x'") as caught:
        workspace.find(tmp_path, "../x")
    assert "20261201-000000-0000" in caught.value.hint


@pytest.mark.parametrize("link", [".agent", ".agent/runs", ".agent/workspace"])
def test_a_repository_can_t_send_our_files_elsewhere(link: str, tmp_path: Path) -> None:
    cwd, outside = tmp_path / "repo", tmp_path / "outside"
    outside.mkdir()
    (cwd / link).parent.mkdir(parents=True)
    (cwd / link).symlink_to(outside)
    with pytest.raises(AgentError, match="is a symbolic link"):
        workspace.begun(cwd)
    assert list(outside.iterdir()) == []


def test_a_directory_that_can_t_be_written_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / ".agent").write_text("a file", encoding="utf-8")
    with pytest.raises(AgentError, match=r"\.agent"):
        workspace.begun(tmp_path)


def test_runs_that_begin_at_once_have_each_a_name_of_their_own(tmp_path: Path) -> None:
    names = iter(["r1", "r1", "r1", "r2"])
    begun = [workspace.begun(tmp_path, names.__next__).id for _ in range(2)]
    assert begun == ["r1", "r2"]


SYNCED = """
import os, sys
from pathlib import Path
from agent.event import StepStarted, Text
from agent.store.log import Log
with Log(Path(sys.argv[1]), [lambda event: os.write(1, b"shown")]) as log:
    log(StepStarted(step="a", attempt=1))
    log(Text(text="b"))
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_beginning_of_a_step_is_on_the_disk_before_it_is_shown(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    watch = ["strace", "-f", "-y", "-e", "trace=write,fsync,fdatasync", "-o", str(trace)]
    subprocess.run(
        [*watch, sys.executable, "-c", SYNCED, str(tmp_path / "r.jsonl")],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    calls = re.findall(r"(\w+)\((\d+)<([^>]*)>", trace.read_text(encoding="utf-8"))
    named = [
        "show" if number == "1" else f"{name} {Path(file).name}"
        for name, number, file in calls
        if number == "1" or file.startswith(str(tmp_path))
    ]
    assert named == [
        "write r.pid",
        f"fsync {tmp_path.name}",
        "write r.jsonl",
        "fdatasync r.jsonl",
        "show",
        "write r.jsonl",
        "show",
    ]


def test_a_log_that_is_removed_while_it_is_written_is_there_again_as_a_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / ".agent/runs/r.jsonl"
    with Log(path) as log:
        log(Text(text="a"))
        shutil.rmtree(tmp_path / ".agent")
        log(Text(text="b"))
        assert said(path) == ["a", "b"]
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(UsageError, match="in use"):
            Log(path)
        path.rename(tmp_path / "elsewhere.jsonl")  # it goes on where it was put
        log(Text(text="c"))
        assert said(tmp_path / "elsewhere.jsonl") == ["a", "b", "c"]
        assert not path.exists()
    assert not list(path.parent.iterdir())


def test_a_log_is_not_written_where_another_file_or_nothing_at_all_is_now(tmp_path: Path) -> None:
    path = tmp_path / "project/.agent/runs/r.jsonl"
    with Log(path) as log:
        log(Text(text="a"))
        path.unlink()
        path.write_text("mine", encoding="utf-8")
        with pytest.raises(AgentError, match="another file has taken its place"):
            log(Text(text="b"))
        assert path.read_text(encoding="utf-8") == "mine"
        shutil.rmtree(tmp_path / "project")
        with pytest.raises(AgentError, match="No such file"):
            log(Text(text="c"))
    assert not (tmp_path / "project").exists()

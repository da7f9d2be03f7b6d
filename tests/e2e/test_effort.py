"""How long a model may think, as the user says."""

from typing import Any

import pytest

from tests.e2e.test_chat_start import chatting, prompted
from tests.e2e.ts import Ts
from tests.servers import Answer, AnthropicServer, OpenAIServer, Server

KINDS = pytest.mark.parametrize("kind", [AnthropicServer, OpenAIServer])


def efforts(server: Server) -> list[Any]:
    """What was asked for with each request."""
    bodies = [ask.json for ask in server.requests]
    return [
        body.get("reasoning_effort") or body.get("output_config", {}).get("effort")
        for body in bodies
    ]


@KINDS
def test_the_effort_that_was_set_goes_with_each_request_and_none_does_without(
    ts: Ts, kind: type[Server]
) -> None:
    with kind([Answer("ok")]) as server:
        ts.asks(server)
        assert ts.here("-p", "hi", "--effort", "low").said == "ok\n"
        assert ts.here("-p", "hi").said == "ok\n"
    assert efforts(server) == ["low", None]


@KINDS
def test_a_model_that_refuses_effort_is_asked_without(ts: Ts, kind: type[Server]) -> None:
    def refuses(body: dict[str, Any]) -> str:
        extra = {"reasoning_effort", "output_config"} & {*body}
        return "This model does not support the effort parameter." if extra else ""

    with kind([Answer("ok")], lenient=True) as server:
        server.refuses = refuses
        ts.asks(server)
        assert ts.here("-p", "hi", "--effort", "high").said == "ok\n"
    assert efforts(server) == ["high", None]


def test_effort_is_changed_in_a_chat_under_way(ts: Ts) -> None:
    with OpenAIServer([Answer("one"), Answer("two"), Answer("three")]) as server:
        ts.asks(server)
        with chatting(ts, "hello") as chat:
            chat.expect_exact("one")
            prompted(chat)
            chat.send("/effort hihg\r")
            chat.expect_exact("did you mean 'high'?")
            prompted(chat)
            chat.send("/effort high\r")
            chat.expect_exact("effort: high")
            prompted(chat)
            chat.send("again\r")
            chat.expect_exact("two")
            prompted(chat)
            chat.send("/effort usual\r")
            chat.expect_exact("as the service has it")
            prompted(chat)
            chat.send("again\r")
            chat.expect_exact("three")
            prompted(chat)
            chat.send("/exit\r")
            chat.expect_exact("goes on with this chat")
    assert efforts(server) == [None, "high", None]

"""Every adapter reads what real services have sent."""

from typing import Any

import pytest

from agent.errors import ModelError
from agent.message import Message, Reply, Request
from agent.providers.anthropic import Anthropic
from agent.providers.openai import OpenAI
from agent.providers.wire import Endpoint
from tests.conform.recorded import Recorded, corpora, exchanges
from tests.servers import AnthropicServer, OpenAIServer, Plain

FOLDER = corpora()


def heard(exchange: Recorded, url: str) -> Reply:
    endpoint = Endpoint(name="x/y", model="claude-fake-4-5", url=url, key="k", origin="the test")
    provider = Anthropic(endpoint) if exchange.wire == "anthropic" else OpenAI(endpoint)
    request = Request(system="", messages=(Message(role="user", text="hi"),))
    return provider(request, lambda piece: None)


def expected(parsed: dict[str, Any]) -> tuple[str, list[str]]:
    """The text and the names of the calls in a reply that came as one."""
    if "content" in parsed:
        blocks = parsed["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return text, [block["name"] for block in blocks if block["type"] == "tool_use"]
    message = parsed["choices"][0]["message"]
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    return content, [call["function"]["name"] for call in message.get("tool_calls") or []]


@pytest.mark.skipif(FOLDER is None, reason="needs the corpora: set TS_CORPORA to their folder")
def test_recorded_replies_are_read_whole() -> None:
    assert FOLDER is not None
    seen = 0
    for exchange in exchanges(FOLDER / "provider-cassettes"):
        if not exchange.wire:
            continue
        seen += 1
        kind = AnthropicServer if exchange.wire == "anthropic" else OpenAIServer
        answer = Plain(exchange.status, exchange.body, {"content-type": exchange.kind})
        with kind([answer], lenient=True) as server:
            if exchange.status != 200:
                with pytest.raises(ModelError, match=str(exchange.status)):
                    heard(exchange, server.url)
                continue
            reply = heard(exchange, server.url)
        message = reply.message
        assert message.text or message.calls, exchange.name
        assert reply.usage.total, exchange.name
        assert not any(call.fault for call in message.calls) or reply.stop == "length"
        if exchange.parsed:
            text, names = expected(exchange.parsed)
            assert (message.text, [call.name for call in message.calls]) == (text, names)
    assert seen >= 80

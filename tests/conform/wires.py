"""Every way in which a model is asked and answers, for tests that hold for all of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import Struct

from agent.message import Message, Reply, Request
from agent.providers.anthropic import Anthropic
from agent.providers.openai import OpenAI
from agent.providers.wire import Dialect, Endpoint
from agent.seams import Provider
from tests.servers import Answer, AnthropicServer, OpenAIServer, Scripted, Server

TOOLS = tuple(
    {"name": name, "description": "d", "input_schema": {"type": "object", "properties": {}}}
    for name in ("read_file", "bash")
)


class Wire(Struct, frozen=True, kw_only=True):
    name: str
    kind: type[Server]
    make: Callable[[Endpoint], Provider]
    whole: bool = False  # replies come as one

    def server(self, *answers: Scripted, lenient: bool = False) -> Server:
        made = [
            replace(each, whole=self.whole) if isinstance(each, Answer) else each
            for each in answers
        ]
        return self.kind(made, lenient=lenient)

    def provider(self, server: Server, **changes: Any) -> Provider:
        given = {"name": "fake/model", "model": "fake", "key": "k-1", "origin": "the test"}
        return self.make(Endpoint(**{**given, "url": server.url, **changes}))

    @property
    def anthropic(self) -> bool:
        return self.kind is AnthropicServer

    def __repr__(self) -> str:
        return self.name


STREAMED = (
    Wire(name="anthropic", kind=AnthropicServer, make=Anthropic),
    Wire(name="openai", kind=OpenAIServer, make=OpenAI),
)
WHOLE = (
    Wire(name="anthropic-whole", kind=AnthropicServer, make=Anthropic, whole=True),
    Wire(name="openai-whole", kind=OpenAIServer, make=OpenAI, whole=True),
    Wire(
        name="openai-unstreamed",
        kind=OpenAIServer,
        make=lambda endpoint: OpenAI(endpoint, Dialect(streams=False)),
        whole=True,
    ),
)
WIRES = STREAMED + WHOLE


def asked(*messages: Message | str, must: str = "", system: str = "You help.") -> Request:
    """A request; a text is a user's."""
    made = tuple(
        Message(role="user", text=each) if isinstance(each, str) else each for each in messages
    )
    return Request(system=system, messages=made, tools=TOOLS, must=must)


def heard(provider: Provider, request: Request) -> tuple[Reply, list[str]]:
    """A reply, and the pieces that were said on the way."""
    pieces: list[str] = []
    return provider(request, pieces.append), pieces

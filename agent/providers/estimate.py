"""What a call of a model may use at most, guessed before it is made.

Input is counted in bytes, by as many to a token as the calls before have shown. The whole of it is
priced as if no cache served any. Output is what the request allows.
"""

from collections.abc import Mapping
from threading import Lock

import msgspec

from agent.message import Message, Reply, Request, Usage
from agent.providers.prices import FREE, cost

BYTES = 3.0  # of a token, until a reply has told; English is 4, code and JSON 3, Chinese 2 to 3
LEAST, MOST = 1.5, 6.0  # what is believed of that
IMAGE = 1600  # tokens of a picture, about


class Estimate:
    """See the module. One for each model; any thread may use it."""

    def __init__(
        self,
        name: str,
        most_output: int,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self._name, self._most, self._prices = name, most_output, prices
        self._bytes = BYTES
        self._lock = Lock()

    def __call__(self, request: Request, reply: Reply | None = None) -> tuple[int, float]:
        """Tokens and US dollars that a call may use; with its reply, what it has used: as the
        service says or, where it says nothing, as far as can be told. Unknown prices count 0."""
        size, images = measured(request)
        if reply and (told := reply.usage).total:
            self._learn(size, told.total - told.output_tokens - images * IMAGE)
            return told.total, reply.cost_usd or 0.0
        output = self._most if reply is None else self._tokens(sized(reply.message))
        usage = Usage(input_tokens=self._tokens(size) + images * IMAGE, output_tokens=output)
        free = self._name.partition("/")[0] in FREE
        return usage.total, 0.0 if free else cost(usage, self._name, self._prices) or 0.0

    def _tokens(self, size: int) -> int:
        with self._lock:
            return round(size / self._bytes)

    def _learn(self, size: int, tokens: int) -> None:
        if size > 2000 and tokens > 0:  # of a short one the service's own frame is too large a part
            with self._lock:
                self._bytes = min(max(size / tokens, LEAST), MOST)


def measured(request: Request) -> tuple[int, int]:
    """The bytes of a request's texts, and how many pictures it has."""
    size = len(request.system.encode("utf-8", "replace"))
    size += len(msgspec.json.encode(request.tools))
    images = 0
    for message in request.messages:
        size += sized(message)
        images += len(message.images) + sum(len(result.images) for result in message.results)
    return size, images


def sized(message: Message) -> int:
    """The bytes of a message's texts."""
    texts = [message.text, *(result.text for result in message.results)]
    texts += [part for thought in message.thoughts for part in (thought.text, thought.redacted)]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return size + sum(len(call.name) + len(str(call.input)) for call in message.calls)

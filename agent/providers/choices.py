"""A reply of chat completions, put together chunk by chunk.

A new call begins where an id differs from the current one's; a chunk without an index goes to the
last call. Arguments are read from what the model wrote and from nothing else; a reply counts as
whole only when the server has said why it ended.
"""

import json
from typing import Any

from msgspec import structs

from agent.message import Call, Message, Reply, Request, Say, Stop, Thought, Usage
from agent.providers import failure
from agent.providers.turns import settled
from agent.providers.wire import CUT, Endpoint, Pieces, arguments, clean

STOPS: dict[Any, Stop] = {
    "stop": "end",
    "eos": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_calls": "calls",
    "tool_use": "calls",
    "function_call": "calls",
    "content_filter": "refused",
    "safety": "refused",
    "refusal": "refused",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "error": "length",
}  # a word that we don't know ends a text; calls that it ends are not run

LIMITS = ("length", "max_tokens", "model_length")  # of tokens


class Growing:
    """A call, as it grows."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.raw = ""
        self.extra = dict[str, Any]()

    def add(self, piece: dict[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        self.id = self.id or string(piece, "id")
        self.name = self.name or string(function, "name")
        match function.get("arguments"):
            case str(text):
                self.raw += text
            case dict(read):  # some servers send what they should have written
                self.raw += json.dumps(read)
        if isinstance(extra := piece.get("extra_content"), dict):
            self.extra = {"extra_content": extra}

    @property
    def complete(self) -> bool:
        """Whether its arguments can already be read."""
        return bool(self.raw.strip()) and not arguments(self.raw)[1]

    def call(self) -> Call:
        read, fault = arguments(self.raw)
        name: str = clean(self.name)
        if not name:
            fault = fault or "the call names no tool; nothing was run"
        return Call(id=self.id, name=name, input=clean(read), fault=fault, extra=clean(self.extra))


class Assembly:
    """A reply, put together from a stream or taken as a whole."""

    def __init__(self, endpoint: Endpoint, say: Say) -> None:
        self._endpoint = endpoint
        self._say = say
        self._text = Pieces()
        self._thought = Pieces()
        self._calls = list[Growing]()
        self._usage = Usage()
        self._refused = False
        self._stop: Any = None
        self.begun = False
        self.marked = False  # the mark that ends a stream has come

    def add(self, chunk: Any) -> bool:
        """Take a chunk; whether the reply has come on. Raises ModelError for an error."""
        if not isinstance(chunk, dict):
            raise failure.broken(self._endpoint, "a chunk is no object")
        if chunk.get("error"):
            raise failure.of_stream(chunk["error"], self._endpoint)
        self.begun = True
        came = False
        if isinstance(chunk.get("usage"), dict):
            self._usage = used(chunk["usage"])
            came = True
        choice = first(chunk.get("choices"))
        if choice.get("error"):
            raise failure.of_stream(choice["error"], self._endpoint)
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict) and delta:
            came = self._grow(delta, streamed=True) or came
        elif isinstance(message, dict):
            came = self._grow(message, streamed=False) or came
        if choice.get("finish_reason"):
            self._stop = choice["finish_reason"]
            came = True
        return came

    def take(self, completion: Any) -> None:
        """Take a reply that came as one."""
        if isinstance(completion, list):
            completion = first(completion)  # Gemini wraps an error in a list
        self.add(completion)
        if not isinstance(completion.get("choices"), list):
            raise failure.broken(self._endpoint, "it has no `choices`")

    def _grow(self, delta: dict[str, Any], *, streamed: bool) -> bool:
        """Grow by a delta, or by all at once; whether there was anything in it."""
        text, thought = words(delta.get("content"))
        if refusal := string(delta, "refusal"):
            text, self._refused = text + refusal, True
        thought += string(delta, "reasoning_content") or string(delta, "reasoning")
        calls = delta.get("tool_calls")
        calls = (
            [piece for piece in calls if isinstance(piece, dict)] if isinstance(calls, list) else []
        )
        for piece in calls:
            if not streamed:
                self._calls.append(Growing(None))
            (self._target(piece) if streamed else self._calls[-1]).add(piece)
        self._thought.add(thought)
        if text:
            self._say(self._text.add(text))
        elif thought or calls:
            self._say("")
        return bool(text or thought or calls)

    def _target(self, piece: dict[str, Any]) -> Growing:
        """The call that a piece belongs to; a new one where it belongs to none."""
        index, id = piece.get("index"), string(piece, "id")
        own = [call for call in self._calls if index is None or call.index == index]
        current = own[-1] if own else None
        if current and id and current.id and id != current.id:
            current = next((call for call in self._calls if call.id == id), None)
        elif current and not id and names(piece) and current.complete:
            current = None  # a server that gives no ids begins another call
        if current is None:
            current = Growing(index)
            self._calls.append(current)
        return current

    def reply(self, request: Request) -> Reply:
        calls = [growing.call() for growing in self._calls]
        stop = self._judged(bool(calls))
        if stop == "length":
            calls = [structs.replace(call, fault=call.fault or CUT) for call in calls]
        thought = self._thought.text
        message = Message(
            role="assistant",
            text=self._text.text,
            thoughts=(Thought(text=thought),) if thought else (),
            calls=settled(calls, request),
        )
        return Reply(
            message=message,
            usage=self._usage,
            stop=stop,
            full=stop == "length" and lower(self._stop) in LIMITS,
            model=self._endpoint.name,
        )

    def _judged(self, called: bool) -> Stop:
        """How the reply ended; a call counts only in one that ended well."""
        unknown: Stop = "length" if called or not self._stop else "end"
        stop = "refused" if self._refused else STOPS.get(lower(self._stop), unknown)
        if called and stop == "end":
            return "calls"
        if self._stop is None and called and self.marked and self._usage.total:
            # Recorded from a gateway: everything has come, only the reason for the end has not.
            return "calls" if all(call.complete for call in self._calls) else "length"
        if stop == "calls" and not called:
            return "length"
        return stop


def words(content: Any) -> tuple[str, str]:
    """The text and the thinking in a content, which is a text or, at Mistral, a list of parts."""
    match content:
        case str():
            return content, ""
        case list():
            pairs = [words_of(part) for part in content if isinstance(part, dict)]
            return "".join(text for text, _ in pairs), "".join(thought for _, thought in pairs)
        case _:
            return "", ""


def words_of(part: dict[str, Any]) -> tuple[str, str]:
    if part.get("type") == "thinking":
        return "", "".join(words(part.get("thinking")))
    return string(part, "text"), ""


def used(usage: dict[str, Any]) -> Usage:
    """Tokens, those from and to a cache apart; OpenAI counts them among all input."""
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    whole = number(usage, "prompt_tokens")
    read = number(details, "cached_tokens") or number(usage, "prompt_cache_hit_tokens")
    wrote = number(details, "cache_write_tokens") or number(details, "cache_creation_tokens")
    return Usage(
        input_tokens=max(whole - read - wrote, 0),
        output_tokens=number(usage, "completion_tokens"),
        cache_read_input_tokens=read,
        cache_creation_input_tokens=wrote,
    )


def names(piece: dict[str, Any]) -> bool:
    function = piece.get("function")
    return isinstance(function, dict) and bool(function.get("name"))


def first(items: Any) -> dict[str, Any]:
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def string(of: dict[str, Any], name: str) -> str:
    value = of.get(name)
    return value if isinstance(value, str) else ""


def number(of: dict[str, Any], name: str) -> int:
    value = of.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value

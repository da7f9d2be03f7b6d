"""Anthropic's Messages, by the official SDK; the stream is put together here.

The SDK builds and signs the request. It does not retry, follow redirects or read its settings from
the environment, and its reader of streams is not used: that one takes a cut reply for a whole one
and mends broken arguments.

What a model family takes differs, and a refusal says so (platform.claude.com/docs, October 2026):
from 4.6 on models think without a budget, from 5 on by themselves; from Fable 5.1 and Opus 5.5 on
a tool can't be forced, and thinking goes back only with the words that it came from. A request that
is refused for one of these is asked once more in the way that the refusal names.
"""

import atexit
import gc
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from agent.errors import ModelError
from agent.message import Call, Image, Message, Reply, Request, Result, Say, Thought
from agent.providers import failure
from agent.providers.blocks import Assembly
from agent.providers.turns import identifier, output, title, turns
from agent.providers.wire import (
    AGENT,
    Answered,
    Endpoint,
    Pulse,
    base,
    body,
    clean,
    client,
    events,
    opened,
    strict,
)

if TYPE_CHECKING:
    import httpx2
    from anthropic import Anthropic as Sdk

PAUSES = 5  # how often a paused reply is taken up again
ROOM = 16_384  # tokens added to a reply's limit for a model that thinks by itself
MARK = {"cache_control": {"type": "ephemeral"}}


def site(url: str) -> str:
    """The base URL that the SDK wants: it adds /v1/messages itself."""
    return base(url, endings=("/messages", "/v1"))


class Manner(Struct, frozen=True, kw_only=True):
    """How a model wants to be asked."""

    adaptive: bool  # thinks without a budget
    thinks: bool  # thinks when nothing is said about it
    effort: bool = True  # takes `effort`, which is sent only where the user has set one
    forced: bool = True  # takes a `tool_choice` that names a tool

    @classmethod
    def of(cls, model: str) -> "Manner":
        """What a model's name says, as in claude-sonnet-4-5-20250929 or claude-3-7-sonnet."""
        found = re.search(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", model)
        version = (int(found[1]), int(found[2] or 0)) if found else (4, 5)
        return cls(adaptive=version >= (4, 6), thinks=version >= (5, 0))


class Anthropic:
    """A provider; see agent.seams. Threads may share it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = structs.replace(endpoint, url=site(endpoint.url))
        self._manner = Manner.of(endpoint.model)
        self._lock = threading.Lock()
        self._sdk: Sdk | None = None
        self._foreign = frozenset[str]()  # thinking that the service does not take back

    def warm(self) -> None:
        """Load the SDK, which takes a second or two, before it is needed."""
        self._client()

    def _client(self) -> "Sdk":
        with self._lock:
            if self._sdk is None:
                from anthropic import Anthropic as Sdk

                # Python would look through all of the SDK once more at its end, for a second.
                atexit.register(gc.freeze)
                key = self._endpoint.key
                headers = {"authorization": f"Bearer {key}", "user-agent": AGENT}
                self._sdk = Sdk(
                    api_key=key,
                    base_url=self._endpoint.url,
                    max_retries=0,
                    default_headers={},
                    open_telemetry=False,
                    http_client=client(self._endpoint, headers, self),
                )
            return self._sdk

    def __call__(self, request: Request, say: Say) -> Reply:
        failure.check_key(self._endpoint)
        assembly = Assembly(self._endpoint, say)
        for _ in range(PAUSES + 1):
            self._part(request, assembly)
            if assembly.stop != "pause_turn":
                break
            assembly.resume()
        return assembly.reply(request)

    def _part(self, request: Request, assembly: Assembly) -> None:
        """Ask, and ask again in another manner where the model wants another."""
        for _ in range(4):
            sent = self._sent(request, assembly)
            try:
                return self._ask(sent, assembly)
            except Answered as answer:
                if not self._learns(answer, sent):
                    raise failure.of_answer(answer, self._endpoint) from None
        raise ModelError(f"{self._endpoint.name}: no manner of asking was taken")

    def _ask(self, sent: dict[str, Any], assembly: Assembly) -> None:
        """One request. Raises Answered for what is no reply, ModelError for what breaks it."""
        import anthropic
        import httpx2

        endpoint = self._endpoint
        try:
            sdk = self._client()
            assembly.alive()  # ends the call here where nobody waits for it any more
            stream = sdk.messages.create(**sent)
            read(stream.response, endpoint, assembly)
        except anthropic.APIConnectionError as error:
            if isinstance(error.__cause__, Answered):
                raise error.__cause__ from None
            raise failure.of_network(error, endpoint) from error
        except (httpx2.RequestError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            raise failure.of_network(error, endpoint) from error
        except anthropic.AnthropicError as error:
            raise failure.broken(endpoint, str(error)) from error

    def _learns(self, answer: Answered, sent: dict[str, Any]) -> bool:
        """Whether a refusal names a manner of asking that has not been tried."""
        if answer.status != 400:
            return False
        words, manner = failure.said(answer.body)[1], self._manner
        if "tool_choice" in words and "tool_choice" in sent and manner.forced:
            self._manner = structs.replace(manner, forced=False)
        elif "output_config" in sent and ("effort" in words or "output_config" in words):
            self._manner = structs.replace(manner, effort=False)
        elif "thinking.type.enabled" in words and not manner.adaptive:
            self._manner = structs.replace(manner, adaptive=True)
        elif "adaptive thinking is not supported" in words and manner.adaptive:
            self._manner = structs.replace(manner, adaptive=False, thinks=False)
        elif "thinking" in words and (signs := frozenset(signatures(sent["messages"]))):
            self._foreign |= signs
        else:
            return False
        return True

    def _sent(self, request: Request, assembly: Assembly) -> dict[str, Any]:
        """The request's arguments. Equal requests give equal ones."""
        manner, endpoint = self._manner, self._endpoint
        forced = bool(request.must) and manner.forced
        messages = self._messages(request, assembly)
        sent: dict[str, Any] = {
            "model": endpoint.model,
            "max_tokens": endpoint.max_output_tokens,
            "messages": messages,
            "stream": True,
        }
        if endpoint.effort and manner.effort:
            sent["output_config"] = {"effort": endpoint.effort}
        if request.system.strip():
            sent["system"] = [{"type": "text", "text": clean(request.system), **MARK}]
        if request.tools:
            tools = [dict(clean(spec)) for spec in request.tools]
            sent["tools"] = [*tools[:-1], {**tools[-1], **MARK}]
        if manner.thinks:
            sent["max_tokens"] += max(ROOM, endpoint.thinking_tokens)
        if forced:
            sent["tool_choice"] = {"type": "tool", "name": request.must}
        elif manner.thinks:
            # Without `display` such a model sends no sign of life while it thinks.
            sent["thinking"] = {"type": "adaptive", "display": "summarized"}
        elif endpoint.thinking_tokens > 0 and manner.adaptive:
            sent["thinking"] = {"type": "adaptive", "display": "summarized"}
            sent["max_tokens"] += endpoint.thinking_tokens
        elif endpoint.thinking_tokens > 0 and thinkable(messages):
            budget = max(endpoint.thinking_tokens, 1024)  # the least that the service takes
            sent["thinking"] = {"type": "enabled", "budget_tokens": budget}
            sent["max_tokens"] += budget
        return sent

    def _messages(self, request: Request, assembly: Assembly) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = [
            {"role": turn.role, "content": self._content(turn)} for turn in turns(request.messages)
        ]
        if request.must and not self._manner.forced:
            said = f"(Reply by calling the tool {request.must}, and with nothing else.)"
            made[-1]["content"].append({"type": "text", "text": said})
        # The mark moves on with the conversation; the one before it is where the cache is read.
        for turn in [turn for turn in made if turn["role"] == "user"][-2:]:
            turn["content"][-1] = {**turn["content"][-1], **MARK}
        if assembly.paused:
            made.append({"role": "assistant", "content": assembly.paused})
        return made

    def _content(self, turn: Message) -> list[dict[str, Any]]:
        """A turn's blocks; an assistant's in the order in which they came."""
        thoughts = [thought for thought in turn.thoughts if sign(thought)]
        kept = not any(sign(thought) in self._foreign for thought in thoughts)
        last = len(thoughts)
        placed = [((0, 0), answer(result)) for result in turn.results]
        placed += [((at, 2), thinking(thought)) for at, thought in enumerate(thoughts) if kept]
        text = {"type": "text", "text": clean(turn.text)}
        where = turn.calls[0].extra.get("text_after", last) if turn.calls else last
        placed += [((where, 0), text)] if turn.text.strip() else []
        placed += [((last, 1), picture(image)) for image in turn.images]
        placed += [((call.extra.get("after", last), 1), use(call)) for call in turn.calls]
        return [block for _, block in sorted(placed, key=lambda pair: pair[0])]


def sign(thought: Thought) -> str:
    """What makes thinking the service's own; "" for another service's."""
    return thought.signature or thought.redacted


def thinking(thought: Thought) -> dict[str, Any]:
    if thought.redacted:
        return {"type": "redacted_thinking", "data": thought.redacted}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def use(call: Call) -> dict[str, Any]:
    id, name = identifier(call.id, 64), title(call.name)
    return {"type": "tool_use", "id": id, "name": name, "input": clean(call.input)}


def answer(result: Result) -> dict[str, Any]:
    content: Any = output(result)
    if result.images:
        content = [{"type": "text", "text": content}, *map(picture, result.images)]
    made = {"type": "tool_result", "tool_use_id": identifier(result.call, 64), "content": content}
    return made if result.ok else {**made, "is_error": True}


def picture(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def signatures(messages: list[dict[str, Any]]) -> Iterator[str]:
    """What the thinking in a request is signed with."""
    for message in messages:
        for block in message["content"]:
            if block["type"] in ("thinking", "redacted_thinking"):
                yield block.get("signature") or block.get("data")


def thinkable(messages: list[dict[str, Any]]) -> bool:
    """Whether thinking with a budget may be asked for: not between a call and its answer when the
    call was made without thinking."""
    if len(messages) < 2 or messages[-1]["content"][0]["type"] != "tool_result":
        return True
    return messages[-2]["content"][0]["type"] in ("thinking", "redacted_thinking")


def read(response: "httpx2.Response", endpoint: Endpoint, assembly: Assembly) -> None:
    """Read a reply, streamed or whole, into the assembly. Raises ModelError where it breaks."""
    pulse = Pulse(endpoint)
    with opened(response, pulse) as (kind, chunks):
        if kind == "json":
            try:
                message = strict(body(chunks))
            except ValueError as error:
                raise failure.broken(endpoint, str(error)) from error
            return assembly.take(message)
        if kind != "stream":
            raise failure.unlike(endpoint, str(response.url), kind, next(iter(chunks), b""))
        for event in events(chunks):
            try:
                happened = strict(event.data)
            except ValueError as error:
                if not event.ended:
                    break
                raise failure.broken(endpoint, str(error)) from error
            if assembly.add(happened):
                pulse.beat()
            if assembly.ended:
                return None
    if not assembly.begun:
        raise failure.unlike(endpoint, str(response.url), "", b"")
    return None

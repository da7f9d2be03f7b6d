"""What a model reads and what it replies.

Thinking is kept as the service sent it (`Thought`), because a service may want it back, signature
and all, together with the results of the calls that it led to.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct


class Image(Struct, frozen=True, kw_only=True, omit_defaults=True):
    media_type: str  # image/png, image/jpeg, image/gif, image/webp
    data: str  # base64


class Thought(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a model's thinking; goes back to the model that sent it, never elsewhere."""

    text: str = ""
    signature: str = ""  # Anthropic: proves that the text is its own
    redacted: str = ""  # Anthropic: thinking that only the service can read


class Call(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's wish to use a tool."""

    id: str
    name: str
    input: dict[str, Any] = {}
    fault: str = ""  # why `input` could not be read; such a call is answered, never run
    extra: dict[str, Any] = {}  # what the service wants back with the call (Gemini)


class Result(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a call; `ok` false means the text says why not."""

    call: str  # id of the call it answers
    text: str
    ok: bool = True
    images: tuple[Image, ...] = ()


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of a conversation. A user's has results before text; an assistant's, thoughts,
    text, calls in that order."""

    role: Literal["user", "assistant"]
    text: str = ""
    attached: str = ""  # what ts puts beside a user's words, for the model: files, pages, a hint
    thoughts: tuple[Thought, ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    images: tuple[Image, ...] = ()


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one or more model calls; `input_tokens` counts only what no cache served."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_input_tokens=self.cache_read_input_tokens + other.cache_read_input_tokens,
            cache_creation_input_tokens=self.cache_creation_input_tokens
            + other.cache_creation_input_tokens,
        )

    @property
    def total(self) -> int:
        """All tokens, in and out, whatever served them."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_input_tokens
            + self.cache_creation_input_tokens
        )


def summed(one: float | None, other: float | None) -> float | None:
    """The sum of two costs; None where one of them is not known."""
    return None if one is None or other is None else one + other


class Request(Struct, frozen=True, kw_only=True):
    """All that a model is given. Equal requests have equal bytes, so that caches serve them."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()  # name, description, input_schema
    must: str = ""  # the tool that the reply has to call; "": the model chooses
    schema: Mapping[str, Any] | None = None  # with `must`: of its arguments; a service that holds
    # a reply to a schema may have the reply be those, as its text


Stop: TypeAlias = Literal["end", "calls", "length", "refused"]


class Reply(Struct, frozen=True, kw_only=True):
    message: Message
    usage: Usage = Usage()
    stop: Stop = "end"  # "length": cut by the token limit or a broken stream
    full: bool = False  # of a cut one: by the token limit
    model: str = ""  # as the user names it: anthropic/NAME
    cost_usd: float | None = None  # None: the price is not known


class Filling(Struct, frozen=True, kw_only=True):
    """What fills a model's context: tokens, most of them estimated."""

    model: str
    window: int  # that it takes, in and out
    reserved: int  # for the reply
    exact: bool  # whether the sum goes by what the service has reported
    parts: tuple[tuple[str, int], ...]  # name and tokens

    @property
    def used(self) -> int:
        return sum(tokens for _, tokens in self.parts)

    @property
    def free(self) -> int:
        return max(self.window - self.reserved - self.used, 0)


Say: TypeAlias = Callable[[str], None]
"""Takes a piece of text as it arrives. An empty piece is a sign of life (thinking, a call's
arguments): a service that gives none is held for dead after a while."""

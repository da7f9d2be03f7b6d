"""A reply of Anthropic's Messages, put together block by block.

Arguments are read from what the model wrote and from nothing else; a reply counts as whole only
when the service has said that it ends.
"""

from typing import Any

from msgspec import structs

from agent.message import Call, Message, Reply, Request, Say, Stop, Thought, Usage
from agent.providers import failure
from agent.providers.turns import settled
from agent.providers.wire import CUT, Endpoint, Pieces, arguments, clean

STOPS: dict[Any, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "calls",
    "refusal": "refused",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}  # a word that we don't know ends a text; calls that it ends are not run


class Block:
    """A content block, as it grows."""

    def __init__(self, start: dict[str, Any]) -> None:
        self.start = start
        self.kind = str(start.get("type"))
        self.text = Pieces()  # of text and of thinking
        self.raw = ""  # of arguments
        self.signature = str(start.get("signature") or "")
        self.text.add(string(start, "text") or string(start, "thinking"))

    def add(self, delta: dict[str, Any]) -> str:
        """Grow by a delta; the text that can be shown."""
        if delta.get("type") == "text_delta":
            return self.text.add(string(delta, "text"))
        self.text.add(string(delta, "thinking"))
        self.raw += string(delta, "partial_json")
        self.signature += string(delta, "signature")
        return ""

    @property
    def input(self) -> tuple[dict[str, Any], str]:
        """The arguments, and what is wrong with them."""
        given = self.start.get("input")
        if not self.raw and isinstance(given, dict):
            return clean(given), ""
        read, fault = arguments(self.raw)
        return clean(read), fault

    @property
    def whole(self) -> dict[str, Any]:
        """The block as it goes back to the service."""
        match self.kind:
            case "text":
                return {**self.start, "text": self.text.text}
            case "thinking":
                return {**self.start, "thinking": self.text.text, "signature": self.signature}
            case "tool_use" | "server_tool_use":
                return {**self.start, "input": self.input[0]}
            case _:
                return self.start


class Assembly:
    """A reply, put together from one stream, or from several where it paused."""

    def __init__(self, endpoint: Endpoint, say: Say) -> None:
        self._endpoint = endpoint
        self._say = say
        self._earlier = list[Block]()  # of the streams before a pause
        self._blocks = list[Block]()
        self._at = dict[Any, Block]()
        self._spent = Usage()  # by the streams before a pause
        self._usage = dict[str, int]()
        self._details: Any = None
        self.stop: Any = None
        self.begun = False
        self.ended = False

    @property
    def paused(self) -> list[dict[str, Any]]:
        """What the service said before it paused, to go on from."""
        blocks = [block.whole for block in self._earlier]
        return [block for block in blocks if block.get("type") != "text" or block["text"].strip()]

    def alive(self) -> None:
        """Give a sign of life."""
        self._say("")

    def resume(self) -> None:
        """Be ready for the stream after a pause."""
        self._earlier += self._blocks
        self._spent = self._spent + self._counted()
        self._blocks, self._at, self._usage = [], {}, {}
        self.stop, self.ended = None, False

    def add(self, event: Any) -> bool:
        """Take an event; whether the reply has come on. Raises ModelError for an error."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self.begun = True
                self._count(message.get("usage"))
                self._say("")
            case {"type": "content_block_start", "content_block": dict(start)}:
                block = Block(start)
                self._blocks.append(block)
                self._at[event.get("index")] = block
                self._say(block.text.text if block.kind == "text" else "")
            case {"type": "content_block_delta", "delta": dict(delta)}:
                if event.get("index") not in self._at:
                    raise failure.broken(self._endpoint, "a piece belongs to no block")
                self._say(self._at[event.get("index")].add(delta))
            case {"type": "message_delta"}:
                self._finish(event.get("delta"))
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self.ended = True
            case {"type": "error"}:
                raise failure.of_stream(event.get("error"), self._endpoint)
            case _:
                return False
        return True

    def take(self, message: Any) -> None:
        """Take a reply that came as one."""
        match message:
            case {"type": "error"}:
                raise failure.of_stream(message.get("error"), self._endpoint)
            case {"content": list(content)}:
                self._blocks = [Block(start) for start in content if isinstance(start, dict)]
                self._finish(message)
                self._count(message.get("usage"))
                self.begun = self.ended = True
                for block in self._blocks:
                    self._say(block.text.text if block.kind == "text" else "")
            case _:
                raise failure.broken(self._endpoint, "it is no message")

    def reply(self, request: Request) -> Reply:
        thoughts, calls, text = list[Thought](), list[Call](), list[str]()
        after = 0  # how much thinking came before the text
        for block in self._earlier + self._blocks:
            match block.kind:
                case "thinking":
                    thoughts.append(Thought(text=block.text.text, signature=block.signature))
                case "redacted_thinking":
                    thoughts.append(Thought(redacted=string(block.start, "data")))
                case "text" if block.text:
                    after = after if text else len(thoughts)
                    text.append(block.text.text)
                case "tool_use":
                    calls.append(called(block, {"after": len(thoughts), "text_after": after}))
        stop = self._judged(bool(calls))
        if stop == "refused" and not text:
            text = [self._refusal()]
        if stop == "length":
            calls = [structs.replace(call, fault=call.fault or CUT) for call in calls]
        message = Message(
            role="assistant",
            text="".join(text),
            thoughts=tuple(thoughts),
            calls=settled((ordered(call, len(thoughts)) for call in calls), request),
        )
        return Reply(
            message=message,
            usage=self._spent + self._counted(),
            stop=stop,
            full=stop == "length" and self.ended and self.stop == "max_tokens",
            model=self._endpoint.name,
        )

    def _judged(self, called: bool) -> Stop:
        """How the reply ended; a call counts only in one that ended well."""
        unknown: Stop = "length" if called or not self.stop else "end"
        stop = STOPS.get(self.stop, unknown) if self.ended else "length"
        if called and self.stop == "end_turn" and self.ended:
            return "calls"  # gateways end a message like that
        if called != (stop == "calls") and stop != "refused" and (called or stop == "calls"):
            return "length"
        return stop

    def _refusal(self) -> str:
        details = self._details if isinstance(self._details, dict) else {}
        words = string(details, "explanation") or string(details, "category")
        return f"(The model declined: {words})" if words else "(The model declined.)"

    def _finish(self, delta: Any) -> None:
        if isinstance(delta, dict):
            self.stop = delta.get("stop_reason") or self.stop
            self._details = delta.get("stop_details") or self._details

    def _count(self, usage: Any) -> None:
        """Note what has been used: totals, of which the last said counts."""
        if isinstance(usage, dict):
            for name in Usage.__struct_fields__:
                if isinstance(count := usage.get(name), int):
                    self._usage[name] = count

    def _counted(self) -> Usage:
        return Usage(**self._usage)


def called(block: Block, extra: dict[str, int]) -> Call:
    read, fault = block.input
    return Call(
        id=string(block.start, "id"),
        name=str(clean(string(block.start, "name"))),
        input=read,
        fault=fault,
        extra=extra,
    )


def ordered(call: Call, thoughts: int) -> Call:
    """A call that remembers where it stood, only where that was not after all thinking."""
    usual = all(place == thoughts for place in call.extra.values())
    return structs.replace(call, extra={}) if usual else call


def string(of: dict[str, Any], name: str) -> str:
    value = of.get(name)
    return value if isinstance(value, str) else ""

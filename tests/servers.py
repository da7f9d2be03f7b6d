"""Model services on this machine: real sockets, scripted answers, strict about what they are sent.

    with AnthropicServer([Answer("hello")]) as server:
        ...  # ask server.url
        server.requests[0].json

A request that the real service would refuse gets a 400 which says why, is noted in
`server.refused`, and fails the test at the end of the `with` unless the server is `lenient`.
Answers are taken one after another; where none is left, the last one is given again. Given a
function instead, it is asked what to say to each request: the order of requests then tells nothing.
"""

import gzip
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from tests import strict

End: TypeAlias = Literal["whole", "eof", "close", "reset", "hang"]


@dataclass(frozen=True)
class Ask:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]  # names in lower case
    json: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a model says, whatever the wire."""

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()  # id, name, arguments as the model wrote them
    thinking: str = ""
    signature: str = "sig"
    redacted: str = ""
    stop: str | None = "fitting"  # in the wire's own words; None: never said
    usage: tuple[int, int, int, int] = (100, 20, 0, 0)  # input, output, cache read, cache write
    size: int = 7  # characters of a streamed piece
    end: End = "whole"
    cut: int | None = None  # bytes of the body that are sent before the end
    whole: bool = False  # as one JSON, though a stream was asked for
    done: bool = True  # the mark that ends a stream
    error: tuple[str, str] | None = None  # kind and words of an error after the text
    gzip: bool = False
    late: float = 0.0  # seconds before the first byte


@dataclass(frozen=True)
class Plain:
    """Any answer at all."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    end: End = "whole"


@dataclass(frozen=True)
class Drip:
    """Signs of an idle connection and nothing else, until the client goes."""

    every: float = 0.05
    head: bytes = b""  # sent first


Scripted: TypeAlias = Answer | Plain | Drip


def failing(status: int, kind: str = "api_error", words: str = "no", **headers: str) -> Plain:
    """An error in JSON; header names with `_` for `-`."""
    body = {"type": "error", "error": {"type": kind, "code": kind, "message": words}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Plain(status, json.dumps(body).encode(), {"content-type": "application/json", **named})


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # else the client has died
            super().handle_error(request, client_address)


class Server:
    """What both services have in common."""

    path: str

    def __init__(
        self, answers: Sequence[Scripted] | Callable[[Ask], Scripted], *, lenient: bool = False
    ) -> None:
        self._replies = answers if callable(answers) else None
        self._answers = [] if callable(answers) else list(answers)
        self._lenient = lenient
        self._lock = threading.Lock()
        self.over = threading.Event()
        self.requests: list[Ask] = []
        self.refused: list[str] = []
        self.connections = 0
        self.models: tuple[str, ...] = ("fake-model",)
        self.about: dict[str, dict[str, Any]] = {}  # what else is listed of them
        self.listing: Plain | None = None  # … or all that is
        self.looks: list[Ask] = []  # requests with GET
        self.refuses: Callable[[dict[str, Any]], str] = lambda body: ""  # a rule more: why not
        self._http = _Http(("127.0.0.1", 0), self._handler())
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        serve = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        serve.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        if error is None and not self._lenient:
            assert not self.refused, f"requests that the service refuses: {self.refused}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                with server._lock:
                    server.connections += 1

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                with server._lock:
                    server.looks.append(Ask(self.path, headers, {}))
                rows = [{"id": name, **server.about.get(name, {})} for name in server.models]
                body = json.dumps({"object": "list", "data": rows}).encode()
                listing = Plain(200, body, {"content-type": "application/json"})
                server._plain(self, server.listing or listing)

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                raw = self.rfile.read(length)
                if len(raw) < length:
                    self.close_connection = True  # the client has died
                    return
                body = json.loads(raw.decode("utf-8"))
                headers = {name.lower(): value for name, value in self.headers.items()}
                server._answer(self, Ask(self.path, headers, body))

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler, ask: Ask) -> None:
        faults = [*self._faults(ask)]
        with self._lock:
            self.requests.append(ask)
            if faults:
                self.refused.append("; ".join(faults))
                answer: Scripted = failing(400, "invalid_request_error", faults[0])
            elif self._replies:
                answer = self._replies(ask)
            else:
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        try:
            match answer:
                case Plain():
                    self._plain(handler, answer)
                case Drip():
                    self._drip(handler, answer)
                case Answer():
                    self._say(handler, ask, answer)
        except OSError:
            handler.close_connection = True  # the client has gone

    def _faults(self, ask: Ask) -> Iterator[str]:
        if ask.path != self.path:
            yield f"no such path: {ask.path}"
            return
        if "json" not in ask.headers.get("content-type", ""):
            yield "content-type is not JSON"
        try:
            if words := self.refuses(ask.json):
                yield words
            yield from self.faults(ask.json)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            yield f"malformed request: {error!r}"

    def faults(self, body: dict[str, Any]) -> Iterator[str]:
        raise NotImplementedError

    def stream(self, answer: Answer) -> Iterator[bytes]:
        raise NotImplementedError

    def complete(self, answer: Answer) -> dict[str, Any]:
        raise NotImplementedError

    def _plain(self, handler: BaseHTTPRequestHandler, answer: Plain) -> None:
        if "date" in answer.headers:
            handler.send_response_only(answer.status)
        else:
            handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.end == "whole" and "content-length" not in answer.headers:
            handler.send_header("content-length", str(len(answer.body)))
        handler.end_headers()
        handler.wfile.write(answer.body)
        self._end(handler, answer.end)

    def _drip(self, handler: BaseHTTPRequestHandler, drip: Drip) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(drip.head)
        while not self.over.wait(drip.every):
            handler.wfile.write(self.ping)

    ping = b": ping\n\n"

    def _say(self, handler: BaseHTTPRequestHandler, ask: Ask, answer: Answer) -> None:
        if answer.late and self.over.wait(answer.late):
            handler.close_connection = True
            return
        streamed = bool(ask.json.get("stream")) and not answer.whole
        pieces = (
            [*self.stream(answer)] if streamed else [json.dumps(self.complete(answer)).encode()]
        )
        if answer.cut is not None:
            body = b"".join(pieces)[: answer.cut]
            pieces = [body] if body else []
        if answer.gzip:
            pieces = [gzip.compress(b"".join(pieces))]
        handler.send_response(200)
        kind = "text/event-stream; charset=utf-8" if streamed else "application/json"
        handler.send_header("content-type", kind)
        if answer.gzip:
            handler.send_header("content-encoding", "gzip")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        end: End = "eof" if answer.cut is not None and answer.end == "whole" else answer.end
        if end in ("whole", "eof"):
            handler.wfile.write(b"0\r\n\r\n")
        self._end(handler, end)

    def _end(self, handler: BaseHTTPRequestHandler, end: End) -> None:
        """`eof`: a clean end of the body; `close`: the connection ends within it."""
        if end == "hang":
            handler.wfile.flush()
            self.over.wait(30)
        if end == "reset":
            linger = struct.pack("ii", 1, 0)
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if end != "whole":
            handler.close_connection = True
        if end in ("reset", "close"):
            handler.wfile.flush()
            handler.connection.close()


def sse(name: str, data: Any) -> bytes:
    text = json.dumps(data, ensure_ascii=True)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def split(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


class AnthropicServer(Server):
    """Anthropic's Messages."""

    path = "/v1/messages"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'

    def faults(self, body: dict[str, Any]) -> Iterator[str]:
        yield from strict.messages(body)

    def _blocks(self, answer: Answer) -> Iterator[dict[str, Any]]:
        if answer.thinking:
            yield {"type": "thinking", "thinking": answer.thinking, "signature": answer.signature}
        if answer.redacted:
            yield {"type": "redacted_thinking", "data": answer.redacted}
        if answer.text:
            yield {"type": "text", "text": answer.text}
        for id, name, raw in answer.calls:
            yield {"type": "tool_use", "id": id, "name": name, "input": raw}

    def _stop(self, answer: Answer) -> str | None:
        if answer.stop == "fitting":
            return "tool_use" if answer.calls else "end_turn"
        return answer.stop

    def _usage(self, answer: Answer) -> dict[str, int]:
        sent, got, read, wrote = answer.usage
        return {
            "input_tokens": sent,
            "output_tokens": got,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": wrote,
        }

    def complete(self, answer: Answer) -> dict[str, Any]:
        blocks = [*self._blocks(answer)]
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["input"] or "{}")
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "fake-model",
            "content": blocks,
            "stop_reason": self._stop(answer),
            "stop_sequence": None,
            "usage": self._usage(answer),
        }

    def stream(self, answer: Answer) -> Iterator[bytes]:
        usage = {**self._usage(answer), "output_tokens": 1}
        empty = {**self.complete(Answer()), "content": [], "stop_reason": None, "usage": usage}
        yield sse("message_start", {"type": "message_start", "message": empty})
        yield self.ping
        for index, block in enumerate(self._blocks(answer)):
            yield from self._streamed(index, block, answer.size)
        if answer.error:
            kind, words = answer.error
            error = {"type": "error", "error": {"type": kind, "message": words}}
            yield sse("error", error)
            return
        delta = {"stop_reason": self._stop(answer), "stop_sequence": None}
        counted = {"output_tokens": answer.usage[1]}
        yield sse("message_delta", {"type": "message_delta", "delta": delta, "usage": counted})
        if answer.done:
            yield sse("message_stop", {"type": "message_stop"})

    def _streamed(self, index: int, block: dict[str, Any], size: int) -> Iterator[bytes]:
        fields = {
            "text": ("text", "text_delta", "text"),
            "thinking": ("thinking", "thinking_delta", "thinking"),
            "tool_use": ("input", "input_json_delta", "partial_json"),
        }
        source, kind, key = fields.get(block["type"], ("", "", ""))
        start = dict(block)
        deltas: list[dict[str, Any]] = []
        if source:
            deltas = [{"type": kind, key: piece} for piece in split(block[source], size)]
            start[source] = {} if source == "input" else ""
        if block["type"] == "thinking":
            start["signature"] = ""
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        place = {"index": index}
        begin = {"type": "content_block_start", **place, "content_block": start}
        yield sse("content_block_start", begin)
        for delta in deltas:
            name = "content_block_delta"
            yield sse(name, {"type": name, **place, "delta": delta})
        yield sse("content_block_stop", {"type": "content_block_stop", **place})


class OpenAIServer(Server):
    """Chat completions."""

    path = "/v1/chat/completions"

    def faults(self, body: dict[str, Any]) -> Iterator[str]:
        yield from strict.completions(body)

    def _stop(self, answer: Answer) -> str | None:
        if answer.stop == "fitting":
            return "tool_calls" if answer.calls else "stop"
        return answer.stop

    def _usage(self, answer: Answer) -> dict[str, Any]:
        sent, got, read, wrote = answer.usage
        return {
            "prompt_tokens": sent + read + wrote,
            "completion_tokens": got,
            "total_tokens": sent + read + wrote + got,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": wrote},
        }

    def _wrap(self, **rest: Any) -> dict[str, Any]:
        return {"id": "c1", "created": 1, "model": "fake-model", **rest}

    def complete(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": name, "arguments": raw}}
                for id, name, raw in answer.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._stop(answer)}
        return self._wrap(object="chat.completion", choices=[choice], usage=self._usage(answer))

    def _chunk(self, delta: dict[str, Any], stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": stop}
        return sse("", self._wrap(object="chat.completion.chunk", choices=[choice]))

    def stream(self, answer: Answer) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in split(answer.thinking, answer.size):
            yield self._chunk({"reasoning_content": piece})
        for piece in split(answer.text, answer.size):
            yield self._chunk({"content": piece})
        for index, (id, name, raw) in enumerate(answer.calls):
            head = {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}
            yield self._chunk({"tool_calls": [{"index": index, **head}]})
            for piece in split(raw, answer.size):
                call = {"index": index, "function": {"arguments": piece}}
                yield self._chunk({"tool_calls": [call]})
        if answer.error:
            kind, words = answer.error
            yield sse("", {"error": {"type": kind, "code": kind, "message": words}})
            return
        if stop := self._stop(answer):
            yield self._chunk({}, stop)
        usage = self._wrap(object="chat.completion.chunk", choices=[], usage=self._usage(answer))
        yield sse("", usage)
        if answer.done:
            yield b"data: [DONE]\n\n"

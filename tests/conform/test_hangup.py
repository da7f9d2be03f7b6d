"""Whether a service sees that nobody waits for its reply any more."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from agent.errors import StoppedError
from agent.message import Message, Request
from agent.providers.anthropic import Anthropic
from agent.providers.openai import OpenAI
from agent.providers.watch import stopping
from agent.providers.wire import Endpoint
from agent.stop import Stop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PING = b"8\r\n: ping\n\n\r\n"
REQUEST = Request(system="s", messages=(Message(role="user", text="hi"),))


class Silent:
    """A service that says `begin` to each request, then nothing, and notes when clients go."""

    def __init__(self, begin: bytes) -> None:
        self.begin = begin
        self.asked, self.closed = SimpleQueue[float](), SimpleQueue[float]()
        self.socket = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.attend, args=(connection,), daemon=True).start()

    def attend(self, connection: socket.socket) -> None:
        with connection:
            data = b""
            while b'"hi"' not in data:
                data += connection.recv(65_536)
            connection.sendall(self.begin)
            self.asked.put(time.monotonic())
            try:
                while connection.recv(65_536):
                    pass
            except ConnectionResetError:
                pass
            self.closed.put(time.monotonic())


@contextmanager
def silent(begin: bytes) -> Iterator[Silent]:
    service = Silent(begin)
    try:
        yield service
    finally:
        with suppress(OSError):
            service.socket.shutdown(socket.SHUT_RDWR)  # or `serve` would take others' calls
        service.socket.close()


@pytest.mark.parametrize("provider", [Anthropic, OpenAI])
@pytest.mark.parametrize("begin", [b"", HEAD, HEAD + PING], ids=["nothing", "head", "ping"])
def test_r100_a_stopped_call_ends_its_connection_within_a_second(
    provider: Any, begin: bytes
) -> None:
    with silent(begin) as service:
        url = f"http://127.0.0.1:{service.socket.getsockname()[1]}"
        endpoint = Endpoint(name="x", model="m", url=url, key="k")
        stop = Stop()
        call = stopping(provider(endpoint), stop, 60.0)
        ended = SimpleQueue[BaseException]()

        def ask() -> None:
            with pytest.raises(StoppedError) as caught:
                call(REQUEST, lambda piece: None)
            ended.put(caught.value)

        threading.Thread(target=ask, daemon=True).start()
        service.asked.get(timeout=50)  # an SDK is imported
        with pytest.raises(Empty):
            service.closed.get_nowait()
        began = time.monotonic()
        stop.set()
        ended.get(timeout=10)
        assert service.closed.get(timeout=10) - began < 1

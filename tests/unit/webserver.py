"""A server on this machine that the tests of the web tools talk to."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from msgspec import Struct


class Seen(Struct, frozen=True):
    """A request as the server got it; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Route: TypeAlias = Callable[[BaseHTTPRequestHandler], None]


def answer(
    body: bytes = b"", type: str | None = "text/html", status: int = 200, **headers: str
) -> Route:
    def route(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        if type is not None:
            request.send_header("Content-Type", type)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return route


class Server:
    def __init__(self, port: int, seen: list[Seen]) -> None:
        self.port = port
        self.seen = seen
        self.url = f"http://127.0.0.1:{port}"


@contextmanager
def serving(routes: Mapping[str, Route]) -> Iterator[Server]:
    """A server with these routes (path → answer) on a free port of 127.0.0.1."""
    seen: list[Seen] = []

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.append(Seen(self.command, self.path, headers, self.rfile.read(size)))
            route = routes.get(self.path.partition("?")[0], answer(b"none", status=404))
            try:
                route(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    with Quiet(("127.0.0.1", 0), Requests) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield Server(server.server_address[1], seen)
        server.shutdown()
        thread.join()


def anywhere(address: IPv4Address | IPv6Address) -> bool:
    """Allows this machine, which the product never does."""
    return address.is_loopback

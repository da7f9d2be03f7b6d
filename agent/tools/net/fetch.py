"""One exchange with a server on the web, within bounds of place, time and size.

The name is resolved once, every address that came of it is checked, and the connection goes to a
checked address, with the name kept for `Host` and TLS: what was checked is what is called. Each
exchange is a thread's, so that it can be left at any moment; leaving it also cuts its connection.
"""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from agent.errors import ToolError
from agent.stop import Stop
from agent.tools.net.address import Address, public, read
from agent.version import __version__

if TYPE_CHECKING:
    import httpx2

CONNECT = 10.0  # seconds to reach one address
TRIED = 3  # addresses of one name
HOPS = 5  # redirects within one server
LONGEST = 8_000  # characters of an address
PACKED = ("", "identity", "gzip", "x-gzip", "deflate")  # one of them, once
MOVED = (301, 302, 303, 307, 308)
HOST = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?|[0-9a-f:.]*:[0-9a-f:.]*")
AGENT = f"tianshu/{__version__}"


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises OSError if it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


class Web(Struct, frozen=True, kw_only=True):
    """How the web is reached, and how much of it."""

    allow: Callable[[Address], bool] = public
    resolve: Callable[[str, int], Sequence[str]] = resolved
    seconds: float = 30  # of one use, redirects and all
    page: int = 2_000_000  # bytes of a page, unpacked
    download: int = 25_000_000  # bytes of a file that is saved


class Ask(Struct, frozen=True, kw_only=True):
    """What is sent."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Page(Struct, frozen=True, kw_only=True):
    """What came back."""

    url: str
    status: int
    type: str  # text/html; "" if it is not said
    charset: str  # as the server says
    body: bytes = b""
    size: int | None = None  # bytes, as the server says
    cut: str = ""  # why the body is not whole
    to: str = ""  # where it redirects to


def fetched(web: Web, url: str, stop: Stop, most: int) -> Page:
    """Get a page, `most` bytes at most, following redirects within its server. One that leads
    elsewhere is given back, with `to` saying where. Raises ToolError."""
    import httpx2

    watch = stop.child(web.seconds)
    at = checked(url)
    for _ in range(HOPS + 1):
        page = exchanged(web, Ask(url=str(at)), watch, stop, most)
        if not page.to:
            return page
        try:
            there = at.join(page.to)
        except httpx2.InvalidURL as error:
            raise ToolError(f"{at} redirects to what is no address") from error
        if not same(at, there):
            return structs.replace(page, to=str(there)[:LONGEST])
        at = checked(str(there))
    raise ToolError(f"{url} redirects more than {HOPS} times")


def checked(url: str) -> "httpx2.URL":
    """An address that may be asked for: http or https, a plain host, nothing that two readers
    could read in two ways. Raises ToolError."""
    import httpx2

    if len(url) > LONGEST or re.search(r"[\x00-\x20\x7f\\\\]|%00", url):
        raise ToolError(f"{url[:200]!r} is no address that can be fetched")
    try:
        at = httpx2.URL(url)
        host = name(at).lower().removesuffix(".")
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(f"{url[:200]} is no address that can be fetched: {error}") from error
    if at.scheme not in ("http", "https"):
        raise ToolError(f"only http and https addresses can be fetched, not {url[:200]}")
    if at.userinfo:
        raise ToolError("an address with a user name or password in it is not fetched")
    if not HOST.fullmatch(host) or (at.port is not None and not 0 < at.port < 65536):
        raise ToolError(f"{url[:200]} names no host that can be reached")
    return at.copy_with(host=host)


def name(url: "httpx2.URL") -> str:
    """The host as resolvers and servers are given it: in ASCII."""
    return url.raw_host.decode("ascii")


def same(one: "httpx2.URL", other: "httpx2.URL") -> bool:
    """Whether two addresses are of one server; http may lead on to https, not back."""

    def port(url: "httpx2.URL") -> int:
        return url.port or {"http": 80, "https": 443}.get(url.scheme, 0)

    if name(one) != name(other).lower().removesuffix("."):
        return False
    if one.scheme == other.scheme:
        return port(one) == port(other)
    return (port(one), port(other)) == (80, 443) and other.scheme == "https"


def exchanged(web: Web, ask: Ask, watch: Stop, stop: Stop, most: int) -> Page:
    """Send one request and read `most` bytes of the answer; no redirect is followed.

    Raises ToolError where no answer has begun to come when `watch` is set, and StoppedError when
    `stop` is. A body that is cut by size, time or a broken line is a page with `cut` set.
    """
    work = Exchange(web, ask, watch, most)
    threading.Thread(target=work.run, daemon=True).start()
    while not work.done.wait(0.05) and not watch.is_set:
        pass
    late = not work.done.is_set()
    work.leave()
    stop.check()
    if work.head is None:
        raise ToolError(
            f"{ask.url}: no answer came within {web.seconds:g} seconds"
            if late
            else f"{ask.url}: {work.fault}"
        )
    cut = work.cut or (f"{web.seconds:g} seconds were up" if late else work.fault)
    return structs.replace(work.head, body=b"".join(work.pieces)[:most], cut=cut)


class Exchange:
    """A request on its way, in a thread of its own."""

    def __init__(self, web: Web, ask: Ask, watch: Stop, most: int) -> None:
        self.done = threading.Event()
        self.head: Page | None = None
        self.pieces: list[bytes] = []
        self.cut = self.fault = ""
        self._web, self._ask, self._watch, self._most = web, ask, watch, most
        self._lock = threading.Lock()
        self._wire: socket.socket | None = None
        self._left = False

    def run(self) -> None:
        import httpx2

        try:
            self._send()
        except (ToolError, httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            self.fault = str(error) or type(error).__name__
        finally:
            with self._lock:
                if self._wire:
                    self._wire.close()
                self._left, self._wire = True, None
            self.done.set()

    def leave(self) -> None:
        """Give it up: its connection ends, and with it its thread."""
        with self._lock:
            self._left = True
            self._end()

    def _end(self) -> None:
        if self._wire:
            with suppress(OSError):  # the other side has ended it
                self._wire.shutdown(socket.SHUT_RDWR)

    def _send(self) -> None:
        import httpx2

        url = checked(self._ask.url)
        timeout = httpx2.Timeout(self._web.seconds, connect=min(CONNECT, self._web.seconds))
        # Reading the system's certificates takes a tenth of a second; plain http needs none.
        verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.scheme == "http" else True
        with httpx2.Client(
            trust_env=False, follow_redirects=False, timeout=timeout, verify=verify
        ) as client:
            *others, last = self._addresses(url)[:TRIED]
            for address in others:
                with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                    return self._receive(client, url, address)
            return self._receive(client, url, last)

    def _addresses(self, url: "httpx2.URL") -> list[str]:
        """The addresses of the host, each of them allowed. Raises ToolError."""
        try:
            found = self._web.resolve(name(url), url.port or 0)
            refused = [text for text in found if not self._web.allow(read(text))]
        except (OSError, ValueError) as error:
            raise ToolError(f"{name(url)} has no address: {error}") from error
        if refused or not found:
            raise ToolError(
                f"{name(url)} is not on the public internet ({', '.join(refused[:3])}); this "
                "machine and its network can't be reached"
            )
        return list(found)

    def _receive(self, client: "httpx2.Client", url: "httpx2.URL", address: str) -> None:
        headers = {
            "Accept": "text/markdown, text/html, text/plain, application/json, */*;q=0.5",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": AGENT,
            **self._ask.headers,
            "Host": url.netloc.decode("ascii"),
        }
        request = client.build_request(
            self._ask.method,
            url.copy_with(host=address),
            headers=headers,
            content=self._ask.body or None,
            extensions={"sni_hostname": name(url), "trace": self._trace},
        )
        with closing(client.send(request, stream=True)) as response:
            packed = response.headers.get("content-encoding", "").strip().lower()
            if packed not in PACKED:  # unpacked piece by piece it would have no bound
                raise ToolError(
                    f"the answer is packed as {packed[:100]!r}, which was not asked for"
                )
            kind, _, rest = response.headers.get("content-type", "").partition(";")
            charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", rest, re.IGNORECASE)
            size = response.headers.get("content-length", "")
            moved = response.status_code in MOVED
            self.head = Page(
                url=self._ask.url,
                status=response.status_code,
                type=kind.strip().lower(),
                charset=charset[1] if charset else "",
                size=int(size) if size.isdecimal() and len(size) < 16 else None,
                to=response.headers.get("location", "") if moved else "",
            )
            self._read(response.iter_bytes())

    def _read(self, pieces: Iterator[bytes]) -> None:
        left = self._most
        for piece in pieces:
            if self._left or self._watch.is_set:
                self.cut = f"{self._web.seconds:g} seconds were up"
                return
            if len(piece) > left:
                self.pieces.append(piece[:left])
                self.cut = f"it is longer than {self._most:,} bytes"
                return
            self.pieces.append(piece)
            left -= len(piece)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Learn the connection as soon as there is one, also while TLS or headers are awaited."""
        if event != "connection.connect_tcp.complete":
            return
        wire: socket.socket = info["return_value"].get_extra_info("socket").dup()
        with self._lock:
            if self._wire:
                self._wire.close()
            self._wire = wire
            if self._left:
                self._end()

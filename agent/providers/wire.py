"""What every model service is reached by: an HTTP client, lines of events, strict JSON.

Bounds: a line of a stream, a whole reply and an answer that refuses have their most bytes; a
connection has its most seconds; and a reply in which nothing comes on but signs of an idle
connection is given up. Redirects are not followed, so a prompt goes where the user said.
"""

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from agent.errors import ServiceError, UsageError
from agent.providers.hangup import watched
from agent.version import __version__

if TYPE_CHECKING:
    import httpx2

MOST_LINE = 8 * 2**20  # bytes of one line of a stream
MOST_REPLY = 64 * 2**20  # bytes of one reply, decompressed
DEEPEST = 100  # levels of JSON: whoever goes through it goes one call deeper for each
MOST_REFUSAL = 2**20  # bytes that are read of an answer that is no reply
CONNECT = 8.0  # seconds until a connection stands, or is held to be impossible
AGENT = f"tianshu/{__version__}"
CUT = (
    "the reply was cut before its end, so nothing of it was run. Write in smaller pieces: a long "
    "file in several calls"
)


class Endpoint(Struct, frozen=True, kw_only=True):
    """One model of one service, and how it is asked."""

    name: str  # as the user names it: SERVICE/NAME
    model: str  # as the service names it
    url: str  # what the service's own paths are added to
    key: str = ""
    origin: str = ""  # where the key comes from, for messages
    max_output_tokens: int = 16_384
    thinking_tokens: int = 0
    effort: str = ""  # low, medium, high; "": as the service has it
    idle: float = 60.0  # seconds that a begun reply may stand still
    silence: float = 60.0  # seconds until the first sign of a reply

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self.url!r})"  # never the key


class Dialect(Struct, frozen=True, kw_only=True):
    """What a server of chat completions takes, beyond what all take."""

    streams: bool = True
    counts: bool = True  # `stream_options`, without which a stream has no usage
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system: bool = True  # false: the system prompt goes into the first user message
    reasoning: Literal["reasoning_content", "reasoning", ""] = "reasoning_content"  # sent back as
    forces: Literal["function", "required", "schema", ""] = "function"  # how a tool is forced;
    # schema: the reply can be nothing but its arguments
    tools: bool = True  # false: they are told of in the prompt, and calls are read from the text
    effort: bool = True  # `reasoning_effort`, which is sent only where the user has set one
    schemas: bool = False  # `response_format` with a schema, which is kept to
    parallel: bool = True  # several calls in one turn
    reads: bool = False  # whether calls may stand in the text though tools are taken


class Memory(Protocol):
    """Remembers what a server has refused: fields of a Dialect, by the model and its URL."""

    def recall(self, server: str, /) -> dict[str, Any]: ...
    def keep(self, server: str, takes: dict[str, Any], /) -> None: ...


class Answered(Exception):  # noqa: N818 - an answer, not yet judged
    """The service answered with something else than 200."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, url: str) -> None:
        super().__init__(f"{status} from {url}")
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body  # its beginning
        self.url = url


def client(endpoint: Endpoint, headers: dict[str, str], owner: object = None) -> "httpx2.Client":
    """A client whose connections are kept and shared between threads.

    Every request has `headers` and, of those with other names, only what an API needs. Any answer
    but 200 raises Answered. A service on this machine is never asked through a proxy. `owner`'s
    end closes it, where there is one.
    """
    import httpx2

    def plain(request: httpx2.Request) -> None:
        for name in [*request.headers]:
            if name.lower() not in NEEDED and not name.lower().startswith(("x-stainless-", "anth")):
                del request.headers[name]
        request.headers.update(headers)

    def judge(response: httpx2.Response) -> None:
        if response.status_code != 200:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MOST_REFUSAL:
                    break
            names = {name.lower(): value for name, value in response.headers.items()}
            raise Answered(response.status_code, names, bytes(body), str(response.url))

    near = loopback(endpoint.url)
    read = max(endpoint.idle, endpoint.silence) + 5  # the watch over the call comes first
    made = httpx2.Client(
        verify=not (near and endpoint.url.startswith("http://")),  # loading certificates takes time
        timeout=httpx2.Timeout(read, connect=CONNECT, pool=CONNECT),
        limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16),
        follow_redirects=False,
        trust_env=not near,
        event_hooks={"request": [plain], "response": [judge]},
    )
    if owner is not None:
        weakref.finalize(owner, made.close)
    return watched(made)


NEEDED = frozenset(
    ("host", "accept", "accept-encoding", "connection", "content-length", "content-type")
)


def loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def base(text: str, *, endings: tuple[str, ...], root: str = "") -> str:
    """The base URL that `text` means, in whatever form people type it.

    `endings` are taken off where they stand at its end; `root` is the path of a URL that has none.
    Raises UsageError for what is no URL.
    """
    url = text.strip()
    if "://" not in url:
        host = url.partition("/")[0]
        near = host.startswith(("localhost", "127.", "[::1]", "0.0.0.0"))
        url = ("http://" if near else "https://") + url
    wrong = UsageError(f"{text!r} is no base URL", hint="one looks like https://host/v1")
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise wrong from None
    if not known or any(ord(letter) <= 32 for letter in url):
        raise wrong
    path = parts.path.rstrip("/")
    for ending in endings:
        path = path.removesuffix(ending).rstrip("/")
    return parts._replace(path=path or root, fragment="", query="").geturl()


class Pulse:
    """Whether a reply comes on. Bytes alone are no progress: an idle connection sends some, too."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._last = clock()
        self._limit = max(endpoint.silence, endpoint.idle)

    def beat(self) -> None:
        """Note progress."""
        self._last = self._clock()
        self._limit = self._endpoint.idle

    def over(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks. Raises ServiceError where they go on and the reply does not."""
        for chunk in chunks:
            if self._clock() - self._last > self._limit:
                raise ServiceError(
                    f"{self._endpoint.name}: the reply stood still for {self._limit:g} s",
                    retry_after=0,
                )
            yield chunk


@contextmanager
def opened(response: "httpx2.Response", pulse: Pulse) -> Iterator[tuple[str, Iterator[bytes]]]:
    """A reply's kind and its chunks: "stream", "json", or what else it says that it is.

    Leaving it gives the connection back once the reply's end has come, which a server may forget to
    send: nobody waits for it.
    """
    done = False
    chunks = pulse.over(response.iter_bytes())
    try:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if "event-stream" in kind:
            yield "stream", chunks
        else:
            start = b""
            while len(start.lstrip()) < 8 and (chunk := next(chunks, b"")):
                start += chunk
            begin = start.lstrip()
            if begin.startswith((b"{", b"[")):
                kind = "json"
            elif begin.startswith((b"data:", b"event:", b": ", b"id:")):
                kind = "stream"
            yield kind, chain([start], chunks)
        done = True
    finally:
        if done:
            rest = threading.Thread(target=drain, args=(response, chunks), daemon=True)
            rest.start()
            rest.join(0.05)
        else:
            response.close()


def drain(response: "httpx2.Response", chunks: Iterable[bytes]) -> None:
    import httpx2

    with suppress(httpx2.HTTPError, httpx2.StreamError, OSError, ServiceError), closing(response):
        for _ in islice(chunks, 64):
            pass


class Event(Struct, frozen=True):
    """A server-sent event."""

    name: str
    data: bytes
    ended: bool = True  # false: the stream ended within it


def lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Lines, ended by LF or CRLF and nothing else, and whether each was ended.

    Raises ServiceError where a line or the whole is larger than any reply can be.
    """
    held, total = bytearray(), 0
    for chunk in chunks:
        total += len(chunk)
        if total > MOST_REPLY:
            raise ServiceError(f"the reply is larger than {MOST_REPLY >> 20} MB", retry_after=None)
        held += chunk
        if b"\n" in chunk:
            *whole, held = held.split(b"\n")
            for line in whole:
                if len(line) > MOST_LINE:
                    raise ServiceError("a line of the reply is too long", retry_after=None)
                yield bytes(line.removesuffix(b"\r")), True
        if len(held) > MOST_LINE:
            raise ServiceError("a line of the reply is too long", retry_after=None)
    if held:
        yield bytes(held), False


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream (HTML Standard, 9.2.6); one that has no data is none."""
    name, data, ended = "", list[bytes](), True
    for line, ended in lines(chunks):  # noqa: B007 - of the last line, after the loop
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if data:
                yield Event(name, b"\n".join(data))
            name, data = "", []
        elif field.removeprefix(b"\xef\xbb\xbf") == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    if data:
        yield Event(name, b"\n".join(data), ended)


def body(chunks: Iterable[bytes]) -> bytes:
    """All of a reply that comes as one. Raises ServiceError where it is too large."""
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > MOST_REPLY:
            raise ServiceError(f"the reply is larger than {MOST_REPLY >> 20} MB", retry_after=None)
    return bytes(whole)


def strict(text: str | bytes) -> Any:
    """`text` read as JSON: UTF-8, no key twice, no NaN. Raises ValueError for anything else."""

    def single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {twice!r} stands there twice")
        return read

    def none(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        plain = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(plain, object_pairs_hook=single, parse_constant=none)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if plain.count("[") + plain.count("{") > DEEPEST and _deep(value):
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return value


def _deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        inner = [each.values() if isinstance(each, dict) else each for each in level
                 if isinstance(each, dict | list)]  # fmt: skip
        level = [value for each in inner for value in each]
        if not inner:
            return False
    return True


def arguments(raw: str) -> tuple[dict[str, Any], str]:
    """The arguments of a call as the model wrote them, and what is wrong with them.

    Nothing is mended: a call whose arguments can't be read is answered with the fault.
    """
    if not raw.strip():
        return {}, ""
    try:
        read = strict(raw)
    except json.JSONDecodeError as error:
        if error.pos >= len(raw.rstrip()) or error.msg.startswith("Unterminated"):
            return {}, (
                f"the arguments end in the middle, after {len(raw)} characters: the reply was cut. "
                "Nothing was run. Send it again in smaller pieces: write a long file in parts"
            )
        return (
            {},
            f"the arguments are no valid JSON ({error}). Nothing was run; send the call again",
        )
    except ValueError as error:
        return {}, f"the arguments are no valid JSON: {error}. Nothing was run; send the call again"
    if not isinstance(read, dict):
        return {}, "the arguments have to be a JSON object. Nothing was run; send the call again"
    return read, ""


def clean(value: Any) -> Any:
    """`value` with every text in it fit for UTF-8 and JSON.

    Two halves of a character that stand beside each other become the character; a half alone and
    NUL become U+FFFD.

    >>> clean({"a": ["\\ud83d\\ude00", "x\\ud800", 1]}) == {"a": ["\\U0001f600", "x\\ufffd", 1]}
    True
    """
    match value:
        case str():
            if value.isascii() and "\0" not in value:
                return value
            joined = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            return joined.replace("\0", "\ufffd")
        case dict():
            return {clean(key): clean(item) for key, item in value.items()}
        case list() | tuple():
            return [clean(item) for item in value]
        case _:
            return value


class Pieces:
    """A text that arrives in pieces, some of which may end within a character."""

    def __init__(self) -> None:
        self._whole = list[str]()
        self._half = ""

    def add(self, piece: str) -> str:
        """Take a piece; what of it can be shown now, which may be nothing."""
        piece = self._half + piece
        self._half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
        shown: str = clean(piece[: len(piece) - len(self._half)])
        self._whole.append(shown)
        return shown

    @property
    def text(self) -> str:
        return "".join(self._whole) + ("\ufffd" if self._half else "")

    def __bool__(self) -> bool:
        return any(self._whole) or bool(self._half)

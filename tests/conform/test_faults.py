"""What goes wrong between a service and us, and whom it is told."""

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import httpx2
import pytest

from agent.errors import (
    ModelError,
    ServiceError,
    SetupError,
    StoppedError,
    TooLongError,
)
from agent.message import Reply
from agent.providers import anthropic, failure
from agent.providers.anthropic import Anthropic
from agent.providers.blocks import Assembly as Blocks
from agent.providers.choices import Assembly as Choices
from agent.providers.openai import OpenAI
from agent.providers.retry import retrying
from agent.providers.watch import stopping
from agent.providers.wire import Endpoint, Pulse, events, opened
from agent.stop import INTERRUPTED, Stop
from tests.conform.wires import STREAMED, WIRES, Wire, asked, heard
from tests.servers import (
    Answer,
    AnthropicServer,
    Drip,
    OpenAIServer,
    Plain,
    Scripted,
    Server,
    failing,
)

every = pytest.mark.parametrize("wire", WIRES, ids=repr)
streamed = pytest.mark.parametrize("wire", STREAMED, ids=repr)
SPOKEN = Answer("One two three four five six seven.", calls=(("t1", "bash", '{"command": "ls"}'),))


def patient(wire: Wire, server: Server) -> tuple[list[float], list[str], ModelError | Reply]:
    """Ask with five tries; the waits, what was told of them, and how it ended."""
    waits: list[float] = []
    told: list[str] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return False

    provider = retrying(wire.provider(server), wait, told.append)
    try:
        return waits, told, heard(provider, asked("hi"))[0]
    except ModelError as error:
        return waits, told, error


@streamed
@pytest.mark.parametrize("fault", ["429", "500", "529", "reset", "cut"])
def test_r74_whoever_asks_decides_about_another_try_and_nobody_else(wire: Wire, fault: str) -> None:
    cut: dict[str, Scripted] = {"reset": Answer("One two", cut=300, end="reset")}
    cut |= {"cut": Answer("One two", done=False, stop=None)}
    answer = cut.get(fault) or failing(int(fault), retry_after="0.01")
    with wire.server(answer) as server, suppress(ServiceError):
        heard(wire.provider(server), asked("hi"))
    assert len(server.requests) == 1


@streamed
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_r76_a_passing_failure_is_tried_five_times_and_each_wait_is_longer(
    wire: Wire, status: int
) -> None:
    with wire.server(failing(status, words="too busy")) as server:
        waits, told, error = patient(wire, server)
    assert isinstance(error, ServiceError)
    assert len(server.requests) == 5
    assert len(waits) == 4
    assert sorted(waits) == waits
    assert sum(waits) <= 7.5
    assert str(status) in str(error)
    assert "too busy" in str(error)
    assert "trying again" in told[0]


@streamed
def test_a_service_that_is_back_answers_the_same_request(wire: Wire) -> None:
    with wire.server(failing(529), failing(500), Answer("hello")) as server:
        waits, _, reply = patient(wire, server)
    assert isinstance(reply, Reply)
    assert reply.message.text == "hello"
    assert len(waits) == 2
    assert len({str(each.json) for each in server.requests}) == 1


@streamed
@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", ModelError),
        (401, "authentication_error", SetupError),
        (403, "permission_error", SetupError),
        (404, "not_found_error", ModelError),
        (413, "request_too_large", TooLongError),
        (422, "invalid", ModelError),
        (429, "insufficient_quota", SetupError),
        (402, "payment", SetupError),
    ],
)
def test_r76_a_lasting_failure_is_asked_once(
    wire: Wire, status: int, kind: str, error: type[ModelError]
) -> None:
    with wire.server(failing(status, kind, "the server's own words")) as server:
        waits, _, got = patient(wire, server)
    assert type(got) is error
    assert "the server's own words" in str(got)
    assert len(server.requests) == 1
    assert waits == []


@streamed
@pytest.mark.parametrize(
    ("asks", "waited"),
    [
        ("1", 1.0),
        ("59", 59.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("inf", 0.0),
        ("soon", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
    ],
)
def test_r75_what_the_service_asks_to_wait_is_waited(wire: Wire, asks: str, waited: float) -> None:
    now = "Wed, 21 Oct 2026 07:28:00 GMT"  # by the service's clock
    with wire.server(failing(429, retry_after=asks, date=now), Answer("hello")) as server:
        [wait], [told], reply = patient(wire, server)
    assert isinstance(reply, Reply)
    assert wait == pytest.approx(max(waited, 0.44), abs=0.07)
    assert f"{wait:.1f} s" in told


@streamed
@pytest.mark.parametrize("year", [1999, 2044])
def test_r88_a_date_to_wait_for_is_read_by_the_service_s_clock(wire: Wire, year: int) -> None:
    now, then = (f"Wed, 21 Oct {year} 07:28:{second:02} GMT" for second in (0, 40))
    with wire.server(failing(429, retry_after=then, date=now), Answer("hello")) as server:
        [wait], _, _ = patient(wire, server)
    assert wait == 40


@streamed
def test_r75_milliseconds_are_read_too(wire: Wire) -> None:
    busy = failing(429, retry_after_ms="2500", retry_after="3")
    with wire.server(busy, Answer("hello")) as server:
        [wait], _, _ = patient(wire, server)
    assert wait == 2.5


@streamed
def test_r75_a_service_that_asks_for_more_than_a_minute_is_not_waited_for(wire: Wire) -> None:
    with wire.server(failing(429, retry_after="3600")) as server:
        waits, _, error = patient(wire, server)
    assert waits == []
    assert isinstance(error, ServiceError)
    assert "3600 s" in str(error)


@streamed
@pytest.mark.parametrize(
    "words",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens",
        "the request exceeds the available context size",
        "Please reduce the length of the messages or completion.",
    ],
)
def test_a_conversation_that_does_not_fit_is_told_apart(wire: Wire, words: str) -> None:
    with wire.server(failing(400, "invalid_request_error", words)) as server:
        _, _, error = patient(wire, server)
    assert isinstance(error, TooLongError)


BROKEN: dict[str, Scripted] = {
    "reset within a call": replace(SPOKEN, cut=-90, end="reset"),
    "less than its length": Plain(
        200,
        b'data: {"type": "message_start", "message": {}}\n\n',
        {"content-type": "text/event-stream", "content-length": "9999"},
        end="close",
    ),
    "an error as the whole": Plain(
        200,
        b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
        {"content-type": "application/json"},
    ),
    "reset": Answer(SPOKEN.text, cut=700, end="reset"),
    "closed within a chunk": Answer(SPOKEN.text, cut=700, end="close"),
    "an error inside": Answer("One two", error=("overloaded_error", "Overloaded")),
    "bad JSON": Plain(200, b"data: {broken}\n\n", {"content-type": "text/event-stream"}),
    "bad UTF-8": Plain(200, b'data: {"a": "\xff"}\n\n', {"content-type": "text/event-stream"}),
    "not an object": Plain(200, b'{"type": 5}', {"content-type": "application/json"}),
    "nothing": Plain(200, b"", {"content-type": "text/event-stream"}),
    "nothing as JSON": Plain(200, b"", {"content-type": "application/json"}),
    "no answer": Plain(200, b"", end="reset"),
    "bad gzip": Plain(
        200, b"no gzip", {"content-type": "text/event-stream", "content-encoding": "gzip"}
    ),
}


@streamed
@pytest.mark.parametrize("fault", BROKEN)
def test_r77_a_reply_that_breaks_is_asked_for_again(wire: Wire, fault: str) -> None:
    with wire.server(BROKEN[fault], Answer("hello")) as server:
        waits, _, reply = patient(wire, server)
    assert isinstance(reply, Reply), reply
    assert reply.message.text == "hello"
    assert len(waits) == 1


@streamed
def test_r78_a_stream_that_ends_without_saying_so_is_cut(wire: Wire) -> None:
    with wire.server(Answer("One two", done=False, stop=None)) as server:
        reply, _ = heard(wire.provider(server), asked("hi"))
    assert reply.stop == "length"
    assert reply.message.text == "One two"


@streamed
def test_an_error_inside_a_stream_is_judged_by_its_kind(wire: Wire) -> None:
    kinds = {"overloaded_error": ServiceError, "authentication_error": SetupError}
    for kind, expected in kinds.items():
        with wire.server(Answer("One", error=(kind, "words"))) as server:
            waits, _, error = patient(wire, server)
        assert type(error) is expected
        assert "words" in str(error)
        assert bool(waits) == (expected is ServiceError)


@streamed
@pytest.mark.parametrize("status", [200, 404])
def test_c065_r78_a_web_page_is_told_with_the_url_that_was_called(wire: Wire, status: int) -> None:
    page = b"<!doctype html><title>Welcome</title><p>hello"
    with wire.server(Plain(status, page, {"content-type": "text/html"})) as server:
        _, _, error = patient(wire, server)
    assert type(error) is ModelError
    assert f"{server.url}{server.path}" in str(error)
    assert "web page" in str(error)
    assert len(server.requests) == 1


@streamed
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_r89_a_redirect_gets_no_prompt(wire: Wire, status: int) -> None:
    with wire.server(Answer("stolen")) as other:
        to = {"location": other.url + other.path}
        with wire.server(Plain(status, b"", to)) as server:
            _, _, error = patient(wire, server)
    assert type(error) is ModelError
    assert other.url in str(error)
    assert other.requests == []


@streamed
def test_r89_a_huge_line_and_a_huge_reply_are_given_up(wire: Wire) -> None:
    kind = {"content-type": "text/event-stream"}
    line = Plain(200, b"data: " + b"x" * (9 << 20), kind)
    with wire.server(line) as server:
        waits, _, error = patient(wire, server)
    assert isinstance(error, ServiceError)
    assert "too long" in str(error)
    assert waits == []


@streamed
def test_r89_a_reply_that_inflates_beyond_any_is_given_up(wire: Wire) -> None:
    kind = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    bomb = gzip.compress((b":" + b"x" * (1 << 20) + b"\n") * 70, 1)
    with wire.server(Plain(200, bomb, kind)) as server:
        _, _, error = patient(wire, server)
    assert isinstance(error, ServiceError)
    assert "64 MB" in str(error)


@streamed
@pytest.mark.parametrize("key", ["", "  ", "sk\n1", "sk 1", "schlüssel", "sk-1\n"])
def test_r85_a_key_that_can_be_none_is_not_sent(wire: Wire, key: str) -> None:
    with wire.server(Answer("x")) as server:
        provider = wire.provider(server, key=key, origin="TS_TEST_KEY")
        with pytest.raises(SetupError, match="TS_TEST_KEY") as caught:
            heard(provider, asked("hi"))
    assert not key.strip() or key.strip() not in str(caught.value)
    assert server.requests == []


@streamed
def test_r85_a_refused_key_is_named_by_its_source_and_never_shown(wire: Wire) -> None:
    key = "sk-abcdefghijklmnop"
    echo = failing(401, "authentication_error", f"Incorrect API key provided: {key}")
    with wire.server(echo) as server, pytest.raises(SetupError, match="TS_TEST_KEY") as caught:
        heard(wire.provider(server, key=key, origin="TS_TEST_KEY"), asked("hi"))
    assert key not in str(caught.value)
    assert "abcdef" not in str(caught.value)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def listening(answers: bool) -> Iterator[str]:
    """A port that takes connections and says nothing, or something that is no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if answers:

            def serve() -> None:
                taken, _ = server.accept()
                with taken:
                    taken.recv(100)
                    taken.sendall(b"220 mail.example ready\r\n")

            threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def told(wire: Wire, url: str) -> str:
    endpoint = Endpoint(name="fake/model", model="fake", url=url, key="k")
    with pytest.raises(ServiceError) as caught:
        heard(wire.make(endpoint), asked("hi"))
    return str(caught.value)


@streamed
def test_r86_a_connection_s_faults_are_told_apart(wire: Wire) -> None:
    port = free_port()
    assert f"nothing listens at 127.0.0.1:{port}" in told(wire, f"http://127.0.0.1:{port}")
    with wire.server(Answer("x")) as server:
        assert "TLS" in told(wire, server.url.replace("http:", "https:"))
    with listening(answers=True) as place:
        assert "broke" in told(wire, f"http://{place}")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), r"models.test can't be looked up"),
        (ssl.SSLCertVerificationError("self-signed"), "certificate of models.test"),
        (httpx2.ProxyError("403 Forbidden"), "proxy on the way to models.test"),
        (httpx2.ConnectTimeout("x"), "no connection to models.test in time"),
        (httpx2.ReadTimeout("x"), "silent"),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), "no TLS connection to models.test"),
    ],
)
def test_r86_what_can_not_be_had_on_loopback_is_told_apart_too(
    cause: Exception, words: str
) -> None:
    endpoint = Endpoint(name="fake/model", model="fake", url="https://models.test/v1")
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = cause
    with pytest.raises(ServiceError, match=words):
        raise failure.of_network(error, endpoint)


def test_r77_a_tls_connection_that_is_cut_within_a_reply_may_be_tried_again() -> None:
    endpoint = Endpoint(name="fake/model", model="fake", url="https://models.test/v1")
    error = httpx2.ReadError("EOF occurred in violation of protocol")
    error.__cause__ = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    told = failure.of_network(error, endpoint)
    assert "the TLS connection to models.test broke" in str(told)
    assert told.retry_after == 0


class Slow:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_r87_bytes_that_bring_nothing_do_not_keep_a_reply_alive() -> None:
    clock = Slow()
    endpoint = Endpoint(name="fake/model", model="fake", url="http://x", idle=60, silence=90)
    pulse = Pulse(endpoint, clock)

    def pings() -> Iterator[bytes]:
        for _ in range(200):
            clock.now += 1
            yield b": ping\n\n"

    with pytest.raises(ServiceError, match="stood still for 90 s"):
        list(pulse.over(pings()))
    pulse.beat()
    begun = clock.now
    with pytest.raises(ServiceError, match="stood still for 60 s"):
        list(pulse.over(pings()))
    assert clock.now - begun == pytest.approx(61)


HANGS: dict[str, Scripted] = {
    "before anything": Answer("x", late=20),
    "within the stream": Answer(SPOKEN.text, cut=500, end="hang"),
    "pings only": Drip(),
    "no end after the last piece": Answer("x", stop=None, done=False, end="hang"),
}


@streamed
@pytest.mark.parametrize("hang", HANGS)
def test_a_stop_ends_the_wait_at_once_whatever_the_service_does(wire: Wire, hang: str) -> None:
    stop = Stop()
    with wire.server(HANGS[hang]) as server:
        provider = stopping(wire.provider(server), stop, idle=30)
        pieces: list[str] = []
        timer = threading.Timer(0.3, stop.set, (INTERRUPTED,))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(StoppedError) as caught:
            provider(asked("hi"), pieces.append)
        assert time.monotonic() - begun < 1.5
        assert caught.value.exit_code == INTERRUPTED
        timer.join()
        before = len(pieces)
    assert len(pieces) == before


@streamed
def test_a_call_that_nobody_waits_for_any_more_is_not_sent(wire: Wire) -> None:
    with wire.server(Answer("x")) as server:
        provider = wire.provider(server)
        assert isinstance(provider, Anthropic | OpenAI)
        before = threading.enumerate()
        with provider._lock:  # as while the SDK is loaded
            with pytest.raises(ServiceError):
                stopping(provider, Stop(), idle=0.2)(asked("hi"), lambda piece: None)
            [left] = [
                each
                for each in threading.enumerate()
                if each.name == "model" and each not in before
            ]
        left.join(10)
        assert not left.is_alive()
        heard(provider, asked("only this"))
    assert len(server.requests) == 1


@streamed
@pytest.mark.parametrize("hang", HANGS)
def test_r87_a_service_that_gives_no_sign_of_life_is_given_up(wire: Wire, hang: str) -> None:
    with wire.server(HANGS[hang]) as server:
        provider = stopping(wire.provider(server), Stop(), idle=0.3)
        with pytest.raises(ServiceError, match="no sign of a reply"):
            provider(asked("hi"), lambda piece: None)


@streamed
def test_an_ended_reply_is_not_waited_on_where_the_connection_stays_open(wire: Wire) -> None:
    with wire.server(Answer("hello", end="hang")) as server:
        begun = time.monotonic()
        reply, _ = heard(wire.provider(server), asked("hi"))
        assert time.monotonic() - begun < 3
    assert (reply.message.text, reply.stop) == ("hello", "end")


@streamed
def test_a_connection_is_used_again(wire: Wire) -> None:
    with wire.server(Answer("hello")) as server:
        provider = wire.provider(server)
        for _ in range(5):
            heard(provider, asked("hi"))
    assert server.connections == 1


def streams() -> dict[str, bytes]:
    short = replace(SPOKEN, text="One 😀", size=12)
    with AnthropicServer([short]) as one, OpenAIServer([short]) as two:
        return {"anthropic": b"".join(one.stream(short)), "openai": b"".join(two.stream(short))}


def read(wire: str, chunks: list[bytes]) -> Reply | ModelError:
    """What an adapter makes of these bytes."""
    endpoint = Endpoint(name="fake/model", model="fake", url="http://x", key="k")
    headers = {"content-type": "text/event-stream"}
    request = httpx2.Request("POST", "http://x")
    response = httpx2.Response(200, headers=headers, content=iter(chunks), request=request)
    try:
        if wire == "anthropic":
            blocks = Blocks(endpoint, lambda piece: None)
            anthropic.read(response, endpoint, blocks)
            return blocks.reply(asked("hi"))
        choices = Choices(endpoint, lambda piece: None)
        OpenAI(endpoint)._read(response, choices)
        return choices.reply(asked("hi"))
    except ModelError as error:
        return error


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_a_reply_cut_at_any_byte_is_never_taken_for_another(wire: str) -> None:
    body = streams()[wire]
    good = read(wire, [body])
    assert isinstance(good, Reply)
    assert good.stop == "calls"
    outcomes = set()
    for cut in range(len(body)):
        match read(wire, [body[:cut]]):
            case Reply() as reply:
                whole = reply.message == good.message and reply.stop == "calls"
                assert whole or reply.stop == "length", cut
                assert whole or all(call.fault for call in reply.message.calls), cut
                outcomes.add("whole" if whole else "cut")
            case error:
                assert isinstance(error, ServiceError), cut
                assert error.retry_after is not None
                outcomes.add("error")
    assert outcomes >= {"cut", "error"}


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_a_reply_is_the_same_however_its_bytes_are_cut_into_chunks(wire: str) -> None:
    body = streams()[wire]
    crlf = body.replace(b"\n", b"\r\n")
    good = read(wire, [body])
    for size in (1, 2, 3, 7, 64):
        for text in (body, crlf):
            assert read(wire, [text[at : at + size] for at in range(0, len(text), size)]) == good


def test_only_line_feeds_end_a_line_of_a_stream() -> None:
    text = 'data: "a\u2028b\x85c\x0bd\re"\n\n'.encode()
    [event] = events([text])
    assert event.data == '"a\u2028b\x85c\x0bd\re"'.encode()


def test_a_response_that_is_left_early_is_closed() -> None:
    request = httpx2.Request("POST", "http://x")
    chunks = iter([b"data: 1\n\n"] * 9)
    headers = {"content-type": "text/event-stream"}
    response = httpx2.Response(200, headers=headers, content=chunks, request=request)
    pulse = Pulse(Endpoint(name="fake/model", model="fake", url="http://x"))

    def leave() -> None:
        with opened(response, pulse) as (_, read):
            next(read)
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert response.is_closed

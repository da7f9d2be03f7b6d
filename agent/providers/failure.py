"""What a model service's refusals and a network's faults mean, in the words of agent.errors.

Retried with the same request: 408, 409, 429, 5xx, and all that can happen to a connection. Not
retried: a key that is refused, an account without credit, a request that is wrong. `retry_after`
is the wait that the service asked for, 0 where it asked for none.
"""

import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from agent.errors import ModelError, ServiceError, SetupError, TooLongError
from agent.providers import window
from agent.providers.wire import Answered, Endpoint, strict
from agent.secret import masked

MOST_WAIT = 60.0  # seconds that we wait because a service says so; longer is told to the user
MOST_WORDS = 500  # characters shown of what a service says

TOO_LONG = re.compile(
    r"prompt is too long|input is too long|input length and `?max_tokens`? exceed|context.?length"
    r"|context.?window|context.?size|maximum context|maximum prompt length|too many (input )?tokens"
    r"|exceeds the maximum number of tokens|reduce the length of|exceeded model token limit"
    r"|request.?too.?large|max_new_tokens.{0,20}must be",
    re.IGNORECASE,
)  # Anthropic, OpenAI, llama.cpp, LM Studio, vLLM, Gemini, Mistral, xAI, Cerebras, Kimi, Together
NO_CREDIT = re.compile(
    r"insufficient.?(quota|balance|funds|credit)|credit balance is too low"
    r"|billing.?(not.?active|hard)|exceeded_current_quota|billing_error|payment.required",
    re.IGNORECASE,
)


def check_key(endpoint: Endpoint) -> None:
    """Raise SetupError for a key that no header can carry, without asking the service."""
    key = endpoint.key
    what = ""
    if not key.strip():
        what = "is empty"
    elif key != key.strip() or any(letter.isspace() for letter in key):
        what = "has white space in it"
    elif not (key.isascii() and key.isprintable()):
        what = "has a character that no key has"
    if what:
        raise SetupError(f"{endpoint.name}: the key from {endpoint.origin or 'nowhere'} {what}")


def of_answer(answer: Answered, endpoint: Endpoint) -> ModelError:
    """The error that an answer other than 200 means."""
    kind, words = said(answer.body)
    words = private(words, endpoint)
    where = f"{endpoint.name}: {safe(answer.url)} answered {answer.status}"
    if 300 <= answer.status < 400:
        target = safe(answer.headers.get("location", "elsewhere"))
        return ModelError(
            f"{where}, a redirect to {target}, which is not followed",
            hint="if that is where the model is, set it as the base URL",
        )
    return of_status(answer.status, f"{kind} {words}", f"{where}: {words}", answer, endpoint)


def of_status(
    status: int, search: str, text: str, answer: Answered | None, endpoint: Endpoint
) -> ModelError:
    """The error that a status means, whether it came as an answer's or inside a stream."""
    if status in (400, 402, 403, 429) and (status == 402 or NO_CREDIT.search(search)):
        return SetupError(f"{text} (the account has no credit)")
    if status in (401, 403):
        origin = f"the key from {endpoint.origin}" if endpoint.key else "a request without a key"
        return SetupError(f"{text} ({origin} was refused)")
    if status == 413 or (status in (400, 422, 500) and TOO_LONG.search(search)):
        body = answer.body[:4000].decode("utf-8", "replace") if answer else ""
        most, size = window.named(f"{search} {body}")
        return TooLongError(text, most=most, size=size)
    if status in (408, 409, 425, 429) or status >= 500:
        return later(text, wish(answer.headers) if answer else None)
    return ModelError(text, hint="" if status != 404 else "check the model's name and the base URL")


KINDS = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "authentication_error": 401,
    "permission_error": 403,
    "billing_error": 402,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
    "insufficient_quota": 402,
    "rate_limit_exceeded": 429,
    "context_length_exceeded": 400,
}


def of_stream(error: Any, endpoint: Endpoint) -> ModelError:
    """The error that an `error` inside a stream means; the stream's own status was 200."""
    kind, words = spoken(error)
    code = error.get("code") if isinstance(error, Mapping) else None
    known = [KINDS[part] for part in kind.split() if part in KINDS]
    status = code if isinstance(code, int) and 400 <= code < 600 else [*known, 500][0]
    text = f"{endpoint.name}: the reply broke off: {private(words or kind or 'an error', endpoint)}"
    return of_status(status, f"{kind} {words}", text, None, endpoint)


def later(text: str, wished: float | None) -> ServiceError:
    """A failure for the moment, to be tried again after what the service wished."""
    if wished is not None and wished > MOST_WAIT:
        return ServiceError(f"{text} (it asks to wait {wished:.0f} s)", retry_after=None)
    return ServiceError(text, retry_after=wished or 0.0)


def wish(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer asks to wait; None where it says none that can be read."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * unit
            if isfinite(seconds):
                return max(seconds, 0.0)
        except ValueError:
            pass  # not a number: a date, perhaps
        try:
            then = parsedate_to_datetime(text).timestamp()
        except (ValueError, TypeError, OverflowError):
            continue
        try:  # by the service's clock, where it tells it: ours may be wrong
            now = parsedate_to_datetime(headers.get("date", "")).timestamp()
        except (ValueError, TypeError, OverflowError):
            now = time.time()
        return max(then - now, 0.0)
    return None


def of_network(error: BaseException, endpoint: Endpoint) -> ModelError:
    """The error that a connection's fault means; says which fault it was."""
    import httpx2

    url = urlsplit(endpoint.url)
    host = url.hostname or endpoint.url
    place = f"{host}:{url.port}" if url.port else host
    for cause in causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return ServiceError(
                    f"{endpoint.name}: the TLS certificate of {host} can't be trusted "
                    f"({getattr(cause, 'verify_message', '') or 'no reason given'})",
                    hint="a company's own certificate has to be in the system's trust store",
                )
            case ssl.SSLError():
                stood = any(isinstance(each, httpx2.ReadError) for each in causes(error))
                what = "the TLS connection to {} broke" if stood else "no TLS connection to {}"
                why = getattr(cause, "reason", "") or "no reason given"
                words = f"{what.format(place)} ({why})"
            case socket.gaierror():
                words = f"the name {host} can't be looked up (DNS)"
            case ConnectionRefusedError():
                words = f"nothing listens at {place}"
            case httpx2.ProxyError():
                words = f"the proxy on the way to {host} refused ({str(cause)[:100]})"
            case httpx2.ConnectTimeout():
                words = f"no connection to {place} in time"
            case httpx2.PoolTimeout():
                words = f"too many requests to {place} at once"
            case httpx2.TimeoutException():
                words = f"{place} has been silent for too long"
            case httpx2.DecodingError():
                words = f"{place} sent bytes that can't be decompressed"
            case httpx2.UnsupportedProtocol() | httpx2.InvalidURL() | httpx2.LocalProtocolError():
                return ModelError(f"{endpoint.name}: {safe(endpoint.url)} can't be asked: {cause}")
            case _:
                continue
        return ServiceError(f"{endpoint.name}: {words}", retry_after=0.0)
    return ServiceError(f"{endpoint.name}: the connection to {place} broke", retry_after=0.0)


def broken(endpoint: Endpoint, what: str) -> ServiceError:
    """The reply can't be read; another one may be better."""
    return ServiceError(f"{endpoint.name}: the reply can't be read: {what}", retry_after=0.0)


def unlike(endpoint: Endpoint, url: str, kind: str, start: bytes) -> ModelError:
    """What came with 200 is no reply of a model."""
    if b"<" in start[:100] or "html" in kind:
        return ModelError(
            f"{endpoint.name}: {safe(url)} answered with a web page, not with a model's reply",
            hint="is that the base URL of a model service?",
        )
    if not start.strip():
        return ServiceError(f"{endpoint.name}: {safe(url)} answered with nothing", retry_after=0.0)
    shown = private(start[:100].decode("utf-8", "replace"), endpoint)
    return broken(endpoint, f"{safe(url)} sent {kind or 'something'} that begins {shown!r}")


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what it came from, and so on; the first cause comes first."""
    chain, seen = list[BaseException](), set[int]()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        chain.append(at)
        at = at.__cause__ or at.__context__
    yield from reversed(chain)


def said(body: bytes) -> tuple[str, str]:
    """The kind of an error, and its words, out of an answer's body."""
    try:
        read = strict(body)
    except ValueError:
        text = body.decode("utf-8", "replace")
        if "<" in text[:200]:
            title = re.search(r"<title[^>]*>([^<]{1,200})", text, re.IGNORECASE)
            return "html", f"a web page ({title[1].strip()})" if title else "a web page"
        return "", text
    if isinstance(read, list) and read:
        read = read[0]  # Gemini wraps it in a list
    if isinstance(read, dict):
        return spoken(read.get("error") or read)
    return "", str(read)


def spoken(error: Any) -> tuple[str, str]:
    """The kind and the words of an error object, however a service names them."""
    if not isinstance(error, Mapping):
        return "", str(error or "")
    kinds = (error.get(name) for name in ("type", "code", "status"))
    kind = " ".join(str(each) for each in kinds if isinstance(each, str | int))
    for name in ("message", "detail", "error", "msg"):
        match error.get(name):
            case str(words) if words:
                return kind, words
            case [{"msg": str(words)}, *_] | {"message": str(words)}:
                return kind, words
    return kind, str(dict(error))


def private(words: str, endpoint: Endpoint) -> str:
    """A service's words on one line, cut, and with nothing in them that may be a key."""
    if endpoint.key:
        words = words.replace(endpoint.key, "***")
    words = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    return masked(words)[:MOST_WORDS] or "no reason given"


def safe(url: str) -> str:
    """A URL without the user, password and query in it."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=host, query="", fragment="").geturl()
    except ValueError:
        return "a broken URL"

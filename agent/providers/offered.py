"""What models a service offers, as it tells itself."""

from collections.abc import Iterable, Iterator
from itertools import islice
from time import monotonic
from typing import Any

from msgspec import Struct

from agent.errors import ModelError
from agent.providers import anthropic, failure, openai, window
from agent.providers.services import Service
from agent.providers.wire import AGENT, Answered, Endpoint, body, client, strict

SECONDS = 10.0  # in which a service has to tell all
MOST = 4 * 2**20  # bytes of what it tells
MODELS = 2000  # that are read of it
LONGEST = 200  # characters of a model's name


class Offer(Struct, frozen=True, kw_only=True):
    """A model that is offered, and what its service says of it. Names are not checked: they may
    hold anything that can be printed or not."""

    name: str  # SERVICE/NAME
    context: int | None = None  # tokens that it takes
    input: float | None = None  # US dollars per million tokens
    output: float | None = None


def offered(service: Service, endpoint: Endpoint) -> tuple[Offer, ...]:
    """The models that a service has, in its own order. Raises ModelError."""
    if endpoint.key or not service.keyless:
        failure.check_key(endpoint)
    read = listed(service, endpoint)
    rows = read.get("data") if isinstance(read, dict) else read
    if not isinstance(rows, list):
        raise ModelError(
            f"{endpoint.name}: {failure.safe(endpoint.url)} gives no list of models",
            hint="it can be asked all the same: --model SERVICE/NAME",
        )
    return tuple(islice(offers(rows, service), MODELS))


def listed(service: Service, endpoint: Endpoint) -> Any:
    """The list as the service gives it. Raises ModelError."""
    import httpx2

    headers = {"user-agent": AGENT, "accept": "application/json"}
    if endpoint.key:
        headers["authorization"] = f"Bearer {endpoint.key}"
    if service.wire == "anthropic":
        place = anthropic.site(endpoint.url) + "/v1/models?limit=1000"
        headers["anthropic-version"] = "2023-06-01"
    else:
        place = openai.site(endpoint.url, service.root) + "/models"
    try:
        with (
            client(endpoint, headers) as http,
            http.stream("GET", place) as response,
        ):
            return strict(body(bounded(response.iter_bytes(), endpoint)))
    except Answered as answer:
        raise failure.of_answer(answer, endpoint) from None
    except (httpx2.RequestError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
        raise failure.of_network(error, endpoint) from error
    except ValueError as error:
        raise failure.broken(endpoint, str(error)[:100]) from error


def bounded(chunks: Iterable[bytes], endpoint: Endpoint) -> Iterator[bytes]:
    """The same chunks. Raises ModelError where they are too many or come for too long."""
    end, size = monotonic() + SECONDS, 0
    for chunk in chunks:
        size += len(chunk)
        if size > MOST or monotonic() > end:
            raise ModelError(f"{endpoint.name}: the list of models is too long, or comes too slow")
        yield chunk


def offers(rows: Iterable[Any], service: Service) -> Iterator[Offer]:
    for row in rows:
        id = row.get("id") if isinstance(row, dict) else None
        if isinstance(id, str) and 0 < len(id) <= LONGEST:
            price = row.get("pricing")
            price = price if isinstance(price, dict) else {}
            yield Offer(
                name=f"{service.name}/{id.removeprefix('models/')}",  # Gemini's
                context=next(window.of_row(row), None),
                input=dollars(price.get("prompt")),
                output=dollars(price.get("completion")),
            )


def dollars(text: Any) -> float | None:
    """A price per token, as OpenRouter writes it, per million; None for what is none."""
    try:
        price = float(text) * 1e6 if isinstance(text, str) else -1.0
    except ValueError:
        return None
    return price if 0 <= price < 1e6 else None

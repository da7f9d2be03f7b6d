"""Search services, and how each is asked and read.

The user's key decides which one is used; with several keys, the first that answers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from agent.errors import ToolError
from agent.stop import Stop
from agent.tools.net.fetch import Ask, Page, Web, exchanged

RESULTS = 8
SNIPPET = 800  # characters of the text of one result
ANSWER = 2_000_000  # bytes
LONGEST = 400  # characters of a query; the least that one of the services takes
TAG = re.compile(r"<[^<>]*>")


class Hit(Struct, frozen=True, kw_only=True):
    """One result."""

    url: str
    title: str
    text: str


class Found(Struct, frozen=True, kw_only=True):
    hits: tuple[Hit, ...]
    by: str  # the service


class Service(Struct, frozen=True, kw_only=True):
    """A search service: how it is asked, and how its answer is read."""

    name: str
    variable: str  # what its key is called
    url: str
    ask: Callable[[str, str, str], Ask]  # address, query, key
    read: Callable[[bytes], list[Hit]]  # raises msgspec.DecodeError


class TavilyHit(Struct, frozen=True):
    url: str = ""
    title: str | None = None
    content: str | None = None


class TavilyAnswer(Struct, frozen=True):
    results: list[TavilyHit]


class BraveHit(Struct, frozen=True):
    url: str = ""
    title: str | None = None
    description: str | None = None
    extra_snippets: list[str] = []


class BraveHits(Struct, frozen=True):
    results: list[BraveHit] = []


class BraveAnswer(Struct, frozen=True):
    web: BraveHits | None = None  # left out where nothing was found


class ExaHit(Struct, frozen=True):
    url: str = ""
    title: str | None = None
    highlights: list[str] | None = None
    text: str | None = None


class ExaAnswer(Struct, frozen=True):
    results: list[ExaHit]


def hit(url: str, title: str | None, text: str | None) -> Hit:
    """A result in one line each: services mark words with tags and entities."""

    def line(text: str) -> str:
        return " ".join(unescape(TAG.sub("", text)).split())

    return Hit(url=line(url), title=line(title or "")[:200], text=line(text or "")[:SNIPPET])


def body(**values: Any) -> bytes:
    return msgspec.json.encode(values)


def tavily(url: str, query: str, key: str) -> Ask:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return Ask(url=url, method="POST", headers=headers, body=body(query=query, max_results=RESULTS))


def brave(url: str, query: str, key: str) -> Ask:
    return Ask(
        url=f"{url}?{urlencode({'q': query, 'count': RESULTS})}",
        headers={"X-Subscription-Token": key, "Accept": "application/json"},
    )


def exa(url: str, query: str, key: str) -> Ask:
    headers = {"x-api-key": key, "Content-Type": "application/json"}
    what = body(query=query, numResults=RESULTS, contents={"highlights": True})
    return Ask(url=url, method="POST", headers=headers, body=what)


def read_tavily(data: bytes) -> list[Hit]:
    answer = msgspec.json.decode(data, type=TavilyAnswer)
    return [hit(each.url, each.title, each.content) for each in answer.results]


def read_brave(data: bytes) -> list[Hit]:
    answer = msgspec.json.decode(data, type=BraveAnswer)
    return [
        hit(each.url, each.title, " … ".join([each.description or "", *each.extra_snippets]))
        for each in (answer.web.results if answer.web else [])
    ]


def read_exa(data: bytes) -> list[Hit]:
    answer = msgspec.json.decode(data, type=ExaAnswer)
    return [
        hit(each.url, each.title, " … ".join(each.highlights or []) or each.text)
        for each in answer.results
    ]


SERVICES = (
    Service(  # docs.tavily.com, API reference, "Tavily Search"
        name="Tavily", variable="TAVILY_API_KEY", url="https://api.tavily.com/search",
        ask=tavily, read=read_tavily,
    ),
    Service(  # api-dashboard.search.brave.com, "Brave Web Search API"
        name="Brave", variable="BRAVE_API_KEY", url="https://api.search.brave.com/res/v1/web/search",
        ask=brave, read=read_brave,
    ),
    Service(  # docs.exa.ai, API reference, "Search"
        name="Exa", variable="EXA_API_KEY", url="https://api.exa.ai/search",
        ask=exa, read=read_exa,
    ),
)  # fmt: skip


def found(
    query: str, keys: Mapping[str, str], web: Web, stop: Stop, urls: Mapping[str, str]
) -> Found:
    """What the first service finds that has a key and answers. Raises ToolError if there is none.

    `urls` (variable name → address) stands in for the services' own addresses.
    """
    set_up = [service for service in SERVICES if keys.get(service.variable, "").strip()]
    if not set_up:
        names = ", ".join(service.variable for service in SERVICES)
        raise ToolError(f"no web search is set up: the user has to set one of {names}")
    faults = []
    for service in set_up:
        key = keys[service.variable].strip()
        if not (key.isascii() and key.isprintable()):
            faults.append(f"the key in {service.variable} is no key")
            continue
        ask = service.ask(urls.get(service.variable, service.url), query[:LONGEST], key)
        try:
            page = exchanged(web, ask, stop.child(web.seconds), stop, ANSWER)
            return Found(hits=tuple(hits(service, page)), by=service.name)
        except ToolError as error:
            faults.append(f"{service.name}: {error}")
    raise ToolError("; ".join(faults))


def hits(service: Service, page: Page) -> Sequence[Hit]:
    """The results in an answer. Raises ToolError where it is none."""
    if page.status in (401, 403):
        raise ToolError(f"the key in {service.variable} was refused")
    if page.status in (429, 432, 433):  # Tavily says 432 and 433 where a plan is used up
        raise ToolError("its limit is reached; try later, or do without")
    if page.status != 200 or page.cut:
        raise ToolError(f"it answered {page.status}" + (f", cut: {page.cut}" if page.cut else ""))
    try:
        return service.read(page.body)[:RESULTS]
    except (msgspec.DecodeError, RecursionError) as error:
        raise ToolError(f"its answer can't be read: {error}") from error

"""What model calls cost. Prices: prices.yaml, which names the page and day of each."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from re import fullmatch
from typing import Any

import msgspec
from msgspec import Struct

from agent.message import Usage

FREE = frozenset(("ollama", "lmstudio", "llamacpp", "local", "script"))  # run by the user


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None  # None: as input
    cache_write: float | None = None  # None: as input


class Entry(Price, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's list price, and where and when it stood there."""

    above: int | None = None  # tokens of input, from any source, over which `long` holds
    long: Price | None = None
    context: int | None = None  # tokens that fit, in and out
    source: str
    date: str


def cost(
    usage: Usage, model: str, prices: Mapping[str, Mapping[str, float]] | None = None
) -> float | None:
    """What `usage` costs at `model` (SERVICE/NAME), in US dollars; None where that is not known.

    Tokens that a cache served or stored count at the cache's price only. `prices` are the user's
    own and come first: model → kind (input, output, cache_read, cache_write) → US dollars per
    million tokens. What runs on the user's own machine is free.
    """
    price = own(model, prices or {}) or listed(model)
    if price is None:
        return 0.0 if model.partition("/")[0] in FREE else None
    whole = usage.total - usage.output_tokens
    if isinstance(price, Entry) and price.long and price.above and whole > price.above:
        price = price.long
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    dollars = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_input_tokens * read
        + usage.cache_creation_input_tokens * write
    )
    return dollars / 1_000_000


def own(model: str, prices: Mapping[str, Mapping[str, float]]) -> Price | None:
    """The user's own price of a model, named as SERVICE/NAME or as NAME."""
    given = prices.get(model) or prices.get(model.partition("/")[2])
    return msgspec.convert({"output": 0.0, **given}, Price) if given and "input" in given else None


def listed(model: str) -> Entry | None:
    """The list price of a model; of a dated or `latest` one, that of the name without."""
    entries = table()
    name = model
    while name and name not in entries:
        shorter = fullmatch(r"(.+)[-@](\d{8}|\d{4}-\d{2}-\d{2}|latest|0)", name)
        name = shorter[1] if shorter else ""
    return entries.get(name)


def context(model: str) -> int | None:
    """How many tokens fit into a model's context; None where that is not known."""
    entry = listed(model)
    return entry.context if entry else None


@cache
def table() -> dict[str, Entry]:
    """All list prices, by SERVICE/NAME."""
    import yaml

    text = Path(__file__).with_name("prices.yaml").read_text(encoding="utf-8")
    read: Any = yaml.load(text, Loader=yaml.CSafeLoader)
    return {
        f"{service}/{name}": msgspec.convert({**known["from"], **row}, Entry)
        for service, known in read.items()
        for name, row in known["models"].items()
    }

"""How many tokens fit into a model: what its server tells, and what its refusals name."""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from http.client import HTTPConnection

SECONDS = 1.0  # in which a server has to tell
MOST = 4 * 2**20  # bytes of what it tells
SIZES = (512, 100_000_000)  # tokens: what can be a model's size

USUAL = {"anthropic": 200_000, "ollama": 4_096, "lmstudio": 4_096, "llamacpp": 4_096}
USUAL["local"] = 8_192  # providers.local.CONTEXT
OTHERS = 128_000  # of a model that nothing is known of
# Ollama's default on small cards (docs/context-length.mdx, 2026); it drops the beginning of what is
# longer without a word, so too little is better than too much.

NUMBER = r"(\d[\d,._]*\d|\d+)\s*"
LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf">\s*{NUMBER}(?:tokens?\s*)?maximum",  # Anthropic
        rf"exceed context limit: [^>]*>\s*{NUMBER}",
        rf"(?:maximum|model'?s?) context length (?:is|of)\s*{NUMBER}",  # OpenAI
        rf"{NUMBER}maximum context length",  # Mistral
        rf"context length of only {NUMBER}",  # LM Studio
        rf"context length \({NUMBER}tokens\)",  # Together
        rf"maximum number of tokens allowed \({NUMBER}",  # Gemini
        rf"maximum prompt length is {NUMBER}",  # xAI
        rf"model token limit: {NUMBER}",  # Kimi
        rf"context (?:size|window)\s*\({NUMBER}",  # llama.cpp
        rf'"n_ctx"\s*:\s*{NUMBER}',
        rf"must be <= {NUMBER}",  # Together
        rf"limit is {NUMBER}",  # Cerebras
    )
)
LENGTHS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"too long: {NUMBER}",
        rf"exceed context limit: {NUMBER}",
        rf"\({NUMBER}(?:tokens )?(?:in the messages|of text input)",
        rf"messages resulted in {NUMBER}",
        rf"request has {NUMBER}input tokens",
        rf"Prompt contains {NUMBER}",
        rf"token count \({NUMBER}",
        rf"request contains {NUMBER}",
        rf"request \({NUMBER}tokens\)",
        rf'"n_prompt_tokens"\s*:\s*{NUMBER}',
        rf"The input \({NUMBER}tokens\)",
        rf"Given: {NUMBER}",
        rf"Current length is {NUMBER}",
    )
)


def named(words: str) -> tuple[int | None, int | None]:
    """The size of a model and of the request that it refused, as far as the refusal names them."""
    return number(LIMITS, words, least=SIZES[0]), number(LENGTHS, words)


def number(patterns: tuple[re.Pattern[str], ...], words: str, least: int = 1) -> int | None:
    for pattern in patterns:
        if found := pattern.search(words):
            digits = re.sub(r"\D", "", found[1])
            if len(digits) < 10 and least <= int(digits) <= SIZES[1]:
                return int(digits)
    return None


def usual(name: str) -> int:
    """What a model of SERVICE/NAME is taken to have where nobody tells."""
    return USUAL.get(name.partition("/")[0], OTHERS)


def told(name: str, url: str, key: str = "") -> int | None:
    """What the server at the base URL says of SERVICE/NAME; None where it says nothing in time.

    Ollama: `/api/ps` of a loaded model, else `num_ctx` of `/api/show`. LM Studio: `/api/v0/models`.
    llama.cpp: `/props`, a slot's share. vLLM and others: a field of `/models`.
    """
    import http.client  # late: a chat's prompt does not wait for it

    service, _, model = name.partition("/")
    parts = urlsplit(url)
    root = parts.path.removesuffix("/").removesuffix("/v1")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    asks: dict[str, tuple[tuple[str, Any], ...]] = {
        "ollama": (("/api/ps", None), ("/api/show", {"model": model})),
        "lmstudio": (("/api/v0/models", None),),
        "llamacpp": ((f"/props?model={quote(model)}", None), ("/props", None)),
    }
    for path, sent in (*asks.get(service, ()), ("/v1/models", None)):
        connection = kind(parts.hostname, parts.port, timeout=SECONDS)
        try:
            read = asked(connection, root + path, sent, key)
        except (OSError, http.client.HTTPException, ValueError, RecursionError):
            continue
        finally:
            connection.close()
        if size := next(sizes(read, model), None):
            return size
    return None


def asked(connection: "HTTPConnection", path: str, sent: Any, key: str) -> Any:
    headers = {"accept": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    body = None if sent is None else json.dumps(sent)
    connection.request("POST" if body else "GET", path, body, headers)
    answer = connection.getresponse()
    return json.loads(answer.read(MOST)) if answer.status == 200 else None


FIELDS = (
    "loaded_context_length",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "n_ctx",
)


def sizes(read: Any, model: str) -> Iterator[int]:
    """The sizes that an answer gives for a model, the surest first."""
    if not isinstance(read, dict):
        return
    settings = read.get("default_generation_settings")
    if isinstance(settings, dict):
        yield from of_row(settings)
    lists = [each for each in (read.get("data"), read.get("models")) if isinstance(each, list)]
    for row in chain(*lists):
        if isinstance(row, dict) and known(row) & {model, f"{model}:latest"}:
            yield from of_row(row)
    parameters = read.get("parameters")
    if isinstance(parameters, str) and (found := re.search(r"\bnum_ctx\s+(\d{3,9})\b", parameters)):
        yield int(found[1])


def of_row(row: dict[str, Any]) -> Iterator[int]:
    """The sizes that a row of a list gives for its model, the surest first."""
    meta = row.get("meta")
    for each in (row, meta if isinstance(meta, dict) else {}):
        for field in FIELDS:
            size = each.get(field)
            if isinstance(size, int) and SIZES[0] <= size <= SIZES[1]:
                yield size


def known(row: dict[str, Any]) -> set[str]:
    """The names of a model in a list."""
    return {str(row[field]) for field in ("id", "name", "model") if field in row}

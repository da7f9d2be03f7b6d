"""What servers tell of a model's size, and what refusals name."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.errors import TooLongError
from agent.providers import failure, window
from agent.providers.wire import Answered, Endpoint

REFUSALS = [
    ("prompt is too long: 208310 tokens > 200000 maximum", 200_000, 208_310),
    (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease it",
        200_000,
        188_240,
    ),
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130431 tokens. Please reduce the length of the messages.",
        128_000,
        130_431,
    ),
    (
        "'max_tokens' is too large: 16384. This model's maximum context length is 8192 tokens and "
        "your request has 3012 input tokens",
        8192,
        3012,
    ),
    (
        "The input token count (1200345) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
        1_200_345,
    ),
    (
        "Prompt contains 40210 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
        32_768,
        40_210,
    ),
    (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
        537_812,
    ),
    ("Your request exceeded model token limit: 262144", 262_144, None),
    ("The input (67 tokens) is longer than the model's context length (640 tokens).", 640, 67),
    (
        "Please reduce the length of messages. Current length is 8500 while limit is 8192",
        8192,
        8500,
    ),
    (
        "This endpoint's maximum context length is 131,072 tokens. However, you requested about "
        "200,100 tokens (190,001 of text input, 10,099 in the output).",
        131_072,
        190_001,
    ),
    (
        "Trying to keep the first 5812 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens",
        4096,
        None,
    ),
    ("the conversation is too long for the context window", None, None),
    ("maximum context length is 99999999999999999999 tokens", None, None),
]


@pytest.mark.parametrize(("words", "most", "size"), REFUSALS)
def test_the_numbers_of_a_refusal_are_read(words: str, most: int | None, size: int | None) -> None:
    assert window.named(words) == (most, size)
    body = json.dumps({"error": {"code": "context_length_exceeded", "message": words}}).encode()
    answer = Answered(400, {}, body, "http://127.0.0.1/v1")
    error = failure.of_answer(answer, Endpoint(name="a/b", model="b", url="http://127.0.0.1"))
    assert isinstance(error, TooLongError)
    assert (error.most, error.size) == (most, size)


def test_the_numbers_beside_the_words_are_read_too() -> None:
    error = {
        "code": 400,
        "message": "the request exceeds the available context size. try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5407,
        "n_ctx": 4096,
    }
    answer = Answered(400, {}, json.dumps({"error": error}).encode(), "http://127.0.0.1/v1")
    read = failure.of_answer(answer, Endpoint(name="a/b", model="b", url="http://127.0.0.1"))
    assert isinstance(read, TooLongError)
    assert (read.most, read.size) == (4096, 5407)


@contextmanager
def serving(pages: Mapping[str, Any]) -> Iterator[str]:
    """A server that answers these paths, and 404 to others."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            found = pages.get(self.path)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


LOADED = {"models": [{"name": "qwen:latest", "context_length": 4096}]}
PAGES: list[tuple[str, dict[str, Any], int | None]] = [
    ("ollama/qwen", {"/api/ps": LOADED, "/api/show": {"parameters": "num_ctx 8192"}}, 4096),
    (
        "ollama/qwen",
        {"/api/ps": {"models": []}, "/api/show": {"parameters": "stop x\nnum_ctx 8192\n"}},
        8192,
    ),
    ("ollama/qwen", {"/api/ps": {"models": []}, "/api/show": {"model_info": {}}}, None),
    (
        "lmstudio/q",
        {
            "/api/v0/models": {
                "data": [
                    {"id": "other", "loaded_context_length": 1024},
                    {"id": "q", "max_context_length": 32768, "loaded_context_length": 4096},
                ]
            }
        },
        4096,
    ),
    ("llamacpp/q", {"/props?model=q": {"default_generation_settings": {"n_ctx": 8192}}}, 8192),
    (
        "llamacpp/q",
        {
            "/props?model=q": {"default_generation_settings": {"n_ctx": 0}},
            "/v1/models": {"data": [{"id": "q", "meta": {"n_ctx": 2048, "n_ctx_train": 40960}}]},
        },
        2048,
    ),
    ("compat/q", {"/v1/models": {"data": [{"id": "q", "max_model_len": 16384}]}}, 16_384),
    ("compat/q", {"/v1/models": b"<html>a page</html>"}, None),
    ("compat/q", {"/v1/models": ["a list"]}, None),
    ("compat/q", {"/v1/models": {"data": [{"id": "q", "max_model_len": "many"}]}}, None),
]


@pytest.mark.parametrize(("name", "pages", "size"), PAGES)
def test_a_server_that_tells_a_model_s_size_is_believed(
    name: str, pages: dict[str, Any], size: int | None
) -> None:
    with serving(pages) as url:
        assert window.told(name, url) == size


def test_a_server_that_is_not_there_tells_nothing() -> None:
    assert window.told("compat/q", "http://127.0.0.1:9/v1") is None
    assert window.told("compat/q", "") is None


def test_of_models_that_nobody_knows_a_size_is_assumed() -> None:
    assert window.usual("ollama/anything") < window.usual("compat/anything")

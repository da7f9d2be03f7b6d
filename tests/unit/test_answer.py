"""Answers as JSON that fits a schema: as they were said, asked for once more, or given up."""

from typing import Any

import pytest

from agent.engine.answer import NAME, TRIES, fitting_text, shaped, wrapped
from agent.errors import ServiceError
from agent.message import Call, Message, Reply, Request, Say
from agent.tools.child.schema import fits

COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
NAMES = {"type": "array", "items": {"$ref": "#/$defs/name"}, "$defs": {"name": {"type": "string"}}}


class Model:
    """Gives replies, one after another, the last one again."""

    def __init__(self, *replies: str | dict[str, Any]) -> None:
        self.replies, self.asked = [*replies], list[Request]()

    def __call__(self, request: Request, say: Say) -> Reply:
        self.asked.append(request)
        given = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(given, str):
            return Reply(message=Message(role="assistant", text=given))
        calls = (Call(id=f"c{len(self.asked)}", name=NAME, input=given),)
        return Reply(message=Message(role="assistant", calls=calls), stop="calls")


def asked(model: Model, text: str, schema: dict[str, Any]) -> tuple[str, str]:
    request = Request(system="s", messages=(Message(role="user", text="how many?"),))
    return shaped(request, text, schema, model, fits)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 3}',
        ' {"n": 3}\n',
        '```json\n{"n": 3}\n```',
        'Here it is:\n```json\n{"n": 3}\n```\nSo.',
    ],
)
def test_an_answer_that_fits_is_taken_and_nobody_is_asked(text: str) -> None:
    assert asked(Model("no"), text, COUNT) == ('{"n": 3}', "")


@pytest.mark.parametrize("text", ["3", '```\n{"n": 3}\n```\n```\n{"n": 4}\n```', "", '{"n": "3"}'])
def test_an_answer_that_could_mean_two_things_or_none_is_not_taken(text: str) -> None:
    assert fitting_text(text, COUNT, fits)[0] == ""


def test_an_answer_that_does_not_fit_is_asked_for_by_a_tool_with_what_is_wrong() -> None:
    model = Model({"n": 3})
    assert asked(model, "there are three", COUNT) == ('{"n":3}', "")
    [request] = model.asked
    assert request.must == NAME
    assert [tool["input_schema"] for tool in request.tools] == [COUNT]
    assert request.messages[1] == Message(role="assistant", text="there are three")
    assert "no JSON" in request.messages[2].text


def test_one_that_is_wrong_again_is_told_why_and_tried_so_often_and_no_more() -> None:
    model = Model({"n": "x"}, '{"n": null}', {"n": 3})
    assert asked(model, "three", COUNT) == ('{"n":3}', "")
    assert "'x' is not of type 'integer'" in model.asked[1].messages[-1].results[0].text
    stubborn = Model("three")
    answer, why = asked(stubborn, "three", COUNT)
    assert answer == "three"
    assert "no JSON" in why
    assert len(stubborn.asked) == TRIES


def test_a_list_is_asked_for_within_an_object_and_comes_out_of_it() -> None:
    whole = wrapped(NAMES)
    assert whole["properties"] == {"answer": {"type": "array", "items": {"$ref": "#/$defs/name"}}}
    assert whole["$defs"] == NAMES["$defs"]
    for given in ({"answer": ["a", "b"]}, '{"answer": ["a", "b"]}', '["a","b"]'):
        assert asked(Model(given), "a and b", NAMES) == ('["a","b"]', "")


def test_a_service_that_fails_for_the_moment_is_no_answer_that_misfits() -> None:
    def failing(request: Request, say: Say) -> Reply:
        raise ServiceError("busy", retry_after=0.0)

    request = Request(system="s", messages=())
    with pytest.raises(ServiceError):
        shaped(request, "x", COUNT, failing, fits)

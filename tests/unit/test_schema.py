"""Whether a value fits a schema that a stranger wrote."""

import time
from typing import Any

import pytest

from agent.tools.child.schema import fits, quick
from tests.unit.webserver import answer, serving

OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}},
    "required": ["a"],
}


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        ({"a": "x", "b": [1]}, OBJECT, ""),
        ({"a": 1}, OBJECT, "1 is not of type 'string' at ['a']"),
        ({"a": "x", "b": [1, "2"]}, OBJECT, "'2' is not of type 'integer' at ['b'][1]"),
        ({}, OBJECT, "'a' is a required property"),
        ("xy", {"pattern": "^x"}, ""),
        ("y", {"pattern": "^x"}, "'y' does not match '^x'"),
        (1, {"type": "nonsense"}, "the schema itself is wrong"),
        (1, {"$ref": "#"}, "leads back to itself"),
        (1, {"$ref": "#/x"}, "is not in it"),
        (1, {"$defs": {"n": {"type": "number"}}, "$ref": "#/$defs/n"}, ""),
    ],
)
def test_a_value_fits_or_it_is_said_why_not(value: Any, schema: dict[str, Any], said: str) -> None:
    told = fits(value, schema)
    assert said in told
    assert bool(said) == bool(told)


def test_r105_a_schema_that_would_take_for_ever_ends_with_its_time() -> None:
    began = time.monotonic()
    assert "too long" in fits("a" * 60 + "!", {"pattern": "^(a+)+$"})
    assert time.monotonic() - began < 30


def test_a_reference_to_elsewhere_is_not_followed() -> None:
    with serving({"/s": answer(b"{}", "application/json")}) as server:
        assert "is not in it" in fits(1, {"$ref": f"{server.url}/s"})
        assert server.seen == []
    assert "is not in it" in fits(1, {"$ref": "file:///etc/passwd"})


def test_only_what_takes_no_time_is_checked_at_once() -> None:
    assert quick(OBJECT)
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"items": deep}
    slow: tuple[dict[str, Any], ...] = (
        {"pattern": "x"},
        {"$ref": "#"},
        {"properties": {"a": {"anyOf": []}}},
        deep,
    )
    for schema in slow:
        assert not quick(schema)

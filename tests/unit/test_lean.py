"""What stands before a conversation is short where a model takes little."""

from typing import Any

import pytest

from agent.engine.lean import SHARE, SMALL, lean, leaner
from agent.engine.tokens import Gauge, head
from agent.message import Message, Reply, Request, Say

NAMES = ("read_file", "web_search", "bash", "todo_write", "edit_file", "report", "mcp__x__y")
OUTLINE = "\n".join(f"src/file_{number}.py: def a, def b, class C" for number in range(120))


def spec(name: str) -> dict[str, Any]:
    return {"name": name, "description": "what it does and when " * 12, "input_schema": {}}


def asked(must: str = "") -> Request:
    return Request(
        system=f"You are an agent.\n<outline>\n{OUTLINE}\n</outline>\n<notes>\nmine\n</notes>\n",
        messages=(Message(role="user", text="hi"),),
        tools=tuple(spec(name) for name in NAMES),
        must=must,
    )


def names(request: Request) -> list[str]:
    return [str(each["name"]) for each in request.tools]


def test_a_model_that_takes_much_is_given_all() -> None:
    request = asked()
    assert leaner(request, Gauge("a/b", SMALL)) is request


@pytest.mark.parametrize("size", [1_500, 2_500, 4_096, 8_192, 16_384])
def test_what_stands_before_a_conversation_keeps_to_its_share(size: int) -> None:
    gauge = Gauge("a/b", size)
    made = leaner(asked(), gauge)
    assert gauge.tokens(head(made)) <= size * SHARE
    assert made.messages == asked().messages
    assert "<notes>" in made.system


def test_the_outline_is_shortened_first_and_the_tools_missed_least_go_next() -> None:
    some = leaner(asked(), Gauge("a/b", 6_000))
    assert names(some) == [*NAMES]
    assert "lines more\n</outline>" in some.system
    few = leaner(asked(), Gauge("a/b", 2_200))
    assert "mcp__x__y" not in names(few)
    assert {"read_file", "bash", "edit_file", "report"} <= {*names(few)}
    assert [name for name in NAMES if name in names(few)] == names(few)


def test_what_has_to_be_called_stays() -> None:
    assert "todo_write" in names(leaner(asked("todo_write"), Gauge("a/b", 1_500)))


def test_it_stays_the_same_whatever_is_learned_of_the_model_and_is_told() -> None:
    gauge, sent, told = Gauge("a/b", 4_096), list[Request](), list[str]()

    def answer(request: Request, say: Say) -> Reply:
        sent.append(request)
        return Reply(message=Message(role="assistant", text="x"))

    provider = lean(answer, gauge, told.append)
    for _ in range(2):
        provider(asked(), lambda piece: None)
        gauge.heard(1000.0, 1900)
    assert sent[0] == sent[1] != asked()
    assert told[0].startswith("a/b takes 4,096 tokens: ")

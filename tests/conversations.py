"""Conversations of any length, and whether a service would take one."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent.message import Call, Image, Message, Request, Result, Thought
from agent.providers.anthropic import Anthropic
from agent.providers.blocks import Assembly
from agent.providers.openai import OpenAI
from agent.providers.wire import Endpoint
from tests import strict

ENDPOINT = Endpoint(name="x/y", model="claude-fake-4-5", url="http://127.0.0.1:1", key="k")


def user(text: str) -> Message:
    return Message(role="user", text=text)


def faults(messages: tuple[Message, ...]) -> list[str]:
    """Why no service would take the conversation, and what of it is not as it has to be before it
    is made a request of: our own mending of requests is for accidents."""
    found = list[str]()
    if not messages or messages[0].role != "user":
        found.append("a user must begin")
    waiting = list[str]()
    for at, message in enumerate(messages):
        results = [result.call for result in message.results]
        if results != waiting:
            found.append(f"{at}: the calls {waiting} were answered by {results}")
        waiting = [call.id for call in message.calls]
        if not (message.text.strip() or waiting or results or message.images or message.thoughts):
            found.append(f"{at}: nothing is in it")
    request = Request(system="s", messages=messages)
    found += strict.completions(OpenAI(ENDPOINT)._sent(request))
    assembly = Assembly(ENDPOINT, lambda piece: None)
    found += strict.messages(Anthropic(ENDPOINT)._sent(request, assembly))
    return found


WORDS = [
    "the",
    "parser",
    "test",
    "fails",
    "when",
    "a",
    "line",
    "is",
    "empty",
    "so",
    "look",
    "at",
    "module",
    "cache",
    "and",
    "fix",
    "测试",
    "行",
    "空",
]


def talk(seed: int, turns: int, *, bulk: int = 4000) -> tuple[Message, ...]:
    """A conversation of so many of the user's turns; its outputs have up to `bulk` characters."""
    rng = random.Random(seed)
    made = list[Message]()
    number = 0

    def words(most: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))

    for turn in range(turns):
        made.append(user(f"wish {turn}: {words(30)}"))
        for _ in range(rng.randint(0, 4)):
            calls = list[Call]()
            for _ in range(rng.randint(1, 3)):
                number += 1
                path = f"src/{rng.choice(WORDS)}.py"
                content = words(rng.choice([1, 400]))
                calls.append(
                    Call(
                        id=f"c{seed}_{number}",
                        name="edit_file",
                        input={"path": path, "text": content},
                    )
                )
            made.append(
                Message(
                    role="assistant",
                    text=words(20) if rng.random() < 0.6 else "",
                    thoughts=(Thought(text=words(20), signature="s"),) * (rng.random() < 0.4),
                    calls=tuple(calls),
                )
            )
            made.append(
                Message(role="user", results=tuple(result(rng, call, bulk) for call in calls))
            )
        made.append(Message(role="assistant", text=f"done {turn}: {words(40)}"))
    return tuple(made)


def result(rng: random.Random, call: Call, bulk: int) -> Result:
    size = rng.choice([10, 200, bulk])
    if rng.random() < 0.2:
        return Result(call=call.id, text=f"no such place: {call.id}", ok=False)
    picture = Image(media_type="image/png", data="aGk=")
    text = "\n".join(f"{n}: {rng.choice(WORDS)} = {rng.random()}" for n in range(size // 20 + 1))
    return Result(call=call.id, text=text, images=(picture,) * (rng.random() < 0.1))


def recorded(path: Path) -> tuple[Message, ...]:
    """A session of another agent's, as ours would have kept it."""
    made = list[Message]()
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["type"] == "message":
            made += read(record["message"], made)
    return tuple(made)


def read(said: dict[str, Any], before: list[Message]) -> Iterator[Message]:
    if said["role"] == "bashExecution":
        yield user(f"$ {said['command']}\n{said['output']}")
        return
    blocks = said["content"]
    parts: Sequence[dict[str, Any]] = (
        [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
    )
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if said["role"] == "toolResult":
        result = Result(call=said["toolCallId"], text=text, ok=not said.get("isError"))
        if before and before[-1].results:
            last = before.pop()
            yield Message(role="user", results=(*last.results, result))
        else:
            yield Message(role="user", results=(result,))
        return
    thoughts = tuple(
        Thought(text=part["thinking"], signature=part.get("thinkingSignature", ""))
        for part in parts
        if part["type"] == "thinking"
    )
    calls = tuple(
        Call(id=part["id"], name=part["name"], input=part["arguments"])
        for part in parts
        if part["type"] == "toolCall"
    )
    if text.strip() or calls or said["role"] == "user":
        yield Message(role=said["role"], text=text or "(empty)", thoughts=thoughts, calls=calls)

"""Tools for a server that takes none: told of in the prompt, their calls and results as text.

What the model writes is read back by `written`. Equal requests give equal texts, so that what a
server has cached of a conversation stays valid.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from agent.message import Call, Message, Request, Result
from agent.providers.turns import output, turns
from agent.providers.wire import clean

HOW = """\
# Tools
You can use the tools below. To call one, write this, and wait for what comes of it:
<tool_call>
{"name": "NAME", "arguments": {"PARAMETER": "VALUE"}}
</tool_call>
The arguments are strict JSON: a line break in a text is \\n, a quote is \\". What comes of a call \
stands in the next message, in <tool_response>. Never write a <tool_response> yourself. When you \
need no tool, answer in words.
"""


def told(request: Request) -> Request:
    """The same request without tools, calls and results but in words."""
    if not request.tools and not any(each.calls or each.results for each in request.messages):
        return request
    system = request.system
    if request.tools:
        system = "\n\n".join(part for part in (system.rstrip(), described(request.tools)) if part)
    messages = tuple(in_words(turn) for turn in turns(request.messages))
    return structs.replace(request, system=system, messages=messages, tools=())


def described(tools: Iterable[Mapping[str, Any]]) -> str:
    """The tools and how they are called: a line of JSON each."""
    lines = [
        json.dumps(
            {
                "name": spec["name"],
                "description": spec.get("description", ""),
                "parameters": spec.get("input_schema") or {"type": "object", "properties": {}},
            },
            ensure_ascii=False,
        )
        for spec in tools
    ]
    return f"{HOW}<tools>\n" + "\n".join(lines) + "\n</tools>"


def in_words(turn: Message) -> Message:
    """A turn with its calls, or its results, as text."""
    parts = [*(result(each) for each in turn.results), turn.text, *map(call, turn.calls)]
    images = tuple(image for each in turn.results for image in each.images)
    return structs.replace(
        turn,
        text="\n".join(part for part in parts if part.strip()),
        calls=(),
        results=(),
        images=images + turn.images,
    )


def call(call: Call) -> str:
    said = json.dumps({"name": call.name, "arguments": clean(call.input)}, ensure_ascii=False)
    return f"<tool_call>\n{said}\n</tool_call>"


def result(result: Result) -> str:
    text = output(result).replace("</tool_response", "<\\/tool_response")
    return f"<tool_response>\n{text}\n</tool_response>"


def apart(messages: Iterable[Message]) -> Iterable[Message]:
    """Turns with one call each, and its result behind it: for a server that takes no more."""
    calls: tuple[Call, ...] = ()
    for turn in messages:
        if len(turn.calls) > 1:
            calls = turn.calls
            yield structs.replace(turn, calls=calls[:1])
        elif len(calls) > 1 and len(turn.results) == len(calls):
            for number, each in enumerate(turn.results):
                if number:
                    yield Message(role="assistant", calls=(calls[number],))
                if number < len(calls) - 1:
                    yield Message(role="user", results=(each,))
            yield structs.replace(turn, results=turn.results[-1:])
            calls = ()
        else:
            calls = ()
            yield turn

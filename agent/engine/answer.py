"""An answer as JSON that fits a schema: as it was said, or asked for once more in that form alone.

It is asked for with the conversation before it and one tool, `answer`, whose arguments the schema
tells; a service that can hold a reply to a schema itself is left to. TRIES in all.
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from agent.engine import prompt
from agent.engine.chat import silent
from agent.errors import ModelError, ServiceError, SetupError
from agent.message import Message, Reply, Request, Result
from agent.plan import unfenced
from agent.seams import Provider

TRIES = 3
NAME = "answer"
FENCED = re.compile(r"^```(?:json)?[ \t]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)

Schema: TypeAlias = dict[str, Any]
Fits: TypeAlias = Callable[[Any, Schema], str]
"""Why a value does not fit a JSON schema; "" if it does."""


def fitting_text(text: str, schema: Schema, fits: Fits) -> tuple[str, str]:
    """The JSON of a text that fits, and ""; or "" and why there is none. JSON may be the text, or
    stand in its only fence."""
    fenced = FENCED.findall(text)
    why = ""
    for each in dict.fromkeys((unfenced(text), *(fenced if len(fenced) == 1 else ()))):
        try:
            fault = fits(msgspec.json.decode(each), schema)
        except (msgspec.DecodeError, RecursionError) as error:
            fault = f"no JSON: {error}"
        if not fault:
            return each.strip(), ""
        why = why or fault
    return "", why


def shaped(
    request: Request, text: str, schema: Schema, provider: Provider, fits: Fits
) -> tuple[str, str]:
    """The JSON that a conversation's last answer `text` is, or that the model makes of it, and "";
    or the text and why it does not fit. Raises ServiceError, SetupError as the provider does.
    """
    found, why = fitting_text(text, schema, fits)
    wraps = wrapped(schema)
    messages = request.messages
    if not found and (not messages or messages[-1].role != "assistant"):
        messages = (*messages, Message(role="assistant", text=text or "(no text)"))
    asked = structs.replace(
        request,
        messages=(*messages, Message(role="user", text=prompt.misfit(why))),
        tools=({"name": NAME, "description": "Give the answer.", "input_schema": wraps},),
        must=NAME,
        schema=wraps,
    )
    for _ in range(TRIES):
        if found:
            return found, ""
        try:
            reply = provider(asked, silent)
        except (ServiceError, SetupError):
            raise
        except ModelError as error:
            return text, f"{why}; asked for it once more: {error}"
        given = said(reply, wraps is not schema)
        found, why = fitting_text(given, schema, fits)
        asked = structs.replace(asked, messages=(*asked.messages, *corrected(reply, why)))
    return (found, "") if found else (text, why)


def said(reply: Reply, wraps: bool) -> str:
    """The JSON that a reply gives: in its call, or as its text."""
    for call in reply.message.calls:
        if call.name == NAME and not call.fault:
            return unwrapped(call.input, wraps)
    text = reply.message.text
    if not wraps:
        return text
    try:
        return unwrapped(msgspec.json.decode(unfenced(text)), wraps)
    except (msgspec.DecodeError, RecursionError):
        return text


def unwrapped(value: Any, wraps: bool) -> str:
    if wraps and isinstance(value, dict) and value.keys() == {NAME}:
        value = value[NAME]
    return msgspec.json.encode(value).decode()


def corrected(reply: Reply, why: str) -> tuple[Message, ...]:
    """What is said to an answer that does not fit."""
    fault = prompt.misfit(why)
    calls = reply.message.calls
    if not calls:
        return reply.message, Message(role="user", text=fault)
    results = tuple(Result(call=call.id, text=call.fault or fault, ok=False) for call in calls)
    return reply.message, Message(role="user", results=results)


def wrapped(schema: Schema) -> Schema:
    """The schema as a tool's: that of an object. Another kind of value is its `answer`."""
    if schema.get("type") == "object":
        return schema
    shared: Schema = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: each for key, each in schema.items() if key not in {*shared, "$schema", "$id"}}
    return {"type": "object", "properties": {NAME: inner}, "required": [NAME], **shared}

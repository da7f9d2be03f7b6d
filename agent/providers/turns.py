"""A conversation in the form that every service takes, whatever happened to it on our side.

User and assistant take turns, a user begins and ends; each call is answered once, in the order of
the calls, in the turn after them; nothing is empty. The same conversation always gives the same
turns, so that what a service has cached stays valid.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence

from msgspec import structs

from agent.message import Call, Message, Request, Result
from agent.providers.wire import clean

NO_OUTPUT = "(no output)"
NO_RESULT = "(no result: this call was interrupted before it had one)"
GO_ON = "(go on)"


def turns(messages: Sequence[Message]) -> list[Message]:
    """`messages` as turns; see above for what they promise."""
    made = list[Message]()
    for message in answered([message for message in messages if not void(message)]):
        if made and made[-1].role == message.role:
            made[-1] = joined(made[-1], message)
        else:
            made.append(message)
    if not made or made[0].role == "assistant":
        made.insert(0, Message(role="user", text=GO_ON))
    if made[-1].role == "assistant":
        made.append(Message(role="user", text=GO_ON))
    return made


def void(message: Message) -> bool:
    """Whether a message has nothing that a service takes: thinking alone is nothing."""
    words = message.text.strip() or message.attached
    return not (words or message.calls or message.results or message.images)


def answered(messages: Sequence[Message]) -> Iterable[Message]:
    """The messages with one result for each call, right after it, and no other results."""
    ids = list[str]()
    for message in messages:
        results = {result.call: result for result in reversed(message.results)}
        own = [results.pop(id, Result(call=id, text=NO_RESULT, ok=False)) for id in ids]
        if message.role == "assistant":
            if own:
                yield Message(role="user", results=tuple(own))
            ids = [call.id for call in message.calls]
            yield message
            continue
        lost = [f"(of an earlier call:)\n{result.text}" for result in results.values()]
        text = "\n\n".join(part for part in (*lost, message.text, message.attached) if part.strip())
        ids = []
        yield structs.replace(message, results=tuple(own), text=text, attached="")
    if ids:
        own = [Result(call=id, text=NO_RESULT, ok=False) for id in ids]
        yield Message(role="user", results=tuple(own))


def joined(one: Message, two: Message) -> Message:
    """Two neighbours of one role as one message. Thinking stays only where one of them has it."""
    return Message(
        role=one.role,
        text="\n\n".join(part for part in (one.text, two.text) if part.strip()),
        thoughts=() if one.thoughts and two.thoughts else one.thoughts + two.thoughts,
        calls=one.calls + two.calls,
        results=one.results + two.results,
        images=one.images + two.images,
    )


def output(result: Result) -> str:
    """A result's text, which a service wants not to be empty."""
    text: str = clean(result.text)
    return text if text.strip() else NO_OUTPUT


def settled(calls: Iterable[Call], request: Request) -> tuple[Call, ...]:
    """The calls of a reply, each with an id that nothing else in the conversation has.

    Some services give none, or the same one in every reply.
    """
    used = {call.id for message in request.messages for call in message.calls}
    made = list[Call]()
    for call in calls:
        id, number = call.id or f"call_{len(used) + 1}", 1
        while id in used:
            number += 1
            id = f"{call.id or 'call'}_{number}"
        used.add(id)
        made.append(structs.replace(call, id=id))
    return tuple(made)


def identifier(id: str, most: int) -> str:
    """A call's id as every service takes it; the same one always gives the same."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", id) or "call"
    if len(plain) > most:
        plain = (
            plain[: most - 9] + "_" + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:8]
        )
    return plain


def title(name: str) -> str:
    """A tool's name as every service takes it; a model may have invented any."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"

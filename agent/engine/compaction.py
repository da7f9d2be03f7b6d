"""Making a conversation shorter: what a model is sent instead of its beginning.

The newest turns stay whole. Of what is before them the bulk goes first: long outputs, long
arguments, pictures, each with a note where the whole is. Where that is not enough, all of it gives
way to one note: the user's words as they were, a summary by a small model, and what was tried and
failed. Where a model gives no summary, the note says what was dropped. A call is never parted from
its result, and every step is made from the whole conversation, so that nothing is summarised twice.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, json, structs

from agent.engine import prompt
from agent.engine.guard import cut
from agent.engine.tokens import weight_of, weight_of_all
from agent.message import Call, Message, Result

GOAL = 0.5  # of the room: what it is brought down to, so that it is not done at each turn
NEWEST = 0.5  # of the goal: what the newest turns may have
ENOUGH = 0.75  # of the room: above that the newest turns are cut as well
WORTH = 0.1  # of the room: of less nobody is asked for a summary
BULK = 600  # characters of an old output that stays whole
HARDER = (8000, 3000, 1000, 300, 100)  # the same of new ones, then of the user's words too
FAILURES = 24  # that are listed
LINE = 200  # characters of one

Keep: TypeAlias = Callable[[str], str]
"""Keeps a text, and returns the path that a model finds it under; "" where it can't."""

Summarise: TypeAlias = Callable[[str, Sequence[Message]], str]
"""A summary of the messages and of the summary before them; "" where there is none to be had."""


def nowhere(text: str) -> str:
    """Keeps nothing."""
    return ""


class Replaced(Struct, frozen=True, kw_only=True):
    """What is sent instead of the beginning of a conversation."""

    before: tuple[Message, ...]  # the beginning, whole
    after: tuple[Message, ...]
    covered: int = 0  # how many of `before` the note stands for; the others are in `after`
    summed: int = 0  # how many of those are in the summary
    summary: str = ""  # "" where there is none
    model: str = ""  # that it was made for, as the user names it
    factor: float = 0.0  # tokens of that model in a weight, as it was known then

    def of(self, messages: tuple[Message, ...]) -> bool:
        """Whether that conversation begins so. Quick where the messages are the same values."""
        return messages[: len(self.before)] == self.before

    def sent(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return self.after + messages[len(self.before) :]


class Means(Struct, frozen=True, kw_only=True):
    """What a conversation is made shorter with."""

    room: float  # weight that its messages may have
    keep: Keep = nowhere
    summarise: Summarise = lambda before, messages: ""


def compacted(
    messages: tuple[Message, ...], old: Replaced | None, means: Means, *, fully: bool = False
) -> Replaced:
    """A replacement that brings the conversation down to GOAL, if anything can.

    `old`: what has been replaced until now. `fully`: with a summary even where less would do.
    """
    goal = means.room * GOAL
    old = old or Replaced(before=(), after=())
    newest = min(goal, weight_of_all(messages[old.covered :])) if fully else goal
    at = boundary(messages, old.covered, newest * NEWEST)
    made = structs.replace(old, before=messages[:at], after=shorter(messages[:at], old, means.keep))
    heavy = weight_of_all(messages[at:])
    if weight_of_all(made.after) + heavy <= goal and not fully:
        return made
    if at > old.covered:
        noted = structs.replace(summed(messages[:at], old, means, fully=fully), covered=at)
        noted = structs.replace(noted, before=made.before, after=note(messages[:at], noted))
        if weight_of_all(noted.after) < weight_of_all(made.after):
            made = noted
    if weight_of_all(made.after) + heavy <= means.room * ENOUGH:
        return made
    return squeezed(messages, at, made, means)


def shorter(messages: tuple[Message, ...], old: Replaced, keep: Keep) -> tuple[Message, ...]:
    """The note that there is, and what came after it without its bulk."""
    return (
        *note(messages[: old.covered], old),
        *(leaner(each, BULK, keep) for each in messages[old.covered :]),
    )


def summed(messages: tuple[Message, ...], old: Replaced, means: Means, *, fully: bool) -> Replaced:
    """With a summary of all the messages, where one is worth its price and can be had; what was
    dropped before without one is in it."""
    part = messages[old.summed :]
    worth = sum(weight_of(leaner(each, BULK, nowhere)) for each in part)
    if not fully and worth < means.room * WORTH:
        return old
    text = means.summarise(old.summary, part)
    return structs.replace(old, summary=text, summed=len(messages)) if text else old


def squeezed(messages: tuple[Message, ...], at: int, made: Replaced, means: Means) -> Replaced:
    """The same in which the newest turns are cut as well, and at the last the user's words: nothing
    is cut of those that can't be kept elsewhere."""
    between = made.after[len(note(messages[: made.covered], made)) :]
    after = made.after
    for whose in (("assistant",), ("assistant", "user")):
        for most in HARDER:
            tail = (leaner(each, most, means.keep, whose) for each in messages[at:])
            words = most if "user" in whose else 0
            after = (*note(messages[: made.covered], made, words, means.keep), *between, *tail)
            if weight_of_all(after) <= means.room * ENOUGH:
                return structs.replace(made, before=messages, after=after)
    return structs.replace(made, before=messages, after=after)


def boundary(messages: Sequence[Message], least: int, most: float) -> int:
    """Where the newest turns begin: as early as their weight allows, from `least` on, and never
    between a call and its result. Where the last one alone is too heavy it is the last one."""
    found, left = -1, most
    for at in range(len(messages) - 1, least - 1, -1):
        left -= weight_of(messages[at])
        if left < 0 <= found:
            break
        if at == least or whole(messages, at):
            found = at
            if left < 0:
                break
    return max(found, least)


def whole(messages: Sequence[Message], at: int) -> bool:
    """Whether no call is parted from its result there."""
    return not messages[at].results and not messages[at - 1].calls


# -- the bulk ------------------------------------------------------------------------------------


def leaner(message: Message, most: int, keep: Keep, whose: Sequence[str] = ()) -> Message:
    """A message without what is longer than `most` characters, or a picture.

    What was said is whole but for the texts of those in `whose`; of the user's nothing is taken
    that can't be kept. Thinking that a service has signed goes with words that are no longer those
    which it led to.
    """
    results = tuple(leaner_result(each, most, keep) for each in message.results)
    calls = tuple(leaner_call(each, most, keep) for each in message.calls)
    text = message.text
    if len(text) > most * 2 and message.role in whose:
        path = keep(text)
        if path or message.role == "assistant":
            text = stub(text, most * 2, path)
    attached = message.attached
    if len(attached) > most:
        attached = stub(attached, most, keep(attached))
    if message.images:
        text = f"{text}\n\n{prompt.PICTURE}".strip()
    made = structs.replace(
        message, text=text, attached=attached, calls=calls, results=results, images=()
    )
    if made == message:
        return message
    thoughts = tuple(each for each in message.thoughts if not (each.signature or each.redacted))
    return structs.replace(made, thoughts=thoughts)


def leaner_result(result: Result, most: int, keep: Keep) -> Result:
    text = result.text
    if len(text) > most:
        text = stub(text, most, keep(text))
    if result.images:
        text = f"{text}\n{prompt.PICTURE}"
    return structs.replace(result, text=text, images=())


def leaner_call(call: Call, most: int, keep: Keep) -> Call:
    if len(json.encode(call.input)) <= most:
        return call

    def shorter(value: Any) -> Any:
        match value:
            case str() if len(value) > most // 2:
                return stub(value, most // 2, keep(value))
            case list():
                return [shorter(each) for each in value]
            case dict():
                return {name: shorter(each) for name, each in value.items()}
            case _:
                return value

    return structs.replace(call, input=shorter(call.input))


def stub(text: str, most: int, path: str) -> str:
    """Head and tail of a text, and where the whole is; the text where that is no longer."""
    if len(text) <= most:
        return text
    made = f"{cut(text, max(most // 2, 100))}\n{prompt.elsewhere(len(text), path)}"
    return made if len(made) < len(text) else text


# -- the note ------------------------------------------------------------------------------------


def note(
    messages: Sequence[Message], made: Replaced, most: int = 0, keep: Keep = nowhere
) -> tuple[Message, ...]:
    """What stands for messages: the first one, and a note with the user's other words, the summary
    and the failures. `most`: characters of one of the user's texts, 0 for all of it; of those cut
    the whole is kept."""
    first = tuple(each for each in messages[:1] if each.role == "user")
    rest = messages[len(first) :]
    first = tuple(leaner(each, most or BULK, keep, ("user",) if most else ()) for each in first)
    if not rest:
        return first
    own = [each.text for each in rest if each.role == "user" and each.text.strip()]
    if most:
        own = shortened(own, most, keep)
    summary = made.summary
    if summary and made.summed < len(messages):
        summary += f"\n{prompt.DROPPED}"
    listed = failures(messages)[-max(most // 100, 3) if most else 0 :]
    text = prompt.instead(len(rest), own, summary, listed)
    return (*first, Message(role="user", text=text))


def shortened(words: list[str], most: int, keep: Keep) -> list[str]:
    """The user's texts, long ones cut; of a great many only the newest, the others in a file."""
    many = max(most // 20, 10)
    older, newer = words[:-many], words[-many:]
    path = keep("\n\n".join(older)) if older else ""
    if older and not path:
        newer = words
    made = [stub(each, most, path) if (path := keep(each)) else each for each in newer]
    return [prompt.elsewhere_words(len(older), path), *made] if older and path else made


CODE = re.compile(r"\[?exit code (\d+)")


def failures(messages: Sequence[Message]) -> list[str]:
    """What was tried and failed, a line each, the newest last: calls that gave an error, commands
    with another exit code than 0."""
    calls = {call.id: call for message in messages for call in message.calls}
    found = dict[str, None]()
    for message in messages:
        for result in message.results:
            call = calls.get(result.call)
            if call and (why := failure(result)):
                told = json.encode(call.input).decode()
                line = f"{call.name} {told[:LINE]}: {why[:LINE]}"
                found.pop(line, None)
                found[line] = None
    return [*found][-FAILURES:]


def failure(result: Result) -> str:
    """Why a call failed, on one line; "" if it did not."""
    lines = [line.strip() for line in result.text[-4000:].splitlines() if line.strip()]
    code = CODE.match(lines[-1]) if lines else None
    if result.ok and not (code and int(code[1])):
        return ""
    return " ".join(lines[-2:]) if code else " ".join(lines[:2])


# -- the summary ---------------------------------------------------------------------------------

CUTS = (3000, 1000, 300)  # characters of a text in what is summarised


def transcript(messages: Sequence[Message], most: int) -> str:
    """A conversation as a text to be summarised, of at most so many characters."""
    text = ""
    for each in CUTS:
        text = "\n".join(line for message in messages for line in lines(message, each))
        if len(text) <= most:
            return text
    return cut(text, most - 100)


def lines(message: Message, most: int) -> list[str]:
    made = []
    for result in message.results:
        mark = "result" if result.ok else "failed"
        made.append(prompt.marked(mark, cut(result.text, most)))
    if message.text.strip():
        made.append(prompt.marked(message.role, cut(message.text, most)))
    told = [f"{call.name} {cut(json.encode(call.input).decode(), most)}" for call in message.calls]
    return made + [prompt.marked("call", each) for each in told]

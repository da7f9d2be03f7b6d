"""One conversation: a model and its tools, until it has nothing more to ask."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from msgspec import Struct, json, structs

from agent.engine.guard import cut
from agent.errors import BudgetError, ModelError, ToolError, near
from agent.event import Text, ToolFinished, ToolStarted
from agent.message import Call, Message, Reply, Request, Result
from agent.seams import Emit, Provider
from agent.tool import Context, Outcome, Tool

SHOWN = 4000  # characters of a tool's output in its event
TOLD = 3  # times that the same calls gave the same results in a row: the model is told, once
CYCLE = 4  # calls that take turns, at most, for that to count as the same


class Talk(Struct, frozen=True, kw_only=True):
    """A conversation that has ended."""

    request: Request  # all of it, the last reply and its results included
    reply: Reply  # the last one
    ended_by: Call | None = None  # the call that ended it; None: the model had no more to ask
    outcome: str = ""  # what that call gave


def converse(
    request: Request,
    provider: Provider,
    tools: Mapping[str, Tool],
    context: Context,
    emit: Emit,
    *,
    turns: int,
    keep: Callable[[Message], None] = lambda message: None,
) -> Talk:
    """Let the model speak and use `tools` until it stops, or a tool ends the conversation.

    `keep` is given each message as it enters the conversation. Raises BudgetError after `turns`
    replies, ModelError as the provider does and for a model that only repeats itself, StoppedError
    when `context.stop` is set.
    """
    repeats = Repeats()
    for _ in range(turns):
        context.stop.check()
        reply = provider(request, silent)
        if reply.message.text:
            emit(Text(text=reply.message.text))
        request = with_message(request, reply.message, keep)
        if reply.stop == "refused":
            raise ModelError("the model refused to go on", hint=reply.message.text)
        if not reply.message.calls:
            return Talk(request=request, reply=reply)
        calls = repeats.replied(reply.message.calls)
        outcomes = [(call, *use(call, tools, context, emit, repeats)) for call in calls]
        results = tuple(result for _, result, _ in outcomes)
        request = with_message(request, Message(role="user", results=results), keep)
        repeats.check()
        for call, result, ends in outcomes:
            if ends:
                return Talk(request=request, reply=reply, ended_by=call, outcome=result.text)
    raise BudgetError(
        f"no end after {turns} model calls", what="turns", hint="raise --max-turns, or max_turns"
    )


def with_message(request: Request, message: Message, keep: Callable[[Message], None]) -> Request:
    keep(message)
    return structs.replace(request, messages=(*request.messages, message))


def use(
    call: Call, tools: Mapping[str, Tool], context: Context, emit: Emit, repeats: "Repeats"
) -> tuple[Result, bool]:
    """Use one tool, and say whether that ends the conversation.

    Whatever goes wrong becomes words for the model, save a bug of ours and a set stop flag.
    """
    began = monotonic()
    emit(ToolStarted(id=call.id, name=call.name, input=call.input))
    try:
        outcome, ok = tried(call, tools, context), True
    except (ToolError, OSError) as error:
        outcome, ok = Outcome(text=str(error) or type(error).__name__), False
    told = repeats.count(call, outcome.text)
    text = outcome.text or "(no output)"
    if told:
        text += f"\n\n{told}"
    result = Result(call=call.id, text=text, ok=ok, images=outcome.images)
    seconds = round(monotonic() - began, 3)
    emit(ToolFinished(id=call.id, name=call.name, ok=ok, output=cut(text, SHOWN), seconds=seconds))
    return result, outcome.ends


def tried(call: Call, tools: Mapping[str, Tool], context: Context) -> Outcome:
    if (tool := tools.get(call.name)) is None:
        hint = near(call.name, list(tools)) or "."
        raise ToolError(f"there is no tool {call.name!r}{hint} There are: {', '.join(tools)}")
    if call.fault:
        schema = json.encode(tool.schema).decode()
        raise ToolError(f"{call.name} was not run: {call.fault}. Its arguments: {schema}")
    return tool(context, call.input)


def silent(piece: str) -> None:
    """Takes a piece of text and does nothing: whoever shows them wraps the provider."""


class Repeats:
    """What a model does over and over in one conversation, or one turn of a chat: the same call, or
    a few in turn, with the same results. It is told once; the next time is the last."""

    def __init__(self) -> None:
        self._past = deque[tuple[str, str]](maxlen=CYCLE * (TOLD + 1))
        self._replies = 0
        self._told = 0  # the reply at which it was told, while it goes on; 0: it was not
        self._stuck = ""

    def replied(self, calls: tuple[Call, ...]) -> tuple[Call, ...]:
        """Take note that a reply comes to its calls, which are returned."""
        self._replies += 1
        return calls

    def count(self, call: Call, text: str) -> str:
        """Take a call and what it gave; what the model has to be told of it, or ""."""
        self._past.append((f"{call.name} {json.encode(call.input, order='sorted').decode()}", text))
        often, names = self._often()
        if often < TOLD:
            self._told = 0
            return ""
        if self._told:
            if often > TOLD and self._replies > self._told:
                self._stuck = f"{names} gave the same result {often} times in a row"
            return ""
        self._told = self._replies
        return (
            f"[{names} gave the same result {often} times in a row. Once more, and your work is "
            "ended: do something else. To wait for something, use one command that waits for it.]"
        )

    def check(self) -> None:
        """Raise ModelError where the model goes on with what it was told of."""
        if self._stuck:
            raise ModelError(f"it was ended because it did the same over and over: {self._stuck}")

    def _often(self) -> tuple[int, str]:
        """How often in a row the last calls have come, and which they are."""
        past = [*self._past]
        found = [(cycled(past, length), length) for length in range(1, CYCLE + 1)]
        often, length = max(found, key=lambda pair: (pair[0], -pair[1]))
        names = dict.fromkeys(said.partition(" ")[0] for said, _ in past[-length:])
        return often, f"the same call{'s' * (length > 1)} of {' and '.join(names)}"


def cycled(past: Sequence[tuple[str, str]], length: int) -> int:
    """How often in a row the last `length` of them have come, without a break."""
    last, often = past[-length:], 1
    while past[-length * (often + 1) : -length * often] == last:
        often += 1
    return often

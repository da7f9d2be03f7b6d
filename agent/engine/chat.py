"""One conversation: a model and its tools, until it has nothing more to ask."""

from collections.abc import Callable, Mapping
from time import monotonic

from msgspec import Struct, json, structs

from agent.engine.guard import cut
from agent.errors import BudgetError, ModelError, ToolError, near
from agent.event import Text, ToolFinished, ToolStarted
from agent.message import Call, Message, Reply, Request, Result
from agent.seams import Emit, Provider
from agent.tool import Context, Outcome, Tool

SHOWN = 4000  # characters of a tool's output in its event
TOLD, STUCK = 3, 10  # equal calls with equal results in a row: the model is told, the talk ends


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
    replies, ModelError as the provider does, StoppedError when `context.stop` is set.
    """
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
        outcomes = [(call, *use(call, tools, context, emit)) for call in reply.message.calls]
        results = tuple(result for _, result, _ in outcomes)
        request = with_message(request, Message(role="user", results=results), keep)
        for call, result, ends in outcomes:
            if ends:
                return Talk(request=request, reply=reply, ended_by=call, outcome=result.text)
    raise BudgetError(
        f"no end after {turns} model calls", what="turns", hint="raise --max-turns, or max_turns"
    )


def with_message(request: Request, message: Message, keep: Callable[[Message], None]) -> Request:
    keep(message)
    return structs.replace(request, messages=(*request.messages, message))


def use(call: Call, tools: Mapping[str, Tool], context: Context, emit: Emit) -> tuple[Result, bool]:
    """Use one tool, and say whether that ends the conversation.

    Whatever goes wrong becomes words for the model, save a bug of ours and a set stop flag.
    """
    began = monotonic()
    emit(ToolStarted(id=call.id, name=call.name, input=call.input))
    try:
        outcome, ok = tried(call, tools, context), True
    except (ToolError, OSError) as error:
        outcome, ok = Outcome(text=str(error) or type(error).__name__), False
    again = context.own(Repeats).count(call, outcome.text)
    text = outcome.text or "(no output)"
    if again == TOLD:
        text += f"\n\nThis is the same call with the same result {TOLD} times. Do something else."
    result = Result(call=call.id, text=text, ok=ok, images=outcome.images)
    seconds = round(monotonic() - began, 3)
    emit(ToolFinished(id=call.id, name=call.name, ok=ok, output=cut(text, SHOWN), seconds=seconds))
    if again >= STUCK:
        raise ModelError(
            f"the same call of {call.name} gave the same result {again} times in a row"
        )
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
    """How often in a row an agent has made one call and got one result."""

    def __init__(self, context: Context) -> None:
        self._last: tuple[str, str] | None = None
        self._count = 0

    def count(self, call: Call, text: str) -> int:
        now = (f"{call.name} {json.encode(call.input, order='sorted').decode()}", text)
        self._count = self._count + 1 if now == self._last else 1
        self._last = now
        return self._count

    def close(self) -> None:
        pass

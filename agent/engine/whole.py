"""Provider → Provider: a reply that came cut or empty is asked for again.

It is asked for with the identical request first, and never enters the conversation. A text that
reached the token limit once more is continued, piece by piece, and enters it as one. A call that
did is never run: it is asked for in smaller pieces.
"""

from collections.abc import Callable

from msgspec import structs

from agent.engine import prompt
from agent.errors import CutError
from agent.message import Message, Reply, Request, Result, Say
from agent.seams import Provider

TRIES = 3  # of one request
FULL = 2  # times that its reply may reach the token limit; of a request for a piece, once
PIECES = 8  # of one text
GOES_ON = "the text reached the token limit; going on with it"  # told before a further piece
SMALLER = 2  # how often a call is asked for in smaller pieces


def whole(provider: Provider, *, tell: Callable[[str], None] = lambda text: None) -> Provider:
    """The same provider, whose replies are whole. Raises CutError where none came; see above.

    `tell` is told what is asked for again. The usage is that of the request itself, not of those
    for further pieces: it tells how large that was.
    """

    def complete(request: Request, say: Say) -> Reply:
        times = 0

        def counted(request: Request, say: Say) -> Reply:
            nonlocal times
            times += 1
            return provider(request, say)

        asked, reply = request, again(counted, request, say, tell, FULL)
        usage, text, smaller = reply.usage, "", 0
        for _ in range(PIECES - 1):
            if not reply.full:
                break
            name = reply.model or "model"
            if reply.message.calls:
                smaller += 1
                if smaller > SMALLER:
                    break
                tell(f"{name}: a call reached the token limit; asking for smaller pieces")
                asked = in_pieces(asked, reply.message)
            elif not reply.message.text.strip():
                break  # it came to no more than thinking
            else:
                text += reply.message.text
                tell(f"{name}: {GOES_ON}")
                asked = continued(request, text)
            reply = again(counted, asked, say, tell, 1)
        if what := lacking(reply):
            raise CutError(
                f"{reply.model or 'model'}: {what}, {times} times",
                hint="write in smaller pieces: a long file in several calls, a long answer in "
                "parts; or raise max_output_tokens",
            )
        return structs.replace(prefixed(reply, text), usage=usage)

    return complete


def again(
    provider: Provider, request: Request, say: Say, tell: Callable[[str], None], most: int
) -> Reply:
    """The reply to a request, asked for again while it lacks something, and has not been full
    `most` times; the last one."""
    reply = provider(request, say)
    full = int(reply.full)
    for number in range(2, TRIES + 1):
        if not (what := lacking(reply)) or full >= most:
            break
        tell(f"{reply.model or 'model'}: {what}; asking again ({number} of {TRIES})")
        reply = provider(request, say)
        full += reply.full
    return reply


def lacking(reply: Reply) -> str:
    """What a reply lacks to be taken; "" for nothing."""
    if reply.stop == "length":
        return "the reply was cut before its end"
    if reply.stop != "refused" and not reply.message.calls and not reply.message.text.strip():
        return "the reply was empty"
    return ""


def continued(request: Request, text: str) -> Request:
    """The request that asks to go on where a text stopped."""
    said = Message(role="assistant", text=text)
    more = Message(role="user", text=prompt.GO_ON)
    return structs.replace(request, messages=(*request.messages, said, more))


def in_pieces(request: Request, message: Message) -> Request:
    """The request that says why calls were not run."""
    said = structs.replace(message, thoughts=())
    why = tuple(Result(call=call.id, text=prompt.SMALLER, ok=False) for call in message.calls)
    results = Message(role="user", results=why)
    return structs.replace(request, messages=(*request.messages, said, results))


def prefixed(reply: Reply, text: str) -> Reply:
    """The reply behind the text of the pieces before it."""
    if not text:
        return reply
    message = structs.replace(reply.message, text=text + reply.message.text, thoughts=())
    return structs.replace(reply, message=message)

"""What is noted of a model's call from outside: that it goes on, what it costs, what it says."""

import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from threading import Event

from msgspec import structs

from agent.errors import ServiceError
from agent.event import ModelCalled, TextDelta
from agent.message import Reply, Request, Say
from agent.providers.hangup import Call
from agent.providers.prices import FREE, cost
from agent.seams import Emit, Provider
from agent.stop import Stop

TICK = 0.1  # seconds after which a deadline that nobody announces is noticed


class Abandoned(Exception):  # noqa: N818 - no error: nobody waits any more
    """Ends a call that nobody waits for."""


def nothing() -> None:
    """Load nothing."""


def stopping(
    provider: Provider,
    stop: Stop,
    idle: float,
    *,
    first: float | None = None,
    load: Callable[[], None] = nothing,
) -> Provider:
    """The same provider, whose call ends at once when the flag is set, whatever it is doing.

    It runs in a thread of its own; `say` is called in the caller's. Raises StoppedError when the
    flag is set, and ServiceError when nothing has been said for `idle` seconds, or for `first`
    before the reply has begun. The first thing said is taken for the sign that the request is on
    its way. What `load` takes, before that, is no silence of the service's. The thread, and its
    connection (hangup.py), end soon after; nothing of what it says then is heard.
    """

    def watched(request: Request, say: Say) -> Reply:
        stop.check()
        heard = SimpleQueue[str | Reply | BaseException | None]()
        loaded = Event()

        def tell(piece: str) -> None:
            if call.gone.is_set():
                raise Abandoned
            heard.put(piece)

        def work() -> None:
            try:
                load()
                loaded.set()
                heard.put(provider(request, tell))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                heard.put(error)

        call = Call(work)
        call.start()
        try:
            with stop.calling(lambda: heard.put(None)):
                return listen(heard, say, stop, (idle if first is None else first, idle), loaded)
        finally:
            call.gone.set()

    return watched


def listen(
    heard: "SimpleQueue[str | Reply | BaseException | None]",
    say: Say,
    stop: Stop,
    limits: tuple[float, float],
    loaded: Event,
) -> Reply:
    """Pass on what is said until the reply comes; see `stopping`."""
    limit, idle = limits
    last, signs = time.monotonic(), 0
    while True:
        try:
            item = heard.get(timeout=TICK)
        except Empty:
            item = None
        stop.check()
        if isinstance(item, str):
            last, signs = time.monotonic(), signs + 1
            limit = idle if signs > 1 else limit
            say(item)
        elif isinstance(item, Reply):
            return item
        elif item is not None:
            raise item
        elif not loaded.is_set():
            last = time.monotonic()
        elif time.monotonic() - last > limit:
            raise ServiceError(f"no sign of a reply for {limit:g} s", retry_after=0.0)


def metered(
    provider: Provider,
    emit: Emit,
    name: str,
    prices: Mapping[str, Mapping[str, float]] | None = None,
) -> Provider:
    """The same provider, which emits what each reply has used and cost, a cut one's too.

    `prices` are the user's own; see `cost`. What a service has not counted has no known cost.
    """

    def counted(request: Request, say: Say) -> Reply:
        begun = time.monotonic()
        reply = provider(request, say)
        known = reply.usage.total or name.partition("/")[0] in FREE
        dollars = cost(reply.usage, name, prices) if known else None
        reply = structs.replace(reply, model=name, cost_usd=dollars)
        emit(
            ModelCalled(
                model=name,
                usage=reply.usage,
                cost_usd=reply.cost_usd,
                seconds=round(time.monotonic() - begun, 3),
                stop_reason=reply.stop,
            )
        )
        return reply

    return counted


def said(provider: Provider, emit: Emit) -> Provider:
    """The same provider, which emits each piece of text as it arrives."""

    def spoken(request: Request, say: Say) -> Reply:
        def tell(piece: str) -> None:
            if piece:
                emit(TextDelta(text=piece))
            say(piece)

        return provider(request, tell)

    return spoken

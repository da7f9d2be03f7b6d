"""What a model had said when its call was ended: kept, and marked as what it is."""

from collections.abc import Callable

from agent.engine.whole import GOES_ON
from agent.event import Event, ModelCalled, Notice
from agent.message import Message, Reply, Request, Say
from agent.seams import Emit, Provider

MARK = "[interrupted]"


class Partial:
    """Gives `keep` the text of a reply that does not come to its end, as a message.

    A provider may try again; what counts is the last attempt that said anything, with all the
    pieces that it came in. Where one ends is known from its events: build the provider with this
    `emit`, then wrap it in `kept`.
    """

    def __init__(self, emit: Emit, keep: Callable[[Message], None]) -> None:
        self._emit, self._keep = emit, keep
        self._pieces: list[str] = []
        self._over = False  # what comes next is of another attempt

    def emit(self, event: Event) -> object:
        if isinstance(event, ModelCalled | Notice):
            self._over = not (isinstance(event, Notice) and event.text.endswith(GOES_ON))
        return self._emit(event)

    def kept(self, provider: Provider) -> Provider:
        """The same provider; what it has said is kept if it raises anything at all."""

        def heard(request: Request, say: Say) -> Reply:
            self._pieces, self._over = [], False
            whole = False

            def tell(piece: str) -> None:
                if piece and self._over:
                    self._pieces, self._over = [], False
                self._pieces.append(piece)
                say(piece)

            try:
                reply = provider(request, tell)
                whole = True
                return reply
            finally:
                text = "".join(self._pieces).strip()
                if text and not whole:
                    self._keep(Message(role="assistant", text=f"{text}\n\n{MARK}"))

        return heard

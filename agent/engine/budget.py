"""Provider → Provider: what may be spent, counted over all threads together.

A call first reserves what it may use at most, and gives back what it did not. Where the rest of a
budget covers no further call while others are under way, a caller waits for their end and then
goes by what is really spent. So calls side by side can't pass a limit by more than one alone
could: the last one, whose price is only known when it has been made.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from time import monotonic
from typing import Protocol

from msgspec import Struct, structs

from agent.engine.tokens import Gauge, weight_of, weight_of_request
from agent.errors import BudgetError
from agent.message import Message, Reply, Request, Say, Usage
from agent.seams import Provider
from agent.stop import Stop

NEARLY = 0.8  # the share of a budget at which the user is warned
TICK = 0.1  # seconds after which a waiting caller looks at its stop flag
LONGEST = 900.0  # seconds that a caller waits for others; each of them has its own time limits
LAST = 3  # model calls before the end of which a step's agent is told


class Guess(Protocol):
    """Tokens and US dollars that a call may use at most; with its reply, what it has used.

    A price that is not known counts as 0."""

    def __call__(self, request: Request, reply: Reply | None = None) -> tuple[int, float]: ...


class Estimate(Struct, frozen=True, kw_only=True):
    """A Guess for one model: the request as its gauge weighs it, priced as if no cache served any,
    and as long a reply as it may give. What its service has counted counts so."""

    gauge: Gauge
    price: Callable[[Usage], float | None]

    def __call__(self, request: Request, reply: Reply | None = None) -> tuple[int, float]:
        if reply and reply.usage.total:
            return reply.usage.total, reply.cost_usd or 0.0
        gauge = self.gauge
        output = gauge.reply if reply is None else gauge.tokens(weight_of(reply.message))
        usage = Usage(input_tokens=gauge.tokens(weight_of_request(request)), output_tokens=output)
        return usage.total, self.price(usage) or 0.0


def told_by_reply(request: Request, reply: Reply | None = None) -> tuple[int, float]:
    """Guesses nothing: what a call uses is known when the service has told it."""
    return (reply.usage.total, reply.cost_usd or 0.0) if reply else (0, 0.0)


def uncounted(request: Request, reply: Reply | None = None) -> tuple[int, float]:
    """Of a budget that somebody else adds to."""
    return 0, 0.0


class Held(Struct, frozen=True, eq=False):
    """What a call under way may use at most."""

    tokens: int
    cost_usd: float


class Budget:
    """Counts tokens and money; any thread may use it. None: no limit."""

    whose = "the budget"

    def __init__(self, tokens: int | None = None, cost_usd: float | None = None) -> None:
        self._most_tokens, self._most_cost = tokens, cost_usd
        self._tokens, self._cost, self._warned = 0, 0.0, False
        self._held: set[Held] = set()
        self._change = Condition()

    @property
    def limited(self) -> bool:
        return self._most_tokens is not None or self._most_cost is not None

    def add(self, tokens: int, cost_usd: float | None) -> str:
        """Count what was used, and return a warning, once, when most is spent; else ""."""
        with self._change:
            self._tokens += tokens
            self._cost += cost_usd or 0
            share = max(
                self._tokens / self._most_tokens if self._most_tokens else 0,
                self._cost / self._most_cost if self._most_cost else 0,
            )
            if share < NEARLY or self._warned:
                return ""
            self._warned = True
            return f"{share:.0%} of {self.whose} is spent"

    @contextmanager
    def reserved(self, tokens: int, cost_usd: float, stop: Stop | None = None) -> Iterator[None]:
        """Inside, a call that may use that much is under way. What it has used is to be added
        before it is over.

        Waits while the rest does not cover it and others are under way. Raises BudgetError when
        the budget is spent, StoppedError when `stop` is set.
        """
        held = Held(tokens, cost_usd)
        until = monotonic() + LONGEST
        with self._change:
            while not self.fault and self._held and not self._covers(held):
                if monotonic() >= until:
                    break
                self._change.wait(TICK)
                if stop:
                    stop.check()
            if fault := self.fault:
                raise fault
            self._held.add(held)
        try:
            yield
        finally:
            with self._change:
                self._held.remove(held)
                self._change.notify_all()

    def _covers(self, held: Held) -> bool:
        """Whether it can be used besides all that is under way."""
        tokens = self._tokens + sum(each.tokens for each in (*self._held, held))
        cost = self._cost + sum(each.cost_usd for each in (*self._held, held))
        return not (
            (self._most_tokens is not None and tokens > self._most_tokens)
            or (self._most_cost is not None and cost > self._most_cost)
        )

    @property
    def fault(self) -> BudgetError | None:
        """What has run out; its hint says how to get more."""
        if self._most_tokens is not None and self._tokens >= self._most_tokens:
            return BudgetError(
                f"{self._tokens:,} of {self._most_tokens:,} tokens are spent",
                what="tokens",
                hint=f"{self.more} allows more",
            )
        if self._most_cost is not None and self._cost >= self._most_cost:
            return BudgetError(
                f"${self._cost:.4f} of ${self._most_cost:.4f} are spent",
                what="money",
                hint=f"{self.more} allows more",
            )
        return None

    @property
    def more(self) -> str:
        """The flag that would allow as much again as is spent."""
        if self._most_tokens is not None and self._tokens >= self._most_tokens:
            return f"--max-tokens-total {2 * self._tokens}"
        return f"--max-budget-usd {figure(2 * max(self._cost, self._most_cost or 0))}"


class StepBudget(Budget):
    """What one attempt of a step may spend."""

    whose = "your budget"

    @property
    def more(self) -> str:
        tokens = self._most_tokens is not None and self._tokens >= self._most_tokens
        return f"a higher {'max_tokens' if tokens else 'max_cost_usd'} of the step"


def figure(dollars: float) -> str:
    """
    >>> figure(0.0468), figure(12.345)
    ('0.047', '12.35')
    """
    return f"{dollars:.2f}" if dollars >= 1 else f"{dollars:.2g}"


def within(
    provider: Provider,
    budget: Budget,
    tell: Callable[[str], None] = lambda text: None,
    *,
    guess: Guess = told_by_reply,
    stop: Stop | None = None,
) -> Provider:
    """The same provider, which is not called once the budget is spent: BudgetError.

    A reply that breaks off counts as far as it came: its service counts it as well, and tells
    nobody. `tell` is told when most is spent. See `Budget.reserved` for what is waited for.
    """

    def counted(request: Request, say: Say) -> Reply:
        if not budget.limited:
            return provider(request, say)
        signs = list[str]()

        def heard(piece: str) -> None:
            signs.append(piece)
            say(piece)

        def count(reply: Reply) -> None:
            if warning := budget.add(*guess(request, reply)):
                tell(warning)

        with budget.reserved(*guess(request), stop):
            try:
                reply = provider(request, heard)
            except BaseException:
                if len(signs) > 1:  # the first says no more than that the request is on its way
                    count(Reply(message=Message(role="assistant", text="".join(signs))))
                raise
            count(reply)
        return reply

    return counted


def unsaid() -> Sequence[str]:
    """Nothing that the user has said."""
    return ()


class Notes:
    """What a step's agent is told when its attempt comes near its end, and what the user says to it
    in the meantime: `heard` gives that, each word of it once."""

    def __init__(self, turns: int, heard: Callable[[], Sequence[str]] = unsaid) -> None:
        self._heard = heard
        self._left = turns
        self._near = LAST if turns > 2 * LAST else 0
        self._said: dict[int, str] = {}  # by place in the conversation
        self._more = list[str]()

    def add(self, text: str) -> None:
        """Tell this with the next request."""
        self._more.append(text)

    def told(self, request: Request) -> Request:
        """The request with what there is to tell, behind its last message and where it stood
        before: what a service has cached of the conversation stays valid."""
        if self._near and self._left == self._near:
            self.add(f"{LAST} model calls are left")
        self._left -= 1
        told = [from_user(words) for words in self._heard()]
        if self._more:
            told.append(f"({'; '.join(self._more)}: finish now, and report.)")
            self._more.clear()
        if told:
            at = len(request.messages) - 1
            self._said[at] = "\n\n".join(filter(None, [self._said.get(at, ""), *told]))
        if not self._said:
            return request
        messages = [
            structs.replace(message, text=f"{message.text}\n\n{self._said[at]}".strip())
            if at in self._said
            else message
            for at, message in enumerate(request.messages)
        ]
        return structs.replace(request, messages=tuple(messages))


def from_user(words: str) -> str:
    """How an agent is told what the user says to it while it works."""
    return f"<user>\n{words}\n</user>"


def hurried(provider: Provider, notes: Notes) -> Provider:
    """The same provider, which is told as well what `notes` say. Its request is a conversation
    that only grows."""

    def told(request: Request, say: Say) -> Reply:
        return provider(notes.told(request), say)

    return told

"""Provider → Provider: what may be spent, counted over all threads together."""

from collections.abc import Callable
from threading import Lock

from agent.errors import BudgetError
from agent.message import Reply, Request, Say
from agent.seams import Provider

NEARLY = 0.8  # the share of a budget at which the user is warned


class Budget:
    """Counts tokens and money; any thread may use it. None: no limit."""

    def __init__(self, tokens: int | None = None, cost_usd: float | None = None) -> None:
        self._most_tokens, self._most_cost = tokens, cost_usd
        self._tokens, self._cost, self._warned = 0, 0.0, False
        self._lock = Lock()

    def add(self, tokens: int, cost_usd: float | None) -> str:
        """Count what was used, and return a warning, once, when most is spent; else ""."""
        with self._lock:
            self._tokens += tokens
            self._cost += cost_usd or 0
            share = max(
                self._tokens / self._most_tokens if self._most_tokens else 0,
                self._cost / self._most_cost if self._most_cost else 0,
            )
            if share < NEARLY or self._warned:
                return ""
            self._warned = True
            return f"{share:.0%} of the budget is spent"

    @property
    def fault(self) -> BudgetError | None:
        """What has run out."""
        if self._most_tokens is not None and self._tokens >= self._most_tokens:
            return BudgetError(
                f"{self._tokens} of {self._most_tokens} tokens are spent",
                what="tokens",
                hint="raise --max-tokens-total, or the step's max_tokens",
            )
        if self._most_cost is not None and self._cost >= self._most_cost:
            return BudgetError(
                f"${self._cost:.4f} of ${self._most_cost:.4f} are spent",
                what="money",
                hint="raise --max-budget-usd, or the step's max_cost_usd",
            )
        return None


def within(
    provider: Provider, budget: Budget, tell: Callable[[str], None] = lambda text: None
) -> Provider:
    """The same provider, which is not called once the budget is spent: BudgetError.

    `tell` is told when most is spent.
    """

    def counted(request: Request, say: Say) -> Reply:
        if fault := budget.fault:
            raise fault
        reply = provider(request, say)
        if warning := budget.add(reply.usage.total, reply.cost_usd):
            tell(warning)
        return reply

    return counted

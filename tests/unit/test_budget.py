import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import pairwise

import pytest
from msgspec import structs

from agent.engine.budget import Budget, Estimate, Notes, StepBudget, hurried, within
from agent.engine.tokens import Gauge, weight_of_request
from agent.errors import BudgetError, ServiceError, StoppedError
from agent.message import Message, Reply, Request, Say, Usage
from agent.providers.script import Script
from agent.stop import INTERRUPTED, Stop

REQUEST = Request(system="", messages=(Message(role="user", text="hi"),))


def quiet(text: str) -> None:
    pass


def spending(tokens: int, cost_usd: float | None = 0.0) -> Reply:
    return Reply(
        message=Message(role="assistant", text="x"),
        usage=Usage(input_tokens=tokens),
        cost_usd=cost_usd,
    )


class Most:
    """A guess that is always the same."""

    def __init__(self, tokens: int, cost_usd: float = 0.0) -> None:
        self._guess = (tokens, cost_usd)

    def __call__(self, request: Request, reply: Reply | None = None) -> tuple[int, float]:
        return self._guess if reply is None else (reply.usage.total, reply.cost_usd or 0.0)


class Busy:
    """A model that takes a moment, and notes how many calls of it there were, and at once."""

    def __init__(self, tokens: int, cost_usd: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._reply = spending(tokens, cost_usd)
        self._now = 0
        self.calls = 0
        self.at_once = 0

    def __call__(self, request: Request, say: Say) -> Reply:
        with self._lock:
            self._now += 1
            self.calls += 1
            self.at_once = max(self.at_once, self._now)
        threading.Event().wait(0.02)
        with self._lock:
            self._now -= 1
        return self._reply


def crowd(budget: Budget, model: Busy, guess: Most, threads: int = 8, each: int = 3) -> int:
    """Ask from many threads; how many were refused."""
    provider = within(model, budget, guess=guess, stop=Stop())
    together = threading.Barrier(threads)

    def work() -> int:
        together.wait(5)
        for _ in range(each):
            try:
                provider(REQUEST, quiet)
            except BudgetError:
                return 1
        return 0

    with ThreadPoolExecutor(threads) as pool:
        return sum(one.result(20) for one in [pool.submit(work) for _ in range(threads)])


@pytest.mark.parametrize("money", [False, True], ids=["tokens", "money"])
def test_r91_threads_side_by_side_pass_a_limit_by_one_call_at_most(money: bool) -> None:
    budget = Budget(cost_usd=10.5) if money else Budget(tokens=1050)
    model = Busy(100, 1.0)
    refused = crowd(budget, model, Most(150, 1.5), each=99)
    assert model.calls == 11
    assert refused == 8
    assert model.at_once > 1, "far from the limit they go at once"


def test_calls_go_at_once_where_the_limit_is_far() -> None:
    model = Busy(100)
    assert crowd(Budget(tokens=1_000_000), model, Most(16_000), each=1) == 0
    assert model.at_once > 4


def test_a_call_larger_than_the_whole_limit_goes_alone() -> None:
    model = Busy(10)
    assert crowd(Budget(tokens=1000), model, Most(5000), threads=4, each=2) == 0
    assert (model.calls, model.at_once) == (8, 1)


def test_what_a_failed_call_had_reserved_is_given_back() -> None:
    budget = Budget(tokens=100)
    model = Script([ServiceError("busy"), spending(60), spending(60)])
    provider = within(model, budget, guess=Most(90), stop=Stop())
    with pytest.raises(ServiceError):
        provider(REQUEST, quiet)
    for _ in range(2):
        provider(REQUEST, quiet)
    with pytest.raises(BudgetError, match="120 of 100 tokens"):
        provider(REQUEST, quiet)


def test_a_stop_ends_the_wait_for_others() -> None:
    budget, stop, free = Budget(tokens=100), Stop(), threading.Event()

    def slow(request: Request, say: Say) -> Reply:
        free.wait(20)
        return spending(1)

    provider = within(slow, budget, guess=Most(90), stop=stop)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(provider, REQUEST, quiet) for _ in range(2)]
        threading.Timer(0.2, stop.set, (INTERRUPTED,)).start()
        ended, others = wait(calls, 5, FIRST_COMPLETED)
        free.set()
    assert [type(each.exception()) for each in ended] == [StoppedError]
    assert [each.result() for each in others] == [spending(1)]


def test_a_limit_says_which_flag_allows_more() -> None:
    budget = Budget(tokens=100)
    budget.add(130, None)
    assert budget.fault
    assert budget.fault.hint == "--max-tokens-total 260 allows more"
    step = StepBudget(cost_usd=0.5)
    step.add(1, 0.6)
    assert step.fault
    assert step.fault.hint == "a higher max_cost_usd of the step allows more"


# -- what an agent is told near its end ----------------------------------------------------------


def grown(request: Request, text: str) -> Request:
    said = (Message(role="assistant", text="a"), Message(role="user", text=text))
    return Request(system="", messages=(*request.messages, *said))


def test_what_is_told_near_the_end_stays_where_it_was_told() -> None:
    notes, model = Notes(8), Script(["x"] * 8)
    provider = hurried(model, notes)
    request = REQUEST
    for number in range(8):
        if number == 2:
            notes.add("80% of your budget is spent")
        provider(request, quiet)
        request = grown(request, f"{number}")
    last = [message.text for message in model.requests[-1].messages if message.role == "user"]
    assert [text.count("\n\n(") for text in last] == [0, 0, 1, 0, 0, 1, 0, 0]
    assert "80% of your budget is spent: finish now" in last[2]
    assert "3 model calls are left: finish now" in last[5]
    for before, after in pairwise(model.requests):
        assert after.messages[: len(before.messages)] == before.messages


def test_few_turns_are_no_reason_to_hurry() -> None:
    model = Script(["x"] * 3)
    provider = hurried(model, Notes(3))
    for _ in range(3):
        provider(REQUEST, quiet)
    assert model.requests == [REQUEST] * 3


# -- what a call may use -------------------------------------------------------------------------


def priced(usage: Usage) -> float:
    return usage.input_tokens * 0.001 + usage.output_tokens * 0.01


def test_what_a_call_may_use_is_guessed_by_what_its_service_has_counted_before() -> None:
    estimate = Estimate(gauge=Gauge("a/m", 100_000, reply=1000), price=priced)
    long = Request(system="", messages=(Message(role="user", text="some words " * 5000),))
    tokens, dollars = estimate(long)
    assert tokens == estimate.gauge.tokens(weight_of_request(long)) + 1000
    assert dollars == pytest.approx((tokens - 1000) * 0.001 + 10)
    counted = structs.replace(spending(15_000), cost_usd=0.11)
    assert estimate(long, counted) == (15_000, 0.11)
    estimate.gauge.heard(weight_of_request(long), 15_000)
    assert estimate(long)[0] == pytest.approx(16_000, abs=1)


def test_what_a_service_does_not_count_is_guessed() -> None:
    estimate = Estimate(gauge=Gauge("a/m", 100_000, reply=1000), price=priced)
    silent = Reply(message=Message(role="assistant", text="some words " * 100))
    tokens, dollars = estimate(REQUEST, silent)
    assert 150 < tokens < 400
    assert dollars == pytest.approx(tokens * 0.01, rel=0.1)
    free = structs.replace(estimate, price=lambda usage: None)
    assert free(REQUEST, silent) == (tokens, 0.0), "what is not known counts nothing"


@pytest.mark.parametrize(
    ("said", "counts"),
    [([], False), ([""], False), (["", ""], True), (["", "some words " * 100], True)],
    ids=["nothing", "sent", "begun", "text"],
)
def test_a_reply_that_breaks_off_counts_as_far_as_it_came(said: list[str], counts: bool) -> None:
    def broken(request: Request, say: Say) -> Reply:
        for piece in said:
            say(piece)
        raise ServiceError("the stream broke")

    budget, told = Budget(tokens=300), list[str]()
    guess = Estimate(gauge=Gauge("a/m", 100_000), price=priced)
    long = Request(system="some words " * 100, messages=REQUEST.messages)
    for _ in range(3):
        with pytest.raises(BudgetError if counts and budget.fault else ServiceError):
            within(broken, budget, told.append, guess=guess)(long, quiet)
    assert bool(budget.fault) == bool(told) == counts

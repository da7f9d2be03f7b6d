"""A provider whose requests fit: when it makes them shorter, how often, and what it gives up on."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from msgspec import structs

from agent.engine.compaction import Replaced
from agent.engine.fitting import Fit, Model, fitting
from agent.engine.tokens import Gauge, head, weight_of_all
from agent.errors import ModelError, SetupError, TooLongError
from agent.message import Message, Reply, Request, Say, Usage
from agent.seams import Provider
from tests.conversations import faults, talk, user


@dataclass
class Service:
    """A model that takes `size` tokens, counts a weight as `factor` of them, and a small one."""

    size: int
    factor: float = 1.0
    known: int = 100_000  # what is thought of its size
    names: bool = True  # whether its refusals name sizes
    counts: bool = True  # whether it reports usage
    small: Callable[[Request], str] = lambda request: "Goal: mend it."
    sent: list[Request] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    summed: list[Request] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    kept: list[Replaced] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gauge = Gauge("a/big", self.known)
        self.fit = Fit(lambda text: "kept/x", self.kept.append)
        self.model = Model(gauge=self.gauge, small=self._small, tell=self.told.append)
        self.ask: Provider = fitting(self._answer, self.fit, self.model)

    def tokens(self, request: Request) -> int:
        return int((head(request) + weight_of_all(request.messages)) * self.factor)

    def _answer(self, request: Request, say: Say) -> Reply:
        assert not faults(request.messages)
        tokens = self.tokens(request)
        if tokens > self.size:
            self.refused.append(tokens)
            if self.names:
                raise TooLongError("too long", most=self.size, size=tokens)
            raise TooLongError("too long")
        self.sent.append(request)
        usage = Usage(input_tokens=tokens if self.counts else 0, output_tokens=1)
        return Reply(message=Message(role="assistant", text="so be it"), usage=usage)

    def _small(self) -> tuple[Provider, Gauge]:
        def answer(request: Request, say: Say) -> Reply:
            self.summed.append(request)
            return Reply(message=Message(role="assistant", text=self.small(request)))

        return answer, Gauge("a/small", 20_000)

    def says(self, *messages: Message) -> Reply:
        return self.ask(Request(system="You help.", messages=messages), lambda piece: None)


def test_what_fits_is_sent_as_it_is() -> None:
    service = Service(size=100_000)
    messages = (*talk(1, 5), user("go on"))
    service.says(*messages)
    assert service.sent[0].messages == messages
    assert not service.told


def test_what_would_not_fit_is_made_shorter_first_and_the_user_is_told() -> None:
    service = Service(size=9000, known=9000)
    service.says(*talk(1, 40), user("go on"))
    assert not service.refused
    assert service.tokens(service.sent[0]) < 9000
    (told,) = service.told
    assert "of 9,000 tokens, summarised by a/small" in told
    assert service.kept[0].summary == "Goal: mend it."


def test_later_requests_begin_with_the_same_messages_and_cost_no_second_summary() -> None:
    service = Service(size=9000, known=9000)
    messages = (*talk(1, 40), user("go on"))
    for number in range(5):
        reply = service.says(*messages)
        messages = (*messages, reply.message, user(f"and {number}"))
    assert len(service.summed) == len(service.told) == 1
    for one, two in zip(service.sent, service.sent[1:], strict=False):
        assert two.messages[: len(one.messages)] == one.messages


def test_r84_a_refusal_leads_to_one_more_request_and_is_learned_from() -> None:
    for names in (True, False):
        service = Service(size=9000, names=names)
        messages = (*talk(1, 40), user("go on"))
        service.says(*messages)
        assert (len(service.refused), len(service.sent)) == (1, 1)
        for number in range(8):
            messages = (*messages, *talk(100 + number, 3), user("more"))
            service.says(*messages)
        most = 1 if names else 2  # where it is not told, a smaller one is tried
        assert len(service.refused) <= most, "the size that has been learned holds"


def test_r84_a_second_refusal_is_the_end() -> None:
    service = Service(size=300, names=False, known=100_000)
    with pytest.raises(TooLongError):
        service.says(*talk(1, 40), user("go on"))
    assert len(service.refused) == 2
    assert service.gauge.size() < service.refused[1], "what was refused twice has taught twice"


def test_a_service_whose_tokens_are_smaller_than_ours_is_not_refused_for_long() -> None:
    service = Service(size=9000, known=9000, factor=1.8)
    messages: tuple[Message, ...] = (user("begin"),)
    for number in range(40):
        reply = service.says(*messages)
        messages = (*messages, reply.message, *talk(100 + number, 2), user(f"wish {number}"))
    assert not service.refused, "reported usage has told"
    assert max(map(service.tokens, service.sent)) <= 9000


def test_a_service_that_counts_nothing_is_served_by_estimates() -> None:
    service = Service(size=9000, known=9000, counts=False)
    messages: tuple[Message, ...] = (user("begin"),)
    for number in range(30):
        reply = service.says(*messages)
        messages = (*messages, reply.message, *talk(100 + number, 2), user(f"wish {number}"))
    assert not service.refused


def unhelpful(request: Request) -> str:
    raise ModelError("busy")


def without_key(request: Request) -> str:
    raise SetupError("no key")


@pytest.mark.parametrize(
    "small",
    [unhelpful, without_key, lambda request: "", lambda request: "word " * 9000],
    ids=["an error", "no key", "empty", "too long"],
)
def test_where_there_is_no_summary_it_is_dropped(small: Callable[[Request], str]) -> None:
    service = Service(size=9000, known=9000, small=small)
    service.says(*talk(1, 40), user("go on"))
    assert service.tokens(service.sent[0]) < 9000
    assert len(service.summed) == 1
    assert any("no summary of the conversation" in told for told in service.told)
    assert "There is no summary" in service.sent[0].messages[1].text


def test_a_request_for_a_summary_fits_the_small_model() -> None:
    service = Service(size=30_000, known=30_000)
    service.says(*talk(1, 200, bulk=200), user("go on"))
    (asked,) = service.summed
    assert not asked.tools
    assert weight_of_all(asked.messages) < 20_000
    assert not faults(asked.messages)


def test_c062_where_the_prompt_alone_does_not_fit_it_ends_at_once_and_clearly() -> None:
    service = Service(size=8000, known=8000)
    request = Request(system="mind the gap " * 2800, messages=(user("hi"),))
    for _ in range(2):
        with pytest.raises(TooLongError, match=r"system prompt and tools alone need .* of 8,000"):
            service.ask(request, lambda piece: None)
    assert not service.refused
    assert not service.summed
    unknown = Service(size=8000)
    with pytest.raises(TooLongError, match=r"system prompt and tools alone need .* of 8,000"):
        unknown.ask(request, lambda piece: None)
    assert len(unknown.refused) == 1


def test_what_can_t_be_kept_is_not_cut_and_the_error_says_how_much_it_is() -> None:
    service = Service(size=8000, known=8000)
    service.fit = Fit()
    ask = fitting(service._answer, service.fit, service.model)
    with pytest.raises(TooLongError, match=r"the conversation needs [\d,]+ of 8,000 tokens"):
        ask(Request(system="", messages=(user("word " * 20_000),)), lambda piece: None)
    assert not service.sent


def test_a_conversation_that_goes_back_is_whole_again() -> None:
    service = Service(size=9000, known=9000)
    messages = talk(1, 40)
    service.says(*messages, user("go on"))
    service.says(*messages[:3], user("another way"))
    assert service.sent[-1].messages == (*messages[:3], user("another way"))


def test_a_summary_can_be_asked_for_and_what_it_has_to_keep() -> None:
    service = Service(size=100_000)
    messages = (*talk(1, 20), user("go on"))
    request = Request(system="s", messages=messages)
    made = service.fit.shorter(request, service.model, "the port, 8137", fully=True)
    assert (
        "The user wants this kept above all: the port, 8137" in service.summed[0].messages[0].text
    )
    assert service.tokens(made) < service.tokens(request) / 2
    assert not faults(made.messages)
    assert service.fit.sent(request) == made
    again = service.fit.shorter(request, service.model, fully=True)
    assert service.tokens(again) <= service.tokens(made)


def test_what_fills_a_model_is_told_by_kind() -> None:
    service = Service(size=100_000)
    tools = ({"name": "t", "description": "does it", "input_schema": {"type": "object"}},)
    request = Request(system="You help.\n<memory>\nfacts\n</memory>", messages=talk(1, 8))
    request = structs.replace(request, tools=tools)
    filling = service.fit.filling(request, service.model, [("memory", "facts")])
    parts = dict(filling.parts)
    assert [*parts][:3] == ["system prompt", "memory", "tools"]
    assert {"your words", "the model's words", "calls", "tool outputs"} <= set(parts)
    assert not filling.exact
    assert filling.used == pytest.approx(service.gauge.tokens(service.fit.weight(request)), rel=0.1)
    assert filling.free == filling.window - filling.reserved - filling.used


def test_in_another_process_what_was_made_shorter_still_fits_by_what_was_learned() -> None:
    service = Service(size=9000, known=9000, factor=0.6)
    messages: tuple[Message, ...] = (user("begin"),)
    for number in range(20):
        reply = service.says(*messages)
        messages = (*messages, reply.message, *talk(100 + number, 2), user(f"wish {number}"))
    last = service.sent[-1].messages
    messages = messages[: -len(talk(119, 2)) - 2]
    again = Service(size=9000, known=9000, factor=0.6)
    again.fit = Fit(held=service.kept[-1])
    ask = fitting(again._answer, again.fit, again.model)
    ask(Request(system="You help.", messages=(*messages, user("on"))), lambda piece: None)
    assert not again.told
    assert again.sent[0].messages[: len(last)] == last

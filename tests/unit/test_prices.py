import pytest

from agent.message import Usage
from agent.providers.prices import context, cost, table
from agent.providers.services import SERVICES

MILLION = 1_000_000


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(
        input_tokens=MILLION,
        output_tokens=MILLION,
        cache_read_input_tokens=MILLION,
        cache_creation_input_tokens=MILLION,
    )
    assert cost(usage, "anthropic/claude-sonnet-4-6") == 3 + 15 + 0.3 + 3.75


def test_a_cache_without_a_price_of_its_own_costs_as_input() -> None:
    usage = Usage(cache_creation_input_tokens=MILLION)
    assert cost(usage, "openai/gpt-5") == 1.25


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-sonnet-4-5-20250929",
        "anthropic/claude-sonnet-4-20250514",
        "anthropic/claude-sonnet-4-0",
        "anthropic/claude-3-7-sonnet-latest",
    ],
)
def test_a_dated_name_has_the_price_of_the_plain_one(name: str) -> None:
    assert cost(Usage(input_tokens=MILLION), name) == 3


def test_a_name_that_only_begins_like_another_has_no_price() -> None:
    for name in ("openai/gpt-4o-turbo", "openai/gpt-5.9", "anthropic/claude", "nobody/gpt-5"):
        assert cost(Usage(input_tokens=1), name) is None


def test_a_long_request_costs_more_for_every_token() -> None:
    short = Usage(input_tokens=100_000, output_tokens=MILLION)
    long = Usage(input_tokens=1, cache_read_input_tokens=100_000, output_tokens=MILLION)
    assert cost(short, "anthropic/claude-haiku-5-5") == pytest.approx(0.51)
    assert cost(long, "anthropic/claude-haiku-5-5") == pytest.approx(2.505, abs=1e-4)


def test_what_runs_here_is_free() -> None:
    for name in ("ollama/qwen3", "script/replies.yaml", "llamacpp/x", "lmstudio/x"):
        assert cost(Usage(input_tokens=5), name) == 0.0


def test_the_user_s_own_prices_come_first() -> None:
    prices = {"compat/mine": {"input": 1.0, "output": 2.0}, "gpt-5": {"input": 9.0}}
    usage = Usage(input_tokens=MILLION, output_tokens=MILLION)
    assert cost(usage, "compat/mine", prices) == 3.0
    assert cost(usage, "openai/gpt-5", prices) == 9.0
    assert cost(usage, "compat/other", prices) is None


def test_nothing_used_of_a_known_model_costs_nothing() -> None:
    assert cost(Usage(), "openai/gpt-5") == 0.0
    assert cost(Usage(), "compat/x") is None


def test_every_price_says_where_and_when_it_stood() -> None:
    for name, entry in table().items():
        assert entry.source.startswith("https://"), name
        assert entry.date.startswith("20"), name
        assert 0 < entry.input <= entry.output, name
        assert (entry.above is None) == (entry.long is None), name


def test_the_models_that_are_asked_unnamed_have_prices_and_known_contexts() -> None:
    for row in SERVICES.values():
        for model in {row.model, row.small} - {""}:
            assert cost(Usage(), f"{row.name}/{model}") == 0.0
            assert context(f"{row.name}/{model}")

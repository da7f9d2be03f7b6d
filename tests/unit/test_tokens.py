"""How large requests are thought to be, and what is learned of models."""

import pytest

from agent.engine.tokens import Gauge, weight, weight_of
from agent.errors import TooLongError
from agent.message import Call, Image, Message, Result

CODE = """\
def total(rows: list[Row], *, since: date | None = None) -> Decimal:
    return sum((row.amount for row in rows if since is None or row.day >= since), Decimal(0))
"""


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The quick brown fox jumps over the lazy dog, and then it sleeps in the sun.", 19),
        (CODE, 44),
        ("测试运行失败,因为配置文件没有被读取。", 17),
        ("Тесты не проходят, потому что файл настроек не прочитан.", 16),
        ('{"id": 17, "name": "fox", "tags": ["a", "b"], "size": 1024}', 31),
        ("", 0),
    ],
    ids=["English", "Python", "Chinese", "Russian", "JSON", "nothing"],
)  # as Mistral's tokenizer of 131,000 words counts them
def test_the_weight_of_a_text_is_near_its_tokens(text: str, tokens: int) -> None:
    assert weight(text * 20) == pytest.approx(tokens * 20, rel=0.3)


def test_a_very_long_text_is_judged_by_parts_of_it() -> None:
    text = "".join(f"line {number}: a = b + {number * 7}\n" for number in range(100_000))
    half = len(text) // 2
    assert weight(text) == pytest.approx(weight(text[:half]) + weight(text[half:]), rel=0.05)


def test_all_that_a_message_holds_has_a_weight() -> None:
    picture = Image(media_type="image/png", data="x" * 100_000)
    call = Call(id="1", name="write_file", input={"content": "some words " * 100})
    result = Result(call="1", text="some words " * 100, images=(picture,))
    bare = weight_of(Message(role="user"))
    assert weight_of(Message(role="assistant", calls=(call,))) > bare + 100
    assert 1600 < weight_of(Message(role="user", results=(result,))) < 2200


def test_the_factor_of_a_model_comes_from_what_its_service_reports() -> None:
    gauge = Gauge("a/b", 100_000)
    assert gauge.tokens(1000) == 1100
    assert gauge.heard(1000, 1300)
    assert gauge.tokens(1000) == 1300
    for wrong in (0, 3, 2700):  # nothing, messages instead of tokens, two calls in one
        assert not gauge.heard(1000, wrong)
    assert gauge.tokens(1000) == 1300


def test_a_refusal_that_names_the_size_is_believed() -> None:
    gauge = Gauge("a/b", 200_000, reply=20_000)
    gauge.refused(30_000, TooLongError("no", most=32_000, size=36_000))
    assert (gauge.size(), gauge.room()) == (32_000, 24_000)
    assert gauge.tokens(30_000) == 36_000


def test_a_refusal_that_names_nothing_teaches_that_less_fits() -> None:
    gauge = Gauge("a/b", 200_000)
    gauge.refused(30_000, TooLongError("no"))
    assert gauge.size() < 30_000
    small = Gauge("a/b", 20_000)
    small.refused(10_000, TooLongError("no", most=20_000))
    assert small.tokens(10_000) > small.room() - 1


def test_a_server_is_asked_once_it_matters_until_it_tells() -> None:
    told = iter([None, 32_768])
    gauge = Gauge("a/b", 4096, sure=False, ask=lambda: next(told))
    assert gauge.size(1000) == 4096
    assert gauge.size(3000) == 4096
    assert gauge.size(3000) == 32_768
    assert gauge.size(30_000) == 32_768

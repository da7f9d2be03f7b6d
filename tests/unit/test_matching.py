"""Which skill a message asks for: held against what people say, and what they say otherwise."""

from pathlib import Path

import pytest

from agent.matching import LIKELY, MOST, Offer, likely, ranked, sure
from agent.store import yamlfile
from agent.store.skills import builtin, load, offers

SAID = Path(__file__).parent.parent / "utterances"
NONE = "none"


def utterances(name: str) -> list[tuple[str, str]]:
    """Rows of the skill that does just that, and what is said."""
    pairs = yamlfile.plain(yamlfile.load(SAID / name))
    return [(skill, text) for skill, texts in pairs.items() for text in texts]


@pytest.fixture(scope="module")
def built_in(tmp_path_factory: pytest.TempPathFactory) -> list[Offer]:
    empty = tmp_path_factory.mktemp("empty")
    return offers(load(builtin(), empty, empty, trusted=True).all)


@pytest.mark.parametrize("name", sorted(path.name for path in SAID.glob("*.yaml")))
def test_what_starts_a_skill_is_always_right_and_a_hint_nearly_always(
    name: str, built_in: list[Offer]
) -> None:
    rows = utterances(name)
    asking = [row for row in rows if row[0] != NONE]
    assert len(asking) >= 59
    assert len(rows) - len(asking) >= 59

    started = {text: found.name for _, text in rows if (found := sure(text, built_in))}
    assert [row for row in rows if started.get(row[1], row[0]) != row[0]] == []
    assert sum(skill == started.get(text) for skill, text in asking) / len(asking) >= LEAST[name][0]

    hinted = {text: found.name for _, text in rows if (found := likely(text, built_in))}
    wrong = [row for row in rows if hinted.get(row[1], row[0]) != row[0]]
    assert len(wrong) <= len(rows) // 25, wrong
    known = sum(skill in {started.get(text), hinted.get(text)} for skill, text in asking)
    assert known / len(asking) >= LEAST[name][1]


LEAST = {
    "tuned.yaml": (0.5, 0.67),
    "unseen.yaml": (0.06, 0.25),
}  # of what asks for a skill: started; started or hinted at


def test_what_matched_is_told(built_in: list[Offer]) -> None:
    found = sure("Could you please fix my failing tests?", built_in)
    assert found
    assert (found.name, found.because) == ("fix-tests", "fix failing tests")
    near = likely("tests are broken, fix them", built_in)
    assert near
    assert near.name == "fix-tests"
    assert set(near.because.split(", ")) == {"test", "broken", "fix"}
    assert LIKELY <= near.score <= 1


def test_of_a_long_message_only_the_beginning_is_weighed(built_in: list[Offer]) -> None:
    assert ranked("x " * MOST + "fix the failing tests", built_in) == []
    assert sure("fix the failing tests " + "please " * 100, built_in) is None


@pytest.mark.parametrize("text", ["", "?", "please", "…", "the", "\u200b"])
def test_nothing_said_is_nothing_found(text: str, built_in: list[Offer]) -> None:
    assert sure(text, built_in) is None
    assert likely(text, built_in) is None
    assert likely("fix the tests", []) is None


def test_the_words_of_other_writings_are_read(built_in: list[Offer]) -> None:
    there = [*built_in, Offer("mend", "", ("почини упавшие тесты",))]
    assert ranked("请帮我修复失败的测试", there)[0].name == "fix-tests"
    started = sure("Почини упавшие тесты!", there)
    assert started
    assert started.name == "mend"

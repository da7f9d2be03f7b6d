"""Conditions are read as Python reads the same words."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from agent.when import OUTCOMES, WhenError, holds, named, wanted

IDS = ("a", "b-1", "2.1")
ATOMS = st.tuples(st.sampled_from(IDS), st.sampled_from(OUTCOMES)).map(".".join)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map("not {}".format),
        inner.map("({})".format),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
    ),
    max_leaves=8,
)
STATUSES = st.dictionaries(st.sampled_from(IDS), st.sampled_from([*OUTCOMES, "cancelled"]))


@given(condition=CONDITIONS, statuses=STATUSES)
def test_a_condition_means_what_its_words_mean(condition: str, statuses: dict[str, str]) -> None:
    words = condition.replace("(", " ( ").replace(")", " ) ").split()
    facts = {
        word: str(statuses.get(word.rpartition(".")[0]) == word.rpartition(".")[2])
        for word in words
        if "." in word
    }
    # Python's `not` stands before a comparison only; the words here have none.
    expected = eval(" ".join(facts.get(word, word) for word in words), {})
    assert holds(condition, statuses) is expected


@given(condition=CONDITIONS, statuses=STATUSES)
def test_only_the_steps_that_are_named_matter(condition: str, statuses: dict[str, str]) -> None:
    known = {id: statuses[id] for id in named(condition) if id in statuses}
    assert holds(condition, known) is holds(condition, statuses)
    assert {id for id, _ in wanted(condition)} <= set(named(condition))


@given(text=st.text(st.sampled_from("ab.()2 notrdfieskp"), max_size=40) | st.text(max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with suppress(WhenError):
        assert holds(text, {}) in {True, False}

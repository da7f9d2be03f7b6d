import pytest

from agent.when import WhenError, holds, named, rewritten, wanted

ENDED = {"a": "done", "b": "failed", "c": "skipped", "2.1": "done"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.done", True),
        ("a.failed", False),
        ("b.failed", True),
        ("c.skipped", True),
        ("not a.done", False),
        ("not not a.done", True),
        ("a.done and b.failed", True),
        ("a.failed or b.done or c.skipped", True),
        ("a.done or b.done and b.done", True),  # and binds tighter
        ("(a.done or b.done) and b.done", False),
        ("not (a.failed or b.done)", True),
        ("not a.failed and b.failed", True),  # not binds tightest
        ("2.1.done", True),
        ("unknown.failed", False),
        ("not unknown.done", True),
        ("  a.done\n  and\tb.failed ", True),
    ],
)
def test_a_condition_holds_by_how_steps_ended(condition: str, expected: bool) -> None:
    assert holds(condition, ENDED) is expected


def test_a_cancelled_step_has_none_of_the_outcomes() -> None:
    assert not holds("a.failed or a.done or a.skipped", {"a": "cancelled"})


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("", "the end"),
        ("a", "'a'"),
        ("a.ok", "'a.ok'"),
        (".failed", "'.failed'"),
        ("a.done and", "the end"),
        ("a.done b.done", "'b.done' is not expected there"),
        ("a.done && b.done", "'&' is not expected there"),
        ("(a.done", "not closed"),
        ("a.done)", "')' is not expected there"),
        ("not", "the end"),
        ("not " * 60 + "a.done", "too deeply"),
        ("(" * 60 + "a.done" + ")" * 60, "too deeply"),
        ("a.done or " * 300 + "a.done", "longer than"),
    ],
)
def test_what_is_no_condition_is_refused_in_words(condition: str, words: str) -> None:
    with pytest.raises(WhenError) as told:
        holds(condition, ENDED)
    assert words in str(told.value)


def test_the_steps_asked_about_are_named_once_each_in_their_order() -> None:
    assert named("b.failed or not (a.done and b.done)") == ("b", "a")


@pytest.mark.parametrize(
    ("condition", "outcomes"),
    [
        ("a.failed", {("a", "failed")}),
        ("not a.failed", set()),
        ("not (b.done and not a.failed)", {("a", "failed")}),
        ("not a.failed or a.failed", {("a", "failed")}),
        ("a.failed or not a.failed", {("a", "failed")}),
        ("a.done or b.skipped", {("a", "done"), ("b", "skipped")}),
    ],
)
def test_an_outcome_is_asked_for_unless_only_denied(
    condition: str, outcomes: set[tuple[str, str]]
) -> None:
    assert wanted(condition) == outcomes


def test_a_condition_is_rewritten_for_other_names_and_keeps_its_joins() -> None:
    assert (
        rewritten("not (a.failed or nota.done) and or-1.skipped", lambda id: f"sub.{id}")
        == "not (sub.a.failed or sub.nota.done) and sub.or-1.skipped"
    )

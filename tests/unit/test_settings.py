from typing import Any

import pytest

from agent.errors import UsageError
from agent.rule import listed
from agent.settings import MODES, Rules, Settings, merged


def test_later_layers_win_and_each_value_knows_its_layer() -> None:
    found = merged(
        ("user", {"model": "a/b", "max_workers": 2, "small_model": "s/t"}),
        ("project", {"max_workers": "3"}),
        ("flag", {"model": "c/d"}),
    )
    assert found.settings == Settings(model="c/d", max_workers=3, small_model="s/t")
    assert found.origins == {"model": "flag", "max_workers": "project", "small_model": "user"}
    assert merged().settings == Settings()


def test_a_layer_may_set_a_value_back_to_its_default() -> None:
    found = merged(("user", {"skills": False, "timeout": 5}), ("flag", {"skills": True}))
    assert found.settings == Settings(timeout=5)
    assert found.origins == {"skills": "flag", "timeout": "user"}


def test_permission_rules_of_all_layers_add_up() -> None:
    found = merged(
        ("user", {"permissions": {"deny": ["bash(rm *)"], "allow": ["bash(git *)"]}}),
        ("project", {"permissions": {"deny": ["web_fetch"], "ask": ["bash(git push *)"]}}),
        ("flag", {"model": "a/b"}),
    )
    assert found.settings.permissions == Rules(
        deny=("bash(rm *)", "web_fetch"), ask=("bash(git push *)",), allow=("bash(git *)",)
    )


def test_rules_that_are_added_keep_their_kinds_and_order() -> None:
    one = Rules(deny=("a",), ask=("b",), allow=("c",))
    other = Rules(deny=("x",), ask=("y",), allow=("z",))
    assert one + other == Rules(deny=("a", "x"), ask=("b", "y"), allow=("c", "z"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"modle": "x"}, "unknown field `modle`"),
        ({"max_workers": 0}, "`int` >= 1"),
        ({"max_workers": "many"}, "Expected `int`, got `str` - at `$.max_workers`"),
        ({"max_turns": -1}, "$.max_turns"),
        ({"timeout": 0}, "$.timeout"),
        ({"timeout": "inf"}, "$.timeout"),
        ({"max_budget_usd": "nan"}, "$.max_budget_usd"),
        ({"max_tokens_total": 0}, "$.max_tokens_total"),
        ({"thinking_tokens": -1}, "$.thinking_tokens"),
        ({"permission_mode": "yolo"}, "Invalid enum value 'yolo'"),
        ({"plan": "maybe"}, "Invalid enum value 'maybe'"),
        ({"permissions": {"denny": []}}, "unknown field `denny`"),
        ({"add_dirs": "/x"}, "$.add_dirs"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_layer(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        merged(("user", {"model": "a/b"}), ("project.yaml", values))
    assert str(error.value).startswith("project.yaml: ")
    assert words in str(error.value)


def test_the_modes_are_known_by_the_names_that_fingers_know() -> None:
    assert MODES["acceptEdits"] == "accept-edits"
    assert MODES["bypassPermissions"] == "auto"
    assert {"default", "accept-edits", "plan", "auto"} == set(MODES.values())


@pytest.mark.parametrize(("text", "nearest"), [("bsh(rm *)", "bash"), ("bash npm", "")])
def test_a_flag_s_rule_for_a_tool_that_there_is_not_is_refused(text: str, nearest: str) -> None:
    with pytest.raises(UsageError, match="which there is not") as caught:
        listed(text)
    assert nearest in str(caught.value)
    assert listed("mcp__files__read, *") == ("mcp__files__read", "*")

from time import perf_counter

import pytest

from agent.secret import held, redacted

KEY = "sk-ant-" + "a1B2" * 10


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"use {KEY}, not mine", "use [redacted], not mine"),
        ("postgres://admin:" + "hunter2@db/main", "postgres://admin:[redacted]@db/main"),
        ("Authorization: Bearer " + "abcdef0123456789", "Authorization: Bearer [redacted]"),
        ('{"api_key": "' + 'abcd1234efgh"}', '{"api_key": "[redacted]"}'),
        ("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.a-b_c x", "[redacted] x"),
        (
            "a\n-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nxy==\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[redacted]\nb",
        ),
        ("-----BEGIN " + "PRIVATE KEY-----\ncut", "[redacted]"),
        ("mine is correct-horse", "mine is [redacted]"),
    ],
)
def test_what_is_secret_is_taken_out_and_the_rest_stays(text: str, left: str) -> None:
    assert redacted(text, ["correct-horse"]) == left
    assert redacted(left) == left


def test_what_only_speaks_of_secrets_is_left_as_it_is() -> None:
    for text in ("The API key is read from ANTHROPIC_API_KEY.", "a sk-learn key_handler_function"):
        assert not held(text)
        assert redacted(text, ["key"]) == text


@pytest.mark.parametrize(
    "piece",
    ["sk-", "-eyJ", "eyJ", "password:", "://a:", "bearer ", "-----BEGIN ", "xoxb-", "token is "],
)
def test_no_text_makes_the_search_slow(piece: str) -> None:
    began = perf_counter()
    redacted(piece * (100_000 // len(piece)))
    assert perf_counter() - began < 3

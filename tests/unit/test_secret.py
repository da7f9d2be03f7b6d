from time import perf_counter

import pytest

from agent.message import Message, Thought
from agent.secret import Veil, held, lacks, redacted
from agent.store.environment import secrets

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
    began = perf_counter()
    Veil().text(piece * (100_000 // len(piece)))
    assert perf_counter() - began < 3


def test_a_veil_names_the_variable_of_what_is_the_user_s_own() -> None:
    veil = Veil({'a"b/c+12345': "MY_TOKEN", "short": "NO"})
    assert veil.text('x a"b/c+12345 short') == "x [redacted: MY_TOKEN] short"
    assert veil.text(r'"a\"b/c+12345"') == '"[redacted: MY_TOKEN]"'  # as it stands in JSON
    assert veil.spoken(KEY) == KEY
    assert veil.text(f"x {KEY}") == "x [redacted]"
    assert veil.stands_in("= [redacted: MY_TOKEN]") == "MY_TOKEN"
    assert veil.stands_in("[redacted] [redacted: OTHER]") == ""
    assert lacks("curl -H [redacted]")
    assert not lacks("curl [x]")


@pytest.mark.parametrize(
    "text",
    [
        "pk_orders_by_customer_2_and_more",
        "class sk-fading-circle-1234567890",
        "password = settings.password1",
        "Bearer authentication-is-described-below",
        "see https://example.org:8080/a@b",
        "task-1234567890-abcdefghijkl",
        "a" * 5000,
    ],
)
def test_a_veil_leaves_what_only_looks_like_a_key(text: str) -> None:
    assert Veil().text(text) == text


def test_thinking_that_is_changed_is_no_longer_signed() -> None:
    thoughts = (Thought(text=f"use {KEY}", signature="s1"), Thought(text="hm", signature=KEY))
    veiled = Veil().over(Message(role="assistant", thoughts=thoughts))
    assert veiled.thoughts == (Thought(text="use [redacted]"), Thought(text="hm", signature=KEY))


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("DEPLOY_TOKEN", "abc12345", True),
        ("X_API_KEY", "sk-1234567", True),
        ("DATABASE_URL", "postgres://admin:hunter2@db/x", True),
        ("SIGNING_PASSPHRASE", "correct horse battery staple", True),
        ("SIGNING_SECRET", "abcdefghijklmnopqrstuvwxyz", True),
        ("DB_PASSWORD", "postgres", False),
        ("MAX_TOKENS", "4000000000", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/srv/u/key1.json", False),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus", False),
        ("TOKEN_URL", "https://login.example/v2", False),
        ("PATH", "/usr/bin1:/bin", False),
        ("GREETING", "hello-12345", False),
    ],
)
def test_a_variable_is_a_secret_by_its_name_and_what_it_holds(
    name: str, value: str, secret: bool
) -> None:
    assert secrets({name: value}) == ({value: name} if secret else {})

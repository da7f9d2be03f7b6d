"""The forms that keys and passwords have: one table for all who must not keep or show them.

The forms of keys are those that their issuers document; the others are what is called a secret
where it stands. What is between two bounds has them so that no text makes the search slow.
"""

import re
from collections.abc import Iterable

GONE = "[redacted]"

_KEYS = r"""
      \b(?:sk|pk|rk)[-_](?=[\w-]{0,200}\d)[\w-]{20,}               # Anthropic, OpenAI, Stripe
    | \bgh[pousr]_\w{30,} | \bgithub_pat_\w{30,} | \bglpat-[\w-]{18,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                               # AWS
    | \bAIza[\w-]{30,}                                            # Google
    | \bxox[abeoprs]-[\w-]{10,}                                   # Slack
    | \b(?:hf_|gsk_|npm_|xai-|dop_v1_)[A-Za-z0-9]{30,} | \bpypi-[\w-]{50,}
    | \beyJ[\w-]{10,2000}+\.eyJ[\w-]{10,9000}+\.[\w-]*            # a JSON web token
"""
_NAMED = r"""
      (?P<address>://[^\s/:@]{1,200}+:)[^\s/@]{1,200}+(?=@)        # a password in an address
    | (?P<bearer>(?i:\bbearer\s{1,20}))[\w.~+/-]{16,}
    | (?P<name>(?i:(?:password|passwd|passphrase|secret|token|api[_ -]?key|access[_ -]?key)["']?
        \s{0,20}(?:[:=]|\bis\b)\s{0,20}["']?))(?=[^\s"']{0,200}[\d!@\#$%^&*])[^\s"'<>{}()$]{8,}
"""
_BLOCK = r"-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY"
_SECRET = re.compile(f"{_BLOCK} | {_KEYS} | {_NAMED}", re.VERBOSE)
_BODY = re.compile(f"{_BLOCK}.*?(?:-----END [A-Z ]{{0,40}}PRIVATE KEY-----|\\Z)", re.DOTALL)
_SHOWN = re.compile(f"{_KEYS} | {_NAMED}", re.VERBOSE)
_ECHO = re.compile(r"\b(sk|key|gsk|xai|pplx|AIza)[-_][\w*.-]{6,}|\bAIza[\w-]{20,}")


def held(text: str) -> bool:
    """Whether a text seems to hold a key or a password."""
    return _SECRET.search(text) is not None


def redacted(text: str, known: Iterable[str] = ()) -> str:
    """The text with `[redacted]` for each key and password in it, and for each of `known`.

    >>> redacted("token: " + "abc12345 and more")
    'token: [redacted] and more'
    """
    for each in known:
        if len(each) >= 8:  # shorter ones are too common
            text = text.replace(each, GONE)
    text = _BODY.sub(GONE, text)
    return _SHOWN.sub(_without, text)


def _without(found: re.Match[str]) -> str:
    name = found.lastgroup
    return (found[name] if name else "") + GONE


def masked(words: str) -> str:
    """A service's words about a key, which it may show in part, with `***` in its place."""
    return _ECHO.sub("***", words)

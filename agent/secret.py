"""The forms that keys and passwords have: one table for all who must not keep or show them.

The forms of keys are those that their issuers document; the others are what is called a secret
where it stands. What is between two bounds has them so that no text makes the search slow.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)

GONE = "[redacted]"
_MARK = re.compile(r"\[redacted(?:: (\w{1,200}))?\]")
GROWN = 8192  # characters that are waited with for the rest of a secret
_VISIBLE = bytes(range(33, 127)).decode()
SHORTEST = 8  # characters of a value that is looked for; shorter ones are too common
# What is no text: images, what only a service reads.
OPAQUE = frozenset({"data", "signature", "redacted", "extra"})

_DASHED = r"\b(?:sk|pk|rk)[-_](?=[\w-]{0,200}\d)[\w-]{20,}"  # Anthropic, OpenAI, Stripe
# The same but for what only looks so: `pk_orders_by_customer_2`, `sk-fading-circle-12`.
_SURE = r"""
    \b(?:sk|pk|rk)[-_](?=[\w-]{0,200}\d)
    (?:(?:ant|proj|or|live|test|admin|svcacct)[-_][\w-]{16,}|[A-Za-z0-9]{20,})
"""
_ISSUED = r"""
      \bgh[pousr]_\w{30,} | \bgithub_pat_\w{30,} | \bglpat-[\w-]{18,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                               # AWS
    | \bAIza[\w-]{30,}                                            # Google
    | \bxox[abeoprs]-[\w-]{10,}                                   # Slack
    | \b(?:hf_|gsk_|npm_|xai-|dop_v1_)[A-Za-z0-9]{30,} | \bpypi-[\w-]{50,}
    | \beyJ[\w-]{10,2000}+\.eyJ[\w-]{10,9000}+\.[\w-]*            # a JSON web token
"""
_ADDRESS = r"(?P<address>://[^\s/:@]{1,200}+:)[^\s/@]{1,200}+(?=@)"  # a password in it
_BEARER = r"(?P<bearer>(?i:\bbearer\s{1,20}))(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{16,}"
_NAMED = (
    rf"{_ADDRESS} | {_BEARER}"
    + r"""
    | (?P<name>(?i:(?:password|passwd|passphrase|secret|token|api[_ -]?key|access[_ -]?key)["']?
        \s{0,20}(?:[:=]|\bis\b)\s{0,20}["']?))(?=[^\s"']{0,200}[\d!@\#$%^&*])[^\s"'<>{}()$]{8,}
"""
)
_BLOCK = r"-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY"
_KEYS = f"{_DASHED} | {_ISSUED}"
_SECRET = re.compile(f"{_BLOCK} | {_KEYS} | {_NAMED}", re.VERBOSE)
_BODY = re.compile(f"{_BLOCK}.*?(?:-----END [A-Z ]{{0,40}}PRIVATE KEY-----|\\Z)", re.DOTALL)
_SHOWN = re.compile(f"{_KEYS} | {_NAMED}", re.VERBOSE)
# What a form begins with, which is looked for first, and the form.
_FORMS = tuple(
    (tuple(heads.split()), re.compile(form, re.VERBOSE))
    for heads, form in (
        ("sk- sk_ pk- pk_ rk- rk_", _SURE),
        ("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- AKIA ASIA AIza xox", _ISSUED),
        ("hf_ gsk_ npm_ xai- dop_v1_ pypi- eyJ", _ISSUED),
        ("://", _ADDRESS),
        ("earer EARER", _BEARER),
    )
)
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
        if len(each) >= SHORTEST:
            text = text.replace(each, GONE)
    text = _BODY.sub(GONE, text)
    return _SHOWN.sub(_without, text)


def lacks(text: str) -> bool:
    """Whether something has been taken out of a text."""
    return _MARK.search(text) is not None


def _without(found: re.Match[str]) -> str:
    name = found.lastgroup
    return (found[name] if name else "") + GONE


class Veil:
    """Takes secrets out of what is kept, shown and sent: the user's own (`own`: value → the
    variable that holds it), and keys of a known form. Threads may share it.

    Here a form is only taken for a key where hardly anything else has it: a conversation that is
    gone on with is read back without what was taken out.
    """

    def __init__(self, own: Mapping[str, str] | None = None) -> None:
        self.own = {value: name for value, name in (own or {}).items() if len(value) >= SHORTEST}
        self._names = dict(self.own)
        for value, name in self.own.items():  # as it stands in JSON
            self._names[msgspec.json.encode(value).decode()[1:-1]] = name
        longest_first = sorted(self._names, key=len, reverse=True)
        self._own = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._spaced = [each for each in longest_first if each.strip(_VISIBLE)]

    def spoken(self, text: str) -> str:
        """A text for a model, with the name of the variable for each of the user's own secrets.

        What only has the form of a key stays: it may be part of the work.
        """
        return self._own.sub(lambda found: f"[redacted: {self._names[found[0]]}]", text)

    def stands_in(self, text: str) -> str:
        """The first variable that a text names as `spoken` does; "" for none."""
        names = set(self.own.values())
        for found in _MARK.finditer(text):
            if found[1] in names:
                return found[1]
        return ""

    def text(self, text: str) -> str:
        """A text without secrets."""
        text = self.spoken(text)
        if "PRIVATE KEY" in text:
            text = _BODY.sub(GONE, text)
        for heads, form in _FORMS:
            if any(head in text for head in heads):
                text = form.sub(_without, text)
        return text

    def settled(self, text: str) -> int:
        """How much of a text that still grows can be shown: what follows, its last word mostly, may
        turn out to be the beginning of a secret."""
        at = len(text.rstrip(_VISIBLE))
        if text[:at].rstrip()[-6:].lower() == "bearer":
            at = len(text[:at].rstrip()) - 6
        begin = text.rfind("-----BEGIN ")
        if begin >= 0 and not re.search(r"-----END [A-Z ]{0,40}-----", text[begin:]):
            at = min(at, begin)
        for each in self._spaced:
            near = range(min(len(each) - 1, len(text)), 0, -1)
            at = min(at, next((len(text) - n for n in near if text.endswith(each[:n])), at))
        for whole in (*self._own.finditer(text), *_BODY.finditer(text)):
            if whole.start() < at < whole.end():  # its last word is what would wait
                at = whole.start()
        return max(at, len(text) - GROWN)

    def value(self, value: Any) -> Any:
        """The same for all texts in a value as JSON has it."""
        match value:
            case str():
                return self.text(value)
            case dict():
                made = {
                    self.text(key) if isinstance(key, str) else key: each
                    if key in OPAQUE
                    else self.value(each)
                    for key, each in value.items()
                }
                if made.get("signature") and made.get("text") != value.get("text"):
                    del made["signature"]  # which is of the text as it was
                return made
            case list() | tuple():
                return [self.value(each) for each in value]
            case _:
                return value

    def shows(self, line: bytes) -> bool:
        """Whether a line of JSON has a secret in it."""
        text = line.decode("utf-8", "replace")
        return self.text(text) != text

    def over(self, record: T) -> T:
        """The record without secrets. Raises UnicodeEncodeError for what JSON can't hold."""
        return msgspec.convert(self.value(msgspec.to_builtins(record)), type(record))


def masked(words: str) -> str:
    """A service's words about a key, which it may show in part, with `***` in its place."""
    return _ECHO.sub("***", words)

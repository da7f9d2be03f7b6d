"""How many tokens a model makes of something, without its tokenizer.

A text's weight is linear in what is quickly counted of it. The figures are the least squares of
6,000 characters each of English, code in two languages, diffs, JSON, logs, listings, hexadecimal,
Chinese, Japanese, Korean, Russian and German, against Mistral's tokenizer of 131,000 words
(tekken 240911): within 6 % of each, 10 of German. A model's own factor is learned from what its
service reports; until then a tenth is added, since Anthropic's tokenizer makes more of code.
"""

import re
import string
from collections.abc import Callable, Iterable, Mapping
from math import ceil
from threading import Lock

from msgspec import json

from agent.errors import TooLongError
from agent.message import Message, Request

KINDS = {
    "a": string.ascii_letters,
    "d": string.digits,
    "p": string.punctuation,
    "s": " \t",
    "n": "\r\n",
}  # of ASCII; anything else is of kind "o"
LETTER, WORD, CAPITALS = 0.08, 0.70, 1.00
DIGIT, NUMBER = 0.85, 0.85
SIGN, SIGNS = 0.50, 0.15
LINE, GAP = 0.25, 1.50
OTHER = (
    (1.15, re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")),  # Chinese
    (0.66, re.compile(r"[\u3040-\u30ff]")),  # Japanese
    (0.84, re.compile(r"[\uac00-\ud7af]")),  # Korean
    (3.00, re.compile(r"[\u0080-\u024f]")),  # of words in Latin letters, which they break
    (0.37, re.compile(r"[\u0250-\u1fff]")),  # other alphabets
    (1.00, re.compile(r"[\u2000-\u303f\uff00-\uffef]")),  # signs
    (2.00, re.compile(r"[\ud800-\udfff\ufb00-\ufeff\ufff0-\uffff\U00010000-\U0010ffff]")),  # emoji
)
STRANGE = re.compile(r"[^\x00-\x7f]+")
PIECE = 65_536  # characters that are counted of a long text, at most, in each of its parts
PARTS = 16
IMAGE = 1_600.0  # of a picture: what Anthropic counts for the largest, and others less
MESSAGE, CALL = 4.0, 12.0  # what stands around one


def weight(text: str) -> float:
    """About how many tokens a text is. A long one is judged by sixteen parts of it."""
    if len(text) > PIECE * PARTS:
        step = len(text) // PARTS
        some = sum(weight(text[at * step :][:PIECE]) for at in range(PARTS))
        return some * len(text) / (PIECE * PARTS)
    data = text.encode("utf-8", "surrogatepass")
    kinds = b"o" + data.translate(TABLE)
    found = (
        LETTER * kinds.count(b"a")
        + WORD * runs(kinds, "a")
        + CAPITALS * (b"x" + data.translate(CASES)).count(b"xUU")
        + DIGIT * kinds.count(b"d")
        + NUMBER * runs(kinds, "d")
        + SIGN * kinds.count(b"p")
        + SIGNS * runs(kinds, "p")
        + LINE * runs(kinds, "n")
        + GAP * runs(kinds, "s", 2)
    )
    if not text.isascii():
        strange = "".join(STRANGE.findall(text))
        found += sum(each * len(kind.findall(strange)) for each, kind in OTHER)
    return found


def runs(kinds: bytes, kind: str, least: int = 1) -> int:
    """How often bytes of a kind begin, so many of them at least."""
    begin = kind * least
    return sum(kinds.count((other + begin).encode()) for other in (*KINDS, "o") if other != kind)


def table(kinds: Mapping[str, str], other: str) -> bytes:
    """A table for `bytes.translate`: each byte's kind."""
    made = bytearray(other.encode() * 256)
    for kind, letters in kinds.items():
        for letter in letters.encode():
            made[letter] = ord(kind)
    return bytes(made)


TABLE = table(KINDS, "o")
CASES = table({"U": string.ascii_uppercase}, "x")


def weight_of(message: Message) -> float:
    """A message, with all that it holds. Thinking that only its service can read weighs little."""
    found = MESSAGE + weight(message.text) + weight(message.attached) + IMAGE * len(message.images)
    for thought in message.thoughts:
        found += weight(thought.text) + len(thought.redacted) / 8
    for call in message.calls:
        found += CALL + weight(call.name) + weight(json.encode(call.input).decode())
    for result in message.results:
        found += CALL + weight(result.text) + IMAGE * len(result.images)
    return found


def weight_of_all(messages: Iterable[Message]) -> float:
    return sum(map(weight_of, messages))


def head(request: Request) -> float:
    """What stands before the messages: the system prompt and the tools."""
    return weight(request.system) + weight(json.encode(request.tools).decode())


def weight_of_request(request: Request) -> float:
    return head(request) + weight_of_all(request.messages)


FIRST = 1.1  # the factor before anything has been learned
UNLIKELY = (0.3, 3.0)  # of a factor: such a report counts something else
JUMP = (0.6, 1.6)  # from a factor that has been learned to the next
ENOUGH = 200  # tokens of a request from which something is learned
ASKS = 3  # a local server tells the size of a model once that is loaded
SURE = 8_000  # tokens up to which nobody is asked for a size that is not known


class Gauge:
    """What is known of one model: how much it takes, and how many tokens a weight is.

    `usual` is its size, or a guess where not `sure`; `ask` finds out more and is called, a few
    times at most, when a request is large enough for it to matter. `reply`: tokens that a reply may
    have. Any thread may use it.
    """

    def __init__(
        self,
        name: str,
        usual: int,
        *,
        sure: bool = True,
        reply: int = 0,
        ask: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.name, self.reply = name, reply
        self._size, self._ask = usual, ask
        self._asks = 0 if sure else ASKS
        self._factor, self._learned = FIRST, False
        self._lock = Lock()

    def size(self, tokens: int = 0) -> int:
        """Tokens that it takes, in and out; `tokens` is what it shall take now."""
        with self._lock:
            if self._asks and tokens > min(SURE, self._size // 2):
                told = self._ask()
                self._asks = 0 if told else self._asks - 1
                self._size = told or self._size
            return self._size

    def room(self, tokens: int = 0) -> int:
        """The same without the reply's."""
        size = self.size(tokens)
        return size - min(self.reply, size // 4)

    @property
    def factor(self) -> float:
        """Tokens in a weight."""
        return self._factor

    def expect(self, factor: float) -> None:
        """Take a factor from before, until a better one is learned."""
        with self._lock:
            if not self._learned and UNLIKELY[0] <= factor <= UNLIKELY[1]:
                self._factor = factor

    def tokens(self, weight: float) -> int:
        return ceil(weight * self._factor)

    def weight(self, tokens: float) -> float:
        return tokens / self._factor

    def heard(self, weight: float, reported: int) -> bool:
        """Learn from a request whose size a service has reported, and say whether to believe it."""
        if reported < ENOUGH or not weight:
            return False
        factor = reported / weight
        with self._lock:
            low, high = UNLIKELY
            if self._learned:
                low, high = max(low, self._factor * JUMP[0]), min(high, self._factor * JUMP[1])
            if not low <= factor <= high:
                return False
            self._factor, self._learned = factor, True
            return True

    def refused(self, weight: float, error: TooLongError) -> None:
        """Learn from a request that was too long: the size that the error names, or a smaller one
        than was thought."""
        with self._lock:
            self._asks = 0
            low, high = UNLIKELY
            if error.size and weight and low <= error.size / weight <= high:
                self._factor, self._learned = error.size / weight, True
            thought = ceil(weight * self._factor)
            if error.most:
                self._size = error.most
            elif thought < self._size:
                self._size = max(thought * 9 // 10, 1)
            if thought <= self._size - min(self.reply, self._size // 4):  # it was more than that
                self._factor = min(self._size / max(weight, 1.0), high)

"""Which skill a message asks for, by its words alone: no model is asked, in any language.

Two bands. *Sure* starts the skill: the message says what one of the skill's phrases says, but for
case, punctuation and words that carry nothing. *Likely* is told to the model in the call that is
made anyway: the skill's words cover enough of what the message says, by BM25 (Robertson and
Zaragoza, "The Probabilistic Relevance Framework", 2009). All else is nothing.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

LONGEST = 200  # characters of a message that may start a skill
MOST = 400  # characters of a message that are weighed: what it asks for stands first
K1, B = 1.2, 0.5  # BM25: how soon a word that is repeated counts no more; of long texts, what less
LIKELY = 0.3  # of what the message would score against itself
# Words that carry nothing in an order. What denies, asks or conditions is not among them.
EMPTY = frozenset(
    """
    a also an and any at be can could do for from go ahead hello hey hi i in it its just
    kindly let lets me my need now of on our ours please so some thank thanks that the their
    them then there these they this those to us want we will would you your
    """.split()  # noqa: SIM905 - a list of sixty strings is harder to read
)
_ASKING = re.compile(r"(?:please )?(?:can|could|would|will) you\b")  # an order, for all its `?`
_MARKS = re.compile(r"[.,;:!…_\-–—\"'`‘’“”«»()¡。，！、]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_END = re.compile(r"(?:ations?|ing|ies|ed|es|s|e|y)$")


class Offer(Struct, frozen=True):
    """What a skill is known by."""

    name: str
    description: str
    phrases: tuple[str, ...] = ()


class Match(Struct, frozen=True):
    name: str
    band: Literal["sure", "likely"]
    score: float  # 0 to 1
    because: str  # the phrase that says the same, or the words that both have


def sure(text: str, offers: Iterable[Offer]) -> Match | None:
    """The one skill that the whole message asks for.

    It has to be a skill's name (of two words or more: "explain" alone may mean anything), one of
    its phrases or its description; the first of these that fits one skill alone decides.
    """
    said = meant(text) if len(text) <= LONGEST else ()
    if not said:
        return None
    offers = list(offers)
    for kind in (
        lambda offer: (offer.name,) if "-" in offer.name else (),
        lambda offer: offer.phrases,
        lambda offer: (offer.description,),
    ):
        fit = {
            offer.name: phrase
            for offer in offers
            for phrase in kind(offer)
            if meant(phrase) == said
        }
        if fit:
            name, phrase = next(iter(fit.items()))
            return Match(name, "sure", 1.0, phrase) if len(fit) == 1 else None
    return None


def meant(text: str) -> tuple[str, ...]:
    """The words of a message that say something, in their order; () where nothing is said.

    A question mark counts, but in a polite order: it asks, and does not tell to do.

    >>> meant("Could you please fix my ‘failing’ tests?"), meant("fix-the failing TESTS")
    (('fix', 'failing', 'tests'), ('fix', 'failing', 'tests'))
    >>> meant("fix the tests?"), meant("don't fix it"), meant("please")
    (('fix', 'tests', '?'), ('don', 't', 'fix'), ())
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = _MARKS.sub(" ", folded.replace("?", " ? ")).split()
    if _ASKING.match(folded) and words[-1:] == ["?"]:
        words.pop()
    said = [word for word in words if word not in EMPTY]
    return tuple(said or [word for word in words if word != "please"])


def likely(text: str, offers: Sequence[Offer]) -> Match | None:
    """The skill whose words cover most of what the message says, if that is enough of it."""
    found = ranked(text, offers)
    return found[0] if found and found[0].score >= LIKELY else None


def ranked(text: str, offers: Sequence[Offer]) -> list[Match]:
    """All that have words in common with the message, best first."""
    said = Counter(stems(text[:MOST]))
    texts = [
        Counter(stems(" ".join((offer.name, offer.name, offer.description, *offer.phrases))))
        for offer in offers
    ]
    if not said or not texts:
        return []
    mean = sum(words.total() for words in texts) / len(texts)
    spread = Counter(stem for words in texts for stem in words)

    def weight(stem: str) -> float:
        """Of a word: the fewer skills have it, the more it says."""
        return math.log(1 + (len(texts) - spread[stem] + 0.5) / (spread[stem] + 0.5))

    most = sum(weight(stem) * (K1 + 1) for stem in said)
    found = []
    for offer, words in zip(offers, texts, strict=True):
        share = K1 * (1 - B + B * words.total() / mean)
        scores = {
            stem: weight(stem) * words[stem] * (K1 + 1) / (words[stem] + share)
            for stem in said
            if words[stem]
        }
        if len(scores) > 1:  # one word alone may be about anything
            because = ", ".join(sorted(scores, key=scores.__getitem__, reverse=True))
            found.append(Match(offer.name, "likely", sum(scores.values()) / most, because))
    return sorted(found, key=lambda match: -match.score)


def stems(text: str) -> list[str]:
    """Words without their endings, and pairs of characters where words are not set apart.

    >>> stems("Fixing the failed tests"), stems("修复测试")
    (['fix', 'fail', 'test'], ['修复', '复测', '测试'])
    """
    found = []
    for word in meant(text.replace("?", " ")):
        at = 0
        for run in _CJK.finditer(word):
            found += _stem(word[at : run.start()])
            found += [run[0][n : n + 2] for n in range(max(len(run[0]) - 1, 1))]
            at = run.end()
        found += _stem(word[at:])
    return found


def _stem(word: str) -> list[str]:
    cut = _END.sub("", word)
    if len(cut) > 2 and cut[-1] == cut[-2]:
        cut = cut[:-1]
    return [cut if len(cut) > 2 else word] if word else []

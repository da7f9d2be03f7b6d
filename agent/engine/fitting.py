"""Provider → Provider: a conversation is kept within what the model takes.

Before a request goes out its size is compared with the model's. What would not fit is made shorter
(see `compaction`), once, and stays so for the requests after it, byte for byte. A request that is
refused as too long all the same is made shorter and sent once more, never a third time.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct, structs

from agent.engine import prompt
from agent.engine.chat import silent
from agent.engine.compaction import Keep, Means, Replaced, compacted, nowhere, transcript
from agent.engine.tokens import (
    Gauge,
    head,
    weight,
    weight_of,
    weight_of_all,
    weight_of_request,
)
from agent.errors import ModelError, TooLongError, UsageError
from agent.message import Filling, Message, Reply, Request, Say, Usage
from agent.seams import Provider

HELD = 4  # replacements that are remembered: one goes back to an earlier one with the conversation
LEAST = 0.05  # of a model's size: with less left for messages nothing helps
AGAIN = 10  # messages to come before a summary is asked for again that gained nothing
SUMMED = 60_000  # tokens that are summarised at once
LONGEST = 16_000  # characters of a summary

Small: TypeAlias = Callable[[], tuple[Provider, Gauge]]
"""The model that summarises. Raises ModelError, UsageError where there is none."""


class Model(Struct, frozen=True, kw_only=True):
    """The model of a conversation, and who helps to keep within it."""

    gauge: Gauge
    small: Small
    tell: Callable[[str], None]


class Size(Struct, frozen=True, kw_only=True):
    """A request that was sent, and how large it was."""

    request: Request
    weight: float
    gauge: Gauge
    tokens: int = 0  # as its service has reported; 0: it has not


class Fit:
    """What has been made shorter of one conversation. One thread uses it at a time.

    `keep` keeps what is dropped, `kept` is told of each replacement, `held` is one from before.
    `where` says where the whole is, for the user.
    """

    def __init__(
        self,
        keep: Keep = nowhere,
        kept: Callable[[Replaced], None] = lambda replaced: None,
        held: Replaced | None = None,
        where: str = "",
    ) -> None:
        self._keep, self._kept, self._where = keep, kept, where
        self._held = [held] if held else []
        self._last: Size | None = None
        self._vain = -AGAIN  # messages there were when nothing was gained

    def beside(self) -> "Fit":
        """One that begins with the same and keeps nothing: for what does not enter the
        conversation."""
        made = Fit()
        made._held = [*self._held]
        return made

    # -- what a provider asks -------------------------------------------------------------------

    def fitted(self, request: Request, model: Model) -> Request:
        """The request as it is sent. Raises TooLongError where it can't be made to fit."""
        sent, gauge = self.sent(request), model.gauge
        if self._held and self._held[-1].model == gauge.name:
            gauge.expect(self._held[-1].factor)
        tokens = self.tokens(sent, gauge)
        if tokens <= gauge.room(tokens):
            return sent
        sent = self.shorter(request, model)
        if self.tokens(sent, gauge) > gauge.size():
            raise self.too_long(sent, gauge)
        return sent

    def again(self, request: Request, sent: Request, error: TooLongError, model: Model) -> Request:
        """What is sent instead of what was refused. Raises TooLongError where nothing helps."""
        gauge = model.gauge
        gauge.refused(self.weight(sent), error)
        self._last = None
        made = self.shorter(request, model)
        if made == sent or self.tokens(made, gauge) > gauge.size():
            raise self.too_long(sent, gauge) from error
        return made

    def last_time(self, provider: Provider, sent: Request, say: Say, model: Model) -> Reply:
        """Its reply to a request; a refusal is learned from, for what comes later, and raised."""
        try:
            return provider(sent, say)
        except TooLongError as error:
            model.gauge.refused(self.weight(sent), error)
            raise

    def heard(self, sent: Request, reply: Reply, model: Model) -> None:
        """Learn from a reply how large the request was."""
        heavy = self.weight(sent)
        reported = prompt_size(reply.usage)
        sure = model.gauge.heard(heavy, reported)
        self._last = Size(
            request=sent, weight=heavy, gauge=model.gauge, tokens=reported if sure else 0
        )

    # -- what has been replaced -----------------------------------------------------------------

    def replaced(self, messages: tuple[Message, ...]) -> Replaced | None:
        """The newest replacement that holds for a conversation."""
        return next((each for each in reversed(self._held) if each.of(messages)), None)

    def sent(self, request: Request) -> Request:
        """The request with what has been replaced."""
        found = self.replaced(request.messages)
        if not found:
            return request
        return structs.replace(request, messages=found.sent(request.messages))

    def shorter(
        self, request: Request, model: Model, keep: str = "", *, fully: bool = False
    ) -> Request:
        """The request made shorter, or as it is sent anyway where nothing can be gained."""
        gauge, sent = model.gauge, self.sent(request)
        tokens = self.tokens(sent, gauge)
        room = gauge.room(tokens) - gauge.tokens(head(request))
        if room < gauge.size() * LEAST:
            return sent
        how = list[str]()

        def summarise(before: str, messages: Sequence[Message]) -> str:
            if len(request.messages) < self._vain + AGAIN and not fully:
                return ""
            text, by = summary(model, before, messages, keep)
            how.append(by)
            return text

        means = Means(room=gauge.weight(room), keep=self._keep, summarise=summarise)
        old = self.replaced(request.messages)
        found = compacted(request.messages, old, means, fully=fully)
        found = structs.replace(found, model=gauge.name, factor=gauge.factor)
        made = structs.replace(request, messages=found.sent(request.messages))
        if weight_of_all(made.messages) >= weight_of_all(sent.messages):
            self._vain = len(request.messages)
            return sent
        self._held = [*self._held, found][-HELD:]
        after = self.tokens(made, gauge)
        by = "".join(f", summarised by {name}" for name in how if name) or ", old outputs dropped"
        model.tell(
            f"the conversation was made shorter: {tokens:,} → {after:,} of {gauge.size():,} tokens"
            f"{by if found.covered else ', old outputs dropped'}"
            + (f"; {self._where}" if self._where else "")
        )
        self._kept(found)
        return made

    # -- sizes ----------------------------------------------------------------------------------

    def weight(self, sent: Request) -> float:
        """Of a request; what was there already at the last one is not weighed again."""
        if last := self._begins(sent):
            return last.weight + weight_of_all(sent.messages[len(last.request.messages) :])
        return weight_of_request(sent)

    def tokens(self, sent: Request, gauge: Gauge) -> int:
        """Of a request: what was reported of the last one, and the rest estimated."""
        last = self._begins(sent)
        if last and last.tokens and last.gauge is gauge:
            rest = weight_of_all(sent.messages[len(last.request.messages) :])
            return last.tokens + gauge.tokens(rest)
        return gauge.tokens(self.weight(sent))

    def _begins(self, sent: Request) -> Size | None:
        """The last request, where this one begins as that one."""
        if not (last := self._last):
            return None
        before = last.request
        same = sent.system == before.system and sent.tools == before.tools
        if same and sent.messages[: len(before.messages)] == before.messages:
            return last
        return None

    def too_long(self, sent: Request, gauge: Gauge) -> TooLongError:
        """What is told where nothing helps: what needs how much of how much."""
        size, start = gauge.size(), gauge.tokens(head(sent))
        if gauge.room() - start < size * LEAST:
            return TooLongError(
                f"{gauge.name}: the system prompt and tools alone need {start:,} of {size:,} "
                "tokens",
                hint="take a model with a larger context, or shorten AGENTS.md and what else is "
                "read into the prompt; `context` in the settings says how large a model's is",
                most=size,
            )
        whole = self.tokens(sent, gauge)
        return TooLongError(
            f"{gauge.name}: the conversation needs {whole:,} of {size:,} tokens and can't be made "
            "shorter",
            hint="take a model with a larger context, or say less at once; `context` in the "
            "settings says how large a model's is",
            most=size,
        )

    def filling(
        self, request: Request, model: Model, sections: Sequence[tuple[str, str]] = ()
    ) -> Filling:
        """What the next request would hold, by kind; `sections` are parts of its system prompt."""
        sent, gauge = self.sent(request), model.gauge
        tokens = self.tokens(sent, gauge)
        last = self._begins(sent)
        known = [(name, weight(text)) for name, text in sections if text in sent.system]
        own = weight(sent.system) - sum(each for _, each in known)
        parts = [
            ("system prompt", max(own, 0.0)),
            *known,
            ("tools", head(sent) - weight(sent.system)),
            *kinds(sent.messages).items(),
        ]
        size = gauge.size(tokens)
        return Filling(
            model=gauge.name,
            window=size,
            reserved=size - gauge.room(tokens),
            exact=bool(last and last.tokens),
            parts=tuple((name, gauge.tokens(each)) for name, each in parts if each),
        )


def fitting(provider: Provider, fit: Fit, model: Model) -> Provider:
    """The same provider, whose requests fit. Raises TooLongError where nothing makes one fit."""

    def fitted(request: Request, say: Say) -> Reply:
        sent = fit.fitted(request, model)
        try:
            reply = provider(sent, say)
        except TooLongError as error:
            sent = fit.again(request, sent, error, model)
            reply = fit.last_time(provider, sent, say, model)
        fit.heard(sent, reply, model)
        return reply

    return fitted


def summary(model: Model, before: str, messages: Sequence[Message], keep: str) -> tuple[str, str]:
    """A summary by the small model, and that one's name; "" for both where it gives none that
    is shorter than what it stands for."""
    try:
        provider, gauge = model.small()
        room = min(gauge.room(), SUMMED) * 3 // 4 - gauge.tokens(weight(before))
        most = room * 4  # characters
        text = transcript(messages, most)
        while most > 1000 and (heavy := gauge.tokens(weight(text))) > room:
            most = min(most - 500, max(most * room // heavy, 1000))
            text = transcript(messages, most)
        asked = Message(role="user", text=prompt.summary(before, text, keep))
        reply = provider(Request(system=prompt.SUMMARY, messages=(asked,)), silent)
    except (ModelError, UsageError) as error:
        model.tell(f"no summary of the conversation: {error}")
        return "", ""
    made = reply.message.text.strip()
    well = reply.stop == "end" and not reply.message.calls
    if well and made and len(made) <= LONGEST and weight(made) < weight_of_all(messages):
        return made, gauge.name
    model.tell("no summary of the conversation: the model gave none that is of use")
    return "", ""


def prompt_size(usage: Usage) -> int:
    """Tokens of a request, whatever served them."""
    return usage.total - usage.output_tokens


def kinds(messages: Sequence[Message]) -> dict[str, float]:
    """What messages weigh, by what is in them."""
    found = dict.fromkeys(
        (
            "summary",
            "your words",
            "attached",
            "the model's words",
            "thinking",
            "calls",
            "tool outputs",
        ),
        0.0,
    )
    for message in messages:
        bare = structs.replace(message, thoughts=(), calls=(), results=(), attached="")
        own = "your words" if message.role == "user" else "the model's words"
        if message.role == "user" and message.text.startswith(prompt.NOTE):
            own = "summary"
        found[own] += weight_of(bare) if bare.text or bare.images else 0.0
        for name, part in (
            ("attached", Message(role=message.role, attached=message.attached)),
            ("thinking", Message(role=message.role, thoughts=message.thoughts)),
            ("calls", Message(role=message.role, calls=message.calls)),
            ("tool outputs", Message(role=message.role, results=message.results)),
        ):
            if part != Message(role=message.role):
                found[name] += weight_of(part)
    return found

"""What a server of chat completions has refused, and how it is asked from then on.

A lesson is learned only from words that name what was sent: a refusal for any other reason is the
user's to hear.
"""

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from agent.providers.wire import Dialect

REFUSED = (400, 422, 500, 501)  # llama.cpp answers with 500 where a template refuses
UNFIT = re.compile(
    r"unsupported|not (be )?support|n't support|unknown|unrecogni[sz]ed|unexpected|extra"
    r"|not permitted|not allowed|invalid|must be one of|only .{0,40}support|rejected|requires"
    r"|not (enabled|implemented|available)|disabled|must alternate|must be followed by",
    re.IGNORECASE,
)  # how servers say that they do not take something

Sent = dict[str, Any]


class Lesson(Struct, frozen=True, kw_only=True):
    words: re.Pattern[str]
    sent: Callable[[Sent], bool]  # whether it can be about this request
    change: Callable[[Dialect, str], Dialect]  # given what was said


def said(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def has(name: str) -> Callable[[Sent], bool]:
    return lambda sent: name in sent


def spoke(role: str) -> Callable[[Sent], bool]:
    return lambda sent: any(each["role"] == role for each in sent["messages"])


def milder(dialect: Dialect, words: str) -> Dialect:
    return structs.replace(dialect, forces="required" if dialect.forces == "function" else "")


def changed(**what: Any) -> Callable[[Dialect, str], Dialect]:
    return lambda dialect, words: structs.replace(dialect, **what)


def unreasoned(dialect: Dialect, words: str) -> Dialect:
    named = dialect.reasoning and dialect.reasoning in words
    return structs.replace(dialect, reasoning="") if named else dialect


def unshaped(dialect: Dialect, words: str) -> Dialect:
    forces = "required" if dialect.forces == "schema" else dialect.forces
    return structs.replace(dialect, schemas=False, forces=forces)


def several(sent: Sent) -> bool:
    return any(len(each.get("tool_calls") or ()) > 1 for each in sent["messages"])


def with_tools(sent: Sent) -> bool:
    return "tools" in sent or any(
        each["role"] == "tool" or each.get("tool_calls") for each in sent["messages"]
    )


LESSONS = (
    Lesson(words=said(r"stream_options"), sent=has("stream_options"), change=changed(counts=False)),
    Lesson(
        words=said(r"max_completion_tokens"),
        sent=has("max_tokens"),
        change=changed(limit="max_completion_tokens"),
    ),
    Lesson(
        words=said(r"max_completion_tokens"),
        sent=has("max_completion_tokens"),
        change=changed(limit="max_tokens"),
    ),
    Lesson(
        words=said(r"response_format|json_schema|schema|grammar"),
        sent=has("response_format"),
        change=unshaped,
    ),
    Lesson(words=said(r"tool_choice"), sent=has("tool_choice"), change=milder),
    Lesson(words=said(r"effort"), sent=has("reasoning_effort"), change=changed(effort=False)),
    Lesson(words=said(r"reasoning"), sent=lambda sent: True, change=unreasoned),
    Lesson(
        words=said(r"single tool.?call|(parallel|multiple|more than one) tool.?calls?"),
        sent=several,
        change=changed(parallel=False),
    ),
    Lesson(
        # Ollama, llama.cpp, vLLM, LM Studio, TGI
        words=said(
            r"support\w* (for )?(tool|function)|(tool|function)s?(.calling|.use|.calls?)?"
            r" (is|are|was|were)? ?n[o']t (currently )?(support|enabled|available|implement)"
            r"|tools param requires|tool choice requires|--jinja|tool-call-parser"
            r"|(unsupported|unknown|unrecogni[sz]ed|unexpected|extra|invalid)\b.{0,60}"
            r"[\"'`: ]tools\b"
            r"|[\"'`]?\btools[\"'`]?:? .{0,30}(unsupported|not (permitted|allowed)|unknown|extra)"
            r"|invalid role.{0,20}tool|role.{0,20}[\"'`]tool[\"'`]"
        ),
        sent=with_tools,
        change=changed(tools=False),
    ),
    Lesson(
        # Gemma's and Mistral's templates: a tool's message breaks the turns, or a system's does
        words=said(r"roles? must alternate|must alternate|must be followed by"),
        sent=with_tools,
        change=changed(tools=False),
    ),
    Lesson(
        words=said(r"\bsystem\b.*\brole|\brole.*\bsystem\b|must alternate|must start with"),
        sent=spoke("system"),
        change=changed(system=False),
    ),
    Lesson(
        words=said(r"\bstream(ing|ed)?\b"),
        sent=lambda sent: bool(sent.get("stream")),
        change=changed(streams=False),
    ),
)


def lesson(dialect: Dialect, status: int, words: str, sent: Sent) -> Dialect | None:
    """The dialect to ask in instead, after a refusal; None where it teaches nothing new."""
    if status not in REFUSED or not UNFIT.search(words):
        return None
    for each in LESSONS:
        if each.words.search(words) and each.sent(sent):
            easier = each.change(dialect, words)
            if easier != dialect:
                return easier
    return None

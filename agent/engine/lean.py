"""Provider → Provider: for a model that takes little, what stands before the conversation is short.

System prompt and tools get SHARE of what it takes. Where they need more the outline of the code is
shortened, then tools are left out, those that are missed least first, then the outline. What has to
be called stays. Requests of one kind are shortened alike, so that their beginning stays the same.
"""

import re
from collections.abc import Callable
from typing import Any

from msgspec import structs

from agent.engine.tokens import FIRST, Gauge, head
from agent.message import Reply, Request, Say
from agent.seams import Provider

SMALL = 32_768  # tokens: a model that takes so many is given all
SHARE = 0.4
OUTLINE = re.compile(r"<outline>\n(.*?)\n</outline>\n?", re.DOTALL)
LINES = (60, 20)  # of the outline, before tools are left out
RANK = (
    "report",
    "revise_plan",
    "read_file",
    "edit_file",
    "bash",
    "write_file",
    "list_files",
    "grep_files",
    "submit_plan",
    "find_symbol",
    "get_outline",
    "run_skill",
    "ask_user",
    "multi_edit",
)  # tools, the one that is missed most first; any other is missed less


def lean(provider: Provider, gauge: Gauge, tell: Callable[[str], None]) -> Provider:
    """The same provider; `tell` is told what is left out."""

    def shorter(request: Request, say: Say) -> Reply:
        made = leaner(request, gauge)
        if made is not request:
            tell(left_out(request, made, gauge))
        return provider(made, say)

    return shorter


def leaner(request: Request, gauge: Gauge) -> Request:
    """The request itself, or a shorter one where the model takes little."""
    size = gauge.size(gauge.tokens(head(request)))
    if size >= SMALL:
        return request
    most = size * SHARE / FIRST  # not by what is learned later: it would not be the same again
    made = request
    for lines in LINES:
        if head(made) > most:
            made = with_outline(made, lines)
    ranked = sorted(made.tools, key=rank)
    while head(made) > most and len(ranked) > 1 and ranked[-1]["name"] != request.must:
        ranked.pop()
        names = {spec["name"] for spec in ranked} | {request.must}
        made = structs.replace(
            made, tools=tuple(spec for spec in request.tools if spec["name"] in names)
        )
    return with_outline(made, 0) if head(made) > most else made


def rank(spec: dict[str, Any]) -> int:
    name = spec["name"]
    return RANK.index(name) if name in RANK else len(RANK)


def with_outline(request: Request, most: int) -> Request:
    """The request with so many lines of the outline of the code."""

    def cut(found: re.Match[str]) -> str:
        lines = found[1].split("\n")
        if len(lines) <= most:
            return found[0]
        kept = "\n".join([*lines[:most], f"… and {len(lines) - most} lines more"])
        return f"<outline>\n{kept}\n</outline>\n" if most else ""

    system = OUTLINE.sub(cut, request.system)
    return request if system == request.system else structs.replace(request, system=system)


def left_out(request: Request, made: Request, gauge: Gauge) -> str:
    """What is told of it."""
    tools = len(request.tools) - len(made.tools)
    parts = [f"{tools} of {len(request.tools)} tools are not offered"] if tools else []
    if request.system != made.system:
        parts.append("the outline of the code is shortened")
    return f"{gauge.name} takes {gauge.size():,} tokens: " + ", ".join(parts)

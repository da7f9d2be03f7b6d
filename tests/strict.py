"""What the services refuse, as far as it can be told from a request: each fault in words."""

import json
import re
from collections.abc import Iterator
from typing import Any


def messages(body: dict[str, Any]) -> Iterator[str]:
    known = {"model", "max_tokens", "messages", "stream", "system", "tools", "tool_choice"}
    if extra := set(body) - known - {"thinking", "output_config"}:
        yield f"{min(extra)}: Extra inputs are not permitted"
    if not (isinstance(body["max_tokens"], int) and body["max_tokens"] > 0 and body["model"]):
        yield "max_tokens: must be positive"
    budget = body.get("thinking", {}).get("budget_tokens")
    if budget is not None and not 1024 <= budget < body["max_tokens"]:
        yield "thinking.budget_tokens: must be at least 1024 and less than max_tokens"
    if body.get("thinking") and body.get("tool_choice", {}).get("type") in ("tool", "any"):
        yield "thinking may not be enabled when tool_choice forces tool use"
    marks = json.dumps(body).count('"cache_control"')
    if marks > 4:
        yield f"a maximum of 4 blocks with cache_control may be provided, found {marks}"
    for block in body.get("system", []):
        yield from text(block, "system")
    names = [tool["name"] for tool in body.get("tools", [])]
    for tool in body.get("tools", []):
        if tool["input_schema"].get("type") != "object":
            yield f"tools.{tool['name']}: input_schema must be an object's"
    if body.get("tool_choice", {}).get("name", names and names[0]) not in (names or [[]]):
        yield "tool_choice: no such tool"
    yield from message_turns(body["messages"])


def message_turns(messages: list[dict[str, Any]]) -> Iterator[str]:
    expected = "user"
    waiting: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] != expected:
            yield f"messages.{at}: roles must alternate"
        if not message["content"]:
            yield f"messages.{at}: content must not be empty"
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        if results != waiting:
            yield f"messages.{at}: tool_use ids {waiting} were answered by {results}"
        kinds = [block["type"] for block in message["content"]]
        if "tool_result" in kinds[len(results) :]:
            yield f"messages.{at}: tool_result blocks must come first"
        for block in message["content"]:
            yield from block_faults(block, f"messages.{at}", message["role"])
        waiting = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        if len({*waiting, *seen}) != len(waiting) + len(seen):
            yield f"messages.{at}: tool_use ids must be unique"
        seen |= {*waiting}
        expected = "assistant" if expected == "user" else "user"
    if expected == "user" and messages[-1]["role"] == "assistant" and waiting:
        yield "the last message has tool_use ids without tool_result"


def text(block: dict[str, Any], where: str) -> Iterator[str]:
    if not block["text"].strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def block_faults(block: dict[str, Any], where: str, role: str) -> Iterator[str]:
    own = {
        "user": ("text", "image", "tool_result"),
        "assistant": ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"),
    }
    if block["type"] not in own[role]:
        yield f"{where}: a {block['type']} block in a message of role {role}"
    match block:
        case {"type": "text"}:
            yield from text(block, where)
        case {"type": "thinking", "signature": ""}:
            yield f"{where}: Invalid `signature` in `thinking` block"
        case {"type": "thinking", "cache_control": _}:
            yield f"{where}: thinking blocks cannot be cached"
        case {"type": "tool_use"}:
            yield from use(block, where)
        case {"type": "tool_result", "content": content}:
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if not parts:
                yield f"{where}: tool_result must not be empty"
            for part in parts:
                yield from block_faults(part, where, "user")
        case {"type": "image", "source": source} if set(source) != {"type", "media_type", "data"}:
            yield f"{where}: image.source"


def use(block: dict[str, Any], where: str) -> Iterator[str]:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        yield f"{where}: tool_use.id: does not match the pattern"
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
        yield f"{where}: tool_use.name: does not match the pattern"
    if not isinstance(block["input"], dict):
        yield f"{where}: tool_use.input: must be an object"


def completions(body: dict[str, Any]) -> Iterator[str]:
    known = {"model", "messages", "stream", "stream_options", "tools", "tool_choice"}
    known |= {"max_tokens", "max_completion_tokens", "response_format", "reasoning_effort"}
    if extra := set(body) - known:
        yield f"Unrecognized request argument supplied: {min(extra)}"
    if "stream_options" in body and not body["stream"]:
        yield "stream_options: only allowed when stream is enabled"
    if not body["model"] or "temperature" in body:
        yield "model: required"
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    if "tools" in body and not names:
        yield "tools: must not be empty"
    if form := body.get("response_format"):
        shape = form["json_schema"]
        if form["type"] != "json_schema" or shape["schema"]["type"] != "object":
            yield "response_format: the schema's root has to be an object"
        if shape["strict"] and shape["schema"].get("additionalProperties") is not False:
            yield "response_format: 'additionalProperties' is required to be supplied and false"
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        yield "tool_choice: no such tool"
    yield from completion_turns(body["messages"])


def completion_turns(messages: list[dict[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    before = ""
    for at, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        if role == "system" and at:
            yield f"messages.{at}: only the first message may be a system message"
        if role == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                yield f"messages.{at}: answers no call before it"
            if not isinstance(content, str) or not content.strip():
                yield f"messages.{at}: a tool's content must be text"
            before = "tool"
            continue
        if waiting:
            yield f"messages.{at}: the calls {waiting} must be followed by tool messages"
        if role == before or (role == "assistant" and before in ("", "system")):
            yield f"messages.{at}: user and assistant must alternate"
        if role in ("user", "system") and not content:
            yield f"messages.{at}: content must not be empty"
        if role == "assistant":
            yield from assistant(message, f"messages.{at}")
            waiting = [call["id"] for call in message.get("tool_calls", [])]
        before = role
    if before not in ("user", "tool") or waiting:
        yield "the last message must be a user's or a tool's"


def assistant(message: dict[str, Any], where: str) -> Iterator[str]:
    calls = message.get("tool_calls")
    if not calls and not message.get("content"):
        yield f"{where}: content or tool_calls must be set"
    if calls is not None and not calls:
        yield f"{where}: tool_calls must not be empty"
    ids = [call["id"] for call in calls or []]
    if len({*ids}) != len(ids) or any(len(id) > 40 for id in ids):
        yield f"{where}: tool_calls.id"
    for call in calls or []:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"]):
            yield f"{where}: function.name does not match the pattern"
        if not isinstance(json.loads(call["function"]["arguments"]), dict):
            yield f"{where}: function.arguments"

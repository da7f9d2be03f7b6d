"""Rules that the user has allowed for good, written into their settings file.

The file is theirs: comments, order and form stay as they are, and what would come out is read
again before anything is written.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from agent.errors import UsageError
from agent.store import yamlfile
from agent.store.disk import contents
from agent.store.yamledit import put, value_of, write

FILE = ".config/tianshu/settings.yaml"  # in the home directory


def allow(home: Path, rules: Iterable[str]) -> Path:
    """Add rules to `permissions: {allow: …}` of the user's settings; the file that has them now.

    Raises UsageError for a file in which there is no place for them, AgentError where it can't be
    written.
    """
    path = home / FILE
    text = yamlfile.text(contents(path, yamlfile.MOST_BYTES), str(path)) if path.exists() else ""
    known = _allowed(text, path)
    fresh = text
    for rule in (rule for rule in rules if rule not in known):
        fresh = _added(fresh, rule)
        known.append(rule)
    if fresh == text:
        return path
    if _without(fresh, path) != _without(text, path) or _allowed(fresh, path) != known:
        raise UsageError(
            f"{path}: there is no place for `permissions: {{allow: …}}` that is sure",
            hint=f"write it there yourself: {', '.join(known)}",
        )
    write(path.resolve(), fresh)  # it may be a link into the user's own collection
    return path


def _added(text: str, rule: str) -> str:
    """The text with a rule more; what it means is checked by the caller."""
    word = json.dumps(rule, ensure_ascii=False)
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if not isinstance(root, yaml.MappingNode):
        end = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{end}permissions:\n  allow:\n    - {word}\n"
    permissions = value_of(root, "permissions")
    if not isinstance(permissions, yaml.MappingNode):
        return put(text, root, f'"permissions": {{"allow": [{word}]}}')
    listed = value_of(permissions, "allow")
    if not isinstance(listed, yaml.SequenceNode):
        return put(text, permissions, f'"allow": [{word}]')
    at = listed.start_mark
    if listed.flow_style:
        comma = ", " if listed.value else ""
        return f"{text[: at.index + 1]}{word}{comma}{text[at.index + 1 :]}"
    return f"{text[: at.index]}- {word}\n{' ' * at.column}{text[at.index :]}"


def _plain(text: str, path: Path) -> dict[str, Any]:
    values = yamlfile.plain(yamlfile.composed(text, str(path)))
    return values if isinstance(values, dict) else {}


def _allowed(text: str, path: Path) -> list[str]:
    """The rules that it allows, in the order in which they are added: the newest stands first."""
    rules = _plain(text, path).get("permissions")
    found = rules.get("allow") if isinstance(rules, dict) else None
    return list(reversed(found)) if isinstance(found, list) else []


def _without(text: str, path: Path) -> dict[str, Any]:
    """All that it says but for what it allows."""
    values = _plain(text, path)
    rules = values.pop("permissions", None)
    rest = {name: each for name, each in rules.items() if name != "allow"} if rules else {}
    return {**values, **({"permissions": rest} if rest else {})}

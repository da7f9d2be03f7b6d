"""A value changed in a YAML file that people write: comments, order and form stay as they are.

What would come out is read again before it is kept: it has to say the same, but for the change.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import yaml

from agent.errors import UsageError
from agent.store import yamlfile
from agent.store.disk import failed, private
from agent.store.yamltext import written


def changed(text: str, keys: Sequence[str], value: Any, where: str) -> str:
    """The text with `value` under these keys, one within the other. Raises UsageError where there
    is no place for it that is sure."""
    return _sure(text, _set(text, keys, value), keys, [value], where)


def without(text: str, keys: Sequence[str], where: str) -> str:
    """The text without what stands under these keys; as it is where nothing does."""
    mapping: yaml.Node | None = _composed(text)
    for key in keys[:-1]:
        mapping = value_of(mapping, key)
    pair = _pair(mapping, keys[-1])
    if pair is None or not isinstance(mapping, yaml.MappingNode):
        return text
    if mapping.flow_style or len(mapping.value) == 1:
        inner = {key.value: None for key, _ in mapping.value if key.value != keys[-1]}
        if inner:
            raise _unsure(keys, where)
        fresh = without(text, keys[:-1], where) if keys[1:] else ""
    else:
        start = text.rfind("\n", 0, pair[0].start_mark.index) + 1
        end = text.find("\n", _end(pair[1], text))
        fresh = text[:start] + (text[end + 1 :] if end >= 0 else "")
    return _sure(text, fresh, keys, [], where)


def _composed(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=yaml.CSafeLoader)


def _set(text: str, keys: Sequence[str], value: Any) -> str:
    root = _composed(text)
    if not isinstance(root, yaml.MappingNode):
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{_entry(keys, value)}\n"
    mapping: yaml.MappingNode = root
    left = list(keys)
    while left[1:] and isinstance(inner := value_of(mapping, left[0]), yaml.MappingNode):
        mapping, left = inner, left[1:]
    pair = _pair(mapping, left[0])
    for key in reversed(left[1:]) if mapping.flow_style else ():
        value = {key: value}
    left = left[:1] if mapping.flow_style else left
    entry = _entry(left, value, mapping.start_mark.column)
    if pair is None and not mapping.flow_style:
        return _behind(text, mapping, entry)
    if pair is None:
        return put(text, mapping, entry)
    start, end = pair[0].start_mark.index, _end(pair[1], text)
    return f"{text[:start]}{entry}{text[max(end, pair[0].end_mark.index) :]}"


def _entry(keys: Sequence[str], value: Any, column: int = 0) -> str:
    """`key: value`; below a key that is new, the next one has a line of its own."""
    lines = []
    for depth, key in enumerate(keys):
        name = written({key: 0}).rpartition(":")[0]
        last = depth == len(keys) - 1
        lines.append(f"{' ' * (column + 2 * depth)}{name}:{' ' + _flow(value) if last else ''}")
    return "\n".join(lines).lstrip()


def _flow(value: Any) -> str:
    if isinstance(value, str) and "\n" not in value:
        return value if _bare(value) else written({"x": value})[3:].rstrip("\n")
    return json.dumps(_native(value), ensure_ascii=False)


def _bare(word: str) -> bool:
    """Whether a text is a number or a truth value as JSON writes it."""
    meant = yamlfile.value(word)
    return meant is not None and not isinstance(meant, str) and json.dumps(meant) == word


def _native(value: Any) -> Any:
    """The same with such texts as what they stand for."""
    match value:
        case dict():
            return {key: _native(each) for key, each in value.items()}
        case list():
            return [_native(each) for each in value]
        case str() if _bare(value):
            return yamlfile.value(value)
    return value


def _behind(text: str, mapping: yaml.MappingNode, entry: str) -> str:
    """The text with an entry more below the last one of a block."""
    end = text.find("\n", _end(mapping, text))
    head, tail = (text, "") if end < 0 else (text[:end], text[end + 1 :])
    return f"{head.rstrip()}\n{' ' * mapping.start_mark.column}{entry}\n{tail}"


def _end(node: yaml.Node, text: str) -> int:
    """Where what a node says ends: a block's own end is where the next thing begins."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return max(_end(value, text) for _, value in node.value)
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return max(_end(value, text) for value in node.value)
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}:
        end = len(text[:end].rstrip())
    return end


def _sure(text: str, fresh: str, keys: Sequence[str], value: list[Any], where: str) -> str:
    """`fresh`, if it says what `text` does but for `value` (or nothing) under `keys`."""
    try:
        now = _plain(fresh, where)
        then = _plain(text, where)
    except UsageError as error:
        raise _unsure(keys, where) from error
    said = now
    for key in keys[:-1]:
        said = said.get(key) or {}
    if (value and said.get(keys[-1]) != value[0]) or _less(now, keys) != _less(then, keys):
        raise _unsure(keys, where)
    return fresh


def _unsure(keys: Sequence[str], where: str) -> UsageError:
    name = ".".join(keys)
    return UsageError(f"{where}: there is no place for `{name}` that is sure", hint="edit the file")


def _less(values: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The values without what is under the keys, and without what is empty then."""
    rest = {name: each for name, each in values.items() if name != keys[0]}
    inner = values.get(keys[0])
    if keys[1:] and isinstance(inner, dict) and (left := _less(inner, keys[1:])):
        rest[keys[0]] = left
    return rest


def _plain(text: str, where: str) -> dict[str, Any]:
    values = yamlfile.plain(yamlfile.composed(text, where))
    return values if isinstance(values, dict) else {}


# -- what others build on -----------------------------------------------------------------------


def put(text: str, mapping: yaml.MappingNode, entry: str) -> str:
    """The text with an entry more at the head of a mapping."""
    at = mapping.start_mark
    if mapping.flow_style:
        comma = ", " if mapping.value else ""
        return f"{text[: at.index + 1]}{entry}{comma}{text[at.index + 1 :]}"
    return f"{text[: at.index]}{entry}\n{' ' * at.column}{text[at.index :]}"


def _pair(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((key, value) for key, value in node.value if key.value == name), None)


def value_of(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pair = _pair(node, name)
    return pair[1] if pair else None


def write(path: Path, text: str) -> None:
    """Put a file in the place of another at once, with its mode; a new one is for the user alone.

    Raises AgentError.
    """
    private(path.parent)
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        with NamedTemporaryFile(
            "w", dir=path.parent, prefix=".settings-", delete=False, encoding="utf-8", newline=""
        ) as fresh:
            fresh.write(text)
            fresh.flush()
            os.fsync(fresh.fileno())
        Path(fresh.name).chmod(mode)
        Path(fresh.name).replace(path)
    except OSError as error:
        raise failed(path, error) from error

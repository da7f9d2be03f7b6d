"""YAML as people write it: blocks, long texts as `|`, short lists in one line."""

from typing import Any

import yaml

from agent.store.yamlfile import value

SHORT = 80  # characters of a list that stands in one line


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    style = None
    if any(mark in text for mark in "\r\x85\u2028\u2029\ufeff") or value(text) is not text:
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: _Dumper, items: list[Any] | tuple[Any, ...]) -> yaml.Node:
    words = all(isinstance(item, str) and "\n" not in item for item in items)
    short = words and sum(len(item) + 2 for item in items) <= SHORT
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
_Dumper.add_representer(tuple, _list)


def written(data: dict[str, Any]) -> str:
    """Plain data as YAML text that `yamlfile` reads as the same."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)

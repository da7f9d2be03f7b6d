"""YAML that people write, read with bounds: text until a type says otherwise, every node with
its line.

No tags, no second document, no key twice, no deep nesting; aliases count as often as they are
used. So a file can be neither a program nor a bomb.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agent.errors import UsageError
from agent.store.disk import contents

MOST_BYTES = 1_000_000
MOST_NODES = 120_000  # an alias counts as all that it stands for
DEEPEST = 40

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"null": None, "Null": None, "NULL": None, "~": None, "": None}
_TRUTHS = {"true": True, "True": True, "false": False, "False": False}


class Scalar(Struct, frozen=True):
    line: int  # from 1
    text: str
    quoted: bool = False  # in quotes or a block: it is text, whatever it looks like


class Items(Struct, frozen=True):
    line: int
    nodes: list["Node"]


class Pairs(Struct, frozen=True):
    line: int
    nodes: list[tuple[Scalar, "Node"]]

    def of(self, key: str) -> "tuple[Scalar, Node] | None":
        return next((pair for pair in self.nodes if pair[0].text == key), None)


Node: TypeAlias = Scalar | Items | Pairs


def load(path: Path) -> Node | None:
    """The one document of a file; None if it is empty. Raises UsageError with file and line."""
    return composed(text(contents(path, MOST_BYTES), str(path)), str(path))


def text(data: bytes, where: str) -> str:
    """The characters of a file in UTF-8, without a byte order mark. Raises UsageError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{where}:{line}: this is not UTF-8") from error


def composed(text: str, where: str, above: int = 0) -> Node | None:
    """The one document of a YAML text; None if it is empty. Raises UsageError with the line.

    `above`: how many lines stand above the text in its file.
    """
    import yaml  # 20 ms, and many a command reads none

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return _Composer(where, above, yaml.parse(text, Loader=loader)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = (mark.line if mark else 0) + 1 + above
        raise UsageError(f"{where}:{line}: {error.problem or error}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1 + above
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise UsageError(f"{where}:{line}: the character U+{code:04X} can't stand there") from error


class _Keys:
    """The keys of a mapping so far, and the one that waits for its value."""

    def __init__(self) -> None:
        self.waiting: Scalar | None = None
        self.seen = set[str]()


class _Composer:
    """Nodes of parser events, without recursion, and no further than the bounds."""

    def __init__(self, where: str, above: int, events: Iterator[Any]) -> None:
        self._where, self._above, self._events = where, above, events
        self._count = 0
        self._named: dict[str, tuple[Node, int]] = {}  # anchors: the node, and its size

    def document(self) -> Node | None:
        from yaml import events as kinds

        root: Node | None = None
        documents = 0
        open_nodes: list[tuple[Items | Pairs, str | None, int]] = []
        keys: list[_Keys] = []  # one for each open node
        for event in self._events:
            node: Node
            match event:
                case kinds.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self._fault(event, "a second document begins here; one is allowed")
                    continue
                case kinds.MappingEndEvent() | kinds.SequenceEndEvent():
                    node, anchor, size = open_nodes.pop()
                    keys.pop()
                    if anchor:
                        self._named[anchor] = (node, self._count - size)
                    if not open_nodes:
                        root = node
                    continue
                case kinds.NodeEvent():
                    node = self._node(event)
                case _:
                    continue
            if open_nodes:
                self._put(node, event, open_nodes[-1][0], keys[-1])
            elif isinstance(node, Scalar):
                root = node
            if isinstance(event, kinds.CollectionStartEvent) and not isinstance(node, Scalar):
                if len(open_nodes) == DEEPEST:
                    raise self._fault(event, f"this is nested more than {DEEPEST} deep")
                open_nodes.append((node, event.anchor, self._count - 1))
                keys.append(_Keys())
        return root

    def _node(self, event: Any) -> Node:
        from yaml import events as kinds

        line = event.start_mark.line + 1 + self._above
        node: Node
        size = 1
        match event:
            case kinds.AliasEvent():
                if event.anchor not in self._named:
                    raise self._fault(event, f"*{event.anchor} stands for nothing above it")
                node, size = self._named[event.anchor]
            case _ if event.tag not in {None, "!"}:
                raise self._fault(event, "tags (`!…`) are not used here; write plain values")
            case kinds.ScalarEvent():
                node = Scalar(line, event.value, quoted=not event.implicit[0])
                if event.anchor:
                    self._named[event.anchor] = (node, 1)
            case kinds.SequenceStartEvent():
                node = Items(line, [])
            case _:
                node = Pairs(line, [])
        self._count += size
        if self._count > MOST_NODES:
            raise self._fault(event, f"this holds more than {MOST_NODES:,} values")
        return node

    def _put(self, node: Node, event: Any, parent: Items | Pairs, keys: "_Keys") -> None:
        if isinstance(parent, Items):
            parent.nodes.append(node)
        elif keys.waiting is not None:
            parent.nodes.append((keys.waiting, node))
            keys.waiting = None
        elif not isinstance(node, Scalar):
            raise self._fault(event, "a key has to be a word")
        elif node.text in keys.seen:
            raise self._fault(event, f"the key `{node.text}` stands here a second time")
        else:
            keys.seen.add(node.text)
            keys.waiting = node

    def _fault(self, event: Any, why: str) -> UsageError:
        return UsageError(f"{self._where}:{event.start_mark.line + 1 + self._above}: {why}")


def plain(node: Node | None, typed: tuple[str, ...] = ()) -> Any:
    """The dicts, lists and strings a node stands for; nothing at all, `null` and `~` are None.

    Below the keys `typed`, numbers and truth values are read as such (JSON's forms of them).
    """
    match node:
        case Pairs(nodes=pairs):
            return {
                key.text: _typed(value) if key.text in typed else plain(value, typed)
                for key, value in pairs
            }
        case Items(nodes=nodes):
            return [plain(each, typed) for each in nodes]
        case Scalar(text=word, quoted=quoted):
            return word if quoted else _WORDS.get(word, word)
        case _:
            return None


def _typed(node: Node) -> Any:
    match node:
        case Pairs(nodes=pairs):
            return {key.text: _typed(value) for key, value in pairs}
        case Items(nodes=nodes):
            return [_typed(each) for each in nodes]
        case Scalar(text=word, quoted=quoted):
            return word if quoted else value(word)


def value(word: str) -> Any:
    """What a plain word stands for in JSON: a number, a truth value, null, else itself.

    >>> [value(word) for word in ("1", "1.5", "true", "no", "~", "01")]
    [1, 1.5, True, 'no', None, '01']
    """
    if word in _WORDS:
        return None
    if word in _TRUTHS:
        return _TRUTHS[word]
    if found := _NUMBER.fullmatch(word):
        return float(word) if found[2] or found[3] else int(word)
    return word


def line(node: Node | None, where: str, key: str = "") -> int:
    """The line, from 1, that a path such as `$.steps[2].needs` points at; of its `key`, if any."""
    found = at(node, where)
    if key and isinstance(found, Pairs) and (pair := found.of(key)):
        return pair[0].line
    return found.line if found else 1


def at(node: Node | None, where: str) -> Node | None:
    """The node that a path points at, or the last one on its way that is there."""
    for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", where):
        match node:
            case Pairs() if pair := node.of(key):
                node = pair[1]
            case Items(nodes=nodes) if index and int(index) < len(nodes):
                node = nodes[int(index)]
            case _:
                break
    return node


def unknown(node: Node | None, kind: type[Struct]) -> Iterator[tuple[int, str]]:
    """The keys of a mapping that `kind` has no field for: the line, and what is wrong."""
    if not isinstance(node, Pairs):
        return
    known = list(kind.__struct_encode_fields__)
    for key, _ in node.nodes:
        if key.text not in known:
            near = get_close_matches(key.text, known, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            yield key.line, f"`{key.text}` is not known here{hint}"


def misfit(error: msgspec.ValidationError, node: Node | None) -> tuple[int, str]:
    """The line of a value that does not fit, and what is wrong with it in plain words."""
    why, _, path = str(error).partition(" - at ")
    path = path.strip("`")
    found = at(node, path)
    shown = repr(found.text) if isinstance(found, Scalar) else "this"
    name = path.replace("[...]", "").rpartition(".")[2]
    if wanted := re.match(r"Expected `(\w+).* got ", why):
        return line(node, path), f"{name}: {shown} is no {_KINDS.get(wanted[1], wanted[1])}"
    if missing := re.match(r"Object missing required field (`\w+`)", why):
        return line(node, path), f"{missing[1]} is missing here"
    return line(node, path), f"{name}: {why[:1].lower()}{why[1:]}" if name else why


_KINDS = {
    "int": "whole number",
    "float": "number",
    "bool": "truth value: write true or false",
    "str": "text",
    "array": "list",
    "object": "mapping of keys to values",
}

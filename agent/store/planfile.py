"""Plans and skills as files: YAML, or the same in JSON.

A scalar is text until a type says otherwise: `id: 1`, `run: yes`, `goal: 3.10` mean what stands
there. Every fault names its line.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.errors import PlanError, UsageError
from agent.plan import Permissions, Plan, Shape, Step, convert, faults
from agent.store import yamlfile
from agent.store.disk import contents
from agent.store.yamlfile import Items, Node, Pairs

PARTS: dict[str, type[Struct]] = {"permissions": Permissions, "result": Shape}
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")  # JSON's halves of characters


def load(path: Path) -> Plan:
    """Read and check a plan. Raises UsageError with file and line, PlanError with every fault."""
    return parsed(contents(path, yamlfile.MOST_BYTES), str(path))


def parsed(data: bytes, where: str) -> Plan:
    """The checked plan of a file's bytes; `where` names the file. Raises as `load`."""
    text = yamlfile.text(data, where)
    given, node = _read(text, where)
    if not isinstance(given, dict):
        raise UsageError(f"{where}:1: a plan is a mapping with the key `steps`")
    wrong = [f"{where}:{line}: {why}" for line, why in sorted(_strangers(node))]
    try:
        plan = convert(_without_strangers(given) if wrong else given)
    except msgspec.ValidationError as error:
        line, why = yamlfile.misfit(error, node)
        if wrong:
            raise PlanError([*wrong, f"{where}:{line}: {why}"]) from error
        raise UsageError(f"{where}:{line}: {why}") from error
    places = _Places(node, plan)
    wrong += [f"{where}:{places.line(fault)}: {fault}" for fault in faults(plan)]
    if wrong:
        raise PlanError(wrong)
    return plan


def _read(text: str, where: str) -> tuple[Any, Node | None]:
    """The plain data of a text and its nodes, which know the lines."""
    if not text.lstrip().startswith("{"):
        node = yamlfile.composed(text, where)
        return yamlfile.plain(node, typed=("result",)), node
    try:
        # YAML takes no tab as white space and no half of a character; neither moves a line.
        node = yamlfile.composed(_HALF.sub("?", text.replace("\t", " ")), where)
        return msgspec.json.decode(text), node
    except (msgspec.DecodeError, RecursionError):
        node = yamlfile.composed(text, where)  # a flow mapping of YAML's
        return yamlfile.plain(node, typed=("result",)), node


def _strangers(node: Node | None) -> Iterator[tuple[int, str]]:
    """Keys that mean nothing, each with its line; no more than a screen of them."""
    found = yamlfile.unknown(node, Plan)
    for step in _steps(node):
        found = chain(found, yamlfile.unknown(step, Step))
        if isinstance(step, Pairs):
            for key, kind in PARTS.items():
                pair = step.of(key)
                found = chain(found, yamlfile.unknown(pair[1] if pair else None, kind))
    return islice(found, 20)


def _without_strangers(given: dict[str, Any]) -> dict[str, Any]:
    """The same data without the keys that mean nothing, so that the rest can be checked too."""

    def known(data: Any, kind: type[Struct]) -> Any:
        if not isinstance(data, dict):
            return data
        fields = kind.__struct_encode_fields__
        return {
            key: known(value, PARTS[key]) if key in PARTS else value
            for key, value in data.items()
            if key in fields
        }

    plan: dict[str, Any] = known(given, Plan)
    if isinstance(steps := plan.get("steps"), list):
        plan["steps"] = [known(step, Step) for step in steps]
    return plan


def _steps(node: Node | None) -> list[Node]:
    pair = node.of("steps") if isinstance(node, Pairs) else None
    return pair[1].nodes if pair and isinstance(pair[1], Items) else []


class _Places:
    """Where the steps of a plan stand in its file."""

    def __init__(self, node: Node | None, plan: Plan) -> None:
        self._root = node
        self._steps: dict[str, list[Node]] = {}  # by the id as faults write it
        for step, place in zip(plan.steps, _steps(node), strict=False):
            self._steps.setdefault(repr(step.id), []).append(place)

    def line(self, fault: str) -> int:
        """The line of the step that a fault speaks of, or of the key that it names."""
        found = re.search(r"(?:step |the ids? |steps wait for each other: )(.+)", fault)
        about = found[1] if found else ""
        if fault.startswith("steps wait"):
            about = repr(about.partition(" → ")[0])
        quoted = re.match(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", about)
        steps = self._steps.get(quoted[0], []) if quoted else []
        if not quoted or not steps:
            return yamlfile.line(self._root, "$", "name" if "the name" in fault else "steps")
        for word in re.findall(r"[a-z_]+", about[quoted.end() :])[:8]:
            for step in steps:
                if isinstance(step, Pairs) and (pair := step.of(word)):
                    return pair[0].line
        return steps[-1].line


def dump(plan: Plan) -> str:
    """The plan as YAML that `load` reads as the same plan."""
    from agent.store.yamltext import written

    return written(msgspec.to_builtins(plan))

"""A plan: what is to be done, as a value. A skill is a plan with a name and arguments.

Nothing here runs anything. A plan never changes; a revision is another plan.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct, structs

from agent.errors import PlanError
from agent.when import WhenError, named

ID = re.compile(r"[A-Za-z0-9_.-]+")
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
MOST_STEPS = 10_000


class Permissions(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Rules of one step, narrower than the run's."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a step's text has to be: JSON that fits `schema`."""

    schema: dict[str, Any]


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One node of a plan: exactly one of `do` (an agent), `run` (a command), `skill`."""

    id: str
    do: str | None = None
    run: str | None = None
    skill: str | None = None  # a skill's name, and perhaps words for it
    needs: tuple[str, ...] = ()  # ids of the steps whose results it reads
    reads: tuple[str, ...] | None = None  # globs, from the working directory
    writes: tuple[str, ...] | None = None  # globs; () = nothing; None and no `reads` = anything
    exclusive: tuple[str, ...] = ()  # names that one running step at a time may hold
    outputs: tuple[str, ...] = ()  # files that it leaves in the shared workspace
    verify: str | None = None  # a command that must exit 0
    attempts: int | None = None  # the first one included; None: 2 for an agent, 1 for a command
    timeout: float | None = None  # seconds, of one attempt
    max_turns: int | None = None  # model calls of one attempt
    max_tokens: int | None = None  # all tokens of one attempt
    max_cost_usd: float | None = None  # of one attempt
    permissions: Permissions = Permissions()
    result: Shape | None = None
    cache: bool = False
    model: str | None = None  # small, main, PROVIDER/NAME
    tools: tuple[str, ...] | None = None
    when: str | None = None
    foreach: str | None = None  # ID.lines or ID.items
    allow_failure: bool = False
    given: dict[str, str] = {}  # what `$name` stands for: a skill's arguments, `item`
    part_of: str = ""  # the step (a skill, a foreach) that this one belongs to

    @property
    def after(self) -> tuple[str, ...]:
        """The steps it waits for: those it needs and those its `when` and `foreach` name."""
        asked = (*self.needs, *self.asks, *((self.source,) if self.foreach else ()))
        return tuple(dict.fromkeys(asked))

    @property
    def asks(self) -> tuple[str, ...]:
        """The steps whose outcome its `when` asks for."""
        return named(self.when) if self.when else ()

    @property
    def source(self) -> str:
        """The step whose lines or items `foreach` goes over."""
        return (self.foreach or "").rpartition(".")[0]

    @property
    def tries(self) -> int:
        return self.attempts or (1 if self.run is not None else 2)

    @property
    def group(self) -> bool:
        """Whether it is done by other steps, its parts."""
        return self.skill is not None or self.foreach is not None

    @property
    def variable(self) -> str:
        """Its id as a part of a shell variable's name."""
        return re.sub(r"[^A-Z0-9]", "_", self.id.upper())


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Steps and the goal they serve; with a name, a skill. Check it before anything runs."""

    name: str = ""
    description: str = ""
    arguments: tuple[str, ...] = ()
    match: tuple[str, ...] = ()  # phrases that say the same as the name
    goal: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether one agent does it as well: a chain of fewer than three steps without a check."""
        simple = {"id", "do", "needs", "reads", "writes"}
        ids = [step.id for step in self.steps]
        return len(ids) < 3 and all(
            step.do is not None
            and set(msgspec.to_builtins(step)) <= simple
            and step.needs == tuple(ids[max(n - 1, 0) : n])
            for n, step in enumerate(self.steps)
        )


def convert(data: Any) -> Plan:
    """The plan that plain data (of YAML, of a model's call) stands for; not yet checked.

    Ids may be numbers, `needs` null or one id, a list of strings is a chain.
    Raises msgspec.ValidationError, whose text ends in a path such as `$.steps[1].needs`.
    """
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if value is not None}
        if isinstance(steps := data.get("steps"), list):
            data["steps"] = [_step(step, n, steps) for n, step in enumerate(steps)]
        if isinstance(name := data.get("name"), str):
            data["name"] = name.replace("_", "-")
    return msgspec.convert(data, Plan, strict=False)


def _step(data: Any, number: int, steps: list[Any]) -> Any:
    """A step's data in the form of `Step`; what is no step is left for the decoder to refuse."""
    if isinstance(data, str):
        before = [str(number)] if number and isinstance(steps[number - 1], str) else []
        return {"id": str(number + 1), "do": data, "needs": before}
    if not isinstance(data, dict):
        return data
    read = {str(key): value for key, value in data.items() if value is not None}
    if "id" in read:
        read["id"] = _text(read["id"])
    for key in ("needs", "reads", "writes", "exclusive", "outputs", "tools"):
        if key in read:
            given = read[key]
            many = [given] if isinstance(given, str | int | float) else given
            read[key] = [_text(one) for one in many] if isinstance(many, list) else many
            if read[key] == [""]:
                read[key] = []  # YAML's `needs:` with nothing behind it
    return read


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def checked(plan: Plan, where: str = "") -> Plan:
    """The plan itself, if it can run. Raises PlanError with every fault, each with `where`."""
    if found := list(faults(plan)):
        raise PlanError(found, where=where)
    return plan


def faults(plan: Plan) -> Iterator[str]:
    """Say all that keeps a plan from running, each in one line a user can act on."""
    steps = plan.steps
    if plan.name and not NAME.fullmatch(plan.name):
        yield f"the name {plan.name!r} is not made of a-z, 0-9 and `-`"
    if not steps:
        yield "a plan needs at least one step"
    if len(steps) > MOST_STEPS:
        yield f"{len(steps)} steps are more than {MOST_STEPS}"
        return
    ids = [step.id for step in steps]
    for id, count in Counter(ids).items():
        if count > 1:
            yield f"{count} steps have the id {id!r}; give each its own"
    names: dict[str, str] = {}
    for step in steps:
        if (other := names.setdefault(step.variable, step.id)) != step.id:
            yield f"the ids {other!r} and {step.id!r} give one variable TS_STEP_{step.variable}"
    for step in steps:
        for fault in _step_faults(step, set(ids)):
            yield f"step {step.id!r} {fault}"
    yield from _cycles({step.id: step for step in steps})


def _step_faults(step: Step, ids: set[str]) -> Iterator[str]:
    if not ID.fullmatch(step.id):
        yield "has an id that is not made of A-Z, a-z, 0-9, `_`, `.` and `-`"
    kinds = [kind for kind in ("do", "run", "skill") if getattr(step, kind) is not None]
    if len(kinds) != 1:
        yield f"has {' and '.join(f'`{kind}`' for kind in kinds) or 'nothing to do'}; " + (
            "it needs exactly one of `do`, `run` and `skill`"
        )
    elif not str(getattr(step, kinds[0])).strip():
        yield f"has an empty `{kinds[0]}`"
    for need in step.needs:
        if need == step.id:
            yield "needs itself"
        elif need not in ids:
            yield f"needs {need!r}, which is no step{near(need, ids)}"
    yield from _order_faults(step, ids)
    for key in ("reads", "writes", "outputs"):
        for path in getattr(step, key) or ():
            if not path.strip() or path.startswith(("/", "~")) or ".." in PurePosixPath(path).parts:
                yield f"{key} {path!r}, which is outside the {_home(key)}"
    for key in ("attempts", "timeout", "max_turns", "max_tokens", "max_cost_usd"):
        if (value := getattr(step, key)) is not None and not value > 0:
            yield f"has `{key}` {value}; it must be more than 0"


def _order_faults(step: Step, ids: set[str]) -> Iterator[str]:
    try:
        asked = step.asks
    except WhenError as error:
        yield f"has a `when` that can't be read: {error}"
        return
    for id in asked:
        if id == step.id:
            yield "asks in `when` how it ended itself"
        elif id not in ids:
            yield f"asks in `when` for {id!r}, which is no step{near(id, ids)}"
    if step.foreach is not None:
        if not step.foreach.endswith((".lines", ".items")) or not step.source:
            yield f"has `foreach` {step.foreach!r}; write ID.lines or ID.items"
        elif step.source == step.id or step.source not in ids:
            yield f"goes over {step.source!r} in `foreach`, which is no other step" + near(
                step.source, ids
            )
    if step.part_of and step.part_of not in ids:
        yield f"is part of {step.part_of!r}, which is no step"


def _home(key: str) -> str:
    return "shared workspace" if key == "outputs" else "working directory"


def near(name: str, names: Sequence[str] | set[str]) -> str:
    """`; did you mean 'X'?` for the nearest of `names`, or nothing."""
    found = get_close_matches(name, sorted(names), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _cycles(steps: Mapping[str, Step]) -> Iterator[str]:
    """The first cycle of what waits for what; a step's parts wait for what it waits for."""
    waits: dict[str, set[str]] = {id: set() for id in steps}
    for step in steps.values():
        parent = steps.get(step.part_of)
        if parent:
            waits[parent.id].add(step.id)
        with suppress(WhenError):
            waits[step.id] |= {*step.after, *(parent.after if parent else ())} - {step.id}
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        yield "steps wait for each other: " + " → ".join(reversed(error.args[1]))


def expanded(plan: Plan, find: Callable[[str], Plan], depth: int = 0) -> Plan:
    """The plan with each `skill` step followed by the steps of that skill, as its parts.

    `find` gives the skill of a name, or raises UsageError. Raises PlanError for skills that hold
    themselves, directly or not.
    """
    if not any(step.skill for step in plan.steps):
        return plan
    if depth > 8:
        raise PlanError([f"skills are nested more than 8 deep, at {plan.name or plan.goal!r}"])
    steps: list[Step] = []
    for step in plan.steps:
        steps.append(step)
        if step.skill is None or any(part.part_of == step.id for part in plan.steps):
            continue
        name, _, words = step.skill.partition(" ")
        skill = expanded(find(name), find, depth + 1)
        steps += _parts(step, checked(skill, f"skill {skill.name}"), words, step.given)
    return structs.replace(plan, steps=tuple(steps))


def _parts(group: Step, skill: Plan, words: str, given: Mapping[str, str]) -> Iterator[Step]:
    values = bound(skill, split(filled(words, given)), filled(words, given))

    def renamed(text: str) -> str:
        return f"{group.id}.{text}"

    for step in skill.steps:
        when = step.when and re.sub(
            r"[A-Za-z0-9_.-]+",
            lambda found: found[0] if found[0] in {"and", "or", "not"} else renamed(found[0]),
            step.when,
        )
        yield structs.replace(
            told(step, values),
            id=renamed(step.id),
            needs=tuple(renamed(need) for need in step.needs),
            when=when,
            foreach=step.foreach and renamed(step.foreach),
            part_of=renamed(step.part_of) if step.part_of else group.id,
        )


def split(words: str) -> list[str]:
    """Words of a line: by blanks, with "double quotes" around what holds some; nothing else
    is special, so that an apostrophe or a dollar is itself."""
    found = re.finditer(r'"([^"]*)"(?!\S)|(\S+)', words)
    return [each[1] if each[1] is not None else each[2] for each in found]


def bound(skill: Plan, words: Sequence[str], line: str | None = None) -> dict[str, str]:
    """What a skill's variables stand for: its argument names, `1`, `2`, … and `ARGUMENTS`."""
    values = {str(n): word for n, word in enumerate(words, 1)}
    for n, name in enumerate(skill.arguments):
        values[name.strip("[]")] = words[n] if n < len(words) else ""
    return {**values, "ARGUMENTS": " ".join(words) if line is None else line.strip()}


def with_arguments(skill: Plan, words: Sequence[str], line: str | None = None) -> Plan:
    """The plan that a skill is with these words: each step is given what its variables mean."""
    values = bound(skill, words, line)
    steps = tuple(told(step, values) for step in skill.steps)
    goal = filled(skill.goal, values) or " ".join([skill.name, values["ARGUMENTS"]]).strip()
    return structs.replace(skill, goal=goal, steps=steps)


def told(step: Step, values: Mapping[str, str]) -> Step:
    """The step that knows what these variables mean; in its paths they are replaced at once."""
    return structs.replace(
        step,
        given={**step.given, **values},
        **{
            key: tuple(filled(one, values) for one in many)
            for key in ("reads", "writes", "outputs", "exclusive")
            if (many := getattr(step, key))
        },
    )


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with `$name` and `${name}` replaced, once; an unknown name stays as it is.

    >>> filled("$a costs $100, ${b}", {"a": "$b", "b": "it's"})
    "$b costs $100, it's"
    """
    return re.sub(
        r"\$(?:(\w+)|\{(\w+)\})",
        lambda found: values.get(found[1] or found[2], found[0]),
        text,
    )

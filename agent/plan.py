"""A plan: what is to be done, as a value. A skill is a plan with a name and arguments.

Nothing here runs anything. A plan never changes; a revision is another plan.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct, structs

from agent import rule
from agent.errors import PlanError, UsageError, near
from agent.when import WhenError, named, rewritten

ID = re.compile(r"[A-Za-z0-9_.-]+")
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
TAKEN = re.compile(  # variables by which a shell and the programs in it are steered
    r"item|ARGUMENTS|PATH|HOME|IFS|ENV|CDPATH|SHELL\w*|PWD|BASH.*|PYTHON.+|(?:TS|LD|DYLD|GIT)_.*"
)
MOST_STEPS = 10_000
MOST_FAULTS = 100  # told of one plan
MOST_CYCLES = 10  # likewise
MOST_HINTS = 20  # likewise; each compares a name with many others
MOST_SECONDS = 31_536_000  # a year, of one attempt


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
    within: tuple[Permissions, ...] = ()  # of the steps it is part of: they count as well

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
        for key in ("arguments", "match"):
            if isinstance(one := data.get(key), str):
                data[key] = [one]
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
    found = _faults(plan)
    yield from islice(found, MOST_FAULTS)
    if left := sum(1 for _ in found):
        yield f"and {left} more of the kind"


def _faults(plan: Plan) -> Iterator[str]:
    steps = plan.steps
    if plan.name and not NAME.fullmatch(plan.name):
        yield f"the name {plan.name!r} is not made of a-z, 0-9 and `-`"
    yield from _argument_faults(plan.arguments)
    if not steps:
        yield "a plan needs at least one step"
    if len(steps) > MOST_STEPS:
        yield f"{len(steps)} steps are more than {MOST_STEPS}"
        return
    ids = Counter(step.id for step in steps)
    for id, count in ids.items():
        if count > 1:
            yield f"{count} steps have the id {id!r}; give each its own"
    yield from _name_faults(steps)
    known = _Known(ids)
    for step in steps:
        for fault in _step_faults(step, known):
            yield f"step {step.id!r} {fault}"
    yield from _cycles({step.id: step for step in steps})


class _Known:
    """The ids there are, and the nearest one to a wrong one, as often as that is worth its time."""

    def __init__(self, ids: Collection[str]) -> None:
        self._ids, self._hints = ids, MOST_HINTS

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def near(self, id: str) -> str:
        self._hints -= 1
        return near(id, self._ids) if self._hints >= 0 else ""


def _argument_faults(arguments: Sequence[str]) -> Iterator[str]:
    names = [_variable(argument) for argument in arguments]
    for argument, name in zip(arguments, names, strict=True):
        if not ARGUMENT.fullmatch(name):
            yield f"the argument {argument!r} is not made of letters, digits and `_`"
        elif TAKEN.fullmatch(name):
            yield f"the argument {argument!r} has a name that means something else to a command"
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{count} arguments have the name {name!r}"


def variable(id: str) -> str:
    """A step's id as a part of a shell variable's name."""
    return re.sub(r"[^A-Z0-9]", "_", id.upper())


def _variable(argument: str) -> str:
    """An argument's name as a shell can hold it; a form `[name]` says that it may be left out."""
    return argument.strip("[]").replace("-", "_")


def _name_faults(steps: Sequence[Step]) -> Iterator[str]:
    """Ids that mean another step as well: by their variable, or as a copy of a `foreach`."""
    names: dict[str, str] = {}
    for step in steps:
        name = variable(step.id)
        if (other := names.setdefault(name, step.id)) != step.id:
            yield f"the ids {other!r} and {step.id!r} give one variable TS_STEP_{name}"
    groups = {step.id: step.part_of for step in steps if step.group}
    ids = {step.id for step in steps}
    for step in steps:
        if step.part_of in ids and step.part_of not in groups:
            yield f"step {step.id!r} is part of {step.part_of!r}, which is no skill and no foreach"
    patterns = {step.id for step in steps if step.foreach is not None}
    for step in steps:
        if "item" in step.given:  # a copy itself; it stays when a plan that replaces has no `of`
            continue
        within, parent = set[str](), step.part_of
        while parent in groups and parent not in within:
            within.add(parent)
            parent = groups[parent]
        for found in re.finditer(r"\.\d+(?=\.|$)", step.id):
            if (of := step.id[: found.start()]) in patterns - within:
                yield f"the id {step.id!r} is that of a copy of {of!r}; choose another"


def _step_faults(step: Step, known: _Known) -> Iterator[str]:
    if not ID.fullmatch(step.id):
        yield "has an id that is not made of A-Z, a-z, 0-9, `_`, `.` and `-`"
    kinds = [kind for kind in ("do", "run", "skill") if getattr(step, kind) is not None]
    if len(kinds) != 1:
        yield f"has {' and '.join(f'`{kind}`' for kind in kinds) or 'nothing to do'}; " + (
            "it needs exactly one of `do`, `run` and `skill`"
        )
    elif not str(getattr(step, kinds[0])).strip():
        yield f"has an empty `{kinds[0]}`"
    if step.skill is not None:
        for key in ("verify", "outputs", "result"):
            if getattr(step, key):
                yield f"is a skill, which has no `{key}`; give it to a step that needs this one"
    for need in step.needs:
        if need == step.id:
            yield "needs itself"
        elif need not in known:
            yield f"needs {need!r}, which is no step{known.near(need)}"
    yield from _order_faults(step, known)
    yield from _value_faults(step)


def _value_faults(step: Step) -> Iterator[str]:
    for key in ("reads", "writes", "outputs"):
        for path in getattr(step, key) or ():
            if not path.strip() or path.startswith(("/", "~")) or ".." in PurePosixPath(path).parts:
                yield f"{key} {path!r}, which is outside the {_home(key)}"
    for key in ("attempts", "timeout", "max_turns", "max_tokens", "max_cost_usd"):
        if (value := getattr(step, key)) is not None and not value > 0:
            yield f"has `{key}` {value}; it must be more than 0"
    if step.timeout is not None and step.timeout > MOST_SECONDS:
        yield f"has `timeout` {step.timeout:g}; {MOST_SECONDS} seconds are the most"
    for text in (*step.permissions.allow, *step.permissions.deny):
        try:
            rule.read(text)
        except UsageError as error:
            yield f"has a permission that can't be read: {error}"


def _order_faults(step: Step, known: _Known) -> Iterator[str]:
    if step.foreach is not None:
        if not step.foreach.endswith((".lines", ".items")) or not step.source:
            yield f"has `foreach` {step.foreach!r}; write ID.lines or ID.items"
        elif step.source == step.id:
            yield "goes over itself in `foreach`"
        elif step.source not in known:
            yield f"goes over {step.source!r} in `foreach`, which is no step" + known.near(
                step.source
            )
    if step.part_of and step.part_of not in known:
        yield f"is part of {step.part_of!r}, which is no step"
    try:
        asked = step.asks
    except WhenError as error:
        yield f"has a `when` that can't be read: {error}"
        return
    for id in asked:
        if id == step.id:
            yield "asks in `when` how it ended itself"
        elif id not in known:
            yield f"asks in `when` for {id!r}, which is no step{known.near(id)}"


def _home(key: str) -> str:
    return "shared workspace" if key == "outputs" else "working directory"


def _cycles(steps: Mapping[str, Step]) -> Iterator[str]:
    """What waits for itself; a step's parts wait for what it waits for."""
    waits: dict[str, set[str]] = {id: set() for id in steps}
    for step in steps.values():
        with suppress(WhenError):
            waits[step.id].update(id for id in step.after if id in steps and id != step.id)
    for step in steps.values():
        if parent := steps.get(step.part_of):
            waits[step.id] |= waits[parent.id] - {step.id}
    for step in steps.values():
        if step.part_of in steps:
            waits[step.part_of].add(step.id)
    for _ in range(MOST_CYCLES):
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]  # each is waited for by the next
            yield "steps wait for each other: " + " → ".join(_shortened(circle[::-1]))
            waits[circle[1]].discard(circle[0])
        else:
            return


def _shortened(circle: list[str]) -> list[str]:
    return circle if len(circle) <= 40 else [*circle[:20], "…", *circle[-20:]]


def expanded(plan: Plan, find: Callable[[str], Plan], above: tuple[str, ...] = ()) -> Plan:
    """The plan with each `skill` step followed by the steps of that skill, as its parts.

    `find` gives the skill of a name, or raises UsageError. Raises PlanError for skills that hold
    themselves, directly or not, and for a plan that gets too long. `above`: the skills around it.
    """
    steps: list[Step] = []
    has_parts = {step.part_of for step in plan.steps}
    for step in plan.steps:
        steps.append(step)
        if step.skill is None or step.id in has_parts:
            continue
        name, words = [*step.skill.split(None, 1), ""][:2]
        name = name.replace("_", "-")
        if name in above:
            raise PlanError([f"a skill holds itself: {' → '.join((*above, name))}"])
        skill = expanded(checked(find(name), f"skill {name}"), find, (*above, name))
        steps += _parts(step, skill, filled(words, step.given))
        if len(steps) > MOST_STEPS:
            raise PlanError([f"with its skills it has more than {MOST_STEPS} steps"])
    return structs.replace(plan, steps=tuple(steps)) if len(steps) > len(plan.steps) else plan


def _parts(group: Step, skill: Plan, words: str) -> Iterator[Step]:
    values = bound(skill, split(words), words)

    def renamed(id: str) -> str:
        return f"{group.id}.{id}"

    for step in skill.steps:
        yield structs.replace(
            _inheriting(told(step, values), group),
            part_of=renamed(step.part_of) if step.part_of else group.id,
            **_moved(step, renamed),
        )


def _moved(step: Step, renamed: Callable[[str], str]) -> dict[str, Any]:
    """The fields of a step that name steps, under their new names."""
    return {
        "id": renamed(step.id),
        "needs": tuple(map(renamed, step.needs)),
        "when": step.when and rewritten(step.when, renamed),
        "foreach": step.foreach and renamed(step.foreach),
    }


def _inheriting(step: Step, group: Step) -> Step:
    """A step of a skill, with what the step that is this skill says of itself.

    Permissions and tools get narrower; the rest holds where the skill's own step says nothing.
    """
    own = ("attempts", "timeout", "max_turns", "max_tokens", "max_cost_usd", "model")
    changes = {key: getattr(group, key) for key in own if getattr(step, key) is None}
    if step.reads is None and step.writes is None:
        changes |= {"reads": group.reads, "writes": group.writes}
    tools = step.tools
    if group.tools is not None:
        tools = tuple(t for t in group.tools if tools is None or t in tools)
    above = (group.permissions,) if group.permissions != Permissions() else ()
    return structs.replace(
        step,
        tools=tools,
        exclusive=(*step.exclusive, *group.exclusive),
        within=(*step.within, *group.within, *above),
        **changes,
    )


def copies(
    step: Step, pattern: Sequence[Step], over: Sequence[str], first: int = 1
) -> Iterator[Step]:
    """For each item a copy of a `foreach` step, and of `pattern`, all that is part of it."""
    own_item = set[str]()  # the steps in which `$item` is that of a `foreach` inside this one
    for part in pattern:
        if part.foreach is not None or part.part_of in own_item:
            own_item.add(part.id)
    for number, item in enumerate(over, first):
        values = {"item": item}
        new = f"{step.id}.{number}"

        def renamed(id: str, new: str = new) -> str:
            return new + id.removeprefix(step.id)

        alone = structs.replace(step, id=new, needs=(), when=None, foreach=None, part_of=step.id)
        yield told(alone, values)
        for part in pattern:
            given = {name: filled(value, values) for name, value in part.given.items()}
            moved = structs.replace(
                part, given=given, part_of=renamed(part.part_of), **_moved(part, renamed)
            )
            yield moved if part.id in own_item else told(moved, values)


def items(step: Step, text: str) -> list[str]:
    """What a `foreach` goes over: a text's lines that are not blank, or a JSON array's items.

    Raises ValueError, in words for the user, for a text that is no JSON array.
    """
    if not (step.foreach or "").endswith(".items"):
        return [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    if not text.strip():
        return []
    try:
        found: Any = msgspec.json.decode(unfenced(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the text of {step.source} is no JSON: {error}") from error
    if not isinstance(found, list):
        raise ValueError(f"the text of {step.source} is JSON, but no array")
    return [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in found]


def unfenced(text: str) -> str:
    """JSON without the Markdown fence that models put round it."""
    found = re.fullmatch(r"\s*```(?:json)?[ \t]*\n(.*?)\n\s*```\s*", text, re.DOTALL)
    return found[1] if found else text


def split(words: str) -> list[str]:
    """Words of a line: by blanks, with "double quotes" around what holds some; nothing else
    is special, so that an apostrophe or a dollar is itself."""
    found = re.finditer(r'"([^"]*)"(?!\S)|(\S+)', words)
    return [each[1] if each[1] is not None else each[2] for each in found]


def bound(skill: Plan, words: Sequence[str], line: str | None = None) -> dict[str, str]:
    """What a skill's variables stand for: its argument names, `1`, `2`, … and `ARGUMENTS`."""
    values = {str(n): word for n, word in enumerate(words, 1)}
    for n, name in enumerate(skill.arguments):
        values[_variable(name)] = words[n] if n < len(words) else ""
    return {**values, "ARGUMENTS": " ".join(words) if line is None else line.strip()}


def with_arguments(skill: Plan, words: Sequence[str], line: str | None = None) -> Plan:
    """The plan that a skill is with these words: each step is given what its variables mean."""
    values = bound(skill, words, line)
    steps = tuple(told(step, values) for step in skill.steps)
    goal = filled(skill.goal, values) or " ".join([skill.name, values["ARGUMENTS"]]).strip()
    return structs.replace(skill, goal=goal, steps=steps)


def told(step: Step, values: Mapping[str, str]) -> Step:
    """The step that knows what these variables mean; in its paths they are replaced at once."""

    def path(glob: str) -> str:
        made = filled(glob, values)
        if made == glob or glob.startswith("/"):
            return made
        return made.lstrip("/") or "**"  # an argument that was left out: anywhere

    paths = {
        key: tuple(map(path, globs))
        for key in ("reads", "writes", "outputs")
        if (globs := getattr(step, key))
    }
    return structs.replace(
        step,
        given={**step.given, **values},
        exclusive=tuple(filled(name, values) for name in step.exclusive),
        **paths,
    )


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with `$name` and `${name}` replaced, once; an unknown name stays as it is.

    >>> filled("$a costs $100, ${b}", {"a": "$b", "b": "it's"})
    "$b costs $100, it's"
    """
    return re.sub(
        r"\$(?:(\w+)|\{([\w-]+)\})",
        lambda found: values.get((found[1] or found[2]).replace("-", "_"), found[0]),
        text,
        flags=re.ASCII,
    )

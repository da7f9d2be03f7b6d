"""A tool is a function with a schema; the schema is read from the function."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, TypeVar, get_type_hints

import msgspec
from msgspec import Struct, structs

from agent.errors import ToolError
from agent.message import Image
from agent.stop import Stop


class Own(Protocol):
    """Something that one agent keeps between its calls: its shell, what it has read."""

    def __init__(self, context: "Context") -> None: ...
    def close(self) -> None: ...


T = TypeVar("T", bound=Own)


class Heir(Protocol):
    """Ends and removes what this process has begun and made, once it has been killed outright.

    What is told to it is told before it is there, and taken back when it is over. The first two
    raise OSError where there can be no heir. Any thread may call it.
    """

    def begun(self, mark: str, leader: int = 0) -> None: ...
    def made(self, path: Path) -> None: ...
    def ended(self, mark: str) -> None: ...
    def removed(self, path: Path) -> None: ...


class Leave(Struct, frozen=True, kw_only=True):
    """What one command may do that others in the sandbox may not, and the other way round."""

    network: bool = False
    changes: bool = True  # False: not even the working directory can be written
    keys: bool = False  # it sees the user's keys
    shows: tuple[str, ...] = ()  # secret files of the project that it sees, from there
    steers: tuple[str, ...] = ()  # files it may change although they steer what runs later
    outside: bool = False  # it runs without the sandbox


EVERYDAY = Leave()  # of a command that nobody was asked about


class Launch(Struct, frozen=True, kw_only=True):
    """A program as it is started. Whoever starts it closes `fds` then, and `status` at its end."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    fds: tuple[int, ...] = ()  # handed on to it
    status: int = -1  # to be read at its end
    code: Callable[[int, int], int] = lambda code, status: code  # what its exit code means
    over: Callable[[], None] = lambda: None  # called once all that it began has ended


Box: TypeAlias = Callable[[Sequence[str], Path, Mapping[str, str]], Launch]
"""Puts a program (arguments, directory, environment) into a sandbox. May be used once or often."""


class Confined(Protocol):
    """The sandbox of commands. Any thread may use it."""

    def box(self, leave: Leave, also: Sequence[Path] = ()) -> Box | None:
        """None: the command runs without. `also` may be written by it."""
        ...

    def denied(self, text: str, leave: Leave) -> str:
        """What of a command that printed `text` and failed the sandbox stood in the way of."""
        ...

    def outside(self, path: Path) -> Path:
        """Where a place that a command names is, seen from outside."""
        ...


class Context(Struct, frozen=True):
    """The part of the world that a tool may touch, and what one agent keeps.

    One for each agent: `fresh` makes the next agent's. Close it when the agent ends.
    """

    cwd: Path  # the working directory, resolved
    stop: Stop
    roots: tuple[Path, ...] = ()  # further directories that may be written, resolved (--add-dir)
    workspace: Path | None = None  # the run's shared workspace, resolved; may be written
    readable: tuple[Path, ...] = ()  # further directories that are read and never written, resolved
    env: dict[str, str] = {}  # the environment of commands
    sees: bool = False  # whether the model can look at images
    heir: Heir | None = None  # None: what is left when this process is killed stays
    sandbox: Confined | None = None  # None: commands run without
    leave: Leave = EVERYDAY  # of the command that is called for
    led: Mapping[str, Path] = {}  # where paths lead that have been judged; they lead nowhere else
    owned: dict[type, Any] = {}

    def own(self, kind: type[T]) -> T:
        """This agent's own `kind`, made when first asked for."""
        if kind not in self.owned:
            self.owned[kind] = kind(self)
        held: T = self.owned[kind]
        return held

    def fresh(self, stop: Stop, **changes: Any) -> Self:
        """The same part of the world, for another agent."""
        return structs.replace(self, stop=stop, owned={}, **changes)

    def close(self) -> None:
        """End what the agent owned. Idempotent."""
        for held in self.owned.values():
            held.close()
        self.owned.clear()

    def inside(self, path: str, *, reading: bool = False) -> Path:
        """`path`, from the working directory, with links resolved; it need not exist. A name that
        was shown with `\\xNN` for a byte is found too.

        Raises ToolError where it leads out of the working directory, the further roots and the
        workspace, with `reading` also of what may only be read, and where it can be no path at all.
        """
        if path in self.led:
            return self.led[path]
        full = self._inside(path, reading=reading)
        if "\\x" in path and not os.path.lexists(full):
            other = self._inside(meant(path), reading=reading)
            return other if os.path.lexists(other) else full
        return full

    @property
    def homes(self) -> tuple[Path, ...]:
        """What may be written."""
        return (self.cwd, *self.roots, *([self.workspace] if self.workspace else []))

    def _inside(self, path: str, *, reading: bool) -> Path:
        try:
            full = (self.cwd / Path(path).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError(f"{path!r} is no usable path: {error}") from error
        homes = (*self.homes, *(self.readable if reading else ()))
        if not any(full.is_relative_to(home) for home in homes):
            raise ToolError(
                f"{path} is outside the working directory {self.cwd}; only files inside "
                + " and ".join(str(home) for home in homes)
                + " can be used"
            )
        return full

    def shown(self, path: Path) -> str:
        """`path` as the model should name it: relative to the working directory where inside."""
        with suppress(ValueError):
            return str(path.relative_to(self.cwd))
        return str(path)


class Outcome(Struct, frozen=True, kw_only=True):
    """What a tool gives back where text alone does not say it."""

    text: str
    images: tuple[Image, ...] = ()
    ends: bool = False  # the conversation is over with this


Function = Callable[..., str | Outcome]


class Tool(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    schema: dict[str, Any]  # what a model is shown of the arguments
    args: type[Struct]
    function: Function
    writes: bool  # may change something or leave the machine: asked about before it runs

    def __call__(self, context: Context, input: dict[str, Any]) -> Outcome:
        """Use the tool. Raises ToolError for input that does not fit and for the tool's own no."""
        done = self.function(context, **structs.asdict(self.read(input)))
        return done if isinstance(done, Outcome) else Outcome(text=done)

    def read(self, input: dict[str, Any]) -> Struct:
        """The arguments, checked. Raises ToolError, which names the schema, if they do not fit."""
        try:
            return msgspec.convert(unpacked(input, self.schema), self.args, strict=False)
        except msgspec.ValidationError as error:
            schema = msgspec.json.encode(self.schema).decode()
            raise ToolError(f"{self.name}: {error}. Its arguments: {schema}") from error

    @property
    def spec(self) -> dict[str, Any]:
        """What a model is shown."""
        return {"name": self.name, "description": self.description, "input_schema": self.schema}


def meant(name: str) -> str:
    """The name of a file in which `\\xNN` was shown for a byte."""
    data = re.sub(
        rb"\\x([0-9a-f]{2})",
        lambda match: bytes.fromhex(match[1].decode()),
        name.encode("utf-8", "surrogateescape"),
    )
    return data.decode("utf-8", "surrogateescape")


def unpacked(input: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`input` with arrays and objects that came as JSON in a string read from it."""
    properties = schema.get("properties", {})

    def value(name: str, given: Any) -> Any:
        rule = properties.get(name, {})
        kinds = {rule.get("type"), *(each.get("type") for each in rule.get("anyOf", ()))}
        if isinstance(given, str) and kinds & {"array", "object"} and "string" not in kinds:
            with suppress(msgspec.DecodeError, RecursionError):
                return msgspec.json.decode(given)
        return given

    return {name: value(name, given) for name, given in input.items()}


PLAIN = {"path", "content", "query", "question", "url"}
"""Parameters whose names say all; a system prompt says that paths are relative."""


def tool(*, writes: bool) -> Callable[[Function], Tool]:
    """Make a tool of a function whose first parameter is the Context.

    Types come from the signature, words from the docstring: its text describes the tool, its last
    paragraph has a line `name: what it is` for every parameter whose name does not say it all.
    A method can't be one: what an agent keeps between calls is fetched with `context.own`.
    """

    def make(function: Function) -> Tool:
        name = function.__name__
        hints = get_type_hints(function)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        text = inspect.cleandoc(function.__doc__ or "")
        before, _, last = text.rpartition("\n\n")
        words: dict[str, str] = {}
        if all(re.match(r"\w+: ", line) for line in last.splitlines()):
            text, words = before, dict(line.split(": ", 1) for line in last.splitlines())
        fields: list[Any] = [
            (param.name, hints[param.name])
            + (() if param.default is param.empty else (param.default,))
            for param in parameters
        ]
        args = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        schema = plain(msgspec.json.schema(args))
        for param, rule in schema["properties"].items():
            if param not in PLAIN or param in words:
                rule["description"] = words[param]  # KeyError: the docstring has no line for it
        return Tool(
            name=name, description=text, schema=schema, args=args, function=function, writes=writes
        )

    return make


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema as every service takes it, and as short as it can be said.

    Every request carries it: no `$ref`, titles, defaults (what is left out has its own), nor the
    null that a parameter which may be left out allows as well. What it does not say is checked
    all the same.
    """
    defs = schema.get("$defs", {})

    def resolve(node: Any) -> Any:
        match node:
            case {"$ref": str(ref), **more}:
                named = defs[ref.rpartition("/")[2]]
                return resolve({**named, **more} if more else without_words(named))
            case {"anyOf": [one, {"type": "null"}], **more}:
                return resolve({**one, **more})
            case dict():
                kept = {key: resolve(value) for key, value in node.items() if said(key, value)}
                if isinstance(own := node.get("properties"), dict):  # under their own names
                    kept["properties"] = {name: resolve(rule) for name, rule in own.items()}
                return kept
            case list():
                return [resolve(item) for item in node]
            case _:
                return node

    resolved: dict[str, Any] = resolve(without_words(defs[schema["$ref"].rpartition("/")[2]]))
    return resolved


def said(key: str, value: Any) -> bool:
    """Whether a key of a schema tells a model anything."""
    if key == "title":
        return not isinstance(value, str)  # a parameter may have that name
    return key not in {"$defs", "default", "additionalProperties"} and value != []


def without_words(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a class without its docstring, which is for readers of the code."""
    return {key: value for key, value in schema.items() if key != "description"}

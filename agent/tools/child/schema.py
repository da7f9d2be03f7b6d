"""Whether a value fits a JSON schema: a program of its own, and whoever asks it.

A schema comes from a model or from a file. An expression like `(a+)+$` in it, or parts that name
each other, can take for ever, and hold the interpreter's lock meanwhile; a reference could lead to
another machine. Here nothing is fetched, and the program is ended when its time is up. A schema
of keywords alone that take no time is checked at once. The program is run by its path, reads
`{"path", "schema", "value"}` and prints why the value does not fit.
"""

import json
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS = 10.0
MEMORY = 2 << 30  # bytes of address space
LONGEST = 4000  # characters of a reason
DEEP = 20  # schemas within each other
_QUICK = """
    $schema $id title description default examples type enum const properties required items
    additionalProperties minItems maxItems minLength maxLength minimum maximum exclusiveMinimum
    exclusiveMaximum multipleOf minProperties maxProperties
"""
QUICK = frozenset(_QUICK.split())


def fits(value: Any, schema: dict[str, Any]) -> str:
    """Why a value does not fit a JSON schema, or can't be told to; "" if it does."""
    if quick(schema):
        return reason(value, schema)[:LONGEST]
    from agent.errors import ToolError
    from agent.stop import Stop
    from agent.tools.child.program import running

    path = [each for each in sys.path if Path(each).is_absolute()]
    try:
        input = json.dumps({"path": path, "schema": schema, "value": value}).encode()
    except (ValueError, RecursionError) as error:
        return f"it can't be checked: {error}"
    argv = [sys.executable, "-I", "-S", __file__]
    try:
        with running(argv, cwd=Path("/"), stop=Stop(), seconds=SECONDS, input=input) as program:
            said = b"".join(program.records(b"\n", longest=1 << 16)).decode("utf-8", "replace")
    except ToolError as error:
        return f"it can't be checked: {error}"
    if program.late or program.code:
        return "the schema takes too long, or too much, to be checked: make it simpler"
    return str(json.loads(said))[:LONGEST]


def quick(schema: Any, deep: int = 0) -> bool:
    """Whether a schema has nothing in it that can take long."""
    if not isinstance(schema, dict) or deep > DEEP or not QUICK.issuperset(schema):
        return isinstance(schema, bool)
    properties = schema.get("properties", {})
    inner = [*properties.values()] if isinstance(properties, dict) else [properties]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return all(quick(each, deep + 1) for each in inner)


def reason(value: Any, schema: dict[str, Any]) -> str:
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        error = jsonschema.exceptions.best_match(
            kind(schema, registry=Registry()).iter_errors(value)
        )
    except jsonschema.SchemaError as fault:
        return f"the schema itself is wrong: {fault.message}"
    except Unresolvable as fault:
        return f"the schema itself is wrong: {fault} is not in it"
    except RecursionError:
        return "the schema itself is wrong: it leads back to itself without an end"
    if error is None:
        return ""
    where = "".join(f"[{part!r}]" for part in error.absolute_path)
    return f"{error.message}" + (f" at {where}" if where else "")


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
    with suppress(ValueError, OSError):  # not everywhere
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    given = json.load(sys.stdin.buffer)
    sys.path[:] = given["path"]
    sys.stdout.write(json.dumps(reason(given["value"], given["schema"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())

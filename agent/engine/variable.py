"""What `$name` stands for in a step: in the text of its agent, and in the shells of its commands.

A value is never put into a command's text; a shell gets it as a variable, so that no quote or
semicolon in it can do anything.
"""

import re
from pathlib import Path

from agent.job import Attempt
from agent.plan import Step, variable

MOST = 100_000  # bytes of one variable (Linux takes 131,072 in one, execve(2))
MOST_OF_ALL = 1_000_000  # bytes (Linux takes a quarter of the stack's limit, mostly 2 MiB)
HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # halves of characters that stand for no byte


def values(job: Attempt, workspace: Path) -> dict[str, str]:
    """By name: the step's arguments, the workspace, texts and files of the steps it waited for."""
    given = {"TS_WORKSPACE": str(workspace), **job.step.given}
    group = f"{job.step.part_of or '/'}."  # no id holds a slash
    for told in sorted(job.results, key=lambda told: told.id.startswith(group)):
        # A skill's steps know each other by the ids that the skill gives them, too.
        for id in dict.fromkeys((told.id, told.id.removeprefix(group))):
            name = variable(id)
            given[f"TS_STEP_{name}"] = told.text
            given[f"TS_OUTPUTS_{name}"] = "\n".join(told.outputs)
    most = share([len(value) * 4 for value in given.values()])
    return {name: held(value, most) for name, value in given.items()}


def share(sizes: list[int]) -> int:
    """The most that each may have, so that all together have no more than MOST_OF_ALL."""
    left = MOST_OF_ALL
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size > left // count:
            return min(MOST, left // count)
        left -= size
    return MOST


def variables(job: Attempt, workspace: Path) -> dict[str, str]:
    """The same as a shell's environment. $1, $2, … are none of it: they are its arguments."""
    given = values(job, workspace)
    return {name.replace("-", "_"): value for name, value in given.items() if not name.isdigit()}


def arguments(step: Step) -> tuple[str, ...]:
    """What $1, $2, … stand for."""
    given = step.given
    return tuple(held(given[str(n)]) for n in range(1, len(given) + 1) if str(n) in given)


def held(text: str, most: int = MOST) -> str:
    """A text as a shell variable can hold it, `most` bytes of it."""
    data = whole(text.replace("\0", "")).encode("utf-8", "surrogateescape")
    if len(data) > most:  # not in the middle of a character
        data = data[:most].rstrip(bytes(range(0x80, 0xC0))).rstrip(bytes(range(0xC0, 0x100)))
    return data.decode("utf-8", "surrogateescape")


def whole(text: str) -> str:
    """A text that can be encoded with `surrogateescape`."""
    return HALF.sub("\N{REPLACEMENT CHARACTER}", text)

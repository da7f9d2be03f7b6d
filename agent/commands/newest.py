"""The chat's commands about the newest run of its directory, once it is over, and those that wait
for one that is under way (commands/live.py)."""

from collections.abc import Iterable

from agent.commands.desk import Desk
from agent.commands.live import told
from agent.errors import UsageError
from agent.state import State
from agent.store import log, workspace
from agent.views import show
from agent.views.tree import whole


def newest(desk: Desk) -> State:
    """How the newest run stands. Raises UsageError where there is none."""
    return State.of(log.read(workspace.find(desk.app.cwd).log))


def print_all(desk: Desk, lines: Iterable[str]) -> None:
    for line in lines:
        desk.out.line(line)


def dag(desk: Desk, words: str) -> None:
    print_all(desk, whole(newest(desk), desk.out.width, styled=desk.out.styled))


def steps(desk: Desk, words: str) -> None:
    print_all(desk, show.steps(newest(desk), desk.out.width, styled=desk.out.styled))


def step(desk: Desk, words: str) -> None:
    if not words:
        raise UsageError("which step?", hint="/step ID; /dag names them")
    state = newest(desk)
    print_all(desk, told(desk.app.cwd, state, words, desk.out.width, desk.out.styled))


def under_way(desk: Desk, words: str) -> None:
    raise UsageError(
        "no plan is under way", hint="this is typed while one is; `ts resume` goes on with a run"
    )

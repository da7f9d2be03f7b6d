"""What happened, one value a happening. A run is its events and nothing else.

The log writes them as JSON lines; `type` names the class. Adding a field with a default, or
an event, keeps old logs readable; renaming or removing one does not.
"""

from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from agent.message import Usage
from agent.plan import Plan

Status: TypeAlias = Literal["done", "failed", "skipped", "cancelled"]
RunStatus: TypeAlias = Literal["done", "partial", "failed", "interrupted", "over-budget"]
OVER: frozenset[RunStatus] = frozenset({"done", "partial", "failed"})  # the others are to go on
Action: TypeAlias = Literal["retry", "skip", "replace", "abort"]
Source: TypeAlias = Literal["model", "skill", "file"]
Wish: TypeAlias = Literal["tell", "retry", "skip", "stop", "replan"]


class Base(Struct, frozen=True, kw_only=True, tag_field="type"):
    """`time`, `run` and `seq` are the log's to fill in."""

    time: str = ""  # RFC 3339, UTC, milliseconds
    run: str | None = None  # None: a plain chat
    seq: int = 0  # from 1
    step: str | UnsetType = UNSET  # left out where it belongs to no step


FORMAT = 1  # of logs: raised when older versions could no longer go on with a run


class RunStarted(Base, frozen=True, tag="run.started"):
    goal: str
    cwd: str
    model: str
    version: str
    format: int = 1


class RunResumed(Base, frozen=True, tag="run.resumed"):
    attempt: int  # from 2
    again: tuple[str, ...] = ()  # steps that were done and are to be done again
    changed: tuple[str, ...] = ()  # files that finished steps wrote in the project, changed since
    cwd: str = ""  # where it goes on; "": where it was
    model: str = ""  # likewise
    format: int = 1


class PlanCreated(Base, frozen=True, tag="plan.created"):
    plan: Plan
    source: Source
    skills: dict[str, str] = {}  # SHA-256 of the skills it was made from, by name
    seal: str = ""  # that its commands are the user's own word; a log from elsewhere has none


class StepStarted(Base, frozen=True, tag="step.started"):
    attempt: int  # from 1, over all revisions


class ModelCalled(Base, frozen=True, tag="model.called"):
    model: str
    usage: Usage
    cost_usd: float | None
    seconds: float
    stop_reason: str


class Text(Base, frozen=True, tag="text"):
    text: str


class TextDelta(Base, frozen=True, tag="text.delta"):
    """Shown as it streams, never logged."""

    text: str


class ToolStarted(Base, frozen=True, tag="tool.started"):
    id: str
    name: str
    input: dict[str, Any]


class ToolFinished(Base, frozen=True, tag="tool.finished"):
    id: str
    name: str
    ok: bool
    output: str  # cut
    seconds: float


class PermissionAsked(Base, frozen=True, tag="permission.asked"):
    tool: str
    rule: str  # what `always` would allow; "" where it would not help


class PermissionDecided(Base, frozen=True, tag="permission.decided"):
    tool: str
    rule: str
    decision: Literal["allow", "deny"]
    by: str  # user, mode, rule, step, nobody
    input: dict[str, Any] = {}  # of a call that was denied


class StepFinished(Base, frozen=True, tag="step.finished"):
    status: Status
    summary: str = ""  # its text; of a command, what it wrote to stdout
    error: str | UnsetType = UNSET  # how a command failed: both outputs and the exit code
    outputs: tuple[str, ...] = ()  # absolute paths in the shared workspace
    seconds: float = 0.0
    usage: Usage = Usage()
    reused: bool | UnsetType = UNSET
    key: str | UnsetType = UNSET  # SHA-256 of all that it was made from, where that is known
    hashes: dict[str, str] = {}  # SHA-256 of the files it left, by path: absolute in the workspace,
    # relative to the working directory for those it wrote there


class TreeKept(Base, frozen=True, tag="tree.kept"):
    """The working tree as it stood before or after a step, or a whole run: what undo goes by."""

    tree: str  # id of a git tree in the store of .agent/undo
    moment: Literal["before", "after"]


class PlanRevised(Base, frozen=True, tag="plan.revised"):
    """`step` is the failure that asked for it."""

    action: Action
    plan: Plan | None = None  # the whole plan from here on, where it has changed
    kept: tuple[str, ...] = ()  # of a replacing plan: its steps that go on as they stand
    because: str = ""
    by: Literal["model", "user"] = "model"


class UserSaid(Base, frozen=True, tag="user.said"):
    """What the user wants of a run under way; `step` is the one that it is about."""

    wish: Wish
    words: str = ""


class RevisionFailed(Base, frozen=True, tag="revision.failed"):
    """The model asked for a revision gave no valid one: the step stays failed."""

    because: str


class RunFinished(Base, frozen=True, tag="run.finished"):
    status: RunStatus
    answer: str
    usage: Usage
    cost_usd: float | None
    seconds: float
    done: int | UnsetType = UNSET  # steps that ended as they should …
    steps: int | UnsetType = UNSET  # … of so many, groups not counted


class Notice(Base, frozen=True, tag="notice"):
    """Something the user is told that is no step of the work."""

    text: str
    warns: bool = True  # false: it is only good to know


Event: TypeAlias = (
    RunStarted
    | RunResumed
    | PlanCreated
    | StepStarted
    | ModelCalled
    | Text
    | TextDelta
    | ToolStarted
    | ToolFinished
    | PermissionAsked
    | PermissionDecided
    | StepFinished
    | TreeKept
    | PlanRevised
    | UserSaid
    | RevisionFailed
    | RunFinished
    | Notice
)

TYPES = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Event))


def step_of(event: Event) -> str:
    """The id of the step that an event belongs to; "" for none."""
    return event.step or ""


def is_kept(event: Event) -> bool:
    """Whether the log keeps it."""
    return not isinstance(event, TextDelta)


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Event).decode

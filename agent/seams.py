"""The places where the world can be exchanged. All are functions or nearly so."""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agent.event import Event
from agent.job import Job
from agent.message import Reply, Request, Say
from agent.stop import Stop

Sink: TypeAlias = Callable[[Event], None]
"""Is shown every event: a terminal, a file, a report. Must not raise, must not block."""

Emit: TypeAlias = Callable[[Event], object]
"""Takes an event on its way to the log. Any thread may call it."""

Work: TypeAlias = Callable[[Job, Emit], Event]
"""Does a job in a worker: emits what happens on the way, returns how it ended."""


Keep: TypeAlias = Callable[[Stop, Emit], str]
"""Keeps the working tree as it stands and gives the id of it, so that changes can be taken back;
"" where it can't be kept, which is told once. Must not raise. Any thread may call it."""


class Provider(Protocol):
    """A model: a function from a request to a reply.

    Calls `say` with each piece of text as it arrives, and with "" for what shows no text (thinking,
    arguments). Raises ModelError and nothing else; one with `retry_after` set may be tried again
    with the same request. A broken or cut stream is a reply whose `stop` is "length".
    """

    def __call__(self, request: Request, say: Say) -> Reply: ...


class Models(Protocol):
    """The model of a name (`main`, `small`, `oracle`, PROVIDER/NAME), patient, its calls told to
    `emit`. Raises UsageError or SetupError for one that can't be had."""

    def __call__(self, name: str, stop: Stop, emit: Emit) -> Provider: ...


class Question(Struct, frozen=True, kw_only=True):
    """What a user is asked before a tool is used."""

    step: str  # "" in a chat
    tool: str
    text: str  # what would happen: the command, the diff
    rule: str  # what "always" would allow; "": it is no answer
    edits: bool = False  # whether the user may change the text
    grants: tuple[str, ...] = ()  # the rules that `rule` names, where it is more than one


class Answer(Struct, frozen=True, kw_only=True):
    choice: Literal["yes", "no", "always", "edit"]  # "edit": where the question has it
    words: str = ""  # with "no": what to do instead
    by: str = "user"  # "nobody": there was nobody to ask
    kept: bool = False  # with "always": in the user's settings too, for other times


Ask: TypeAlias = Callable[[Question], Answer]
"""Asks the user. Any thread may call it; questions are put one at a time."""


Choose: TypeAlias = Callable[[str, Mapping[str, str]], str]
"""Has the user choose one of some letters, each with its meaning; "" where nobody answers."""


class Pool(Protocol):
    """Where jobs run: threads, a cluster, or the hands of a test."""

    def __len__(self) -> int: ...
    def __contains__(self, id: str) -> bool:
        """Whether a job of the step `id` is under way; there is never more than one."""
        ...

    @property
    def room(self) -> int:
        """How many more jobs it takes now; none once it has been stopped."""
        ...

    @property
    def stopped(self) -> bool: ...

    def start(self, job: Job) -> None: ...

    def next(self) -> Event:
        """Wait for the next event of any job. Raises what a worker did not foresee."""
        ...

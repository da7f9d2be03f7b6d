"""A model that reads its replies from a list: for tests, demos and `--model script/FILE`.

A file is YAML or JSON: a list of replies, or an object with `replies`. A reply:

    for: chat              # whom it is for: chat, plan, revise or a step's id; left out: anyone
    text: Done.
    thinking: Hm.
    calls: [{name: read_file, input: {path: a.py}}]
    usage: {input_tokens: 10, output_tokens: 2}
    seconds: 0.5           # waited before it
    stop: end              # end, calls, length, refused; left out: as its calls say
    error: {kind: service, message: too busy}   # instead: service, setup, cut, refused

A request takes the first unused reply that is for it or for anyone. It is a revision's where
`revise_plan` is the only tool, a plan's where `submit_plan` is the only one or has to be called, a
step's where the user's words hold `<step id="ID">` (the last one counts), else the chat's.
"""

import json
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agent.errors import CutError, ModelError, ServiceError, SetupError, UsageError
from agent.message import Call, Message, Reply, Request, Say, Stop, Thought, Usage

MOST_BYTES = 8 * 2**20  # of a script file
PIECE = 24  # characters of a piece of streamed text
STEP = re.compile(r'<step id="([^"]*)"')


class ScriptCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    input: dict[str, Any] = {}
    id: str = ""


class ScriptUsage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class ScriptError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["service", "setup", "cut", "refused"]
    message: str = "as the script says"
    retry_after: float | None = 0.0  # of a service's


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply of a script file."""

    whom: str = msgspec.field(name="for", default="")
    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptCall, ...] = ()
    usage: ScriptUsage | None = None
    seconds: float = 0.0
    stop: Stop | None = None
    error: ScriptError | None = None


def whom(request: Request) -> str:
    """Whom a request is for: "chat", "plan", "revise" or a step's id."""
    offered = [str(spec.get("name")) for spec in request.tools]
    if offered == ["revise_plan"]:
        return "revise"
    if offered == ["submit_plan"] or request.must == "submit_plan":
        return "plan"
    for message in reversed(request.messages):
        if message.role == "user" and (found := STEP.findall(message.text)):
            return str(found[-1])
    return "chat"


class Script:
    """Gives `replies` one after another and keeps the requests it was sent. Threads may share it.

    A text is a reply that says it. An exception among the replies is raised in its turn. A `Line`
    is for those whom it names; anything else is for anyone.
    """

    def __init__(
        self, replies: Iterable[Reply | Line | Exception | str], name: str = "script"
    ) -> None:
        self._replies = list(replies)
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[Request] = []

    def __call__(self, request: Request, say: Say) -> Reply:
        with self._lock:
            self.requests.append(request)
            taken = self._take(request)
        match taken:
            case Exception():
                raise taken
            case Line():
                return self._read(taken, request, say)
            case str():
                speak(taken, say)
                message = Message(role="assistant", text=taken)
                usage = Usage(input_tokens=len(request.messages), output_tokens=1)
                return Reply(message=message, usage=usage, model=self._name)
            case Reply():
                speak(taken.message.text, say)
                return taken

    def _take(self, request: Request) -> Reply | Line | Exception | str:
        asks = whom(request)
        fitting = ("", asks, "chat") if asks == "plan" else ("", asks)
        for at, reply in enumerate(self._replies):
            if not isinstance(reply, Line) or reply.whom in fitting:
                return self._replies.pop(at)
        left = ", ".join(sorted({str(getattr(reply, "whom", "")) for reply in self._replies}))
        raise ModelError(
            f"{self._name}: there is no reply left for request {len(self.requests)} "
            f"(for {asks!r})" + (f"; what is left is for: {left}" if left else "")
        )

    def _read(self, line: Line, request: Request, say: Say) -> Reply:
        pause(line.seconds, say)
        if line.error:
            raise self._error(line.error)
        if line.thinking:
            say("")
        speak(line.text, say)
        made = sum(len(message.calls) for message in request.messages)
        calls = tuple(
            Call(id=call.id or f"call_{made + at}", name=call.name, input=call.input)
            for at, call in enumerate(line.calls, 1)
        )
        thoughts = (Thought(text=line.thinking),) if line.thinking else ()
        message = Message(role="assistant", text=line.text, thoughts=thoughts, calls=calls)
        spent = line.usage or ScriptUsage(input_tokens=len(request.messages), output_tokens=1)
        return Reply(
            message=message,
            usage=msgspec.convert(spent, Usage, from_attributes=True),
            stop=line.stop or ("calls" if calls else "end"),
            full=line.stop == "length",
            model=self._name,
        )

    def _error(self, error: ScriptError) -> ModelError:
        text = f"{self._name}: {error.message}"
        match error.kind:
            case "service":
                return ServiceError(text, retry_after=error.retry_after)
            case "setup":
                return SetupError(text)
            case "cut":
                return CutError(text)
            case "refused":
                return ModelError(text)


def speak(text: str, say: Say) -> None:
    """Say a text in pieces, as a model would."""
    for at in range(0, len(text), PIECE):
        say(text[at : at + PIECE])


def pause(seconds: float, say: Say) -> None:
    """Wait, giving signs of life, each of which may end the wait."""
    clock = threading.Event()
    for _ in range(round(seconds / 0.05)):
        say("")
        clock.wait(0.05)


def load(path: Path) -> Script:
    """The script in a file. Raises UsageError, with the line, for one that can't be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: it is not UTF-8 (byte {error.start})") from error
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{path}: a script has at most {MOST_BYTES >> 20} MB")
    replies = parsed(text, path)
    lines = list[Line]()
    for at, reply in enumerate(replies):
        try:
            lines.append(msgspec.convert(reply, Line, strict=False))
        except msgspec.ValidationError as error:
            place = f"{path}:{line_of(text, at)}: reply {at + 1}"
            raise UsageError(f"{place}: {error}") from error
    return Script(lines, name=f"script/{path.name}")


def parsed(text: str, path: Path) -> list[Any]:
    """The replies in a file's text, not yet checked."""
    import yaml

    try:
        if path.suffix == ".json":
            read = plain = json.loads(text)
        else:
            read = yaml.load(text, Loader=yaml.CSafeLoader)
            plain = yaml.load(text, Loader=yaml.CBaseLoader)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError(f"{where}: {getattr(error, 'problem', None) or error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: it is nested too deeply") from error
    if isinstance(read, dict) and isinstance(plain, dict):
        if extra := [str(name) for name in read if name != "replies"]:
            raise UsageError(f"{path}: unknown key {extra[0]!r}; a script has `replies`")
        read, plain = read.get("replies"), plain.get("replies")
    if not isinstance(read, list) or not isinstance(plain, list):
        raise UsageError(f"{path}: a script is a list of replies, or an object with `replies`")
    return [worded(one, two) for one, two in zip(read, plain, strict=True)]


def worded(reply: Any, plain: Any) -> Any:
    """A reply whose texts are what stands in the file: `for: 1` and `text: yes` are texts."""
    if not isinstance(reply, dict) or not isinstance(plain, dict):
        return reply
    texts = {
        key: plain.get(key) for key in ("for", "text", "thinking") if reply.get(key) is not None
    }
    return {**{key: value for key, value in reply.items() if value is not None}, **texts}


def line_of(text: str, at: int) -> int:
    """The line on which reply number `at`, from 0, begins."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return 1
    if isinstance(node, yaml.MappingNode):
        node = next((value for key, value in node.value if key.value == "replies"), node)
    if isinstance(node, yaml.SequenceNode) and at < len(node.value):
        return int(node.value[at].start_mark.line) + 1
    return 1

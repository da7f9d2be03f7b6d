"""A plan with all that can be cut off, a model whose answers depend on nothing but what it is
asked, and ways to kill `ts` at a chosen moment."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import IO, Any, TypeAlias

from tests.e2e.ts import MAIN, Ts
from tests.servers import Answer, Ask, Server

Calls: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]

PLAN = """\
goal: build the kit
steps:
  - {id: look, do: Look what there is., writes: []}
  - id: left
    do: Write the left side.
    needs: [look]
    reads: []
    writes: [left.txt]
    outputs: [left.md]
  - id: right
    do: Write the right side.
    needs: [look]
    reads: []
    writes: [right.txt]
    verify: grep -q good right.txt
  - id: tool
    needs: [look]
    run: 'echo tool >> "$HOME/ran"; sleep 0.1; wc -l < seed.txt | tr -d " " | tee count.txt'
    reads: [seed.txt]
    writes: [count.txt]
  - id: mend
    do: Mend it badly.
    needs: [look]
    reads: []
    writes: [mended.txt]
    attempts: 1
    verify: test -s mended.txt
  - id: each
    foreach: look.lines
    do: Paint $item now.
    reads: []
    writes: [paint/$item.txt]
    outputs: [$item.md]
  - id: join
    do: Join all sides.
    needs: [left, right, mend, each]
    writes: [join.txt]
  - id: last
    needs: [join, tool]
    run: 'echo last >> "$HOME/ran"; cat join.txt count.txt | tee "$TS_WORKSPACE/sum.txt"'
    writes: []
    outputs: [sum.txt]
"""
RUN = ("run", "plan.yaml", "-y", "--output-format", "json")
RESUME = ("resume", "-y", "--output-format", "json")


@dataclass(frozen=True)
class Said:
    """A request, whatever the wire."""

    step: str  # whose it is; "revise mend" for the question what becomes of `mend`
    failed: bool  # it tells how the attempt before has failed
    cut_off: bool  # it tells that one was cut off
    words: str  # what the step is told to do
    turn: int  # replies before it

    @classmethod
    def of(cls, ask: Ask) -> "Said":
        told = [each for each in ask.json["messages"] if each["role"] != "system"]
        first = text_of(told[0])
        step = re.search(r'<step id="([^"]+)">(.*)</step>', first, re.DOTALL)
        broken = re.search(r'The step that failed, "([^"]+)"', first)
        assert step or broken, first
        return cls(
            step=step[1] if step else f"revise {broken and broken[1]}",
            failed="<failure>" in first,
            cut_off="cut off" in first,
            words=step[2] if step else "",
            turn=sum(each["role"] == "assistant" for each in told),
        )

    @property
    def what(self) -> str:
        """All of it but whether something was cut off before."""
        return f"{self.step} {'again ' * self.failed}{self.turn}: {self.words}"


def text_of(message: Mapping[str, Any]) -> str:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "\n".join(part.get("text", "") for part in parts if part["type"] == "text")


def reply(*calls: tuple[str, Mapping[str, Any]], key: str, text: str = "") -> Answer:
    made = [
        (re.sub(r"\W", "_", f"{key}_{n}"), name, json.dumps(given))
        for n, (name, given) in enumerate(calls)
    ]
    return Answer(text=text, calls=tuple(made), size=40)


def writing(path: str, content: str) -> tuple[str, dict[str, str]]:
    return "write_file", {"path": path, "content": content}


def shell(command: str) -> tuple[str, dict[str, str]]:
    return "bash", {"command": command}


def done(summary: str, *outputs: str) -> tuple[str, dict[str, Any]]:
    return "report", {"status": "done", "summary": summary, "outputs": list(outputs)}


def answer(ask: Ask) -> Answer:
    """What the model of PLAN says."""
    said = Said.of(ask)
    return reply(*ANSWERS[said.step.partition(".")[0]](said), key=f"{said.step}{said.turn}")


def _each(said: Said) -> Calls:
    item = said.words.split()[1]
    place = f'paint; echo {item} > paint/{item}.txt; echo {item} > "$TS_WORKSPACE/{item}.md"'
    return [[shell(f"mkdir -p {place}")], [done(f"painted {item}")]][said.turn]


def _right(said: Said) -> Calls:
    word = "good" if said.failed else "bad"
    turns = [[writing("right.txt", f"{word}\n")], [done(f"it is {word}")]]
    return ([[("read_file", {"path": "right.txt"})], *turns] if said.failed else turns)[said.turn]


def _mend(said: Said) -> Calls:
    if "badly" in said.words:
        return [done("I tried")]
    return [[writing("mended.txt", "mended\n")], [done("mended")]][said.turn]


ANSWERS: dict[str, Callable[[Said], Calls]] = {
    "look": lambda said: [
        [("read_file", {"path": "seed.txt"}), ("list_files", {})],
        [done("red\nblue")],
    ][said.turn],
    "left": lambda said: [
        [writing("left.txt", "left\n"), shell('echo of left > "$TS_WORKSPACE/left.md"')],
        [done("left is there", "left.md")],
    ][said.turn],
    "right": _right,
    "mend": _mend,
    "revise mend": lambda said: [
        ("revise_plan", {"action": "retry", "do": "Mend it well.", "because": "it was told badly"})
    ],
    "each": _each,
    "join": lambda said: [
        [
            shell(
                "cat left.txt right.txt mended.txt paint/*.txt "
                '"$TS_WORKSPACE"/{left,red,blue}.md > join.txt'
            )
        ],
        [done("joined")],
    ][said.turn],
}


@dataclass
class Bench:
    """The plan in a directory, its model, and what has come of it so far."""

    ts: Ts
    server: Server
    deaths: list["Death"] = field(default_factory=list)

    @property
    def run(self) -> str:
        """The id of the newest run; "" while there is none."""
        path = newest(self.ts)
        return path.stem if path else ""

    @property
    def begun(self) -> bool:
        """Whether its plan has been kept, so that there is something to go on with."""
        return any(b'"type":"plan.created"' in line for line in whole_lines(newest(self.ts)))

    def lay(self) -> None:
        """Begin anew."""
        self.ts.asks(self.server)
        self.ts.write("plan.yaml", PLAN)
        self.ts.write("seed.txt", "one\ntwo\n")

    @property
    def said(self) -> list[Said]:
        return [Said.of(ask) for ask in [*self.server.requests]]

    def ran(self) -> list[str]:
        """The commands that were run, each time."""
        path = self.ts.home / "ran"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def kill(self, *words: str, when: "When") -> "Death | None":
        """Have `ts` run, and kill it; None if it had ended before."""
        code = when(self.ts, words)
        if code != -signal.SIGKILL:
            return None
        log = whole_lines(newest(self.ts))
        death = Death(
            run=self.run,
            log=[json.loads(line) for line in log],
            requests=len(self.server.requests),
            ran=self.ran(),
        )
        self.deaths.append(death)
        return death

    def outcome(self) -> "Outcome":
        """How the newest run stands by the files it has left; its name is left out."""
        log = newest(self.ts)
        assert log, "there is a run"
        return Outcome(
            project=tree(self.ts.cwd, but=".agent"),
            workspace=tree(self.ts.cwd / ".agent/workspace" / log.stem),
        )


@dataclass(frozen=True)
class Outcome:
    project: dict[str, bytes]
    workspace: dict[str, bytes]


@dataclass(frozen=True)
class Death:
    """What there was when `ts` was killed."""

    run: str
    log: list[dict[str, Any]]
    requests: int
    ran: list[str]

    @property
    def done(self) -> set[str]:
        """The steps that had ended well."""
        return {
            event["step"]
            for event in self.log
            if event["type"] == "step.finished" and event["status"] == "done"
        }

    @property
    def last(self) -> str:
        return str(self.log[-1]["type"]) if self.log else "nothing"

    def settles(self, said: Said) -> bool:
        """Whether the log told before it died what that request is about: a step that is done, the
        first attempt of one that has failed since, a revision that has been decided."""
        ends = [event for event in self.log if event["type"] == "step.finished"]
        failed = {event["step"] for event in ends if event["status"] == "failed"}
        revised = {event["step"] for event in self.log if event["type"] == "plan.revised"}
        return (
            said.step in self.done
            or (said.step in failed and not said.failed)
            or said.step.removeprefix("revise ") in revised - {said.step}
        )


def tree(root: Path, but: str = "") -> dict[str, bytes]:
    """All files under a directory with their contents, hidden ones too."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and name.parts[0] != but:
            found[str(name)] = path.read_bytes()
    return found


def orphans(ts: Ts, seconds: float = 3.0) -> dict[int, str]:
    """What still works in the directory that long after a death."""
    until = monotonic() + seconds
    while (left := ts.running()) and monotonic() < until:
        Event().wait(0.02)
    return left


def newest(ts: Ts) -> Path | None:
    return max((ts.cwd / ".agent/runs").glob("*.jsonl"), default=None)


def whole_lines(log: Path | None) -> list[bytes]:
    """The lines of a log that came to their end."""
    return log.read_bytes().split(b"\n")[:-1] if log else []


# -- when it is killed --------------------------------------------------------------------------

When: TypeAlias = Callable[[Ts, Sequence[str]], int]
"""Starts `ts`, kills it (or does not), and returns its exit code."""


def begun(
    ts: Ts, words: Sequence[str], *before: str, out: int | IO[bytes] = subprocess.DEVNULL
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*before, *MAIN, *words],
        cwd=ts.cwd,
        env=ts.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.DEVNULL,
    )


def after_line(number: int, delay: float = 0) -> When:
    """Once so many lines of the log are whole, and that long after; it may have got a little
    further then."""

    def watched(ts: Ts, words: Sequence[str]) -> int:
        with begun(ts, words) as process:
            until, size, lines = monotonic() + ts.patience, 0, 0
            while process.poll() is None and monotonic() < until:
                if path := newest(ts):
                    with path.open("rb") as file:
                        file.seek(size)
                        piece = file.read()
                    size, lines = size + len(piece), lines + piece.count(b"\n")
                if lines >= number:
                    Event().wait(delay)
                    process.kill()
                Event().wait(0.0005)
            process.kill()
            return process.wait(ts.patience)

    return watched


def after(seconds: float) -> When:
    """So long after it was started."""

    def waited(ts: Ts, words: Sequence[str]) -> int:
        with begun(ts, words) as process:
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait(ts.patience)

    return waited


def at_sync(number: int, call: str = "fdatasync") -> When:
    """As its main thread asks for that for the N-th time: the line is written and nobody has been
    told. With strace, which holds the process still there."""
    inject = ("-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")

    def traced(ts: Ts, words: Sequence[str]) -> int:
        with begun(ts, words, "strace", "-f", "-qq", "-o", "/dev/null", *inject) as process:
            try:
                return process.wait(ts.patience)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    return traced

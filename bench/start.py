"""What it costs to start: `python bench/start.py [--quick]`.

CPU time and memory of `ts --version`, of the way to the chat's prompt, of an idle chat and of one
headless turn against a model server on this machine; beside the bare interpreter, what the
libraries cost that we could have loaded, and the other agents that are installed here.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rig
from search import make

PROMPT = "›".encode()
ASKS_CURSOR = re.compile(rb"\x1b\[6n")
PATIENCE = 60.0  # seconds that a chat may take to show its prompt or to come to rest
RIVALS = ("claude", "codex", "gemini", "opencode", "aider", "llm")
LIBRARIES = ("yaml", "rich", "prompt_toolkit", "networkx", "httpx2", "anthropic")


@dataclass(frozen=True)
class Place:
    """Where `ts` is started, and with what model."""

    name: str
    cwd: Path
    model: str
    aimed: bool = False  # the aims are for this one


class Chat:
    """`ts` at a terminal of its own, once its prompt is on the screen."""

    def __init__(self, model: str, cwd: Path, env: dict[str, str]) -> None:
        self._terminal, theirs = pty.openpty()
        self._child = subprocess.Popen(
            [*rig.TS, "--model", model],
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._screen = b""
        end = time.monotonic() + PATIENCE
        while PROMPT not in self.reads(end):
            pass

    def reads(self, end: float) -> bytes:
        """What comes within 0.2 s; its questions are answered. Raises RuntimeError after `end`, and
        where the chat ends."""
        piece = b""
        if select.select([self._terminal], [], [], 0.2)[0]:
            with suppress(OSError):  # nobody is there any more (EIO on Linux)
                piece = os.read(self._terminal, 65536)
        self._screen += piece
        if time.monotonic() > end or self._child.poll() is not None:
            raise RuntimeError(f"the chat ended, or did not come to rest: {self._screen[-2000:]!r}")
        for _ in ASKS_CURSOR.findall(piece):
            os.write(self._terminal, b"\x1b[3;3R")
        return piece

    def rests(self) -> float:
        """MiB of memory, once what is loaded behind the prompt is there."""
        end = time.monotonic() + PATIENCE
        held = list[float]()
        while len(held) < 8 or held[-1] - held[-8] > 0.5 or held[-1] < max(held) - 20:
            self.reads(end)
            held.append(resident(self._child.pid))
        return held[-1]

    def close(self) -> rig.Used:
        """End it at once; what it has used."""
        self._child.send_signal(signal.SIGKILL)
        used, _ = rig.ended(self._child)
        os.close(self._terminal)
        return used


def resident(pid: int) -> float:
    """MiB of memory that a process holds now."""
    table = Path(f"/proc/{pid}/statm")
    if table.exists():
        pages = int(table.read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
    return int(told.stdout) / 2**10


def versions(report: rig.Report, home: Path) -> None:
    env = rig.environment(home)

    def cpu(*argv: str) -> Callable[[], float]:
        return lambda: rig.process(argv, home, env).cpu

    rivals = {"bare interpreter": bare(home), "ts --version": cpu(*rig.TS, "--version")}
    for name in LIBRARIES[:1] if report.quick else LIBRARIES:
        rivals[f"import {name}"] = cpu(rig.PYTHON, "-c", f"import {name}")
    for name in () if report.quick else RIVALS:
        if found := shutil.which(name):
            rivals[f"{name} --version"] = cpu(found, "--version")
    report.table("starting", "CPU ms", "× bare")
    took = rig.medians(rivals, report.rounds(5))
    least = took["bare interpreter"]
    for name, each in took.items():
        aim = "≤ 3 × bare" if name == "ts --version" else ""
        met = not aim or each <= 3 * least
        report.row(name, f"{each * 1000:.0f}", f"{each / least:.1f}", aim=aim, met=met)


def bare(home: Path) -> Callable[[], float]:
    """Measures the CPU time of an interpreter that does nothing."""
    env = rig.environment(home)
    return lambda: rig.process((rig.PYTHON, "-c", "pass"), home, env).cpu


def turns(report: rig.Report, home: Path) -> None:
    """One headless turn, with an answer from this machine; of ours, and of a rival's."""
    from tests.servers import Answer, AnthropicServer, OpenAIServer

    class Lenient(AnthropicServer):
        path = "/v1/messages?beta=true"  # as Claude Code asks

        def faults(self, body: dict[str, Any]) -> Iterator[str]:
            return iter(())

    hello = [Answer(text="Hello! What can I do for you?")]
    report.table("-p 'say hi', one call", "CPU ms", "× bare", "peak MiB")
    with OpenAIServer(hello) as one, AnthropicServer(hello) as other, Lenient(hello) as theirs:
        env = rig.environment(
            home,
            COMPAT_BASE_URL=f"{one.url}/v1",
            ANTHROPIC_BASE_URL=other.url,
            ANTHROPIC_API_KEY="a-key",
        )
        for place in places(report, home):
            argv = [*rig.TS, "-p", "say hi", "--model", place.model]
            took, ratio, peak = turn(argv, place.cwd, env, report.rounds(9 if place.aimed else 2))
            figures = (f"{took * 1000:.0f}", f"{ratio:.1f}", f"{peak:.0f}")
            aim = "≤ 500 ms, ≤ 70 MiB" if place.aimed else ""
            met = not aim or (took <= 0.5 and peak <= 70)
            report.row(f"ts, {place.name}", *figures, aim=aim, met=met)
        if (claude := shutil.which("claude")) and not report.quick:
            env |= {"ANTHROPIC_BASE_URL": theirs.url, "DISABLE_TELEMETRY": "1"}
            argv = [claude, "-p", "say hi", "--model", "fake-model"]
            took, ratio, peak = turn(argv, home / "empty", env, 4)
            report.row("claude", f"{took * 1000:.0f}", f"{ratio:.1f}", f"{peak:.0f}")


Figures = tuple[float, float, float]
"""CPU seconds, how many times those of the bare interpreter, and MiB of memory."""


def turn(argv: list[str], cwd: Path, env: dict[str, str], rounds: int) -> Figures:
    """What one turn uses, and its peak of memory."""
    peaks = list[float]()

    def cpu() -> float:
        used = rig.process(argv, cwd, env)
        peaks.append(used.peak)
        return used.cpu

    took = rig.medians({"turn": cpu, "bare": bare(cwd)}, rounds)
    return took["turn"], took["turn"] / took["bare"], max(peaks)


def chats(report: rig.Report, home: Path) -> None:
    """The chat, until its prompt is there and when nobody types."""
    env = rig.environment(home, COMPAT_BASE_URL="http://127.0.0.1:9/v1", ANTHROPIC_API_KEY="a-key")
    report.table("ts, the chat", "CPU ms", "× bare", "idle MiB")
    for place in places(report, home):
        took, ratio, held = waiting(place, env, report.rounds(9 if place.aimed else 4))
        figures = (f"{took * 1000:.0f}", f"{ratio:.1f}", f"{held:.0f}")
        aim = "≤ 250 ms, ≤ 80 MiB" if place.aimed else ""
        met = not aim or (took <= 0.25 and held <= 80)
        report.row(place.name, *figures, aim=aim, met=met)


def waiting(place: Place, env: dict[str, str], rounds: int) -> Figures:
    """What the way to the prompt takes, and what the chat holds once it has come to rest."""

    def cpu() -> float:
        return Chat(place.model, place.cwd, env).close().cpu

    took = rig.medians({"prompt": cpu, "bare": bare(place.cwd)}, rounds)
    chat = Chat(place.model, place.cwd, env)
    held = chat.rests()
    chat.close()
    return took["prompt"], took["prompt"] / took["bare"], held


def places(report: rig.Report, home: Path) -> list[Place]:
    empty, sources = home / "empty", home / "sources"
    compat, anthropic = "compat/fake-model", "anthropic/fake-model"
    if not empty.exists():
        empty.mkdir()
        make(sources, 20 if report.quick else 500)
    first = Place("an empty folder", empty, compat, aimed=True)
    more = [
        Place("there by Anthropic's SDK", empty, anthropic),
        Place("500 sources", sources, compat),
        Place("there by Anthropic's SDK", sources, anthropic),
    ]
    return [first] if report.quick else [first, *more]


def main() -> int:
    report = rig.Report(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        versions(report, home)
        turns(report, home)
        chats(report, home)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())

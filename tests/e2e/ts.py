"""`ts` as a user starts it: the process, what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, TypeAlias

import pytest

from agent.cli import main
from tests.servers import AnthropicServer, OpenAIServer, Server

ROOT = Path(__file__).parents[2]
MAIN = (sys.executable, str(ROOT / "main.py"))  # `python main.py` is `ts`, installed or not
PATIENCE = 30.0  # seconds of one command

Reply: TypeAlias = str | Mapping[str, Any]
"""A reply of a scripted model: its text, or the keys of agent/providers/script.py."""


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    raw: bytes  # stdout
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8")

    @property
    def said(self) -> str:
        """stdout of a command that has to have ended well."""
        assert self.code == 0, self
        return self.out

    @property
    def json(self) -> dict[str, Any]:
        """stdout, which has to be one JSON object and nothing else."""
        value = json.loads(self.raw)
        assert isinstance(value, dict)
        return value

    @property
    def events(self) -> list[dict[str, Any]]:
        """stdout, which has to be lines of JSON, each ended by a newline."""
        assert self.raw.endswith(b"\n")
        return [json.loads(line) for line in self.raw.removesuffix(b"\n").split(b"\n")]


@dataclass
class Ts:
    """A user in a directory of theirs, with a home and an environment of their own."""

    home: Path
    cwd: Path
    patch: pytest.MonkeyPatch
    env: dict[str, str] = field(default_factory=dict)
    model: str = ""
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        """They do without a sandbox, so that all is the same on machines that have none; what a
        sandbox does is tested for itself."""
        own = self.home / ".config/tianshu/settings.yaml"
        if not own.exists():
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text("sandbox: off\n", encoding="utf-8")

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        place = self.home.parent / "tmp"
        place.mkdir(exist_ok=True)
        return place

    def __call__(
        self,
        *words: str,
        stdin: bytes | int = subprocess.DEVNULL,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run it to its end."""
        given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        ran = subprocess.run(
            [*MAIN, *words],
            cwd=cwd or self.cwd,
            env=self.environment(env or {}),
            check=False,
            capture_output=True,
            timeout=self.patience,
            **given,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr.decode("utf-8", "replace"))

    def here(self, *words: str, cwd: Path | None = None, model: str = "") -> Ran:
        """The same in this process, which is quicker; without stdin."""
        env = {"TS_MODEL": model} if model else {}
        out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with self.patch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.environment(env).items():
                patch.setenv(name, value)
            patch.chdir(cwd or self.cwd)
            code = main(words)
        raw, told = (stream.detach().getvalue() for stream in (out, err))
        return Ran(code, raw, told.decode("utf-8"))

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Have it run, its output in pipes; it is killed at the end, with all that it started."""
        with subprocess.Popen(
            [*MAIN, *words],
            cwd=self.cwd,
            env=self.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()
                for id in self.running():
                    os.kill(id, 9)

    def there(self, name: str) -> bool:
        """Wait until a file is there and holds something; whether it came."""
        path = self.cwd / name
        until = monotonic() + PATIENCE
        while not (path.exists() and path.stat().st_size) and monotonic() < until:
            Event().wait(0.02)
        return path.exists()

    def running(self) -> dict[int, str]:
        """The living processes that work in its directory, by id, with what they are."""
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if (place / "cwd").readlink().is_relative_to(self.cwd):
                    found[int(place.name)] = (place / "cmdline").read_text(encoding="utf-8")
            except OSError:
                continue
        return found

    def left(self) -> dict[int, str]:
        """The living processes that its user began, wherever they work: known by the home and the
        folder for temporary files in their environment, or on their command line."""
        marks = f"HOME={self.home}\0".encode(), f"{self.temporary}\0".encode()
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes()
                if words and any(
                    mark in (place / "environ").read_bytes() + words for mark in marks
                ):
                    found[int(place.name)] = words.replace(b"\0", b" ").decode()
            except OSError:
                continue
        found.pop(os.getpid(), None)  # where the environment of the tests themselves says so
        return found

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = {"HOME": str(self.home), "TMPDIR": str(self.temporary), "LC_ALL": "C.UTF-8"}
        path = os.environ.get("PATH", os.defpath)  # noqa: TID251 - git and python are found by it
        model = {"TS_MODEL": self.model} if self.model else {}
        return {**own, "PATH": path, **model, **self.env, **extra}

    def script(self, *replies: Reply) -> str:
        """The name of a model that replies so."""
        lines = [{"text": each} if isinstance(each, str) else each for each in replies]
        path = self.home / f"script-{len([*self.home.iterdir()])}.json"
        path.write_text(json.dumps(lines), encoding="utf-8")
        return f"script/{path}"

    def write(self, name: str, text: str) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.exists()
        path.write_text(text, encoding="utf-8")
        if fresh:  # Python and git take a file for unchanged that has its size and second
            long_ago = path.stat().st_mtime - 60
            os.utime(path, (long_ago, long_ago))
        return path

    def asks(self, server: Server) -> None:
        """From here on its model is served by `server`."""
        match server:
            case AnthropicServer():
                self.model = "anthropic/fake-model"
                self.env |= {"ANTHROPIC_API_KEY": "sk-test", "ANTHROPIC_BASE_URL": server.url}
            case OpenAIServer():
                self.model = "openai/fake-model"
                self.env |= {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": f"{server.url}/v1"}

    def log(self) -> list[dict[str, Any]]:
        """The events of the newest run."""
        path = max((self.cwd / ".agent/runs").glob("*.jsonl"))
        return [json.loads(line) for line in path.read_bytes().splitlines()]


def call(name: str, /, **input: Any) -> dict[str, Any]:
    """A scripted model's call."""
    return {"name": name, "input": input}


def calling(*calls: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    """A scripted reply that makes these calls."""
    return {"calls": list(calls), **keys}


def types(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(event["type"]) for event in events]

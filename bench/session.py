"""A long chat: what it costs in time and memory: `python bench/session.py [TURNS] [--quick]`.

The chat is a process of its own, the model a server on this machine that keeps nothing. In every
tenth turn a file is read. Beside it: the same chat with a model that takes all of it, so that
nothing is ever made shorter.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rig

if TYPE_CHECKING:
    from tests.servers import Answer, Ask

TURNS = 1000
WINDOW, HUGE = 24_000, 100_000_000  # tokens that the model takes
FILE = 20_000  # bytes of the file
AIM_MEMORY = 120  # MiB at the end
AIM_SLOWER = 3.0  # times that of the first turns: the last ones


def chat(cwd: Path, turns: int) -> None:
    """Goes on with the newest chat of a folder, or begins one; prints how long each turn took."""
    from agent.app import App
    from agent.chat import Chat
    from agent.errors import UsageError
    from agent.stop import Stop
    from agent.store import sessions, settingsfile

    flags = {
        "model": "compat/fake-model",
        "small_model": "compat/small",
        "permission_mode": "auto",
        "context": {"fake-model": int(os.environ["WINDOW"]), "small": WINDOW},
    }
    began = time.perf_counter()
    app = App(cwd, settingsfile.load(cwd, flags=flags), stop=Stop())
    try:
        session = sessions.newest(cwd)
    except UsageError:
        session = sessions.new(cwd)
    talk = Chat(app, session)
    opened = time.perf_counter() - began
    taken = []
    for number in range(turns):
        begun = time.perf_counter()
        talk.turn(f"wish {number}: " + "please look at it again, " * 4)
        taken.append(time.perf_counter() - begun)
    talk.close()
    app.close()
    print(json.dumps({"opened": opened, "turns": taken}))


class Model:
    """Answers, reads, sums up, and keeps nothing."""

    def __init__(self) -> None:
        self.calls = self.summaries = self.largest = 0

    def __call__(self, ask: "Ask") -> "Answer":
        from tests.servers import Answer

        size = int(ask.headers["content-length"])
        usage = (size // 4, 100, 0, 0)
        if not ask.json.get("tools"):
            self.summaries += 1
            return Answer(text="Goal: many wishes. State: all met.", usage=usage)
        self.calls, self.largest = self.calls + 1, max(self.largest, size)
        if self.calls % 11 == 5 and ask.json["messages"][-1]["role"] == "user":
            path = json.dumps({"path": "file.txt"})
            return Answer(calls=((f"c{self.calls}", "read_file", path),), usage=usage)
        return Answer(text="I have looked. " + "It is as it was before. " * 40, usage=usage)


def run(cwd: Path, turns: int, window: int, model: Model) -> tuple[dict[str, Any], rig.Used]:
    """A chat of so many turns in a process of its own: what it told, and what it used."""
    from tests.servers import OpenAIServer

    with OpenAIServer(model) as server, tempfile.TemporaryFile() as told:

        def forget(body: dict[str, Any]) -> str:
            server.requests.clear()
            return ""

        server.refuses = forget
        env = rig.environment(
            cwd, COMPAT_BASE_URL=f"{server.url}/v1", WINDOW=str(window), PYTHONPATH=str(rig.ROOT)
        )
        words = [rig.PYTHON, __file__, "--chat", str(cwd), str(turns)]
        child = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=told)
        used, code = rig.ended(child)
        if code:
            raise RuntimeError(f"the chat ended with {code}")
        told.seek(0)
        return json.loads(told.read()), used


def main() -> int:
    report = rig.Report(__doc__, count=TURNS)
    turns = report.count
    few = max(turns // 10, 2)
    found: dict[str, tuple[list[float], rig.Used, Model]] = {}
    heads = ("first", "last", "memory", "requests", "largest", "summaries")
    report.table(f"A chat of {turns:,} turns", *heads)
    with tempfile.TemporaryDirectory() as home:
        for name, window in (("made shorter", WINDOW), ("never made shorter", HUGE)):
            cwd = Path(home) / name.replace(" ", "-")
            cwd.mkdir()
            (cwd / "file.txt").write_text("x = 1  # a line\n" * (FILE // 16), encoding="utf-8")
            model = Model()
            told, used = run(cwd, turns, window, model)
            taken = [1000 * each for each in told["turns"]]
            found[name] = (taken, used, model)
            first, last = sum(taken[:few]) / few, sum(taken[-few:]) / few
            ours = window == WINDOW
            report.row(
                name,
                f"{first:.1f} ms",
                f"{last:.1f} ms",
                f"{used.peak:.0f} MiB",
                f"{model.calls:,}",
                f"{model.largest // 1024:,} KiB",
                str(model.summaries),
                aim=f"{AIM_MEMORY} MiB, last ≤ {AIM_SLOWER:g} × first" if ours else "",
                met=not ours or (used.peak <= AIM_MEMORY and last <= AIM_SLOWER * first),
            )
        cwd = Path(home) / "made-shorter"
        report.table(
            "Going on with it in a new process", "to open", "a turn", "memory", "summaries"
        )
        model = Model()
        told, used = run(cwd, 1, WINDOW, model)
        report.row(
            "-c",
            f"{1000 * told['opened']:.0f} ms",
            f"{1000 * told['turns'][0]:.0f} ms",
            f"{used.peak:.0f} MiB",
            str(model.summaries),
        )
        sizes = {"session's file": [*cwd.glob(".agent/sessions/*.jsonl")]}
        sizes["what is kept beside it"] = [*cwd.glob(".agent/sessions/*.kept/*")]
        report.table("On the disk", "files", "KiB")
        for name, paths in sizes.items():
            total = sum(path.stat().st_size for path in paths)
            report.row(name, str(len(paths)), f"{total / 1024:,.0f}")
    return report.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--chat"]:
        sys.path.insert(0, str(rig.ROOT))
        chat(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main())

"""How long a run takes: `python bench/wall.py [--quick]`.

Real runs of plans whose steps wait for a model: a server on this machine that answers after
200 ms, or a script that lets each step take as long as it says. Beside each stands the length of
its critical path, which nobody can beat (with a server, in calls as a bare client has them), and
the same steps done two other ways: level by level, each level begun when all of the one before has
ended, and one after another, as one agent would.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import rig
from schedule import Wiring, diamond, fan, scattered

if TYPE_CHECKING:
    from agent.plan import Plan

CALL = 0.2  # seconds of a call to the server
QUICK = 0.02
LENGTHS = (0.1, 0.2, 0.4)  # seconds of the calls of a script
AIM = 1.05


class Shape:
    """Steps that need each other, and how many seconds the model takes in each."""

    def __init__(self, wiring: Wiring, lengths: Sequence[float]) -> None:
        self.needs = {f"s{n}": needs for n, needs in enumerate(wiring)}
        self.seconds = dict(zip(self.needs, lengths, strict=True))
        self.level: dict[str, int] = {}
        self.ends: dict[str, float] = {}
        for id, needs in self.needs.items():  # each stands after those it needs
            self.level[id] = 1 + max((self.level[need] for need in needs), default=0)
            began = max((self.ends[need] for need in needs), default=0.0)
            self.ends[id] = began + self.seconds[id]

    def least(self, workers: int) -> float:
        """Seconds that no order of the steps can beat."""
        return max(*self.ends.values(), sum(self.seconds.values()) / workers)

    @property
    def widest(self) -> int:
        """Steps of the level that has most."""
        return max(Counter(self.level.values()).values())

    @property
    def by_level(self) -> Mapping[str, Sequence[str]]:
        """What each needs where a level waits for all of the one before."""
        return {
            id: [other for other, level in self.level.items() if level == own - 1]
            for id, own in self.level.items()
        }

    def plan(self, needs: Mapping[str, Sequence[str]]) -> "Plan":
        from agent.plan import Plan, Step

        return Plan(
            goal="wait",
            steps=tuple(
                Step(id=id, do="Wait.", needs=tuple(each), writes=()) for id, each in needs.items()
            ),
        )

    def script(self, path: Path) -> None:
        """Write down a model that takes that long in each step."""
        lines = (f"- {{for: {id}, text: Done., seconds: {s}}}\n" for id, s in self.seconds.items())
        path.write_text("".join(lines), encoding="utf-8")


SERVER = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.servers import Answer, OpenAIServer
with OpenAIServer([Answer(text="Done.", late=float(sys.argv[2]))]) as server:
    print(f"{server.url}/v1", flush=True)
    sys.stdin.read()
"""


@contextmanager
def served(seconds: float) -> Iterator[str]:
    """The base URL of a model server, a process of its own, that takes that long for an answer."""
    argv = [rig.PYTHON, "-c", SERVER, str(rig.ROOT), str(seconds)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, encoding="utf-8") as child:
        assert child.stdin, "it is a pipe"
        assert child.stdout, "it is a pipe"
        yield child.stdout.readline().strip()
        child.stdin.close()


def bare(url: str) -> float:
    """Seconds of one call by a client that does nothing else."""
    words = {"model": "fake-model", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    request = Request(
        f"{url}/chat/completions",
        json.dumps(words).encode(),
        {"content-type": "application/json"},
    )

    def act() -> None:
        with urlopen(request) as answer:
            answer.read()

    return rig.medians({"call": rig.seconds(act)}, 5)["call"]


def run(cwd: Path, model: str, plan: "Plan", workers: int) -> float:
    """Seconds that a run takes, in an App of its own, from its plan to its end."""
    from agent import runs
    from agent.app import App
    from agent.stop import Stop
    from agent.store import settingsfile

    loaded = settingsfile.load(cwd, flags={"model": model, "max_workers": workers})
    app = App(cwd, loaded, stop=Stop())
    try:
        app.warm()  # what is loaded once in a process is not the run's
        _ = app.skills

        def act() -> None:
            ended = runs.run(app, app.ready(plan), "file", vouched=True)
            assert ended.code == 0, f"every step is done: {ended}"

        return rig.seconds(act)()
    finally:
        app.close()


def rows(report: rig.Report, cwd: Path, name: str, shape: Shape, workers: int, model: str) -> None:
    """Run a shape in each way, and print what that took."""
    if model.startswith("script/"):
        shape.script(cwd / model.removeprefix("script/"))
    ours, levels = shape.plan(shape.needs), shape.plan(shape.by_level)
    took = rig.medians(
        {
            "ours": lambda: run(cwd, model, ours, workers),
            "levels": lambda: run(cwd, model, levels, workers),
        },
        report.rounds(3),
    )
    one = run(cwd, model, ours, 1)
    least, mine = shape.least(workers), took["ours"]
    aimed = workers >= shape.widest
    report.row(
        f"{name}, {workers} at once",
        f"{least:.2f}",
        f"{mine:.2f}",
        f"{mine / least:.3f}",
        f"{took['levels']:.2f}",
        f"{took['levels'] / mine:.2f}",
        f"{one:.2f}",
        f"{one / mine:.2f}",
        aim=f"≤ {AIM} × least" if aimed else "",
        met=not aimed or mine <= AIM * least,
    )


def main() -> int:
    report = rig.Report(__doc__)
    call = QUICK if report.quick else CALL
    dice = random.Random(3)
    steps = 10 if report.quick else 50
    graph = scattered(steps)
    lengths = [dice.choice(LENGTHS) * call / CALL for _ in graph]
    heads = ("least s", "ours s", "× least", "levels s", "× ours", "in turn s", "× ours")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        os.environ.clear()
        os.environ.update(rig.environment(home) | {"PATH": os.defpath})
        report.table(f"runs of an App, {call * 1000:.0f} ms a call", *heads)
        with served(call) as url:
            os.environ["COMPAT_BASE_URL"] = url
            model, length = "compat/fake-model", bare(url)
            rows(report, home, "a diamond", Shape(diamond(4), [length] * 4), 4, model)
            if not report.quick:
                rows(report, home, "a fan of 8", Shape(fan(10), [length] * 10), 8, model)
        shape, model = Shape(graph, lengths), "script/model.yaml"
        for workers in (4,) if report.quick else (steps, 4):
            rows(report, home, f"a random graph of {steps}", shape, workers, model)
        processes(report, home, call)
    return report.end()


def processes(report: rig.Report, home: Path, call: float) -> None:
    """The diamond by `ts run`, a process with all that it has to load."""
    from agent.store import planfile

    shape = Shape(diamond(4), [call] * 4)
    (home / "plan.yaml").write_text(planfile.dump(shape.plan(shape.needs)), encoding="utf-8")
    report.table("ts run plan.yaml, a diamond", "least s", "wall s", "CPU ms")
    with served(call) as url:
        env = rig.environment(home, COMPAT_BASE_URL=url)
        argv = [*rig.TS, "--model", "compat/fake-model", "run", "plan.yaml"]
        cpu = list[float]()

        def act() -> None:
            cpu.append(rig.process(argv, home, env).cpu)

        wall = rig.medians({"ts": rig.seconds(act)}, report.rounds(5))["ts"]
        middle = sorted(cpu)[len(cpu) // 2] * 1000
        report.row("with its start", f"{shape.least(4):.2f}", f"{wall:.2f}", f"{middle:.0f}")


if __name__ == "__main__":
    sys.exit(main())

"""What keeping the working tree for undo costs: `python bench/undo.py [COUNT] [--quick]`.

A snapshot of COUNT files (5,000), of four times and of ten times as many: the first one, one when
nothing has changed, one when a file has. Beside it what git does with the same files (`status`
looks at all of them, `stash create` writes what has changed) and a plain copy. The files are in
the system's temporary folder, so set TMPDIR to the disk that is meant.
"""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import rig

COUNT = 5000
LINE = "A line of a source file, as long as such lines are: number {}\n"
AIMS = {1: 1.0, 4: 0.2}  # seconds of a warm snapshot, by size in counts
LONG = 600.0  # seconds that a snapshot may take here
MANY = 64  # files of a directory


def main() -> int:
    report = rig.Report(__doc__, count=COUNT)
    for times in (1, 4, 10):
        with tempfile.TemporaryDirectory() as folder:
            measured(report, Path(folder).resolve(), report.count, times)
    return report.end()


def measured(report: rig.Report, home: Path, count: int, times: int) -> None:
    from agent.store.snapshots import Snapshots

    count, work = count * times, home / "work"
    fill(work, count)
    env = rig.environment(home)
    plain = once(lambda: Snapshots(work, env, seconds=LONG).keep())
    shutil.rmtree(work / ".agent")
    committed(work, env)
    store = Snapshots(work, env, seconds=LONG)
    first = once(store.keep)
    numbers = itertools.count()

    def after(act: Callable[[], object]) -> Callable[[], float]:
        """A file is changed first, which is not measured."""

        def measure() -> float:
            (work / "0/0.py").write_text(f"changed {next(numbers)}\n", encoding="utf-8")
            return rig.seconds(act)()

        return measure

    def git(*words: str) -> Callable[[], object]:
        return lambda: subprocess.run(
            ["git", *words], cwd=work, env=env, check=True, stdout=subprocess.DEVNULL
        )

    rounds = report.rounds(7)
    still = rig.medians(
        {"ours": rig.seconds(store.keep), "status": rig.seconds(git("status", "--porcelain"))},
        rounds,
    )
    names = ("-c", "user.name=b", "-c", "user.email=b@localhost")
    moved = rig.medians(
        {
            "ours": after(store.keep),
            "status": after(git("status", "--porcelain")),
            "stash": after(git(*names, "stash", "create")),
        },
        rounds,
    )
    copy = once(lambda: shutil.copytree(work, home / "copy", symlinks=True))
    report.table(f"a snapshot of {count:,} files", "ms", "× status")
    aim = AIMS.get(times)
    words = f"≤ {aim * 1000:.0f} ms" if aim else ""
    rows = [
        ("the first, without a repository", plain, moved["status"], False),
        ("the first, in a repository", first, moved["status"], False),
        ("nothing has changed", still["ours"], still["status"], True),
        ("a file has changed", moved["ours"], moved["status"], True),
        ("  git status", moved["status"], moved["status"], False),
        ("  git stash create", moved["stash"], moved["status"], False),
        ("  a copy of it all", copy, moved["status"], False),
    ]
    for name, took, beside, warm in rows:
        met = not (warm and aim) or took <= aim
        figure = f"{took / beside:.2f}"
        report.row(name, f"{took * 1000:.0f}", figure, aim=words if warm else "", met=met)


def fill(work: Path, count: int) -> None:
    for number in range(count):
        path = work / f"{number // MANY}/{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(LINE.format(number + line) for line in range(10))
        path.write_text(text, encoding="utf-8")
        os.utime(path, (time.time() - 60,) * 2)  # git looks twice at what is as young as its index


def committed(work: Path, env: dict[str, str]) -> None:
    names = ("-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "gc.auto=0")
    for words in (("init", "-q"), ("add", "-A"), (*names, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *words], cwd=work, env=env, check=True)


def once(act: Callable[[], object]) -> float:
    return rig.seconds(act)()


if __name__ == "__main__":
    sys.exit(main())

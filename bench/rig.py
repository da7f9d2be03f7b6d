"""What the scripts here share: rounds, processes that are measured, tables with aims.

A figure is the median of several rounds in which all rivals take their turn, so that all see the
same load. CPU time is user and system time, of a process and of the children it waited for.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that this checkout is measured, whatever is installed

PYTHON = sys.executable
TS = (PYTHON, str(ROOT / "main.py"))
NAME = 34  # columns of a row's name


class Report:
    """One script's command line and what it prints.

    `count` is the size of its main question, for scripts that take one.
    """

    def __init__(self, doc: str | None, *, count: int = 0) -> None:
        parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
        parser.add_argument("--quick", action="store_true", help="small, and once: does it run?")
        if count:
            parser.add_argument("count", nargs="?", type=int, help=f"how many ({count:,})")
        typed = parser.parse_args()
        self.quick: bool = typed.quick
        self.count: int = (count and typed.count) or (count // 100 if self.quick else count)
        self.missed = 0
        self._widths: list[int] = []
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        print(
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
            f"{os.cpu_count()} cores, load {load}, {datetime.now(UTC):%Y-%m-%d}"
        )

    def rounds(self, many: int) -> int:
        return 1 if self.quick else many

    def table(self, title: str, *heads: str) -> None:
        """Begin a table whose rows have a name and these columns."""
        self._widths = [max(len(head), 8) for head in heads]
        print(f"\n{title}")
        print(f"  {'':{NAME}}" + self._cells(heads), flush=True)

    def row(self, name: str, *cells: str, aim: str = "", met: bool = True) -> None:
        """`aim` in words, and whether it is met. A quick run has no aims."""
        verdict = "" if not aim or self.quick else f"   aim {aim}" + ("" if met else ": MISSED")
        self.missed += not met
        print(f"  {name:{NAME}}{self._cells(cells)}{verdict}", flush=True)

    def _cells(self, cells: Sequence[str]) -> str:
        pairs = zip(cells, self._widths, strict=True)
        return "".join(f"  {cell:>{width}}" for cell, width in pairs)

    def end(self) -> int:
        """The exit code: 1 if an aim is missed."""
        if self.missed and not self.quick:
            print(f"\n{self.missed} aims missed")
        return int(self.missed > 0 and not self.quick)


def measured(rivals: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each measures in several rounds; with more than one, another is done before them for
    warming up."""
    found: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds + (rounds > 1)):
        for name, measure in rivals.items():
            found[name].append(measure())
    return {name: all[rounds > 1 :] for name, all in found.items()}


def medians(rivals: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of what each measures."""
    return {name: statistics.median(all) for name, all in measured(rivals, rounds).items()}


def seconds(
    act: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> Callable[[], float]:
    """Measures the wall time of a call; by another clock, the CPU time of this process, say."""

    def measure() -> float:
        began = clock()
        act()
        return clock() - began

    return measure


@dataclass(frozen=True)
class Used:
    cpu: float  # seconds
    peak: float  # MiB of memory; not less than that of the script which started it


def process(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Used:
    """What a program has used from its start to its end. Raises RuntimeError if it fails."""
    with tempfile.TemporaryFile() as told:
        child = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=told
        )
        used, code = ended(child)
        if code:
            told.seek(0)
            raise RuntimeError(f"{argv} ended with {code}: {told.read().decode()[-2000:]}")
    return used


def ended(child: subprocess.Popen[bytes]) -> tuple[Used, int]:
    """Wait for a child; what it has used, and its exit code."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 2**20 if sys.platform == "darwin" else 2**10  # getrusage(2): bytes there, KiB on Linux
    return Used(used.ru_utime + used.ru_stime, used.ru_maxrss / unit), child.returncode


def environment(home: Path, **more: str) -> dict[str, str]:
    """Of a program that must see nothing of the user's own settings and keys."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **kept, "HOME": str(home), **more}

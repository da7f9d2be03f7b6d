"""What files cost: `python bench/files.py [--quick]`.

An event of a run, until it is on the disk itself; an edit in a file of 1 MB; a page out of a file
of 1 GB. Beside each, the least that does the same: the bare system calls, `sed`, `head`. The
files are in the system's temporary folder, so set TMPDIR to the disk that is meant.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import rig

EVENTS = 200
AIM_EVENT = 0.0005  # seconds
LINE = b"A line of a file, as long as lines of code and of logs tend to be: number %09d\n"
OLD, NEW = "number 000005000\n", "number five thousand\n"


def main() -> int:
    report = rig.Report(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        events(report, home)
        edits(report, home, 1_000_000)
        pages(report, home, 10_000_000 if report.quick else 1_000_000_000)
    return report.end()


def events(report: rig.Report, home: Path) -> None:
    """The log of a run, and the same number of bytes written without one, in turn."""
    from agent.event import StepFinished, ToolFinished
    from agent.store.log import Log

    text = "A result of some lines.\n" * 20
    synced = StepFinished(step="s", status="done", summary=text)
    other = ToolFinished(step="s", id="c", name="bash", ok=True, output=text, seconds=0.1)
    settle: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
    data = b"x" * 700 + b"\n"
    bare = os.open(home / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def plain() -> None:
        os.write(bare, data)
        settle(bare)

    with Log(home / "runs/run.jsonl") as log:
        rivals = {
            "begin or end of a step, synced": rig.seconds(lambda: log(synced)),
            "  write and fdatasync alone": rig.seconds(plain),
            "any other event": rig.seconds(lambda: log(other)),
            "  write alone": rig.seconds(lambda: os.write(bare, data)),
        }
        took = rig.medians(rivals, report.rounds(EVENTS))
    os.close(bare)
    report.table("an event in the log", "µs", "above bare")
    pairs = list(took.items())
    for (name, ours), (bare_name, least) in (pairs[:2], pairs[2:]):
        met = ours - least <= AIM_EVENT
        above = f"{(ours - least) * 1e6:.0f}"
        report.row(name, f"{ours * 1e6:.0f}", above, aim="≤ 500 µs above", met=met)
        report.row(bare_name, f"{least * 1e6:.0f}", "")


def write(path: Path, size: int) -> int:
    """Fill a file with lines; how many there are."""
    lines = size // len(LINE % 0)
    with path.open("wb") as file:
        for at in range(0, lines, 10_000):
            file.write(b"".join(LINE % n for n in range(at, min(at + 10_000, lines))))
    return lines


def edits(report: rig.Report, home: Path, size: int) -> None:
    """One line of a file, there and back again."""
    from agent.stop import Stop
    from agent.tool import Context
    from agent.tools.files import edit_file, read_file

    path = home / "edited.txt"
    write(path, size)
    context = Context(cwd=home, stop=Stop())
    read_file(context, {"path": path.name})

    def ours() -> None:
        for old, new in ((OLD, NEW), (NEW, OLD)):
            edit_file(context, {"path": path.name, "old_string": old, "new_string": new})

    def plain() -> None:
        for old, new in ((OLD, NEW), (NEW, OLD)):
            text = path.read_text(encoding="utf-8")
            assert text.count(old) == 1, "the line stands there once"
            fresh = home / "fresh"
            with fresh.open("w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        context.close()
        read_file(context, {"path": path.name})

    def sed() -> None:
        for old, new in ((OLD, NEW), (NEW, OLD)):
            expression = f"s/{old.strip()}/{new.strip()}/"
            subprocess.run(["sed", "-i.bak", expression, path], check=True)
        context.close()
        read_file(context, {"path": path.name})

    rivals = {"edit_file": ours, "read, replace, fsync, rename": plain, "sed -i, no fsync": sed}
    measures = {name: rig.seconds(act) for name, act in rivals.items()}
    compared(report, f"an edit in {size / 1e6:.0f} MB", measures, 2)


def pages(report: rig.Report, home: Path, size: int) -> None:
    """A hundred lines out of a long file."""
    path = home / "long.txt"
    lines = write(path, size)
    for title, first in (("beginning", 1), ("middle", lines // 2), ("end", lines - 99)):
        compared(report, f"100 lines at the {title} of {size / 1e9:g} GB", page(path, first), 1)


def page(path: Path, first: int) -> dict[str, Callable[[], float]]:
    """The ways to get a hundred lines from this one on."""
    from agent.stop import Stop
    from agent.tool import Context
    from agent.tools.files import read_file

    last = first + 99
    context = Context(cwd=path.parent, stop=Stop())
    asked = {"path": path.name, "start_line": first, "end_line": last}
    sed = ["sed", "-n", f"{first},{last}p;{last}q", str(path)]
    head = ["sh", "-c", 'head -n "$1" "$0" | tail -n 100', str(path), str(last)]

    def ours() -> None:
        assert f"{first - 1:09}" in read_file(context, asked).text, "the page is there"

    def process(argv: list[str]) -> Callable[[], object]:
        return lambda: subprocess.run(argv, check=True, capture_output=True)

    acts = {"read_file": ours, "sed -n": process(sed), "head | tail": process(head)}
    return {name: rig.seconds(act) for name, act in acts.items()}


def compared(
    report: rig.Report, title: str, measures: dict[str, Callable[[], float]], times: int
) -> None:
    """Each beside the first, which is ours; `times`: how often each does it."""
    took = rig.medians(measures, report.rounds(5))
    ours = next(iter(took.values()))
    report.table(title, "ms", "ours ×")
    for name, each in took.items():
        report.row(name, f"{each / times * 1000:.1f}", f"{ours / each:.2f}")


if __name__ == "__main__":
    sys.exit(main())

"""Searching, beside ripgrep and grep: `python bench/search.py [--quick] [FILES]`.

In a tree of 10,000 files each question is asked of the tools, with ripgrep at hand and without, and
of `rg`, `grep` and `find`.
"""

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import rig

ROUNDS = 9
AIM = 1.2
FOLDERS = 100
WORDS = [f"{a}_{b}" for a in ("load", "save", "find", "drop", "move") for b in range(200)]


def make(root: Path, files: int) -> None:
    """Write a tree of sources, the same one for the same number."""
    dice = random.Random(7)
    for at in range(files):
        folder = root / f"package_{at % FOLDERS:03}" / f"part_{at // FOLDERS % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f"def {dice.choice(WORDS)}_{at}(n):\n    return {dice.choice(WORDS)}(n) + {line}\n"
            for line in range(dice.randrange(5, 60))
        ]
        if at % 500 == 0:
            lines.append("# the needle in the haystack\n")
        (folder / f"module_{at}.py").write_text("\n".join(lines), encoding="utf-8")
    (root / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")


def main() -> int:
    from agent.stop import Stop
    from agent.tool import Context
    from agent.tools.find.walk import ripgrep
    from agent.tools.search import grep_files, list_files

    report = rig.Report(__doc__, count=10_000)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        make(root, report.count)
        ours = Context(cwd=root, stop=Stop(), env={"PATH": os.environ.get("PATH", "")})
        alone = Context(cwd=root, stop=Stop(), env={"PATH": ""})
        rg = ripgrep(ours)

        def command(*argv: str) -> Callable[[], float]:
            return rig.seconds(
                lambda: subprocess.run(argv, cwd=root, capture_output=True, check=False)
            )

        print(f"{report.count:,} files, {rg or 'no ripgrep'}")
        for title, pattern in {
            "a rare word": "needle",
            "an expression": r"def load_1\d\d_\d+7\b",
            "a frequent word": "return save_1",
        }.items():
            asked = {"pattern": pattern}
            rivals = {
                "grep_files": rig.seconds(lambda asked=asked: grep_files(ours, asked)),  # type: ignore[misc]
                "grep_files, no rg": rig.seconds(lambda asked=asked: grep_files(alone, asked)),  # type: ignore[misc]
                "grep -r": command("grep", "-rnP", "--", pattern, "."),
            }
            if rg:
                rivals["rg"] = command(str(rg), "-n", "--", pattern, ".")
            compared(report, f"{title}: {pattern}", rivals)
        asked = {"pattern": "*_99*.py"}
        rivals = {
            "list_files": rig.seconds(lambda: list_files(ours, asked)),
            "list_files, no rg": rig.seconds(lambda: list_files(alone, asked)),
            "find": command("find", ".", "-name", "*_99*.py"),
        }
        if rg:
            rivals["rg"] = command(str(rg), "--files", "-g", "*_99*.py")
        compared(report, "names: *_99*.py", rivals)
    return report.end()


def compared(report: rig.Report, title: str, rivals: dict[str, Callable[[], float]]) -> None:
    """Each beside `rg`; the aim is for the tool where ripgrep is at hand."""
    took = rig.medians(rivals, report.rounds(ROUNDS))
    report.table(title, "ms", "× rg")
    for at, (name, each) in enumerate(took.items()):
        ratio = each / took["rg"] if "rg" in took else 0.0
        aim = f"≤ {AIM} × rg" if ratio and not at else ""
        shown = f"{ratio:.2f}" if ratio else "-"
        report.row(name, f"{each * 1000:.1f}", shown, aim=aim, met=not aim or ratio <= AIM)


if __name__ == "__main__":
    sys.exit(main())

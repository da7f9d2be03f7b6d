"""Searching, against ripgrep and grep: `python bench/search.py [FILES]`.

A tree of 10,000 files is made, and each question is asked of every program in turn, so that all
see the same load. What is printed are medians and ratios to `rg`; seconds of another machine or
hour can't be compared.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 9
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


def medians(questions: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds each takes: the median of several rounds, in which all take their turn."""
    seconds: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(ROUNDS + 1):
        for name, ask in questions.items():
            start = time.perf_counter()
            ask()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken[1:]) for name, taken in seconds.items()}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from agent.stop import Stop
    from agent.tool import Context
    from agent.tools.find.walk import ripgrep
    from agent.tools.search import grep_files, list_files

    files = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        make(root, files)
        ours = Context(cwd=root, stop=Stop(), env={"PATH": os.environ.get("PATH", "")})
        alone = Context(cwd=root, stop=Stop(), env={"PATH": ""})
        rg = ripgrep(ours)

        def command(*argv: str) -> Callable[[], object]:
            return lambda: subprocess.run(argv, cwd=root, capture_output=True, check=False)

        print(f"{files} files, {rg or 'no ripgrep'}; medians of {ROUNDS} rounds")
        for title, pattern in {
            "a rare word": "needle",
            "an expression": r"def load_1\d\d_\d+7\b",
            "a frequent word": "return save_1",
        }.items():
            questions: dict[str, Callable[[], object]] = {
                "grep_files": lambda pattern=pattern: grep_files(ours, {"pattern": pattern}),  # type: ignore[misc]
                "without rg": lambda pattern=pattern: grep_files(alone, {"pattern": pattern}),  # type: ignore[misc]
                "grep -r": command("grep", "-rnP", "--", pattern, "."),
            }
            if rg:
                questions["rg"] = command(str(rg), "-n", "--", pattern, ".")
            report(f"{title}: {pattern}", medians(questions))
        questions = {
            "list_files": lambda: list_files(ours, {"pattern": "*_99*.py"}),
            "without rg": lambda: list_files(alone, {"pattern": "*_99*.py"}),
            "find": command("find", ".", "-name", "*_99*.py"),
        }
        if rg:
            questions["rg"] = command(str(rg), "--files", "-g", "*_99*.py")
        report("names: *_99*.py", medians(questions))


def report(title: str, seconds: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, taken in seconds.items():
        ratio = f"  {taken / seconds['rg']:6.2f} × rg" if "rg" in seconds else ""
        print(f"  {name:11} {taken * 1000:8.1f} ms{ratio}")


if __name__ == "__main__":
    main()

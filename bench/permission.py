"""What a decision about a command costs: `python bench/permission.py [--quick]`.

CPU time, once the grammar is loaded, of lines as models write them and of long ones. Beside it, the
time of a shell that runs nothing.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import rig

AIM = 1.0  # ms, of a usual line
LINES = {
    "a word": "ls",
    "git status": "git status --short",
    "a chain": 'cd src && npm run check 2>&1 | grep -E "(error|warning)" | head -20',
    "a loop": 'for f in src/*.ts; do grep -n "import" "$f" | wc -l; done',
    "a here-document": "cat > src/new.py <<'EOF'\n" + "print('x')\n" * 40 + "EOF",
    "a shell in a shell": "timeout 60 bash -c 'find . -name \"*.py\" | xargs grep -l main'",
}
LONG = {
    "50 commands": "; ".join(["git log --oneline -5 -- src"] * 50),
    "9,900 characters": "echo " + "word " * 1979,
    "9,900 brackets": "(" * 9_900,
    "100,000 characters": "true\n" * 20_000,
}


def main() -> int:
    report = rig.Report(__doc__)
    began = time.process_time()
    from agent.permission import decide
    from agent.settings import Rules
    from agent.shell.place import Facts

    rules = Rules(allow=("bash(npm run *)", "bash(git *)"), deny=("bash(rm *)", "read_file(.env)"))
    facts = Facts(cwd="/w/repo", home="/h")

    def decided(line: str) -> Callable[[], object]:
        return lambda: decide("default", rules, "bash", True, {"command": line}, facts)

    decided("ls")()
    report.table("the first decision, with all that it loads", "ms")
    report.row("import, grammar, decide", f"{(time.process_time() - began) * 1000:.1f}")
    many = report.rounds(200)
    report.table("a decision", "median", "slowest")
    for name, line in LINES.items():
        middle, worst = taken(decided(line), many)
        report.row(name, f"{middle:.2f}", f"{worst:.2f}", aim=f"≤ {AIM:g} ms", met=middle <= AIM)
    for name, line in LONG.items():
        middle, worst = taken(decided(line), report.rounds(20))
        report.row(name, f"{middle:.2f}", f"{worst:.2f}")
    run = ["/bin/bash", "--norc", "-c", ":"]
    middle, worst = taken(
        lambda: subprocess.run(run, check=True), report.rounds(20), time.perf_counter
    )
    report.row("beside it: bash -c :", f"{middle:.2f}", f"{worst:.2f}")
    return report.end()


def taken(
    do: Callable[[], object], rounds: int, clock: Callable[[], float] = time.process_time
) -> tuple[float, float]:
    """Milliseconds: the median and the longest of several rounds."""
    times = rig.measured({"it": rig.seconds(do, clock)}, rounds)["it"]
    return statistics.median(times) * 1000, max(times) * 1000


if __name__ == "__main__":
    sys.exit(main())

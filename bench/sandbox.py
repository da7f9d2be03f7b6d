"""What the sandbox costs a command: `python bench/sandbox.py [--quick]`.

The time of `true` as a step runs it, in the sandbox and without, turn by turn; of bwrap alone with
the same mounts; and of what is done here before it starts. Least and median, since a machine that
is busy makes all of it slower.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import rig

AIM = 10.0  # ms, that the least in the sandbox is above the least without


def main() -> int:
    report = rig.Report(__doc__)
    from agent.stop import Stop
    from agent.tool import EVERYDAY
    from agent.tools.child.command import command
    from agent.tools.sandbox.sandbox import Sandbox, Scope

    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder).resolve()
        subprocess.run(["git", "init", "-q", str(cwd)], check=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
        sandbox = Sandbox(Scope(cwd=cwd, home=Path.home(), env=env), "auto", tell=print)
        began = time.perf_counter()
        found = sandbox.found
        report.table("what this machine offers", "ms")
        report.row("found out, once", f"{(time.perf_counter() - began) * 1000:.1f}")
        if not found.works:
            print(f"\n{found.told}")
            return 0

        def run(inside: Sandbox | None) -> Callable[[], object]:
            return lambda: command("true", cwd=cwd, env=env, stop=Stop(), sandbox=inside)

        def bare() -> None:
            words = [found.program, "--ro-bind", "/", "/", "--unshare-user", "--unshare-pid"]
            subprocess.run([*words, "--unshare-net", "--", "/bin/true"], check=True)

        rivals = {
            "without": rig.seconds(run(None)),
            "in the sandbox": rig.seconds(run(sandbox)),
            "bwrap with three namespaces": rig.seconds(bare),
            "its mounts looked up": rig.seconds(lambda: sandbox.box(EVERYDAY)),
        }
        taken = rig.measured(rivals, report.rounds(50))
        report.table("a command that does nothing", "least", "median")
        for name, each in taken.items():
            report.row(name, f"{min(each) * 1000:.2f}", f"{statistics.median(each) * 1000:.2f}")
        more = (min(taken["in the sandbox"]) - min(taken["without"])) * 1000
        middle = statistics.median(taken["in the sandbox"]) / statistics.median(taken["without"])
        report.row("above", f"{more:.2f}", f"{middle:.2f} ×", aim=f"≤ {AIM:g} ms", met=more <= AIM)
        sandbox.close()
    return report.end()


if __name__ == "__main__":
    raise SystemExit(main())

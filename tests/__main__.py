"""`python -m tests`: every gate, in the order of their speed. Stops at the first that fails."""

import subprocess
import sys

GATES = [
    "ruff format --check .",
    "ruff check .",
    "lint-imports",
    "mypy",
    "pytest -q",
]

for gate in GATES:
    print(f"· {gate}", flush=True)
    name, *rest = gate.split()
    command = (
        ["lint-imports", *rest]
        if name == "lint-imports"
        else [sys.executable, "-X", "warn_default_encoding", "-m", name, *rest]
    )
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(code)

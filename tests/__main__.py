"""`python -m tests`: every gate, in the order of their speed. Stops at the first that fails.

What stands behind it on the command line is pytest's: `python -m tests -x tests/unit`.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LINT_IMPORTS = "from importlinter.cli import lint_imports_command as lint; lint()"

GATES = {
    "ruff format --check": ["-m", "ruff", "format", "--check", "."],
    "ruff check": ["-m", "ruff", "check", "--quiet", "."],
    "lint-imports": ["-c", LINT_IMPORTS],
    "mypy": ["-m", "mypy"],
    "pytest": ["-X", "warn_default_encoding", "-m", "pytest", "-q", *sys.argv[1:]],
}

for name, words in GATES.items():
    print(f"· {name}", flush=True)
    if code := subprocess.run([sys.executable, *words], check=False, cwd=ROOT).returncode:
        sys.exit(f"· {name}: failed ({code})" if name != "pytest" else code)

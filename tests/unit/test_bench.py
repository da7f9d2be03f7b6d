"""Each benchmark runs and prints its figures; what they are is for a quiet machine to say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import agent

BENCH = Path(agent.__file__).parents[1] / "bench"
SCRIPTS = sorted(path.name for path in BENCH.glob("*.py") if path.name != "rig.py")
FIGURE = re.compile(r"^  \S.* [\d.,]+%?(  |$)", re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_quick_run_prints_figures(script: str) -> None:
    told = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", BENCH / script, "--quick"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )

    assert (told.returncode, told.stderr) == (0, "")
    assert len(FIGURE.findall(told.stdout)) >= 3, told.stdout


def test_every_script_is_told_of_in_the_readme() -> None:
    words = (BENCH / "README.md").read_text(encoding="utf-8")

    assert [name for name in SCRIPTS if f"`{name}`" not in words] == []

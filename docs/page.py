"""Draws docs/report.png from a real run of `ts demo`: `python -m docs.page` where there is
Chromium. What `ts report` writes of it is opened there, and its beginning is what is seen."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.browser import browser

ROOT = Path(__file__).parents[1]
WIDE, HIGH = 1200, 1340


def ts(*words: str, cwd: Path) -> str:
    """What a command has said on stderr."""
    command = [sys.executable, str(ROOT / "main.py"), *words]
    ran = subprocess.run(command, cwd=cwd, capture_output=True, encoding="utf-8", check=True)
    return ran.stderr


def main() -> None:
    said = ts("demo", cwd=ROOT).split()
    folder = Path(said[said.index("cd") + 1])
    with TemporaryDirectory() as place:
        ts("report", "-o", f"{place}/report.html", cwd=folder)
        with browser(Path(place) / "profile") as page:
            page.show(Path(place) / "report.html", WIDE, HIGH)
            page.value("new Promise(done => setTimeout(done, 1000))")  # until all is drawn
            page.picture(ROOT / "docs/report.png")


if __name__ == "__main__":
    main()

"""What the tests of the whole program share."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.ts import Ts

PATIENCE = 3.0  # seconds in which what a killed ts has left has to have ended


@pytest.fixture
def ts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ts]:
    """A user; when their test is over, no process and no temporary file of theirs is left."""
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    ts = Ts(home=home, cwd=cwd, patch=monkeypatch)
    yield ts
    until = time.monotonic() + PATIENCE
    while (left := ts.left()) and time.monotonic() < until:
        os.sched_yield()
    for id in left:
        os.kill(id, 9)
    assert left == {}
    files = [path.name for path in ts.temporary.iterdir() if not path.name.startswith("ts-fault-")]
    assert files == []

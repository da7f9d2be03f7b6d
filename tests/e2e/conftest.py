"""What the tests of the whole program share."""

import os
import pwd
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.tools.sandbox.sandbox import offered
from tests.e2e.ts import Ts

ENV = {"PATH": os.environ.get("PATH", os.defpath)}  # noqa: TID251 - programs are found by it
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


@pytest.fixture(scope="session")
def works() -> None:
    found = offered(ENV, Path.home())
    if not found.works:
        pytest.skip(f"no sandbox works here: {found.why}")


@pytest.fixture
def boxed(ts: Ts, works: None) -> Iterator[Ts]:
    """A user with the usual settings, in a directory that is not in /tmp."""
    (ts.home / ".config/tianshu/settings.yaml").unlink()
    with tempfile.TemporaryDirectory(
        prefix=".ts-tests-", dir=pwd.getpwuid(os.geteuid()).pw_dir
    ) as folder:
        ts.cwd = Path(folder).resolve() / "project"
        ts.cwd.mkdir()
        yield ts

"""What the tests of the whole program share."""

from pathlib import Path

import pytest

from tests.e2e.ts import Ts


@pytest.fixture
def ts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ts:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    return Ts(home=home, cwd=cwd, patch=monkeypatch)

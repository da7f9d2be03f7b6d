"""The wheel: what it holds, and that what it installs works far from the checkout, offline."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from agent.version import __version__
from tests.e2e.ts import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    told = subprocess.run(
        [sys.executable, *words], check=False, capture_output=True, encoding="utf-8", timeout=50
    )
    assert told.returncode == 0, told.stdout + told.stderr
    (made,) = place.iterdir()
    return made


def test_the_wheel_holds_the_package_its_data_and_the_skills_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "agent").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    skills = {f"agent/skills/{path.name}" for path in (ROOT / "skills").iterdir()}
    about = f"tianshu_agent-{__version__}.dist-info"
    own = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert names == package | skills | {f"{about}/{name}" for name in own}
    assert {"agent/demo/recorded.yaml", "agent/providers/prices.yaml"} <= names
    assert any(name.endswith(".scm") for name in names)
    assert wheel.name == f"tianshu_agent-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_000_000


def test_what_is_installed_from_it_works_elsewhere(wheel: Path, tmp_path: Path) -> None:
    venv, project = tmp_path / "venv", tmp_path / "project"
    project.mkdir()
    (project / "plan.yaml").write_text("steps: [{id: one, run: echo}]", encoding="utf-8")
    (project / "code.py").write_text("def found() -> None: ...", encoding="utf-8")
    script = [{"calls": [{"name": "get_outline", "input": {"path": "code.py"}}]}, {"text": "."}]
    (project / "script.json").write_text(json.dumps(script), encoding="utf-8")
    python = [sys.executable, "-m"]
    subprocess.run([*python, "venv", "--without-pip", str(venv)], check=True, timeout=50)
    pip = [*python, "pip", "--python", str(venv / "bin/python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, timeout=50)
    (libraries,) = venv.glob("lib/python*/site-packages")
    at_hand = sysconfig.get_paths()["purelib"]  # the libraries, so that no network is needed
    (libraries / "at-hand.pth").write_text(f"{at_hand}\n", encoding="utf-8")

    def said(name: str, *words: str) -> str:
        env = {"HOME": str(tmp_path), "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        told = subprocess.run(
            [venv / "bin" / name, *words],
            cwd=project, env=env, check=True, capture_output=True, encoding="utf-8", timeout=30,
        )  # fmt: skip
        return told.stdout

    assert said("ts", "--version") == said("tianshu", "--version") == f"ts {__version__}\n"
    assert "1  one  $ echo" in said("ts", "run", "plan.yaml", "--dry-run")
    assert said("ts", "skills", "show", "check").startswith(f"# {libraries}/agent/skills/check.")
    assert "steps in" in said("ts", "run", "check", "--dry-run")
    model = ("--model", "script/script.json", "--output-format", "stream-json")
    assert "1: def found() -> None" in said("ts", "-p", "look", *model)  # by a grammar's queries

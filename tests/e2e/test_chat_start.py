"""A chat at a real terminal: what is loaded until its prompt is there, and how it is left."""

import sys
from pathlib import Path

import pexpect

from tests.e2e.ts import MAIN, Ts


def test_the_prompt_waits_for_neither_the_sdk_nor_the_graph(ts: Ts, tmp_path: Path) -> None:
    log = tmp_path / "imports"
    command = f"exec {sys.executable} -X importtime {MAIN[1]} 2>{log}"
    env = ts.environment({"TERM": "xterm-256color"})
    chat = pexpect.spawn(
        "bash", ["-c", command], cwd=str(ts.cwd), env=env,
        timeout=30, dimensions=(24, 80), encoding="utf-8",
    )  # fmt: skip
    try:
        chat.expect_exact("/help")
        chat.expect_exact("\x1b[6n")  # it asks where the cursor is
        chat.send("\x1b[4;1R")
        chat.expect_exact("›")
        seen = log.read_text(encoding="utf-8")
        chat.sendcontrol("d")
        chat.expect(pexpect.EOF)
    finally:
        chat.close(force=True)
    assert chat.exitstatus == 0
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in seen.splitlines()}
    assert {"msgspec", "prompt_toolkit"} <= names
    assert not {"anthropic", "networkx", "httpx2", "jsonschema", "pydantic"} & names
    assert not list(ts.cwd.iterdir())

"""Rules: the order they stand in is nothing, and what they allow runs nothing else."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.permission import decide
from agent.settings import Mode, Rules

PATTERNS = st.sampled_from(
    ["bash", "bash(git *)", "bash(git log)", "bash(rm *)", "edit_file(src/**)", "edit_file", "*"]
)
SOME = st.lists(PATTERNS, max_size=3).map(tuple)
CALLS = st.sampled_from(
    [
        ("bash", True, {"command": "git log"}),
        ("bash", True, {"command": "git log && rm x"}),
        ("write_file", True, {"path": "src/a.py"}),
        ("edit_file", True, {"path": "docs/a.md"}),
        ("read_file", False, {"path": "src/a.py"}),
    ]
)
MODES: st.SearchStrategy[Mode] = st.sampled_from(["default", "accept-edits", "plan", "auto"])
STRICTNESS = ["allow", "ask", "deny"]


@given(deny=SOME, ask=SOME, allow=SOME, call=CALLS, mode=MODES, data=st.data())
def test_r13_more_deny_and_ask_rules_never_loosen_and_order_is_nothing(
    deny: tuple[str, ...],
    ask: tuple[str, ...],
    allow: tuple[str, ...],
    call: tuple[str, bool, dict[str, str]],
    mode: Mode,
    data: st.DataObject,
) -> None:
    def strictness(rules: Rules) -> int:
        return STRICTNESS.index(decide(mode, rules, *call).decision)

    rules = Rules(deny=deny, ask=ask, allow=allow)
    found = strictness(rules)
    turned = Rules(deny=deny[::-1], ask=ask[::-1], allow=allow[::-1])
    assert strictness(turned) == found
    more = data.draw(PATTERNS)
    assert strictness(rules + Rules(deny=(more,))) >= found
    assert strictness(rules + Rules(ask=(more,))) >= found
    assert strictness(rules + Rules(allow=(more,))) <= found
    if strictness(Rules(deny=deny)) == 2:
        assert found == 2, "deny beats all"


TOKENS = st.sampled_from(
    [
        "git", "git", "log", " ", " ", " ", "-p", "touch pwned", "touch", "pwned", "&&", "||", ";",
        "&", "|", "|&", "\n", "\r", "\t", "$(", ")", "`", "<(", ">(", ">", ">>", "<", "<<E\n",
        "\nE\n", "'", "'", '"', '"', "\\", "\\\n", "#", "{", "}", "(", "$x", "${x:-", "$'", "=",
        "A=1 ", "!", "*", "~", "\x00", "\x0b", "\u00a0", "\u2028", "eval ", "env ", "exec ",
        "time ", "-c", "a,b", ":",
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PATH with programs that do nothing but leave a mark when it is not git that ran."""
    place = tmp_path_factory.mktemp("shims")
    for name in ("git", "touch", "log", "pwned", "env", "time"):
        shim = place / name
        mark = "" if name == "git" else ': > "$MARK"\n'
        shim.write_text(f"#!/bin/sh\n{mark}", encoding="utf-8")
        shim.chmod(0o755)
    return place


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(tokens=st.lists(TOKENS, min_size=1, max_size=9))
def test_a_command_that_git_rules_allow_runs_git_alone_and_writes_nothing(
    shims: Path, tmp_path: Path, tokens: list[str]
) -> None:
    command = "git " + "".join(tokens)
    allowed = Rules(allow=("bash(git *)",))
    if decide("default", allowed, "bash", True, {"command": command}).decision != "allow":
        return
    empty = tmp_path / "empty"
    empty.mkdir(exist_ok=True)
    subprocess.run(
        ["/bin/bash", "--norc", "-c", command],
        cwd=empty, check=False, capture_output=True, timeout=10, stdin=subprocess.DEVNULL,
        env={"PATH": str(shims), "MARK": str(tmp_path / "mark")},
    )  # fmt: skip
    assert not (tmp_path / "mark").exists(), f"{command!r} ran something else"
    assert not list(empty.iterdir()), f"{command!r} wrote a file"

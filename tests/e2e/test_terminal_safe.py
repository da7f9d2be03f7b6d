"""What models, tools, files and their names say never acts on the terminal, whatever shows it."""

import json
import os
import re
import unicodedata
from pathlib import Path

import pexpect
import pytest

from tests.e2e.ts import MAIN, Ts, call, calling

# What ts itself writes to a terminal: styles, lines and cursor of its foot, the keyboard's modes.
OURS = re.compile(
    r"\r?\x1b\[(?:(?:\d*[AB]|\?7l)\r|\?(?:25|7|1|12|2004)[lh]|\d*[ABCDGJK]|\d*(?:;\d+)*m|2[23];2t)|\x1b\[6n"
)
TITLE = re.compile(r"\r?\x1b\]2;([^\x07\x1b]*)\x07")  # what it says is looked at too
EVIL = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b]8;;http://x.example\x1b\\click\x1b]8;;\x1b\\"
    "\x1b[2J\x1b[31mred\x9b2J\x90q\x9c\x07\x08\x08over\rFORGED \u202egnp.exe\u200b\U000e0041"
)
NAME = "n\x1b[2J\x1b]0;t\x07\r\u202ea\n.txt"


def shown(ts: Ts, *words: str, keys: str = "") -> tuple[int, str]:
    """The exit code of a command at a terminal, and all that it wrote there."""
    child = pexpect.spawn(
        MAIN[0],
        [*MAIN[1:], *words],
        cwd=str(ts.cwd),
        env=ts.environment({"TERM": "xterm-256color"}),
        dimensions=(40, 100),
        timeout=25,
        encoding="utf-8",
        codec_errors="surrogateescape",
        echo=False,
    )
    try:
        text = ""
        for key in keys:
            child.expect_exact("allow it?")
            text += f"{child.before}{child.after}"
            child.sendline(key)
        while child.expect_exact(["which? ", pexpect.EOF]) == 0:  # is this folder trusted?
            text += f"{child.before}{child.after}"
            child.sendline("n")
        text += str(child.before)
    finally:
        child.close(force=True)
    return child.exitstatus or 0, text


def acting(text: str) -> set[str]:
    """The characters in it that act on a terminal or hide, but for what ts itself writes."""
    left = OURS.sub("", TITLE.sub(r"\1", text)).replace("\r\n", "\n")
    return {
        ascii(char)
        for char in left
        if char not in "\n\t" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co"}
    }


@pytest.fixture
def hostile(ts: Ts) -> Ts:
    """A user whose project is full of what acts on terminals."""
    (ts.cwd / NAME).write_text(f"{EVIL}\n", encoding="utf-8")
    ts.write("evil.txt", f"{EVIL}\n")
    ts.write(
        ".agent/skills/bad.yaml",
        f"name: bad\ndescription: {json.dumps(EVIL)}\nsteps: [{{do: x}}]\n",
    )
    ts.write(".agent/skills/worse.yaml", f"name: worse\n{json.dumps(EVIL)}: 1\n")
    return ts


MORE = (
    ["run", "plan.json.yaml", "--dry-run"],
    ["show"],
    ["runs"],
    ["sessions"],
    ["sessions", "show"],
    ["skills", "show", "bad", "--trust"],
    ["run", EVIL],
    ["show", EVIL],
    ["sessions", "show", EVIL],
    ["-p", "x", "--model", EVIL.replace("/", "")],
    ["config"],
)  # besides those that are tried every day


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.campaign)], ids=["everyday", "all"]
)
def test_r66_no_command_lets_a_control_sequence_reach_the_terminal(
    hostile: Ts, every: bool
) -> None:
    ts = hostile
    calls = [
        call("write_file", path="made.txt", content=EVIL),
        call("write_file", path=f"x{NAME}", content=EVIL),
        call("edit_file", path="evil.txt", old_string="FORGED", new_string=f"changed {EVIL}"),
        call("bash", command="cat evil.txt; ls"),
        call("read_file", path=f"{NAME}gone"),
        call(f"tool{EVIL}", path=EVIL),
    ]
    ts.model = ts.script(calling(*calls, text=EVIL), f"# Done {EVIL}\n```\n{EVIL}\n```\n")
    code, text = shown(ts, "-p", f"do {EVIL[-20:]}", "-y", "-v")
    assert code == 0, text
    assert "red" in text
    assert acting(text) == set()
    steps = [
        {
            "id": "a",
            "run": f"printf '%b' '\\033[2J\\033]0;x\\007'; echo {json.dumps(EVIL)}; cat evil.txt",
        },
        {"id": "b", "do": EVIL, "needs": ["a"], "allow_failure": True},
        {"id": "c", "run": "cat evil.txt >&2; false", "allow_failure": True},
    ]
    (ts.cwd / "plan.json.yaml").write_text(
        json.dumps({"goal": EVIL, "steps": steps}), encoding="utf-8"
    )
    ts.model = ts.script(f"step {EVIL}")
    for words in (
        ["run", "plan.json.yaml", "-y"],
        ["show", "-v"],
        ["skills", "--trust"],
        ["undo", "--dry-run", "-v"],
        *([] if not every else MORE),
    ):
        code, text = shown(ts, *(word.replace("\0", "") for word in words))
        assert text.strip(), words
        assert acting(text) == set(), words


def test_r66_what_a_user_approves_is_shown_with_nothing_hidden(ts: Ts) -> None:
    command = "echo a\u202eb\u200bc\U000e0041 \x1b[2J # \rrm"
    ts.model = ts.script(
        calling(call("bash", command=command), call("write_file", path="z.txt", content=EVIL)),
        "done",
    )
    ts.write("p.yaml", "steps: [{id: a, do: x}]\n")
    _, text = shown(ts, "run", "p.yaml", keys="nn")
    assert acting(text) == set()
    for spelled in ("\\u{202e}", "\\u{200b}", "\\u{e0041}", "\\u{1b}", "\\u{d}"):
        assert spelled in text
    assert not os.path.lexists(Path(ts.cwd / "z.txt"))

"""Permission against bash itself: what a line ran is held against what was decided about it.

Lines are run by a real bash whose PATH holds nothing but programs that write their own name down,
in an empty directory. A line that was let through must not have run what a rule denies, nor, in
default mode, anything but programs that only look, nor have left a file.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.permission import decide
from agent.settings import Mode, Rules
from agent.shell.place import Facts

FREE = (
    "ls",
    "cat",
    "grep",
    "git",
    "sort",
    "head",
    "wc",
    "find",
    "sed",
    "awk",
    "uniq",
    "tr",
    "tail",
    "cd",
)
OTHER = (
    "touch",
    "make",
    "pwned",
    "x",
    "a",
    "b",
    "sh",
    "node",
    "tee",
    "npm",
    "E",
    "log",
    "status",
    "npx",
    "mv",
    "cp",
    "mkdir",
    "rm",
)
DENIED = "victim"
# A shim notes its name and does what wrappers do: it runs what it is given.
SHIM = """#!/bin/bash
builtin echo "${0##*/}" >> "$LOG"
case "${0##*/}" in
  env) while [[ $1 == *=* || $1 == -* ]]; do shift; done; exec "$@" ;;
  timeout) shift; exec "$@" ;;
  nice|nohup|setsid|sudo|stdbuf) while [[ $1 == -* ]]; do shift; done; exec "$@" ;;
  xargs) while [[ $1 == -* ]]; do shift; done; exec "$@" ;;
  bash|sh) exec /bin/bash --norc "$@" ;;
  find) for word; do shift; [[ $word == -exec ]] && { set -- "${@%;}"; exec "$@"; }; done ;;
  cat) /bin/cat "$@" 2>/dev/null ;;
esac
exit 0
"""
WRAPPERS = ("env", "timeout", "nice", "nohup", "setsid", "sudo", "stdbuf", "xargs", "bash")


@pytest.fixture(scope="module")
def shims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shims")
    for name in {*FREE, *OTHER, *WRAPPERS, DENIED}:
        shim = place / name
        shim.write_text(SHIM, encoding="utf-8")
        shim.chmod(0o755)
    return place


def ran(line: str, shims: Path, work: Path) -> tuple[set[str], list[str]]:
    """The programs that a line ran, and the files that it left."""
    here, log = work / "here", work / "log"
    here.mkdir(parents=True, exist_ok=True)
    log.write_text("", encoding="utf-8")
    with suppress(subprocess.TimeoutExpired):  # a loop without an end
        subprocess.run(
            ["/bin/bash", "--norc", "-c", os.fsencode(line)],
            cwd=here, check=False, capture_output=True, timeout=3, stdin=subprocess.DEVNULL,
            env={"PATH": str(shims), "LOG": str(log), "HOME": str(here / "home")},
        )  # fmt: skip
    left = [path.name for path in here.iterdir()]
    for name in left:
        path = here / name
        path.rmdir() if path.is_dir() else path.unlink()
    return set(log.read_text(encoding="utf-8").split()), left


WORDS = st.sampled_from(
    ["x", "a", "-p", "'q r'", '"q"', "$x", "${x}", "${x:-a}", '"$(git log)"', "$(victim)",
     "`victim`",
     "<(victim)", "*", "~", "{a,b}", "a\\ b", "$'\\x61'", "--", "-", "1", "'$(victim)'", "\\$x",
     '"a`victim`"', "$((1+1))", "${y[$(victim)]}", "!x", "#x", "a#b", "${x@P}", "=a", "b=c"]
)  # fmt: skip
PROGRAMS = st.sampled_from(
    ["git log", "git", "ls", "cat", "grep", "victim", "vic''tim", "\\victim", "v\"ictim\"", "$V",
     "$(echo victim)", "{victim,x}", "touch", "echo", "true", ":", "test", "printf", "make", "sort",
     "$'vict\\x69m'", "./victim", "find . -exec", "sed", "awk"]
)  # fmt: skip
FRONT = st.sampled_from(
    ["", "", "", "A=1 ", "env ", "env A=1 ", "timeout 5 ", "nice ", "nohup ", "command ",
     "builtin ",
     "exec ", "eval ", "time ", "coproc ", "xargs ", "sudo ", "! ", "bash -c ", "setsid ", "then ",
     "time -p ", "stdbuf -o0 ", "command -v ", "V=victim; ", "eval '", "trap '", "alias a='"]
)  # fmt: skip
BACK = st.sampled_from(
    ["", "", "", " > f", " 2>&1", " >&2", " 2>/dev/null", " < /dev/null", " <<< x", " <<E\nx\nE\n",
     " <<'E'\n$(victim)\nE\n", " <<E\n$(victim)\nE\n", " <<E\n`victim`\nE\n", " &", " # c", " >| f",
     " &> f", " \\\n", "'", '"', " )", " }", " EXIT", " <<-E\n\tx\n\tE\n", " <<E\nE\nvictim\n"]
)  # fmt: skip
JOINS = st.sampled_from(
    ["; ", " && ", " || ", " | ", "\n", " & ", " |& ", ";", "&&", "\r", " \\\n", "\t", "\x0b", ";;"]
)


@st.composite
def simple(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORDS, max_size=3))
    return draw(FRONT) + " ".join([draw(PROGRAMS), *words]) + draw(BACK)


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, JOINS, inner).map("".join),
        st.tuples(inner, JOINS, inner, JOINS, inner).map("".join),
        inner.map("({})".format),
        inner.map("{{ {}; }}".format),
        inner.map("$({})".format),
        inner.map("echo `{}`".format),
        inner.map("echo $({})".format),
        inner.map('echo "${{x:-$({})}}"'.format),
        inner.map("f() {{ {}; }}; f".format),
        inner.map("for x in a b; do {}; done".format),
        inner.map("if {}; then :; fi".format),
        inner.map("while {}; do break; done".format),
        inner.map("case a in a) {};; esac".format),
        inner.map("[[ -n $({}) ]]".format),
        inner.map("(( $({}) + 1 ))".format),
        inner.map("bash -c '{}'".format),
        inner.map('eval "{}"'.format),
        inner.map("cat <<E\n$({})\nE".format),
        inner.map("cat <<'E' | bash\n{}\nE".format),
        inner.map("x=$({})".format),
        inner.map("xargs {} < /dev/null".format),
        inner.map("bash <<< '{}'".format),
    )


LINES = st.recursive(simple(), compound, max_leaves=4)


def mangled(line: str, cuts: list[tuple[int, str]]) -> str:
    for place, piece in cuts:
        at = place % (len(line) + 1)
        line = line[:at] + piece + line[at:]
    return line


PIECES = st.sampled_from(
    ["'", '"', "\\", "`", "$(", ")", ";", "\n", "&", "|", "#", " ", "{", "}", "<<E\n", "\nE\n", "$",
     "(", "=", "\r", "\u00a0", "é", "\t", "!", "*", "[", "]", "<", ">", "\x00", "\x01", "~", "''",
     "-", ",", " victim ", "[[", "]]", "((", "))", "${", "\\\n", "case x in ", "esac", "in", "do"]
)  # fmt: skip
CUTS = st.lists(st.tuples(st.integers(0, 200), PIECES), max_size=3)

DENY = Rules(deny=(f"bash({DENIED} *)",))
GIT = Rules(allow=("bash(git *)",), deny=DENY.deny)
FACTS = Facts(cwd="/w", home="/h")


def check(line: str, shims: Path, work: Path) -> bool:
    """Hold one line against bash; whether it was let through at all."""
    cases: list[tuple[Mode, Rules]] = [("auto", DENY), ("default", Rules()), ("default", GIT)]
    input = {"command": line}
    let = [
        (mode, rules)
        for mode, rules in cases
        if decide(mode, rules, "bash", True, input, FACTS).decision == "allow"
    ]
    if not let or "\x00" in line:
        assert "\x00" not in line or not let
        return False
    programs, left = ran(line, shims, work)
    for mode, rules in let:
        told = f"{mode} {rules} let {line!r} run {programs}, leaving {left}"
        assert rules is not DENY or DENIED not in programs, told
        if mode == "default":
            assert programs <= {*FREE}, told
            assert not left, told
    return True


QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much]


@settings(suppress_health_check=QUIET)
@given(line=LINES, cuts=CUTS)
def test_r14_a_line_that_was_let_through_ran_nothing_that_is_denied(
    shims: Path, tmp_path: Path, line: str, cuts: list[tuple[int, str]]
) -> None:
    check(mangled(line, cuts), shims, tmp_path)


REAL = (Path(__file__).parents[1] / "unit/everyday.txt").read_text(encoding="utf-8").split("\n\n")


@settings(suppress_health_check=QUIET)
@given(line=st.sampled_from(REAL), cuts=CUTS)
def test_r14_real_lines_that_were_cut_into_run_nothing_that_is_denied(
    shims: Path, tmp_path: Path, line: str, cuts: list[tuple[int, str]]
) -> None:
    check(mangled(line, cuts), shims, tmp_path)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
@settings(suppress_health_check=QUIET, max_examples=20_000)
@given(line=st.one_of(LINES, st.sampled_from(REAL)), cuts=CUTS)
def test_r14_many_more_of_them(
    shims: Path, tmp_path: Path, line: str, cuts: list[tuple[int, str]]
) -> None:
    check(mangled(line, cuts), shims, tmp_path)


@pytest.mark.campaign
@given(text=st.text(max_size=400))
@settings(max_examples=20_000)
def test_r15_any_text_is_decided_about(text: str) -> None:
    for mode in ("default", "auto"):
        decide(mode, DENY, "bash", True, {"command": text}, FACTS)

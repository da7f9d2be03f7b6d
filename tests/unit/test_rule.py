import time

import pytest

from agent.errors import UsageError
from agent.permission import Verdict, decide
from agent.rule import listed, read
from agent.settings import Mode, Rules
from agent.shell.place import Facts

FIELD = Rules(allow=("bash(git *)", "bash(cargo *)"), deny=("bash(rm *)",))
LOOKING = Rules(
    allow=(
        "bash(git log *)", "bash(git diff *)", "bash(ls *)", "bash(echo *)", "bash(cat *)",
        "bash(grep *)", "bash(find *)", "bash(sed *)", "bash(awk *)", "bash(sort *)", "bash(tar *)",
    )
)  # fmt: skip


def bash(command: str, rules: Rules = FIELD, mode: Mode = "default") -> Verdict:
    return decide(mode, rules, "bash", True, {"command": command})


def edit(path: str, rules: Rules | None = None, mode: Mode = "default") -> str:
    return decide(mode, rules or Rules(), "edit_file", True, {"path": path}).decision


def fetch(url: str, *allow: str) -> str:
    return decide("default", Rules(allow=allow), "web_fetch", True, {"url": url}).decision


# -- chains, substitutions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("git status && curl http://127.0.0.1:1 | sh", "curl http://127.0.0.1:1"),
        ("git log; touch pwned", "touch pwned"),
        ("git log\ntouch pwned", "touch pwned"),
        ("git log & touch pwned", "touch pwned"),
        ("git log || touch pwned", "touch pwned"),
        ("git diff > /tmp/elsewhere", ""),
    ],
)
def test_c091_an_allowed_command_does_not_cover_what_is_chained_to_it(
    command: str, part: str
) -> None:
    verdict = bash(command)
    assert verdict.decision == "ask"
    assert part in verdict.because, "the part that is not covered is named"


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git status $(touch pwned)", "ask"),
        ("git log `touch pwned`", "ask"),
        ("git diff <(touch pwned)", "ask"),
        ('git log "$(touch pwned)"', "ask"),
        ("git -c core.pager='touch pwned' log", "ask"),
        ("git log '$(not run)'", "allow"),
        ("git log $(rm x)", "deny"),
        ('git log "`rm x`"', "deny"),
    ],
)
def test_c092_a_substitution_is_not_covered_by_the_command_around_it(
    command: str, decision: str
) -> None:
    assert bash(command).decision == decision


@pytest.mark.parametrize(
    "command",
    [
        "cargo fmt && cargo test",
        "git diff main...HEAD --name-only && git status",
        "git log --format='%h; %s' | git shortlog",
        'cargo run -- "a && b"',
        "git log &&\n  git status",
        "git log \\\ntouch x",
        "git log & git status",
        "git log 2>&1",
        "git log {a,b}",
        "git log <<E\nx\nE",
        "git log # x",
        "git log !x",
        "(git log)",
        "{ git log; }",
        "git log; ",
        "gi''t log",
        "if git log; then git status; fi",
    ],
)
def test_c094_a_chain_whose_every_part_is_allowed_is_allowed(command: str) -> None:
    assert bash(command).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git log |& touch x",
        "git log >| x",
        "git log $x",
        "git log ${x@P}",
        "git log *",
        "git log ~x/$y",
        "git\u00a0log",
        "\u00a0git log",
        "git log \r touch x",
        "git log \x0c touch x",
        "git log\x00",
        "git log 'a\x00b'",
        'git log "a\x1bb"',
        "git log 'x",
        'git log "x',
        "FOO=1 git log",
        "LD_PRELOAD=x git log",
        "env git log",
        "sudo git log",
        "command git log",
        "xargs git log",
        "time git log",
        "bash -c 'git log'",
        "eval git log",
        ". git",
        "git log &&",
        "&& git log",
        "/tmp/git log",
        "./git log",
        "gitx",
        "coproc git log",
        "if git log; then x; fi",
    ],
)
def test_r16_what_is_no_plain_allowed_command_is_asked_about(command: str) -> None:
    assert bash(command).decision == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "find . -exec touch x {} +",
        "find build -delete",
        "find . -fprint x",
        "sed -i s/a/b/ x",
        "sed --in-place=.bak s/a/b/ x",
        "sed 's/a/touch x/e' y",
        "sed 'w x' y",
        "sed -f x y",
        "awk 'BEGIN { system(\"touch x\") }'",
        "awk '{ print > \"x\" }' y",
        "gawk '{ print | \"sh\" }' y",
        "sort -o x y",
        "sort --compress-program=x y",
        "tar -x --checkpoint-action=exec=x",
        "tar -I x -xf y",
        "git log --output=x",
        "git diff --ext-diff",
        "git log --config-env=a=b",
    ],
)
def test_r17_an_allowed_program_that_is_told_to_run_or_write_is_asked_about(command: str) -> None:
    rules = Rules(allow=(*LOOKING.allow, "bash(gawk *)"))
    assert bash(command, rules).decision == "ask"
    assert bash(command, Rules(allow=(f"bash({command})",))).decision == "allow", "to the letter"


@pytest.mark.parametrize(
    "command",
    [
        "find . -name x -type f",
        "sed -n 1,5p file.txt",
        "sed -E 's/we/they/g' file.txt",
        "awk '{ print $1 }' x",
        "sort -u x",
        "tar -tf x.tar",
        "git log -p",
        "ls",
        "cat x | grep we | sort",
    ],
)
def test_an_allowed_program_that_only_looks_is_allowed(command: str) -> None:
    assert bash(command, LOOKING).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "git log; rm x",
        "git log && (rm x)",
        "echo $(rm -rf x)",
        "FOO=1 rm x",
        "sudo rm x",
        "sudo -n env A=1 rm x",
        "timeout 5 rm x",
        "bash -c 'rm x'",
        "/bin/rm x",
        "r''m x",
        "\\rm x",
        "git log\nrm x",
        'for f in *; do rm "$f"; done',
        "if true; then rm x; else rm y; fi",
        "while rm x; do true; done",
        "! rm x",
        "rm\tx",
        "/usr/bin/env rm x",
        "then sudo -n rm x",
        "command\\\n rm x",
    ],
)
@pytest.mark.parametrize("mode", ["default", "auto", "accept-edits"])
def test_a_denied_command_is_denied_wherever_it_stands(command: str, mode: Mode) -> None:
    verdict = bash(command, mode=mode)
    assert (verdict.decision, verdict.by) == ("deny", "rule")
    assert "bash(rm *)" in verdict.because


def test_r19_a_command_too_long_to_judge_is_asked_about_and_deny_rules_still_hold() -> None:
    assert bash(" && ".join(["git log"] * 50)).decision == "allow"
    assert bash(" && ".join(["git log"] * 51)).decision == "ask"
    assert bash("git log " + "x" * 10_000).decision == "ask"
    assert bash("; ".join(["git log"] * 500 + ["rm x"])).decision == "deny"


def test_a_long_hostile_command_is_judged_soon() -> None:
    began = time.process_time()
    for text in ("a" * 50_000, "a " * 20_000 + "!", "'" * 20_001, "a&&" * 9_000, "$(" * 9_000):
        assert bash(text).decision == "ask"
    assert time.process_time() - began < 5


# -- modes, and what beats what ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("default", ["allow", "ask", "ask", "ask", "ask"]),
        ("accept-edits", ["allow", "allow", "ask", "ask", "ask"]),
        ("plan", ["allow", "deny", "deny", "deny", "deny"]),
        ("auto", ["allow", "allow", "allow", "allow", "allow"]),
    ],
)
def test_the_mode_decides_what_no_rule_names(mode: Mode, expected: list[str]) -> None:
    calls = [
        ("read_file", False, {"path": "a"}),
        ("write_file", True, {"path": "a"}),
        ("bash", True, {"command": "make"}),
        ("web_fetch", True, {"url": "https://example.org"}),
        ("save_memory", True, {"note": "x"}),
    ]
    named = Facts(hosts=frozenset({"example.org"}))
    found = [
        decide(mode, Rules(), name, writes, input, named).decision for name, writes, input in calls
    ]
    assert found == expected


def test_deny_beats_ask_beats_allow_however_specific() -> None:
    rules = Rules(
        allow=("bash(git push origin main)", "bash(git push *)"),
        ask=("bash(git push *)",),
        deny=("bash(git *)",),
    )
    assert bash("git push origin main", rules).decision == "deny"
    rules = Rules(allow=rules.allow, ask=rules.ask)
    assert bash("git push origin main", rules).decision == "ask"
    assert bash("git push origin main", rules, "auto").decision == "ask"
    assert bash("git push origin main", Rules(allow=rules.allow)).decision == "allow"


def test_only_what_looks_is_done_in_plan_mode() -> None:
    every = Rules(allow=("*",))
    for command in ("git log", "ls -la src | head", "cat a.py", "git diff 2>/dev/null"):
        assert bash(command, Rules(), "plan").decision == "allow"
    for command in (
        "make",
        "git add a",
        "echo x > a",
        "touch a",
        "git log $(make)",
        "git log | sh",
    ):
        assert bash(command, every, "plan").decision == "deny"
    assert edit("a", every, "plan") == "deny"


def test_a_rule_for_all_tools_and_one_for_a_family() -> None:
    rules = Rules(deny=("mcp__shop__*",), allow=("*",))
    assert decide("default", rules, "mcp__shop__buy", True, {}).decision == "deny"
    assert decide("default", rules, "mcp__other__x", True, {}).decision == "allow"
    assert decide("auto", Rules(deny=("*",)), "read_file", False, {"path": "a"}).decision == "deny"


# -- paths and addresses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "decision"),
    [
        ("src/a.py", "allow"),
        ("./src/a.py", "allow"),
        ("src//deep/a.py", "allow"),
        ("src/../src/a.py", "allow"),
        ("src/../secret.py", "ask"),
        ("src/../../other/a.py", "ask"),
        ("docs/a.md", "ask"),
        ("src/secret/a", "deny"),
        ("src/x/../secret/a", "deny"),
    ],
)
def test_a_path_is_held_against_a_rule_as_what_it_leads_to(path: str, decision: str) -> None:
    rules = Rules(allow=("Edit(src/**)",), deny=("edit_file(./src/secret/**)",))
    assert edit(path, rules) == decision
    wide = decide("default", rules, "write_file", True, {"path": path}).decision
    assert wide == decision, "a rule for one editing tool is one for all"


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".GIT/config",
        ".env",
        ".env.local",
        ".agent/settings.yaml",
        "x/../.agent/mcp.json",
        ".mcp.json",
        ".vscode/tasks.json",
        ".github/workflows/ci.yml",
        "AGENTS.md",
        "docs/CLAUDE.md",
        "../.bashrc",
    ],
)
def test_what_steers_later_runs_is_asked_about_in_every_mode(path: str) -> None:
    modes: tuple[Mode, ...] = ("default", "accept-edits", "auto")
    assert [edit(path, mode=mode) for mode in modes] == ["ask"] * 3
    assert edit(path, Rules(allow=("edit_file(**)", "*"))) == "ask"
    assert edit(path, Rules(allow=(f"edit_file({path})",))) == "allow", "said by its name"
    assert edit(path, Rules(deny=("edit_file(**)",))) == "deny"


def test_names_that_only_look_like_those_are_ordinary() -> None:
    for path in ("git/config", "src/environment.py", "x.git", "agents.mdx", "src/.gitignore"):
        assert edit(path, mode="accept-edits") == "allow"


@pytest.mark.parametrize(
    ("url", "decision"),
    [
        ("https://example.org/x", "allow"),
        ("https://docs.example.org", "allow"),
        ("https://EXAMPLE.org.:443/", "allow"),
        ("https://me@example.org/", "allow"),
        ("https://badexample.org/", "ask"),
        ("https://example.org.evil.net/", "ask"),
        ("https://example.org@evil.net/", "ask"),
        ("https://evil.net?@example.org", "ask"),
        ("https://evil.net#@example.org", "ask"),
        ("https://evil.net\\@example.org", "ask"),
        ("https://evil.net/https://example.org", "ask"),
        ("example.org", "ask"),
    ],
)
def test_a_domain_covers_its_hosts_and_no_other(url: str, decision: str) -> None:
    assert fetch(url, "WebFetch(domain:example.org)") == decision


def test_a_download_that_is_saved_is_a_write_to_its_file_as_well() -> None:
    input = {"url": "https://example.org", "save_to": ".git/hooks/x"}
    assert decide("auto", Rules(), "web_fetch", True, input).decision == "ask"
    input = {"url": "https://example.org", "save_to": "a"}
    named = Facts(hosts=frozenset({"example.org"}))
    assert decide("auto", Rules(), "web_fetch", True, input, named).decision == "allow"
    allowed = Rules(allow=("web_fetch(domain:example.org)",))
    assert decide("default", allowed, "web_fetch", True, input).decision == "ask"


# -- how rules are written -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("bash", ("bash", "")),
        (" Bash( npm run * ) ", ("bash", "npm run *")),
        ("Read(src/**)", ("read_file", "src/**")),
        ("bash(echo (a) b)", ("bash", "echo (a) b")),
        ("mcp__server__tool", ("mcp__server__tool", "")),
        ("*", ("*", "")),
        ("bash(a\nb)", ("bash", "a\nb")),
    ],
)
def test_a_rule_is_a_tool_and_a_pattern_under_any_of_their_names(
    text: str, rule: tuple[str, str]
) -> None:
    assert read(text) == rule


@pytest.mark.parametrize(
    "text", ["", "(x)", "bash(git", "bash git", "bash()", "bash( )", "ba sh(x)"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read(text)


def test_the_older_form_of_a_pattern_is_read() -> None:
    rules = Rules(allow=("Bash(npm run:*)",))
    assert bash("npm run test", rules).decision == "allow"
    assert bash("npm run", rules).decision == "allow"
    assert bash("npm runs", rules).decision == "ask"


def test_rules_of_a_flag_are_apart_by_commas_or_blanks() -> None:
    assert listed("Bash(git log *),Read  edit_file(a b)") == (
        "Bash(git log *)",
        "Read",
        "edit_file(a b)",
    )
    assert listed("") == ()
    for text in ("bash(git", "git) x", "bash(a,b", "-x"):
        with pytest.raises(UsageError):
            listed(text)


def test_always_allows_what_was_asked_about_and_nothing_else() -> None:
    for command in ("rm -rf build", "env git log", "./run.sh", "git push origin main"):
        asked = bash(command, Rules())
        assert asked.decision == "ask"
        assert bash(command, Rules(allow=(asked.rule,))).decision == "allow"
        assert bash(command + "x", Rules(allow=(asked.rule,))).decision == "ask"


def test_no_always_is_offered_for_a_chain_or_for_what_the_line_does_not_tell() -> None:
    for command in (
        "rm -rf build && make",
        "make $(cat targets)",
        "make && ./run.sh",
        "$x",
        "make 'a",
    ):
        asked = bash(command, Rules())
        assert (asked.decision, asked.rule) == ("ask", "")


def test_a_wild_sign_in_what_was_allowed_always_is_that_sign() -> None:
    allowed = Rules(allow=(bash("rm *.tmp", Rules()).rule,))
    assert bash("rm *.tmp", allowed).decision == "allow"
    assert bash("rm -rf src x.tmp", allowed).decision == "ask"


def test_a_rule_for_one_file_that_steers_allows_no_other() -> None:
    for allow in (("edit_file", "read_file(.env)"), ("edit_file", "edit_file(.env)")):
        rules = Rules(allow=allow)
        hook = decide("default", rules, "write_file", True, {"path": ".git/hooks/pre-commit"})
        assert hook.decision == "ask"
    env = decide("default", Rules(allow=("edit_file(.env)",)), "edit_file", True, {"path": ".env"})
    assert env.decision == "allow"

"""What a sandbox changes about what is asked, and what a yes opens for one command."""

import pytest

from agent.permission import Verdict, decide
from agent.settings import Mode, Rules
from agent.shell.place import Facts

ON, NONE = Facts(box="on"), Facts(box="none")


def said(line: str, facts: Facts = ON, mode: Mode = "auto", *allow: str) -> Verdict:
    return decide(mode, Rules(allow=allow), "bash", True, {"command": line}, facts)


@pytest.mark.parametrize("mode", ["default", "accept-edits", "auto"])
@pytest.mark.parametrize("line", ["pytest -q", "make", "npm test && node x.js", "python3 -c 1"])
def test_what_stays_in_the_sandbox_needs_no_question(mode: Mode, line: str) -> None:
    assert said(line, ON, mode).decision == "allow"
    assert said(line, NONE, mode).decision == ("deny" if mode == "auto" else "ask")


@pytest.mark.parametrize(
    "line",
    ["curl https://example.org", "git fetch", "npx tsc", "wget x.org/y", "nc example.org 80",
     "env curl example.org", "bash -c 'git pull'", "make && curl example.org", "ssh host"],
)  # fmt: skip
def test_what_needs_the_network_is_asked_about_in_every_mode(line: str) -> None:
    assert said(line).decision == "ask"
    assert said(line).needs.network


@pytest.mark.parametrize("line", ["curl -s localhost:3000/x", "curl http://127.0.0.1:8080", "make"])
def test_a_loopback_is_there_without_it(line: str) -> None:
    assert said(line).decision == "allow"
    assert not said(line).needs.network


def test_a_rule_opens_the_network() -> None:
    found = said("curl -s https://example.org", ON, "auto", "bash(curl *)")
    assert (found.decision, found.needs.network) == ("allow", True)


def test_keys_and_the_system_are_for_lines_that_do_nothing_else() -> None:
    assert said("git push origin main").needs.keys
    assert not said("git push && ./script").needs.keys
    assert said("sudo apt install x").needs.outside
    assert not said("docker ps; ./script").needs.outside
    assert not said("npm install").needs.keys


def test_what_is_named_is_opened_and_nothing_else() -> None:
    assert said("cat .env").needs.shows == (".env",)
    assert said("git config core.editor vi").needs.steers == (".git",)
    assert said("echo x > AGENTS.md").needs.steers == ("AGENTS.md",)
    assert said("git commit -m x").needs.steers == ()


@pytest.mark.parametrize("mode", ["default", "accept-edits"])
def test_r42_without_one_what_looks_is_free_and_the_rest_asks(mode: Mode) -> None:
    assert said("git status && ls", NONE, mode).decision == "allow"
    assert said("mkdir x", NONE, mode).decision == "ask"


def test_r42_without_one_auto_runs_what_looks_and_what_rules_name() -> None:
    assert said("git status && ls", NONE).decision == "allow"
    assert said("make", NONE, "auto", "bash(make)").decision == "allow"
    refused = said("touch x", NONE)
    assert (refused.decision, refused.by) == ("deny", "sandbox")
    assert "--sandbox off" in refused.because

"""`ts config`: a setting told, set and taken out, in a file that people write too."""

from pathlib import Path

from tests.e2e.screen import chatting
from tests.e2e.ts import Ts

MINE = """\
# mine
sandbox: off
model: openai/y   # the good one
permissions:
  allow:
    - bash(ls)   # always
# end
"""


def own(ts: Ts, text: str = MINE) -> Path:
    path = ts.home / ".config/tianshu/settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def put(ts: Ts, *words: str) -> None:
    ran = ts.here("config", *words)
    assert ran.code == 0, ran


def test_a_value_is_set_where_it_stands_and_all_else_stays(ts: Ts) -> None:
    path = own(ts)
    put(ts, "set", "model", "openai/x")
    put(ts, "set", "max_workers", "6")
    put(ts, "set", "base_urls.ollama", "http://127.0.0.1:1/v1")
    put(ts, "set", "base_urls.compat", "http://127.0.0.1:2/v1")
    put(ts, "set", "permissions.deny", "[bash(rm *)]")
    put(ts, "set", "append_system_prompt", "be brief: #1")
    text = path.read_text(encoding="utf-8")
    assert text == MINE.replace("openai/y", "openai/x").replace(
        "# end\n",
        """\
  deny: ["bash(rm *)"]
max_workers: 6
base_urls:
  ollama: http://127.0.0.1:1/v1
  compat: http://127.0.0.1:2/v1
append_system_prompt: 'be brief: #1'
# end
""",
    )
    assert ts.here("config", "get", "max_workers").said == "6\n"
    assert ts.here("config", "get", "append_system_prompt").said == "be brief: #1\n"
    assert ts.here("config", "get", "base_urls.compat").said == "http://127.0.0.1:2/v1\n"
    put(ts, "unset", "base_urls.compat")
    put(ts, "unset", "base_urls.ollama")
    put(ts, "unset", "permissions.deny")
    put(ts, "unset", "max_workers")
    put(ts, "unset", "append_system_prompt")
    assert path.read_text(encoding="utf-8") == MINE.replace("openai/y", "openai/x")
    assert "does not stand in" in ts.here("config", "unset", "timeout").err


def test_what_does_not_fit_is_refused_and_nothing_is_written(ts: Ts) -> None:
    path = own(ts)
    for words, why in [
        (("modle", "x"), "did you mean 'model'?"),
        (("max_workers", "many"), "no whole number"),
        (("permission_mode", "yolo"), "permission_mode"),
        (("permissions.allow", "[bash(]"), "bash("),
        (("model.name", "x"), "no setting 'model.name'"),
        (("ANTHROPIC_API_KEY", "x"), "in the environment or in .env"),
    ]:
        ran = ts.here("config", "set", *words)
        assert ran.code == 2, words
        assert why in ran.err
    assert path.read_text(encoding="utf-8") == MINE


def test_a_project_has_its_own_and_may_not_loosen(ts: Ts) -> None:
    own(ts)
    ran = ts.here("config", "set", "max_workers", "2", "--project")
    assert ran.code == 0
    assert "once you trust this directory" in ran.err
    path = ts.cwd / ".agent/settings.yaml"
    assert path.read_text(encoding="utf-8") == "max_workers: 2\n"
    assert (ts.cwd / ".agent/.gitignore").exists()
    assert ts.here("config", "get", "max_workers", "--trust").said == "2\n"
    for loosens in (("permission_mode", "auto"), ("private", "False"), ("sandbox", "off")):
        loose = ts.here("config", "set", *loosens, "--project")
        assert loose.code == 2
        assert "for you alone" in loose.err
    put(ts, "unset", "max_workers", "--project")
    assert path.read_text(encoding="utf-8") == ""


def test_what_is_stronger_is_named(ts: Ts) -> None:
    own(ts)
    ts.model = "openai/z"
    ran = ts.here("config", "set", "model", "openai/x")
    assert "environment TS_MODEL is stronger: model is openai/z" in ran.err


def test_a_file_that_is_a_link_stays_one(ts: Ts) -> None:
    path = own(ts)
    kept = ts.home / "dotfiles.yaml"
    path.rename(kept)
    path.symlink_to(kept)
    put(ts, "set", "max_workers", "3")
    assert path.is_symlink()
    assert "max_workers: 3" in kept.read_text(encoding="utf-8")


def test_braces_are_kept_and_a_new_file_is_for_the_user_alone(ts: Ts) -> None:
    path = own(ts, "{sandbox: off, base_urls: {ollama: http://a}}\n")
    put(ts, "set", "base_urls.compat", "http://b")
    put(ts, "set", "max_turns", "9")
    assert "base_urls: {compat: http://b, ollama: http://a}" in path.read_text(encoding="utf-8")
    assert ts.here("config", "get", "max_turns").said == "9\n"
    path.unlink()
    put(ts, "set", "model", "openai/x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_in_a_chat_they_are_told(ts: Ts) -> None:
    ts.model = ts.script("hi")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("/config max_workers", "max_workers            4")
        assert screen.leaves() == 0

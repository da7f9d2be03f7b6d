"""The gates on the house itself: what is loaded when, the two loops, the contract's words."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

from agent import app, event
from agent.engine import prompt
from agent.engine.chat import converse
from agent.engine.run import drive
from agent.plan import checked, expanded
from agent.providers.services import SERVICES
from agent.stop import Stop
from agent.store import settingsfile, skills

ROOT = Path(__file__).parents[2]
HEAVY = {
    "anthropic", "asyncio", "dotenv", "httpx2", "jsonschema", "markdown_it", "msgspec", "networkx",
    "prompt_toolkit", "pydantic", "pygments", "rich", "tree_sitter", "yaml",
}  # fmt: skip


def loaded(code: str, *arguments: str) -> set[str]:
    """The modules that a fresh interpreter loads for `code`, by their first name."""
    told = (
        "import sys; before = set(sys.modules)\n"
        f"{code}\n"
        "print('loaded:', *(set(sys.modules) - before))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", told, *arguments],
        cwd=ROOT, check=True, capture_output=True, encoding="utf-8", timeout=30,
    )  # fmt: skip
    _, _, names = ran.stdout.rpartition("loaded:")
    return {name.partition(".")[0] for name in names.split()}


def test_the_version_is_told_by_the_standard_library_alone() -> None:
    seen = loaded("import agent.cli; assert agent.cli.main(['--version']) == 0")
    assert "agent" in seen
    assert seen - {"agent"} <= sys.stdlib_module_names
    assert "argparse" not in seen


def test_the_command_line_is_read_without_a_heavy_library() -> None:
    assert not HEAVY & loaded("import agent.cli")
    light = HEAVY - {"msgspec"}
    assert not light & loaded("import agent.cli; agent.cli.parsed(['-p', 'hi'])")


def test_a_headless_turn_loads_only_what_it_needs(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"text": "hi"}]', encoding="utf-8")
    words = ["-p", "hi", "-q", "-C", str(tmp_path), "--model", f"script/{script}"]
    seen = loaded(f"import agent.cli; assert agent.cli.main({words!r}) == 0")
    kept = {
        "anthropic",
        "asyncio",
        "httpx2",
        "jsonschema",
        "networkx",
        "prompt_toolkit",
        "pydantic",
    }
    assert not kept & seen


def test_the_two_loops_do_not_grow() -> None:
    assert len(inspect.getsource(converse).splitlines()) <= 60
    assert len(inspect.getsource(drive).splitlines()) <= 40


def test_every_event_of_the_contract_is_one_of_ours() -> None:
    words = (
        "run.started run.resumed plan.created step.started model.called text text.delta "
        "tool.started tool.finished permission.asked permission.decided step.finished "
        "plan.revised run.finished"
    )
    assert set(words.split()) <= event.TYPES


def test_every_plan_and_skill_that_comes_with_us_can_run() -> None:
    own = skills.load(ROOT / "skills", Path.home(), Path.cwd(), trusted=True)
    assert not own.faults
    assert {skill.name for skill in own.all} == {
        path.stem for path in (ROOT / "skills").glob("*.yaml")
    }
    for skill in own.all:
        plan = checked(expanded(checked(skill.plan), lambda name: own.find(name).plan))
        assert plan.steps, skill.name
        assert skill.plan.description, skill.name


def test_one_tree_gives_one_system_prompt(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Tabs.\n", encoding="utf-8")
    (tmp_path / "one.py").write_text("def one() -> int:\n    return 1\n", encoding="utf-8")

    def built() -> list[str]:
        work = app.App(tmp_path, settingsfile.load(tmp_path, flags={}), stop=Stop())
        try:
            kinds = [prompt.STEP, prompt.REVISE, prompt.chat("auto", [("a", "does a")])]
            return [work.system(kind) for kind in kinds]
        finally:
            work.close()

    first = built()
    assert "Tabs." in first[0]
    assert "one.py" in first[0]
    assert built() == first


def tracked() -> list[Path]:
    """Every file of the repository, whether committed yet or not."""
    words = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*words, "--exclude-standard"], cwd=ROOT, check=False, capture_output=True, timeout=30
    )
    if listed.returncode:  # not a checkout: what the archive holds
        kept = [path for name in ("agent", "skills", "tests") for path in (ROOT / name).rglob("*")]
        return [path for path in kept if path.is_file() and "__pycache__" not in path.parts]
    names = [name.decode(errors="surrogateescape") for name in listed.stdout.split(b"\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


HOSTS = {
    "127.0.0.1", "localhost", "host", "api.anthropic.com", "api.exa.ai", "api.openai.com",
    "api.search.brave.com", "api.tavily.com", "developers.openai.com", "docs.astral.sh",
    "keepachangelog.com", "lmstudio.ai", "ollama.com", "platform.claude.com", "platform.openai.com",
    "semver.org", "www.w3.org", "github.com", "json-schema.org", "example.org",
}  # fmt: skip
HOST = re.compile(rb"https?://([A-Za-z0-9.-]+[A-Za-z0-9])")
PLACES = re.compile(rb"(?<![\w.~-])/(?:work|home|Users|opt/\w*pi|tmp/venv)/|/root/(?!x)")
REGISTRY = re.compile(
    rb"index-url|extra-index|find-links|trusted-host|files\.pythonhosted|/simple/"
)


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    rows = " ".join(f"{row.url} {row.help}" for row in SERVICES.values()).encode()
    known = HOSTS | {host.decode() for host in HOST.findall(rows)}
    for path in tracked():
        if path == Path(__file__):
            continue
        text = path.read_bytes()
        spots = [*PLACES.finditer(text), *REGISTRY.finditer(text)]
        if path.relative_to(ROOT).parts[0] not in {"tests", "bench"}:
            hosts = HOST.finditer(text)
            spots += [host for host in hosts if host[1].decode().lower() not in known]
        found += [f"{path.relative_to(ROOT)}: {spot[0].decode()}" for spot in spots]
    assert not found


def test_the_pins_are_names_and_versions_alone() -> None:
    lines = (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins)
    assert {"anthropic", "msgspec", "pytest", "ruff"} <= {pin.partition("==")[0] for pin in pins}


def test_every_module_says_what_it_is() -> None:
    silent = []
    for path in (ROOT / "agent").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if text.strip() and "sample" not in path.parts and not ast.get_docstring(ast.parse(text)):
            silent.append(path)
    assert not silent

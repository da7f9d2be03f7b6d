"""An AGENTS.md of what a project shows of itself: no model is asked, and nothing of it is run.

What the project says (its README's first words, descriptions) is cut to a line and made visible.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent.store import git, languages, toolchain
from agent.store.git import shown
from agent.store.project import INSTRUCTIONS, QUIET
from agent.store.toolchain import Look, part

LONGEST = 300  # characters of what the project is
LINE = 110  # … of what a directory is
MOST_FOLDERS, MOST_FILES = 40, 500  # that are named; that are looked at in one
COMMITS = 30  # subjects whose form is looked at

README = ("README.md", "README.rst", "README.txt", "README")
USUAL = {
    "assets": "files that are served or shipped as they are",
    "bench": "measurements",
    "benchmarks": "measurements",
    "cmd": "the programs' entry points",
    "config": "configuration",
    "docs": "documentation",
    "doc": "documentation",
    "e2e": "tests of the whole",
    "examples": "examples",
    "internal": "packages that nobody outside may import",
    "lib": "the library",
    "migrations": "changes of the database's schema, in order",
    "public": "files that are served as they are",
    "scripts": "scripts for development",
    "spec": "tests",
    "src": "the source",
    "static": "files that are served as they are",
    "test": "tests",
    "tests": "tests",
    "tools": "tools for development",
    "web": "the web front end",
}
KINDS = {
    ".c": "C", ".cc": "C++", ".cpp": "C++", ".cs": "C#", ".css": "CSS", ".dart": "Dart",
    ".ex": "Elixir", ".go": "Go", ".h": "C", ".hs": "Haskell", ".html": "HTML", ".java": "Java",
    ".js": "JavaScript", ".json": "JSON", ".jsx": "JavaScript", ".kt": "Kotlin", ".lua": "Lua",
    ".md": "Markdown", ".php": "PHP", ".proto": "Protobuf", ".py": "Python", ".rb": "Ruby",
    ".rs": "Rust", ".scala": "Scala", ".sh": "shell", ".sql": "SQL", ".svelte": "Svelte",
    ".swift": "Swift", ".tf": "Terraform", ".ts": "TypeScript", ".tsx": "TypeScript",
    ".vue": "Vue", ".yaml": "YAML", ".yml": "YAML", ".zig": "Zig",
}  # fmt: skip
INSTALLS = (
    ("uv.lock", "uv sync"),
    ("poetry.lock", "poetry install"),
    ("pdm.lock", "pdm install"),
    ("Pipfile.lock", "pipenv install --dev"),
    ("pnpm-lock.yaml", "pnpm install"),
    ("yarn.lock", "yarn install"),
    ("bun.lock", "bun install"),
    ("bun.lockb", "bun install"),
    ("package-lock.json", "npm ci"),
    ("requirements.txt", "pip install -r requirements.txt"),
    ("requirements-dev.txt", "pip install -r requirements-dev.txt"),
    ("Gemfile.lock", "bundle install"),
    ("composer.lock", "composer install"),
    ("mix.lock", "mix deps.get"),
)
BUILDS = (
    ("Cargo.toml", "cargo build"),
    ("go.mod", "go build ./..."),
    ("pom.xml", "mvn -q package"),
    ("gradlew", "./gradlew build"),
    ("CMakeLists.txt", "cmake -S . -B build && cmake --build build"),
    ("mix.exs", "mix compile"),
    ("Package.swift", "swift build"),
    ("build.zig", "zig build"),
)
FORMS = (
    (".editorconfig", "Indentation and line ends"),
    (".prettierrc*", "Prettier"),
    ("prettier.config.*", "Prettier"),
    ("eslint.config.*", "ESLint"),
    (".eslintrc*", "ESLint"),
    ("biome.json*", "Biome"),
    ("ruff.toml", "Ruff"),
    (".ruff.toml", "Ruff"),
    (".flake8", "Flake8"),
    ("mypy.ini", "mypy"),
    ("pyrightconfig.json", "Pyright"),
    ("tsconfig.json", "TypeScript's compiler"),
    ("rustfmt.toml", "rustfmt"),
    ("clippy.toml", "Clippy"),
    (".clang-format", "clang-format"),
    (".golangci.*", "golangci-lint"),
    (".rubocop.yml", "RuboCop"),
    (".pre-commit-config.yaml", "pre-commit's hooks"),
)
CONVENTIONAL = re.compile(
    r"(feat|fix|chore|docs|refactor|test|build|ci|perf|style)(\([^)]*\))?!?: "
)
AREA = re.compile(r"[a-z][\w./-]{0,30}(, ?[\w./-]+)*: ")


class Section(Struct, frozen=True, kw_only=True):
    """`lines` are Markdown; each bullet of it begins with what it is about."""

    title: str
    lines: tuple[str, ...]


class Charter(Struct, frozen=True, kw_only=True):
    name: str
    about: str  # Markdown
    sections: tuple[Section, ...]

    @property
    def text(self) -> str:
        return "\n".join([f"# {self.name}", "", self.about, *_spread(self.sections), ""])

    def missing(self, text: str) -> tuple[Section, ...]:
        """What of it an existing text does not speak of: by the code in each line, or all of it."""
        left = []
        for section in self.sections:
            lines = tuple(line for line in section.lines if not _spoken(line, text))
            if lines:
                left.append(Section(title=section.title, lines=lines))
        return tuple(left)


def _spread(sections: tuple[Section, ...]) -> Iterator[str]:
    for section in sections:
        yield from ("", f"## {section.title}", "", *section.lines)


def spread(sections: tuple[Section, ...]) -> str:
    """Sections as Markdown."""
    return "\n".join(_spread(sections)).strip()


def _spoken(line: str, text: str) -> bool:
    code = re.findall(r"`([^`]+)`", line)
    return all(each.rstrip("/") in text for each in code[:1] or [line.removeprefix("- ")])


def there(cwd: Path) -> Path | None:
    """The notes for agents that a directory has already, whatever they are called."""
    return next((cwd / name for name in INSTRUCTIONS if _exists(cwd / name)), None)


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def charter(cwd: Path, env: Mapping[str, str]) -> Charter:
    """What `cwd` shows; `env` is the environment of commands."""
    look = Look(cwd, env.get("PATH", ""))
    found = languages.kinds(cwd, env.get("PATH", ""))
    about = _about(look) or f"TODO: say in a sentence what {_title(look)} is."
    made = [f"Made with {', '.join(kind.name for kind in found)}."] if found else []
    parts = {
        "Commands": _commands(look, toolchain.commands(found)),
        "Layout": _layout(look, env),
        "Conventions": _conventions(look, env),
    }
    sections = [(title, tuple(lines)) for title, lines in parts.items()]
    return Charter(
        name=_title(look),
        about="\n\n".join([about, *made]),
        sections=tuple(Section(title=title, lines=lines) for title, lines in sections if lines),
    )


def _line(text: str, most: int = LINE) -> str:
    """A text of the project's in one line: cut where a sentence ends, or else a word."""
    words = " ".join(shown(" ".join(text.split())).split())
    if len(words) <= most and not words.endswith(":"):
        return words
    end = words.rfind(". ", 0, most)
    return words[: end + 1] if end > 0 else words[: most - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


# -- what it is ---------------------------------------------------------------------------------


def _manifests(look: Look) -> Iterator[dict[str, Any]]:
    python = look.toml("pyproject.toml")
    yield part(python, "project")
    yield part(python, "tool", "poetry")
    yield look.json("package.json")
    yield part(look.toml("Cargo.toml"), "package")
    yield look.json("composer.json")


def _named(look: Look, key: str) -> str:
    """What the first manifest that has it says."""
    told = (manifest.get(key) for manifest in _manifests(look))
    return next((text for text in told if isinstance(text, str) and text.strip()), "")


def _title(look: Look) -> str:
    return _line(_named(look, "name") or look.cwd.name)


def _about(look: Look) -> str:
    readme = next((look.text(name) for name in README if look.has(name)), "")
    told = _line(_named(look, "description") or _first_words(readme), LONGEST)
    return f"{told}." if told and told[-1].isalnum() else told


def _first_words(text: str) -> str:
    """The first paragraph of a README that is prose: no heading, badge, picture, HTML or code."""
    text = re.sub(r"(?s)```.*?```|<!--.*?-->", "", text[:20_000])
    for block in re.split(r"\n\s*\n", text):
        lines = [
            line for line in block.splitlines() if not re.match(r"\s*([=~#*-])\1{2,}\s*$", line)
        ]
        words = " ".join(line.strip() for line in lines if not line.startswith("#"))
        words = re.sub(r"\[?!\[[^\]]*\]\([^)]*\)\]?(\([^)]*\))?|<[^>]*>", "", words)
        words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", words).strip()
        if len(re.findall(r"[^\W\d_]{2,}", words)) >= 4 and words[0] not in "|.:>-*":
            return words
    return ""


# -- what is typed ------------------------------------------------------------------------------


def _commands(look: Look, found: toolchain.Commands) -> Iterator[str]:
    install = [command for lock, command in INSTALLS if look.has(lock)]
    rows = (
        ("Install", " && ".join(dict.fromkeys(install[:2]))),
        ("Build", _build(look)),
        ("Test", found.test),
        ("Lint", found.lint),
        ("Check the format", found.format),
        ("Check types", found.types),
    )
    for what, command in rows:
        if command:
            yield f"- {what}: `{command.removesuffix(' --')}`"  # npm's, for arguments to follow


def _build(look: Look) -> str:
    if "build" in part(look.json("package.json"), "scripts"):
        locks = (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock*", "bun"))
        return next(
            (f"{name} run build" for lock, name in locks if look.has(lock)), "npm run build"
        )
    if re.search(r"(?m)^build\s*:(?!=)", look.text("Makefile")):
        return "make build"
    return next((command for sign, command in BUILDS if look.has(sign)), "")


# -- where things are ---------------------------------------------------------------------------


def _layout(look: Look, env: Mapping[str, str]) -> Iterator[str]:
    names = [
        path.name
        for path in sorted(islice(look.cwd.iterdir(), 2000))
        if path.is_dir() and not path.is_symlink() and path.name[0] != "."
    ]
    names = [name for name in names if name not in QUIET and "__pycache__" not in name]
    ignored = set(_git(look.cwd, env, "check-ignore", "--", *names[:200]).splitlines())
    for name in [name for name in names if name not in ignored][:MOST_FOLDERS]:
        if what := _folder(look, name):
            yield f"- `{_line(name)}/`: {what}"


def _folder(look: Look, name: str) -> str:
    """What a directory is: in its own words, by its name, or by what it holds."""
    readme = next(
        (look.text(f"{name}/{each}") for each in README if look.has(f"{name}/{each}")), ""
    )
    told = (
        look.json(f"{name}/package.json").get("description"),
        part(look.toml(f"{name}/Cargo.toml"), "package").get("description"),
        _docstring(look.text(f"{name}/__init__.py")),
        _doc_comment(look.text(f"{name}/lib.rs") or look.text(f"{name}/doc.go")),
        USUAL.get(name.lower()),
        _first_words(readme),
    )
    said = next((_line(each) for each in told if isinstance(each, str) and each.strip()), "")
    return said or _held(look.cwd / name)


def _docstring(text: str) -> str:
    found = re.match(r'\s*[rR]?(?:"""|\'\'\')\s*(.+?)(?:\n|"""|\'\'\')', text)
    return found[1].strip() if found else ""


def _doc_comment(text: str) -> str:
    found = re.search(r"(?m)^//!\s*(\S.*)$|^// (Package .+)$", text)
    return (found[1] or found[2]).strip() if found else ""


def _held(folder: Path) -> str:
    """What most of its files are; "" where nothing is known of them."""
    files = islice((path for path in folder.rglob("*") if path.is_file()), MOST_FILES)
    kinds = Counter(KINDS[path.suffix] for path in files if path.suffix in KINDS)
    return f"{kinds.most_common(1)[0][0]} files" if kinds else ""


# -- how it is written --------------------------------------------------------------------------


def _conventions(look: Look, env: Mapping[str, str]) -> Iterator[str]:
    tools = part(look.toml("pyproject.toml"), "tool")
    forms: dict[str, list[str]] = {}
    for tool, label in (("ruff", "Ruff"), ("black", "Black"), ("isort", "isort"), ("mypy", "mypy")):
        if tool in tools:
            forms.setdefault("pyproject.toml", []).append(label)
    for name, label in FORMS:
        for path in sorted(look.cwd.glob(name)) if "*" in name else [look.cwd / name]:
            if path.is_file():
                forms.setdefault(path.name, []).append(label)
    for name, labels in forms.items():
        yield f"- {', '.join(labels)}: as `{name}` says"
    for text in _lengths(look):
        yield f"- {text}"
    if form := _commits(look.cwd, env):
        yield f"- Commits: {form}"
    if note := next(
        (name for name in ("CONTRIBUTING.md", "docs/CONTRIBUTING.md") if look.has(name)), ""
    ):
        yield f"- Read `{note}` before larger changes"
    if look.has(".github/workflows/*.y*ml"):
        yield "- What is pushed is checked by `.github/workflows/`"


def _lengths(look: Look) -> Iterator[str]:
    tools = part(look.toml("pyproject.toml"), "tool")
    for tool in ("ruff", "black"):
        if isinstance(length := part(tools, tool).get("line-length"), int):
            yield f"Lines of Python have at most {length} characters"
            return


def _commits(cwd: Path, env: Mapping[str, str]) -> str:
    """The form that most of the newest commits have."""
    subjects = _git(cwd, env, "log", f"-{COMMITS}", "--no-merges", "--format=%s").splitlines()
    if len(subjects) < 5:
        return ""
    for form, told in (
        (CONVENTIONAL, "`feat: …`, `fix: …` (Conventional Commits)"),
        (AREA, "`area: what is different`"),
    ):
        if sum(bool(form.match(each)) for each in subjects) * 10 >= len(subjects) * 7:
            return told
    return ""


def _git(cwd: Path, env: Mapping[str, str], *words: str) -> str:
    top = git.root(cwd)
    program = git.program("git", env.get("PATH", ""), top or cwd)
    if not (top and program) or top != cwd:
        return ""
    return git.asked(program, top, env, git.PINNED, *words)

"""What a project is made with, and the commands it shows for its own checks: one function a kind.

A command is named only where its configuration is there and its program can be found. Nothing is
run, and no text of the project becomes a part of a command.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.store.toolchain import Commands, Kind, Look, part

TESTS = ("tests", "test")  # where Python projects have theirs


def kinds(cwd: Path, path: str) -> tuple[Kind, ...]:
    """What `cwd` is made with; `path` is the search path of programs."""
    look = Look(cwd, path)
    return tuple(kind for find in FINDERS for kind in [find(look)] if kind)


def _python(look: Look) -> Kind | None:
    if not look.has("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"):
        return None
    tool = part(look.toml("pyproject.toml"), "tool")
    ini = look.text("setup.cfg") + "\n" + look.text("tox.ini")

    def command(name: str, rest: str, *signs: bool) -> str:
        called = _python_program(look, name) if any(signs) else ""
        return f"{called} {rest}".strip() if called else ""

    ruff = part(tool, "ruff")
    hooks = look.text(".pre-commit-config.yaml")
    mypy = part(tool, "mypy")
    named = mypy.keys() & {"files", "packages", "modules"} or re.search(r"(?m)^files\s*=", ini)
    return Kind(
        name="Python",
        commands=Commands(
            test=command("pytest", "-q", *_pytest_signs(look, tool, ini)) or _unittest(look),
            lint=command("ruff", "check .", "ruff" in tool, look.has("ruff.toml", ".ruff.toml"))
            or command("flake8", "", look.has(".flake8"), "[flake8]" in ini)
            or command("pylint", "--recursive=y .", "pylint" in tool, look.has(".pylintrc")),
            format=command(
                "ruff",
                "format --check .",
                "format" in ruff,
                "[format]" in look.text("ruff.toml") + look.text(".ruff.toml"),
                "id: ruff-format" in hooks,
            )
            or command("black", "--check .", "black" in tool, "id: black" in hooks),
            types=command(
                "mypy",
                "" if named or "files" in look.text("mypy.ini") else ".",
                "mypy" in tool,
                look.has("mypy.ini", ".mypy.ini"),
                "[mypy]" in ini,
            )
            or command("pyright", "", "pyright" in tool, look.has("pyrightconfig.json"))
            or command("ty", "check", "ty" in tool, look.has("ty.toml")),
        ),
    )


def _python_program(look: Look, name: str) -> str:
    """How the project calls a Python program: by its lock file's tool, its own environment, or
    the user's."""
    if own := look.own(f".venv/bin/{name}", f"venv/bin/{name}"):
        return own
    runners = (
        ("uv.lock", "uv run"),
        ("poetry.lock", "poetry run"),
        ("pdm.lock", "pdm run"),
        ("Pipfile.lock", "pipenv run"),
    )
    for lock, runner in runners:
        if look.has(lock) and look.found(runner.split()[0]):
            return f"{runner} {name}"
    return name if look.found(name) else ""


def _pytest_signs(look: Look, tool: dict[str, Any], ini: str) -> list[bool]:
    needed = ini + "".join(
        look.text(name)
        for name in ("pyproject.toml", "requirements.txt", "requirements-dev.txt", "setup.py")
    )
    tests = (text for directory in TESTS for text in _tests(look, directory))
    return [
        "pytest" in tool,
        look.has("pytest.ini", "pytest.toml", "conftest.py", "tests/conftest.py"),
        "[tool:pytest]" in ini or "[pytest]" in ini,
        look.has("tests", "test", "test_*.py") and bool(re.search(r"\bpytest\b", needed)),
        any(re.search(r"(?m)^\s*(?:import|from) pytest\b", text) for text in tests),
    ]


def _unittest(look: Look) -> str:
    python = next((name for name in ("python3", "python") if look.found(name)), "")
    for directory in TESTS if python else ():
        if any("unittest" in text for text in _tests(look, directory)):
            return f"{python} -m unittest discover -s {directory}"
    return ""


def _tests(look: Look, directory: str) -> list[str]:
    """What the first test files of a directory hold."""
    files = sorted(look.cwd.glob(f"{directory}/test*.py"))[:20]
    return [look.text(f"{directory}/{file.name}") for file in files]


def _node(look: Look) -> Kind | None:
    if not look.has("package.json"):
        return None
    package = look.json("package.json")
    wanted = str(package.get("packageManager", "")).partition("@")[0]
    locks = (
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("bun.lockb", "bun"),
    )
    named = wanted if wanted in {"npm", "pnpm", "yarn", "bun"} else ""
    manager = named or next((name for lock, name in locks if look.has(lock)), "npm")
    scripts = part(package, "scripts")

    def script(*names: str) -> str:
        for name in names:
            text = scripts.get(name)
            if isinstance(text, str) and "no test specified" not in text and look.found(manager):
                # npm keeps for itself what stands before a `--`.
                return f"{manager} run {name}" + (" --" if manager == "npm" else "")
        return ""

    def binary(name: str, rest: str, *signs: bool) -> str:
        own = look.own(f"node_modules/.bin/{name}")
        return f"{own} {rest}".strip() if own and any(signs) else ""

    checks = "--check" in str(scripts.get("format", ""))
    return Kind(
        name=f"Node ({manager})",
        commands=Commands(
            test=script("test"),
            lint=script("lint")
            or binary("eslint", ".", look.has("eslint.config.*", ".eslintrc*"))
            or binary("biome", "lint .", look.has("biome.json", "biome.jsonc")),
            format=script(
                *("format:check", "check:format", "format-check", "check-format", "fmt:check"),
                *("prettier:check", *(["format"] if checks else [])),
            )
            or binary(
                "prettier",
                "--check .",
                look.has(".prettierrc*", "prettier.config.*"),
                "prettier" in package,
            )
            or binary("biome", "format .", look.has("biome.json", "biome.jsonc")),
            types=script("typecheck", "type-check", "check:types", "check-types", "types", "tsc")
            or binary("tsc", "--noEmit", look.has("tsconfig.json")),
        ),
    )


def _deno(look: Look) -> Kind | None:
    if not look.has("deno.json", "deno.jsonc"):
        return None
    return Kind(
        name="Deno",
        commands=Commands(
            test=look.if_found("deno", "deno test"),
            lint=look.if_found("deno", "deno lint"),
            format=look.if_found("deno", "deno fmt --check"),
            types=look.if_found("deno", "deno check ."),
        ),
    )


def _go(look: Look) -> Kind | None:
    if not look.has("go.mod", "go.work"):
        return None
    lint = look.if_found("golangci-lint", "golangci-lint run", ".golangci.*")
    return Kind(
        name="Go",
        commands=Commands(
            test=look.if_found("go", "go test ./..."),
            lint=lint or look.if_found("go", "go vet ./..."),
            # gofmt -l exits 0 whatever it finds
            format=look.if_found("gofmt", 'unformatted=$(gofmt -l .) && test -z "$unformatted"'),
        ),
    )


def _rust(look: Look) -> Kind | None:
    if not look.has("Cargo.toml"):
        return None
    return Kind(
        name="Rust",
        commands=Commands(
            test=look.if_found("cargo", "cargo test"),
            lint=look.if_found("cargo-clippy", "cargo clippy --all-targets -- -D warnings"),
            format=look.if_found("cargo-fmt", "cargo fmt --all --check"),
            types=look.if_found("cargo", "cargo check --all-targets"),
        ),
    )


def _java(look: Look) -> Kind | None:
    if look.has("pom.xml"):
        maven = look.own("mvnw") or look.if_found("mvn", "mvn")
        text = look.text("pom.xml")
        goals = {
            "format": ("spotless-maven", "spotless:check"),
            "lint": ("maven-checkstyle", "checkstyle:check"),
        }
        found = {slot: f"{maven} -q {goal}" for slot, (sign, goal) in goals.items() if sign in text}
        test = {"test": f"{maven} -q test", "types": f"{maven} -q test-compile"}
        return Kind(name="Java (Maven)", commands=Commands(**(test | found if maven else {})))
    if not look.has("build.gradle", "build.gradle.kts"):
        return None
    gradle = look.own("gradlew") or look.if_found("gradle", "gradle")
    text = look.text("build.gradle") + look.text("build.gradle.kts")
    goals = {"format": ("spotless", "spotlessCheck"), "lint": ("checkstyle", "checkstyleMain")}
    found = {slot: f"{gradle} {goal}" for slot, (sign, goal) in goals.items() if sign in text}
    lint = {"lint": f"{gradle} ktlintCheck"} if "ktlint" in text else {}
    return Kind(
        name="JVM (Gradle)",
        commands=Commands(**({"test": f"{gradle} test"} | lint | found if gradle else {})),
    )


def _ruby(look: Look) -> Kind | None:
    if not look.has("Gemfile"):
        return None
    bundle = "bundle exec " if look.found("bundle") else ""

    def command(words: str, *signs: str) -> str:
        return f"{bundle}{words}" if bundle and look.has(*signs) else ""

    rails = look.own("bin/rails") if look.has("test") else ""
    return Kind(
        name="Ruby",
        commands=Commands(
            test=command("rspec", ".rspec", "spec")
            or (f"{rails} test" if rails else "")
            or ("" if not look.has("test") else command("rake test", "Rakefile")),
            lint=command("rubocop", ".rubocop.yml") or command("standardrb", ".standard.yml"),
            types=command("srb tc", "sorbet/config") or command("steep check", "Steepfile"),
        ),
    )


def _php(look: Look) -> Kind | None:
    if not look.has("composer.json"):
        return None
    scripts = part(look.json("composer.json"), "scripts")

    def script(*names: str) -> str:
        name = next((name for name in names if name in scripts and look.found("composer")), "")
        return f"composer run-script {name} --" if name else ""

    def vendor(name: str, rest: str, *signs: str) -> str:
        own = look.own(f"vendor/bin/{name}")
        return f"{own} {rest}".strip() if own and look.has(*signs) else ""

    return Kind(
        name="PHP",
        commands=Commands(
            test=script("test")
            or vendor("pest", "", "tests/Pest.php")
            or vendor("phpunit", "", "phpunit.xml", "phpunit.xml.dist"),
            lint=script("lint") or vendor("phpcs", "", "phpcs.xml*", ".phpcs.xml*"),
            format=script("format:check", "cs:check")
            or vendor("php-cs-fixer", "fix --dry-run", ".php-cs-fixer*")
            or vendor("pint", "--test", "pint.json"),
            types=script("types", "phpstan", "analyse")
            or vendor("phpstan", "analyse", "phpstan.neon*", "phpstan.dist.neon"),
        ),
    )


def _dotnet(look: Look) -> Kind | None:
    if not look.has("*.sln", "*.slnx", "*.csproj", "*.fsproj", "*.vbproj"):
        return None
    return Kind(
        name=".NET",
        commands=Commands(
            test=look.if_found("dotnet", "dotnet test"),
            format=look.if_found("dotnet", "dotnet format --verify-no-changes"),
            types=look.if_found("dotnet", "dotnet build"),
        ),
    )


def _elixir(look: Look) -> Kind | None:
    if not look.has("mix.exs"):
        return None
    text = look.text("mix.exs")
    return Kind(
        name="Elixir",
        commands=Commands(
            test=look.if_found("mix", "mix test"),
            lint=look.if_found("mix", "mix credo") if ":credo" in text else "",
            format=look.if_found("mix", "mix format --check-formatted", ".formatter.exs"),
            types=look.if_found("mix", "mix dialyzer") if ":dialyxir" in text else "",
        ),
    )


def _swift(look: Look) -> Kind | None:
    if not look.has("Package.swift"):
        return None
    return Kind(
        name="Swift",
        commands=Commands(
            test=look.if_found("swift", "swift test"),
            lint=look.if_found("swiftlint", "swiftlint lint --strict", ".swiftlint.yml"),
        ),
    )


def _dart(look: Look) -> Kind | None:
    if not look.has("pubspec.yaml"):
        return None
    tool = "flutter" if "flutter:" in look.text("pubspec.yaml") else "dart"
    return Kind(
        name="Flutter" if tool == "flutter" else "Dart",
        commands=Commands(
            test=look.if_found(tool, f"{tool} test", "test"),
            lint=look.if_found(tool, f"{tool} analyze"),
            format=look.if_found("dart", "dart format --output=none --set-exit-if-changed ."),
        ),
    )


def _haskell(look: Look) -> Kind | None:
    if not look.has("stack.yaml", "*.cabal", "cabal.project"):
        return None
    stack = look.if_found("stack", "stack test", "stack.yaml")
    return Kind(
        name="Haskell", commands=Commands(test=stack or look.if_found("cabal", "cabal test"))
    )


def _zig(look: Look) -> Kind | None:
    if not look.has("build.zig"):
        return None
    return Kind(
        name="Zig",
        commands=Commands(
            test=look.if_found("zig", "zig build test")
            if '"test"' in look.text("build.zig")
            else "",
            format=look.if_found("zig", "zig fmt --check ."),
        ),
    )


def _scala(look: Look) -> Kind | None:
    if not look.has("build.sbt"):
        return None
    return Kind(
        name="Scala",
        commands=Commands(
            test=look.if_found("sbt", "sbt test"),
            format=look.if_found("sbt", "sbt scalafmtCheckAll", ".scalafmt.conf"),
        ),
    )


def _c(look: Look) -> Kind | None:
    if look.has("meson.build"):
        return Kind(
            name="C/C++ (Meson)",
            commands=Commands(
                test=look.if_found("meson", "meson test -C build", "build/build.ninja")
            ),
        )
    if not look.has("CMakeLists.txt"):
        return None
    tested = re.search(
        r"enable_testing\s*\(|include\s*\(\s*CTest", look.text("CMakeLists.txt"), re.IGNORECASE
    )
    build = "cmake -S . -B build && cmake --build build"
    return Kind(
        name="C/C++ (CMake)",
        commands=Commands(
            test=look.if_found("cmake", f"{build} && ctest --test-dir build") if tested else "",
            types=look.if_found("cmake", build),
        ),
    )


def _targets(look: Look) -> Kind | None:
    """Makefile, justfile, Taskfile, Rakefile: what they name like a check is one."""
    files = (
        (("Makefile", "makefile", "GNUmakefile"), "make", r"(?m)^([\w./-]+)\s*:(?!=)"),
        (("justfile", "Justfile", ".justfile"), "just", r"(?m)^@?([\w-]+)(?:\s[^:\n]*)?:(?!=)"),
        (("Taskfile.yml", "Taskfile.yaml"), "task", r"(?m)^  ([\w:-]+):"),
    )
    there = [
        (tool, set(re.findall(form, look.text(name))))
        for names, tool, form in files
        for name in names
        if look.has(name)
    ]
    if not there:
        return None
    tool, targets = next((pair for pair in there if look.found(pair[0])), there[0])

    def target(*names: str) -> str:
        name = next((name for name in names if name in targets and look.found(tool)), "")
        return f"{tool} {name}" if name else ""

    return Kind(
        name=tool.capitalize(),
        commands=Commands(
            test=target("test", "tests", "check"),
            lint=target("lint"),
            format=target("format-check", "check-format", "fmt-check", "check-fmt", "checkfmt"),
            types=target("typecheck", "type-check", "types", "mypy"),
        ),
    )


FINDERS: tuple[Callable[[Look], Kind | None], ...] = (
    _python,
    _node,
    _deno,
    _go,
    _rust,
    _java,
    _ruby,
    _php,
    _dotnet,
    _elixir,
    _swift,
    _dart,
    _haskell,
    _zig,
    _scala,
    _c,
    _targets,
)

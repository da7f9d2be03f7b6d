"""The environment of the commands that agents run: what tools need, and no secret."""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_KEPT = """
    HOME PATH USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR CI XDG_CONFIG_HOME XDG_CACHE_HOME
    XDG_DATA_HOME XDG_STATE_HOME PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONUTF8 PYTHONHASHSEED
    PYTHONUNBUFFERED VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE
    PYENV_ROOT PYENV_VERSION PIPENV_IGNORE_VIRTUALENVS POETRY_HOME UV_CACHE_DIR UV_PYTHON
    UV_PROJECT_ENVIRONMENT JAVA_HOME JDK_HOME JAVA_OPTS MAVEN_HOME M2_HOME MAVEN_OPTS
    GRADLE_HOME GRADLE_USER_HOME GRADLE_OPTS ANDROID_HOME ANDROID_SDK_ROOT KOTLIN_HOME SBT_OPTS
    SDKMAN_DIR GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOPROXY GOPRIVATE GONOSUMDB
    GOSUMDB GOTOOLCHAIN CGO_ENABLED CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN
    RUSTFLAGS NVM_DIR NVM_BIN VOLTA_HOME PNPM_HOME BUN_INSTALL DENO_DIR FNM_DIR COREPACK_HOME
    GEM_HOME GEM_PATH BUNDLE_GEMFILE BUNDLE_PATH RBENV_ROOT RBENV_VERSION COMPOSER_HOME
    DOTNET_ROOT DOTNET_CLI_HOME DOTNET_CLI_TELEMETRY_OPTOUT NUGET_PACKAGES MIX_HOME HEX_HOME
    ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR GHCUP_INSTALL_BASE_PREFIX STACK_ROOT CC CXX CPP LD AR
    CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS CMAKE_PREFIX_PATH CMAKE_GENERATOR PKG_CONFIG_PATH
    LD_LIBRARY_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH CUDA_HOME CUDA_PATH
    CUDA_VISIBLE_DEVICES SDKROOT MACOSX_DEPLOYMENT_TARGET GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL
    GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy
    https_proxy all_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    NODE_EXTRA_CA_CERTS PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CACHE_DIR PIP_CONFIG_FILE
    UV_INDEX_URL UV_DEFAULT_INDEX
"""
KEPT = frozenset(_KEPT.split())  # the usual ones of languages, their tools and the system
KEPT_PREFIXES = ("LC_", "NODE_", "npm_config_", "NPM_CONFIG_", "YARN_", "OMP_", "MKL_")
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
SECRET = re.compile(
    r"API_?KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE_?KEY|ACCESS_?KEY|AUTH(?!OR)|SESSION",
    re.IGNORECASE,
)
# What such variables hold besides: places, switches, plain words and numbers.
_NO_SECRET = re.compile(
    r"[/~.].*|[a-z][a-z0-9+.]*:(?://)?[/\w.:=,-]*|[A-Za-z]{0,19}|[\d.,:]*|(?=.{0,19}\Z).*\s.*",
    re.DOTALL,
)
SECRET_VALUE = re.compile(r"://[^/\s@]*:[^/\s@]+@")  # an address with a password


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """What of this process's environment a command is given.

    It is the user's own: what the program that started ts added for ts's interpreter is left out.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if (name in KEPT or name.startswith(KEPT_PREFIXES))
        and not SECRET.search(name)
        and not SECRET_VALUE.search(value)
    }
    _without_own(kept, environ)
    # A relative entry would let whatever directory a command stands in bring its own programs.
    path = os.pathsep.join(filter(os.path.isabs, kept.get("PATH", "").split(os.pathsep)))
    return {**kept, "PATH": path or os.defpath, "TERM": "dumb"}


def secrets(values: Mapping[str, str]) -> dict[str, str]:
    """The values that are secrets by their variables' names, each with the name; and those that
    hold a password by their form."""
    return {
        value: name
        for name, each in values.items()
        if (value := each.strip())
        and (
            SECRET_VALUE.search(value) or (SECRET.search(name) and not _NO_SECRET.fullmatch(value))
        )
    }


def _without_own(kept: dict[str, str], environ: Mapping[str, str]) -> None:
    """Take out what only ts's own Python needs: its virtual environment, its import path."""
    package = str(Path(__file__).resolve().parents[2])
    if path := _without(kept.get("PYTHONPATH", ""), package):
        kept["PYTHONPATH"] = path
    else:
        kept.pop("PYTHONPATH", None)
    if sys.prefix == sys.base_prefix:
        return  # no virtual environment: its Python is the user's
    named = _same(kept.get("VIRTUAL_ENV", ""), sys.prefix)
    if _activated(environ, named):
        return
    if named:
        for name in ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"):
            kept.pop(name, None)
    kept["PATH"] = _without(kept.get("PATH", ""), str(Path(sys.prefix) / "bin"))


def _activated(environ: Mapping[str, str], named: bool) -> bool:
    """Whether the user, not a launcher, chose ts's virtual environment for their commands too.

    `named`: VIRTUAL_ENV names it. `activate` sets a prompt; a container's image or a shell's
    profile sets the same, or PATH alone, for the process that started this one.
    """
    if named and "VIRTUAL_ENV_PROMPT" in environ:
        return True
    name = "VIRTUAL_ENV" if named else "PATH"
    mark = f"{name}={environ.get(name, '')}".encode(errors="surrogateescape")
    with suppress(OSError):  # another user's, or no Linux
        return mark in Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    return False


def _without(path: str, directory: str) -> str:
    """A search path without one directory, whatever its spelling."""
    return os.pathsep.join(
        each for each in path.split(os.pathsep) if each and not _same(each, directory)
    )


def _same(one: str, other: str) -> bool:
    return bool(one) and os.path.realpath(one) == os.path.realpath(other)


def outside(environ: Mapping[str, str], cwd: Path) -> str:
    """The search path without what leads into `cwd`, but for an environment that the user has
    activated: that one is their word."""
    active = [os.path.realpath(place) for name in ACTIVE if (place := environ.get(name))]

    def theirs(directory: str) -> bool:
        real = Path(os.path.realpath(directory))
        return real.is_relative_to(cwd) and os.path.realpath(real.parent) not in active

    kept = (each for each in environ.get("PATH", "").split(os.pathsep) if not theirs(each))
    return os.pathsep.join(kept) or os.defpath

"""What commands don't see, and what they don't change: keys of the user, files that steer."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

# In the user's home: where keys, tokens and what ts keeps of itself stand.
_STORES = """
    .ssh .aws .azure .gnupg .kube .docker .config/gcloud .config/gh .config/glab-cli .config/hub
    .config/op .config/rclone .config/tianshu .local/state/tianshu .config/containers
    .local/share/keyrings .password-store
    .netrc .npmrc .pypirc .pgpass .my.cnf .git-credentials .config/git/credentials .vault-token
    .config/configstore .terraform.d .oci .config/doctl .config/heroku .config/netlify .boto
    .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml
    .gradle/gradle.properties
    .config/pip/pip.conf .pip/pip.conf .config/anthropic .claude .codex .config/github-copilot
    .mozilla .config/google-chrome .config/chromium .config/BraveSoftware .thunderbird
    .bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history
    Library/Keychains
"""
_SYSTEM = """
    /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/ssl/private /etc/krb5.keytab
    /var/lib/docker /var/lib/containers /var/spool/cron
"""
STORES, SYSTEM = tuple(_STORES.split()), tuple(_SYSTEM.split())
LOGS = (".agent/sessions", ".agent/runs")  # in a working directory

# In a working directory: what steers this program, other programs or whoever works there next.
POLICY = (".agent", ".mcp.json", ".vscode", ".idea", ".husky", ".claude", ".agents", ".cursor",
          ".envrc", ".gitmodules", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/workflows",
          ".gitlab-ci.yml", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
          ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".gitconfig", ".npmrc",
          ".ssh", ".config/git", ".config/autostart", ".config/systemd")  # fmt: skip
_DOTENV = re.compile(r"\.env(?!\.(?:example|sample|template|dist|defaults)$)(?:\.[^/]*)?")
MOST_NAMES = 2000  # that are looked at for such files, and in how many folders
MOST_FOLDERS = 40
MOST_MODULES = 50
LONGEST = 4096  # bytes of a file that names a place


def stores(home: Path) -> list[Path]:
    """What is there of the places with keys."""
    places = [home / name for name in STORES] + [Path(name) for name in SYSTEM]
    return [Path(os.path.realpath(each)) for each in places if os.access(each, os.R_OK)]


def dotenvs(root: Path, granted: tuple[str, ...]) -> list[Path]:
    """The `.env` files of a project, at its top and one folder below, but for those granted:
    names as rules write them, from the working directory."""
    found: list[Path] = []
    seen, folders = 0, [root]
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            seen += 1
            if seen > MOST_NAMES or len(folders) > MOST_FOLDERS:
                break
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                folders.append(root / entry.name)
    for folder in folders:
        with suppress(OSError):
            for name in _names(folder):
                path = folder / name
                shown = str(path.relative_to(root))
                if _DOTENV.fullmatch(name) and not any(
                    fnmatchcase(shown, each) or fnmatchcase(str(path), each) for each in granted
                ):
                    found.append(path)
    return [path for path in found if path.is_file()]


def _names(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for _, entry in zip(range(MOST_NAMES), entries, strict=False):
            yield entry.name


def policies(root: Path) -> list[Path]:
    """What steers, of what is there; a link is protected as what it leads to, and itself not."""
    with suppress(OSError):
        there = {path.name for path in root.iterdir()}  # one call, and most names are not there
        names = [name for name in POLICY if name.partition("/")[0] in there]
        return [path for name in names if not (path := root / name).is_symlink() and path.exists()]
    return []


class Repository(Struct, frozen=True, kw_only=True):
    """Where git keeps what belongs to a working directory."""

    link: Path | None = None  # a `.git` that is a file: it says where the rest is
    folders: tuple[Path, ...] = ()  # may be written, but not moved
    kept: tuple[Path, ...] = ()  # in them: what says what git runs
    missing: tuple[Path, ...] = ()  # of that, what can be made without changing anything
    absent: tuple[Path, ...] = ()  # what would say so too, and must not come to be


def repository(root: Path) -> Repository | None:
    """The repository that `root` is in, as far as its own files can be believed.

    What a `.git` file names counts only where that place names the file in turn, or is a
    submodule's of a repository above.
    """
    for folder in (root, *root.parents):
        dot = folder / ".git"
        if dot.is_symlink():
            return None  # it may lead anywhere
        if dot.is_dir():
            return _kept(None, dot, dot) if (dot / "HEAD").exists() else None
        if dot.is_file():
            return _linked(dot)
    return None


def _linked(dot: Path) -> Repository | None:
    own = _named(dot, "gitdir:")
    if own is None or not (own / "HEAD").exists():
        return None
    common = _named(own / "commondir", "") if (own / "commondir").exists() else None
    back = _named(own / "gitdir", "")
    if common and back == dot and own.is_relative_to(common) and (common / "objects").is_dir():
        return _kept(dot, own, common)
    if not common and any(own.is_relative_to(each / ".git/modules") for each in dot.parents):
        return _kept(dot, own, own)
    return None


def _named(file: Path, word: str) -> Path | None:
    """The place that a file of git names, resolved; None where it can't be read."""
    try:
        with file.open("rb") as opened:
            text = os.fsdecode(opened.read(LONGEST)).strip()
        if not text.startswith(word):
            return None
        return Path(os.path.realpath(file.parent / text.removeprefix(word).strip()))
    except (OSError, ValueError):
        return None


def _kept(link: Path | None, own: Path, common: Path) -> Repository:
    kept = [common / "hooks", common / "config", own / "config.worktree"]
    kept += [own / "gitdir", own / "commondir"]
    with suppress(OSError):
        for name in sorted(_names(common / "modules"))[:MOST_MODULES]:
            kept += [common / "modules" / name / part for part in ("hooks", "config")]
    there = [each for each in dict.fromkeys(kept) if each.exists() and not each.is_symlink()]
    absent = [own / name for name in ("commondir", "config.worktree") if own / name not in there]
    folders = tuple(dict.fromkeys((common, own)))
    return Repository(
        link=link,
        folders=folders,
        kept=tuple(there),
        missing=(common / "hooks", common / "config"),
        absent=tuple(absent),
    )

"""Paths in commands: where they lead, and what a place there means."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from agent.shell.word import ANY, HOME, SOME, WORKSPACE

# What steers this program, other programs or other sessions; asked about even in auto mode.
_KEPT = re.compile(
    r"(?:^|/)(?:\.(?:git|agents?|claude|cursor|vscode|idea|husky|circleci|buildkite|config/fish"
    r"|config/tianshu|local/state/tianshu)(?:/|$)"
    r"|\.env[^/]*$|\.mcp\.json$|\.github/(?:workflows/|copilot-instructions\.md$)"
    r"|\.(?:gitlab-ci|travis|pre-commit-config)\.yml$|\.pre-commit-config\.yaml$"
    r"|(?:azure-pipelines|lefthook)\.ya?ml$|jenkinsfile$|\.cursorrules$"
    r"|\.(?:bash|zsh)\w*$|\.(?:profile|login|cshrc|kshrc)$"
    r"|\.(?:inputrc|gitconfig|npmrc|ssh)(?:/|$)|(?:agents|claude|gemini)\.md$)"
)
_SECRET = re.compile(
    r"(?:^|/)(?:\.env(?!\.(?:example|sample|template|dist)$)(?:\.[^/]*)?$"
    r"|\.(?:ssh|aws|gnupg|kube|azure|password-store)(?:/|$)"
    r"|\.(?:netrc|npmrc|pypirc|pgpass|git-credentials|vault-token)$"
    r"|\.docker/config\.json$|\.config/(?:gcloud|gh|tianshu(?!/skills/)|op|rclone)(?:/|$)"
    r"|\.local/state/tianshu(?:/|$)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)$|[^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)$"
    r"|(?:client_secret|service[-_]account)[^/]*\.json$|credentials(?:\.json)?$"
    r"|secrets?\.(?:json|ya?ml|toml|env)$|\.(?:bash|zsh|python|psql|mysql)_history$)"
    r"|^/etc/(?:g?shadow|sudoers|ssl/private)|^/proc/[^/]*/(?:environ|mem|fd)|^/dev/(?:tcp|udp)/"
)
_EXAMPLES = (".env", ".env.local", ".netrc", ".npmrc", ".ssh", ".aws", "id_rsa", "id_ed25519",
             "x.pem", "x.key")  # fmt: skip
_FREE_SINKS = {"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero"}
_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")


class Facts(Struct, frozen=True, kw_only=True):
    """What a decision has to know of the world, told by the caller.

    `real` follows links, of an absolute path; by default there are none. `leads` tells where links
    lead, as far as a bounded look shows: of a pattern (`*`) the real paths of what it matches, of a
    directory those of the links below it.
    """

    cwd: str = "/work"  # the working directory, absolute
    home: str = "/user"
    dirs: tuple[str, ...] = (".",)  # where the shell may be by now, from `cwd`
    roots: tuple[str, ...] = ()  # further directories that may be written
    workspaces: tuple[str, ...] = ()  # directories of the run's own
    made: frozenset[str] = frozenset()  # absolute paths of files that the run made
    hosts: frozenset[str] = frozenset()  # that the user or a result has named
    real: Callable[[str], str] | None = None
    leads: Callable[[str], tuple[str, ...]] | None = None
    box: Literal["on", "none", "off"] = "off"  # the sandbox; off: the user has said so


def tidy(path: str) -> str:
    """A path without `.`, `..` and doubled slashes, as far as the text alone tells.

    >>> tidy("./src//../secret/x"), tidy("../a"), tidy("/a/../../b")
    ('secret/x', '../a', '/b')
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in {"", "."} and not (part == ".." and path.startswith("/")):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def places(word: str, dirs: Iterable[str], facts: Facts) -> Iterator[str]:
    """The absolute paths that a word may mean as a path; with ANY in it where it can't be told."""
    for each in dirs:
        full = word.replace(HOME, facts.home) if word.startswith(HOME) else word
        if full.startswith(WORKSPACE):
            full = full.replace(WORKSPACE, facts.workspaces[-1] if facts.workspaces else ANY)
        if not full.startswith(("/", ANY)):
            base = each.replace(HOME, facts.home) if each.startswith(HOME) else each
            full = f"{base}/{full}"
            if not full.startswith(("/", ANY)):
                full = f"{facts.cwd}/{full}"
        full = tidy(full)
        yield full
        if ANY in full or facts.real is None:
            continue
        if SOME not in full:
            yield facts.real(full)
            continue
        head, _, rest = full.partition(SOME)
        head, _, name = head.rpartition("/")
        yield f"{facts.real(head or '/')}/{name}{SOME}{rest}"
        if facts.leads:
            yield from facts.leads(full.replace(SOME, "*"))


def shown(place: str, facts: Facts) -> str:
    """A place as rules name it: from the working directory where it is inside."""
    if place == facts.cwd:
        return "."
    return place.removeprefix(facts.cwd.rstrip("/") + "/")


def inside(place: str, roots: Iterable[str]) -> bool:
    return ANY not in place and any(
        place == root or place.startswith(root.rstrip("/") + "/") for root in roots if root
    )


def owned(place: str, facts: Facts) -> bool:
    """Whether the run itself has made what is there."""
    return place in facts.made or (
        inside(place, facts.workspaces) and place not in facts.workspaces and SOME not in place
    )


def sink(place: str) -> bool:
    return place in _FREE_SINKS or place.startswith("/dev/fd/")


def writable(place: str, facts: Facts) -> bool:
    """Whether commands usually write there: the project, what was added to it, scratch space."""
    return sink(place) or inside(place, (facts.cwd, *facts.roots, *facts.workspaces, *_TEMPORARY))


def kept(path: str) -> bool:
    """Whether a file steers what is run later."""
    return _KEPT.search(path.casefold()) is not None


def secret(path: str) -> bool:
    """Whether a file is a secret by its name; for a pattern, whether it is made to find one.

    >>> secret("/x/.env"), secret("/x/.env.example"), secret("/x/*".replace("*", "\\x01"))
    (True, False, False)
    """
    if SOME not in path:
        return _SECRET.search(path.casefold()) is not None
    head, _, last = path.rpartition("/")
    if _SECRET.search(path.casefold().replace(SOME, "x")) and path.startswith("/proc/"):
        return True
    if SOME in head:
        parts = path.split("/")
        return any(secret(f"/{part}") for part in parts if part.strip(SOME))
    if _SECRET.search(path.casefold().replace(SOME, "x")):
        return True
    if not re.sub(rf"[{SOME}]|^\.$", "", last):
        return False
    pattern = re.compile(".*".join(map(re.escape, last.split(SOME))))
    return any(pattern.fullmatch(each) for each in _EXAMPLES if last[0] == "." or each[0] != ".")


def hoard(place: str, facts: Facts) -> bool:
    """Whether there are secrets somewhere below a directory: it holds the user's home, or is the
    system's."""
    return inside(facts.home, (place,)) or place in {"/", "/etc", "/proc", "/root", "/home", "/var"}


def critical(word: str, dirs: Iterable[str], facts: Facts) -> str:
    """Why a path must not be removed or moved with all that is in it; "" where it may.

    What is unknown is taken for nothing, as an unset variable is.
    """
    if not facts.workspaces:
        word = word.replace(WORKSPACE, ANY)
    empty = word.replace(ANY, "")
    if not empty.strip("/") and ANY in word and not empty:
        return ""  # nothing but a variable: no path at all if unset
    for place in places(empty or ".", dirs, facts):
        if why := _critical(_whole(tidy(place.replace(ANY, ""))), facts):
            return why + (", should a variable be unset" if ANY in word else "")
    return ""


def _whole(place: str) -> str:
    """The directory whose every file a pattern takes; any other path as it is."""
    while True:
        parent, _, last = place.rpartition("/")
        if SOME not in last or last.strip(SOME + "."):
            return place
        place = parent or "/"


def _critical(place: str, facts: Facts) -> str:
    if place == "/" or (place.count("/") == 1 and place not in facts.made):
        return f"{place} is the system's"
    for name, root in (
        ("home", facts.home),
        ("working", facts.cwd),
        *(("added", r) for r in facts.roots),
    ):
        if root and (place == root or root.startswith(place.rstrip("/") + "/")):
            return f"{place} is or holds the {name} directory"
    if re.fullmatch(r"/(?:usr|etc|var|lib|opt|home|Users|System|Library)/[^/]+", place) and not (
        inside(place, (facts.cwd, *_TEMPORARY, *facts.roots, *facts.workspaces))
    ):
        return f"{place} is the system's"
    if place.casefold().endswith("/.git"):
        return f"{place} is a repository's history"
    return ""

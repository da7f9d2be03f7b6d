"""What a command needs of what a sandbox keeps from it, as far as its words tell.

A table like `programs`: what is not in it needs nothing that its line tells of.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from agent.shell.effect import Part
from agent.shell.word import known


class Needs(Struct, frozen=True, kw_only=True):
    """What a command is to be let do, once it is allowed."""

    network: bool = False
    keys: bool = False  # it acts in the user's name
    outside: bool = False  # it changes the system, or speaks with a program that does
    shows: tuple[str, ...] = ()  # secret files that it reads, as rules name them
    steers: tuple[str, ...] = ()  # files that steer, or are elsewhere, and that it changes


_PIP = r"(?:pip3?|pipx|python[\d.]* -m pip|uv pip)"
_NETWORK = rf"""
      (?:curl|wget|https?|xh|aria2c|lynx|w3m|dig|nslookup|host|ping6?|traceroute|mtr|whois
        |nc|ncat|netcat|socat|telnet|l?ftp|speedtest)(?=\ |$)
    | {_PIP}\ (?:install|download|wheel|index|search|inject|run|sync)
    | (?:uv|poetry|pdm|rye|pipenv|hatch)\ (?:add|sync|install|update|lock|tool|self|remove|python)
    | uvx(?=\ |$) | easy_install | (?:conda|mamba|micromamba)\ (?:install|create|update|search)
    | (?:npm|pnpm|yarn|bun)\ (?:install|i|in|ins|add|ci|clean-install|install-clean|update|up
        |upgrade|exec|x|dlx|create|init|audit|outdated|view|info|show|search|ping|dedupe|link
        |rebuild|it|install-test)(?=\ |$)
    | yarn$ | yarn\ --frozen-lockfile | (?:npx|bunx|corepack|pnpx)(?=\ |$)
    | cargo\ (?:install|add|fetch|update|search|info|generate-lockfile|vendor) | rustup\ (?!show)
    | go\ (?:get|install|mod\ (?:download|tidy|vendor)|work\ sync)
    | gem\ (?:install|update|fetch|search) | bundle(?=\ (?:install|update|add|outdated)|$)
    | composer\ (?:install|require|update|create-project|outdated)
    | (?:nuget|dotnet)\ (?:add|restore|tool|nuget|new)
    | (?:mvn|\./mvnw)\ .*dependency: | mix\ (?:deps\.get|local\.)
    | swift\ package\ (?:resolve|update)
    | git\ (?:clone|fetch|pull|ls-remote|remote\ (?:update|show|prune)
        |submodule\ (?:add|init|update)|lfs\ (?:fetch|pull|push))(?=\ |$)
    | playwright\ install | pre-commit\ (?:install-hooks|autoupdate) | tldr\ --update
"""
_KEYS = r"""
      (?:ssh|scp|sftp|rsync|rclone|mosh|gh|glab|hub|aws|gcloud|gsutil|az|kubectl|oc|terraform|tofu
        |pulumi|heroku|fly|flyctl|vercel|netlify|firebase|wrangler|doctl|serverless|sls|cdk|sam|eb
        |railway|supabase|stripe|twilio|twine|helm|vault|kinit|psql|mysql|mongosh?|redis-cli
        )(?=\ |$)
    | (?:ansible|ansible-\w+)(?=\ |$)
    | git\ (?:clone|fetch|pull|push|ls-remote|submodule|lfs|send-email|svn|p4)(?=\ |$)
    | (?:npm|pnpm|yarn|yarn\ npm|bun)\ (?:publish|unpublish|login|logout|whoami|token|owner|access
        |deprecate|dist-tag|adduser|team|org|profile)
    | (?:uv|poetry|pdm|hatch|flit|rye)\ (?:publish|upload) | cargo\ (?:publish|yank|owner|login)
    | gem\ (?:push|yank|owner|signin) | mvn\ (?:.*\ )?deploy | (?:\./)?gradlew?\ (?:.*\ )?publish
    | (?:gpg2?|pass|op|ssh-keygen|ssh-add|keyring|secret-tool|security|age)(?=\ |$)
"""
_OUTSIDE = r"""
      (?:sudo|doas|su|pkexec|run0|apt|apt-get|aptitude|dpkg|rpm|yum|dnf|zypper|pacman|apk|snap
        |flatpak|brew|port|nix-env|emerge|choco|winget|softwareupdate|systemctl|service|launchctl
        |docker|docker-compose|podman|nerdctl|ctr|skopeo|buildah|minikube|kind|vagrant|tmux|screen
        |mount|umount|crontab|at|useradd|usermod|passwd|sysctl|shutdown|reboot)(?=\ |$)
"""
NETWORK, KEYS, OUTSIDE = (
    re.compile(words, re.VERBOSE | re.DOTALL) for words in (_NETWORK, _KEYS, _OUTSIDE)
)
GIT_SETTINGS = re.compile(
    r"git (?:config|remote (?:add|rm|remove|set-url|rename|set-head|set-branches)"
    r"|submodule (?:add|init|deinit|sync|update)|branch .*(?:-u|--set-upstream|--edit-desc)"
    r"|push .*(?:-u|--set-upstream)|worktree (?:add|remove|prune|move)|sparse-checkout|lfs install)"
)
_LOCAL = re.compile(
    r"(?:\w+://)?(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1\])(?::\d+)?(?:[/?#].*)?"
)
_ADDRESS = re.compile(r"\w+://.*|[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:/.*)?|[\w.-]+:\d+(?:/.*)?")


def reaches(part: Part) -> bool:
    """Whether a part needs the network."""
    forms = part.forms
    if any(OUTSIDE.match(form) or KEYS.match(form) for form in forms):
        return True
    return any(NETWORK.match(form) and not _local(form) for form in forms)


def _local(form: str) -> bool:
    """Whether all addresses in it are of this machine, which a command has for itself."""
    addresses = [word for word in form.split()[1:] if _ADDRESS.fullmatch(word)]
    plain = form.startswith(("curl ", "wget ", "http ", "nc ", "ping "))
    local = [word for word in form.split()[1:] if _LOCAL.fullmatch(word)]
    return plain and bool(local) and all(_LOCAL.fullmatch(word) for word in addresses)


def needs(parts: Iterable[Part]) -> Needs:
    """What a line of these parts needs. The user's keys, or to be outside of the sandbox, only if
    all that does more than look needs it: nothing else of the line comes by it."""
    parts = list(parts)
    acting = [part for part in parts if part.kind != "free" or reaches(part)]

    def all_match(*expressions: "re.Pattern[str]") -> bool:
        return bool(acting) and all(
            any(each.match(form) for each in expressions for form in part.forms)
            for part in acting
            if not part.inner
        )

    steers = [path for part in parts for path in part.steers if known(path)]
    if any(GIT_SETTINGS.match(form) for part in parts for form in part.forms):
        steers.append(".git")
    return Needs(
        network=any(map(reaches, parts)),
        keys=all_match(KEYS),
        outside=all_match(OUTSIDE),
        shows=tuple(path for part in parts for path in part.secrets if known(path)),
        steers=tuple(dict.fromkeys(steers)),
    )

"""What is known of programs, as tables: from their manual pages.

`LOOKS`: programs that only look, and the arguments by which each does more.
"""

import re

from msgspec import Struct

from agent.shell.word import ANY, SOME


class Looks(Struct, frozen=True, kw_only=True):
    """A program that reads and prints, but for these arguments."""

    short: str = ""  # letters of options that do more
    long: tuple[str, ...] = ()  # options that do more, or anything they may be shortened to
    words: str = ""  # an expression for arguments that do more
    most: int | None = None  # operands; one more is a file that is written
    names: bool = False  # its operands are no files whose contents are shown
    valued: str = ""  # letters of options whose value follows

    def more(self, words: tuple[str, ...]) -> str:
        """The first argument by which the program does more than look; "" for none."""
        operands = 0
        ended = False
        for word in words:
            if ended or not word.startswith("-") or word == "-":
                operands += 1
            elif word == "--":
                ended = True
            elif self._option(word):
                return word
            if self.words and re.fullmatch(self.words, word, re.DOTALL):
                return word
        over = self.most is not None and operands > self.most
        return words[-1] if over else ""

    def _option(self, word: str) -> bool:
        if word.startswith("--"):
            name = word.partition("=")[0]
            return any(f"--{each}".startswith(name) for each in self.long)
        return any(letter in word[1:] for letter in self.short)

    @property
    def strict(self) -> bool:
        """Whether it matters what its arguments are."""
        return bool(self.short or self.long or self.words or self.most is not None)


_SUM = r"(?:\$|\d+|/(?:[^/\\]|\\.)*/I?)"
_SED = rf"(?:{_SUM}(?:[,~]\+?{_SUM})?\s*!?\s*(?:[pdq=]|\{{\s*[pdq=;\s]*\}})"
_SED += r"|s([/|,#])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gIp0-9]*)"
SED = re.compile(rf"\s*{_SED}(?:\s*[;\n]\s*{_SED.replace(chr(92) + '1', chr(92) + '2')})?\s*;?\s*")
AWK = re.compile(r"(?!.*(?:system|getline|[|>@]|ENVIRON|PROCINFO)).*", re.DOTALL)

LOOKS: dict[str, Looks] = {
    name: looks
    for names, looks in {
        "true false : pwd uname nproc uptime groups logname tty arch": Looks(names=True),
        "exit return break continue wait shift": Looks(names=True),
        "echo basename dirname seq sleep expr which whereis": Looks(names=True),
        "printf": Looks(short="v", names=True),
        "test [": Looks(short="vR", names=True),
        "type": Looks(names=True),
        "ls dir": Looks(names=True),
        "realpath readlink stat": Looks(names=True),
        "whoami id": Looks(names=True),
        "hostname": Looks(most=0, short="Fb", long=("file", "boot"), names=True),
        "date": Looks(short="s", long=("set",), words=r"\d{8,}.*", names=True),
        "df du free ps lsof": Looks(names=True, long=("files0-from",)),
        "cat head tail wc nl tac rev cut tr fold expand unexpand fmt pr column paste join "
        "comm": Looks(),
        "cmp diff od hexdump strings cksum sum md5sum sha1sum sha224sum sha256sum "
        "sha384sum": Looks(),
        "sha512sum b2sum base32 zcat bzcat xzcat": Looks(),
        "base64": Looks(short="oD", long=("output",)),
        "diff3 sdiff": Looks(short="o", long=("output", "diff-program")),
        "grep egrep fgrep zgrep": Looks(),
        "uniq": Looks(most=1),
        "xxd": Looks(most=1, short="r"),
        "tree": Looks(short="oR", long=("output",), names=True),
        "file": Looks(short="CmfM", long=("compile", "magic-file", "files-from")),
        "sort": Looks(
            short="oTS", long=("output", "compress-program", "temporary-directory", "files0-from")
        ),
        "rg": Looks(short="z", long=("pre", "hostname-bin", "search-zip")),
        "ag ack": Looks(long=("pager", "pre", "output"), words=r"--(?:pager|output).*"),
        "fd fdfind": Looks(short="xX", long=("exec", "exec-batch"), names=True),
        "find": Looks(
            words=r"-(?:exec|execdir|ok|okdir|delete|fls|fprint|fprintf|fprint0|files0-from)",
            names=True,
        ),
        "jq": Looks(short="fL", long=("from-file", "rawfile", "slurpfile")),
        "unzip": Looks(words=r"(?!-[lvZt]+$)-.*"),
        "zipinfo": Looks(),
    }.items()
    for name in names.split()
}  # fmt: skip

# Programs whose --version and --help run nothing of the project's.
VERSIONS = {
    "python", "python3", "pip", "pip3", "node", "npm", "npx", "yarn", "pnpm", "bun", "deno",
    "tsc", "cargo", "rustc", "rustup", "go", "java", "javac", "mvn", "gradle", "ruby", "gem",
    "bundle", "php", "composer", "perl", "gcc", "g++", "clang", "cc", "make", "cmake",
    "ninja", "git", "gh", "docker", "kubectl", "terraform", "uv", "poetry", "pytest", "ruff",
    "mypy", "black", "eslint", "prettier", "jest", "dotnet", "swift", "bash", "zsh", "rg",
    "jq", "curl", "wget", "tar", "sed", "awk",
}  # fmt: skip

# Programs of tools, by their first words, that only look.
LOOKING_TOOLS = re.compile(
    r"(?:npm (?:ls|list|ll|root|prefix|bin|why|explain)|yarn (?:why|list)|pnpm (?:ls|list|why)"
    r"|pip3? (?:list|show|freeze|check)|python3? -m pip (?:list|show|freeze|check)"
    r"|uv pip (?:list|show|freeze|tree)|cargo (?:tree|metadata|locate-project|pkgid)"
    r"|go (?:version|doc)|rustup show|docker (?:ps|images|version)|conda (?:list|info)"
    r"|gem (?:list|which)|bundle (?:list|show)|composer show|brew (?:list|info))"
    r"(?: (?!--?(?:f|format|o|output|chrootdir|config|prefix|cache)\b)[\w./:@=+-]*)*"
)

EDITORS = {
    "mkdir": r"-[pv]+|--parents|--verbose",
    "touch": r"-[acm]+",
    "cp": r"-[aprRvfiunT]+|--(?:recursive|archive|force|verbose|no-clobber|update|parents)",
    "mv": r"-[vfinuT]+|--(?:force|verbose|no-clobber|update)",
    "tee": r"-a|--append",
    "rmdir": r"-[pv]+",
    "sed": "",
}  # programs that change the files they name and nothing else; the options that keep it so

REMOVES = {"rm", "srm", "trash", "shred", "unlink", "rmdir"}

# Asked about in every mode, by first words: an expression, and why.
ALWAYS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"(?:{words})(?![\w-])"), why)
    for words, why in (
        ("rm|unlink|shred|srm|trash|wipe", "removes files"),
        ("truncate|dd|mkfs\\S*|mke2fs|fdisk|sfdisk|parted|wipefs|mkswap|losetup|blkdiscard",
         "overwrites files or disks"),
        ("mount|umount|swapon|swapoff|insmod|rmmod|modprobe|sysctl|iptables|nft|ufw|ip6tables",
         "changes the system"),
        ("kill|pkill|killall|xkill|fuser", "ends processes"),
        ("shutdown|reboot|halt|poweroff|init|telinit|systemctl|service|launchctl|crontab|at|batch",
         "changes the system"),
        ("useradd|userdel|usermod|groupadd|passwd|chpasswd|chsh|visudo|adduser|deluser|dscl",
         "changes accounts"),
        ("chown|chgrp|setfacl|setcap|chattr", "changes who owns files"),
        ("chmod (?:.* )?(?:-\\w*R\\w*|--rec\\w*)|chmod \\S*[us]\\+\\S*s", "changes rights "
         "of many files"),
        ("sudo|doas|su|pkexec|runuser|gosu|sudoedit|run0", "acts as another user"),
        ("ssh|scp|sftp|rsync|rclone|nc|ncat|netcat|socat|telnet|ftp|lftp|mail|sendmail|mosh|rsh",
         "reaches other machines"),
        ("ssh-keygen|ssh-add|ssh-agent|gpg|gpg2|pass|op|security|keyring|secret-tool|vault"
         "|kinit|age",
         "deals with keys"),
        ("(?:npm|pnpm|yarn|yarn npm|bun) (?:publish|unpublish|deprecate|dist-tag|owner|access|token"
         "|login|logout|adduser|team|org|profile|hook|star)|(?:npm|pnpm|yarn|bun)(?: run)?"
         " (?:publish|release|deploy)\\S*", "publishes"),
        ("npm (?:install|i|in|ins|add|ci|clean-install|update|up|upgrade|uninstall|un|remove|rm|r"
         "|link|ln|rebuild|rb|audit fix|dedupe|prune|exec|x|init|create|config|set|cache)",
         "installs packages"),
        ("(?:pnpm|yarn|bun) (?:install|i|add|update|up|upgrade|remove|rm|link|dlx|x|create|init"
         "|config|global|import|prune|set)|yarn$", "installs packages"),
        ("(?:pip|pip3|pipx|python3? -m pip|uv pip) (?:install|uninstall|download|wheel|config|cache"
         "|inject|upgrade|sync|run)|easy_install|conda (?:install|create|remove|update)|mamba",
         "installs packages"),
        ("(?:uv|poetry|pdm|rye|pipenv) (?:add|sync|install|remove|update|lock|tool|self|init"
         "|uninstall)|uvx", "installs packages"),
        ("(?:uv|poetry|pdm|hatch|flit|twine|rye) (?:publish|upload)|twine|python3? -m twine"
         "|python3? setup\\.py (?:upload|register|install)", "publishes"),
        ("cargo (?:publish|yank|owner|login|logout)", "publishes"),
        ("cargo (?:install|uninstall|add|remove|rm|update)|rustup (?!show)|go (?:install|get|mod)"
         "|gem (?:install|uninstall|update)|bundle (?:install|update|add|exec)|bundle$"
         "|composer (?:install|require|update|remove)|nuget|dotnet (?:add|tool|nuget)",
         "installs packages"),
        ("gem (?:push|yank|owner|signin)|mvn (?:.* )?deploy|gradle (?:.* "
         ")?publish\\S*", "publishes"),
        ("apt|apt-get|aptitude|dpkg|rpm|yum|dnf|zypper|pacman|apk|snap|flatpak|brew|port|nix-env"
         "|emerge|choco|winget|softwareupdate", "installs packages"),
        ("docker (?:push|login|logout|system|volume|rm|rmi|prune|container|image|run|exec|compose"
         "|buildx|cp|kill|stop)|docker-compose|podman|helm|skopeo|nerdctl|ctr",
         "changes containers or publishes"),
        ("gh|glab|hub", "acts on a service in your name"),
        ("aws|gcloud|gsutil|az|kubectl|oc|terraform|tofu|pulumi|ansible\\S*|heroku|fly"
         "|flyctl|vercel"
         "|netlify|firebase|wrangler|doctl|serverless|sls|cdk|sam|eb|railway|supabase|stripe|twilio"
         "|psql|mysql|mongo|mongosh|redis-cli|sqlcmd|snowsql|bq", "acts on a service in your name"),
        ("curl (?:.* )?(?:-[a-zA-Z]*[dTFXKQo]|--(?:data|form|upload|request|json|config"
         "|quote|output"
         "|remote-name|post))\\S*|curl (?:.* )?(?:-u|--user|-H|--header|--netrc|-n|-b"
         "|--cookie)\\S*",
         "sends data or keeps a file"),
        ("wget (?:.* )?--(?:post|body|method|header|user|password|execute|use-askpass|input)\\S*"
         "|wget (?:.* )?-[eiP]\\S*|http|https|xh|aria2c", "sends data"),
    )
)  # fmt: skip

_FREE_SET = re.compile(
    r"[-+](?:[euxvCf]+|o|o? ?(?:pipefail|errexit|nounset|xtrace))|pipefail|errexit"
)


def tells_version(name: str, words: tuple[str, ...]) -> bool:
    if len(words) != 1 or name not in VERSIONS:
        return False
    return words[0] in {"--version", "--help"} or (name, words[0]) in {
        ("node", "-v"), ("npm", "-v"), ("python3", "-V"), ("python", "-V"), ("make", "-v"),
    }  # fmt: skip


_TAR = re.compile(
    r"--(?:checkpoint-a|to-c|use-c|info-s|new-v|rsh-|rmt-)[\w-]*(?:=.*)?|-\w*[IF].*", re.DOTALL
)


def tar_runs(word: str) -> bool:
    """Whether an argument of tar names a program to run."""
    return _TAR.fullmatch(word) is not None


def harmless_set(words: tuple[str, ...]) -> bool:
    return all(_FREE_SET.fullmatch(word) for word in words) and bool(words)


# What "always" may grant, by first words: that much of a command, and anything behind it.
PREFIXES = re.compile(
    r"(?:pytest|ruff(?: \w+)?|mypy|black|isort|flake8|pylint|pyright|eslint|prettier|tsc|tsgo|jest"
    r"|vitest|mocha|tox|nox|shellcheck|hadolint|golangci-lint|phpunit|rspec|rubocop|ctest"
    r"|python3? -m (?:pytest|unittest|mypy|ruff|black|compileall|doctest)"
    r"|npm (?:test|t|run [\w:.-]+)|(?:yarn|pnpm|bun) (?:test|run [\w:.-]+|[\w:.-]+)"
    r"|npx (?:--no-install |--no )?(?:tsc|tsgo|eslint|prettier|jest|vitest|mocha|biome)"
    r"|cargo (?:build|test|check|clippy|fmt|bench|doc|run)|go (?:build|test|vet|fmt|run)|gofmt"
    r"|make [\w.-]+|just [\w.-]+|cmake --build|dotnet (?:build|test)|mvn (?:test|compile|verify)"
    r"|gradle (?:test|build)|\./gradlew (?:test|build)|\./mvnw (?:test|compile)|swift "
    r"(?:build|test)"
    r"|uv run (?:pytest|ruff|mypy)|poetry run (?:pytest|ruff|mypy)"
    r"|git (?:add|commit|fetch|pull|merge|cherry-pick|revert|show|log|diff|status|init|mv))"
    r"(?= |$)"
)
_UNDOING = re.compile(
    r"deploy|publish|release|push|install|clean|remove|reset|drop|prune|delete|destroy|purge|wipe"
    r"|migrate|upload|send|login|token|nuke|rollback|(?:^|\W)rm"
)


class Script(Struct, frozen=True, kw_only=True):
    """A program of sed or awk: whether all that it says is to look, and the files it is for."""

    looks: bool
    files: tuple[str, ...] = ()
    edits: bool = False  # it changes its files in place


def sed(words: tuple[str, ...]) -> Script:
    """What `sed` with these arguments would do."""
    scripts: list[str] = []
    operands: list[str] = []
    edits = False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in {"-e", "--expression"} and rest:
            scripts.append(rest.pop(0))
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif re.fullmatch(r"-[nErsuz]*i[\w.~]*|--in-place(?:=[\w.~]*)?", word):
            edits = True
        elif re.fullmatch(r"-[nErsuz]*e", word) and rest:
            scripts.append(rest.pop(0))
        elif word.startswith("-") and not re.fullmatch(
            r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|null-data|separate|posix|debug)", word
        ):
            return Script(looks=False)
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
        if edits and scripts == [""]:  # as sed on macOS takes it: -i, a suffix, then the script
            scripts += operands[:1]
    looks = bool(scripts) and all(not text or SED.fullmatch(text) for text in scripts)
    dashes = any(word.startswith((SOME, ANY)) for word in operands)
    return Script(looks=looks and not dashes, files=tuple(operands), edits=edits)


def awk(words: tuple[str, ...]) -> Script:
    """What `awk` with these arguments would do."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word in {"-F", "-v"} and rest:
            rest.pop(0)
        elif not word.startswith(("-F", "-v")):
            return Script(looks=False)
    looks = bool(rest) and AWK.fullmatch(rest[0]) is not None and ANY not in rest[0]
    dashes = any(word.startswith((SOME, ANY)) for word in rest[1:])
    return Script(looks=looks and not dashes, files=tuple(rest[1:]))


def prefix(plain: str) -> str:
    """The first words that stand for a whole kind of command; "" where only the whole does."""
    found = PREFIXES.match(plain)
    return found[0] if found and not _UNDOING.search(found[0]) else ""

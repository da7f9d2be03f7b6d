"""The commands that a command runs in turn: wrappers, shells, `find -exec`, `eval`."""

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from agent.shell.grammar import read
from agent.shell.line import Command, Line
from agent.shell.programs import awk, sed
from agent.shell.word import ANY, SOME, known


class Wrapper(Struct, frozen=True, kw_only=True):
    """A program whose arguments are another command, behind its own options and operands."""

    valued: str = ""  # letters of options whose value is the next word
    long: tuple[str, ...] = ()  # long options whose value is the next word
    operands: int = 0  # of its own
    assigns: bool = False  # NAME=VALUE may stand before the command
    string: bool = False  # the command is a text for a shell


WRAPPERS: dict[str, Wrapper] = {
    name: wrapper
    for names, wrapper in {
        "env": Wrapper(valued="uC", long=("unset", "chdir"), assigns=True),
        "timeout": Wrapper(valued="sk", long=("signal", "kill-after"), operands=1),
        "nice": Wrapper(valued="n", long=("adjustment",)),
        "nohup setsid command builtin coproc chronic unbuffer fakeroot catchsegv caffeinate time": (
            Wrapper(valued="fo", long=("format", "output"))
        ),
        "exec": Wrapper(valued="a"),
        "stdbuf": Wrapper(valued="ioe", long=("input", "output", "error")),
        "ionice": Wrapper(valued="cnp", long=("class", "classdata")),
        "xargs": Wrapper(
            valued="IiJnPLdEsaR",
            long=("max-args", "max-procs", "replace", "delimiter", "arg-file", "max-lines"),
        ),
        "sudo doas pkexec gosu run0": Wrapper(
            valued="ugpCDRTUrthu", long=("user", "group", "prompt", "chdir"), assigns=True
        ),
        "chroot taskset chrt flock setarch linux64 numactl": Wrapper(valued="wE", operands=1),
        "strace ltrace": Wrapper(valued="eopsuaEIbOSX"),
        "unshare nsenter proot torify proxychains rlwrap winpty prlimit systemd-run "
        "firejail bwrap": (Wrapper()),
        "watch": Wrapper(valued="nq", long=("interval",), string=True),
        "parallel": Wrapper(valued="jNLdaS", long=("jobs", "arg-file"), string=True),
        "entr": Wrapper(),
        "busybox toybox": Wrapper(),
        "jobs": Wrapper(),
        "if then elif else while until do !": Wrapper(),
        "perf valgrind gdb rr hyperfine script": Wrapper(string=True, valued="ow"),
        "npx bunx pnpx": Wrapper(valued="p", long=("package",)),
        "xvfb-run dbus-run-session dbus-launch": Wrapper(valued="ns", long=("server-args",)),
    }.items()
    for name in names.split()
}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash", "yash", "pwsh",
          "tcsh",
          "csh"}  # fmt: skip
_RUNNERS = re.compile(
    r"(?:uv|poetry|pdm|pipenv|rye|hatch|conda|mamba) run|npm (?:exec|x)|(?:pnpm|yarn|bun) "
    r"(?:exec|dlx|x)"
    r"|bundle exec|git bisect run|docker(?: compose)? (?:run|exec)|podman (?:run|exec)|kubectl exec"
    r"|nix(?:-shell)? (?:run|develop|shell)|direnv exec|dotenv run|op run|rustup run|cargo watch"
)
# Programs that are told what to do in a language of their own, and how they are told.
CODE = {
    "python": r"-\w*c.*", "python2": r"-\w*c.*", "python3": r"-\w*c.*", "pypy": r"-c.*",
    "pypy3": r"-c.*", "node": r"-\w*[ep]\w*|--eval.*|--print.*|-r|--require.*|--import.*",
    "nodejs": r"-[ep]+|--eval.*|--print.*", "deno": r"eval|repl", "bun": r"-e|--eval.*",
    "perl": r"-\w*[eE].*", "ruby": r"-\w*e.*", "php": r"-r.*|-[BRE].*", "lua": r"-e.*",
    "luajit": r"-e.*", "Rscript": r"-e.*", "julia": r"-[eE].*|--eval.*", "osascript": r"-e.*",
    "ed": r"[\s\S]*", "ex": r"[\s\S]*", "vi": r"[\s\S]*",
    "vim": r"[\s\S]*", "nvim": r"[\s\S]*", "emacs": r"[\s\S]*", "nano": r"[\s\S]*",
    "tclsh": r".*", "expect": r".*", "elixir": r"-e.*", "ghci": r".*", "scala": r"-e.*",
    "groovy": r"-e.*", "jshell": r".*", "sqlite3": r"[\s\S]*", "m4": r".*", "gdb": r"[\s\S]*",
    "tmux": r".*", "screen": r".*", "dmenu": r".*", "at": r".*", "batch": r".*",
    "less": r".*", "more": r".*", "man": r".*", "crontab": r".*", "make": r"--eval.*|-f-|.*[$`].*",
    "npx": r"-c|--call.*", "ssh": r"-o.*|-F.*",
}  # fmt: skip
_STDIN_CODE = {"python", "python2", "python3", "node", "perl", "ruby", "php", "lua", "bc", "dc",
               "gdb",
               "sqlite3", "deno", "bun", "irb", "psql", "mysql", "osascript", "ed",
               "ex"}  # fmt: skip


class Within(Struct, frozen=True, kw_only=True):
    """What a command runs besides its own program."""

    commands: tuple[Command, ...] = ()
    doubt: str = ""  # it runs what the line does not tell
    wraps: bool = False  # it is nothing by itself but what it runs


def program(word: str) -> str:
    """A program's plain name.

    >>> program("/usr/bin/rm"), program("gsed")
    ('rm', 'gsed')
    """
    return word.rpartition("/")[2] or word


def within(command: Command) -> Within:
    """The commands that `command` runs in turn, each as if it stood in the line."""
    if not command.words or command.code:
        return Within()
    name, words = program(command.words[0]), command.words[1:]
    if name in SHELLS:
        return _shell(command, words)
    if name in {"eval", "trap"}:
        text = " ".join(words if name == "eval" else words[:1])
        return _text(command, text, wraps=name == "eval") if words else Within()
    if name == "alias":
        return _joined(*(_text(command, word.partition("=")[2]) for word in words if "=" in word))
    if name in {"source", "."}:
        return Within(commands=(_unknown(command),), wraps=True)
    if name in {"find", "fd", "fdfind"}:
        return _found(command, words)
    if name in {"ssh", "mosh"}:
        return _ssh(command, words)
    if name in {"su", "runuser", "script", "flock"} and (
        given := [at for at, word in enumerate(words) if re.fullmatch(r"-\w*c|--command", word)]
    ):
        return _text(command, " ".join(words[given[0] + 1 : given[0] + 2]), wraps=True)
    if wrapper := WRAPPERS.get(name):
        return _joined(_wrapped(command, name, wrapper, words), _coded(command, name, words))
    if found := _RUNNERS.match(" ".join((name, *words))):
        many = found[0].count(" ")
        return Within(commands=(*_after_options(command, words[many:]), _unknown(command)))
    return _coded(command, name, words)


def _joined(*many: Within) -> Within:
    return Within(
        commands=tuple(each for some in many for each in some.commands),
        doubt=next((some.doubt for some in many if some.doubt), ""),
        wraps=any(some.wraps for some in many),
    )


def _unknown(command: Command, *, code: bool = True) -> Command:
    return Command(words=(ANY,), text=command.text, dirs=command.dirs, code=code)


def _text(command: Command, text: str, *, wraps: bool = False) -> Within:
    """A text that a shell reads."""
    if not known(text):
        plain = text.replace(ANY, "$unknown").replace(SOME, "*")
        return Within(
            commands=(*read(plain, command.dirs).commands, _unknown(command, code=False)),
            doubt="it runs a text that the line does not tell",
            wraps=wraps,
        )
    line: Line = read(text, command.dirs)
    return Within(commands=line.commands, doubt=line.doubt, wraps=wraps)


def _shell(command: Command, words: tuple[str, ...]) -> Within:
    for at, word in enumerate(words):
        if (
            word.startswith("-")
            and not word.startswith("--")
            and "c" in word
            and at + 1 < len(words)
        ):
            rest = [each for each in words[at + 1 :] if not each.startswith("-")]
            return _text(command, rest[0] if rest else "", wraps=True)
        if word.startswith(("--rcfile", "--init-file")):
            break
        if re.match(r"-\w*s", word):  # what follows are its arguments
            break
        if not word.startswith(("-", "+")):
            if word == "/dev/stdin":
                break
            return Within(commands=(_unknown(command),), wraps=True)  # a script
    if command.script is not None:
        return _text(command, command.script, wraps=True)
    if any(word in {"--version", "--help"} for word in words):
        return Within()
    if command.piped:
        return Within(
            commands=(_unknown(command, code=False),),
            doubt="a shell reads its commands from a pipe",
            wraps=True,
        )
    return Within(commands=(_unknown(command),), wraps=True)


def _wrapped(command: Command, name: str, wrapper: Wrapper, words: tuple[str, ...]) -> Within:
    at = _own(wrapper, words)
    own, rest = words[:at], words[at:]
    if any(ANY in word or word.startswith(SOME) for word in (*own, *rest[:1])):
        doubt = "what it runs is not told by the line"
        return Within(commands=(_unknown(command, code=False),), wraps=True, doubt=doubt)
    if name == "env":
        for split, word in enumerate(own):
            if found := re.match(r"-[a-zA-Z]*S|--split-string=?", word):
                text = " ".join(filter(None, (word[found.end() :], *words[split + 1 :])))
                return _text(command, text, wraps=True)
    if name == "command" and any(re.fullmatch(r"-\w*[vV]\w*", word) for word in own):
        return Within()
    if not rest:
        return Within(wraps=True)
    if wrapper.string:
        return _text(command, " ".join(rest), wraps=True)
    if name == "xargs":
        rest = _filled(own, rest)
    inner = [structs.replace(command, words=rest, assigned=())]
    if name == "coproc" and len(rest) > 1:  # the first word may be a name
        inner.append(structs.replace(command, words=rest[1:], assigned=()))
        if {"{", "(", "((", "[[", "if", "for", "while", "until", "case"} & set(rest):
            inner.append(_unknown(command, code=False))
    return Within(commands=tuple(inner), wraps=True)


def _own(wrapper: Wrapper, words: tuple[str, ...]) -> int:
    """How many of a wrapper's words are its own."""
    at, left = 0, wrapper.operands
    while at < len(words):
        word = words[at]
        if word == "--":
            return min(at + 1 + left, len(words))
        if word.startswith("-") and len(word) > 1:
            long = word.startswith("--")
            letter = not long and word[-1] in wrapper.valued and len(word) <= 3
            at += 2 if letter or (long and word[2:] in wrapper.long) else 1
        elif wrapper.assigns and re.match(r"\w+=", word):
            at += 1
        elif left:
            left, at = left - 1, at + 1
        else:
            break
    return min(at, len(words))


def _filled(options: tuple[str, ...], rest: tuple[str, ...]) -> tuple[str, ...]:
    """What xargs runs: its input, which is unknown, at the end or in place of a sign."""
    for option, following in zip(options, [*options[1:], ""], strict=False):
        if option.startswith(("-I", "-i", "-J", "--replace")):
            sign = option[2:] if not option.startswith("--") else option.partition("=")[2]
            sign = sign or (following if option in {"-I", "-J"} else "{}")
            return tuple(word.replace(sign, ANY) for word in rest)
    return (*rest, ANY)


def _after_options(command: Command, words: tuple[str, ...]) -> Iterator[Command]:
    """A command behind options that are not known: it may begin at any word but an option."""
    for at, word in enumerate(words[:12]):
        if not word.startswith("-"):
            yield structs.replace(command, words=words[at:], assigned=())


def _found(command: Command, words: tuple[str, ...]) -> Within:
    """`find … -exec COMMAND ;`, the file named by the place where the search begins."""
    inner: list[Command] = []
    starts = []
    for word in words:
        if word.startswith(("-", "(", "!")):
            break
        starts.append(word)
    at = 0
    while at < len(words):
        if words[at] in {
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-x",
            "-X",
            "--exec",
            "--exec-batch",
        }:
            end = at + 1
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            for start in starts or ["."]:
                outside = start.startswith(("/", "\x03", "..")) or ANY in start
                named = start if outside and len(start.strip("/.")) < 2 else f"{start}/x{SOME}"
                told = tuple(word.replace("{}", named) for word in words[at + 1 : end])
                inner.append(structs.replace(command, words=told or (ANY,), assigned=()))
            at = end
        at += 1
    return Within(commands=tuple(inner))


def _ssh(command: Command, words: tuple[str, ...]) -> Within:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at][-1] in "bcDEeFIiJLlmOopQRSWw" and len(words[at]) == 2 else 1
    rest = words[at + 1 :]
    return _text(command, " ".join(rest)) if rest else Within()


def _coded(command: Command, name: str, words: tuple[str, ...]) -> Within:
    """What a program is told to do in another language may run anything."""
    plain = re.sub(r"(?<=python)[23][.\d]*$", "", name)
    if plain.endswith("awk") or plain in {"sed", "gsed"}:
        script = awk(words) if plain.endswith("awk") else sed(words)
        return Within() if script.looks else Within(commands=(_unknown(command),))
    expression = CODE.get(name) or CODE.get(plain)
    if expression and any(re.fullmatch(expression, word, re.DOTALL) for word in words):
        return Within(commands=(_unknown(command),))
    operands = [word for word in words if not word.startswith("-") or word == "-"]
    told = command.piped or command.script is not None
    if plain in _STDIN_CODE and told and (not operands or operands[0] in {"-", "/dev/stdin"}):
        return Within(commands=(_unknown(command),))
    return Within()

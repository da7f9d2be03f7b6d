"""Completion for shells: the script a shell reads once, and the words it asks for at each Tab.

The scripts know nothing of ts: they ask `ts completion words SHELL -- WORDS…`, so what is offered
is what this version takes. The answer's first line says what the shell adds of its own (`files`,
`dirs`, `none`); then come candidates, each with a tab and a few words where they help. What is
offered out of a directory is only what has the form of a name: a shell inserts it as it is.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from agent.commands.manual import COMMANDS, FLAGS, PAGES, flags_of

Pair: TypeAlias = tuple[str, str]  # a candidate, and what it is

SHELLS = ("bash", "zsh", "fish")
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
MOST = 500  # candidates of a kind
ABOUT = 80  # characters of what one is

BASH = """\
_ts() {
    local IFS=$'\\n' cur=${COMP_WORDS[COMP_CWORD]} add= word
    [[ $cur == = ]] && cur=
    COMPREPLY=()
    while IFS= read -r word; do
        if [[ -z $add ]]; then add=$word; else COMPREPLY+=("$word"); fi
    done < <(command ts completion words bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case $add in
        files) compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur") ;;
        dirs) compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$cur") ;;
    esac
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _ts ts tianshu
"""
ZSH = """\
#compdef ts tianshu
_ts() {
    local line add= tab=$'\\t'
    local -a said
    while IFS= read -r line; do
        if [[ -z $add ]]; then add=$line; continue; fi
        line=${line//:/\\\\:}
        said+=("${line/$tab/:}")
    done < <(command ts completion words zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( $#said )) && _describe -t ts ts said
    case $add in
        files) _files ;;
        dirs) _files -/ ;;
    esac
}
if [[ $funcstack[1] == _ts ]]; then _ts "$@"; else compdef _ts ts tianshu; fi
"""
FISH = """\
function __ts_complete
    set -l typed (commandline -opc) (commandline -ct)
    set -l said (command ts completion words fish -- $typed[2..-1] 2>/dev/null)
    test (count $said) -gt 1; and printf '%s\\n' $said[2..-1]
    switch "$said[1]"
        case files
            __fish_complete_path (commandline -ct)
        case dirs
            __fish_complete_directories (commandline -ct)
    end
end
complete -c ts -f -a '(__ts_complete)'
complete -c tianshu -f -a '(__ts_complete)'
"""
SCRIPTS = dict(zip(SHELLS, (BASH, ZSH, FISH), strict=True))


def completion(typed: argparse.Namespace) -> int:
    """`ts completion bash|zsh|fish`"""
    from agent.commands.front import answer
    from agent.errors import UsageError, near

    shell = typed.words[0] if typed.words else ""
    if shell not in SCRIPTS:
        wrong = f"there is no completion for {shell!r}{near(shell, SHELLS)}"
        raise UsageError(wrong if shell else "for which shell?", hint=", ".join(SHELLS))
    answer(SCRIPTS[shell])
    return 0


def complete(words: Sequence[str]) -> int:
    """`ts completion words SHELL -- WORDS…`: what may stand in place of the last one."""
    shell, _, *before = [*words, *([""] * (3 - len(words)))]
    *before, last = joined(before) if shell == "bash" else before
    head = last[: last.index("=") + 1] if last.startswith("--") and "=" in last else ""
    add, found = offers(before, last, head)
    lines = [add]
    for word, about in found:
        if word.startswith(last[len(head) :]):
            word = word if shell == "bash" else head + word  # noqa: PLW2901
            lines.append(f"{word}\t{about}" if about and shell != "bash" else word)
    sys.stdout.write("\n".join(dict.fromkeys(lines)) + "\n")
    return 0


def joined(words: Sequence[str]) -> list[str]:
    """Words as bash gives them, which takes `--model=x` for three."""
    whole: list[str] = []
    for word in words:
        follows = bool(whole) and whole[-1].startswith("--")
        if follows and (word == "=" or whole[-1].endswith("=")):
            whole[-1] += word
        else:
            whole.append(word)
    return whole


def offers(before: Sequence[str], last: str, head: str) -> tuple[str, list[Pair]]:
    """What the shell adds, and the candidates for `last`; `head`: `--flag=` where it begins so."""
    if "--" in before:
        return "files", []
    wanted = head.removesuffix("=") or (before[-1] if before else "")
    flag = BY_NAME.get(wanted)
    if flag and takes(flag) and not (flag.get("nargs") == "?" and last.startswith("-")):
        return value(flag)
    said = [*positions(before)]
    command = said[0] if said and said[0] in PAGES else ""
    if last.startswith("-"):
        return "none", [*flags(command)]
    if not said:
        skilled = [(f"/{name}", about) for name, about in skills()] if last[:1] == "/" else []
        return ("files", skilled) if skilled else ("none", [*COMMANDS.items()])
    return placed(command, said[1:]) if command else ("files", [])


def positions(before: Sequence[str]) -> Iterator[str]:
    """The words that are no flag and no value of one."""
    valued = False
    for word in before:
        if not valued and not word.startswith("-"):
            yield word
        flag = BY_NAME.get(word)
        valued = flag is not None and takes(flag) and flag.get("nargs") != "?"


def takes(flag: dict[str, Any]) -> bool:
    """Whether a value follows."""
    return not str(flag.get("action", "")).startswith("store")


def flags(command: str) -> Iterator[Pair]:
    """Those of a command's page first; all of them where there is none."""
    rows = flags_of(command) if command else [flag for group in FLAGS.values() for flag in group]
    for names, about in rows:
        for name in names.split():
            yield name, str(about["help"])
    yield "--help", "the page of the command"


def placed(command: str, said: Sequence[str]) -> tuple[str, list[Pair]]:
    """What may come next behind a command and the words that stand there."""
    words = PAGES[command].words
    own = [(word, "") for word in words if word]
    if not said and "" not in words:
        return "none", own
    first, kinds = (said[0], words.get(said[0])) if said else ("", words[""])
    if kinds is None:
        first, kinds = "", words.get("", ())
    before, said = ([] if said else own), said[bool(first) :]
    if not kinds:
        return "none", before
    many = kinds[-1].startswith("*")
    if len(said) >= len(kinds) and not many:
        return "none", []
    kind = kinds[min(len(said), len(kinds) - 1)].removeprefix("*")
    found = [*KINDS[kind]()][:MOST] if kind in KINDS else []
    return ADDED.get(kind, "none"), before + found


def value(flag: dict[str, Any]) -> tuple[str, list[Pair]]:
    """What a flag takes."""
    if "choices" in flag:
        return "none", [(choice, "") for choice in flag["choices"]]
    match flag.get("metavar"):
        case "DIR":
            return "dirs", []
        case "FILE" | "FILE|JSON":
            return "files", []
        case "ID":
            return "none", [*conversations()]
        case "SERVICE/NAME":
            return "files", [*models()]
    return "none", []


# -- what there is ------------------------------------------------------------------------------


def skills() -> Iterator[Pair]:
    from agent.store import skills as files
    from agent.views.plain import one_line

    for skill in files.load(files.builtin(), Path.home(), Path.cwd(), trusted=False).all:
        yield skill.name, one_line(skill.plan.description, ABOUT)


def runs() -> Iterator[Pair]:
    yield from _logs("runs")


def conversations() -> Iterator[Pair]:
    yield from _logs("sessions")


def _logs(folder: str) -> Iterator[Pair]:
    """The names of what is kept in a folder of `.agent/`, the newest first."""
    from agent.errors import AgentError
    from agent.store import workspace

    try:
        found = workspace.names(workspace.folder(Path.cwd(), folder))
    except AgentError:  # told by the command
        return
    yield from ((name, "") for name in found if PLAIN.fullmatch(name))


def models() -> Iterator[Pair]:
    from agent.providers.services import SERVICES

    for row in SERVICES.values():
        for name in filter(None, (row.model, row.small)):
            yield f"{row.name}/{name}", ""
        yield f"{row.name}/", ""


def services() -> Iterator[Pair]:
    from agent.providers.services import SERVICES

    yield from ((name, "") for name in SERVICES)


def settings() -> Iterator[Pair]:
    from agent.settings import Settings

    yield from ((name, "") for name in Settings.__struct_fields__)


KINDS: dict[str, Callable[[], Iterator[Pair]]] = {
    "skill": skills,
    "plan": skills,
    "run": runs,
    "session": conversations,
    "service": services,
    "setting": settings,
    "command": lambda: iter(COMMANDS.items()),
    "shell": lambda: ((shell, "") for shell in SHELLS),
}
ADDED = {"plan": "files", "file": "files", "text": "files"}  # … and of the shell's own
BY_NAME = {
    name: about for group in FLAGS.values() for names, about in group for name in names.split()
}

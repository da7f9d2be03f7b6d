"""Permission rules as they are written, and what they speak of.

A rule is `tool` or `tool(pattern)`; a pattern is held against a command, a path, an address.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from agent.errors import UsageError, near
from agent.shell.place import tidy
from agent.shell.word import ANY, SOME

ALIASES = {
    "Bash": "bash",
    "Read": "read_file",
    "Edit": "edit_file",
    "Write": "write_file",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Glob": "list_files",
    "Grep": "grep_files",
}  # names that other tools' settings use

EDITS = ("edit_file", "multi_edit", "write_file", "create_directory")
NOTES = (
    "todo_write",
    "report",
    "submit_plan",
    "run_skill",
    "revise_plan",
    "ask_user",
)
WEB = ("web_fetch", "web_search")
READS = ("read_file", "list_files", "grep_files", "get_outline", "find_symbol", "bash_output")
CONTENTS = ("read_file", "grep_files", "get_outline")  # they show what is in files
TOOLS = {*EDITS, *NOTES, *WEB, *READS, "bash", "ask_oracle", "save_memory"}

_RULE = r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?"  # one of a flag's
_JOIN = re.compile(r"""('[^']*'|"[^"]*")|(&&|\|\||[;|&\n])""")
_WRAPPER = re.compile(
    r"(?:!|if|then|elif|else|while|until|do|(?:\S*/)?(?:sudo|doas|env|command|builtin|exec|nohup"
    r"|setsid|time|nice|ionice|stdbuf|xargs|eval|timeout\s+\S+|(?:ba|da|z|k)?sh\s+-\w*c))\s+"
    r"(?:-\S+\s+|\w+=\S*\s+)*"
)


def read(text: str) -> tuple[str, str]:
    """A rule's tool and pattern ("" for none). Raises UsageError for what is no rule."""
    found = re.fullmatch(r"\s*(\*|[A-Za-z_][\w*-]*)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if not found:
        raise UsageError(
            f"{text!r} is no permission rule", hint="write tool or tool(pattern): bash(npm test)"
        )
    if found[2] is not None and not found[2].strip():
        raise UsageError(f"{text!r} has an empty pattern", hint=f"{found[1]} alone means any use")
    return ALIASES.get(found[1], found[1]), (found[2] or "").strip()


def listed(text: str) -> tuple[str, ...]:
    """The rules of one flag: apart by commas or blanks outside parentheses. Raises UsageError.

    >>> listed("bash(git log *), Read")
    ('bash(git log *)', 'Read')
    """
    if not re.fullmatch(rf"[\s,]*(?:{_RULE}(?:[\s,]+|$))*", text):  # bash(npm is not all of bash
        raise UsageError(
            f"{text!r}: a parenthesis is not closed, or stands alone",
            hint="write tool or tool(pattern): bash(npm test)",
        )
    rules = tuple(re.findall(_RULE, text))
    for tool, _ in map(read, rules):
        if tool not in TOOLS and not tool.startswith("mcp__") and "*" not in tool:
            raise UsageError(
                f"a rule names the tool {tool!r}, which there is not{near(tool, TOOLS)}",
                hint="write tool or tool(pattern): bash(npm test)",
            )
    return rules


def subject(name: str, input: dict[str, Any]) -> str:
    """What a pattern is held against: the command, the path, the address."""
    for key in ("command", "path", "url", "directory", "name"):
        if isinstance(value := input.get(key), str):
            return value
    return ""


def literal(text: str) -> str:
    """The pattern that a text alone fits."""
    return re.sub(r"[*?[]", r"[\g<0>]", text)


def same(rule_tool: str, name: str) -> bool:
    """A rule for one editing tool is a rule for all of them; one for reading a file is for all that
    show what is in it."""
    if rule_tool in EDITS and name in EDITS:
        return True
    if rule_tool == "read_file" and name in CONTENTS:
        return True
    return fnmatchcase(name, rule_tool)


_HOST = re.compile(r"(?<![\w-])\w[\w-]{0,62}(?:\.[\w-]{1,63}){1,10}(?![\w-])")


def host(url: str) -> str:
    found = re.match(r"\w+://(?:[^/@?#\\]*@)?([^/:?#\\]+)", url)
    return found[1].lower().rstrip(".") if found else ""


def hosts(text: str) -> frozenset[str]:
    """What in a text may be the name or address of a server, with `www.` and without.

    >>> sorted(hosts("see https://Example.org/a, or 192.0.2.1:80."))
    ['192.0.2.1', 'example.org', 'www.example.org']
    """
    names = {each.lower().removeprefix("www.") for each in _HOST.findall(text)}
    return frozenset(names | {f"www.{each}" for each in names if not each[-1].isdigit()})


def fits(pattern: str, name: str, subject: str) -> bool:
    if not pattern or pattern == "*":
        return True
    if pattern.startswith("domain:"):
        at, wanted = host(subject), pattern.removeprefix("domain:").lower()
        return at == wanted or at.endswith("." + wanted)
    if name == "bash":
        if pattern.endswith(":*"):  # bash(npm run:*), the field's older form
            pattern = pattern[:-2] + " *"
        return fnmatchcase(subject, pattern) or (
            pattern.endswith(" *") and subject == pattern.removesuffix(" *")
        )
    if name in WEB:
        return fnmatchcase(subject, pattern)
    return fnmatchcase(tidy(subject), tidy(pattern))


def bare(part: str) -> Iterator[str]:
    """A command that is not understood: without quotes, without wrappers, by its plain name."""
    yield part
    plain = " ".join(re.sub(r"[\"'\\]", "", part).split())
    while plain:
        plain = re.sub(r"^(?:\w+=\S*\s+)+", "", plain)
        yield plain
        yield re.sub(r"^\S*/(?=\S)", "", plain)
        found = _WRAPPER.match(plain)
        plain = plain[found.end() :] if found else ""


def _joined(command: str) -> list[str]:
    """The commands that a line joins; what stands in quotes is left alone."""
    pieces = [""]
    last = 0
    for found in _JOIN.finditer(command):
        if found[2]:
            pieces[-1] += command[last : found.start()]
            pieces.append("")
            last = found.end()
    pieces[-1] += command[last:]
    return [piece.strip() for piece in pieces if piece.strip()]


def pieces(command: str) -> Iterator[str]:
    """The same, and those inside of substitutions, as well as text tells."""
    for piece in _joined(command):
        for part in re.split(r"\$\(|`|<\(|>\(|[(){}]", piece):
            if part.strip():
                yield part.strip()


def overlap(pattern: str, text: str) -> bool:
    """Whether some text that the marks in `text` may stand for fits a pattern.

    >>> overlap("rm *", "\\x00 x"), overlap("rm *", "git \\x00"), overlap("git push *", "git \\x00")
    (True, False, True)
    """
    pattern = re.sub(r":\*$", " *", pattern)
    if pattern.endswith(" *") and _overlap(pattern.removesuffix(" *"), text):
        return True
    return _overlap(pattern, text)


def _overlap(pattern: str, text: str) -> bool:
    signs = re.findall(r"\*|\?|\[!?\]?[^\]]*\]|[\s\S]", re.sub(r"\*+", "*", pattern))
    marks = re.sub(rf"[{ANY}{SOME}]*{ANY}[{ANY}{SOME}]*", ANY, text)
    reached = [False] * (len(signs) + 1)  # which beginnings of the pattern the text so far may fit
    reached[0] = True

    def skipping(state: list[bool]) -> list[bool]:
        for at, sign in enumerate(signs):
            if sign == "*" and state[at]:
                state[at + 1] = True
        return state

    reached = skipping(reached)
    for mark in marks:
        following = [False] * (len(signs) + 1)
        if mark == SOME:  # no part of a path's directories
            following = [*reached]
            for at, sign in enumerate(signs):
                following[at + 1] = following[at + 1] or (following[at] and sign != "/")
        elif mark == ANY:
            first = next((at for at, yes in enumerate(reached) if yes), None)
            if first is None:
                return False
            following = [at >= first for at in range(len(signs) + 1)]
        else:
            for at, sign in enumerate(signs):
                if reached[at] and sign == "*":
                    following[at] = True
                elif reached[at] and (
                    sign == mark or (len(sign) > 1 and fnmatchcase(mark, sign)) or sign == "?"
                ):
                    following[at + 1] = True
        reached = skipping(following)
    return reached[-1]

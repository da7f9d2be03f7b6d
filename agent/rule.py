"""Permission: whether a tool may be used, as one pure decision with its reason.

A rule is written `tool` or `tool(pattern)`. deny beats ask beats allow, however specific.
What no rule names is decided by the mode. This is the careful first form: a command is allowed by
rules only if it is made of plain words joined by `&&`, `||`, `;` and `|`, and each part is allowed.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from agent.errors import UsageError
from agent.settings import Mode, Rules

Decision: TypeAlias = Literal["allow", "ask", "deny"]

STRICTER: tuple[Decision, ...] = ("allow", "ask", "deny")

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
    "save_memory",
    "todo_write",
    "report",
    "submit_plan",
    "run_skill",
    "revise_plan",
    "ask_user",
)
WEB = ("web_fetch", "web_search")

_RULE = r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?"  # one of a flag's
_WORD = r"""(?:[A-Za-z0-9_./:@%+,^=~-]|'[^']*'|"[^"$`\\]*")+"""
_PART = rf"\s*{_WORD}(?:[ \t]+{_WORD})*[ \t]*"
_PLAIN = re.compile(rf"{_PART}(?:(?:&&|\|\||;|\|){_PART})*")
_JOIN = re.compile(r"""('[^']*'|"[^"]*")|(&&|\|\||[;|&\n])""")


class Verdict(Struct, frozen=True, kw_only=True):
    decision: Decision
    by: str  # mode, rule, step
    because: str  # for the model and the user
    rule: str  # what "always" would allow


def decide(mode: Mode, rules: Rules, name: str, writes: bool, input: dict[str, Any]) -> Verdict:
    """Whether the tool `name` may be used with `input`; `writes`: it may change something.

    A download that is saved is judged as a write to its file as well; the stricter word counts.
    """
    verdict = _decide(mode, rules, name, writes, input)
    if name == "web_fetch" and isinstance(path := input.get("save_to"), str):
        saved = _decide(mode, rules, "write_file", True, {"path": path})
        return max(verdict, saved, key=lambda each: STRICTER.index(each.decision))
    return verdict


def _decide(mode: Mode, rules: Rules, name: str, writes: bool, input: dict[str, Any]) -> Verdict:
    subject = _subject(name, input)
    always = _always(name, subject)

    def verdict(decision: Decision, by: str, because: str) -> Verdict:
        return Verdict(decision=decision, by=by, because=because, rule=always)

    for rule in rules.deny:
        if _touches(rule, name, subject):
            return verdict("deny", "rule", f"the rule {rule} forbids it")
    if mode == "plan" and writes and name not in NOTES:
        return verdict("deny", "mode", "nothing is changed or run in plan mode")
    for rule in rules.ask:
        if _touches(rule, name, subject):
            return verdict("ask", "rule", f"the rule {rule} asks")
    if not writes or name in NOTES or mode == "auto":
        return verdict("allow", "mode", "")
    if _allowed(rules.allow, name, subject):
        return verdict("allow", "rule", "")
    if mode == "accept-edits" and name in EDITS:
        return verdict("allow", "mode", "")
    return verdict("ask", "mode", f"{name} is asked about in {mode} mode")


def read(text: str) -> tuple[str, str]:
    """A rule's tool and pattern ("" for none). Raises UsageError for what is no rule."""
    found = re.fullmatch(r"\s*(\*|[A-Za-z_][\w*-]*)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if not found:
        raise UsageError(
            f"{text!r} is no permission rule", hint="write tool or tool(pattern): bash(npm test)"
        )
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
    for rule in rules:
        read(rule)
    return rules


def _subject(name: str, input: dict[str, Any]) -> str:
    """What a pattern is held against: the command, the path, the address."""
    for key in ("command", "path", "url", "directory", "name"):
        if isinstance(value := input.get(key), str):
            return value
    return ""


def _always(name: str, subject: str) -> str:
    if name == "bash":
        return f"bash({subject})"
    if name in EDITS:
        return "edit_file"
    if name == "web_fetch":
        host = re.sub(r"^\w+://([^/:?#]+).*", r"\1", subject)
        return f"web_fetch(domain:{host})"
    return name


def _same(rule_tool: str, name: str) -> bool:
    """A rule for one editing tool is a rule for all of them."""
    if rule_tool in EDITS and name in EDITS:
        return True
    return fnmatchcase(name, rule_tool)


def _fits(pattern: str, name: str, subject: str) -> bool:
    if not pattern or pattern == "*":
        return True
    if pattern.startswith("domain:"):
        host = re.sub(r"^\w+://(?:[^/@]*@)?([^/:?#]+).*", r"\1", subject).lower().rstrip(".")
        wanted = pattern.removeprefix("domain:").lower()
        return host == wanted or host.endswith("." + wanted)
    if name == "bash":
        pattern = re.sub(r":\*$", " *", pattern)  # bash(npm run:*), the field's older form
        return fnmatchcase(subject, pattern) or (
            pattern.endswith(" *") and subject == pattern.removesuffix(" *")
        )
    return fnmatchcase(subject.removeprefix("./"), pattern.removeprefix("./"))


def _touches(rule: str, name: str, subject: str) -> bool:
    """Whether a deny or ask rule speaks of the call: of any part of a command."""
    tool, pattern = read(rule)
    if not _same(tool, name):
        return False
    return _fits(pattern, name, subject) or (
        name == "bash" and any(_fits(pattern, name, part) for part in _parts(subject))
    )


def _allowed(rules: Iterable[str], name: str, subject: str) -> bool:
    patterns = [pattern for tool, pattern in map(read, rules) if _same(tool, name)]
    if name != "bash" or any(pattern in {"", "*"} for pattern in patterns):
        return any(_fits(pattern, name, subject) for pattern in patterns)
    if subject in patterns:  # what "always" has allowed, to the letter
        return True
    if not _PLAIN.fullmatch(subject) or re.search(r"(^|[;|&]\s*)\w+=|\s-c\b", subject):
        return False
    return all(any(_fits(pattern, name, part) for pattern in patterns) for part in _parts(subject))


def _parts(command: str) -> Iterator[str]:
    """The commands that a line joins, and those inside of substitutions, as well as text tells."""
    pieces = [""]
    last = 0
    for found in _JOIN.finditer(command):
        if found[2]:
            pieces[-1] += command[last : found.start()]
            pieces.append("")
            last = found.end()
    pieces[-1] += command[last:]
    for piece in pieces:
        for part in re.split(r"\$\(|`|<\(|>\(|[(){}]", piece):
            if part.strip():
                yield re.sub(r"^(?:\w+=\S*\s+)+", "", part.strip())

"""Permission: whether a tool may be used, as one pure decision with its reason.

A rule is written `tool` or `tool(pattern)`. deny beats ask beats allow, however specific.
What no rule names is decided by the mode.

A command is allowed by rules only if it is made of plain words joined by `&&`, `||`, `;` and `|`,
and each part is allowed: what is not understood is not allowed. Deny and ask rules look further, at
what quotes, wrappers and substitutions hide; they are a fence against mistakes, not against malice,
which only a sandbox stops.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from agent.errors import UsageError, near
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
    "todo_write",
    "report",
    "submit_plan",
    "run_skill",
    "revise_plan",
    "ask_user",
)
WEB = ("web_fetch", "web_search")
READS = ("read_file", "list_files", "grep_files", "get_outline", "find_symbol", "bash_output")
TOOLS = {*EDITS, *NOTES, *WEB, *READS, "bash", "ask_oracle", "save_memory"}

MOST_COMMAND, MOST_PARTS = 10_000, 50  # characters; longer commands are always asked about

_RULE = r"[^\s,()]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?"  # one of a flag's
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f"
_WORD = rf"""(?:[A-Za-z0-9_./:@%+,^=~-]|'[^'{_CONTROL}]*'|"[^"$`\\{_CONTROL}]*")+"""
_PART = rf"[ \t\n]*{_WORD}(?:[ \t]+{_WORD})*[ \t]*"
_PLAIN = re.compile(rf"{_PART}(?:(?:&&|\|\||;|\|){_PART})*")
_JOIN = re.compile(r"""('[^']*'|"[^"]*")|(&&|\|\||[;|&\n])""")


# Arguments by which a program that mostly looks runs another one, or writes (its manual page).
_RISKY = {
    "awk": r".*(?:system|getline|[|>]).*|-f.*",
    "find": r"-(?:exec|execdir|ok|okdir|delete|fls|fprint.*)",
    "git": r"-c.*|--config-env.*|--exec-path.*|--ext-diff|--textconv|--output.*|-O.*"
    r"|--open-files-in-pager.*|--(?:upload|receive)-pack.*",
    "less": r".*",
    "man": r".*",
    "rg": r"--pre(?:=.*)?|--hostname-bin.*|-z|--search-zip",
    "sed": r"(?!(?:-[nErsuz]+|(?:\d+|\$)?(?:,(?:\d+|\$))?[pdq=]|s([/|,#]).*\1.*\1[gIp0-9]*)$).*",
    "sort": r"-o.*|--output.*|--compress-program.*",
    "ssh": r"-[oF].*",
    "tar": r"--checkpoint-action.*|--to-command.*|-I.*|--use-compress-program.*|-F.*"
    r"|--(?:info|new-volume)-script.*|--rsh-command.*",
}
_WRAPPER = re.compile(
    r"(?:!|if|then|elif|else|while|until|do|(?:\S*/)?(?:sudo|doas|env|command|builtin|exec|nohup"
    r"|setsid|time|nice|ionice|stdbuf|xargs|eval|timeout\s+\S+|(?:ba|da|z|k)?sh\s+-\w*c))\s+"
    r"(?:-\S+\s+|\w+=\S*\s+)*"
)
# What steers this program, other programs or other sessions; asked about even in auto mode.
_KEPT = re.compile(
    r"(?:^|/)(?:\.(?:git|agent|vscode|idea|husky)(?:/|$)|\.env[^/]*$|\.mcp\.json$|\.github/workflows/"
    r"|\.gitlab-ci\.yml$|\.(?:bash|zsh)\w*$|\.profile$|(?:agents|claude|gemini)\.md$)"
)


class Verdict(Struct, frozen=True, kw_only=True):
    decision: Decision
    by: str  # mode, rule, step
    because: str  # for the model and the user
    rule: str  # what "always" would allow; "": it would not help


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
    kept = name in EDITS and _KEPT.search(tidy(subject).casefold()) is not None
    always = _always(name, subject, kept=kept)

    def verdict(decision: Decision, by: str, because: str, rule: str = always) -> Verdict:
        return Verdict(decision=decision, by=by, because=because, rule=rule)

    for rule in rules.deny:
        if _touches(rule, name, subject):
            return verdict("deny", "rule", f"the rule {rule} forbids it")
    if mode == "plan" and writes and name not in NOTES:
        return verdict("deny", "mode", "nothing is changed or run in plan mode")
    for rule in rules.ask:
        if _touches(rule, name, subject):
            return verdict("ask", "rule", f"the rule {rule} asks", rule="")
    if not kept and (not writes or name in NOTES or mode == "auto"):
        return verdict("allow", "mode", "")
    speaking = [rule for rule in rules.allow if not kept or _KEPT.search(read(rule)[1].casefold())]
    uncovered = _uncovered(speaking, name, subject)
    if uncovered is None:
        return verdict("allow", "rule", "")
    if kept:
        return verdict(
            "ask", "mode", f"{subject} steers what is run later; it is always asked about"
        )
    if mode == "accept-edits" and name in EDITS:
        return verdict("allow", "mode", "")
    return verdict("ask", "mode", f"{uncovered or name} is asked about in {mode} mode")


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


def _subject(name: str, input: dict[str, Any]) -> str:
    """What a pattern is held against: the command, the path, the address."""
    for key in ("command", "path", "url", "directory", "name"):
        if isinstance(value := input.get(key), str):
            return value
    return ""


def _always(name: str, subject: str, *, kept: bool) -> str:
    if name == "bash":
        return f"bash({_literal(subject)})"
    if name in EDITS:
        return f"edit_file({_literal(tidy(subject))})" if kept else "edit_file"
    if name == "web_fetch":
        return f"web_fetch(domain:{_host(subject)})"
    return name


def _literal(text: str) -> str:
    """The pattern that a text alone fits."""
    return re.sub(r"[*?[]", r"[\g<0>]", text)


def _same(rule_tool: str, name: str) -> bool:
    """A rule for one editing tool is a rule for all of them."""
    if rule_tool in EDITS and name in EDITS:
        return True
    return fnmatchcase(name, rule_tool)


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


def _host(url: str) -> str:
    found = re.match(r"\w+://(?:[^/@?#\\]*@)?([^/:?#\\]+)", url)
    return found[1].lower().rstrip(".") if found else ""


def _fits(pattern: str, name: str, subject: str) -> bool:
    if not pattern or pattern == "*":
        return True
    if pattern.startswith("domain:"):
        host, wanted = _host(subject), pattern.removeprefix("domain:").lower()
        return host == wanted or host.endswith("." + wanted)
    if name == "bash":
        pattern = re.sub(r":\*$", " *", pattern)  # bash(npm run:*), the field's older form
        return fnmatchcase(subject, pattern) or (
            pattern.endswith(" *") and subject == pattern.removesuffix(" *")
        )
    if name in WEB:
        return fnmatchcase(subject, pattern)
    return fnmatchcase(tidy(subject), tidy(pattern))


def _touches(rule: str, name: str, subject: str) -> bool:
    """Whether a deny or ask rule speaks of the call: of any part of a command."""
    tool, pattern = read(rule)
    if not _same(tool, name):
        return False
    if _fits(pattern, name, subject):
        return True
    return name == "bash" and any(
        _fits(pattern, name, bare) for part in _parts(subject) for bare in _bare(part)
    )


def _bare(part: str) -> Iterator[str]:
    """A command as it stands, without quotes, without wrappers, by its program's plain name."""
    yield part
    plain = " ".join(re.sub(r"[\"'\\]", "", part).split())
    while plain:
        plain = re.sub(r"^(?:\w+=\S*\s+)+", "", plain)
        yield plain
        yield re.sub(r"^\S*/(?=\S)", "", plain)
        found = _WRAPPER.match(plain)
        plain = plain[found.end() :] if found else ""


def _uncovered(rules: Iterable[str], name: str, subject: str) -> str | None:
    """What of a call no allow rule speaks of: a part of a command, or "" for all; None: nothing."""
    patterns = [pattern for tool, pattern in map(read, rules) if _same(tool, name)]
    if name != "bash" or any(pattern in {"", "*"} for pattern in patterns):
        return None if any(_fits(pattern, name, subject) for pattern in patterns) else ""
    if subject in patterns or _literal(subject) in patterns:  # allowed to the letter
        return None
    if len(subject) > MOST_COMMAND or not patterns:
        return ""
    plain = _PLAIN.fullmatch(subject)
    parts = _joined(subject) if plain else list(_parts(subject))
    open = [part for part in parts if not _covered(patterns, part)]
    if open or len(parts) > MOST_PARTS or not plain:
        return open[0] if open else ""
    return None


def _covered(patterns: Iterable[str], part: str) -> bool:
    if re.match(r"\w+=", part) or _risky(part):
        return part in patterns
    return any(_fits(pattern, "bash", part) for pattern in patterns)


def _risky(part: str) -> bool:
    """Whether a program that mostly looks is told to do more."""
    found = re.findall(r"""(?:[^\s"']|'[^']*'|"[^"]*")+""", part)
    program, *words = [re.sub(r"[\"']", "", word) for word in found] or [""]
    program = re.sub(r"^[gm](?=awk|find|sed|sort|tar)", "", program.rpartition("/")[2])
    if program == "sed":  # what follows its script are files
        own = [n for n, word in enumerate(words) if not word.startswith("-")][:1]
        words = words[: own[0] + 1] if own else words
    risky = _RISKY.get(program)
    return risky is not None and any(re.fullmatch(risky, word) for word in words)


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


def _parts(command: str) -> Iterator[str]:
    """The same, and those inside of substitutions, as well as text tells."""
    for piece in _joined(command):
        for part in re.split(r"\$\(|`|<\(|>\(|[(){}]", piece):
            if part.strip():
                yield part.strip()

"""Permission: whether a tool may be used, as one pure decision with its reason.

deny beats ask beats allow, however specific the rules and wherever they come from. What no rule
names is decided by the mode.

A command is judged by the commands that it would run (`agent.shell`): each must be allowed by a
rule, or do no more than the mode leaves free. What is not understood is asked about. Deny and ask
rules see through wrappers and substitutions, and hold for what might turn out to be what they name.
They are a fence around what is written in a line; what a program does by itself only a sandbox
stops.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from agent.rule import (
    CONTENTS,
    EDITS,
    NOTES,
    bare,
    fits,
    host,
    literal,
    overlap,
    pieces,
    read,
    same,
    subject,
)
from agent.settings import Mode, Rules
from agent.shell import programs
from agent.shell.effect import Part, described, survey
from agent.shell.place import Facts, inside, kept, places, secret, tidy
from agent.shell.reach import Needs, needs, reaches
from agent.shell.word import ANY, SOME, known
from agent.shell.word import shown as spelled

Decision: TypeAlias = Literal["allow", "ask", "deny"]

STRICTER: tuple[Decision, ...] = ("allow", "ask", "deny")
NOTHING = Facts()  # known of the world
FEW = 3  # rules that one answer may grant


class Verdict(Struct, frozen=True, kw_only=True):
    decision: Decision
    by: str  # mode, rule, step, guard: what no mode and no rule lets through
    because: str  # for the model and the user
    rule: str  # what "always" would allow; "": it would not help
    grants: tuple[str, ...] = ()  # the rules that `rule` names, where it is more than one
    ends: tuple[str, ...] = (".",)  # where a shell may be after the command
    needs: Needs = Needs()  # what a command is let do of what a sandbox keeps from others


def decide(
    mode: Mode,
    rules: Rules,
    name: str,
    writes: bool,
    input: dict[str, Any],
    facts: Facts = NOTHING,
) -> Verdict:
    """Whether the tool `name` may be used with `input`; `writes`: it may change something.

    A download that is saved is judged as a write to its file as well; the stricter word counts.
    """
    if name == "bash" and isinstance(command := input.get("command"), str):
        commands = _Commands(mode, rules, command, facts)
        return structs.replace(commands.verdict(), ends=commands.ends, needs=commands.needs)
    verdict = _decide(mode, rules, name, writes, input)
    if name == "web_fetch" and writes and (verdict.decision, verdict.by) == ("allow", "mode"):
        at = host(subject(name, input))
        if at not in facts.hosts and not _covered(rules.allow, name, subject(name, input)):
            why = f"{at or 'this'} is a server that neither the user nor a result has named"
            verdict = structs.replace(verdict, decision="ask", because=why)
    if name == "web_fetch" and isinstance(path := input.get("save_to"), str):
        saved = _decide(mode, rules, "write_file", True, {"path": path})
        return max(verdict, saved, key=lambda each: STRICTER.index(each.decision))
    return verdict


def _decide(mode: Mode, rules: Rules, name: str, writes: bool, input: dict[str, Any]) -> Verdict:
    about = _about(name, input)
    special = (name in EDITS and kept(tidy(about))) or (name in CONTENTS and secret(tidy(about)))
    always = _always(name, about, special=special)

    def verdict(decision: Decision, by: str, because: str, rule: str = always) -> Verdict:
        return Verdict(decision=decision, by=by, because=because, rule=rule)

    for rule in rules.deny:
        if _speaks(rule, name, about):
            return verdict("deny", "rule", f"the rule {rule} forbids it")
    if mode == "plan" and writes and name not in NOTES:
        return verdict("deny", "mode", "nothing is changed or run in plan mode")
    for rule in rules.ask:
        if _speaks(rule, name, about):
            return verdict("ask", "rule", f"the rule {rule} asks", rule="")
    if not special and (not writes or name in NOTES or mode == "auto"):
        return verdict("allow", "mode", "")
    if _covered(rules.allow, name, about, special=special):
        return verdict("allow", "rule", "")
    if special:
        return verdict("ask", "mode", _special(name, spelled(about)))
    if mode == "accept-edits" and name in EDITS:
        return verdict("allow", "mode", "")
    return verdict("ask", "mode", f"{name} is asked about in {mode} mode")


def _about(name: str, input: dict[str, Any]) -> str:
    """What a call is about; a search in files that a pattern names is about those files."""
    about = subject(name, input)
    if name == "grep_files" and isinstance(glob := input.get("file_glob"), str) and glob:
        wild = re.sub(r"\{[^}]*\}", ANY, re.sub(r"[*?]|\[[^]]*\]", SOME, glob))
        return tidy(f"{about}/{wild}") if about else tidy(wild)
    return about


def _speaks(rule: str, name: str, about: str) -> bool:
    """Whether a deny or ask rule speaks of a call to a tool other than bash."""
    tool, pattern = read(rule)
    if not same(tool, name):
        return False
    if (ANY in about or SOME in about) and name in CONTENTS:
        bare = not about.rpartition("/")[2].replace(SOME, "")
        return not pattern or (not bare and overlap(tidy(pattern), about))
    return fits(pattern, name, about)


def _always(name: str, about: str, *, special: bool) -> str:
    if name in EDITS:
        return f"edit_file({literal(tidy(about))})" if special else "edit_file"
    if name in CONTENTS and special:
        return f"read_file({literal(tidy(about))})" if known(about) else ""
    if name == "web_fetch":
        return f"web_fetch(domain:{host(about)})"
    return name


def _special(name: str, path: str) -> str:
    if name in EDITS:
        return f"{path} steers what is run later; it is always asked about"
    return f"{path} looks like a secret; it is always asked about"


def _covered(allow: Iterable[str], name: str, about: str, *, special: bool = False) -> bool:
    """Whether an allow rule speaks of a call; what is special must be named by its own kind."""
    for tool, pattern in map(read, allow):
        named = kept(pattern) or secret(pattern)
        if same(tool, name) and fits(pattern, name, about) and (named or not special):
            return True
    return False


# -- commands -------------------------------------------------------------------------------------


class Want(Struct, frozen=True, kw_only=True):
    """What of a command is neither free nor allowed."""

    part: Part
    because: str
    grant: str  # the rule that would allow it; "": none is offered
    always: bool = False  # in every mode


class _Commands:
    """The decision about one command line."""

    def __init__(self, mode: Mode, rules: Rules, command: str, facts: Facts) -> None:
        self._mode, self._rules, self._command, self._facts = mode, rules, command, facts
        self._seen = survey(command, facts)
        self._patterns = [pattern for tool, pattern in map(read, rules.allow) if same(tool, "bash")]
        self._all = any(pattern in {"", "*"} for pattern in self._patterns)

    @property
    def ends(self) -> tuple[str, ...]:
        return self._seen.ends

    @property
    def needs(self) -> Needs:
        return needs(self._seen.parts)

    def verdict(self) -> Verdict:
        """With no sandbox where there should be one, mode auto runs only what looks and what rules
        allow: nobody is there who could be asked, or wants to be."""
        verdict = self._verdict()
        alone = self._facts.box == "none" and self._mode == "auto"
        if not alone or verdict.decision != "ask" or verdict.by == "rule":
            return verdict
        why = "there is no sandbox here, and only `--sandbox off` has auto mode run commands then"
        return _say("deny", "sandbox", why)

    def _verdict(self) -> Verdict:
        for rule in self._rules.deny:
            if self._speaks(rule):
                return _say("deny", "rule", f"the rule {rule} forbids it")
        for part in self._seen.parts:
            if part.kind == "never":
                return _say("deny", "guard", f"{described(part)}: {part.why}")
        if self._mode == "plan" and (more := self._more_than_looks()):
            return _say("deny", "mode", f"nothing is changed or run in plan mode; {more}")
        for rule in self._rules.ask:
            if self._speaks(rule):
                return _say("ask", "rule", f"the rule {rule} asks")
        if self._command in self._patterns or literal(self._command) in self._patterns:
            return _say("allow", "rule", "")  # allowed to the letter
        doubt = self._seen.doubt if self._seen.long or not self._all else ""
        wanting = sorted(self._wanting(), key=lambda want: not want.always)
        unclear = self._unclear()
        if doubt:
            return _say("ask", "mode", f"the command is not understood: {doubt}")
        if wanting:
            because = "; ".join(dict.fromkeys(want.because for want in wanting[:3]))
            return _say("ask", "mode", because, () if unclear else _granted(wanting))
        if unclear:
            return _say("ask", "mode", unclear)
        return _say("allow", "rule" if self._patterns else "mode", "")

    def _more_than_looks(self) -> str:
        """What keeps a command out of plan mode; "" for one that only looks."""
        if self._seen.doubt:
            return f"the command is not understood: {self._seen.doubt}"
        for part in self._seen.parts:
            if part.kind != "free" or part.writes or part.own or part.secrets:
                return f"{described(part)} may do more than look"
        return ""

    def _speaks(self, rule: str) -> bool:
        """Whether a deny or ask rule speaks of any part, or of a file that a part touches."""
        tool, pattern = read(rule)
        if same(tool, "bash"):
            forms = [self._command, *(form for part in self._seen.parts for form in part.forms)]
            if self._seen.doubt:
                forms += [form for piece in pieces(self._command) for form in bare(piece)]
            return any(fits(pattern, "bash", form) for form in forms)
        if not pattern:
            return False
        for part in self._seen.parts:
            files = part.writes if tool in EDITS else part.reads if tool in CONTENTS else ()
            if any(self._means(pattern, path) for path in files):
                return True
        return False

    def _means(self, pattern: str, path: str) -> bool:
        """Whether a file rule's pattern may mean a path of a command."""
        if _speaks(f"read_file({pattern})", "read_file", path):
            return True
        return known(path) and fnmatchcase(f"{self._facts.cwd}/{path}", pattern)

    def _unclear(self) -> str:
        """Which rule that denies might turn out to speak of this; "" for none."""
        for rule in self._rules.deny:
            tool, pattern = read(rule)
            if not same(tool, "bash") or pattern in {"", "*"}:
                continue
            if self._seen.doubt:
                return f"the rule {rule} may forbid it: {self._seen.doubt}"
            for part in self._seen.parts:
                if any(not known(form) and overlap(pattern, form) for form in part.forms):
                    return f"the rule {rule} may forbid what {described(part)} runs"
        return ""

    def _wanting(self) -> Iterator[Want]:
        for part in self._seen.parts:
            covered = self._covers(part)
            if part.kind == "always" and not covered:
                because = f"{described(part)}: {part.why}; it is always asked about"
                yield Want(part=part, because=because, grant=self._line(part), always=True)
            elif self._shut and not covered and part.kind != "always" and reaches(part):
                because = f"{described(part)}: it needs the network, which commands don't have"
                yield Want(part=part, because=because, grant=self._grant(part), always=True)
            elif part.kind == "plain" and not (covered or part.inner or self._contained):
                why = f": {part.why}" if part.why else f" is asked about in {self._mode} mode"
                because = f"{described(part)}{why}"
                yield Want(part=part, because=because, grant=self._grant(part))
            yield from self._reading(part)
            yield from self._writing(part, covered=covered)

    def _reading(self, part: Part) -> Iterator[Want]:
        for path in part.secrets:
            if not _covered(self._rules.allow, "read_file", path, special=True):
                because = f"{described(part)}: {_special('read_file', spelled(path))}"
                grant = f"read_file({literal(path)})" if known(path) else ""
                yield Want(part=part, because=because, grant=grant, always=True)

    def _writing(self, part: Part, *, covered: bool) -> Iterator[Want]:
        for path in part.writes:
            special = path in part.steers
            if _covered(self._rules.allow, "edit_file", path, special=special):
                continue
            if special:
                why = _special("edit_file", spelled(path))
                if not kept(path):
                    why = f"{spelled(path)} may be outside; it is always asked about"
                grant = f"edit_file({literal(path)})" if known(path) and kept(path) else ""
                yield Want(part=part, because=f"{described(part)}: {why}", grant=grant, always=True)
            elif part.kind == "always" and not covered:
                continue  # its own question says it
            elif not (self._auto or self._free(path)) and (part.redirects or not covered):
                because = f"{described(part)}: it would change {spelled(path)}"
                yield Want(part=part, because=because, grant="edit_file")

    @property
    def _auto(self) -> bool:
        """Whether what is not always asked about is free: not without any sandbox, unless the user
        has said so."""
        return self._mode == "auto" and self._facts.box != "none"

    @property
    def _shut(self) -> bool:
        """Whether commands have no network of themselves."""
        return self._facts.box == "on"

    @property
    def _contained(self) -> bool:
        """Whether what a command does by itself needs no question: a sandbox bounds it."""
        return self._facts.box == "on" or self._auto

    def _free(self, path: str) -> bool:
        """Whether a file may be changed without a question in this mode."""
        facts = self._facts
        return (
            self._mode == "accept-edits"
            and facts.box != "none"
            and all(
                inside(place, (facts.cwd, *facts.roots)) for place in places(path, (".",), facts)
            )
        )

    def _covers(self, part: Part) -> bool:
        """Whether an allow rule speaks of a part, and names what it must name."""
        if self._all:
            return True
        if part.exact or (part.kind == "always" and not part.verb):
            return any(form in self._patterns for form in part.forms)
        return any(
            fits(pattern, "bash", part.forms[0])
            and (part.kind != "always" or _names(pattern, part.verb))
            for pattern in self._patterns
        )

    def _grant(self, part: Part) -> str:
        """What "always" would allow of a part: its first words where they tell what it does."""
        plain = not part.exact and not part.why and not part.writes
        stable = programs.prefix(part.forms[0]) if plain else ""
        return f"bash({literal(stable)} *)" if stable else self._line(part)

    def _line(self, part: Part) -> str:
        """The line to the letter, where it is one command; a chain is granted by its parts."""
        alone = len([each for each in self._seen.parts if not each.inner]) == 1
        return f"bash({literal(self._command)})" if alone and ANY not in "".join(part.forms) else ""


def _say(decision: Decision, by: str, because: str, grants: tuple[str, ...] = ()) -> Verdict:
    rule = ", ".join(grants)
    return Verdict(decision=decision, by=by, because=because, rule=rule, grants=grants)


def _granted(wanting: list[Want]) -> tuple[str, ...]:
    """What "always" would allow: one rule, or a few that each stand for a kind of command."""
    grants = tuple(dict.fromkeys(want.grant for want in wanting))
    kinds = all(grant == "edit_file" or grant.endswith(" *)") for grant in grants)
    return grants if all(grants) and (len(grants) == 1 or (kinds and len(grants) <= FEW)) else ()


def _names(pattern: str, verb: str) -> bool:
    """Whether a pattern names at least the words that make a command one that is always asked."""
    fixed = re.split(r"[*?\[]", pattern)[0]
    return fixed.startswith(verb) and fixed[len(verb) :][:1] in {"", " ", ":"}

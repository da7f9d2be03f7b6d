"""Tool → Tool: ask before it is used, limit what it gives back."""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from msgspec import json, structs

from agent.errors import ToolError
from agent.event import Notice, PermissionAsked, PermissionDecided
from agent.permission import NOTHING, STRICTER, Verdict, decide
from agent.plan import Step
from agent.rule import ALIASES, EDITS, NOTES, READS, fits, hosts, read
from agent.seams import Answer, Ask, Emit, Question
from agent.settings import Mode, Rules
from agent.shell.place import Facts, kept, secret, tidy
from agent.shell.word import ANY
from agent.tool import Context, Leave, Outcome, Tool

MOST = 60_000  # characters that a tool may give a model
MOST_DIRS = 7  # directories that shells are thought to be in
PATHS = ("path", "directory", "save_to")  # arguments of tools that are paths
MOST_MADE = 10_000  # files that a run is known to have made
MOST_HOSTS = 10_000  # servers that are known to have been named


class Gate:
    """What may be used, for a whole run or chat, with what the user has allowed "always".

    Any thread may ask it.
    """

    def __init__(self, mode: Mode, rules: Rules, ask: Ask, facts: Facts = NOTHING) -> None:
        """`facts`: where commands run. Raises UsageError for a rule that can't be read."""
        for rule in (*rules.deny, *rules.ask, *rules.allow):
            read(rule)
        self.mode, self._rules, self._ask, self._facts = mode, rules, ask, facts
        self.box: Callable[[], Literal["on", "none", "off"]] = _off  # the sandbox of commands
        self.remember: Callable[[tuple[str, ...]], str] = _unremembered  # for good; what came of it
        self.preview: Callable[[str, dict[str, Any]], str] = _unseen  # the diff of an edit
        self._always: set[str] = set()  # what the user has answered so; part of the rules as well
        self._asking = Lock()  # held while somebody is asked: nothing else waits for that
        self._knowing = Lock()

    def let(
        self,
        name: str,
        writes: bool,
        input: dict[str, Any],
        emit: Emit,
        step: Step | None = None,
        *,
        vouched: bool = False,
        leads: Mapping[str, str] | None = None,
    ) -> Leave:
        """Return, with what a command may do, if the call may be made; raise ToolError with the
        reason if not.

        `vouched`: the user's own word (a command in a plan that the user named), or about nothing
        of the user's (a file in the run's workspace): only rules that deny or ask, and plan mode,
        count. `leads`: where the call's paths lead, by links and such; both are judged.
        """
        inputs = [input, {**input, **leads}] if leads else [input]
        facts = self._facts if step else structs.replace(self._facts, workspaces=())
        if name == "bash":
            facts = structs.replace(facts, box=self.box())
        verdict = max(
            (decide(self.mode, self._rules, name, writes, each, facts) for each in inputs),
            key=lambda each: STRICTER.index(each.decision),
        )
        self._went(verdict.ends)
        for each in inputs:
            if step and (narrower := _narrower(step, name, writes, each, facts, vouched=vouched)):
                verdict = narrower if verdict.decision != "deny" else verdict
        if vouched and (verdict.decision, verdict.by) in {("ask", "mode"), ("deny", "sandbox")}:
            verdict = structs.replace(verdict, decision="allow", by="user")
        leave = Leave(**structs.asdict(verdict.needs), changes=self.mode != "plan")
        if verdict.decision == "allow":
            return leave
        why = verdict.because
        by = verdict.by
        if verdict.decision == "ask":
            question = Question(
                step=step.id if step else "",
                tool=name,
                text=(self.preview(name, input) if name in EDITS else "") or wording(name, input),
                rule=verdict.rule,
                grants=verdict.grants,
            )
            answer = self.approve(question, emit)
            if answer.choice != "no":
                emit(
                    PermissionDecided(tool=name, rule=verdict.rule, decision="allow", by=answer.by)
                )
                return leave
            by = answer.by
            if by == "nobody":
                why = f"{name} needs the user's permission and nobody can be asked now"
            else:
                why = "the user said no" + (f": {answer.words}" if answer.words else "")
        emit(PermissionDecided(tool=name, rule=verdict.rule, decision="deny", by=by, input=input))
        raise ToolError(f"not allowed: {why}")

    @property
    def rules(self) -> Rules:
        """Those that hold now, with what the user has allowed meanwhile."""
        return self._rules

    def rule(self, rules: Rules) -> None:
        """Add some, on the user's word. Raises UsageError for one that can't be read."""
        for each in (*rules.deny, *rules.ask, *rules.allow):
            read(each)
        with self._knowing:
            self._rules += rules

    def usual(self, command: str) -> bool:
        """Whether a command is none of those that are asked about in every mode."""
        input = {"command": command}
        return decide("auto", self._rules, "bash", True, input, self._facts).decision == "allow"

    def owns(self, workspace: Path | None = None, made: Path | None = None) -> None:
        """What the run has to itself, where it may write and remove without a question: its
        workspace, a file that it has made."""
        with self._knowing:
            facts = self._facts
            if workspace is not None and str(workspace) not in facts.workspaces:
                facts = structs.replace(facts, workspaces=(*facts.workspaces, str(workspace)))
            if made is not None and len(facts.made) < MOST_MADE:
                facts = structs.replace(facts, made=facts.made | {str(made)})
            self._facts = facts

    def widen(self, root: Path) -> None:
        """A further directory may be written, on the user's word."""
        with self._knowing:
            self._facts = structs.replace(self._facts, roots=(*self._facts.roots, str(root)))

    def heard(self, text: str) -> None:
        """What the user has said or a tool given back: the servers in it may be asked."""
        new = hosts(text) - self._facts.hosts
        with self._knowing:
            if new and len(self._facts.hosts) < MOST_HOSTS:
                self._facts = structs.replace(self._facts, hosts=self._facts.hosts | new)

    def _went(self, ends: tuple[str, ...]) -> None:
        """A shell keeps its directory from call to call; which of them has gone where isn't known
        here, so each place is judged from wherever one may be."""
        with self._knowing:
            new = [each for each in ends if each not in self._facts.dirs and ANY not in each]
            if new:
                begin, *more = self._facts.dirs
                dirs = (begin, *[*more, *new][-MOST_DIRS:])
                self._facts = structs.replace(self._facts, dirs=dirs)

    def approve(self, question: Question, emit: Emit) -> Answer:
        """The user's answer to a question; what they have allowed "always" is not asked again.

        One question at a time, so that the answer to one can spare the next.
        """
        with self._asking:
            if question.rule in self._always:
                return Answer(choice="yes", by="rule")
            emit(PermissionAsked(tool=question.tool, rule=question.rule))
            answer = self._ask(question)
            if answer.choice == "always" and question.rule:
                self._always.add(question.rule)
                rules = question.grants or (question.rule,)
                self._rules += Rules(allow=rules)
                if answer.kept:
                    emit(Notice(text=self.remember(rules)))
            return answer


def _off() -> Literal["off"]:
    """There is no word on a sandbox."""
    return "off"


def _unseen(name: str, input: dict[str, Any]) -> str:
    return ""


def _unremembered(rules: tuple[str, ...]) -> str:
    return "there are no settings to keep that in; it holds for now"


def _narrower(
    step: Step, name: str, writes: bool, input: dict[str, Any], facts: Facts, *, vouched: bool
) -> Verdict | None:
    """What a step's own limits refuse; None where they don't."""
    if name in NOTES:
        return None

    def refused(because: str) -> Verdict:
        return Verdict(decision="deny", by="step", because=because, rule=name)

    if step.tools is not None and name not in {ALIASES.get(tool, tool) for tool in step.tools}:
        return refused(f"this step may only use {', '.join(step.tools) or 'no tools'}")
    if step.writes == () and name in EDITS and not vouched:
        return refused("this step changes nothing in the project")
    facts = structs.replace(facts, box="off")  # a sandbox makes nothing wider
    for limits in (step.permissions, *step.within):
        own = Rules(deny=limits.deny, allow=limits.allow)
        verdict = decide("default", own, name, writes, input, facts)
        if verdict.decision == "deny":
            return refused(verdict.because)
        if own.allow and verdict.decision == "ask" and not vouched:
            return refused("this step forbids it")
    return None


def guarded(
    tool: Tool,
    gate: Gate,
    emit: Emit,
    step: Step | None = None,
    granted: frozenset[str] = frozenset(),
) -> Tool:
    """The same tool, used only where `gate` lets it, and with its text cut to a bound. `granted`:
    globs of files that the user has said a step may change."""

    def function(context: Context, /, **input: Any) -> Outcome:
        context, leads, fault = led(context, input, reading=tool.name in READS)
        own = context.workspace is not None and all(
            real.is_relative_to(context.workspace) for real in context.led.values()
        )
        gate.owns(context.workspace)
        try:
            leave = gate.let(
                tool.name,
                tool.writes,
                said(tool, input),
                emit,
                step,
                vouched=tool.name in EDITS
                and "path" in leads
                and (own or _agreed(step, granted, input, leads["path"])),
                leads=leads,
            )
        except ToolError as error:
            raise ToolError(f"{error}. Don't try to get round it.") from error
        if fault:  # it may lead somewhere by now, which nobody has judged
            raise fault
        done = tool.function(structs.replace(context, leave=leave), **input)
        outcome = done if isinstance(done, Outcome) else Outcome(text=done)
        if tool.name in EDITS and outcome.text.startswith("created "):
            gate.owns(made=context.inside(input["path"]))
        text = cut(outcome.text, MOST)
        gate.heard(text)
        return structs.replace(outcome, text=text)

    return structs.replace(tool, function=function)


def led(
    context: Context, input: Mapping[str, Any], *, reading: bool
) -> tuple[Context, dict[str, str], ToolError | None]:
    """A context that knows where the paths of a call lead, so that what was judged is what is
    opened; where that is, as rules write it; and why one of them is a path that no tool takes."""
    found, leads, fault = dict[str, Path](), dict[str, str](), None
    for key in PATHS:
        if isinstance(path := input.get(key), str) and path:
            try:
                found[path] = context.inside(path, reading=reading)
                leads[key] = context.shown(found[path])
            except ToolError as error:
                fault = error
    return (structs.replace(context, led=found) if found else context), leads, fault


def _agreed(step: Step | None, granted: frozenset[str], input: dict[str, Any], leads: str) -> bool:
    """Whether the user has seen, with the plan, that this step changes that file; what steers later
    runs, and secrets, are asked about all the same."""
    if step is None or not step.writes:
        return False
    globs = granted.intersection(step.writes)
    return all(
        not (kept(tidy(path)) or secret(tidy(path)))
        and any(fits(glob, "edit_file", path) for glob in globs)
        for path in (str(input["path"]), leads)
    )


def preceded(tool: Tool, first: Callable[[], None]) -> Tool:
    """The same tool, with `first` called before each use."""

    def function(context: Context, /, **input: Any) -> str | Outcome:
        first()
        return tool.function(context, **input)

    return structs.replace(tool, function=function)


def closed(tool: Tool, why: str) -> Tool:
    """The same tool, which is refused whenever it is called."""

    def function(context: Context, /, **input: Any) -> str | Outcome:
        raise ToolError(why)

    return structs.replace(tool, function=function, writes=False)


def all_guarded(
    tools: Mapping[str, Tool],
    gate: Gate,
    emit: Emit,
    step: Step | None = None,
    granted: frozenset[str] = frozenset(),
) -> dict[str, Tool]:
    return {name: guarded(tool, gate, emit, step, granted) for name, tool in tools.items()}


def said(tool: Tool, input: dict[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them, without those left out."""
    usual = {field.name: field.default for field in structs.fields(tool.args)}
    given = {name: value for name, value in input.items() if value != usual.get(name)}
    read: dict[str, Any] = json.decode(json.encode(given))
    return read


def cut(text: str, most: int) -> str:
    """Head and tail of a text longer than `most` characters, with what is left out said."""
    if len(text) <= most:
        return text
    head, tail = most * 3 // 5, most * 2 // 5
    left = len(text) - head - tail
    return f"{text[:head]}\n… {left} characters left out …\n{text[-tail:]}"


def wording(name: str, input: dict[str, Any]) -> str:
    """What a user is shown of a call that is asked about."""
    match input:
        case {"command": str(command), "note": str(note)}:
            return f"{command}\n{note}"
        case {"command": str(command)}:
            return command
        case {"path": str(path), "old_string": str(old), "new_string": str(new)}:
            lines = [f"- {line}" for line in old.splitlines()]
            return "\n".join([path, *lines, *(f"+ {line}" for line in new.splitlines())])
        case {"path": str(path), "content": str(content)}:
            return "\n".join([path, *(f"+ {line}" for line in content.splitlines())])
        case _:
            return json.format(json.encode(input)).decode()

"""Doing one job: a command, an agent with its check, or the question what to do about a failure."""

import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, Struct, structs

from agent.engine import prompt
from agent.engine.answer import Fits, fitting_text, shaped
from agent.engine.budget import (
    Budget,
    Notes,
    StepBudget,
    from_user,
    hurried,
    uncounted,
    within,
)
from agent.engine.chat import SHOWN, converse
from agent.engine.guard import Gate, all_guarded, cut
from agent.engine.reins import Reins
from agent.engine.reuse import Made, Reuse
from agent.engine.revision import decided, no_skill
from agent.engine.speech import Inquire, Report, ask_oracle, ask_user, report
from agent.engine.variable import arguments, values, variables, whole
from agent.errors import (
    AgentError,
    BudgetError,
    FaultError,
    ServiceError,
    SetupError,
    StoppedError,
    ToolError,
)
from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionDecided,
    RevisionFailed,
    Status,
    StepFinished,
    ToolFinished,
    ToolStarted,
    TreeKept,
)
from agent.job import Attempt, Job, Revise
from agent.message import Message, Request, Usage
from agent.plan import Permissions, Plan, Step, items
from agent.seams import Emit, Keep, Models, Provider
from agent.standing import MOST_TEXT
from agent.stop import TIME, Stop
from agent.tool import Context, Leave, Tool

INLINE = 65_536  # characters of a step's text in its event; the whole is a file in the workspace
AGENT_SECONDS = 3600.0  # of one attempt that says no `timeout`
COMMAND_SECONDS = 1800.0


class Ran(Protocol):
    """How a command ended."""

    @property
    def code(self) -> int: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def whole(self) -> bool:
        """Whether stdout is, or its middle is left out."""
        ...


class Command(Protocol):
    """Runs a line with `bash -c` in a fresh shell without input, `args` being $1, $2, …"""

    def __call__(
        self,
        command: str,
        /,
        *,
        cwd: Path,
        env: Mapping[str, str],
        stop: Stop,
        timeout: float | None,
        args: tuple[str, ...],
        leave: Leave,
    ) -> Ran: ...


Moment: TypeAlias = Literal["before", "after"]


def unkept(stop: Stop, emit: Emit) -> str:
    """A Keep that keeps nothing."""
    return ""


class Worker(Struct, frozen=True, kw_only=True):
    """What a job is done with. It is a `Work`; all its workers share it and none changes it."""

    models: Models
    tools: Mapping[str, Tool]
    gate: Gate
    context: Context  # the run's; each agent has a fresh one
    command: Command
    inquire: Inquire
    fits: Fits
    budget: Budget  # the run's
    system: str  # of a step
    revise_system: str
    workspace: Path
    max_turns: int
    vouched: frozenset[str]  # commands that are the user's own word: of a plan that they named
    granted: frozenset[str] = frozenset()  # globs of files that steps may change, likewise
    reuse: Reuse | None = None  # None: nothing is, nor can be later
    find: Callable[[str], Plan] = no_skill  # the skill of a name, for the steps of a revision
    keep: Keep = unkept
    reins: Reins = msgspec.field(default_factory=Reins)  # what the user says meanwhile

    def __call__(self, job: Job, emit: Emit) -> Event:
        """Do the job. What is no step's failure (a service, a budget, a stop) sets the stop flag of
        the whole run, and the step is cancelled."""
        began = monotonic()
        spent = _Spent(job.step.id, emit)
        try:
            if isinstance(job, Revise):
                provider = self.models("main", self.context.stop, spent.emit)
                return decided(job, provider, self.revise_system, self.find)
            done = self.attempt(job, spent.emit)
        except StoppedError as error:
            done = self.cancelled(job, str(error))
        except (ServiceError, SetupError) as error:
            if isinstance(job, Revise) and not job.step.id:  # the plan goes on as it is
                return RevisionFailed(because=worded(error))
            self.context.stop.set(error.exit_code, f"{error}\n{error.hint}".strip())
            done = self.cancelled(job, str(error))
        except BudgetError as error:
            done = self.out_of_budget(job, error)
        except AgentError as error:
            done = StepFinished(step=job.step.id, status="failed", summary=worded(error))
        except Exception as error:  # noqa: BLE001 - the outer wall: a bug must not lose the others' work
            spent.emit(Notice(text="".join(traceback.format_exception(error))))
            what = f"a fault of ts: {type(error).__name__}: {error}"
            self.context.stop.set(FaultError.exit_code, what)
            done = self.cancelled(job, what)
        if isinstance(job, Revise):
            if not self.context.stop.is_set:
                return RevisionFailed(step=job.step.id or UNSET, because=done.summary)
            return Notice(
                step=job.step.id or UNSET, text=f"the revision was interrupted: {done.summary}"
            )
        if spent.refused and done.status in {"done", "failed"}:
            why = "a permission was needed and nobody could be asked"
            said = done.error or done.summary
            done = structs.replace(done, status="failed", error=f"{why}\n{said}".strip())
        return structs.replace(
            done, seconds=round(monotonic() - began, 3), usage=spent.usage, step=job.step.id
        )

    def cancelled(self, job: Job, why: str) -> StepFinished:
        return StepFinished(step=job.step.id, status="cancelled", summary=why)

    def out_of_budget(self, job: Job, error: BudgetError) -> StepFinished:
        if self.budget.fault:
            self.context.stop.set(error.exit_code, worded(error))
            return self.cancelled(job, str(error))
        return StepFinished(step=job.step.id, status="failed", summary=worded(error))

    # -- an attempt --------------------------------------------------------------------------

    def attempt(self, job: Attempt, emit: Emit) -> StepFinished:
        step = job.step
        seconds = step.timeout or (AGENT_SECONDS if step.run is None else COMMAND_SECONDS)
        env = {**self.context.env, **variables(job, self.workspace)}
        context = self.context.fresh(self.context.stop.child(seconds), env=env)
        self.reins.bind(step.id, context.stop)
        made = self.reuse.made(job) if self.reuse and not job.said else None
        before = self.tree(step, "before", emit)
        try:
            done = self.reused(job, made, context, emit)
            if done is None:
                done = self.run(job, context, emit) if step.run else self.agent(job, context, emit)
                done = self.checked(job, context, done, emit)
        except StoppedError:
            if self.context.stop.is_set or context.stop.why != TIME:
                raise
            done = failed(f"time ran out after {seconds:g} s")
        finally:
            context.close()
            self.tree(step, "after", emit, before)
        summary = self.kept(job, done.summary)
        if self.reuse and done.status == "done":
            done = self.reuse.sealed(job, made if summary == done.summary else None, done)
        return structs.replace(done, summary=summary)

    def reused(
        self, job: Attempt, made: Made | None, context: Context, emit: Emit
    ) -> StepFinished | None:
        """How an earlier run did the step, if all is as it was; its check is run again."""
        if not (made and self.reuse and self.reuse.wanted(job)):
            return None
        for done in self.reuse.found(job, made):
            if not (job.step.verify and self.verified(job, context, emit)):
                return done
            self.reuse.earlier.dropped(done.outputs)
            emit(Notice(text="what an earlier run left does not pass its check: it is done again"))
            break
        return None

    def tree(self, step: Step, moment: Moment, emit: Emit, before: str = "") -> str:
        """Tell of the working tree around a step that may write; what stood before it, or ""."""
        if step.writes == () or (moment == "after" and not before):
            return ""
        tree = self.keep(self.context.stop, emit)
        if tree:
            emit(TreeKept(tree=tree, moment=moment))
        return tree

    def run(self, job: Attempt, context: Context, emit: Emit) -> StepFinished:
        assert job.step.run, "a run step has a command"
        ran = self.shell(job, job.step.run, context, emit)
        if isinstance(ran, str):
            return StepFinished(status="failed", error=ran)
        if how := misfortune(ran, context):
            error = "\n".join(filter(None, (both(ran), how)))
            return StepFinished(status="failed", summary=ran.stdout, error=error)
        if not ran.whole and gone_over(job):
            error = "its output is too long to go over the items of it, and was cut: print less"
            return StepFinished(status="failed", summary=ran.stdout, error=error)
        return StepFinished(status="done", summary=ran.stdout)

    def shell(self, job: Attempt, command: str, context: Context, emit: Emit) -> Ran | str:
        """Run a command of the plan; a text if it is not allowed."""
        step = job.step
        self.gate.owns(context.workspace)
        try:
            leave = self.gate.let(
                "bash",
                True,
                {"command": command, **told_of(command, self.context.env)},
                emit,
                commanding(step),
                vouched=command in self.vouched,
            )
        except ToolError as error:
            return f"{command}\n{error}"
        id = f"{step.id}.{job.number}"
        emit(ToolStarted(id=id, name="bash", input={"command": command}))
        began = monotonic()
        ran = self.command(
            command,
            cwd=self.context.cwd,
            env=context.env,
            stop=context.stop,
            timeout=step.timeout or COMMAND_SECONDS,
            args=arguments(step),
            leave=leave,
        )
        emit(
            ToolFinished(
                id=id,
                name="bash",
                ok=not misfortune(ran, context),
                output=cut(both(ran), SHOWN),
                seconds=round(monotonic() - began, 3),
            )
        )
        if context.stop.why != TIME:
            context.stop.check()
        self.context.stop.check()
        return ran

    def agent(self, job: Attempt, context: Context, emit: Emit) -> StepFinished:
        step = job.step
        turns = step.max_turns or self.max_turns
        notes = Notes(turns, lambda: self.reins.words(step.id))
        own = StepBudget(step.max_tokens, step.max_cost_usd)

        def spent(event: Event) -> None:
            """Count each call that was paid for, those for one reply and for others as well."""
            if isinstance(event, ModelCalled) and (
                warning := own.add(event.usage.total, event.cost_usd)
            ):
                notes.add(warning)
            emit(event)

        def models(name: str, stop: Stop, emit: Emit) -> Provider:
            return within(self.models(name, stop, spent), own, guess=uncounted)

        tools = all_guarded(self.tools, self.gate, emit, step, self.granted)
        extra = (
            report,
            ask_user(self.inquire, step.id),
            ask_oracle(models, context.stop, emit),
        )
        tools |= {tool.name: tool for tool in extra}
        provider = hurried(models(step.model or "main", context.stop, emit), notes)
        request = Request(
            system=self.system,
            messages=(
                Message(
                    role="user",
                    text=prompt.step(job, values(job, self.workspace), str(self.workspace)),
                ),
            ),
            tools=tuple(tool.spec for tool in tools.values()),
        )
        talk = converse(
            request,
            provider,
            tools,
            context,
            emit,
            turns=turns,
        )
        while words := self.reins.words(step.id):  # said after its last call
            told = Message(role="user", text="\n\n".join(map(from_user, words)))
            request = structs.replace(talk.request, messages=(*talk.request.messages, told))
            talk = converse(request, provider, tools, context, emit, turns=turns)
        if talk.ended_by is None:
            text = self.shaped(job, talk.request, talk.reply.message.text, provider)
            return StepFinished(status="done", summary=text)
        said = msgspec.convert(report.read(talk.ended_by.input), Report, from_attributes=True)
        status: Status = "done" if said.status == "done" else "failed"
        summary = said.summary if said.status != "blocked" else f"blocked: {said.summary}"
        if status == "done":
            summary = self.shaped(job, talk.request, summary, provider)
        return StepFinished(status=status, summary=summary, outputs=tuple(said.outputs or ()))

    def shaped(self, job: Attempt, request: Request, text: str, provider: Provider) -> str:
        """The text as the JSON that it has to be, asked for once more where it is none."""
        schema = job.step.result.schema if job.step.result else None
        if schema is None and any(
            (each.foreach or "").endswith(".items") for each in gone_over(job)
        ):
            schema = {"type": "array"} if text.strip() else None
        if schema is None:
            return text
        return shaped(request, text, schema, provider, self.fits)[0]

    # -- what makes it done ------------------------------------------------------------------

    def checked(
        self, job: Attempt, context: Context, done: StepFinished, emit: Emit
    ) -> StepFinished:
        """The same end, or a failure: an output is missing, its text misfits, its check fails."""
        step = job.step
        if done.status != "done":
            return done
        there, missing = self.outputs(step, done.outputs)
        why = f"did not leave in the workspace: {', '.join(missing)}" if missing else ""
        if (
            step.result
            and not why
            and (fault := fitting_text(done.summary, step.result.schema, self.fits)[1])
        ):
            why = f"its text does not fit the schema: {fault}"
        if step.do and not why and (fault := no_items(job, done.summary)):
            why = f"another step goes over the items of its text, but {fault}"
        if step.verify and not why:
            why = self.verified(job, context, emit)
        if not why:
            return structs.replace(done, outputs=there)
        said = f"\n\nIts agent said: {done.summary}" if step.do else ""
        return structs.replace(done, status="failed", outputs=there, error=f"{why}{said}")

    def verified(self, job: Attempt, context: Context, emit: Emit) -> str:
        """How the step's check fails; "" if it passes."""
        verify = job.step.verify or ""
        ran = self.shell(job, verify, context, emit)
        if isinstance(ran, str):
            return ran
        how = misfortune(ran, context)
        return f"its check failed ({how}): {verify}\n{both(ran)}" if how else ""

    def outputs(self, step: Step, said: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
        """Absolute paths of the files in the workspace, and the declared ones that are missing."""
        there, missing = [], []
        for name in dict.fromkeys((*step.outputs, *said)):
            if path := self.left(name):
                there.append(path)
            elif name in step.outputs:
                missing.append(name)
        return tuple(dict.fromkeys(there)), missing

    def left(self, name: str) -> str:
        """The absolute path of a file that is in the workspace; "" if it is not."""
        try:
            path = (self.workspace / name).resolve()
            there = path.is_relative_to(self.workspace) and path.exists()
        except (OSError, ValueError, RuntimeError):  # a name that can be none
            return ""
        return str(path) if there else ""

    def kept(self, job: Attempt, text: str) -> str:
        """The text of an end; of a long one head and tail, with the whole in a file, unless a
        foreach goes over it."""
        most = MOST_TEXT if gone_over(job) else INLINE
        if len(text) <= most:
            return text
        path = self.workspace / f".{job.step.id[-100:]}.text"
        try:
            path.unlink(missing_ok=True)  # an earlier attempt's, or a link to somewhere else
            with path.open("x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(whole(text))
        except OSError as error:
            return cut(text, most - 200) + f"\n(the whole could not be kept: {error})"
        return cut(text, most - 200) + f"\n(whole: {path})"


class _Spent:
    """Gives events their step, counts what it has used, and sees what nobody could allow it."""

    def __init__(self, step: str, emit: Emit) -> None:
        self.step, self.usage, self.refused, self._emit = step, Usage(), False, emit

    def emit(self, event: Event) -> None:
        match event:
            case ModelCalled(usage=usage):
                self.usage += usage
            case PermissionDecided(decision="deny", by="nobody" | "sandbox"):
                self.refused = True
            case _:
                pass
        self._emit(structs.replace(event, step=self.step or UNSET))


def commanding(step: Step) -> Step:
    """The step as it limits the commands that its plan has for it: what its agent may use, and
    what that agent is allowed without being asked, is not about them; what is denied is."""
    permissions = Permissions(deny=step.permissions.deny)
    return structs.replace(step, tools=None, permissions=permissions)


CHECKS = re.compile(r"\bTS_(?:TEST|LINT|FORMAT|TYPES)\b")  # they hold the project's own commands


def told_of(command: str, env: Mapping[str, str]) -> dict[str, str]:
    """The project's own commands that a command runs, for whoever is asked about it."""
    names = [name for name in dict.fromkeys(CHECKS.findall(command)) if name in env]
    return {"note": "\n".join(f"# {name} is: {env[name]}" for name in names)} if names else {}


def gone_over(job: Attempt) -> list[Step]:
    """The steps that are done for each item of its text."""
    return [each for each in job.steps if each.source == job.step.id]


def no_items(job: Attempt, text: str) -> str:
    """Why a foreach can't go over the text; "" if it can, or none does."""
    for each in gone_over(job):
        try:
            items(each, text)
        except ValueError as error:
            return str(error)
    return ""


def misfortune(ran: Ran, context: Context) -> str:
    """How a command ended, if not well."""
    if ran.timed_out or context.stop.why == TIME:
        return "time ran out"
    return f"exit code {ran.code}" if ran.code else ""


def failed(why: str) -> StepFinished:
    return StepFinished(status="failed", summary=why)


def worded(error: AgentError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def both(ran: Ran) -> str:
    """What a command printed, stdout before stderr, cut to a bound."""
    parts = [ran.stdout.rstrip(), ran.stderr.rstrip()]
    return cut("\n".join(filter(None, parts)), INLINE // 2)

"""Doing one job: a command, an agent with its check, or the question what to do about a failure."""

import re
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from agent.engine import prompt
from agent.engine.budget import Budget, within
from agent.engine.chat import SHOWN, converse
from agent.engine.guard import Gate, all_guarded, cut
from agent.engine.speech import (
    Inquire,
    LooseRevision,
    Report,
    ask_oracle,
    ask_user,
    own_words,
    report,
    revise_plan,
)
from agent.errors import (
    AgentError,
    BudgetError,
    PlanError,
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
    PlanRevised,
    RevisionFailed,
    Status,
    StepFinished,
    ToolFinished,
    ToolStarted,
)
from agent.message import Message, Request, Usage
from agent.plan import Plan, Step, checked, convert
from agent.seams import Emit, Models
from agent.state import Attempt, Job, Revise
from agent.stop import TIME, Stop
from agent.tool import Context, Tool

FAULT_OF_OURS = 70  # exit code
INLINE = 65_536  # characters of a step's text in its event; the whole is a file in the workspace
VARIABLE = 100_000  # bytes of one shell variable (Linux takes 131,072 in one, execve(2))
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
    ) -> Ran: ...


Fits = Callable[[Any, dict[str, Any]], str]
"""Why a value does not fit a JSON schema; "" if it does."""


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

    def __call__(self, job: Job, emit: Emit) -> Event:
        """Do the job. What is no step's failure (a service, a budget, a stop) sets the stop flag of
        the whole run, and the step is cancelled."""
        began = monotonic()
        spent = _Spent(job.step.id, emit)
        try:
            if isinstance(job, Revise):
                return self.revise(job, spent.emit)
            done = self.attempt(job, spent.emit)
        except StoppedError as error:
            done = self.cancelled(job, str(error))
        except (ServiceError, SetupError) as error:
            self.context.stop.set(error.exit_code, f"{error}\n{error.hint}".strip())
            done = self.cancelled(job, str(error))
        except BudgetError as error:
            done = self.out_of_budget(job, error)
        except AgentError as error:
            done = StepFinished(step=job.step.id, status="failed", summary=worded(error))
        except Exception as error:  # noqa: BLE001 - the outer wall: a bug must not lose the others' work
            spent.emit(Notice(text="".join(traceback.format_exception(error))))
            self.context.stop.set(FAULT_OF_OURS, f"a fault of ts: {type(error).__name__}: {error}")
            done = self.cancelled(job, f"a fault of ts: {type(error).__name__}: {error}")
        if isinstance(job, Revise):
            return Notice(step=job.step.id, text=f"the revision was interrupted: {done.summary}")
        if spent.refused and done.status == "done":
            done = failed(f"a permission was needed and nobody could be asked\n{done.summary}")
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
        env = {**self.context.env, **self.variables(job)}
        context = self.context.fresh(self.context.stop.child(seconds), env=env)
        try:
            done = self.run(job, context, emit) if step.run else self.agent(job, context, emit)
            if done.status == "done":
                done = self.checked(job, context, done, emit)
        except StoppedError:
            if self.context.stop.is_set or context.stop.why != TIME:
                raise
            done = failed(f"time ran out after {seconds:g} s")
        finally:
            context.close()
        return structs.replace(done, summary=self.kept(step, done.summary))

    def run(self, job: Attempt, context: Context, emit: Emit) -> StepFinished:
        assert job.step.run, "a run step has a command"
        ran = self.shell(job, job.step.run, context, emit)
        if isinstance(ran, str):
            return failed(ran)
        if ran.timed_out or ran.code:
            how = f"time ran out: {job.step.run}" if ran.timed_out else f"exit code {ran.code}"
            error = "\n".join(filter(None, (both(ran), how)))
            return StepFinished(status="failed", summary=ran.stdout, error=error)
        return StepFinished(status="done", summary=ran.stdout)

    def shell(self, job: Attempt, command: str, context: Context, emit: Emit) -> Ran | str:
        """Run a command of the plan; a text if it is not allowed."""
        step = job.step
        try:
            self.gate.let(
                "bash", True, {"command": command}, emit, step, vouched=command in self.vouched
            )
        except ToolError as error:
            return f"{command}\n{error}"
        given = step.given
        words = [variable(given[str(n)]) for n in range(1, len(given) + 1) if str(n) in given]
        id = f"{step.id}.{job.number}"
        emit(ToolStarted(id=id, name="bash", input={"command": command}))
        began = monotonic()
        ran = self.command(
            command,
            cwd=self.context.cwd,
            env=context.env,
            stop=context.stop,
            timeout=step.timeout or COMMAND_SECONDS,
            args=tuple(words),
        )
        emit(
            ToolFinished(
                id=id,
                name="bash",
                ok=not ran.code and not ran.timed_out,
                output=cut(both(ran), SHOWN),
                seconds=round(monotonic() - began, 3),
            )
        )
        context.stop.check()
        return ran

    def values(self, job: Attempt) -> dict[str, str]:
        """What `$name` stands for: arguments, the workspace, results and outputs of the needed."""
        values = {"TS_WORKSPACE": str(self.workspace), **job.step.given}
        for told in job.results:
            name = re.sub(r"[^A-Z0-9]", "_", told.id.upper())
            values[f"TS_STEP_{name}"] = told.text
            values[f"TS_OUTPUTS_{name}"] = "\n".join(told.outputs)
        return {key: variable(value) for key, value in values.items()}

    def variables(self, job: Attempt) -> dict[str, str]:
        """The same for shells, where a name has no `-`, and $1, $2, … are arguments."""
        values = self.values(job)
        return {key.replace("-", "_"): value for key, value in values.items() if not key.isdigit()}

    def agent(self, job: Attempt, context: Context, emit: Emit) -> StepFinished:
        step = job.step
        tools = all_guarded(self.tools, self.gate, emit, step)
        extra = (
            report,
            ask_user(self.inquire, step.id),
            ask_oracle(self.models, context.stop, emit),
        )
        tools |= {tool.name: tool for tool in extra}
        provider = self.models(step.model or "main", context.stop, emit)
        own = Budget(step.max_tokens, step.max_cost_usd)
        request = Request(
            system=self.system,
            messages=(
                Message(role="user", text=prompt.step(job, self.values(job), str(self.workspace))),
            ),
            tools=tuple(tool.spec for tool in tools.values()),
        )
        talk = converse(
            request,
            within(provider, own),
            tools,
            context,
            emit,
            turns=step.max_turns or self.max_turns,
        )
        if talk.ended_by is None:
            return StepFinished(status="done", summary=talk.reply.message.text)
        said = msgspec.convert(report.read(talk.ended_by.input), Report, from_attributes=True)
        status: Status = "done" if said.status == "done" else "failed"
        summary = said.summary if said.status != "blocked" else f"blocked: {said.summary}"
        return StepFinished(status=status, summary=summary, outputs=tuple(said.outputs or ()))

    # -- what makes it done ------------------------------------------------------------------

    def checked(
        self, job: Attempt, context: Context, done: StepFinished, emit: Emit
    ) -> StepFinished:
        """The same end, or a failure: an output is missing, its text misfits, its check fails."""
        step = job.step
        there, missing = self.outputs(step, done.outputs)
        if missing:
            return failed(f"did not leave in the workspace: {', '.join(missing)}\n{done.summary}")
        if step.result and (why := self.misfit(done.summary, step.result.schema)):
            return failed(f"its text does not fit the schema: {why}\n{done.summary}")
        if step.verify:
            ran = self.shell(job, step.verify, context, emit)
            if isinstance(ran, str):
                return failed(ran)
            if ran.timed_out or ran.code:
                how = "time ran out" if ran.timed_out else f"exit code {ran.code}"
                said = f"\n\nIts agent said: {done.summary}" if step.do else ""
                return failed(f"its check failed ({how}): {step.verify}\n{both(ran)}{said}")
        return structs.replace(done, outputs=there)

    def outputs(self, step: Step, said: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
        """Absolute paths of the files in the workspace, and the declared ones that are missing."""
        there, missing = [], []
        for name in dict.fromkeys((*step.outputs, *said)):
            path = (self.workspace / name).resolve()
            if path.is_relative_to(self.workspace) and path.exists():
                there.append(str(path))
            elif name in step.outputs:
                missing.append(name)
        return tuple(there), missing

    def misfit(self, text: str, schema: dict[str, Any]) -> str:
        try:
            value = msgspec.json.decode(unfenced(text))
        except msgspec.DecodeError as error:
            return f"no JSON: {error}"
        return self.fits(value, schema)

    def kept(self, step: Step, text: str) -> str:
        """The text of an end; of a long one head and tail, with the whole in a file."""
        if len(text) <= INLINE:
            return text
        path = self.workspace / f"{step.id}.txt"
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        return cut(text, INLINE - 200) + f"\n(whole: {path})"

    # -- a revision --------------------------------------------------------------------------

    def revise(self, job: Revise, emit: Emit) -> Event:
        tool = revise_plan()
        provider = self.models("main", self.context.stop, emit)
        request = Request(
            system=self.revise_system,
            messages=(Message(role="user", text=prompt.revision(job)),),
            tools=(tool.spec,),
            must=tool.name,
        )
        try:
            reply = provider(request, lambda piece: None)
        except AgentError as error:
            if isinstance(error, ServiceError | SetupError | BudgetError | StoppedError):
                raise
            return RevisionFailed(step=job.step.id, because=worded(error))
        calls = [call for call in reply.message.calls if call.name == tool.name]
        if not calls:
            return RevisionFailed(step=job.step.id, because="the model called no revise_plan")
        try:
            if calls[0].fault:
                raise ToolError(calls[0].fault)
            words = tool.read(calls[0].input)
            assert isinstance(words, LooseRevision), "it is what revise_plan is read as"
            return revised(job, words)
        except (ToolError, PlanError, msgspec.ValidationError) as error:
            return RevisionFailed(step=job.step.id, because=f"no valid revision: {error}")


def revised(job: Revise, words: LooseRevision) -> PlanRevised:
    """The event of a revision. Raises PlanError, ValidationError for new steps that can't run."""
    plan = None
    if words.action == "retry" and words.do.strip() and job.step.do is not None:
        again = structs.replace(job.step, do=words.do)
        plan = Plan(
            goal=job.goal,
            steps=tuple(again if step.id == again.id else step for step in job.steps),
        )
    if words.action == "replace":
        kept = {step.id for step in job.kept}
        new = convert({"steps": own_words(words.steps)}).steps
        fresh = tuple(step for step in new if step.id not in kept)
        if not fresh:
            raise PlanError(["it names no step that is still to be done"])
        plan = checked(Plan(goal=job.goal, steps=(*job.kept, *fresh)))
    return PlanRevised(step=job.step.id, action=words.action, plan=plan, because=words.because)


class _Spent:
    """Gives events their step, counts what it has used, and sees what nobody could allow it."""

    def __init__(self, step: str, emit: Emit) -> None:
        self.step, self.usage, self.refused, self._emit = step, Usage(), False, emit

    def emit(self, event: Event) -> None:
        match event:
            case ModelCalled(usage=usage):
                self.usage += usage
            case PermissionDecided(decision="deny", by="nobody"):
                self.refused = True
            case _:
                pass
        self._emit(structs.replace(event, step=self.step))


def failed(why: str) -> StepFinished:
    return StepFinished(status="failed", summary=why)


def worded(error: AgentError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def both(ran: Ran) -> str:
    """What a command printed, stdout before stderr, cut to a bound."""
    parts = [ran.stdout.rstrip(), ran.stderr.rstrip()]
    return cut("\n".join(filter(None, parts)), INLINE // 2)


def variable(text: str) -> str:
    """A text as a shell variable can hold it."""
    return (
        text.encode(errors="surrogateescape")[:VARIABLE].decode(errors="ignore").replace("\0", "")
    )


def unfenced(text: str) -> str:
    """JSON without the Markdown fence that models put round it."""
    found = re.fullmatch(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", text, re.DOTALL)
    return found[1] if found else text

"""Runs: a plan begun in a log of its own, or gone on with from one, and how that ends."""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from time import monotonic

import msgspec
from msgspec import Struct, structs

from agent.app import App
from agent.engine import prompt
from agent.engine.fitting import Fit
from agent.engine.pool import ExecutorPool
from agent.engine.reins import Reins
from agent.engine.reuse import Reuse, skill_of
from agent.engine.run import drive
from agent.engine.step import CHECKS, Worker
from agent.errors import (
    AgentError,
    BudgetError,
    ConsentError,
    ServiceError,
    SetupError,
    UsageError,
)
from agent.event import (
    Event,
    PlanCreated,
    RunFinished,
    RunStarted,
    RunStatus,
    Source,
    TreeKept,
)
from agent.plan import Plan, Step
from agent.seams import Emit, Provider
from agent.state import State
from agent.stop import Stop
from agent.store import log, workspace
from agent.store import skills as skillfiles
from agent.store.bulk import Bulk
from agent.store.earlier import Earlier
from agent.version import __version__


class Ended(Struct, frozen=True, kw_only=True):
    """How a command has ended, for its exit code and for JSON."""

    code: int
    answer: str
    state: State | None = None  # None: no plan was run
    run: str | None = None
    error: AgentError | None = None


def untold(id: str) -> None:
    """Hears which run has begun, and does nothing."""


def run_skill(
    app: App, skill: skillfiles.Skill, line: str, begun: Callable[[str], None] = untold
) -> Ended:
    """Run a skill with the words of a line."""
    app.notice(f"skill {skill.name} ({skill.source})")
    return run(
        app, app.ready(skillfiles.asked(skill, line)), "skill", vouched=skill.trusted, begun=begun
    )


def run(
    app: App,
    plan: Plan,
    source: Source,
    *,
    vouched: bool,
    begun: Callable[[str], None] = untold,
) -> Ended:
    """Run a plan that is ready, in a log of its own, to its end; `begun` hears its id.

    `vouched`: its commands are the user's own word, and run without being asked about.
    """
    asks = asked(plan.steps)  # and what that needs is read before anything is written
    model = app.main_model if asks else ""
    if not (source == "model" and vouched):  # else the user has seen it, and said yes
        app.notice(app.forecast(plan), warns=False)
    system = app.system(prompt.STEP) if asks else ""
    place = workspace.begun(app.cwd)
    app.reins = Reins()  # the user may have something to say as soon as the plan is shown
    with log.Log(place.log, app.sinks, app.veil) as record:
        state = State()
        state.apply(
            record(RunStarted(goal=plan.goal, cwd=str(app.cwd), model=model, version=__version__))
        )
        created = PlanCreated(
            plan=plan,
            source=source,
            skills=_versions(app, plan, source),
            seal=app.sealed(_words(place.id, plan)) if vouched else "",
        )
        state.apply(record(created))
        begun(place.id)
        own = vouched_in(app, plan, source) if vouched else Vouched()
        heard(app, plan, source)
        return carry_on(app, state, place, record, created, own, system)


def heard(app: App, plan: Plan, source: Source) -> None:
    """Servers that a plan names which is no model's may be asked, as those that the user names."""
    if source != "model":
        for step in plan.steps:
            app.gate.heard(f"{plan.goal}\n{step.do}\n{step.run}")


class Vouched(Struct, frozen=True, kw_only=True):
    """What of a plan is the user's own word."""

    commands: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()  # globs of files that a step may change


def vouched_in(app: App, plan: Plan, source: Source) -> Vouched:
    """What the user's word for a plan covers: not the commands of skills nobody trusts, nor the
    checks by programs that stand in a project that is not trusted. Of a plan that a model has made,
    what it changes as well, but no command that is always asked about."""
    strange = (skill.plan for skill in app.skills.all if not skill.trusted)
    commands = frozenset(commands_of(plan)).difference(*map(commands_of, strange))
    if not app.trusted:
        own = app.survey.inside
        commands = frozenset(each for each in commands if own.isdisjoint(CHECKS.findall(each)))
    if source != "model":
        return Vouched(commands=commands)
    writes = (glob for step in plan.steps for glob in step.writes or ())
    return Vouched(commands=frozenset(filter(app.gate.usual, commands)), writes=frozenset(writes))


def vouched_before(app: App, run: str, created: PlanCreated) -> Vouched:
    """The same of a run that is gone on with: of a log that came from elsewhere, nothing."""
    if not app.sound(created.seal, _words(run, created.plan)):
        return Vouched()
    return vouched_in(app, created.plan, created.source)


def _words(run: str, plan: Plan) -> list[str]:
    """What a seal is about: this run, and all that it may run and change."""
    writes = (glob for step in plan.steps for glob in step.writes or ())
    return [run, *sorted(commands_of(plan)), "", *sorted(writes)]


def _versions(app: App, plan: Plan, source: Source) -> dict[str, str]:
    """SHA-256 of the skills that a plan is made from, by name."""
    names = {skill_of(step.skill) for step in plan.steps if step.skill}
    found = {}
    for name in sorted(names | ({plan.name} if source == "skill" else set())):
        with suppress(UsageError):  # one that is not known now can't be known again
            text = msgspec.json.encode(app.skills.find(name).plan, order="deterministic")
            found[name] = hashlib.sha256(text).hexdigest()
    return found


def carry_on(
    app: App,
    state: State,
    place: workspace.Run,
    record: Callable[[Event], Event],
    created: PlanCreated,
    vouched: Vouched,
    system: str,
) -> Ended:
    """Carry a run from where it stands to its end; `created` tells where its plan is from."""
    began = monotonic()
    reins = app.reins = app.reins or Reins()
    stop = app.stop.child()
    before = _tree(app, state, record, stop) if writes(state) else ""
    work = _worker(app, place, stop, vouched, system)
    work = structs.replace(work, reuse=_reuse(app, place, stop, created), reins=reins)
    with ThreadPoolExecutor(app.settings.max_workers, "step") as threads:
        pool = ExecutorPool(threads, app.settings.max_workers, work, stop, reins)
        try:
            drive(state, pool, record)
        except AgentError as error:  # the log takes no more: what is not kept has not been done
            stop.set()
            hint = error.hint or "what was running has been ended"
            raise AgentError(
                str(error), hint=f"{hint}: `ts resume {place.id}` goes on with the run"
            ) from error
        except BaseException:
            stop.set()  # so that the threads end before the error is told
            raise
        finally:
            app.reins = None
    for said in reins.left():
        app.notice(f"too late, the run has ended: {said.wish} {said.step or ''}".rstrip())
    if before:
        _tree(app, state, record, stop, before)
    state.apply(
        record(
            RunFinished(
                status=status_of(state, stop),
                answer=state.answer,
                usage=state.usage,
                cost_usd=state.cost_usd,
                seconds=round(monotonic() - began, 3),
                done=state.count[0],
                steps=state.count[1],
            )
        )
    )
    return Ended(
        code=code_of(state, stop),
        answer=state.answer,
        state=state,
        run=place.id,
        error=error_of(app, stop, place.id),
    )


def _tree(
    app: App, state: State, record: Callable[[Event], Event], stop: Stop, before: str = ""
) -> str:
    """Note how the working tree stands before a run or, with the tree before, behind it."""

    def tell(event: Event) -> None:
        state.apply(record(event))

    tree = app.keep(stop, tell)
    if tree:
        tell(TreeKept(tree=tree, moment="after" if before else "before"))
    return tree


def writes(state: State) -> bool:
    """Whether a step of the run may change files."""
    return any(step.writes != () for step in state.listed)


def _worker(app: App, place: workspace.Run, stop: Stop, vouched: Vouched, system: str) -> Worker:
    from agent.tools.child.command import command
    from agent.tools.child.schema import fits

    home = place.workspace.resolve()
    skills = app.skills  # read here: what there is to say of them is this thread's to tell
    bulk = Bulk(app.cwd, "workspace", place.id, ".kept", veil=app.veil)

    def models(name: str, stop: Stop, emit: Emit) -> Provider:
        fit = Fit(bulk, where="the outputs that were dropped are in the run's workspace")
        return app.models(name, stop, emit, fit)

    return Worker(
        models=models,
        tools=app.tools(),
        gate=app.gate,
        context=structs.replace(app.context(home), stop=stop),
        command=partial(command, heir=app.heir, sandbox=app.sandbox, also=(home,)),
        inquire=app.people.inquire,
        fits=fits,
        budget=app.budget,
        system=system,
        revise_system=prompt.REVISE,
        workspace=home,
        max_turns=app.settings.max_turns,
        vouched=vouched.commands,
        granted=vouched.writes,
        find=lambda name: skills.find(name).plan,
        keep=app.keep,
    )


def error_of(app: App, stop: Stop, run: str) -> AgentError | None:
    """What stopped a run, and how to go on with it; None where nothing did."""
    if not (stop.is_set and stop.words):
        return None
    again = f"`ts resume {run}` goes on with the run"
    match stop.why:
        case BudgetError.exit_code if fault := app.budget.fault:
            again = f"`ts resume {run} {app.budget.more}` goes on with the run"
            return BudgetError(str(fault), what=fault.what, hint=again)
        case ServiceError.exit_code:
            return ServiceError(stop.words, hint=again)
        case SetupError.exit_code:
            return SetupError(stop.words, hint=again)
        case _:
            return AgentError(stop.words, hint=again)


def _reuse(app: App, place: workspace.Run, stop: Stop, created: PlanCreated) -> Reuse:
    content = app.content(stop)
    own = created.skills.get(created.plan.name) if created.source == "skill" else ""
    told = app.told  # read here, like the skills
    return Reuse(
        content=content,
        earlier=Earlier(app.cwd, place, content),
        every=app.settings.reuse,
        told=told,
        named=app.named,
        skills={**created.skills, **({} if own is None else {"": own})},
        workspace=place.workspace.resolve(),
    )


def asked(steps: Iterable[Step]) -> bool:
    """Whether a model is asked for any of them."""
    return any(step.do is not None for step in steps)


def commands_of(plan: Plan) -> tuple[str, ...]:
    """The commands that stand in a plan, in its order, each once."""
    texts = (text for step in plan.steps for text in (step.run, step.verify) if text is not None)
    return tuple(dict.fromkeys(texts))


def status_of(state: State, stop: Stop) -> RunStatus:
    """How a run has ended."""
    if stop.is_set and not (state.over and state.outcome == "done"):
        return "over-budget" if stop.why == BudgetError.exit_code else "interrupted"
    return state.outcome


def code_of(state: State, stop: Stop) -> int:
    """The exit code of a run that has ended."""
    if state.over and state.outcome == "done" and not state.refused:
        return 0
    if stop.is_set:
        return stop.why
    return ConsentError.exit_code if state.refused else AgentError.exit_code

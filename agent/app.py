"""Putting the parts together: the only module that knows them all.

An `App` is one command under way: where it works, with what settings, model and tools, who is
shown what happens and who is asked. It makes plans and runs them.

The tools are imported where they are used: a third of what is loaded is theirs alone, and a
chat's prompt does not wait for it.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from msgspec import Struct, structs

from agent.engine import prompt
from agent.engine.budget import Budget, within
from agent.engine.chat import converse
from agent.engine.guard import Gate
from agent.engine.pool import ExecutorPool
from agent.engine.run import drive
from agent.engine.speech import (
    Inquire,
    submit_plan,
)
from agent.engine.step import Worker
from agent.errors import AgentError, BudgetError, ConsentError, PlanError, ToolError, UsageError
from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionDecided,
    PlanCreated,
    RunFinished,
    RunResumed,
    RunStarted,
    RunStatus,
    Source,
)
from agent.message import Message, Request, Usage, summed
from agent.plan import Plan, Step, checked, expanded
from agent.providers import prices, retry, services, watch
from agent.seams import Ask, Emit, Provider, Sink
from agent.settings import Given, Settings
from agent.state import State
from agent.stop import Stop
from agent.store import log, project, settingsfile, workspace
from agent.store import skills as skillfiles
from agent.tool import Context, Outcome, Tool
from agent.version import __version__
from agent.views.ask import nobody

OUTLINE = 6000  # characters of the outline of the code in the system prompt


class Ended(Struct, frozen=True, kw_only=True):
    """How a command has ended, for its exit code and for JSON."""

    code: int
    answer: str
    state: State | None = None  # None: no plan was run
    run: str | None = None
    error: AgentError | None = None


class Tally:
    """A sink that adds up what a command has used, in a chat and in its runs together."""

    def __init__(self) -> None:
        self.usage, self.calls = Usage(), 0
        self.cost_usd: float | None = 0.0
        self.denials: list[PermissionDecided] = []

    def __call__(self, event: Event) -> None:
        match event:
            case ModelCalled(usage=usage, cost_usd=cost):
                self.usage, self.calls = self.usage + usage, self.calls + 1
                self.cost_usd = summed(self.cost_usd, cost)
            case PermissionDecided(decision="deny"):
                self.denials.append(event)
            case _:
                pass

    @property
    def refused(self) -> bool:
        """Whether something was needed that nobody could be asked about."""
        return any(denial.by == "nobody" for denial in self.denials)


class People(Struct, frozen=True, kw_only=True):
    """Who can be asked, and whether there is anybody."""

    ask: Ask
    inquire: Inquire
    there: bool = True


def _unanswered(step: str, question: str) -> str:
    raise ToolError(
        "nobody can be asked now; decide as the goal suggests and say what you have assumed"
    )


NOBODY = People(ask=nobody, inquire=_unanswered, there=False)


class App:
    """The parts of one command, put together. `close` it."""

    def __init__(
        self,
        cwd: Path,
        loaded: settingsfile.Loaded,
        *,
        stop: Stop,
        sinks: Sequence[Sink] = (),
        people: People = NOBODY,
        trusted: bool = False,
    ) -> None:
        self.cwd, self.loaded, self.people, self.trusted = cwd, loaded, people, trusted
        self.settings: Settings = loaded.layered.settings
        self.stop = stop
        self.tally = Tally()
        self.sinks: tuple[Sink, ...] = (*sinks, self.tally)
        self.budget = Budget(self.settings.max_tokens_total, self.settings.max_budget_usd)
        self.gate = Gate(self.settings.permission_mode, self.settings.permissions, people.ask)
        self.shown = log.Log(None, self.sinks)  # what happens outside of a run
        self._providers: dict[str, Provider] = {}
        self._pauses: dict[str, retry.Pause] = {}  # by service: all its callers wait together
        self._lock = Lock()

    def close(self) -> None:
        self.shown.close()

    def notice(self, text: str) -> None:
        self.shown(Notice(text=text))

    # -- what is known of the project, read once ------------------------------------------------

    @cached_property
    def survey(self) -> project.Survey:
        found = project.survey(self.cwd, self.environment)
        for text in found.notices:
            self.notice(text)
        return found

    @cached_property
    def environment(self) -> dict[str, str]:
        """Of commands, without what is known of the project."""
        return settingsfile.child_environment()

    @cached_property
    def skills(self) -> skillfiles.Skills:
        home = settingsfile.home()
        found = skillfiles.load(builtin_skills(), home, self.cwd, trusted=self.trusted)
        for text in (*found.faults, *found.notices):
            self.notice(f"skill: {text}")
        return found

    @cached_property
    def known(self) -> tuple[tuple[str, str], ...]:
        """The sections of the system prompt about the project: the same bytes each time."""
        from agent.tools.outline import project_outline

        code = project_outline(self.context(), OUTLINE)
        return (*self.survey.sections, ("outline", code))

    def system(self, kind: str) -> str:
        """The system prompt for a kind of request."""
        extra = self.settings.append_system_prompt
        return prompt.system(kind, self.known) + (f"\n{extra}\n" if extra else "")

    # -- models ---------------------------------------------------------------------------------

    @cached_property
    def main_model(self) -> str:
        """PROVIDER/NAME of the model in use. Raises SetupError where there is none."""
        name = self.settings.model or services.choose(self.loaded.keys)
        limited = self.settings.max_budget_usd is not None
        if limited and prices.cost(Usage(), name, self.settings.prices) is None:
            raise UsageError(
                f"the price of {name} is not known, so --max-budget-usd can't be kept",
                hint="say what it costs under `prices` in the settings, or use --max-tokens-total",
            )
        return name

    @property
    def urls(self) -> dict[str, Given]:
        """The base URLs that were set, by service."""
        rows = services.SERVICES.values()
        found = {row.name: self.loaded.url(row.name, row.url_variable) for row in rows}
        return {name: url for name, url in found.items() if url}

    @property
    def model_in_use(self) -> str:
        """The model's name if it has been decided, "" before."""
        return str(self.__dict__.get("main_model", ""))

    def warm(self) -> None:
        """Do ahead what the first request needs. Raises AgentError as that would."""
        services.warm(self._provider(self.main_model))
        self.system("")
        self.tools()

    def named(self, name: str) -> str:
        """PROVIDER/NAME of main, small, oracle or a model's own name."""
        match name:
            case "main":
                return self.main_model
            case "small":
                return self.settings.small_model or services.small(self.main_model)
            case "oracle":
                return self.settings.oracle_model or self.main_model
            case _:
                return name

    def models(self, name: str, stop: Stop, emit: Emit) -> Provider:
        """The model of a name, patient, counted and told of."""
        full = self.named(name)
        raw = self._provider(full)
        with self._lock:
            pause = self._pauses.setdefault(full.partition("/")[0], retry.Pause())

        def tell(text: str) -> None:
            emit(Notice(text=text))

        def wait(seconds: float) -> bool:
            stop.wait(seconds)
            stop.check()
            return False

        idle = self.settings.stream_idle
        watched = watch.stopping(raw, stop, idle, first=services.silence(full, idle))
        metered = watch.metered(watched, emit, full, self.settings.prices)
        counted = within(metered, self.budget, tell)
        patient = retry.retrying(counted, wait, tell, pause=pause)
        return retry.whole(patient, tell=tell)

    def _provider(self, name: str) -> Provider:
        with self._lock:
            if name not in self._providers:
                self._providers[name] = services.build(
                    name,
                    self.loaded.keys,
                    urls=self.urls,
                    max_output_tokens=self.settings.max_output_tokens,
                    thinking_tokens=self.settings.thinking_tokens,
                    idle=self.settings.stream_idle,
                    cwd=self.cwd,
                )
            return self._providers[name]

    # -- tools ----------------------------------------------------------------------------------

    def tools(self) -> dict[str, Tool]:
        """What every agent is offered."""
        from agent.tools import files, notes, outline, search, shell, web

        given = (
            files.read_file,
            files.write_file,
            files.edit_file,
            files.multi_edit,
            files.create_directory,
            search.list_files,
            search.grep_files,
            outline.get_outline,
            outline.find_symbol,
            shell.bash,
            shell.bash_output,
            *web.web_tools({name: key.value for name, key in self.loaded.keys.items()}),
            notes.save_memory,
            notes.todo_write,
        )
        return {tool.name: tool for tool in given}

    def context(self, place: Path | None = None) -> Context:
        """The part of the world that this command's agents may touch."""
        return Context(
            cwd=self.cwd,
            stop=self.stop,
            roots=tuple(Path(each).resolve() for each in self.settings.add_dirs),
            workspace=place,
            env={**self.environment, **self.survey.variables},
            sees=True,
        )

    # -- runs -----------------------------------------------------------------------------------

    def ready(self, plan: Plan) -> Plan:
        """The plan with its skills filled in, checked. Raises PlanError, UsageError."""
        return checked(expanded(checked(plan), lambda name: self.skills.find(name).plan))

    def skill(self, skill: skillfiles.Skill, line: str) -> Ended:
        """Run a skill with the words of a line."""
        self.notice(f"skill {skill.name} ({skill.source})")
        return self.run(self.ready(skillfiles.asked(skill, line)), "skill", vouched=skill.trusted)

    def called(self, text: str) -> tuple[skillfiles.Skill, str] | None:
        """The skill that a message starts, by `/name` or a phrase, and its words.

        Raises UsageError for a `/name` that is none.
        """
        if self.settings.skills and (found := skillfiles.match(text, self.skills.all)):
            return found
        if slash := re.fullmatch(r"/(?:skill:)?([A-Za-z0-9_-]+)(?:\s+(.*))?", text, re.DOTALL):
            return self.skills.find(slash[1]), slash[2] or ""
        return None

    def run(self, plan: Plan, source: Source, *, vouched: bool) -> Ended:
        """Run a plan that is ready, in a log of its own, to its end.

        `vouched`: its commands are the user's own word, and run without being asked about.
        """
        asks = asked(plan.steps)  # and what that needs is read before anything is written
        model = self.main_model if asks else ""
        system = self.system(prompt.STEP) if asks else ""
        place = workspace.begun(self.cwd)
        with log.Log(place.log, self.sinks) as record:
            state = State()
            state.apply(
                record(
                    RunStarted(goal=plan.goal, cwd=str(self.cwd), model=model, version=__version__)
                )
            )
            state.apply(record(PlanCreated(plan=plan, source=source)))
            commands = self.vouched(plan) if vouched else frozenset()
            return self._drive(state, place, record, commands, system)

    def vouched(self, plan: Plan) -> frozenset[str]:
        """The commands of a plan that the user named, but for those of skills nobody trusts."""
        strange = (skill.plan for skill in self.skills.all if not skill.trusted)
        return commands_of(plan).difference(*map(commands_of, strange))

    def resume(self, place: workspace.Run) -> Ended:
        """Go on with a run from what its log tells.

        A log that came with a folder from elsewhere is nobody's word: its commands are asked about.
        """
        with log.Log(place.log, self.sinks) as record:
            if record.before.notice:
                self.notice(record.before.notice)
            state = State.of(record.before.events)
            if state.finished and state.finished.status == "done":
                raise UsageError(f"run {place.id} is done; there is nothing to go on with")
            here = Path(state.cwd) == self.cwd
            if not here:
                self.notice(f"this run was begun in {state.cwd}")
            system = self.system(prompt.STEP) if asked(state.listed) else ""
            place.workspace.mkdir(parents=True, exist_ok=True)
            state.apply(record(RunResumed(attempt=state.resumed + 1)))
            own = frozenset[str]()
            for event in record.before.events:
                if here and isinstance(event, PlanCreated) and event.source != "model":
                    own = self.vouched(event.plan)
            return self._drive(state, place, record, own, system)

    def _drive(
        self,
        state: State,
        place: workspace.Run,
        record: Callable[[Event], Event],
        vouched: frozenset[str],
        system: str,
    ) -> Ended:
        began = monotonic()
        stop = self.stop.child()
        work = self._worker(place, stop, vouched, system)
        with ThreadPoolExecutor(self.settings.max_workers, "step") as threads:
            pool = ExecutorPool(threads, self.settings.max_workers, work, stop)
            try:
                drive(state, pool, record)
            except BaseException:
                stop.set()  # so that the threads end before the error is told
                raise
        state.apply(
            record(
                RunFinished(
                    status=status_of(state, stop),
                    answer=state.answer,
                    usage=state.usage,
                    cost_usd=state.cost_usd,
                    seconds=round(monotonic() - began, 3),
                )
            )
        )
        error = None
        if stop.is_set and stop.words:
            error = AgentError(stop.words, hint=f"`ts resume {place.id}` goes on with the run")
        return Ended(
            code=code_of(state, stop), answer=state.answer, state=state, run=place.id, error=error
        )

    def _worker(
        self, place: workspace.Run, stop: Stop, vouched: frozenset[str], system: str
    ) -> Worker:
        from agent.tools.child.command import command

        home = place.workspace.resolve()
        skills = self.skills  # read here: what there is to say of them is this thread's to tell
        return Worker(
            models=self.models,
            tools=self.tools(),
            gate=self.gate,
            context=structs.replace(self.context(home), stop=stop),
            command=command,
            inquire=self.people.inquire,
            fits=fits,
            budget=self.budget,
            system=system,
            revise_system=prompt.REVISE,
            workspace=home,
            max_turns=self.settings.max_turns,
            vouched=vouched,
            find=lambda name: skills.find(name).plan,
        )

    # -- planning -------------------------------------------------------------------------------

    def plan(self, task: str) -> Plan:
        """The plan that the model makes for a task; nothing is run. Raises PlanError."""
        made: list[Plan] = []

        def take(plan: Plan) -> Outcome:
            made.append(self.ready(plan))
            return Outcome(text="noted", ends=True)

        tool = submit_plan(take, self.notice)
        context = self.context()
        request = Request(
            system=self.system(prompt.chat("only", ())),
            messages=(Message(role="user", text=task),),
            tools=(tool.spec,),
            must=tool.name,
        )
        try:
            converse(
                request,
                self.models("main", self.stop, self.shown),
                {tool.name: tool},
                context,
                self.shown,
                turns=3,
            )
        finally:
            context.close()
        if not made:
            raise PlanError(["the model gave no plan that can run"])
        return made[-1]


def asked(steps: Iterable[Step]) -> bool:
    """Whether a model is asked for any of them."""
    return any(step.do is not None for step in steps)


def commands_of(plan: Plan) -> frozenset[str]:
    """The commands that stand in a plan."""
    return frozenset(
        text for step in plan.steps for text in (step.run, step.verify) if text is not None
    )


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


def fits(value: Any, schema: dict[str, Any]) -> str:
    """Why a value does not fit a JSON schema; "" if it does."""
    import jsonschema  # late: 100 ms, and few steps have a schema

    try:
        jsonschema.validate(value, schema)
    except jsonschema.SchemaError as error:
        return f"the schema itself is wrong: {error.message}"
    except jsonschema.ValidationError as error:
        where = "".join(f"[{part!r}]" for part in error.absolute_path)
        return f"{error.message}" + (f" at {where}" if where else "")
    return ""


def builtin_skills() -> Path:
    """Where the skills that come with the product are: in the wheel, or beside `agent/`."""
    here = Path(__file__).parent
    return here / "skills" if (here / "skills").is_dir() else here.parent / "skills"

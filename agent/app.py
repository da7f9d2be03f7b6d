"""Putting the parts together: where models, tools, settings and the project meet.

An `App` is one command under way: where it works, with what settings, model and tools, who is
shown what happens and who is asked. `agent.runs` runs plans with it, `agent.chat` talks.

The tools are imported where they are used: a third of what is loaded is theirs alone, and a
chat's prompt does not wait for it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from os.path import realpath
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, structs

from agent import matching
from agent.engine import prompt
from agent.engine.budget import Budget, Estimate, within
from agent.engine.chat import converse
from agent.engine.fitting import Fit, Model, fitting
from agent.engine.guard import Gate, closed
from agent.engine.lean import lean
from agent.engine.reins import Reins
from agent.engine.speech import (
    Inquire,
    submit_plan,
)
from agent.engine.tokens import Gauge
from agent.engine.veiled import veiled
from agent.engine.whole import whole
from agent.errors import AgentError, PlanError, ToolError, UsageError
from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionDecided,
    step_of,
)
from agent.message import Message, Request, Usage, summed
from agent.plan import Plan, Step, checked, expanded
from agent.providers import prices, retry, services, watch, window
from agent.providers.fallback import falling
from agent.rule import read, same
from agent.seams import Ask, Choose, Emit, Provider, Sink
from agent.secret import Veil
from agent.settings import Effort, Given, Settings
from agent.shell.place import Facts
from agent.stop import Stop
from agent.store import gitsettings, history, log, project, seal, settingsfile
from agent.store import skills as skillfiles
from agent.store.content import Content
from agent.store.disk import leads
from agent.store.environment import outside
from agent.store.manners import Manners
from agent.tool import Context, Outcome, Tool
from agent.views.ask import nobody
from agent.views.forecast import forecast

if TYPE_CHECKING:
    from agent.store.snapshots import Snapshots
    from agent.tools.child.survivor import Survivor
    from agent.tools.sandbox.sandbox import Sandbox

OUTLINE = 6000  # characters of the outline of the code in the system prompt


class Tally:
    """A sink that adds up what a command has used, in a chat and in its runs together."""

    def __init__(self) -> None:
        self.usage, self.calls = Usage(), 0
        self.cost_usd: float | None = 0.0
        self.denials: list[PermissionDecided] = []
        self.last: ModelCalled | None = None  # of the chat itself

    def __call__(self, event: Event) -> None:
        match event:
            case ModelCalled(usage=usage, cost_usd=cost):
                self.last = self.last if step_of(event) else event
                self.usage, self.calls = self.usage + usage, self.calls + 1
                self.cost_usd = summed(self.cost_usd, cost)
            case PermissionDecided(decision="deny"):
                self.denials.append(event)
            case _:
                pass

    @property
    def refused(self) -> bool:
        """Whether something was needed that nobody could be asked about."""
        return any(denial.by in {"nobody", "sandbox"} for denial in self.denials)


def undecided(question: str, choices: Mapping[str, str]) -> str:
    """A Choose where there is nobody."""
    return ""


class People(Struct, frozen=True, kw_only=True):
    """Who can be asked, and whether there is anybody."""

    ask: Ask
    inquire: Inquire
    choose: Choose = undecided
    edit: Callable[[str, str], str] | None = None  # a text as the user makes it, in a file so named
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
        facts = Facts(
            cwd=str(cwd),
            home=str(settingsfile.home()),
            roots=tuple(str(Path(each).resolve()) for each in self.settings.add_dirs),
            real=realpath,
            leads=leads,
        )
        self.veil = Veil(loaded.secrets)
        self.gate = Gate(
            self.settings.permission_mode, self.settings.permissions, people.ask, facts
        )
        self.gate.remember = self._remember
        self.gate.preview = self._preview
        self.gate.box = lambda: self.sandbox.state
        self.shown = log.Log(None, self.sinks, self.veil)  # what happens outside of a run
        self._providers: dict[str, Provider] = {}
        self._pauses: dict[str, retry.Pause] = {}  # by service: all its callers wait together
        self._gauges: dict[str, Gauge] = {}  # by model: how much it takes, and what it counts
        # By conversation: the models that are not asked in it any more, since their service failed.
        self._fallen = WeakKeyDictionary[Fit, set[str]]()
        self._told = set[str]()  # what has been said of them once
        self._lock = Lock()
        self.reins: Reins | None = None  # of the run under way
        self._kept = True  # whether the working tree can be kept
        self._sandboxed()

    def _sandboxed(self) -> None:
        """Raise UsageError where there has to be a sandbox and is none."""
        private, mode = self.settings.private, self.settings.sandbox
        if private and mode == "off":
            raise UsageError(
                "--private keeps commands off the network, and the sandbox is switched off",
                hint="--sandbox auto switches it on",
            )
        if private or mode == "required":
            self.sandbox.needed("--private" if private else "--sandbox required")

    def _preview(self, name: str, input: dict[str, Any]) -> str:
        from agent.tools.files import preview

        return preview(self.context(), name, input)

    def _remember(self, rules: tuple[str, ...]) -> str:
        """Allow something for good, as the user has answered; what came of it, in words."""
        from agent.store.allow import allow

        try:
            path = allow(settingsfile.home(), rules)
        except AgentError as error:
            return f"{error}; it holds for now"
        return f"{path} allows {', '.join(rules)} from now on"

    def close(self) -> None:
        self.shown.close()
        if "sandbox" in self.__dict__:
            self.sandbox.close()
        if "heir" in self.__dict__:
            self.heir.close()
        if "snapshots" in self.__dict__ and not self.stop.is_set:
            with suppress(AgentError):  # the store is larger than it need be, until the next time
                self.snapshots.tidy()

    def notice(self, text: str, *, warns: bool = True) -> None:
        self.shown(Notice(text=text, warns=warns))

    # -- what is known of the project, read once ------------------------------------------------

    @cached_property
    def survey(self) -> project.Survey:
        found = project.survey(self.cwd, self.environment, trusted=self.trusted)
        for text in found.notices:
            self.notice(text)
        return found

    @cached_property
    def environment(self) -> dict[str, str]:
        """Of commands, without what is known of the project. Where that is not trusted, no program
        of its own is found by a bare name, and none that its git settings name is run."""
        env = settingsfile.child_environment()
        if self.trusted:
            return env
        env["PATH"] = outside(env, self.cwd)
        return env | gitsettings.calmed(self.cwd, env)

    @cached_property
    def skills(self) -> skillfiles.Skills:
        home = settingsfile.home()
        found = skillfiles.load(skillfiles.builtin(), home, self.cwd, trusted=self.trusted)
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

    def sealed(self, words: Iterable[str]) -> str:
        """The seal by which these words are known as the user's own, in this directory."""
        return seal.sealed(settingsfile.home(), (str(self.cwd), *words))

    def sound(self, mark: str, words: Iterable[str]) -> bool:
        """Whether they were sealed so."""
        return seal.sound(settingsfile.home(), mark, (str(self.cwd), *words))

    # -- what steps are made from ---------------------------------------------------------------

    def content(self, stop: Stop) -> Content:
        """What the files of the working directory hold."""
        context = structs.replace(self.context(), stop=stop)

        def visible() -> list[str] | None:
            from agent.tools.find.walk import names, place

            with suppress(ToolError):
                found = names(context, place(context, "."))
                return None if found.cut else found.paths
            return None

        return Content(self.cwd, visible, stop=stop)

    @property
    def told(self) -> str:
        """SHA-256 of what steps are told, whatever the step: but for the files of the project,
        which count where a step reads them."""
        kept = {"project", "instructions", "memory", "untrusted"}
        known = [section for section in self.survey.sections if section[0] in kept]
        words = [prompt.system(prompt.STEP, known), self.settings.append_system_prompt]
        text = msgspec.json.encode([*words, self.survey.variables], order="sorted")
        return hashlib.sha256(text).hexdigest()

    # -- what undo goes by ----------------------------------------------------------------------

    @cached_property
    def snapshots(self) -> "Snapshots":
        """The store of what the working tree was. Nothing is made before it is needed."""
        from agent.store.snapshots import Snapshots

        return Snapshots(self.cwd, self.environment)

    def keep(self, stop: Stop, emit: Emit) -> str:
        """A Keep (agent.seams): once it has failed it is not tried again."""
        if not self._kept:
            return ""
        try:
            return self.snapshots.keep(stop)
        except AgentError as error:
            if stop.is_set:  # there was not the time
                return ""
            with self._lock:
                first, self._kept = self._kept, False
            if first:
                why = f"{error}; {error.hint}" if error.hint else str(error)
                emit(Notice(text=f"what changes from here on can't be undone: {why}"))
            return ""

    # -- models ---------------------------------------------------------------------------------

    @cached_property
    def main_model(self) -> str:
        """PROVIDER/NAME of the model in use. Raises SetupError where there is none."""
        keys = {} if self.settings.private else self.loaded.keys
        name = self.settings.model or services.choose(keys)
        self.near(name)
        self._affordable(name)
        return name

    def near(self, name: str) -> None:
        """Raise UsageError for a model elsewhere, where nothing may leave the machine."""
        if self.settings.private and not services.here(name, self.urls):
            raise UsageError(
                f"--private: {name} is not asked on this machine",
                hint="name a model of a server at a loopback address, as in ollama/NAME",
            )

    def _affordable(self, name: str) -> None:
        """Raise UsageError for a model whose price would have to be known and is not."""
        limited = self.settings.max_budget_usd is not None
        if limited and prices.cost(Usage(), name, self.settings.prices) is None:
            raise UsageError(
                f"the price of {name} is not known, so --max-budget-usd can't be kept",
                hint="say what it costs under `prices` in the settings, or use --max-tokens-total",
            )

    @property
    def urls(self) -> dict[str, Given]:
        """The base URLs that were set, by service."""
        rows = services.SERVICES.values()
        found = {row.name: self.loaded.url(row.name, row.url_variable) for row in rows}
        return {name: url for name, url in found.items() if url}

    def prefer(self, model: str) -> None:
        """Take a model where none is set. It must not have been asked for yet."""
        if model and not self.settings.model:
            self.settings = structs.replace(self.settings, model=model)

    def turn_to(self, name: str) -> None:
        """Ask PROVIDER/NAME as the main model from the next call on.

        Raises AgentError for one that can't be asked; the one before is then kept.
        """
        self.near(name)
        self._affordable(name)
        self._provider(name)
        self.settings = structs.replace(self.settings, model=name)
        self.main_model = name

    def add_dir(self, path: Path) -> None:
        """Let files in a directory be written too, from the next context on."""
        self.settings = structs.replace(
            self.settings, add_dirs=(*self.settings.add_dirs, str(path.resolve()))
        )
        self.gate.widen(path.resolve())
        if "sandbox" in self.__dict__:  # the next one is made for all of them
            self.sandbox.close()
            del self.sandbox

    def exert(self, effort: Effort) -> None:
        """Ask every model with this effort from the next turn of a conversation on."""
        with self._lock:
            self.settings = structs.replace(self.settings, effort=effort)
            self._providers.clear()

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

    def models(self, name: str, stop: Stop, emit: Emit, fit: Fit | None = None) -> Provider:
        """The model of a name, patient, counted and told of, for one conversation.

        `fit` keeps that within what the model takes; without one what is dropped is kept nowhere.
        """
        full, other = self.named(name), self.settings.fallback_model
        fit = fit or Fit()
        first = self._fitted(full, stop, emit, fit)
        if other in {"", full}:
            return first
        second = self._fitted(other, stop, emit, fit)
        with self._lock:
            fallen = self._fallen.setdefault(fit, set())

        def fell(why: str) -> None:
            emit(Notice(text=f"{why}; from here on {other} is asked"))

        return falling(first, second, full, fallen, fell)

    def _fitted(self, full: str, stop: Stop, emit: Emit, fit: Fit) -> Provider:
        model = self.model(full, stop, emit)

        def tell(text: str) -> None:
            with self._lock:
                first = text not in self._told
                self._told.add(text)
            if first:
                model.tell(text)

        fits = fitting(self._patient(full, stop, emit), fit, model)
        return lean(fits, model.gauge, tell)

    def model(self, name: str, stop: Stop, emit: Emit) -> Model:
        """What is known of how much PROVIDER/NAME takes, and who helps to keep within it."""

        def small() -> tuple[Provider, Gauge]:
            other = self.named("small")
            return self._patient(other, stop, emit), self._gauge(other)

        def tell(text: str) -> None:
            emit(Notice(text=text))

        return Model(gauge=self._gauge(name), small=small, tell=tell)

    def size(self, name: str) -> int | None:
        """The tokens that a model takes as the user says; None where they don't."""
        sizes = self.settings.context
        return sizes.get(name) or sizes.get(name.partition("/")[2])

    def window(self, name: str) -> int:
        """The tokens that PROVIDER/NAME takes, as far as it is known. Asks nobody."""
        return self._gauge(name).size()

    def _gauge(self, name: str) -> Gauge:
        settings = self.settings
        own = self.size(name)
        local = name.partition("/")[0] in prices.FREE
        known = own or (None if local else prices.context(name))
        row = services.SERVICES.get(name.partition("/")[0])

        def ask() -> int | None:
            url = self.urls.get(row.name) if row else None
            key = self.loaded.keys.get(row.key) if row and (url or row.url) else None
            base = url.value if url else row.url if row else ""
            return window.told(name, base, key.value if key else "")

        with self._lock:
            if name not in self._gauges:
                self._gauges[name] = Gauge(
                    name,
                    known or window.usual(name),
                    sure=bool(known) or row is None or not row.keyless,
                    reply=services.most_output(
                        name, settings.max_output_tokens, settings.thinking_tokens
                    ),
                    ask=ask,
                )
            return self._gauges[name]

    def _patient(self, full: str, stop: Stop, emit: Emit) -> Provider:
        self._affordable(full)
        raw = self._provider(full)
        with self._lock:
            pause = self._pauses.setdefault(full.partition("/")[0], retry.Pause())

        def tell(text: str) -> None:
            emit(Notice(text=text))

        def price(usage: Usage) -> float | None:
            return prices.cost(usage, full, self.settings.prices)

        def wait(seconds: float) -> bool:
            stop.wait(seconds)
            stop.check()
            return False

        idle, first = self.settings.stream_idle, self._silence(full)
        load = partial(services.warm, raw)
        watched = watch.stopping(raw, stop, idle, first=first, load=load)
        metered = watch.metered(watched, emit, full, self.settings.prices)
        guess = Estimate(gauge=self._gauge(full), price=price)
        counted = within(metered, self.budget, tell, guess=guess, stop=stop)
        patient = retry.retrying(counted, wait, tell, pause=pause)
        return whole(patient, tell=tell)

    def charge(self, events: Iterable[Event]) -> None:
        """Count what a run has spent before it is gone on with: a limit is the whole run's.

        What had no known price then may have one now; what has none is told, where it matters.
        """
        unknown = 0
        for event in events:
            if isinstance(event, ModelCalled):
                dollars = event.cost_usd
                if dollars is None:
                    dollars = prices.cost(event.usage, event.model, self.settings.prices)
                unknown += dollars is None
                if warning := self.budget.add(event.usage.total, dollars):
                    self.notice(warning)
        if unknown and self.settings.max_budget_usd is not None:
            self.notice(
                f"the price of {unknown} earlier model calls of this run is not known; they don't "
                "count toward --max-budget-usd"
            )

    def forecast(self, plan: Plan) -> str:
        """What a plan that is ready may cost, in a line. Asks and raises nothing."""

        def price(step: Step, usage: Usage) -> float | None:
            try:
                name = self.named(step.model or "main")
            except AgentError:  # told when it is needed
                return None
            return prices.cost(usage, name, self.settings.prices)

        asks = any(step.do is not None for step in plan.steps)
        used = history.used(self.cwd) if asks else []
        return forecast(plan, self.settings.max_workers, used, price)

    def _silence(self, name: str) -> float:
        """Seconds until the first sign of a reply; what the user has said counts everywhere."""
        idle = self.settings.stream_idle
        said = "stream_idle" in self.loaded.layered.origins
        return idle if said else services.silence(name, idle)

    def _most_output(self, name: str) -> int:
        """The tokens of a reply: a quarter of a small model's, which would refuse more."""
        size = self.size(name)
        most = self.settings.max_output_tokens
        return min(most, size // 4) if size else most

    def _provider(self, name: str) -> Provider:
        self.near(name)
        with self._lock:
            if name not in self._providers:
                made = services.build(
                    name,
                    self.loaded.keys,
                    urls=self.urls,
                    max_output_tokens=self._most_output(name),
                    thinking_tokens=self.settings.thinking_tokens,
                    effort=self.settings.effort,
                    idle=self.settings.stream_idle,
                    cwd=self.cwd,
                )
                memory = Manners(settingsfile.home())
                self._providers[name] = services.remember(made, memory)
                if told := services.caveat(name):
                    self.notice(told)
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
            *web.web_tools(
                {name: key.value for name, key in self.loaded.keys.items()}, secrets=self.veil.own
            ),
            notes.save_memory,
            notes.todo_write,
        )
        if self.settings.private:
            why = "nothing may leave this machine (--private): the web can't be asked"
            given = tuple(
                closed(tool, why) if tool.name.startswith("web_") else tool for tool in given
            )
        return {tool.name: veiled(tool, self.veil) for tool in given}

    @cached_property
    def heir(self) -> "Survivor":
        """Ends the commands and removes the temporary files of this process if it is killed."""
        from agent.tools.child.survivor import Survivor

        return Survivor()

    @cached_property
    def sandbox(self) -> "Sandbox":
        """What commands run in. Nothing is tried out before the first of them."""
        from agent.tools.sandbox.sandbox import Sandbox, Scope

        settings = self.settings
        scope = Scope(
            cwd=self.cwd,
            home=settingsfile.home(),
            roots=tuple(Path(each).resolve() for each in settings.add_dirs),
            env=self.environment,
            granted=tuple(
                pattern
                for tool, pattern in map(read, settings.permissions.allow)
                if pattern and same(tool, "read_file")
            ),
        )
        return Sandbox(
            scope, settings.sandbox, offline=settings.private, tell=self.notice, heir=self.heir
        )

    def context(self, place: Path | None = None) -> Context:
        """The part of the world that this command's agents may touch."""
        return Context(
            cwd=self.cwd,
            stop=self.stop,
            roots=tuple(Path(each).resolve() for each in self.settings.add_dirs),
            workspace=place,
            readable=tuple(
                each.resolve()
                for each in skillfiles.own_places(skillfiles.builtin(), settingsfile.home())
            ),
            env={**self.environment, **self.survey.variables},
            sees=True,
            heir=self.heir,
            sandbox=self.sandbox,
        )

    # -- plans and skills -----------------------------------------------------------------------

    def ready(self, plan: Plan) -> Plan:
        """The plan with its skills filled in, checked. Raises PlanError, UsageError."""
        return checked(expanded(checked(plan), lambda name: self.skills.find(name).plan))

    def called(self, text: str) -> skillfiles.Called | None:
        """The skill that a message starts, by `/name` or a phrase.

        Raises UsageError for a `/name` that is none.
        """
        slash = skillfiles.slashed(text)
        if not slash and not self.settings.skills:
            return None
        called = skillfiles.match(text, self.skills.all)
        if slash and not called:
            self.skills.find(slash[0].removeprefix("skill:"))
        if called and called.phrase:
            self.notice(f"/{called.skill.name}: it is for “{called.phrase}”", warns=False)
        return called

    def hint(self, text: str) -> str:
        """What the model is told with a message that a skill may be meant by; "" for most."""
        if not self.settings.skills:
            return ""
        found = matching.likely(text, skillfiles.offers(self.skills.all))
        return prompt.likely(found.name) if found else ""

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

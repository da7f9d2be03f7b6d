"""A conversation in an `App`: what is said, and the runs that come of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from agent import runs
from agent.app import App
from agent.engine import prompt
from agent.engine.answer import shaped
from agent.engine.chat import converse
from agent.engine.compaction import Replaced
from agent.engine.fitting import Fit
from agent.engine.guard import MOST, PATHS, all_guarded, cut, led, preceded
from agent.engine.lean import leaner
from agent.engine.partial import Partial
from agent.engine.speech import ask_oracle, ask_user, run_skill, submit_plan
from agent.errors import AgentError, ConsentError, ToolError, UsageError
from agent.event import PermissionDecided
from agent.message import Filling, Image, Message, Request
from agent.plan import Plan
from agent.providers import watch
from agent.rule import NOTES, READS, WEB
from agent.runs import Ended
from agent.seams import Question
from agent.store import planfile, sessions
from agent.store import skills as skillfiles
from agent.store.bulk import Bulk
from agent.store.tree import repaired
from agent.tool import Outcome, Tool
from agent.tools.child.schema import fits

ASIDE = 3  # model calls of a side question, for a model that tries to use a tool
PLAN = "plan.yaml"  # a plan that is edited
AGAIN = {"e": "edit it again", "b": "back to the plan as it was"}
UNCHANGING = {*NOTES, *WEB}  # tools that write, but no file


class Chat:
    """A conversation with the model, and the runs that it starts."""

    def __init__(self, app: App, session: sessions.Session | None) -> None:
        self.app, self.session = app, session
        if session:
            session.veil = app.veil
        self.messages: tuple[Message, ...] = session.messages if session else ()
        for message in self.messages:
            self._heard(message)
        self._context = app.context()
        self._own = app.context()  # the user's: their shell is not the model's
        self._fit = self._fitting()
        self._runs: list[Ended] = []  # what this turn has run
        self._said = ""  # the id of the message that was kept last
        self._turn = ""  # of the user's, that this turn answers
        self._before = ""  # the working tree before what this turn has changed of it
        self._told = False  # whether the user knows that the conversation is not saved

    def close(self) -> None:
        self._context.close()
        self._own.close()
        if self.session:
            self.session.close()

    def renew(self) -> None:
        """Begin anew what tools keep between calls, as a shell: what they may touch has changed."""
        self._context.close()
        self._own.close()
        self._context, self._own = self.app.context(), self.app.context()

    def turn(self, text: str, images: tuple[Image, ...] = (), attached: str = "") -> Ended:
        """Say something and let the model work until it answers, or its plan has run.

        `attached`: what goes with the words, for the model alone.

        Raises AgentError; what was said until then is part of the conversation.
        """
        self._runs.clear()
        emit = self.app.shown
        partial = Partial(emit, self._keep)
        model = self.app.models("main", self.app.stop, partial.emit, self._fit)
        provider = partial.kept(watch.said(model, emit))
        self.messages = repaired(self.messages)  # the turn before may have been cut off
        beside = "\n\n".join(filter(None, (attached, self.app.hint(text))))
        said = Message(role="user", text=text, attached=beside, images=images)
        self._keep(said)  # once there is a model for it
        self._turn = self._said
        tools = self.tools()
        try:
            talk = converse(
                self._request(tools),
                provider,
                tools,
                structs.replace(self._context, stop=self.app.stop),
                emit,
                turns=self.app.settings.max_turns,
                keep=self._keep,
            )
        finally:
            self.app.shown.settle()
            self._changed()
        refused = ConsentError.exit_code if self.app.tally.refused else 0
        if self._runs:  # mostly one; of several the first that went wrong counts
            counts = next((ended for ended in self._runs if ended.code), self._runs[0])
            answer = "\n\n".join(ended.answer for ended in self._runs if ended.answer)
            return structs.replace(counts, answer=answer, code=counts.code or refused)
        return Ended(code=refused, answer=talk.reply.message.text)

    def aside(self, text: str) -> Ended:
        """Answer a question about the conversation that does not enter it: no tool is used for it
        and nothing of it is kept. Raises AgentError."""
        app = self.app
        model = watch.said(app.models("main", app.stop, app.shown, self._fit.beside()), app.shown)
        request = self._request({})
        asked = Message(role="user", text=text)
        request = structs.replace(request, messages=(*repaired(self.messages), asked), must="")
        context = structs.replace(self._context, stop=app.stop)
        try:
            talk = converse(request, model, {}, context, app.shown, turns=ASIDE)
        finally:
            app.shown.settle()
        return Ended(code=0, answer=talk.reply.message.text)

    def shaped(self, text: str, schema: dict[str, Any]) -> tuple[str, str]:
        """The last answer as JSON that fits, and ""; or as it is, and why it does not. What is
        said for it is part of the conversation. Raises AgentError."""
        app = self.app
        model = app.models("main", app.stop, app.shown, self._fit)
        self.messages = repaired(self.messages)
        made, why = shaped(self._request({}), text, schema, model, fits)
        if made != text and not why:
            self._keep(Message(role="user", text=prompt.AS_JSON))
            self._keep(Message(role="assistant", text=made))
        return made, why

    def place(self, name: str) -> Path:
        """A path as the user names it."""
        return self.app.cwd / Path(name).expanduser()

    def use(self, name: str, input: dict[str, Any]) -> Outcome:
        """Use a tool on the user's own word: the rules count, and plan mode. Raises ToolError."""
        app = self.app
        tool = app.tools()[name]
        named = [self.place(input[key]).resolve() for key in PATHS if key in input]
        homes = tuple(path if path.is_dir() else path.parent for path in named)
        readable = (*self._own.readable, *homes)  # for this call: wherever it is
        own = structs.replace(self._own, stop=app.stop, readable=readable)
        own, leads, fault = led(own, input, reading=name in READS)
        leave = app.gate.let(name, tool.writes, input, app.shown, vouched=True, leads=leads)
        if fault:
            raise fault
        done = tool(structs.replace(own, leave=leave), input)
        return structs.replace(done, text=cut(done.text, MOST))

    def rewind(self, to: str) -> str:
        """Go on after the message `to` of the session; a warning or "". Raises AgentError."""
        if self.session is None:
            return ""
        warning = self.session.rewind(to)
        self.messages, self._fit = self.session.messages, self._fitting()
        return warning

    def compact(self, keep: str = "") -> str:
        """Send less of the conversation from now on, with a summary; what came of it, in a line.

        `keep`: what the user wants to have kept. Raises AgentError.
        """
        app, told = self.app, list[str]()
        model = app.model(app.main_model, app.stop, app.shown)
        model = structs.replace(model, tell=told.append)
        self.messages = repaired(self.messages)
        request = leaner(self._request(self.tools()), model.gauge)
        self._fit.shorter(request, model, keep, fully=True)
        return "\n".join(told) or "there is nothing to make shorter yet"

    def filling(self) -> Filling:
        """What fills the model's context. Raises AgentError where there is no model."""
        app = self.app
        model = app.model(app.main_model, app.stop, app.shown)
        request = leaner(self._request(self.tools()), model.gauge)
        return self._fit.filling(request, model, app.known)

    def _request(self, tools: dict[str, Tool]) -> Request:
        return Request(
            system=self._system,
            messages=self.messages,
            tools=tuple(tool.spec for tool in tools.values()),
            must="submit_plan" if self.app.settings.plan == "always" else "",
        )

    def _fitting(self) -> Fit:
        """What keeps the conversation within the model's context; a session keeps what it drops."""
        session = self.session
        if session is None:
            return Fit()
        held = None
        if found := session.compacted:
            before, record = found
            held = Replaced(
                before=before,
                after=record.messages,
                covered=record.covered,
                summed=record.summed,
                summary=record.summary,
                model=record.model,
                factor=record.factor,
            )

        def kept(made: Replaced) -> None:
            try:
                session.compact(
                    made.before,
                    messages=made.after,
                    covered=made.covered,
                    summed=made.summed,
                    summary=made.summary,
                    model=made.model,
                    factor=made.factor,
                )
            except AgentError as error:  # it is written with what comes next
                self.app.notice(str(error))

        bulk = Bulk(self.app.cwd, "sessions", f"{session.id}.kept", veil=self.app.veil)
        return Fit(bulk, kept, held, "all of it stays in the session's file")

    def skill(self, skill: skillfiles.Skill, words: str, said: str) -> Ended:
        """Run a skill that the user has called; what came of it is part of the conversation."""
        self._keep(Message(role="user", text=said))
        self._turn = self._said
        ended = runs.run_skill(self.app, skill, words, self._begun)
        self._keep(Message(role="assistant", text=ended.answer or "(no text)"))
        return ended

    def _heard(self, message: Message) -> None:
        """The servers that the user, or what came of a call, has named may be asked."""
        if message.role == "user":
            self.app.gate.heard("\n".join([message.text, *(each.text for each in message.results)]))

    def _keep(self, message: Message) -> None:
        self._heard(message)
        self.messages = (*self.messages, message)
        if self.session:
            self._said = self._kept(self.session, message)

    def _kept(self, session: sessions.Session, message: Message) -> str:
        """Keep it in the session; its id. What the disk refuses is part of the conversation all the
        same, and is written with what comes next: that is said once, until it has been."""
        model = self.app.main_model
        try:
            id = session.add(message, model)
        except UsageError:
            raise
        except AgentError as error:
            self._unsaved(error)
            return session.entries[-1].id
        self._told = False
        return id

    def _unsaved(self, error: AgentError) -> None:
        if not self._told:
            self.app.notice(f"{error}; this conversation goes on, but is not saved")
        self._told = True

    # -- what undo goes by ----------------------------------------------------------------------

    def _changing(self) -> None:
        """A tool is about to change files: keep the working tree, once a turn."""
        if self.session and not self._before:
            self._before = self.app.keep(self.app.stop, self.app.shown)
            if self._before:
                self._note(self.session.kept, self._before, "before")

    def _changed(self) -> None:
        """What changed files is over."""
        before, self._before = self._before, ""
        if self.session and before:
            after = self.app.keep(self.app.stop, self.app.shown)
            if after:
                self._note(self.session.kept, after, "after")

    def _begun(self, run: str) -> None:
        self._changed()
        if self.session:
            self._note(self.session.started, run)

    def _note(self, add: Callable[..., None], *words: str) -> None:
        try:
            add(self._turn, *words)
        except AgentError as error:  # it is written with what comes next
            self._unsaved(error)

    # -- what the model is given ----------------------------------------------------------------

    @property
    def _system(self) -> str:
        app = self.app
        skills, strange = self._offered(trusted=True), self._offered(trusted=False)
        return app.system(prompt.chat(app.settings.plan, skills, strange))

    def _offered(self, *, trusted: bool) -> list[tuple[str, str]]:
        """Names and descriptions of the skills that the model may run."""
        if not self.app.settings.skills:
            return []
        return [
            (skill.name, skill.plan.description)
            for skill in self.app.skills.all
            if skill.offered and skill.trusted is trusted
        ]

    def tools(self) -> dict[str, Tool]:
        """What the model is offered."""
        app = self.app
        changing = {
            name: preceded(tool, self._changing) if tool.writes and name not in UNCHANGING else tool
            for name, tool in app.tools().items()
        }
        tools = all_guarded(changing, app.gate, app.shown)
        extra = [ask_user(app.people.inquire), ask_oracle(app.models, app.stop, app.shown)]
        if app.settings.plan != "never":
            extra.append(submit_plan(self._submitted, app.notice))
        if self._offered(trusted=True) or self._offered(trusted=False):
            extra.append(run_skill(self._skill))
        return tools | {tool.name: tool for tool in extra}

    def _submitted(self, plan: Plan) -> Outcome:
        app, raw = self.app, plan
        plan = app.ready(plan)
        if plan.plain and app.settings.plan != "always":
            return Outcome(text=prompt.to_do(plan.steps))
        if app.gate.mode == "plan":
            return self._finished(Ended(code=0, answer=planfile.dump(plan)))
        asks = app.people.there and app.gate.mode != "auto"
        plan, seen = self._confirmed(raw) if asks else (plan, False)
        return self._finished(runs.run(app, plan, "model", vouched=seen, begun=self._begun))

    def _confirmed(self, raw: Plan) -> tuple[Plan, bool]:
        """The plan as the user wants it, ready; whether they have seen it, with its commands, and
        said yes to it. Raises ToolError for a no.
        """
        while True:
            plan = self.app.ready(raw)
            question = Question(
                step="",
                tool="submit_plan",
                text="\n".join([planfile.dump(plan), *self._flight(plan)]),
                rule="submit_plan",
                edits=self.app.people.edit is not None,
            )
            answer = self.app.gate.approve(question, self.app.shown)
            match answer.choice:
                case "edit":
                    raw = self._edited(raw)
                case "no" if answer.words:
                    raise ToolError(
                        f"the user wants another plan: {answer.words}\nCall submit_plan with it."
                    )
                case "no":
                    raise ToolError("the user does not want this plan.")
                case _:
                    return plan, answer.by == "user"

    def _edited(self, plan: Plan) -> Plan:
        """The plan as the user makes it in their editor; as it was where they leave it so."""
        app, text = self.app, planfile.dump(plan)
        assert app.people.edit, "it is only offered where there is one"
        while True:
            try:
                text = app.people.edit(text, PLAN)
                made = planfile.parsed(text.encode(), PLAN)
                made = structs.replace(made, goal=made.goal or plan.goal)
                app.ready(made)
            except AgentError as error:
                if app.people.choose(str(error), AGAIN) != "e":
                    return plan
            else:
                return made

    def _flight(self, plan: Plan) -> Iterator[str]:
        """What a yes to a plan allows for its run, what is asked about all the same, its price."""
        own = runs.vouched_in(self.app, plan, "model")
        commands = runs.commands_of(plan)
        if own.commands or own.writes:
            yield "# A yes allows, for this run:"
            yield from (f"#   run     {_line(each)}" for each in commands if each in own.commands)
            yield from (f"#   change  {_line(each)}" for each in sorted(own.writes))
        if rest := [each for each in commands if each not in own.commands]:
            yield "# Asked about all the same:"
            yield from (f"#   run     {_line(each)}" for each in rest)
        yield f"# {self.app.forecast(plan)}"

    def _skill(self, name: str, arguments: str) -> Outcome:
        try:
            skill = self.app.skills.find(name)
            self._agreed(skill)
            return self._finished(runs.run_skill(self.app, skill, arguments, self._begun))
        except UsageError as error:
            raise ToolError(f"{error}. {error.hint}") from error

    def _agreed(self, skill: skillfiles.Skill) -> None:
        """Raise ToolError where the user does not want a stranger's skill that the model asks for:
        its text would be an order."""
        app = self.app
        if skill.trusted or app.gate.mode == "auto":
            return
        text = f"# {skill.path}\n{planfile.dump(skill.plan)}"
        question = Question(step="", tool="run_skill", text=text, rule="")
        answer = app.gate.approve(question, app.shown)
        if answer.choice == "no":
            app.shown(
                PermissionDecided(
                    tool="run_skill",
                    rule="",
                    decision="deny",
                    by=answer.by,
                    input={"name": skill.name},
                )
            )
            raise ToolError(
                f"not allowed: {skill.name} came with this directory, which is not trusted. "
                f"{answer.words}".strip()
            )

    def _finished(self, ended: Ended) -> Outcome:
        self._runs.append(ended)
        return Outcome(text=ended.answer or "(no text)", ends=True)


def _line(text: str) -> str:
    """A command in a line; the plan above has it whole."""
    return " ↵ ".join(text.strip().splitlines())

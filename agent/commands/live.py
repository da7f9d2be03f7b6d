"""What is typed while a plan is carried out: commands about it, and words for its agents."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from agent.app import App
from agent.errors import AgentError, near
from agent.event import Event, Text, UserSaid, Wish, step_of
from agent.state import State
from agent.store import history, log, workspace
from agent.views import show
from agent.views.figures import money, tokens
from agent.views.lines import Story
from agent.views.plain import one_line, safe, wrapped
from agent.views.plan_text import Style
from agent.views.terminal import Terminal
from agent.views.tree import whole

LAST = 200  # lines of a step's transcript, the last of it
HELP = """\
/dag the whole plan · /steps a table · /step ID what it has done so far
/tell ID WORDS, or @ID WORDS: to its agent, before its next call
/retry ID [WORDS] · /skip ID · /stop ID · /replan WORDS · /budget · Ctrl-C ends all"""
WISHES: Mapping[str, Wish] = {
    "tell": "tell", "retry": "retry", "skip": "skip", "stop": "stop", "replan": "replan",
}  # fmt: skip


def _about(story: Story, event: Event, id: str) -> list[str]:
    """What a story has to tell of a step, the words of its agent whole."""
    lines = list(story.lines(event))
    if step_of(event) != id:
        return []
    if isinstance(event, Text):
        return [f"  {row}" for row in wrapped(safe(event.text.strip()), story.width - 2)]
    return lines


def told(cwd: Path, state: State, id: str, width: int, styled: Style) -> Iterator[str]:
    """The story of one step of a run, as far as the log has it."""
    if id not in state.steps:
        yield safe(f"there is no step {id}{near(id, [step.id for step in state.listed])}")
        return
    story = Story(styled, lambda: width - 1, "verbose")
    try:
        place = workspace.find(cwd, state.run or "")
        lines = [line for event in log.read(place.log) for line in _about(story, event, id)]
    except AgentError as error:
        yield safe(str(error))
        return
    step = state.steps[id]
    yield styled("bold", one_line(f"{id} · {state.standing(id)}", width - 1))
    yield from islice(wrapped(safe((step.do or step.run or "").strip()), width - 1), 8)
    if len(lines) > LAST:
        yield styled("dim", f"… {len(lines) - LAST} earlier lines")
    yield from lines[-LAST:]


class Live:
    """Takes the lines that are typed while `terminal` shows a run of `app`."""

    def __init__(self, app: App, terminal: Terminal) -> None:
        self._app, self._terminal = app, terminal
        terminal.foresee(self._past, app.settings.max_workers)
        self._looks: Mapping[str, Callable[[State, str], Iterator[str]]] = {
            "dag": self._dag,
            "steps": self._steps,
            "step": self._step,
            "budget": self._budget,
            "cost": self._budget,
            "help": self._help,
        }

    def _past(self, state: State) -> Mapping[str, float]:
        return history.took(self._app.cwd, state.goal, state.run or "")

    def heard(self, line: str) -> bool:
        """Do what a line says of the run; whether it is about it: another may wait."""
        text, state = line.strip(), self._terminal.state
        if state is None or self._app.reins is None:
            return False
        name, _, words = text[1:].partition(" ")
        if text == "?":
            name = "help"
        elif text.startswith("@"):  # a step, or what is nearly its name; else it may be a file
            id, name, words = name, "tell", text[1:]
            with self._terminal.still():
                ids = [step.id for step in state.listed]
            if id not in ids and not near(id, ids):
                return False
        elif not text.startswith("/"):
            return False
        return self._done(name.lower(), words.strip(), state)

    def _done(self, name: str, words: str, state: State) -> bool:
        if name in WISHES:
            self._say(self._wish(WISHES[name], words, state))
        elif name in self._looks:
            with self._terminal.still():  # `state` is another thread's as well
                self._say(list(self._looks[name](state, words)))
        else:
            return False
        return True

    def _say(self, lines: Sequence[str]) -> None:
        self._terminal.say(lines)

    def _wish(self, wish: Wish, words: str, state: State) -> list[str]:
        """Send it on its way; why it can't be done, or nothing: the run tells what comes of it."""
        id = ""
        if wish != "replan":
            id, _, words = words.partition(" ")
        words = words.strip()
        if wish in {"tell", "replan"} and not words:
            usage = "/tell ID WORDS" if wish == "tell" else "/replan WORDS"
            return [f"what is to be said? {usage}"]
        said = UserSaid(wish=wish, words=words)
        if wish != "replan":
            said = UserSaid(step=id, wish=wish, words=words)
            if not id:
                return [f"which step? /{wish} ID"]
        with self._terminal.still():
            why = state.objection(said)
            if why and id not in state.steps:
                why += near(id, [step.id for step in state.listed])
        reins = self._app.reins
        if why or reins is None:
            return [safe(why or "the run has ended")]
        reins.say(said)
        return []

    # -- what can be looked at -----------------------------------------------------------------

    def _dag(self, state: State, words: str) -> Iterator[str]:
        yield from whole(state, self._width, styled=self._styled)

    def _steps(self, state: State, words: str) -> Iterator[str]:
        yield from show.steps(state, self._width, styled=self._styled, live=True)

    def _step(self, state: State, words: str) -> Iterator[str]:
        yield from told(self._app.cwd, state, words.strip(), self._width, self._styled)

    def _budget(self, state: State, words: str) -> Iterator[str]:
        settings = self._app.settings
        used = f"{tokens(state.usage.total)}, {money(state.cost_usd)}"
        yield f"this run has used {used}"
        if settings.max_budget_usd is not None:
            yield f"at most {money(settings.max_budget_usd)} may be spent"
        if settings.max_tokens_total is not None:
            yield f"at most {tokens(settings.max_tokens_total)} may be used"

    def _help(self, state: State, words: str) -> Iterator[str]:
        yield from HELP.split("\n")

    @property
    def _width(self) -> int:
        return self._terminal.width

    def _styled(self, style: str, text: str) -> str:
        return self._terminal.styled(style, text)

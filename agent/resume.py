"""Going on with a run from what its log tells."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from agent.app import App
from agent.engine import prompt
from agent.engine.reins import Reins
from agent.errors import StoppedError, UsageError
from agent.event import FORMAT, Event, PlanCreated, RunResumed, RunStarted
from agent.runs import Ended, asked, carry_on, heard, vouched_before
from agent.secret import lacks
from agent.standing import workspaces
from agent.state import State
from agent.stop import INTERRUPTED
from agent.store import log, workspace
from agent.store.content import Content

MOST_NAMED = 50  # changed files of the project that the log names
MOST_LOOKED = 5_000  # files of the project that are looked at

CHOICES = {
    "r": "run that step again",
    "k": "keep it as it is",
    "s": "stop here, and change nothing",
}


class Lost(Struct, frozen=True, kw_only=True):
    """A finished step whose outputs are no longer as it left them."""

    step: str
    gone: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def words(self) -> str:
        """What has become of its outputs, by name."""
        parts = [("has vanished", "have vanished", self.gone)]
        parts += [("has changed since", "have changed since", self.changed)]
        return ", ".join(
            f"{', '.join(names)} {one if len(names) == 1 else many}"
            for one, many, names in parts
            if names
        )


def resume(app: App, place: workspace.Run) -> Ended:
    """Go on with a run. Nothing is written before all that it takes is there.

    A log that came with a folder from elsewhere is nobody's word: its commands are asked about.
    Raises UsageError, SetupError; StoppedError where the user would rather not.
    """
    with log.Log(place.log, app.sinks, app.veil) as record:
        events = record.before.events
        if record.before.notice:
            app.notice(record.before.notice)
        readable(place.id, events)
        state = State.of(events)
        created = going_on(place.id, state, events)
        whole(place.id, state)
        if Path(state.cwd) != app.cwd:
            app.notice(f"this run was begun in {state.cwd}")
        model = model_of(app, state)
        system = app.system(prompt.STEP) if asked(state.listed) else ""
        content = app.content(app.stop)
        workspace.prepared(app.cwd, "workspace", place.id)
        again = tuple(chosen(app, lost(state, content, app.cwd)))
        app.charge(events)
        record.before, events = log.Record(), ()  # a long log is not held while the run goes on
        app.reins = Reins()
        state.apply(
            record(
                RunResumed(
                    attempt=state.resumed + 1,
                    again=again,
                    changed=tuple(changed(state, content, app.cwd)),
                    cwd=str(app.cwd) if Path(state.cwd) != app.cwd else "",
                    model=model if model != state.model else "",
                )
            )
        )
        own = vouched_before(app, place.id, created)
        heard(app, created.plan, created.source)
        return carry_on(app, state, place, record, created, own, system)


def readable(run: str, events: Iterable[Event]) -> None:
    """Raise UsageError for a log that a version wrote which knows more than this one."""
    for event in events:
        if isinstance(event, RunStarted | RunResumed) and event.format > FORMAT:
            by = f" ({event.version})" if isinstance(event, RunStarted) else ""
            raise UsageError(
                f"run {run} was written by a newer version of ts{by}: its log has format "
                f"{event.format}, and this version knows {FORMAT}",
                hint="go on with it in that version; `ts show` tells what can be read of it",
            )


def going_on(run: str, state: State, events: Iterable[Event]) -> PlanCreated:
    """How the plan came to be that is to be gone on with. Raises UsageError where there is none."""
    if state.finished and state.finished.status == "done":
        raise UsageError(f"run {run} is done; there is nothing to go on with")
    created = [event for event in events if isinstance(event, PlanCreated)]
    if not created or not state.steps:
        raise UsageError(
            f"the log of run {run} holds no plan; there is nothing to go on with",
            hint="it was cut off before anything was done, or is damaged: begin it anew",
        )
    return created[-1]


def whole(run: str, state: State) -> None:
    """Raise UsageError where a command is still to be run that the log holds without its secret."""
    for step in state.listed:
        if not state.fine(step.id) and lacks(f"{step.run}\n{step.verify}"):
            raise UsageError(
                f"step {step.id} of run {run} has a secret in its command, which no log keeps",
                hint="run the plan anew; a command reads a secret from a file or a variable best",
            )


def model_of(app: App, state: State) -> str:
    """The model to go on with: what is set, else what the run had. Raises SetupError where what
    is left to do asks one and there is none."""
    if not asked(step for step in state.listed if not state.fine(step.id)):
        return state.model
    app.prefer(state.model)
    name = app.main_model
    app.models("main", app.stop, app.shown)
    if state.model and name != state.model:
        app.notice(f"this run was begun with {state.model} and goes on with {name}")
    return name


def lost(state: State, content: Content, cwd: Path) -> list[Lost]:
    """The steps that are done and whose outputs have vanished or changed, as far as is known; of
    steps that left the same file the last one counts."""
    old, new = workspaces(state.cwd), workspaces(str(cwd))
    owner = {
        path: id
        for id in state.hashes
        if state.standing(id) == "done"
        for path in state.outputs.get(id, ())
    }
    found: dict[str, tuple[list[str], list[str]]] = {}
    for path, id in owner.items():
        there = path.replace(old, new)
        known, now = state.hashes[id].get(path), content.outputs([there]).get(there)
        name = there.removeprefix(f"{new}{state.run}/")
        if now is None and not Path(there).exists():
            found.setdefault(id, ([], []))[0].append(name)
        elif known is not None and now != known:
            found.setdefault(id, ([], []))[1].append(name)
    return [Lost(step=id, gone=tuple(g), changed=tuple(c)) for id, (g, c) in found.items()]


def chosen(app: App, all: Iterable[Lost]) -> list[str]:
    """Which of these steps are to run again. Where nobody can say so: those that left what has
    vanished; what has changed is kept as it is. Either is told.

    Raises StoppedError where the user wants to stop.
    """
    again = []
    for one in all:
        said = app.people.choose(f"step {one.step}: {one.words}", CHOICES)
        if said == "s":
            raise StoppedError("the run was left as it is", INTERRUPTED)
        if not said:
            said = "r" if one.gone else "k"
            what = "it runs again" if said == "r" else "kept as it is"
            app.notice(f"step {one.step}: {one.words}; {what}")
        if said == "r":
            again.append(one.step)
    return again


def changed(state: State, content: Content, cwd: Path) -> list[str]:
    """The files that finished steps wrote in the project and that are not as they left them."""
    known = {
        path: digest
        for id, files in state.hashes.items()
        if state.standing(id) == "done"
        for path, digest in files.items()
        if not path.startswith("/")
    }
    if len(known) > MOST_LOOKED:
        return []
    now = content.outputs([f"{cwd}/{path}" for path in known])
    differ = [path for path, digest in known.items() if now.get(f"{cwd}/{path}") != digest]
    return differ[:MOST_NAMED]

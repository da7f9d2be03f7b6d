"""`ts demo`: a task on a small sample project, from the plan to the tests, without a key.

What answers is a recorded model, a script, unless --model names a live one; the way is the same:
a chat's turn with the task as its prompt, in a fresh copy of the sample, in permission mode auto.
"""

import argparse
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp

from msgspec import structs

from agent.app import App
from agent.chat import Chat
from agent.commands.front import Screen, directory, opened, output
from agent.errors import AgentError, StoppedError, UsageError
from agent.event import Event, RunFinished
from agent.providers.services import SERVICES
from agent.runs import Ended
from agent.seams import Sink
from agent.stop import HUNG_UP, INTERRUPTED, TERMINATED, Stop
from agent.store import sessions, settingsfile
from agent.tool import Confined
from agent.tools.child.command import Ran, command
from agent.tools.sandbox.sandbox import offered
from agent.views.plain import Output, safe, wrapped

TASK = (
    "Mend the report: it counts only a part of a category that comes more than once, and a long "
    "name breaks its columns. Add an option --csv that prints the entries with their notes "
    "(tests/test_export.py says how), and show it in the README."
)
HOME = Path(__file__).parents[1] / "demo"
SAMPLE, RECORDED = HOME / "sample", HOME / "recorded.yaml"
TESTS = "python3 -m unittest 2>&1"
USABLE = "python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))'"
COMMIT = (
    "git init -q && mkdir -p .git/info && printf '%s\\n' .agent/ __pycache__/ > .git/info/exclude "
    "&& git add . && "
    "git -c user.name='ts demo' -c user.email=demo@localhost -c commit.gpgsign=false "
    "-c core.hooksPath=/dev/null commit -q -m 'the sample as it comes'"
)
NEW_FILES = "git add --intent-to-add ."  # so that `git diff` shows them
OWN_GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}  # no hooks, no signing
PATIENCE = 60.0  # seconds of a command of the demo itself
NOISE = {".git", ".agent", "__pycache__"}
MOST_FILES, MOST_BYTES, MOST_ROWS = 200, 200_000, 200  # of what is compared and shown
SIGNALS = {HUNG_UP, INTERRUPTED, TERMINATED}
MOST_PRINTED = 4000  # characters of what the tests print
STYLES = {"---": "bold", "+++": "bold", "@@ ": "cyan", "+": "green", "-": "red"}


def demo(typed: argparse.Namespace) -> int:
    """Do the task in a folder that is named and stays; 0 if the sample's own tests pass then.

    The folder goes again where a signal ended the demo, or an error before anything was changed.
    """
    typed = as_meant(typed)
    env = settingsfile.child_environment()
    folder, keep = copied(typed), False
    progress = output(None if typed.quiet else sys.stderr)
    typed, sandbox = contained(typed, folder, env)
    try:
        if ours(USABLE, folder, env, Stop()).code:
            raise AgentError(
                "the sample is a Python program, and there is no python3 (3.8 or newer) on the "
                "PATH of commands",
                hint="the Python that runs ts is left out of it; install one for your own use",
            )
        introduce(progress, folder, typed.model, sandbox)
        if not (git := not ours(COMMIT, folder, {**env, **OWN_GIT}, Stop()).code):
            shutil.rmtree(folder / ".git", ignore_errors=True)
        screen = Screen(typed)
        raw = typed.output_format == "stream-json"
        sinks = screen.sinks if raw else list(map(unresumable, screen.sinks))
        with opened(typed, sinks, cwd=folder) as app:
            screen.listen(app)
            with screen.turn():
                ended, session = worked(app)
            changes = list(changed(contents(SAMPLE), contents(folder)))
            begun = bool(changes) or not ended.error
            tests = own_tests(folder, app) if begun and not app.stop.is_set else None
            ended = judged(ended, tests, app.stop)
            keep = begun and ended.code not in SIGNALS
            code = screen.finish(app, ended, session)
        if keep and tests:
            show(output(sys.stdout) if typed.output_format == "text" else progress, changes, tests)
            git = git and not ours(NEW_FILES, folder, {**env, **OWN_GIT}, Stop()).code
            farewell(progress, folder, git=git)
        return code
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def as_meant(typed: argparse.Namespace) -> argparse.Namespace:
    """What was typed, with what a demo adds to it. Raises UsageError for what has no meaning."""
    if typed.words:
        raise UsageError(
            f"`ts demo` takes no words ({' '.join(typed.words)!r}): its task is fixed",
            hint="ts demo --model SERVICE/NAME does it with a live model",
        )
    meaningless = {
        "-c": typed.go_on,
        "-r": typed.resume is not None,
        "--json-schema": typed.json_schema,
        "--no-plan": typed.no_plan and not typed.model,
    }
    for flag, given in meaningless.items():
        if given:
            raise UsageError(f"{flag} has no meaning for `ts demo`")
    meant = {
        "model": typed.model or f"script/{RECORDED}",
        "permission_mode": typed.permission_mode or "auto",
        "plan": not typed.no_plan,
        "trust": True,  # the folder is ours
    }
    return argparse.Namespace(**{**vars(typed), **meant})


def contained(
    typed: argparse.Namespace, folder: Path, env: Mapping[str, str]
) -> tuple[argparse.Namespace, str]:
    """What was typed, and words on the sandbox: the recorded commands are ours, and run without
    one where there is none."""
    if typed.sandbox == "off":
        return typed, "there is no sandbox: you have switched it off"
    found = offered(env, settingsfile.home(), [folder])
    recorded = typed.model == f"script/{RECORDED}"
    if found.works or typed.sandbox == "required" or typed.private or not recorded:
        return typed, found.told
    return argparse.Namespace(**{**vars(typed), "sandbox": "off"}), found.told


def copied(typed: argparse.Namespace) -> Path:
    """A fresh folder with the sample in it, below -C where that is given. Raises AgentError."""
    parent = directory() if typed.cwd else Path(gettempdir()).resolve()
    try:
        folder = Path(mkdtemp(prefix="ts-demo-", dir=parent))
        put(files(SAMPLE), folder)
    except OSError as error:
        raise AgentError(f"{error.filename or parent}: {error.strerror}") from error
    return folder


def put(paths: Iterator[Path], folder: Path) -> None:
    """Write files of the sample into a folder; not their modes, an installed one may be 0444."""
    for path in paths:
        target = folder / path.relative_to(SAMPLE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes(path.read_bytes())


def ours(
    text: str,
    cwd: Path,
    env: Mapping[str, str],
    stop: Stop,
    sandbox: Confined | None = None,
) -> Ran:
    """Run a command of the demo itself, as those of a plan are run."""
    return command(
        text, cwd=cwd, env=env, stop=stop, timeout=PATIENCE, sandbox=sandbox, also=(cwd,)
    )


def worked(app: App) -> tuple[Ended, str]:
    """Do the task as any prompt is done: how that ended, and the conversation's id."""
    session = sessions.new(app.cwd)
    chat = Chat(app, session)
    try:
        return chat.turn(TASK), session.id
    except AgentError as error:
        return Ended(code=error.exit_code, answer="", error=error), session.id
    finally:
        chat.close()


def unresumable(sink: Sink) -> Sink:
    """The same sink, which is not told how to go on with an interrupted run: its folder goes."""

    def shown(event: Event) -> None:
        gone = isinstance(event, RunFinished) and event.status == "interrupted"
        sink(structs.replace(event, run="") if gone else event)

    return shown


def own_tests(folder: Path, app: App) -> Ran:
    """Run the sample's tests, as they came, on what has become of it: no edit of a test counts."""
    with TemporaryDirectory(prefix="ts-demo-tests-") as scratch:
        place = Path(scratch).resolve() / "sample"
        shutil.copytree(folder, place, symlinks=True, ignore=shutil.ignore_patterns(*NOISE))
        put(files(SAMPLE / "tests"), place)
        return ours(TESTS, place, app.context().env, app.stop, app.sandbox)


def judged(ended: Ended, tests: Ran | None, stop: Stop) -> Ended:
    """How the demo has ended: by a signal, as its run did, or by the sample's tests."""
    error: AgentError
    if stop.why:
        gone = "the demo's folder is removed" if stop.why in SIGNALS else ""
        error = StoppedError(stop.words, stop.why, hint=gone)
        return structs.replace(ended, code=stop.why, error=error)
    if tests and tests.code and not ended.code:
        error = AgentError("the sample's own tests do not pass")
        return structs.replace(ended, code=1, error=error)
    return ended


# -- what has changed -------------------------------------------------------------------------


def files(folder: Path) -> Iterator[Path]:
    """The files in a folder, in order of their names, without git's, ours and Python's."""
    for path in sorted(folder.rglob("*")):
        if NOISE.isdisjoint(path.relative_to(folder).parts) and path.is_file():
            yield path


def contents(folder: Path) -> dict[str, list[str]]:
    """The lines of each file, by its name."""
    found = dict[str, list[str]]()
    for path in files(folder):
        with path.open("rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
        found[str(path.relative_to(folder))] = text.splitlines()
        if len(found) == MOST_FILES:
            break
    return found


def changed(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Iterator[str]:
    """A unified diff."""
    for name in sorted({*before, *after}):
        one = f"a/{name}" if name in before else "/dev/null"
        other = f"b/{name}" if name in after else "/dev/null"
        lines = before.get(name, []), after.get(name, [])
        yield from unified_diff(*lines, one, other, n=1, lineterm="")


# -- what is told -------------------------------------------------------------------------------


def introduce(out: Output, folder: Path, model: str, sandbox: str) -> None:
    if model == f"script/{RECORDED}":
        say(out, "A recorded model answers; nothing is sent anywhere.")
        whose = "that came with the demo"
    else:
        say(out, f"{model} answers.")
        whose = "of the model"
    say(out, f"The sample is in {folder}")
    say(out, f"The commands that run there are those {whose}; {sandbox}.")
    out.line()
    say(out, f"› {TASK}", "bold")
    out.line()


def show(out: Output, changes: Sequence[str], tests: Ran) -> None:
    """The diff, and what the sample's own tests print."""
    out.line()
    say(out, "What has changed", "bold")
    for row in changes[:MOST_ROWS]:
        style = next((style for start, style in STYLES.items() if row.startswith(start)), "")
        out.line(out.styled(style, safe(row)))
    if len(changes) > MOST_ROWS:
        say(out, f"… {len(changes) - MOST_ROWS} more lines", "dim")
    out.line()
    say(out, f"The sample's own tests, as they came, on what it is now: {TESTS}", "bold")
    out.answer(tests.stdout.strip()[-MOST_PRINTED:])


def farewell(out: Output, folder: Path, *, git: bool) -> None:
    """Where it all is, and how to go on."""
    first, *others = [row for row in SERVICES.values() if row.model]
    keys = ", ".join(row.key for row in others[:3])
    local = ", ".join(row.name for row in SERVICES.values() if row.port)
    changes = ", `git diff` the changes" if git else ""
    out.line()
    for name, words in (
        ("look at it", f"cd {shlex.quote(str(folder))}"),
        ("", f"`ts show` tells the run{changes}; delete the folder when you like"),
        ("a live model", f"export {first.key}=…   (or {keys}; {local} need none)"),
        ("", f"ts demo --model {first.name}/{first.model}"),
        ("your project", "ts   in its directory"),
    ):
        out.line(out.styled("bold", f"{name:14}") + safe(words))


def say(out: Output, text: str, style: str = "") -> None:
    """Some words, in lines that fit where that can be known."""
    for row in wrapped(safe(text), max(out.width - 1, 20)) if out.tty else [safe(text)]:
        out.line(out.styled(style, row))

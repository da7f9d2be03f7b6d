"""The commands that do work: a prompt, a plan, a run."""

import argparse
import os
import select
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from agent import runs
from agent.app import App
from agent.chat import Chat
from agent.commands.front import Screen, answer, opened, print_json, say, session_of
from agent.errors import AgentError, UsageError
from agent.event import OVER, RunFinished, RunStarted, Source
from agent.plan import with_arguments
from agent.resume import resume as resume_run
from agent.runs import Ended
from agent.store import log, planfile, sessions, workspace
from agent.store.lines import holder
from agent.store.skills import Called, Skill, slashed
from agent.views.figures import counted

FIRST_BYTE, NEXT_BYTES = 5.0, 60.0  # seconds that piped input is waited for, beside a prompt
MOST_INPUT = 10_000_000  # bytes of piped input


def headless(typed: argparse.Namespace) -> int:
    """`ts -p PROMPT`, and `ts` where there is no terminal."""
    if not (text := _asked(typed)):
        raise UsageError("there is no prompt", hint="ts -p 'what to do', or pipe one in")
    schema = _schema(typed)
    screen = Screen(typed)
    with opened(typed, screen.sinks) as app:
        session: sessions.Session | None = None
        try:
            if called := _called(app, text):
                with closing(Chat(app, None)) as chat:
                    ended = _shaped(runs.run_skill(app, called.skill, called.words), chat, schema)
                return screen.finish(app, ended)
            session = session_of(typed, app)
            for notice in session.notices:
                app.notice(notice)
            chat = Chat(app, session)
            try:
                with screen.turn():
                    ended = chat.turn(text)
                    ended = _shaped(ended, chat, schema)
            finally:
                chat.close()
        except AgentError as error:
            ended = Ended(code=error.exit_code, answer="", error=error)
        return screen.finish(app, ended, session.id if session else None)


def _called(app: App, text: str) -> Called | None:
    """The skill that a prompt starts. Raises UsageError; a chat's own command is named as one."""
    try:
        return app.called(text)
    except UsageError as error:
        from agent.commands.slash import named

        name, _ = slashed(text) or ("", "")
        if not named(name):
            raise
        raise UsageError(
            f"/{name} is a command of the chat", hint="`ts` begins one, `ts -c` goes on with one"
        ) from error


def _schema(typed: argparse.Namespace) -> dict[str, Any] | None:
    """The schema of --json-schema; the model is told it as well. Raises UsageError."""
    if not typed.json_schema:
        return None
    text = typed.json_schema
    try:
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        schema = msgspec.json.decode(text, type=dict[str, Any])
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--json-schema: {error}") from error
    told = f"Your final answer has to be JSON alone, fitting this schema: {text}"
    typed.append_system_prompt = "\n".join(filter(None, (typed.append_system_prompt, told)))
    return schema


def _shaped(ended: Ended, chat: Chat, schema: dict[str, Any] | None) -> Ended:
    """The end with its answer as JSON that fits, or with the fault that it does not."""
    if schema is None or ended.code:
        return ended
    answer, why = chat.shaped(ended.answer, schema)
    error = AgentError(f"the answer does not fit the schema: {why}") if why else None
    return structs.replace(ended, answer=answer, code=1 if why else 0, error=error)


def plan(typed: argparse.Namespace) -> int:
    """`ts plan TASK`: print a plan, run nothing."""
    if not (task := _asked(typed)):
        raise UsageError("there is no task", hint="ts plan 'what to do'")
    screen = Screen(typed)
    with opened(typed, screen.sinks) as app:
        with screen.turn():
            made = app.plan(task)
        screen.close()
    text = planfile.dump(made)
    if typed.output:
        try:
            Path(typed.output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"-o {typed.output}: {error.strerror}") from error
        if not typed.quiet:
            steps = counted(len(made.steps), "step")
            say(f"{typed.output}: {steps}; `ts run {shlex.quote(typed.output)}` carries them out")
    elif typed.output_format == "text":
        answer(text)
    else:
        print_json({"type": "plan", "plan": msgspec.to_builtins(made)})
    return 0


def run(typed: argparse.Namespace) -> int:
    """`ts run FILE|SKILL [WORDS]`."""
    if not typed.words:
        raise UsageError("what is to be run?", hint="ts run plan.yaml, or ts run SKILL")
    what, *words = typed.words
    screen = Screen(typed)
    with opened(typed, screen.sinks, people=screen.people) as app:
        source: Source
        screen.listen(app)
        if is_path(what):
            made, source, vouched = planfile.load(Path(what)), "file", True
        else:
            skill = skill_of(app, what)
            made, source, vouched = skill.plan, "skill", skill.trusted
        made = app.ready(with_arguments(made, words))
        if typed.dry_run:
            from agent.views.graph import dry_run

            app.notice(app.forecast(made), warns=False)
            screen.close()
            answer(dry_run(made, app.settings.max_workers))
            return 0
        return screen.finish(app, runs.run(app, made, source, vouched=vouched))


def skill_of(app: App, name: str) -> Skill:
    """The skill of that name. Raises UsageError, with the plan file that may have been meant."""
    try:
        return app.skills.find(name)
    except UsageError as error:
        for file in (f"{name}.yaml", f"{name}.yml"):
            if Path(file).is_file():
                raise UsageError(str(error), hint=f"did you mean `ts run {file}`?") from error
        raise


def is_path(text: str) -> bool:
    """Whether `ts run` takes a word for a file (the contract, 2)."""
    return "/" in text or text.endswith((".yaml", ".yml")) or Path(text).exists()


def resume(typed: argparse.Namespace) -> int:
    """`ts resume [RUN]`: go on with a run, the newest unfinished one if none is named."""
    screen = Screen(typed)
    with opened(typed, screen.sinks, people=screen.people) as app:
        screen.listen(app)
        place = workspace.find(app.cwd, typed.words[0]) if typed.words else unfinished(app.cwd)
        screen.recall(log.read(place.log))
        return screen.finish(app, resume_run(app, place))


def unfinished(cwd: Path) -> workspace.Run:
    """The newest run that has a plan and did not come to its end. Raises UsageError."""
    busy: workspace.Run | None = None
    for place in workspace.runs(cwd):
        _, last = log.ends(place.log)
        over = isinstance(last, RunFinished) and last.status in OVER
        if not (over or last is None or isinstance(last, RunStarted)):
            if holder(place.log) is None:
                return place
            busy = busy or place
    if busy:
        return busy  # whoever opens it is told who has it
    raise UsageError("there is no unfinished run in this directory", hint="`ts runs` lists them")


def _asked(typed: argparse.Namespace) -> str:
    """The prompt: what was typed, and behind it what was piped in."""
    prompt = " ".join(typed.words)
    return "\n\n".join(part for part in (prompt, piped(prompt).strip("\n")) if part.strip())


def piped(prompt: str) -> str:
    """What was piped in, for the end of a prompt; waited for, with a prompt, for a while only.

    Raises UsageError for more than any model takes.
    """
    stdin = sys.stdin
    if stdin is None or stdin.closed or stdin.isatty():
        return ""
    data = bytearray()
    limit = FIRST_BYTE if prompt else None
    try:
        number = stdin.fileno()
        while True:
            if not select.select([number], [], [], limit)[0]:
                say(f"ts: nothing came through the pipe for {limit:g} s; going on without it")
                break
            piece = os.read(number, 65536)
            if not piece:
                break
            data += piece
            if len(data) > MOST_INPUT:
                raise UsageError(
                    f"more than {MOST_INPUT:,} bytes were piped in",
                    hint="put them into a file and name it",
                )
            limit = NEXT_BYTES if prompt else None
    except (OSError, ValueError):
        return ""  # stdin is closed
    return data.decode("utf-8", "replace")

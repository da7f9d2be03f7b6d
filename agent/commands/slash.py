"""What can be typed behind a slash in a chat: a table, and the commands that are about the chat."""

from collections.abc import Sequence
from datetime import UTC, datetime

from agent.commands import back, doctor, holds, newest, talk
from agent.commands import config as settings
from agent.commands.desk import Desk, Do
from agent.commands.editing import editor, open_file
from agent.commands.trust import Consent, consent
from agent.errors import ToolError, UsageError, near
from agent.plan import Plan
from agent.settings import Effort, Mode
from agent.store import memory, settingsfile, workspace
from agent.store.disk import private
from agent.views.figures import counted, money, tokens
from agent.views.plain import wrapped
from agent.views.theme import THEMES

CYCLE: tuple[Mode, ...] = ("default", "accept-edits", "plan")  # Shift+Tab; auto is by a flag alone
MEMORY = "/memory add TEXT remembers a fact, /memory edit opens the file, /memory edit user yours"
RUNS = 20  # that are listed
KEYS = """\
Enter sends; \\ Enter, Shift+Enter, Alt+Enter, Ctrl+J begin a line; Ctrl+G opens $EDITOR
Ctrl+R searches what was typed; Shift+Tab changes the mode; ? on an empty line shows this
Ctrl+O shows the whole of the last output, Ctrl+T the plan; Esc Esc goes back to an earlier message
Esc or Ctrl-C stops the turn; Ctrl-C clears the line, then leaves; Ctrl-D leaves
!COMMAND runs it and the model reads what it prints, !!COMMAND without that; # TEXT is remembered
@FILE, @DIR/ and @ADDRESS go with the message; Tab takes what is offered behind @ and /
What is typed while the model works is sent next. // begins a message with a slash"""


def help(desk: Desk, words: str) -> None:
    if name := words.removeprefix("/"):
        known = [skill for skill in desk.app.skills.all if skill.name == name]
        desk.say(f"/{name}: {known[0].plan.description}" if known else told(name))
        return
    for name, about in offered(desk):
        desk.row(name, about)
    keys(desk)


def keys(desk: Desk) -> None:
    for row in wrapped(KEYS, desk.out.width - 1):
        desk.out.line(row)


def offered(desk: Desk) -> Sequence[tuple[str, str]]:
    """All that may stand behind a slash, with what it does."""
    own = [(name, about) for name, (about, _) in COMMANDS.items()]
    return own + [(skill.name, hinted(skill.plan)) for skill in desk.app.skills.all]


def hinted(plan: Plan) -> str:
    """What a skill does, with the arguments that it takes."""
    words = " ".join(f"[{each}]" for each in plan.arguments)
    return f"{words} {plan.description}".strip()


def told(name: str) -> str:
    """What a command is for, and its other names. Raises UsageError."""
    own = OTHERS.get(name.lower(), name.lower())
    if own not in COMMANDS:
        raise UsageError(f"there is no /{name}{near(name, [*COMMANDS, *OTHERS])}")
    about, _ = COMMANDS[own]
    others = [f"/{other}" for other, first in OTHERS.items() if first == own]
    return f"/{own}: {about}" + (f" (also {', '.join(others)})" if others else "")


def show_keys(desk: Desk, words: str) -> None:
    """`/keys`"""
    keys(desk)


def review(desk: Desk, words: str) -> None:
    """`/review [WHAT]`: the skill, by the name that other programs have for it."""
    skill = desk.app.skills.find("code-review")
    desk.work(lambda: desk.talk.skill(skill, words, said=f"/review {words}".strip()))


def skills(desk: Desk, words: str) -> None:
    for skill in desk.app.skills.all:
        desk.row(skill.name, skill.plan.description)


def runs(desk: Desk, words: str) -> None:
    from agent.store.briefs import briefs
    from agent.views import show

    found = briefs(desk.app.cwd, RUNS)
    for line in show.runs(found, datetime.now(UTC), desk.out.width, styled=desk.out.styled):
        desk.out.line(line)


def look_around(desk: Desk, words: str) -> None:
    """`/doctor`"""
    app = desk.app
    agreed = consent(app.cwd, flag=False)
    case = doctor.Case(
        cwd=app.cwd,
        home=settingsfile.home(),
        env=app.environment,
        loaded=app.loaded,
        agreed=Consent(trusted=app.trusted, why=agreed.why, notices=agreed.notices),
    )
    for line in doctor.lines(doctor.examined(case), desk.out):
        desk.out.line(app.veil.text(line))


def config(desk: Desk, words: str) -> None:
    """`/config [KEY…]`"""
    app = desk.app
    agreed = Consent(trusted=app.trusted, why="")
    for row in settings.chosen(settings.listed(app.loaded, agreed), words.split()):
        desk.say(settings.line_of(row))
    desk.say("`ts config set KEY VALUE` sets one")


def theme(desk: Desk, words: str) -> None:
    """`/theme [NAME]`: how it looks, from now on."""
    if words and words not in THEMES:
        raise UsageError(
            f"there is no theme {words!r}{near(words, THEMES)}", hint=", ".join(THEMES)
        )
    if words:
        desk.out.theme = words
        path = settingsfile.users(settingsfile.home())
        settingsfile.put(path, ("theme",), words, project=False)
    for name, look in THEMES.items():
        sample = " ".join(desk.out.styled(style, style) for style in look.styles)
        desk.say(f"{'›' if name == desk.out.theme else ' '} {name:10} {look.about}")
        if name == desk.out.theme:
            desk.out.line(f"  {'':10} {sample}")


def cost(desk: Desk, words: str) -> None:
    usage, settings = desk.app.tally.usage, desk.app.settings
    desk.say(
        f"{counted(desk.app.tally.calls, 'model call')}, {tokens(usage.input_tokens)} in, "
        f"{tokens(usage.cache_read_input_tokens)} from the cache, "
        f"{tokens(usage.output_tokens)} out, {money(desk.app.tally.cost_usd)}"
    )
    limits = []
    if settings.max_budget_usd is not None:
        limits.append(money(settings.max_budget_usd))
    if settings.max_tokens_total is not None:
        limits.append(tokens(settings.max_tokens_total))
    if limits:
        desk.say(f"at most {' and '.join(limits)} may be used")


def mode(desk: Desk, words: str) -> None:
    if words and words not in CYCLE:
        raise UsageError(f"there is no mode {words!r}", hint=", ".join(CYCLE))
    for each in CYCLE:
        if each == words:
            desk.app.gate.mode = each
    desk.say(f"permission mode: {desk.app.gate.mode}")


def model(desk: Desk, words: str) -> None:
    """`/model [SERVICE/NAME]`: who is asked, from the next message on."""
    app = desk.app
    if words:
        app.turn_to(words)
    desk.say(f"{app.main_model} is asked")
    others = {name: app.named(name) for name in ("small", "oracle")}
    for role, name in others.items():
        if name != app.main_model:
            desk.say(f"{role}: {name}")
    if not words:
        desk.say("/model SERVICE/NAME asks another one from the next message on")


def effort(desk: Desk, words: str) -> None:
    """`/effort [low|medium|high|usual]`: how long the model may think, from the next message on."""
    levels: dict[str, Effort] = {"usual": "", "low": "low", "medium": "medium", "high": "high"}
    if words and words not in levels:
        raise UsageError(
            f"there is no effort {words!r}{near(words, levels)}", hint=", ".join(levels)
        )
    if words:
        desk.app.exert(levels[words])
    now = desk.app.settings.effort
    desk.say(f"effort: {now or 'as the service has it'}")


def leave(desk: Desk, words: str) -> None:
    desk.leaving = True


def remember(desk: Desk, words: str) -> None:
    """`/memory`, `/memory add TEXT`, `/memory edit [user]`."""
    what, _, rest = words.partition(" ")
    match what:
        case "":
            show_memory(desk)
        case "add" if not rest.strip():
            raise UsageError("what is to be remembered?", hint=MEMORY)
        case "add":
            add_memory(desk, rest)
        case "edit" if rest.strip() in {"", "user"}:
            edit_memory(desk, mine=bool(rest.strip()))
        case _:
            raise UsageError(f"there is no /memory {words}", hint=MEMORY)


def show_memory(desk: Desk) -> None:
    found = list(memory.memories(desk.app.cwd, settingsfile.home()))
    for each in found:
        left = f" ({each.left} older notes are left out)" if each.left else ""
        desk.say(f"{each.name}{left}:\n{each.fault or each.text or '(empty)'}\n")
    if not found:
        desk.say("nothing is remembered yet")
    desk.say(MEMORY)


def add_memory(desk: Desk, note: str) -> None:
    from agent.tools.notes import save_memory

    try:
        desk.say(save_memory(desk.app.context(), {"note": note}).text)
    except ToolError as error:
        raise UsageError(str(error)) from error


def edit_memory(desk: Desk, *, mine: bool) -> None:
    """Open $VISUAL or $EDITOR on it, as the user's environment names it; no shell reads that."""
    if mine:
        path = memory.user_path(settingsfile.home())
        private(path.parent)
    else:
        path = workspace.prepared(desk.app.cwd) / "memory.md"
    if not editor() or not desk.out.tty or path.is_symlink():
        desk.say(f"it is in {path}")
        return
    open_file(path)
    desk.say(f"{path}: read when the next conversation begins")


COMMANDS: dict[str, tuple[str, Do]] = {
    "help": ("what can be typed here, or what one of it does: [COMMAND]", help),
    "clear": ("begin a new conversation; the old one is kept", talk.clear),
    "resume": ("go on with another conversation: [ID, TITLE or words]", talk.resume),
    "fork": ("go on in a new conversation with the same messages: [TITLE]", talk.fork),
    "rewind": ("go back to before one of your messages: conversation, files or both", back.rewind),
    "undo": ("put files back as they were before the last turn or run: [ID [STEP]]", back.undo),
    "redo": ("take the newest undo back", back.redo),
    "diff": ("what this conversation has changed, or since the last commit: [git]", holds.diff),
    "review": ("review the changes, as /code-review does: [WHAT]", review),
    "compact": ("send less of the conversation, with a summary: [what to keep]", talk.compact),
    "btw": ("a question that does not enter the conversation, no tools: QUESTION", talk.aside),
    "context": ("what fills the model's context", talk.context),
    "copy": ("the last answer into the clipboard", talk.copy),
    "rename": ("give this conversation a title: TITLE", talk.rename),
    "export": ("write it to a file: [FILE.md, .html or .jsonl]", talk.export_talk),
    "memory": ("what is remembered; /memory add TEXT, /memory edit [user]", remember),
    "cost": ("what this chat has used, and what it may", cost),
    "status": ("where this chat stands: model, mode, sandbox, context, what is used", holds.status),
    "permissions": ("what is free, asked, forbidden: [allow|ask|deny RULE]", holds.permissions),
    "add-dir": ("files in a further directory may be written, in this chat: DIR", holds.add_dir),
    "tools": ("what the model may call", holds.tools),
    "model": ("which model is asked, or from now on another one: [SERVICE/NAME]", model),
    "effort": ("how long a model may think: [low, medium, high or usual]", effort),
    "mode": ("the permission mode: default, accept-edits, plan", mode),
    "skills": ("the skills there are", skills),
    "config": ("each setting and where it came from: [KEY…]", config),
    "theme": (f"how it looks, from now on: {', '.join(THEMES)}", theme),
    "doctor": ("whether all is there that ts needs", look_around),
    "runs": ("the runs of this directory", runs),
    "dag": ("the whole plan under way, or of the newest run", newest.dag),
    "steps": ("its steps as a table: attempts, time, tokens, cost, files", newest.steps),
    "step": ("what a step has done so far: ID", newest.step),
    "tell": ("words to a step of the plan under way: ID WORDS, or @ID WORDS", newest.under_way),
    "retry": ("begin a step of the plan under way anew: ID [WORDS]", newest.under_way),
    "skip": ("go on without a step of the plan under way: ID", newest.under_way),
    "stop": ("end a step of the plan under way: ID", newest.under_way),
    "replan": ("have the plan under way changed: WORDS", newest.under_way),
    "keys": ("the keys", show_keys),
    "exit": ("leave", leave),
}
OTHERS = {
    "?": "help",
    "new": "clear",
    "reset": "clear",
    "continue": "resume",
    "sessions": "resume",
    "branch": "fork",
    "checkpoint": "rewind",
    "budget": "cost",
    "usage": "cost",
    "quit": "exit",
    "keybindings": "keys",
    "shortcuts": "keys",
    "allowed-tools": "permissions",
    "tasks": "steps",
    "settings": "config",
}  # fmt: skip - further names, by which other programs know them


def named(name: str) -> Do | None:
    """The command of a name; None where there is none."""
    _, do = COMMANDS.get(OTHERS.get(name.lower(), name.lower()), ("", None))
    return do

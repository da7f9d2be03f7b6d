"""The chat's commands that tell what holds: where it stands, what may be used, what has changed."""

from collections.abc import Iterator

from agent.commands.desk import Desk
from agent.commands.talk import called
from agent.errors import UsageError
from agent.settings import Rules
from agent.store import git, worked
from agent.store import undo as store_undo
from agent.version import __version__
from agent.views import undo as view
from agent.views.figures import counted, money, tokens
from agent.views.plain import cut, safe

MOST = 1000  # lines of a difference that are printed
MODES = {
    "default": "looking is free, the rest is asked about",
    "accept-edits": "looking and edits of files are free, the rest is asked about",
    "plan": "nothing is changed or run",
    "auto": "only what destroys, publishes or can't be told is asked about",
}
SANDBOX = {"on": "on", "off": "off", "none": "there is none here"}
RULES = "/permissions allow|ask|deny RULE adds one for this chat, as in: allow bash(npm test)"


def status(desk: Desk, words: str) -> None:
    """`/status`: where the chat stands, a fact a line."""
    for name, about in facts(desk):
        desk.out.line(cut(f"  {name:13} {safe(about)}", desk.out.width - 1))


def facts(desk: Desk) -> Iterator[tuple[str, str]]:
    app = desk.app
    branch = git.branch(app.cwd)
    yield "version", __version__
    yield "directory", f"{app.cwd}" + (f" on {branch}" if branch else "")
    yield "trusted", "yes" if app.trusted else "no: its settings, skills and programs don't count"
    if app.settings.add_dirs:
        yield "may write", ", ".join(app.settings.add_dirs)
    count = counted(len(desk.talk.messages), "message")
    yield "conversation", f"{called(desk.session)}, {count}"
    yield "model", app.settings.model or app.model_in_use or "not asked yet"
    yield "mode", f"{app.gate.mode}: {MODES[app.gate.mode]}"
    yield "sandbox", SANDBOX[app.gate.box()]
    if last := app.tally.last:
        yield "context", f"{last.usage.total / app.window(last.model):.0%} used"
    used = f"{tokens(app.tally.usage.total)}, {money(app.tally.cost_usd)}"
    yield "used", f"{counted(app.tally.calls, 'model call')}, {used}"


def permissions(desk: Desk, words: str) -> None:
    """`/permissions [allow|ask|deny RULE]`"""
    gate = desk.app.gate
    kind, _, rule = words.partition(" ")
    if words:
        if kind not in Rules.__struct_fields__ or not rule.strip():
            raise UsageError(f"there is no /permissions {words}", hint=RULES)
        gate.rule(Rules(**{kind: (rule.strip(),)}))
    desk.say(f"{gate.mode} mode: {MODES[gate.mode]}; /mode turns to another one")
    for each in ("deny", "ask", "allow"):
        for rule in dict.fromkeys(getattr(gate.rules, each)):
            desk.say(f"  {each:6} {rule}")
    if gate.rules == Rules():
        desk.say("  there is no rule")
    desk.say(f"deny beats ask beats allow\n{RULES}\nfor good: `ts config set permissions.allow …`")


def add_dir(desk: Desk, words: str) -> None:
    """`/add-dir DIR`: for this chat, as the flag does."""
    if not words:
        raise UsageError("which directory may be written too?", hint="/add-dir DIR")
    path = desk.talk.place(words)
    if not path.is_dir():
        raise UsageError(f"{words} is no directory")
    desk.app.add_dir(path)
    desk.talk.renew()
    desk.say(f"{path.resolve()} may be written too; the shell begins anew")


def tools(desk: Desk, words: str) -> None:
    """`/tools`: what the model may call, those that change something with a mark."""
    for name, tool in sorted(desk.talk.tools().items()):
        mark = "*" if tool.writes else " "
        about = tool.description.strip().partition("\n")[0]
        desk.out.line(cut(f"{mark} {name:16} {safe(about)}", desk.out.width - 1))
    desk.say("* may change something: /permissions tells when that is asked about")


def diff(desk: Desk, words: str) -> None:
    """`/diff [git]`: what this conversation has changed, or what differs from the last commit."""
    if words not in {"", "git"}:
        raise UsageError(f"there is no /diff {words}", hint="/diff, or /diff git")
    if words:
        patch = git.difference(desk.app.cwd, desk.app.environment)
        nothing = "git knows of no change since the last commit"
    else:
        patch = made(desk)
        nothing = "this conversation has changed no file; /diff git: since the last commit"
    rows = list(view.difference(desk.app.veil.text(patch), desk.out.styled))
    for row in rows[:MOST] or [nothing]:
        desk.out.line(row)
    if more := len(rows[MOST:]):
        desk.say(f"… {counted(more, 'more line')}")


def made(desk: Desk) -> str:
    works = worked.turns(desk.app.cwd, desk.session.id, "0")
    if not works:
        return ""
    store = desk.app.snapshots
    return store_undo.standing(store, store_undo.preview(store, works))

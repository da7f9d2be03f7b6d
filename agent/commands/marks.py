"""What the first character of a line means in a chat: `!` a command, `#` a fact to remember."""

from agent.commands.attach import MOST, marked
from agent.commands.desk import Desk
from agent.commands.slash import add_memory
from agent.errors import ToolError, UsageError
from agent.event import ToolStarted
from agent.runs import Ended

SECONDS = 600  # that a command may take


def marked_line(desk: Desk, text: str) -> bool:
    """Do what the line says by its first character; whether it has one. Raises AgentError."""
    if text.startswith("!") and text.strip("! \n"):
        command(desk, text.lstrip("!").strip(), silent=text.startswith("!!"))
    elif text.startswith("#") and "\n" not in text and text.strip("# "):
        add_memory(desk, text.lstrip("#").strip())
    else:
        return False
    return True


def command(desk: Desk, line: str, *, silent: bool) -> None:
    """Run a command, and show what it prints; the model reads that with the next message, unless
    it is `silent`."""
    printed = list[str]()

    def work() -> Ended:
        input = {"command": line, "timeout": SECONDS}
        desk.app.shown(ToolStarted(id="own", name="bash", input=input))
        try:
            printed.append(desk.talk.use("bash", input).text)
        except ToolError as error:
            raise UsageError(str(error)) from error
        return Ended(code=0, answer="")

    desk.work(work)
    for text in printed:
        desk.say(text or "(no output)")
        desk.printed = text
        if not silent:
            desk.brought = [*desk.brought, marked("command", line, text)][-MOST:]

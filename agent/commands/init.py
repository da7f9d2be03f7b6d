"""`ts init`: an AGENTS.md of what the project shows of itself; one that is there is not touched."""

import argparse

from agent.commands.front import answer, directory, say
from agent.errors import UsageError
from agent.store import settingsfile
from agent.store.charter import charter, spread, there
from agent.store.disk import contents, failed
from agent.views.plain import safe

MOST = 512 * 1024  # bytes of the notes that are there
BETTER = "`/init` in a chat has the model read the project and write it better"


def init(typed: argparse.Namespace) -> int:
    """Write AGENTS.md, or say what it would add to the notes that are there. Raises AgentError."""
    cwd, env = directory(), settingsfile.child_environment()
    found = charter(cwd, env)
    if old := there(cwd):
        try:
            text = contents(old, MOST).decode("utf-8", "replace")
        except UsageError as error:
            raise UsageError(f"{old.name} is there and can't be read: {error}") from error
        missing = found.missing(text)
        if not missing:
            say(f"{old.name} is there and speaks of all that can be seen here; {BETTER}")
            return 0
        say(f"{old.name} is there, so nothing is written. It does not speak of this:")
        answer(safe(spread(missing)))
        return 0
    path = cwd / "AGENTS.md"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(found.text)
    except OSError as error:
        raise failed(path, error) from error
    say(f"{path.name} is written, by what can be seen without a model. Read it over; {BETTER}")
    answer(safe(found.text))
    return 0

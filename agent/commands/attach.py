"""What a message brings along: `@file`, `@dir/`, `@address`, and what the user's commands printed.

It stands behind the user's words, in the same message; `said` gives the words alone.
"""

import pathlib
import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from agent.chat import Chat
from agent.engine.chat import SHOWN
from agent.engine.guard import cut
from agent.errors import ToolError
from agent.event import ToolFinished, ToolStarted
from agent.message import Image

MARK = "\n\n<attached "
NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
MOST = 20  # of one message
ADDRESS = ("http://", "https://")
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
LONGEST = 4096  # characters of a path
STOPS = ".,;:!?)]}'"  # that end a sentence, and seldom a name


class Attached(Struct, frozen=True, kw_only=True):
    text: str = ""  # to be put behind the user's words
    images: tuple[Image, ...] = ()


def said(text: str) -> str:
    """The words of a message, without what it brought along."""
    return text.partition(MARK)[0]


def marked(kind: str, name: str, text: str) -> str:
    """
    >>> marked("command", "ls", "a.txt")
    '\\n\\n<attached command="ls">\\na.txt\\n</attached>'
    """
    name = name.replace("&", "&amp;").replace('"', "&quot;")
    return f'{MARK}{kind}="{name}">\n{text.rstrip()}\n</attached>'


def attached(talk: Chat, text: str) -> Attached:
    """What the words of a message name. A name that leads nowhere is told, where it was meant."""
    pieces, images = list[str](), list[Image]()
    for name in list(named(talk, text))[:MOST]:
        if name.startswith(ADDRESS):
            kind, tool, input = "address", "web_fetch", {"url": name}
        elif pathlib.Path(talk.place(name)).is_dir():
            kind, tool, input = "directory", "list_files", {"directory": name}
        else:
            kind, tool, input = "path", "read_file", {"path": name}
        try:
            outcome = used(talk, tool, input)
        except ToolError as error:
            talk.app.notice(f"@{name} is not attached: {error}")
            continue
        pieces.append(marked(kind, name, outcome[0]))
        images += outcome[1]
    return Attached(text="".join(pieces), images=tuple(images))


def named(talk: Chat, text: str) -> Iterator[str]:
    """The files, directories and addresses behind an `@`, each once."""
    seen = set[str]()
    for found in NAMED.finditer(text):
        name = found[1] or found[2]
        if not found[1] and not name.startswith(ADDRESS) and not there(talk, name):
            name = name.rstrip(STOPS)
        if name in seen:
            continue
        seen.add(name)
        if name.startswith(ADDRESS) or there(talk, name):
            yield name
        elif "/" in name:
            talk.app.notice(f"@{name} is not attached: there is no such file")


def there(talk: Chat, name: str) -> bool:
    try:
        return bool(name) and pathlib.Path(talk.place(name)).exists()
    except (OSError, ValueError):  # no path at all
        return False


def dropped(text: str) -> str:
    """What is meant by a pasted text: a picture where it is the path of one, as terminals write it
    for a file that is dropped on them; else itself."""
    if len(text) > LONGEST or "\n" in text or not text.rstrip(" '\"").lower().endswith(PICTURES):
        return text
    try:
        [name] = shlex.split(text.removeprefix("file://"))
        if not pathlib.Path(name).expanduser().is_file():
            return text
    except ValueError:  # several words, or a quote that is not ended
        return text
    return f'@"{name}" ' if " " in name else f"@{name} "


def used(talk: Chat, tool: str, input: dict[str, str]) -> tuple[str, tuple[Image, ...]]:
    """Have a tool used for the user, and shown like a model's call."""
    talk.app.shown(ToolStarted(id="own", name=tool, input=input))
    text, ok = "", False
    try:
        outcome = talk.use(tool, input)
        text, ok = outcome.text, True
    except ToolError as error:
        text = str(error)
        raise
    finally:
        talk.app.shown(ToolFinished(id="own", name=tool, ok=ok, output=cut(text, SHOWN), seconds=0))
    return text, outcome.images

"""A conversation as a file to keep or to send: Markdown, HTML or JSON lines.

What models, tools and users have said is data: HTML is escaped and holds no script, no link and
nothing that is loaded from elsewhere; in Markdown, what tools were given and gave stands in fences
that it can't end.
"""

import re
from collections.abc import Iterable, Iterator
from html import escape

from msgspec import Struct, json

from agent.message import Call, Image, Message, Result
from agent.views.plain import bare

IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
section { margin: 1.5rem 0; } h2 { font-size: 1rem; margin: 0; } small { color: #777; }
.text, pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.user { border-left: 4px solid #57c; padding-left: 1rem; } .failed summary { color: #b33; }
details { margin: .5rem 0; } pre { background: #8881; padding: .5rem; font-size: .85rem; }
img { max-width: 100%; }"""


class Said(Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message with its place."""

    id: str
    parent: str
    time: str
    model: str
    message: Message


class Transcript(Struct, frozen=True, kw_only=True):
    """A conversation as it stands."""

    id: str
    title: str
    cwd: str
    time: str  # when it began
    said: tuple[Said, ...]


def jsonl(transcript: Transcript) -> str:
    """The form in which conversations are kept: a head, then a line a message."""
    head = {"type": "session", "id": transcript.id, "cwd": transcript.cwd, "time": transcript.time}
    titled = {"type": "titled", "title": transcript.title, "time": transcript.time}
    rows: list[object] = [head, *([titled] if transcript.title else []), *transcript.said]
    return "".join(json.encode(row).decode() + "\n" for row in rows)


# -- Markdown -----------------------------------------------------------------------------------


def markdown(transcript: Transcript) -> str:
    parts = [f"# {_title(transcript)}", _about(transcript)]
    calls = dict[str, Call]()
    for said in transcript.said:
        parts += _markdown(said, calls)
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(said: Said, calls: dict[str, Call]) -> Iterator[str]:
    message = said.message
    if message.text or message.role == "assistant":
        yield f"## {_who(said)}"
    yield bare(message.text).strip("\n")
    if message.attached:
        yield fenced(bare(message.attached))
    for image in message.images:
        yield f"*an image, {bare(image.media_type)}*"
    for call in message.calls:
        calls[call.id] = call
        yield f"**{_code(call.name)}**"
        yield fenced(_input(call), "json")
    for result in message.results:
        yield f"*{_outcome(result)} {_code(_name(result, calls))}:*"
        yield fenced(bare(result.text))


def fenced(text: str, kind: str = "") -> str:
    """A text in a fence that is longer than any in it.

    >>> fenced("a\\n```\\nb")
    '````\\na\\n```\\nb\\n````'
    """
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"


def _code(name: str) -> str:
    return "`" + " ".join(bare(name).replace("`", "'").split()) + "`"


# -- HTML ---------------------------------------------------------------------------------------


def html(transcript: Transcript) -> str:
    calls = dict[str, Call]()
    sections = [_section(said, calls) for said in transcript.said]
    title = _escaped(_title(transcript))
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{STYLE}
</style>
</head>
<body>
<h1>{title}</h1>
<p><small>{_escaped(_about(transcript))}</small></p>
{"".join(sections)}</body>
</html>
"""


def _section(said: Said, calls: dict[str, Call]) -> str:
    message = said.message
    calls |= {call.id: call for call in message.calls}
    results = [_folded(result, calls) for result in message.results]
    text = [f'<div class="text">{_escaped(message.text)}</div>'] if message.text else []
    if message.attached:
        shown = (
            f"<details><summary>attached</summary><pre>{_escaped(message.attached)}</pre></details>"
        )
        text.append(shown)
    given = [
        f"<p>{_escaped(call.name)}</p><pre>{_escaped(_input(call))}</pre>" for call in message.calls
    ]
    rows = [*results, *text, *_images(message.images), *given]
    kind = "tool" if message.results and not message.text else message.role
    head = (
        ""
        if kind == "tool"
        else f"<h2>{_escaped(_who(said))} <small>{_escaped(_clock(said.time))}</small></h2>"
    )
    return f'<section class="{kind}">\n' + "\n".join(filter(None, [head, *rows])) + "\n</section>\n"


def _folded(result: Result, calls: dict[str, Call]) -> str:
    words = _escaped(f"{_outcome(result)} {_name(result, calls)}")
    pictures = "".join(_images(result.images))
    state = "ok" if result.ok else "failed"
    text = _escaped(result.text)
    return (
        f'<details class="{state}"><summary>{words}</summary><pre>{text}</pre>{pictures}</details>'
    )


def _images(images: Iterable[Image]) -> Iterator[str]:
    for image in images:
        if image.media_type in IMAGES and BASE64.fullmatch(image.data):
            yield f'<img alt="an image" src="data:{image.media_type};base64,{image.data}">'


def _escaped(text: str) -> str:
    return escape(bare(text), quote=True)


# -- both ---------------------------------------------------------------------------------------


def _title(transcript: Transcript) -> str:
    first = next((each.message.text for each in transcript.said if each.message.text), "")
    return " ".join(bare(transcript.title or first).split())[:80] or "a conversation"


def _about(transcript: Transcript) -> str:
    return bare(
        f"conversation {transcript.id}, begun {_clock(transcript.time)} in {transcript.cwd}"
    )


def _clock(time: str) -> str:
    """A time of the file, for people."""
    return f"{time[:16].replace('T', ' ')} UTC" if time.endswith("Z") else time


def _who(said: Said) -> str:
    return "User" if said.message.role == "user" else f"Assistant {bare(said.model)}".rstrip()


def _input(call: Call) -> str:
    return bare(json.format(json.encode(call.input), indent=2).decode())


def _outcome(result: Result) -> str:
    return "result of" if result.ok else "failure of"


def _name(result: Result, calls: dict[str, Call]) -> str:
    return calls[result.call].name if result.call in calls else "a call"


FORMS = {
    ".md": markdown, ".markdown": markdown, ".txt": markdown,
    ".html": html, ".htm": html, ".jsonl": jsonl,
}  # fmt: skip

"""Tools that read and change files.

What an agent has read it may change as long as nobody else has changed it since: every read
remembers what the file was, every change looks. A file that an agent never read may be changed
too: an edit names what it replaces.
"""

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.errors import ToolError
from agent.tool import Context, Outcome, tool
from agent.tools.file.diff import diff
from agent.tools.file.disk import Spot, locked, opened, put, read, shown, spot, told
from agent.tools.file.edit import Replacement, edited
from agent.tools.file.picture import HEAD, MOST, image, media_type
from agent.tools.file.text import Coding, coding, sound, spelled
from agent.tools.file.window import Sparse, Window, window

WHOLE = 8 << 20  # bytes up to which a file is read at once and known by its hash
CHANGED = 32 << 20  # bytes of the largest file that is edited or overwritten
HEADER = 1 << 16  # bytes that tell how a bigger file is coded
TRIES = 20  # how often a file may appear or vanish while it is being changed
PREVIEWED = 1 << 20  # bytes of a file of which a change is shown before it is made


class Reads:
    """What this agent last saw of each file: a hash, or for a big one its size, time and inode."""

    def __init__(self, context: Context) -> None:
        self._seen = dict[Path, str]()

    def record(self, path: Path, data: bytes | None, status: os.stat_result) -> None:
        """`data`: the whole file, if it was read whole."""
        whole = data is not None and len(data) <= WHOLE
        self._seen[path] = digest(data or b"") if whole else stamp(status)

    def check(self, path: Path, data: bytes, status: os.stat_result, asked: str) -> None:
        """Raise ToolError if the file is another than the one seen."""
        seen = self._seen.get(path)
        if seen is not None and seen not in (digest(data), stamp(status)):
            raise ToolError(
                f"{asked} has changed since you last read it, by someone else or by a command; "
                "nothing was written. Read it again, then do the change anew"
            )

    def close(self) -> None:
        self._seen.clear()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def stamp(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"


@tool(writes=False)
def read_file(
    context: Context, path: str, start_line: int | None = None, end_line: int | None = None
) -> Outcome:
    """Read a text file or an image. With a range, each line begins with its number and |, which
    are not part of the file. A long file is cut, and the end says how to go on.

    start_line: counted from 1
    end_line: the last one wanted
    """
    first, last = asked(start_line, end_line)
    with told(context, path), spot(context, path, reading=True) as place:
        file = opened(place)
        try:
            return content(context, place, file, first, last)
        finally:
            os.close(file)


def asked(start_line: int | None, end_line: int | None) -> tuple[int | None, int | None]:
    """The range that was asked for; -1 as the end is the file's, 0 as the start its beginning."""
    first = None if start_line is None and end_line is None else start_line or 1
    last = None if end_line == -1 else end_line
    if first is not None and (first < 1 or (last is not None and last < first)):
        raise ToolError(
            f"lines {start_line} to {end_line}: lines are counted from 1, and end_line is not "
            "before start_line"
        )
    return first, last


def content(
    context: Context, place: Spot, file: int, first: int | None, last: int | None
) -> Outcome:
    """What an open file is shown as."""
    status = os.fstat(file)
    name, size = shown(context, place.path), status.st_size
    head = os.pread(file, max(HEAD, HEADER), 0)
    if kind := media_type(head):
        return picture(context, place, file, f"{name} is an image ({kind}, {size:,} bytes)")
    data = read(file, WHOLE + 1) if size <= WHOLE else None
    if data is not None and len(data) > WHOLE:  # it has grown
        data = None
    found = coding(head, whole=False) if data is None else coding(data)
    context.own(Reads).record(place.path, data, status)
    if found is None:
        return Outcome(text=f"{name} is a binary file of {size:,} bytes; it is not shown")
    source = Sparse(file) if data is None else io.BytesIO(data)
    part = window(source, found, context.stop, first or 1, last)
    if isinstance(part, Window):
        return Outcome(text=page(part, found, size, numbered=first is not None))
    if first is None or first == 1:
        return Outcome(text=f"{name} is empty")
    raise ToolError(f"{name} has {counted(part, 'line')}; start_line {first} is behind its end")


def picture(context: Context, place: Spot, file: int, said: str) -> Outcome:
    data, status = read(file, MOST), os.fstat(file)
    whole = len(data) == status.st_size
    context.own(Reads).record(place.path, data if whole else None, status)
    found = image(data)
    if isinstance(found, str):
        return Outcome(text=f"{said}, {found}")
    if not context.sees:
        return Outcome(text=f"{said}; this model can't look at images")
    return Outcome(text=said, images=(found,))


def page(part: Window, coding: Coding, size: int, *, numbered: bool) -> str:
    """The lines as text, and at the end in brackets what a reader should know of them."""
    last = part.first + len(part.lines) - 1
    rows: Sequence[str] = part.lines
    if numbered:
        digits = len(str(last))
        rows = [f"{number:{digits}}|{line}" for number, line in enumerate(rows, part.first)]
    text = "\n".join(rows) + ("\n" if part.ended else "")
    remarks = [coding.remark] if coding.remark else []
    if part.crlf:
        whose = "CRLF line ends" if part.crlf == len(rows) else "LF and CRLF line ends mixed"
        remarks.append(f"{whose}, which edits keep")
    if part.cut:
        remarks.append(
            "lines were cut; bash can show all of them: sed -n 7p FILE | cut -c 2001-4000"
        )
    if part.left or not part.sure:
        least = "" if part.sure else "more than "
        remarks.append(f"{least}{counted(part.left, 'more line')} in a file of {size:,} bytes")
        if part.left:
            remarks.append(f"go on with start_line={last + 1}")
    elif numbered:
        remarks.append(f"the file has {counted(last, 'line')}")
    if not text.strip():
        remarks.append(f"{counted(len(rows), 'blank line')}")
    if not remarks:
        return text
    return text + ("\n" if not part.ended else "") + f"[{'; '.join(remarks)}]"


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("s" if count != 1 else "")


@tool(writes=True)
def write_file(context: Context, path: str, content: str) -> str:
    """Write a new file, with the directories it needs, or all of an existing one anew. To change
    part of a file use edit_file."""
    if path.endswith("/"):
        raise ToolError(f"{spelled(path)} names a directory; create_directory makes one")
    sound(content, "content")
    remarks = list[str]()

    def turn(old: bytes | None) -> bytes:
        data, said = styled(old or b"", content)
        remarks[:] = said
        return data

    old, new = changed(context, path, turn, make=True)
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    what = "created" if old is None else "overwrote" if old != new else "no change, same content in"
    size = f"{counted(lines, 'line')}, {counted(len(new), 'byte')}"
    return "; ".join([f"{what} {shown(context, context.inside(path))}: {size}", *remarks])


def styled(old: bytes, content: str) -> tuple[bytes, list[str]]:
    """`content` as bytes in the encoding and with the line ends of `old`, and what was kept."""
    found = coding(old)
    if found is None:
        return content.encode(), ["it was a binary file"]
    if found.damaged and "�" in content:
        raise ToolError(
            "the file has bytes that are not UTF-8, which are shown as �: writing � would lose "
            "them. Change the file with edit_file"
        )
    remarks = list[str]()
    text = found.decode(old)
    if "\n" in content and "\r" not in content and 0 < text.count("\n") == text.count("\r\n"):
        content = content.replace("\n", "\r\n")
        remarks.append("CRLF line ends kept")
    content = content.removeprefix("\ufeff") if found.bom else content
    try:
        data = found.encode(content)
    except UnicodeEncodeError as error:
        lacking = content[error.start]
        return content.encode(), [*remarks, f"now in UTF-8, since {found} has no {lacking!r}"]
    if found.name != "utf-8" or found.bom:
        remarks.append(f"{found} kept")
    return data, remarks


@tool(writes=True)
def edit_file(
    context: Context, path: str, old_string: str, new_string: str, replace_all: bool = False
) -> str:
    """Replace a piece of text that stands exactly once in a file.

    old_string: as it stands; empty: make a new file
    new_string: what to put there
    replace_all: wherever it stands
    """
    edit = Replacement(old_string=old_string, new_string=new_string, replace_all=replace_all)
    return edits_done(context, path, [edit])


@tool(writes=True)
def multi_edit(context: Context, path: str, edits: list[Replacement]) -> str:
    """Edits of one file, one after another: all, or none if one can't be done.

    edits: each like edit_file's
    """
    if not edits:
        raise ToolError("edits is empty: there is nothing to change")
    return edits_done(context, path, edits)


def edits_done(context: Context, path: str, edits: Sequence[Replacement]) -> str:
    before = after = ""
    count, tolerated = 0, list[str]()

    def turn(old: bytes | None) -> bytes:
        nonlocal before, after, count
        if old is None and edits[0].old_string:
            raise FileNotFoundError(path)
        found, before = decoded(old or b"", path)
        after, count = before, 0
        tolerated.clear()
        for number, edit in enumerate(edits, 1):
            try:
                done = edited(after, edit)
            except ToolError as error:
                which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
                raise ToolError(f"{spelled(path)} is unchanged: {which}{error}") from error
            after, count = done.text, count + done.count
            if done.tolerated and done.tolerated not in tolerated:
                tolerated.append(done.tolerated)
        if old is not None and after == before:
            raise ToolError(f"{spelled(path)} is unchanged: there is nothing to change")
        return encoded(after, found, path)

    old, _ = changed(context, path, turn, make=not edits[0].old_string)
    name = shown(context, context.inside(path))
    said = f"created {name}" if old is None else f"edited {name}: {counted(count, 'replacement')}"
    if tolerated:
        said += f", found but for {' and '.join(tolerated)}; there the file's own was kept"
    return f"{said}\n{diff(before, after, name)}".rstrip("\n")


def preview(context: Context, name: str, input: dict[str, Any]) -> str:
    """What an edit would change: a diff, all of it. "" where that can't be told; the call itself
    says why."""
    try:
        full = context.inside(str(input.get("path", "")))
        if not full.exists():
            before = ""
        elif not full.is_file() or full.stat().st_size > PREVIEWED:
            return ""
        else:
            before = decoded(full.read_bytes(), str(full))[1]
        if name == "write_file":
            after = str(input["content"])
        else:
            given = [input] if name == "edit_file" else input["edits"]
            after = before
            for edit in msgspec.convert(given, list[Replacement], strict=False):
                after = edited(after, edit).text
    except (ToolError, OSError, KeyError, msgspec.ValidationError):
        return ""
    return diff(before, after, shown(context, full), whole=True)


def decoded(data: bytes, path: str) -> tuple[Coding, str]:
    found = coding(data)
    if found is None:
        raise ToolError(f"{spelled(path)} is a binary file of {len(data):,} bytes, not text")
    return found, found.decode(data)


def encoded(text: str, coding: Coding, path: str) -> bytes:
    try:
        return coding.encode(text)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{spelled(path)} is unchanged: its encoding, {coding}, has no {text[error.start]!r}; "
            "write it another way, or convert the file first"
        ) from error


def changed(
    context: Context, path: str, turn: Callable[[bytes | None], bytes], *, make: bool
) -> tuple[bytes | None, bytes]:
    """Put what `turn` makes of a file's bytes (None: there is no file) in their place, with nobody
    in between, and return both. `make`: directories on the way are made."""
    reads = context.own(Reads)
    with told(context, path), spot(context, path, make=make) as place:
        for _ in range(TRIES):
            with locked(place, context.stop) as file:
                old = None if file is None else read(file, CHANGED + 1)
                if file is not None and old is not None:
                    if len(old) > CHANGED:
                        raise ToolError(f"{place.asked} is too large to be changed; use a command")
                    reads.check(place.path, old, os.fstat(file), place.asked)
                new = turn(old)
                if new == old and file is not None:
                    reads.record(place.path, new, os.fstat(file))
                    return old, new
                with put(place, new, file) as status:
                    if status is not None:
                        reads.record(place.path, new, status)
                        return old, new
    raise ToolError(f"{spelled(path)} appears and vanishes while it is being changed; try again")


@tool(writes=True)
def create_directory(context: Context, path: str) -> str:
    """Make a directory, and those above it."""
    full = context.inside(path)
    with told(context, path):
        if full.is_dir():
            return f"{shown(context, full)} exists already"
        with spot(context, path, make=True) as place:
            os.mkdir(place.name, dir_fd=place.folder)
    return f"created {shown(context, full)}"

"""What files define, asked of parse.py; where that ends on a file, it is begun anew behind it."""

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from agent.errors import ToolError
from agent.stop import Stop
from agent.tools.child.program import running
from agent.tools.find import parse

SECONDS = 15.0  # that reading all the files may take
DEATHS = 5  # files that may end the parser before the rest is left
LONGEST = 16_000_000  # bytes of one answer
NOTES = {
    "language": "no outline for this kind of file",
    "gone": "it is gone or cannot be read",
    "size": f"it is longer than {parse.BYTES // 1000} kB",
    "text": "it is binary",
    "broke": "the parser gave up on it",
    "late": "the time was up before it",
}


class Symbol(Struct, frozen=True, kw_only=True):
    """A definition."""

    kind: str  # class, function, method, …; "in.impl" is a block that defines nothing by itself
    owner: str  # the names it stands in, with dots; "" at the top
    name: str
    line: int  # from 1
    end: int  # its last line
    depth: int  # how many definitions it stands in
    signature: str

    @property
    def full(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


class Source(Struct, frozen=True, kw_only=True):
    """What is known of a file."""

    note: str = ""  # why nothing is: a key of NOTES
    language: str = ""
    lines: int = 0
    definitions: tuple[Symbol, ...] = ()
    words: str = ""  # the names it uses, see parse.uses; "" where not asked for


def sources(
    stop: Stop, files: Sequence[Path], *, words: bool = False, seconds: float = SECONDS
) -> list[Source]:
    """What each of the files defines, in their order.

    Raises StoppedError when `stop` is set, ToolError where there is no tree-sitter to ask.
    """
    end = time.monotonic() + seconds
    found: list[Source] = []
    deaths = 0
    while len(found) < len(files):
        left = end - time.monotonic()
        if left <= 0 or deaths > DEATHS:
            found += [Source(note="late")] * (len(files) - len(found))
            break
        with closing(answers(stop, files[len(found) :], words=words, seconds=left)) as stream:
            found += stream
        if len(found) < len(files) and time.monotonic() < end:
            found.append(Source(note="broke"))
            deaths += 1
    return found


def answers(stop: Stop, files: Sequence[Path], *, words: bool, seconds: float) -> Generator[Source]:
    """The same, up to the file on which the parser ends."""
    order: parse.Order = {
        "path": [each for each in sys.path if Path(each).is_absolute()],
        "files": [str(file) for file in files],
        "words": words,
    }
    decode = msgspec.json.Decoder(Source).decode
    argv = [sys.executable, "-I", "-S", parse.__file__]
    input = parse.encoded(order)
    with running(argv, cwd=Path("/"), stop=stop, seconds=seconds, input=input) as program:
        for record in program.records(b"\n", longest=LONGEST):
            try:
                source = decode(record)
            except msgspec.DecodeError:  # cut, because the parser ended or it is too long
                return
            yield source
        if "ImportError" in program.complaint or "ModuleNotFoundError" in program.complaint:
            reason = program.complaint.strip().rpartition("\n")[2]
            raise ToolError(f"there are no outlines here ({reason}); use grep_files")

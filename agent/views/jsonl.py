"""Events as lines of JSON, for programs: `--output-format stream-json`."""

from typing import BinaryIO

from agent.event import Event, TextDelta, encode
from agent.seams import Sink


def jsonl(stream: BinaryIO, *, partial: bool = False) -> Sink:
    """A sink that writes each event as one line, at once; `partial`: pieces of text too.

    Unlike other sinks it raises: BrokenPipeError when the reader has gone, since without a reader
    there is nothing to go on for.
    """

    def write(event: Event) -> None:
        if partial or not isinstance(event, TextDelta):
            stream.write(encode(event) + b"\n")
            stream.flush()

    return write

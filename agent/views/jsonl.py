"""Events as lines of JSON, for programs: `--output-format stream-json`."""

import re
from typing import BinaryIO

from agent.event import Event, TextDelta, encode
from agent.seams import Sink

# In UTF-8: C1 controls, DEL, bidi overrides and isolates. JSON may write them out.
_ACTING = re.compile(rb"\xc2[\x80-\x9f]|\x7f|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]")


def harmless(data: bytes) -> bytes:
    """The same JSON, with what acts on a terminal written as `\\uXXXX`."""
    return _ACTING.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), data)


def jsonl(stream: BinaryIO, *, partial: bool = False) -> Sink:
    """A sink that writes each event as one line, at once; `partial`: pieces of text too.

    Unlike other sinks it raises: BrokenPipeError when the reader has gone, since without a reader
    there is nothing to go on for.
    """

    def write(event: Event) -> None:
        if partial or not isinstance(event, TextDelta):
            stream.write(harmless(encode(event)) + b"\n")
            stream.flush()

    return write

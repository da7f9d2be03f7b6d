"""The log of a run: one JSON object a line, only ever added to, kept before it is shown.

Each line ends with the CRC-32 of what stands before it, so that damage is seen and never read
as something that happened. Events that begin or end a piece of work reach the disk itself before
anybody is shown them: after a power cut, what the user saw is there.
"""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct, UnsetType, structs

from agent.event import (
    TYPES,
    Event,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StepFinished,
    StepStarted,
    TextDelta,
    decode,
    encode,
    is_kept,
)
from agent.seams import Sink
from agent.secret import Veil
from agent.store.disk import failed, opened
from agent.store.lines import LONGEST, Lines, encodable, lines, now

BOUNDARIES = (
    RunStarted,
    RunResumed,
    PlanCreated,
    StepStarted,
    StepFinished,
    PlanRevised,
    RevisionFailed,
    RunFinished,
)

_SEAL = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_SEAL_LENGTH = len(b',"crc":"00000000"}')


class Fault(Struct, frozen=True):
    """A line of a log that was passed over, or before which some are missing."""

    line: int  # from 1
    why: str


class Record(Struct, frozen=True, kw_only=True):
    """All that could be read of a log."""

    events: tuple[Event, ...] = ()
    faults: tuple[Fault, ...] = ()
    torn: bool = False  # the last line is cut short: a crash, or it is being written
    seq: int = 0  # of the last event, one of an unknown type included

    @property
    def notice(self) -> str:
        """What a user should know about the damage; "" for none."""
        if not self.faults:
            return ""
        where = ", ".join(f"line {fault.line}: {fault.why}" for fault in self.faults[:5])
        more = len(self.faults) - 5
        return f"the log is damaged and was read without what is lost ({where}" + (
            f", and {more} more)" if more > 0 else ")"
        )


class Log:
    """Numbers events, writes them down, and only then shows them. One thread uses it.

    Opened on a log that is there it goes on after the last whole line; `before` is what it
    found. Without a path it writes nothing and events belong to no run: a plain chat. An event
    that is not kept is shown with the number of the last one that is. What `veil` knows for a
    secret is neither written nor shown.
    Raises UsageError if another process writes this log, AgentError where it can't be written.
    """

    def __init__(
        self, path: Path | None, sinks: Sequence[Sink] = (), veil: Veil | None = None
    ) -> None:
        self._sinks, self._veil = sinks, veil or Veil()
        self._run = path.stem if path else None
        self._file: Lines | None = None
        self.before = Record()
        if path:
            self._file = Lines(path, _is_whole)
            found = recorded(path)
            self.before = structs.replace(found, torn=self._file.torn > 0)
        self._seq = self.before.seq
        self._growing: dict[str | UnsetType, str] = {}  # by step: text that may be part of a secret

    def __call__(self, event: Event) -> Event:
        """Keep an event and show it; return it as it was kept, with its time, run and number. A
        plan is returned as it is: what it runs is never changed. Of a text that comes in pieces
        the last word waits for the next piece, or for what follows.

        Raises AgentError if it could not be kept; it has then not been shown.
        """
        text = self._growing.pop(event.step, "")
        if isinstance(event, TextDelta):
            text += event.text
            at = self._veil.settled(text)
            if text[at:]:
                self._growing[event.step] = text[at:]
            event = structs.replace(event, text=text[:at])
            return self._put(event) if event.text else event
        if text:
            self._put(TextDelta(step=event.step, text=text))
        return self._put(event)

    def _put(self, event: Event) -> Event:
        kept = is_kept(event)
        event = structs.replace(event, time=now(), run=self._run, seq=self._seq + kept)
        try:
            line = encode(event)
        except UnicodeEncodeError:
            event = encodable(event)
            line = encode(event)
        told = event
        if self._veil.shows(line):
            told = self._veil.over(event)
            line = encode(told)
        if kept and self._file:
            self._file.add(sealed(line), sync=isinstance(event, BOUNDARIES))
        self._seq += kept
        for sink in self._sinks:
            sink(told)
        return event if isinstance(event, (PlanCreated, PlanRevised)) else told

    def settle(self) -> None:
        """Show what waits for the next piece of a text: there is none."""
        while self._growing:
            step, text = self._growing.popitem()
            self._put(TextDelta(step=step, text=text))

    def close(self) -> None:
        if self._file:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read(path: Path) -> Iterator[Event]:
    """The events of a log, oldest first; what is damaged or of an unknown type is passed over."""
    return iter(recorded(path).events)


def recorded(path: Path) -> Record:
    """All that can be read of a log, and what can't. Raises AgentError where it can't be opened.

    Events of unknown types are passed over without a word: a newer version may have written them.
    """
    events, faults = list[Event](), list[Fault]()
    torn, seq, bad = False, 0, 0
    for line in lines(path):
        try:
            number, event = _opened(line.data)
        except ValueError as error:
            torn = not line.ended
            if line.ended:
                bad += 1
                faults.append(Fault(line.number, str(error)))
            continue
        if number <= seq:
            faults.append(Fault(line.number, f"event {number} stands there again"))
            continue
        if number > seq + 1 + bad:
            faults.append(Fault(line.number, f"events before {number} are missing"))
        seq, bad = number, 0
        if event:
            events.append(event)
    return Record(events=tuple(events), faults=tuple(faults), torn=torn, seq=seq)


def remove(path: Path) -> None:
    """Delete a log. Raises UsageError if another process writes it, AgentError if that fails."""
    with Lines(path, _is_whole):
        try:
            path.unlink()
        except OSError as error:
            raise failed(path, error) from error


def picked(path: Path, kinds: Collection[type[Event]], *, most: int = LONGEST) -> Iterator[Event]:
    """The events of some types only, oldest first; others are not even looked at, so that a long
    log is read quickly. Of what is longer than `most` bytes the rest is left out."""
    heads = tuple(b'{"type":"%s"' % str(kind.__struct_config__.tag).encode() for kind in kinds)
    for line in lines(path):
        most -= len(line.data)
        if most < 0:
            return
        if line.data.startswith(heads) and (event := _event(line.data)):
            yield event


def ends(path: Path) -> tuple[Event | None, Event | None]:
    """The first and the last event of a log that can be read, without reading all of a long one."""
    first = _first(line.data for line in lines(path))
    try:
        with opened(path) as file:
            size, window = file.seek(0, 2), 65_536
            while True:
                file.seek(max(size - window, 0))
                last = _first(reversed(file.read(window).split(b"\n")))
                if last or window >= size:
                    return first, last or first
                window *= 8
    except OSError as error:
        raise failed(path, error) from error


def sealed(line: bytes) -> bytes:
    """A JSON object with its own CRC-32 as the last key.

    >>> sealed(b'{"a":1}')
    b'{"a":1,"crc":"561bacaf"}'
    """
    return b'%s,"crc":"%08x"}' % (line.removesuffix(b"}"), zlib.crc32(line))


def _opened(line: bytes) -> tuple[int, Event | None]:
    """The number and the event of a line; None for a type we don't know. Raises ValueError."""
    seal = _SEAL.fullmatch(line[-_SEAL_LENGTH:])
    if not seal:
        raise ValueError("it is no line of a log")
    body = line[:-_SEAL_LENGTH] + b"}"
    if b"%08x" % zlib.crc32(body) != seal[1]:
        raise ValueError("its checksum does not fit")
    try:
        event = decode(body)
    except msgspec.ValidationError as error:
        head = msgspec.json.decode(body, type=_Head)
        if head.type in TYPES:
            raise ValueError(f"a {head.type} that this version can't read: {error}") from error
        return head.seq, None
    return event.seq, event


class _Head(Struct):
    type: str
    seq: int


def _event(line: bytes) -> Event | None:
    try:
        return _opened(line)[1]
    except ValueError:
        return None


def _first(lines: Iterable[bytes]) -> Event | None:
    for line in lines:
        if event := _event(line):
            return event
    return None


def _is_whole(line: bytes) -> bool:
    return _event(line) is not None

"""What a person at a terminal sees: a conversation, and the plan that is under way as a tree.

What has happened is printed once and scrolls; at the foot stands what happens now. On a terminal
that can't do that, or where there is none, the same is told in plain lines.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import TextIO

from agent.event import (
    Event,
    PermissionDecided,
    RunFinished,
    RunResumed,
    RunStarted,
    Text,
    TextDelta,
    ToolFinished,
    ToolStarted,
    step_of,
)
from agent.state import State
from agent.views import figures
from agent.views.gist import diff, gist, hint, numbered
from agent.views.lines import Level, Story
from agent.views.link import linked
from agent.views.plain import Output, cells, cut, safe
from agent.views.prose import Prose, rendered
from agent.views.region import Region
from agent.views.tree import FRAMES, PLAIN_FRAMES, Past, Tree, whole

PIPE_WIDTH = 200  # columns of a line where there is no terminal
LONG = 3.0  # seconds after which a user may want to know how to end it
ROOMY = 12  # rows of a terminal in which there is room for a hint
HINT = "? lists what can be typed meanwhile"
DIFF_ROWS = 30  # rows of an edit's diff that are shown
WRITERS = {"write_file", "edit_file", "multi_edit"}  # calls that leave a file to look at
RUNS = {"submit_plan", "run_skill"}  # calls whose outcome is a run, which has been shown


class Terminal:
    """A sink for a chat and its runs, or for one run. Close it, whatever happens.

    `keys`: the terminal's input, not echoed while the foot is drawn. `prose`: whether a chat's
    text is shown here; otherwise only what is done on the way to it. Any thread may call it.
    """

    def __init__(
        self,
        out: Output,
        level: Level = "normal",
        *,
        keys: TextIO | None = None,
        prose: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._out, self._level, self._clock = out, level, clock
        self._region = Region(out, self._rows, keys=keys)
        frames = FRAMES if out.unicode else PLAIN_FRAMES
        width = PIPE_WIDTH if not out.tty else 0
        self._story = Story(
            out.styled, lambda: width or out.width - 1, level, brief=out.fancy
        )  # fmt: skip
        self._tree = Tree(out.styled, clock, frames=frames)
        self._frames = frames
        self._prose = Prose(out) if prose else None
        self._in_run = False
        self._turns = 0
        self._since = clock()  # when what is under way in the chat began
        self._calls: dict[str, ToolStarted] = {}  # of the chat, under way
        self._ends = "Ctrl-C"
        self._last = ""  # what kind of thing was printed last in this turn

    def __call__(self, event: Event) -> None:
        with self._region.lock:
            if isinstance(event, RunStarted | RunResumed):
                self._in_run = True
                self._region.open()
            if self._in_run or step_of(event):
                self._run(event)
            else:
                self._chat(event)
            if isinstance(event, RunFinished):
                self._in_run = False
                self._since = self._clock()
                if not self._turns:
                    self._region.close()
                self._region.draw()

    def listen(self, hear: Callable[[str], None], *, ends: str = "Ctrl-C") -> None:
        """Let `hear` have each line that is typed while the foot is drawn, and each key that
        `views.typed` names; its thread is ours. `ends`: the key that ends a turn."""
        self._region.hear, self._ends = hear, ends

    def draft(self) -> str:
        """What has been typed of a line that is not ended; it is forgotten here."""
        with self._region.lock:
            return self._region.typed.take()

    @property
    def state(self) -> State | None:
        """The run that is shown, None where there is none. To be read while all is `still`."""
        return self._story.state if self._in_run else None

    def foresee(self, past: Past, workers: int) -> None:
        """Let the rest of a run be told by how long its steps took before, if so many are done at
        once."""
        self._tree.past, self._tree.workers = past, workers

    def still(self) -> AbstractContextManager[object]:
        """Inside, nothing is taken in."""
        return self._region.lock

    def plan(self) -> list[str]:
        """The steps of the run that is shown, or was shown last: how each of them stands."""
        with self._region.lock:
            state = self._story.state
            return list(whole(state, self.width, styled=self.styled)) if state.steps else []

    @property
    def width(self) -> int:
        return self._out.width

    def styled(self, style: str, text: str) -> str:
        return self._out.styled(style, text)

    def say(self, lines: Iterable[str]) -> None:
        """Print lines (safe) above the foot."""
        with self._region.lock:
            self._print("said", "".join(f"{line}\n" for line in lines))

    def recall(self, events: Iterable[Event]) -> None:
        """Take in what a run's log tells, without showing it: the run is about to go on."""
        with self._region.lock:
            self._story.recall(events)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Inside, a message of the user is being answered: the foot says so."""
        if self._out.fancy and self._prose:  # takes 0.2 s, while the model is waited for
            threading.Thread(target=rendered, args=("", self._out), daemon=True).start()
        with self._region.lock:
            self._turns += 1
            self._last = ""
            self._since = self._clock()
            self._region.open()
        try:
            yield
        finally:
            with self._region.lock:
                self._turns -= 1
                self._calls.clear()
                self._finish_text(None)
                if not self._turns:
                    self._region.close()

    def paused(self) -> AbstractContextManager[None]:
        """Inside, the terminal is the caller's, to ask something; what happens is shown after."""
        return self._region.paused()

    def close(self) -> None:
        """Take the foot away and leave the terminal as it was. Idempotent."""
        with self._region.lock:
            self._finish_text(None)
            self._region.close()

    def _print(self, kind: str, text: str) -> None:
        """Print lines, apart from those of another kind."""
        if text:
            self._region.print("\n" + text if self._last not in {"", kind} else text)
            self._last = kind

    def _run(self, event: Event) -> None:
        lines = [line + "\n" for line in self._story.lines(event)]
        self._tree.take(event, self._story.state)
        self._print("run", "".join(lines))

    def _chat(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                if self._prose:
                    self._print("text", self._prose.feed(text))
            case Text(text=text):
                self._finish_text(text)
            case ToolStarted(id=id):
                self._calls[id] = event
                self._since = self._clock()
            case ToolFinished(id=id):
                self._called(event, self._calls.pop(id, None))
                self._since = self._clock()
            case PermissionDecided():
                pass  # the end of the call says it
            case _:
                lines = [line + "\n" for line in self._story.lines(event)]
                self._print("notice", "".join(lines))

    def _finish_text(self, text: str | None) -> None:
        if self._prose:
            self._print("text", self._prose.end(text))

    def _called(self, event: ToolFinished, asked: ToolStarted | None) -> None:
        if self._level == "quiet" or (event.name in RUNS and event.ok):
            return
        width = min(self._out.width - 1, PIPE_WIDTH)
        words = gist(event.name, asked.input if asked else {}, max(width * 3 // 5, 20))
        sign, style = ("→", "dim") if event.ok else ("✗", "red")
        line = self._out.styled(style, cut(f"  {words} {sign} {hint(event, 200)}", width))
        if asked and event.ok and event.name in WRITERS and self._out.fancy:
            line = linked(line, str(asked.input.get("path", "")), self._out.environ)
        changed = list(numbered(diff(event.output)))
        rows = [self._out.styled(style, cut(row, width - 4)) for style, row in changed[:DIFF_ROWS]]
        if len(changed) > DIFF_ROWS:
            rows.append(self._out.styled("dim", f"… {len(changed) - DIFF_ROWS} more lines"))
        self._print("call", "\n".join([line, *(f"    {row}" for row in rows)]) + "\n")

    def _rows(self, width: int, height: int) -> list[str]:
        typed = self._region.typed.text
        sign = "› " if self._out.unicode else "> "
        if not typed and self._in_run and self._region.hear and height >= ROOMY:
            return [
                *self._foot(width, height - 1),
                self._out.styled("dim", cut(sign + HINT, width)),
            ]
        if not (typed and self._region.hear) or height < 2:
            return self._foot(width, height)
        typed = typed.replace("\n", "↵" if self._out.unicode else " ")  # as it was pasted
        return [*self._foot(width, height - 1), sign + _ending(typed, width - 3)]

    def _foot(self, width: int, height: int) -> list[str]:
        if self._in_run:
            return self._tree.rows(self._story.state, width, height)
        tail = self._prose.rows(width, height - 1) if self._prose else []
        rows = tail or [self._waiting(width)]
        return ["", *rows] if self._last not in {"", "text" if tail else "call"} else rows

    def _waiting(self, width: int) -> str:
        frame = self._frames[int(self._clock() * 8) % len(self._frames)]
        call = next(reversed(self._calls.values()), None)
        doing = gist(call.name, call.input, width) if call else "thinks"
        passed = self._clock() - self._since
        how = f" · {self._ends} stops it" if passed >= LONG else ""
        text = cut(f"{figures.clock(passed)} · {doing}", max(width - 2 - len(how), 20)) + how
        return self._out.styled("cyan", frame) + " " + cut(text, width - 2)


def _ending(text: str, width: int) -> str:
    """The end of a text, safe, in at most `width` columns: where the next key goes."""
    text = safe(text)
    if cells(text) <= width:
        return text
    while cells(text) >= width:
        text = text[max(len(text) // 8, 1) :] if len(text) > 2 * width else text[1:]
    return "…" + text

"""What tells a user who looks elsewhere: a bell or a notification when something long has ended or
asks, and the terminal's title. Nothing of it where there is no terminal.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import Literal, TypeAlias

from agent.event import Event, RunFinished, RunResumed, RunStarted
from agent.views.plain import Output, one_line

Notify: TypeAlias = Literal["bell", "desktop", "off"]

LONG = 30.0  # seconds since the user was last heard, after which they may look elsewhere
WORDS = 60  # columns of a title or a notification
TITLED = ("xterm", "rxvt", "alacritty", "foot", "kitty", "wezterm", "vte", "ghostty", "tmux")
PUSH, POP = "\x1b[22;2t", "\x1b[23;2t"  # the title is kept, and put back


class Attention:
    """For one command at a terminal; also a sink, so that a title can name the run. Close it.

    `mode` is the setting, once it is known. `place`: what the user is to know the command by.
    """

    def __init__(self, out: Output, place: str, *, clock: Callable[[], float] = monotonic) -> None:
        self.mode: Notify = "bell"
        self._out, self._clock = out, clock
        self._place = one_line(place, WORDS) or "/"
        self._heard = clock()  # when the user was last known to be there
        self._goal = ""
        kind = out.environ.get("TERM", "")
        self._titles = out.fancy and kind.startswith(TITLED)
        self._pushed = False
        self._sign = ""

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(goal=goal):
                self._goal = one_line(goal, WORDS)
                self.title("▸")
            case RunResumed():
                self.title("▸")
            case RunFinished():
                self._goal = ""
                self.title()
            case _:
                pass

    def title(self, sign: str = "") -> None:
        """Set the terminal's title: a sign for what goes on, and what it is about."""
        self._sign = sign
        if self._titles:
            begin, self._pushed = ("" if self._pushed else PUSH), True
            words = " · ".join(filter(None, (self._goal, self._place, "ts")))
            self._out.write(f"{begin}\x1b]2;{f'{sign} {words}'.strip()}\x07")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Inside, the user waits."""
        self._heard = self._clock()
        self.title("▸")
        try:
            yield
        finally:
            self._goal = ""
            self.title()
            self.call("done")

    def asking(
        self, pause: Callable[[], AbstractContextManager[None]]
    ) -> Callable[[], AbstractContextManager[None]]:
        """The same, with the user called: what is done inside waits for them."""

        @contextmanager
        def asked() -> Iterator[None]:
            with pause():
                before = self._sign
                self.title("?")
                self.call("a question waits for you")
                try:
                    yield
                finally:
                    self._heard = self._clock()
                    self.title(before)

        return asked

    def call(self, why: str) -> None:
        """Call a user who has not been heard for a while."""
        if self._clock() - self._heard < LONG or not self._out.tty or self.mode == "off":
            return
        sent = notification(self._out.environ, f"{self._place}: {why}") if self._titles else ""
        self._out.write(sent if sent and self.mode == "desktop" else "\a")

    def close(self) -> None:
        """Put the title back. Idempotent."""
        if self._pushed:
            self._pushed = False
            self._out.write(POP)


def notification(environ: Mapping[str, str], text: str) -> str:
    """What has a terminal show a notification; "" for one of which that is not known."""
    kind, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if kind.startswith(("tmux", "screen")) or environ.get("TMUX"):
        return ""  # it does not hand that on
    if "kitty" in kind:
        return f"\x1b]99;;ts: {text}\x1b\\"
    if kind.startswith(("foot", "rxvt")):
        return f"\x1b]777;notify;ts;{text.replace(';', ',')}\x1b\\"
    if program in {"iTerm.app", "WezTerm", "ghostty"} or "ghostty" in kind:
        return f"\x1b]9;ts: {text}\x07"
    return ""

"""The line editor of the chat: what the user types, with history, completion and several lines.

Enter submits; `\\` and Enter, Shift+Enter, Alt+Enter and Ctrl+J begin another line; Ctrl+R looks
through the history, Ctrl+G opens $EDITOR; Ctrl+C empties the line, and on an empty one raises
KeyboardInterrupt; Ctrl+D on an empty one raises EOFError. Esc twice empties it too, and on an empty
one submits what `back` says. A line that begins with a blank is not remembered. Where the terminal
can't do this, lines are read as they come.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from agent.secret import Veil
from agent.views.folding import Folds, lost
from agent.views.plain import Output, cut, one_line, spelled

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.filters import Filter
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

CHOICES = 50  # completions that are offered, at most
DRAFT = 5000  # characters of what is to be changed that are shown
HISTORY = 1 << 20  # bytes of the history file; of a longer one the newer half is kept

Command = tuple[str, str]
"""A `/command` or skill without its slash, and what it does."""


def no_files(typed: str) -> Iterable[str]:
    return ()


class Editor:
    """Reads what the user types at `keys` and shows it on `out`. Only one thread at a time.

    `commands`: what may follow a `/`. `files`: the paths that fit what is typed after an `@`, best
    first. `toolbar`: a line below the prompt. `cycle`: called for Shift+Tab.
    """

    def __init__(
        self,
        out: Output,
        keys: TextIO,
        history: Path | None = None,
        *,
        commands: Callable[[], Sequence[Command]] = tuple,
        files: Callable[[str], Iterable[str]] = no_files,
        toolbar: Callable[[], str] | None = None,
        cycle: Callable[[], None] | None = None,
    ) -> None:
        self._out, self._keys, self._history = out, keys, history
        self.veil = Veil()  # what of a line is not remembered
        self._commands, self.files = commands, files
        self._toolbar, self.cycle = toolbar, cycle
        # What a key (as prompt_toolkit names it) calls, with the prompt out of the way; one that is
        # a character does so on an empty line. And what Esc Esc submits there.
        self.folds = Folds()
        self.meant: Callable[[str], str] = lambda pasted: pasted  # what stands for what is pasted
        self.asides: Mapping[str, Callable[[], None]] = {}
        self.back = ""
        self.shown: Callable[[], None] | None = None  # called once, when a prompt is on the screen
        self._session: PromptSession[str] | None = None

    def read(self, prompt: str = "› ", *, default: str = "") -> str:
        """What the user submits; may be several lines, or empty.

        Raises EOFError at the end of input, KeyboardInterrupt as the module says.
        """
        if not (self._out.fancy and self._keys.isatty()):
            return self._plain(prompt)
        if self._session is None:
            self._session = self._made()
            self._session.app.after_render += lambda app: self._told()
        default = self.folds.folded(default, long=DRAFT, lines=DRAFT)
        text = self._session.prompt(prompt if self._out.unicode else "> ", default=default)
        return (
            self.folds.unfolded(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        )

    def redraw(self) -> None:
        """Show anew what the toolbar says. Any thread may call it."""
        if self._session:
            self._session.app.invalidate()

    def _told(self) -> None:
        shown, self.shown = self.shown, None
        if shown:
            shown()

    def _plain(self, prompt: str) -> str:
        lines: list[str] = []
        while True:
            if self._keys.isatty():
                self._out.write(prompt)
                self._told()
            line = self._keys.readline()
            if not line and not lines:
                if self._keys.isatty():
                    self._out.line()  # the prompt stays a line of its own
                raise EOFError
            lines.append(line.removesuffix("\n"))
            if not line or not lines[-1].endswith("\\"):
                return "\n".join(lines)
            lines[-1] = lines[-1][:-1]

    def _made(self) -> "PromptSession[str]":
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input import create_input
        from prompt_toolkit.output import create_output
        from prompt_toolkit.styles import Style

        return PromptSession(
            input=create_input(self._keys),
            output=create_output(self._out.stream),
            history=remembered(self._history, self.veil),
            completer=self._completer(),
            complete_while_typing=True,
            complete_in_thread=True,
            reserve_space_for_menu=6,
            multiline=True,
            prompt_continuation=lambda width, line, wrap: "· ".rjust(width),
            bottom_toolbar=self._bar if self._toolbar else None,
            style=Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack"}),
            key_bindings=bindings(self),
            tempfile_suffix=".md",
            enable_suspend=True,
            enable_open_in_editor=True,
            include_default_pygments_style=False,
        )

    def _bar(self) -> str:
        assert self._toolbar is not None, "there is no bar without its text"
        return cut(one_line(self._toolbar(), 400), self._out.width - 1)

    def _completer(self) -> "Completer":
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion
        from prompt_toolkit.document import Document

        editor = self

        class Words(Completer):
            def get_completions(
                self, document: Document, complete_event: CompleteEvent
            ) -> Iterable[Completion]:
                typed = document.text_before_cursor
                word = typed.split()[-1] if typed and not typed[-1].isspace() else ""
                if typed.startswith("/") and word == typed:
                    for name, about in editor.matching(word[1:]):
                        yield Completion(f"/{name}", -len(word), display_meta=one_line(about, 80))
                elif word.startswith("@"):
                    for path in islice(editor.files(word[1:].lstrip('"')), CHOICES):
                        name = f'"{path}"' if " " in path else path
                        if path == spelled(path):  # a name with controls can't be typed
                            yield Completion(f"@{name}", -len(word), display=path)

        return Words()

    def matching(self, typed: str) -> list[Command]:
        """The commands that begin with what is typed, then those that hold it."""
        key = typed.lower().replace("_", "-")
        begin, hold = list[Command](), list[Command]()
        for name, about in self._commands():
            known = name.lower().replace("_", "-")
            if known.startswith(key):
                begin.append((name, about))
            elif key in known:
                hold.append((name, about))
        return [*begin, *hold][:CHOICES]


def bindings(editor: Editor) -> "KeyBindings":
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import has_completions, has_focus
    from prompt_toolkit.keys import Keys

    keys = lines()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("escape", "escape", filter=typing)
    def go_back(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        elif editor.back:
            event.app.exit(result=editor.back)

    @keys.add("c-g", filter=typing)
    def write(event: "KeyPressEvent") -> None:
        event.current_buffer.open_in_editor()

    @keys.add(Keys.BracketedPaste, filter=typing)
    def paste(event: "KeyPressEvent") -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(editor.folds.folded(editor.meant(text)))

    @keys.add("backspace", filter=typing & before_fold(editor.folds))
    def unpaste(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        buffer.delete_before_cursor(editor.folds.at_end(buffer.document.text_before_cursor))

    for key, do in editor.asides.items():
        keys.add(key, filter=typing & (nothing_typed() if len(key) == 1 else typing))(aside(do))
    if cycle := editor.cycle:
        keys.add("s-tab", filter=typing & ~has_completions)(lambda event: cycle())
    return keys


def lines() -> "KeyBindings":
    """The keys that end a line, begin another one, and take it back."""
    from prompt_toolkit.enums import DEFAULT_BUFFER
    from prompt_toolkit.filters import completion_is_selected, has_focus
    from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing & ~completion_is_selected)
    def submit(event: "KeyPressEvent") -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("enter", filter=typing & completion_is_selected)
    def choose(event: "KeyPressEvent") -> None:
        event.current_buffer.complete_state = None

    for shift_enter in ("\x1b[13;2u", "\x1b[27;2;13~"):  # which the library takes for Enter
        ANSI_SEQUENCES[shift_enter] = (Keys.Escape, Keys.ControlM)

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def another_line(event: "KeyPressEvent") -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=typing)
    def clear(event: "KeyPressEvent") -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return keys


def nothing_typed() -> "Filter":
    from prompt_toolkit.application.current import get_app
    from prompt_toolkit.filters import Condition

    return Condition(lambda: not get_app().current_buffer.text)


def before_fold(folds: Folds) -> "Filter":
    from prompt_toolkit.application.current import get_app
    from prompt_toolkit.filters import Condition

    return Condition(lambda: folds.at_end(get_app().current_buffer.document.text_before_cursor) > 0)


def aside(do: Callable[[], None]) -> Callable[["KeyPressEvent"], None]:
    """A handler that calls `do`, which may print, with the prompt out of the way."""

    def handle(event: "KeyPressEvent") -> None:
        from prompt_toolkit.application import run_in_terminal

        run_in_terminal(do)

    return handle


def remembered(path: Path | None, veil: Veil) -> "History":
    """The history in this file, which only its user can read; in memory where it can't be kept.
    What `veil` knows for a secret is not kept.
    """
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Remembered(FileHistory):
        def store_string(self, string: str) -> None:
            if not string.startswith(" "):
                with suppress(OSError):  # a full disk: the line itself is not lost
                    super().store_string(veil.text(lost(string)))

    if path is None or not _prepared(path):
        return InMemoryHistory()
    return Remembered(path)


def _prepared(path: Path) -> bool:
    """Make the file, or shorten it; whether it can be used."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "rb+") as file:
            os.fchmod(file.fileno(), 0o600)
            size = file.seek(0, os.SEEK_END)
            if size > HISTORY:
                file.seek(size - HISTORY // 2)
                kept = file.read().partition(b"\n\n")[2]  # from the next entry on
                file.truncate(0)
                file.write(b"\n" + kept)
    except OSError:
        return False
    return True

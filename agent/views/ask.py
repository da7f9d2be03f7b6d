"""Asking the user: whether a tool may be used, and what an agent wants to know.

One question at a time, labelled with its step; the screen stands still meanwhile. What was typed
before a question was shown answers nothing. The whole of what would happen is shown, with nothing
hidden and inside a frame of ours, so that no text can pass for the question. No answer is a no.
"""

import os
import re
import select
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from time import monotonic
from typing import TextIO

from agent.errors import ToolError
from agent.seams import Answer, Question
from agent.stop import Stop
from agent.views.gist import numbered
from agent.views.plain import Output, one_line, safe, spelled, wrapped

WAIT = 0.2  # seconds between looks at the stop flag
PATIENCE = 3600.0  # seconds that an answer is waited for
TRIES = 20  # replies that are no answer
WORDY = 6  # characters of a reply that says what should change; less may be a slip
LONG_LINE = 65536  # bytes of a reply
BLANKS = re.compile(r" {40,}")  # they could push the end of a command out of sight
NOBODY = "nobody can be asked now; decide as the goal suggests, or report what is missing"
WANTS = {
    "bash": "run a command",
    "edit_file": "edit a file",
    "multi_edit": "edit a file",
    "write_file": "write a file",
    "submit_plan": "carry out a plan",
    "run_skill": "run a skill",
    "web_fetch": "fetch a page",
}


PASSING = {"submit_plan", "run_skill"}  # no rule of settings is about them


def nobody(question: Question) -> Answer:
    """An Ask where there is nobody: the answer is no."""
    return Answer(choice="no", by="nobody")


class TerminalAsk:
    """An Ask that puts questions to the terminal's user. Any thread may call it.

    `keys` is the terminal's input. `pause` keeps the screen still while it is entered. Where
    there is no terminal, at the end of input, after `seconds` and once `stop` is set, nobody has
    answered. `stop` is the flag of what is being done; its owner exchanges it with the work.
    """

    def __init__(
        self,
        out: Output,
        keys: TextIO | None,
        *,
        stop: Stop,
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
        seconds: float = PATIENCE,
    ) -> None:
        self._out, self._keys, self.stop, self._pause = out, keys, stop, pause
        self._seconds = seconds
        self._lock = Lock()

    def __call__(self, question: Question) -> Answer:
        with self._turn() as mine:
            if not mine:
                return nobody(question)
            with self._pause():
                for line in self._framed(question):
                    self._out.line(line)
                return self._answer(question)

    def inquire(self, step: str, question: str) -> str:
        """The user's words on an agent's question. Raises ToolError where nobody answers."""
        with self._turn() as mine:
            if mine:
                with self._pause():
                    rows = wrapped(safe(question.strip()), max(self._out.width - 4, 20))
                    self._out.line(self._title(step, "has a question"))
                    for row in rows:
                        self._out.line(f"  │ {row}")
                    reply = self._read("answer: ")
                    if reply is not None:
                        return reply or "(the user gave no answer)"
        raise ToolError(NOBODY)

    def choose(self, question: str, choices: Mapping[str, str]) -> str:
        """The letter that the user chooses; "" where nobody answers."""
        with self._turn() as mine:
            if not mine:
                return ""
            with self._pause():
                rows = wrapped(safe(question), max(self._out.width - 2, 20))
                self._out.line(self._out.styled("bold yellow", f"? {rows[0]}"))
                for row in rows[1:]:
                    self._out.line(f"  {row}")
                self._out.line("  " + " · ".join(f"{key}: {what}" for key, what in choices.items()))
                for _ in range(TRIES):
                    reply = self._read("which? ")
                    if reply is None:
                        break
                    if letter := _chosen(reply.strip().lower(), choices):
                        return letter
                    self._out.line(f"  {', '.join(choices)}, please")
        return ""

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Wait until no other question is open; whether this one can be put."""
        held = False
        while not self.stop.is_set and not held:
            held = self._lock.acquire(timeout=WAIT)
        try:
            yield held and not self.stop.is_set and self._there and not self._out.gone
        finally:
            if held:
                self._lock.release()

    @property
    def _there(self) -> bool:
        return self._keys is not None and not self._keys.closed and self._keys.isatty()

    def _title(self, step: str, words: str) -> str:
        who = f"step {one_line(step, 60)}" if step else "the agent"
        return self._out.styled("bold yellow", f"? {who} {words}")

    def _framed(self, question: Question) -> Iterator[str]:
        """The whole question. Every line of what it is about stands behind our bar."""
        wants = WANTS.get(question.tool, f"use {one_line(spelled(question.tool), 60)}")
        yield self._title(question.step, f"wants to {wants}")
        text = BLANKS.sub(lambda run: f" ⟨{len(run[0])} blanks⟩ ", spelled(question.text))
        for style, line in _lines(text.removesuffix("\n")):
            for row in wrapped(line, max(self._out.width - 4, 20)):
                yield f"  │ {self._out.styled(style, row)}"
        choices = ["y: yes · n: no · n WORDS: no, and what to do instead"]
        if question.tool == "submit_plan":
            choices = ["y: begin · n: no · other words: what should change"]
        if question.edits:
            choices.append("e: edit it")
        if question.rule:
            choices.append(f"a: always allow {spelled(question.rule)}")
            if question.tool not in PASSING:
                choices.append("A: the same, and from now on, by your settings")
        for row in wrapped("\n".join(choices), max(self._out.width - 4, 20)):
            yield f"  {row}"

    def _answer(self, question: Question) -> Answer:
        lasting = bool(question.rule) and question.tool not in PASSING
        for _ in range(TRIES):
            reply = self._read("allow it? ")
            if reply is None:
                break
            choice, _, words = reply.partition(" ")
            if choice == "A" and lasting and not words:
                return Answer(choice="always", kept=True)
            match choice.lower():
                case "y" | "yes" if not words:
                    return Answer(choice="yes")
                case "n" | "no":
                    return Answer(choice="no", words=words.strip())
                case "e" | "edit" if question.edits and not words:
                    return Answer(choice="edit")
                case _ if question.tool == "submit_plan" and len(reply) >= WORDY:
                    return Answer(choice="no", words=reply)
                case "a" | "always" if question.rule and not words:
                    return Answer(choice="always")
                case _:
                    more = [*(["e"] if question.edits else [])]
                    more += [*(["a"] if question.rule else []), *(["A"] if lasting else [])]
                    self._out.line(f"  {', '.join(['y', 'n', *more])}, please")
        self._out.line("  no answer: it is not done")
        return nobody(question)

    def _read(self, prompt: str) -> str | None:
        """A line that was typed after the prompt was shown; None if none comes."""
        assert self._keys is not None, "a question is only put where there is a terminal"
        end, data = monotonic() + self._seconds, b""
        keys = self._keys.fileno()
        with suppress(termios.error):
            termios.tcflush(keys, termios.TCIFLUSH)
        self._out.write(self._out.styled("bold", prompt))
        while not self.stop.is_set and (left := end - monotonic()) > 0:
            if not select.select([keys], [], [], min(left, WAIT))[0]:
                continue
            try:
                piece = os.read(keys, 4096)
            except OSError:  # the terminal has gone
                piece = b""
            data += piece
            if b"\n" in data:
                return data.split(b"\n")[0].decode("utf-8", "replace").strip()
            if not piece or len(data) > LONG_LINE:
                break
        self._out.line()
        return None


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """What is asked about, line by line, each with its style; of a diff, with numbers."""
    lines = text.split("\n")
    if lines[0].startswith("--- ") and text.count("\n") > 2 and lines[2].startswith("@@"):
        yield "", lines[0].removeprefix("--- ")
        yield from numbered(lines[2:])
        return
    for line in lines:
        style = {"+": "green", "-": "red"}.get(line[:1], "") if len(lines) > 1 else ""
        yield style, line


def _chosen(reply: str, choices: Mapping[str, str]) -> str:
    """The letter that a reply means: itself, or a word of what it stands for; "" for none."""
    if reply in choices:
        return reply
    letter = reply[:1]
    return letter if reply in choices.get(letter, "").lower().replace(",", "").split() else ""

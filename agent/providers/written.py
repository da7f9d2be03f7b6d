"""Calls that a model wrote into its text, read as it streams.

What may become a call is held back until that is decided, so none is ever shown as an answer. A
call counts where it stands in a mark of calls outside of code and thinking, or where the reply is
nothing but calls of tools that were offered. One that stands word for word in what the model was
shown is a quotation, and none. What is read depends on the text alone, never on the pieces that it
came in. A reply with calls of its own is left as it is.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import structs

from agent.message import Call, Reply, Request, Say, Thought
from agent.providers import forms
from agent.providers.forms import DEBRIS, HEADS, MARKS, More, No, Scan
from agent.providers.turns import settled
from agent.providers.wire import CUT, clean

Mode: TypeAlias = Literal["text", "code", "thinking", "after"]

THINKS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<mm:think>": "</mm:think>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "<|channel>thought": "<channel|>",
}
THOUGHT = tuple(THINKS.values())
STARTS = ("<|tool_calls_section_begin|>", "<|tool_call_begin|>")  # Kimi ends its thinking so
TO = " to=functions."  # begins a reply of gpt-oss, whose template has written what comes before
CHANNELS = ("<|start|>", "<|channel|>", TO)  # gpt-oss
CHANNEL_ENDS = ("<|end|>", "<|return|>", "<|call|>")
SHORT = 200  # characters of such a header
KNOWN = (*MARKS, *HEADS, *THINKS, *THOUGHT, *CHANNELS, *CHANNEL_ENDS)
MARK = re.compile("|".join(re.escape(mark) for mark in sorted(KNOWN, key=len, reverse=True)))
LONGEST = max(map(len, KNOWN))
FENCE = re.compile(r"(?m)^ {0,3}(```|~~~)")
GROWN = 8  # a held text is looked at again when it has grown by the eighth part


class Reader:
    """Reads the text of one reply to a request that offered `tools`; `given` is what was shown."""

    def __init__(self, tools: Iterable[Mapping[str, Any]], given: Sequence[str] = ()) -> None:
        self._tools = {str(spec["name"]): rules(spec) for spec in tools}
        self._given = given
        self._text = ""
        self._at = 0  # how far it has been decided
        self._base = 0  # the end of the last call
        self._tried = 0  # how long it was when that was tried the last time
        self._mode: Mode = "text"
        self._end: tuple[str, ...] = ()  # what ends code, or thinking
        self._may_be_alone = True  # whether all of it may be calls and nothing else
        self._channels = False
        self._thinks = False  # whether thinking has been read, if only nothing
        self._shown, self._space = list[str](), ""
        self._said = list[str]()  # what `add` has given since it was asked last
        self.calls = list[Call]()
        self.thought = ""

    @property
    def text(self) -> str:
        """What was not read as a call or as thinking."""
        return "".join(self._shown)

    def add(self, piece: str) -> str:
        """Take a piece; what can be shown now."""
        self._text += piece
        held = len(self._text) - self._at
        if self._tried and held < self._tried + max(self._tried // GROWN, 1):
            return ""
        self._go(over=False)
        self._tried = len(self._text) - self._at
        return self._fresh()

    def end(self) -> str:
        """The text has ended; what is left to be shown."""
        self._go(over=False)
        if self._may_be_alone and self._mode == "text":
            rest = self._text[self._at :]
            calls = forms.alone(rest, self._tools)
            if not calls and (call := forms.nearly(rest, self._tools)):
                calls = [call]
            if calls and not self._quoted(rest.strip()):
                self.calls += calls
                self._at, self._space = len(self._text), ""
        self._may_be_alone = False
        self._go(over=True)
        if self._space and not self.calls:
            self._shown.append(self._space)
            self._said.append(self._space)
        return self._fresh()

    def read(self, reply: Reply, request: Request) -> Reply:
        """The reply, with what was read from its text; `end` has been called."""
        if reply.message.calls or reply.stop == "refused" or not (self.calls or self.thought):
            return reply
        calls, stop = self.calls, reply.stop
        if stop == "length":
            calls = [structs.replace(call, fault=call.fault or CUT) for call in calls]
        elif calls:
            stop = "calls"
        thoughts = reply.message.thoughts
        if self.thought.strip():
            thoughts = (*thoughts, Thought(text=self.thought.strip()))
        made = [structs.replace(call, input=clean(call.input)) for call in calls]
        message = structs.replace(
            reply.message, text=self.text, thoughts=thoughts, calls=settled(made, request)
        )
        return structs.replace(reply, message=message, stop=stop)

    # -- how it goes on --------------------------------------------------------------------------

    def _go(self, *, over: bool) -> None:
        while self._at < len(self._text):
            step = {
                "text": self._in_text,
                "code": self._in_code,
                "thinking": self._in_thinking,
                "after": self._after,
            }[self._mode]
            if not step(over):
                return

    def _in_text(self, over: bool) -> bool:
        if self._may_be_alone and forms.may_be_alone(self._text[self._at :], self._tools):
            return False
        self._may_be_alone = False
        found = MARK.search(self._text, self._at)
        fence = FENCE.search(self._text, self._at)
        if fence and not self._starts_line(fence.start()):
            fence = None
        if fence and (not found or fence.start() < found.start()):
            return self._fenced(fence, over)
        if not found:
            end = len(self._text) if over else self._sure()
            self._show(end)
            return False
        self._show(found.start())
        if self._in_line_of_code(found.start()):
            return self._as_text(found)
        return self._marked(found, over)

    def _starts_line(self, at: int) -> bool:
        return at == 0 or self._text[at - 1] == "\n"

    def _fenced(self, fence: re.Match[str], over: bool) -> bool:
        self._show(fence.start())
        line = self._text.find("\n", fence.end())
        if line < 0 and not over:
            return False
        if self._text.startswith("```tool_call\n", fence.end() - 3):
            found = MARK.match(self._text, fence.end() - 3)
            assert found, "it is one of the marks"
            return self._marked(found, over)
        self._mode, self._end = "code", (fence[1],)
        self._show(line if line >= 0 else len(self._text))
        return True

    def _in_code(self, over: bool) -> bool:
        for found in FENCE.finditer(self._text, self._at):
            if found[1] == self._end[0] and self._starts_line(found.start()):
                self._mode = "text"
                self._show(found.end())
                return True
        line = self._text.rfind("\n") + 1
        held = not over and re.fullmatch(r" {0,3}(`{0,2}|~{0,2})", self._text[line:])
        self._show(max(line, self._at) if held else len(self._text))
        return False

    def _sure(self) -> int:
        """How far the text holds no beginning of a mark."""
        text = self._text
        for at in range(max(self._at, len(text) - LONGEST), len(text)):
            rest = text[at:]
            if any(mark.startswith(rest) for mark in KNOWN):
                return at
            if self._starts_line(at) and re.fullmatch(r" {0,3}(`{0,2}|~{0,2})", rest):
                return at
        return len(text)

    def _in_line_of_code(self, at: int) -> bool:
        """Whether a mark stands between backticks or behind a quote: it is spoken of."""
        line = max(self._text.rfind("\n", 0, at) + 1, self._base)
        before = self._text[line:at]
        return before.count("`") % 2 == 1 or before[-1:] in {'"', "'", "“"}

    def _quoted(self, text: str) -> bool:
        """Whether a call is a quotation, as from a file whose writer wants it to be run."""
        return any(text in each for each in self._given)

    def _in_quotes(self, at: int) -> bool:
        """Whether a mark stands within quotes, as in a text of JSON."""
        line = max(self._text.rfind("\n", 0, at) + 1, self._base)
        return self._text.count('"', line, at) % 2 == 1

    def _as_text(self, found: re.Match[str]) -> bool:
        self._show(found.end())
        return True

    def _marked(self, found: re.Match[str], over: bool) -> bool:
        mark = found[0]
        if mark in MARKS:
            return self._call(found, over)
        if mark in HEADS:
            self._at, self._mode, self._end = found.end(), "after", ()
        elif mark in THINKS:
            if self._shown or self.calls:
                return self._as_text(found)
            self._at, self._mode, self._end = found.end(), "thinking", (THINKS[mark], *STARTS)
        elif mark in THOUGHT:
            if self._thinks or self._in_quotes(found.start()):
                return self._as_text(found)
            # It was thinking from the start: the template had begun it.
            self.thought, self._thinks = self.text, True
            self._shown, self._space, self.calls = [], "", []
            self._at = found.end()
        elif mark in CHANNELS:
            return self._channel(found, over)
        elif self._channels:
            self._at = found.end()
        else:
            return self._as_text(found)
        return True

    def _call(self, found: re.Match[str], over: bool) -> bool:
        scan = Scan(self._text, found.end(), self._tools)
        try:
            calls = MARKS[found[0]](scan)
        except More as more:
            if not over:
                return False
            if not more.name:
                return self._as_text(found)
            calls, scan.at = [forms.cut(more.name)], len(self._text)
        except No:
            return self._as_text(found)
        if self._quoted(self._text[found.start() : scan.at]):
            return self._as_text(found)
        self.calls += calls
        self._at = self._base = scan.at
        self._mode = "after"
        self._end = ("```",) if found[0].startswith(("```", "<｜")) else ()
        return True

    def _channel(self, found: re.Match[str], over: bool) -> bool:
        """The header of a message of gpt-oss: who it is for, and what it is."""
        if found[0] == TO and found.start():
            return self._as_text(found)
        end = self._text.find("<|message|>", found.end(), found.start() + SHORT)
        if end < 0 and not over and len(self._text) - found.start() < SHORT:
            return False
        if end < 0 and not self._channels and len(self._text) - found.start() >= SHORT:
            return self._as_text(found)
        if end < 0:  # a header that nothing follows
            self._at = found.end() if self._channels else len(self._text)
            return True
        header = self._text[found.start() : end]
        self._channels, self._at = True, end + len("<|message|>")
        to = re.search(r"to=(\S+?)(?:<|\s|$)", header)
        kind = re.findall(r"<\|channel\|>\s*(\w+)", header)[-1:]
        if kind == ["final"]:
            return True
        if to and to[1].startswith("functions."):
            return self._to_function(found, to[1].removeprefix("functions."), over)
        if kind == ["analysis"] or to:
            self._mode, self._end = "thinking", (*CHANNEL_ENDS, *CHANNELS[:2])
        return True

    def _to_function(self, found: re.Match[str], name: str, over: bool) -> bool:
        scan = Scan(self._text, self._at, self._tools)
        try:
            scan.skip()
            if self._text[scan.at] != "{":
                raise No
            call = forms.with_json(scan, name)
        except More:
            if not over:
                self._at = found.start()
                return False
            call, scan.at = forms.cut(name), len(self._text)
        except No:
            self._mode, self._end = "thinking", (*CHANNEL_ENDS, *CHANNELS[:2])
            return True
        self.calls.append(call)
        self._at = self._base = scan.at
        self._mode, self._end = "after", ()
        return True

    def _in_thinking(self, over: bool) -> bool:
        ends = [(self._text.find(mark, self._at), mark) for mark in self._end]
        found = min(((at, mark) for at, mark in ends if at >= 0), default=None)
        if not found:
            if over:
                self.thought += self._text[self._at :]
                self._at = len(self._text)
            return False
        at, mark = found
        self.thought += self._text[self._at : at]
        self._thinks = True
        closes = mark in THOUGHT or mark in CHANNEL_ENDS
        self._at = at + len(mark) if closes else at
        self._mode, self._may_be_alone = "text", not self._shown and mark in THOUGHT
        self._space = ""
        return True

    def _after(self, over: bool) -> bool:
        """Go past white space and what means nothing behind a call."""
        scan = Scan(self._text, self._at, {})
        try:
            scan.skip()
            if scan.taken(*DEBRIS, *self._end):
                self._at = scan.at
                return True
        except More:
            if over:
                self._at = len(self._text)
            return False
        space = self._text[self._at : scan.at]
        self._at, self._space = scan.at, max(self._space, space, key=len)
        self._mode, self._end = "text", ()
        return True

    # -- what is shown ---------------------------------------------------------------------------

    def _show(self, end: int) -> None:
        """Show the text up to there; white space only when something follows it."""
        piece = self._space + self._text[self._at : end]
        self._at = end
        if not self._shown and self._thinks:
            piece = piece.lstrip()
        bare = piece.rstrip()
        self._space = piece[len(bare) :]
        if bare:
            self._shown.append(bare)
            self._said.append(bare)

    def _fresh(self) -> str:
        made = "".join(self._said)
        self._said = []
        return made


def rules(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The properties of a tool that is offered."""
    schema = spec.get("input_schema")
    own = schema.get("properties") if isinstance(schema, dict) else None
    return own if isinstance(own, dict) else {}


def shown(request: Request) -> list[str]:
    """What a model was shown that may hold others' words."""
    texts = [each.text for each in request.messages if each.role == "user"]
    return texts + [result.text for each in request.messages for result in each.results]


def heard(reader: Reader, say: Say) -> Say:
    """A Say that gives `say` what the reader shows."""
    return lambda piece: say(reader.add(piece) if piece else "")

"""Words, redirections and here-documents of a line, from its syntax tree and its own text."""

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import structs

from agent.shell.line import Command, Ends, Scope, moved, union
from agent.shell.word import ANY, HOME, SOME, WORKSPACE, DoubtError, known, unquoted

if TYPE_CHECKING:
    from tree_sitter import Node

DEEP = 60  # levels of a tree

_PLAIN = re.compile(rb"[A-Za-z0-9_./:@%+=-]+")
_DASH = re.compile(rb"[ \t]+-[ \t]*")
_GAP = re.compile(rb"(?:[ \t\n]|\\\n)*")
WORDS = {
    "word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number",
    "simple_expansion", "expansion", "command_substitution", "process_substitution",
    "arithmetic_expansion", "brace_expression", "command_name", "test_operator", "regex",
    "extglob_pattern", "array", "variable_name", "=~", "==",
}  # fmt: skip
_HOLES = {
    "simple_expansion", "expansion", "command_substitution", "process_substitution",
    "arithmetic_expansion",
}  # fmt: skip
_HERE = re.compile(rb"<<-?\s*(?:\w+|'\w+'|\"\w+\")")


_KNOWN = {"HOME": HOME, "PWD": ".", "TS_WORKSPACE": WORKSPACE}  # variables, at a word's start


class Reader:
    """Gathers the commands of a line, and every reason to doubt that they are all."""

    def __init__(self, data: bytes, text: str) -> None:
        self._data, self._text = data, text
        self.commands: list[Command] = []
        self.doubts: list[str] = []

    @abstractmethod
    def statement(self, node: "Node", scope: Scope) -> Ends:
        """Read one statement; where the shell may be afterwards."""

    @abstractmethod
    def pipeline(self, node: "Node", scope: Scope) -> Ends: ...

    def doubt(self, why: str) -> None:
        self.doubts.append(why)

    # -- redirections -----------------------------------------------------------------------------

    def redirect(self, node: "Node", command: Command, scope: Scope) -> tuple[Command, list[str]]:
        """The command with a redirection, and words behind it that belong to the command."""
        if node.type == "heredoc_redirect":
            return self._here(node, command, scope)
        words = [
            value
            for child in node.children
            if child.type in WORDS
            for value in self.values(child, scope)
        ]
        signs = [child.type for child in node.children if not child.is_named]
        if node.type == "herestring_redirect":
            text = words[0] if len(words) == 1 and known(words[0]) else None
            return structs.replace(command, script=text, piped=text is None), []
        if node.type != "file_redirect" or len(signs) != 1 or not words:
            self.doubt(f"it holds a part that is not understood ({node.type})")
            return command, []
        sign, target = signs[0], words[0]
        if sign in {">&", "<&"} and re.fullmatch(r"\d+|-|\d+-", target):
            pass
        elif sign in {"<", "<&"}:
            command = structs.replace(command, ins=(*command.ins, target), piped=True)
        elif sign in {">", ">>", ">|", "&>", "&>>", ">&"}:
            command = structs.replace(command, outs=(*command.outs, target))
        else:
            self.doubt(f"the redirection {sign}")
        return command, words[1:]

    def _here(self, node: "Node", command: Command, scope: Scope) -> tuple[Command, list[str]]:
        """A here-document, and whatever else stands in its first line."""
        words: list[str] = []
        body = b""
        quoted = True
        for child in node.children:
            if child.type in {"<<", "<<-", "heredoc_end", "file_descriptor"}:
                continue
            if child.type == "heredoc_start":
                quoted = not self.of(child).isidentifier()
            elif child.type == "heredoc_body":
                body = self._data[child.start_byte : child.end_byte]
                self._body(child, scope, quoted=quoted)
            elif child.type in WORDS:
                words += self.values(child, scope)
            elif child.type in {"file_redirect", "herestring_redirect"}:
                command, more = self.redirect(child, command, scope)
                words += more
            elif child.type == "pipeline":
                self.pipeline(child, structs.replace(scope, piped=True))
            else:
                self.statement(child, scope.at(union(scope.dirs, moved(command, scope.dirs)[0])))
        self._ended(node)
        text = body.decode("utf-8", "surrogateescape")
        known_text = quoted or not re.search(r"[$`\\]", text)
        return (
            structs.replace(command, script=text if known_text else None, piped=not known_text),
            words,
        )

    def _ended(self, node: "Node") -> None:
        """Doubt a here-document whose end bash may see elsewhere."""
        data = self._data
        begin = next((c for c in node.children if c.type == "heredoc_start"), None)
        end = next((c for c in node.children if c.type == "heredoc_end"), None)
        head = _HERE.match(data, node.start_byte)
        if begin is None or end is None or head is None or head.end() != begin.end_byte:
            self.doubt("a here-document that is not understood")
            return
        name = self.of(begin).strip("'\"").encode()
        first = data.find(b"\n", begin.end_byte)
        rest = data[begin.end_byte : first]
        lines = data[first + 1 :].split(b"\n")
        dash = data[node.start_byte : node.start_byte + 3] == b"<<-"
        at = first + 1
        for line in lines:
            if (line.lstrip(b"\t") if dash else line) == name:
                break
            at += len(line) + 1
        if first < 0 or b"<<" in rest or rest.count(b"'") % 2 or rest.count(b'"') % 2:
            self.doubt("a here-document that is not understood")
        elif (
            b"\\\n" in data[begin.end_byte : first + 1]
            or not at <= end.start_byte <= at + 64
            or data[end.start_byte : end.end_byte].strip() != name
        ):
            self.doubt("a here-document whose end is not clear")

    def _body(self, node: "Node", scope: Scope, *, quoted: bool) -> None:
        if quoted:
            return
        text = self._data[node.start_byte : node.end_byte]
        for hole in reversed([*_topmost(node)]):
            self.inner(hole, scope, itself=True)
            begin, end = hole.start_byte - node.start_byte, hole.end_byte - node.start_byte
            text = text[:begin] + b" " + text[end:]
        if re.search(rb"[`\\]|\$[\w({\[@*#?$!-]", text):
            self.doubt("an expansion in a here-document that is not understood")

    # -- words ------------------------------------------------------------------------------------

    def values(self, node: "Node", scope: Scope) -> list[str]:
        """What a word becomes; the commands in its substitutions are read on the way."""
        begin = node.start_byte
        whole = self._data[begin : node.end_byte]
        if _PLAIN.fullmatch(whole):
            return [whole.decode()]
        holes = []
        for hole in _topmost(node):
            self.inner(hole, scope, itself=True)
            start = hole.start_byte
            while self._data[start : start + 1] in {b" ", b"\t", b"\n"}:
                start += 1  # the grammar counts blanks before a hole in quotes to it
            at_start = start == begin or self._data[begin:start] == b'"'
            value = self._value(hole, scope, at_start=at_start)
            holes.append((start - begin, hole.end_byte - begin, value))
        try:
            words = unquoted(whole.decode("latin-1"), holes)
        except DoubtError as doubt:
            self.doubt(str(doubt))
            return [ANY]
        return [word.encode("latin-1").decode("utf-8", "surrogateescape") for word in words]

    def _value(self, hole: "Node", scope: Scope, *, at_start: bool) -> str:
        text = self.of(hole).strip()
        name = re.fullmatch(r"\$(?:(\w+)|\{(\w+)\})", text)
        variable = name and (name[1] or name[2])
        if variable and variable in scope.bound:
            return scope.bound[variable]
        if at_start:
            steady = variable and not re.search(rf"(?<![\w${{]){variable}\b", self._text)
            if steady and variable in _KNOWN:
                return _KNOWN[variable]
            if text in {"$(pwd)", "`pwd`", "$(git rev-parse --show-toplevel)"}:
                return "."
        if re.fullmatch(r"\$\{\w+:?\?[^`$]*\}", text):
            return ANY + SOME
        return ANY

    def inner(self, node: "Node", scope: Scope, *, itself: bool = False) -> None:
        """Read the commands in the substitutions inside of a node."""
        if scope.depth > DEEP:
            self.doubt("it is nested too deep")
            return
        scope = structs.replace(scope, depth=scope.depth + 1)
        if itself and node.type in {"command_substitution", "process_substitution"}:
            self._substitution(node, scope)
            return
        if itself and node.type == "arithmetic_expansion":
            self.arithmetic(node, scope)
            return
        if itself and node.type == "expansion":
            self._expansion(node)
        for child in node.children:
            self.inner(child, scope, itself=True)

    def _substitution(self, node: "Node", scope: Scope) -> None:
        text = self.of(node).strip()
        if text.startswith("`") and "\\" in text:
            self.doubt("a backslash between backquotes")
        if text.startswith("$(("):
            self.doubt("a substitution that may be a sum")
        for child in self.children(node):
            if child.type == "file_redirect":  # $(< file)
                made, _ = self.redirect(child, Command(text=self.of(child)), scope)
                self.commands.append(structs.replace(made, dirs=scope.dirs))
            elif child.is_named:
                scope = scope.at(union(*self.statement(child, scope)))

    def _expansion(self, node: "Node") -> None:
        text = self._data[node.start_byte : node.end_byte].strip()
        inner = text[2:-1]
        for hole in _topmost(node, inside=True):
            inner = inner.replace(self._data[hole.start_byte : hole.end_byte].strip(), b"")
        if re.search(rb"[`]|[$<>]\(|@[A-Za-z]|\[", inner):
            self.doubt("an expansion that may run something")

    # -- sums and text ----------------------------------------------------------------------------

    def arithmetic(self, node: "Node", scope: Scope) -> None:
        """A name in a sum may hold text that runs: a[$(…)]."""
        self.inner(node, scope)
        head = self.of(node).partition("do")[0] if "for" in node.type else self.of(node)
        if re.search(r"[A-Za-z_$`\[]", head.removeprefix("$").removeprefix("for")):
            self.whatever(node, scope)

    def whatever(self, node: "Node", scope: Scope) -> None:
        self.commands.append(Command(words=(ANY,), text=self.of(node), dirs=scope.dirs, code=True))

    def of(self, node: "Node") -> str:
        return self._data[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    def children(self, node: "Node") -> Iterator["Node"]:
        self.covered(node)
        yield from node.children

    def covered(self, node: "Node") -> bool:
        """Doubt text between a node's parts that is more than blanks; whether it is a lone `-`,
        which the grammar passes over before a here-document."""
        at, dash = node.start_byte, False
        for begin, end in (
            *((c.start_byte, c.end_byte) for c in node.children),
            (node.end_byte,) * 2,
        ):
            if _GAP.fullmatch(self._data, at, max(begin, at)):
                pass
            elif node.type == "redirected_statement" and _DASH.fullmatch(self._data, at, begin):
                dash = True
            else:
                self.doubt("it holds text that is not understood")
            at = max(at, end)
        return dash


def _topmost(node: "Node", *, inside: bool = False) -> Iterator["Node"]:
    """The expansions in a word that are in no other."""
    if node.type in _HOLES and not inside:
        yield node
        return
    for child in node.children:
        yield from _topmost(child)

"""The simple commands that a shell line is made of, by tree-sitter's grammar of bash.

The grammar gives the structure only. What words are, and that nothing lies between the parts that
the grammar passed over, is checked on the text itself; where the two may differ from bash, the line
has a doubt and nobody may take it for understood.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from msgspec import structs

from agent.shell.line import Command, Ends, Line, Scope, alike, moved, union
from agent.shell.reader import DEEP, WORDS, Reader
from agent.shell.word import ANY

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MOST_TEXT, MOST_COMMANDS = 10_000, 50  # characters, commands: a longer line is never understood
MOST_READ = 400  # commands that are read all the same, for rules that deny

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_GLUED = re.compile(r"\S\\\n\S")  # $(, newline, ( is $((
_COMPOUND = {
    "if_statement", "elif_clause", "else_clause", "while_statement", "do_group",
    "compound_statement", "case_item", "negated_command",
}  # fmt: skip
_TOKENS = {
    ";", "&", "\n", ";;", ";&", ";;&", "{", "}", "(", ")", "((", "))", "if", "then", "elif", "else",
    "fi", "while", "until", "do", "done", "for", "select", "in", "case", "esac", "function", "!",
    "|", "|&", "&&", "||", "comment",
}  # fmt: skip
_BUILTINS = {"declaration_command", "unset_command"}
_REASSIGNS = re.compile(
    r"\b(?:read|mapfile|readarray|getopts|select|local|declare|typeset|unset|eval|source|printf\s+-v)\b"
    r"|(?:^|[;&|\n(])\s*\.\s"
)


def read(text: str, dirs: tuple[str, ...] = (".",)) -> Line:
    """What `text` would run. Never raises; a line that is not understood has a doubt."""
    from tree_sitter import Parser  # noqa: PLC0415 - loaded when the first command is judged

    if len(text) > MOST_TEXT:
        return Line(commands=(), doubt=f"it is longer than {MOST_TEXT:,} characters")
    data = text.encode("utf-8", "surrogateescape")
    reader = _Statements(data, text)
    if found := _CONTROL.search(text):
        reader.doubt(f"it holds the control character {found[0]!r}")
    if _GLUED.search(text):
        reader.doubt("a line that goes on in the middle of a word or sign")
    tree = Parser(_language()).parse(data)
    if tree.root_node.has_error:
        reader.doubt("its grammar is not understood")
    ends = union(*reader.statement(tree.root_node, Scope(dirs=dirs)))
    doubt = reader.doubts[0] if reader.doubts else ""
    return Line(commands=tuple(reader.commands), doubt=doubt, ends=ends)


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415 - loaded when the first command is judged
    from tree_sitter import Language  # noqa: PLC0415 - loaded when the first command is judged

    return Language(tree_sitter_bash.language())


class _Statements(Reader):
    def statement(self, node: "Node", scope: Scope) -> Ends:
        """Read one statement; where the shell may be afterwards."""
        if scope.depth > DEEP or len(self.commands) > MOST_READ:
            self.doubt("it is nested too deep" if scope.depth > DEEP else "it has too many parts")
            return scope.dirs, scope.dirs
        scope = structs.replace(scope, depth=scope.depth + 1)
        kind = node.type
        if node.is_missing:
            self.doubt("a part of it is missing")
        read = {
            "program": self._sequence,
            "list": self._list,
            "pipeline": self.pipeline,
            "subshell": self._apart,
            "command": self._command,
            "redirected_statement": self._redirected,
            "function_definition": self._function,
            "for_statement": self._for,
            "c_style_for_statement": self._counting,
            "case_statement": self._case,
            "test_command": self._test,
            "variable_assignment": self._assignment,
            "variable_assignments": self._assignment,
            "declaration_command": self._command,
            "unset_command": self._command,
        }.get(kind)
        if read:
            return read(node, scope)
        if kind in _COMPOUND:
            return self._sequence(node, scope)
        if kind == "comment":
            before = self._data[node.start_byte - 1 : node.start_byte]
            if before not in {b"", b" ", b"\t", b"\n", b";", b"&", b"|", b"(", b")"}:
                self.doubt("it is not clear where a comment begins")
        elif kind in WORDS:
            self.values(node, scope)
        elif node.is_named or kind not in _TOKENS:
            self.doubt(f"it holds a part that is not understood ({kind})")
            for child in node.children:
                self.statement(child, scope)
        return scope.dirs, scope.dirs

    def _sequence(self, node: "Node", scope: Scope) -> Ends:
        if any(child.type == "((" for child in node.children):
            return self._counting(node, scope)
        seen = dirs = scope.dirs
        for child in self.children(node):
            dirs = union(*self.statement(child, scope.at(dirs)))
            seen = union(seen, dirs)
            if node.type == "program":
                scope = self._bound(self._links(child)[0], scope)
        inside = node.type == "program" or (node.type == "compound_statement")
        after = dirs if inside else seen
        return after, after

    def _list(self, node: "Node", scope: Scope) -> Ends:
        success = failure = scope.dirs
        joined = ""
        for child in self._links(node):
            if child.type in {"&&", "||"}:
                joined = child.type
                continue
            begin = {"&&": success, "||": failure}.get(joined, scope.dirs)
            good, bad = self.statement(child, scope.at(begin))
            if not joined:
                scope = self._bound(child, scope)
            if joined == "&&":
                success, failure = good, union(failure, bad)
            elif joined == "||":
                success, failure = union(success, good), bad
            else:
                success, failure = good, bad
        return success, failure

    def _links(self, node: "Node") -> list["Node"]:
        """The parts of a chain, which the grammar nests to the left."""
        links: list[Node] = []
        while node.type == "list":
            left, *rest = self.children(node)
            links[:0] = rest
            node = left
        return [node, *links]

    def pipeline(self, node: "Node", scope: Scope) -> Ends:
        """The grammar takes `cd x && a > f | b` for a pipe out of all before it."""
        first, ends = True, (scope.dirs, scope.dirs)
        for child in self.children(node):
            if child.type in {"|", "|&"}:
                continue
            listed = child.type == "list" or _first(child).type == "list"
            at = len(self.commands)
            if not first:
                scope = structs.replace(scope, piped=True)
            good, bad = self.statement(child, scope)
            if listed and first:
                last = self.commands[-1].dirs if len(self.commands) > at else ()
                scope = scope.at(union(good, last))
                ends = scope.dirs, union(scope.dirs, bad)
            elif listed:
                self.commands[at:] = [
                    structs.replace(each, dirs=union(each.dirs, scope.dirs))
                    for each in self.commands[at:]
                ]
                ends = union(*ends, good, bad), union(*ends, good, bad)
            first = False
        return ends

    def _apart(self, node: "Node", scope: Scope) -> Ends:
        if self.of(node).startswith("(("):
            self.doubt("a group that may be a sum")
        self._sequence(node, scope)
        return scope.dirs, scope.dirs

    def _function(self, node: "Node", scope: Scope) -> Ends:
        name = node.child_by_field_name("name")
        text = self.of(name) if name else ""
        self.commands.append(Command(text=self.of(node), defines=text or "?", dirs=scope.dirs))
        for child in self.children(node):
            if child != name:
                self.statement(child, scope.at(union(scope.dirs, (ANY,))))
        return scope.dirs, scope.dirs

    def _for(self, node: "Node", scope: Scope) -> Ends:
        variable = node.child_by_field_name("variable")
        name = self.of(variable) if variable else ""
        values: list[str] = []
        ends = scope.dirs
        for child in self.children(node):
            if child == variable:
                continue
            if child.type in WORDS:
                values += self.values(child, scope)
            else:
                within = dict(scope.bound)
                within.pop(name, None)
                if values and self._steady(name):
                    within[name] = alike(values)
                good, bad = self.statement(child, structs.replace(scope, bound=within))
                ends = union(ends, good, bad)
        return ends, ends

    def _steady(self, name: str) -> bool:
        """Whether a variable is set at one place of the line alone."""
        sets = rf"\bfor\s+{name}\b|\b{name}(?:\+?=|\[)|\(\(.*\b{name}\b"
        return len(re.findall(sets, self._text)) == 1 and not _REASSIGNS.search(self._text)

    def _bound(self, node: "Node", scope: Scope) -> Scope:
        """What holds after a plain assignment that nothing can keep from being made."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if node.type != "variable_assignment" or name is None or name.type != "variable_name":
            return scope
        if value is None or b"+=" in self._data[name.end_byte : value.start_byte]:
            return scope
        plain = re.fullmatch(r"""(["']?)([\w./@%+:=-]+)\1""", self.of(value))
        if not plain or not self._steady(self.of(name)):
            return scope
        return structs.replace(scope, bound={**scope.bound, self.of(name): plain[2]})

    def _counting(self, node: "Node", scope: Scope) -> Ends:
        self.arithmetic(node, scope)
        for child in node.children:
            if child.type in {"do_group", "compound_statement"}:
                self.statement(child, scope)
        return scope.dirs, scope.dirs

    def _case(self, node: "Node", scope: Scope) -> Ends:
        return self._sequence(node, scope)

    def _test(self, node: "Node", scope: Scope) -> Ends:
        self.inner(node, scope)
        text = self.of(node)
        if re.search(
            r"-(?:eq|ne|lt|le|gt|ge)\b.*[A-Za-z$]|[A-Za-z].*-(?:eq|ne|lt|le|gt|ge)\b", text
        ):
            if not text.startswith("[ "):  # [[ ]] computes, and what it computes may run
                self.whatever(node, scope)
        elif re.search(r"(?:^|\s)-[vR]\s", text):
            self.whatever(node, scope)
        return scope.dirs, scope.dirs

    # -- commands -----------------------------------------------------------------------------

    def _command(self, node: "Node", scope: Scope) -> Ends:
        words: list[str] = []
        assigned: list[str] = []
        command = Command(text=self.of(node), dirs=scope.dirs, piped=scope.piped)
        last = None
        for child in node.children:
            if child.type == "variable_assignment":
                assigned.append(self._assigned(child, scope))
            elif child.type in {"file_redirect", "herestring_redirect"}:
                command, more = self.redirect(child, command, scope)
                words += more
            elif child.type in WORDS or (node.type in _BUILTINS and not child.is_named):
                self._apart_from(last, child)
                words += self.values(child, scope)
            else:
                self.doubt(f"it holds a part that is not understood ({child.type})")
                self.statement(child, scope)
            last = child
        self.covered(node)
        done = structs.replace(command, words=tuple(words), assigned=tuple(assigned))
        self.commands.append(done)
        return moved(done, scope.dirs)

    def _apart_from(self, last: "Node | None", child: "Node") -> None:
        if last is None:
            return
        if not re.search(rb"[ \t]", self._data[last.end_byte : child.start_byte]):
            self.doubt("it is not clear where a word ends")

    def _redirected(self, node: "Node", scope: Scope) -> Ends:
        ends: Ends = scope.dirs, scope.dirs
        at = len(self.commands)
        body = node.child_by_field_name("body")
        if body is not None:
            ends = self.statement(body, scope)
        simple = (
            body is not None
            and _last(body).type in {"command", *_BUILTINS}
            and len(self.commands) > at
        )
        command = self.commands.pop() if simple else Command(text=self.of(node), dirs=scope.dirs)
        words = ["-"] if self.covered(node) else []
        for child in node.children:
            if child != body:
                command, more = self.redirect(child, command, scope)
                words += more
        if words and not simple:
            self.doubt("words behind a redirection")
        if body is not None and body.type == "command":
            command = structs.replace(command, text=self.of(node))
        whole = structs.replace(command, words=(*command.words, *words))
        self.commands.append(whole)
        return moved(whole, scope.dirs) if words else ends

    def _assignment(self, node: "Node", scope: Scope) -> Ends:
        each = [node] if node.type == "variable_assignment" else node.children
        names = tuple(self._assigned(child, scope) for child in each)
        self.commands.append(Command(text=self.of(node), assigned=names, dirs=scope.dirs))
        return scope.dirs, scope.dirs

    def _assigned(self, node: "Node", scope: Scope) -> str:
        """The name that is set; "?" where its place is computed."""
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None or node.type != "variable_assignment":
            self.doubt("an assignment that is not understood")
            return "?"
        if value is not None:
            if value.type == "array":
                for child in value.children:
                    if child.type in WORDS:
                        self.values(child, scope)
            else:
                self.values(value, scope)
        if name.type != "variable_name":
            self.inner(name, scope)
            self.whatever(node, scope)
            return "?"
        return self.of(name)


def _first(node: "Node") -> "Node":
    body = node.child_by_field_name("body") if node.type == "redirected_statement" else None
    return _first(body) if body is not None else node


def _last(node: "Node") -> "Node":
    """The command that a redirection behind all of this belongs to."""
    if node.type in {"list", "pipeline", "negated_command"} and node.named_children:
        return _last(node.named_children[-1])
    return node

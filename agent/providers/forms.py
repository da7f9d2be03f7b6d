"""The forms in which models write calls into their text, where no server has read them.

Each form begins with a mark and is read by a function that takes a `Scan` behind it. Such a
function raises More where the text ends before it can decide, so whatever it says holds for every
text that begins the same; and No where it is not of its form after all. JSON is mended only where
there is one way to: a bracket that is missing before a closing mark, a comma too many, Python's
words and quotes, a line break within a string. What else is wrong becomes a call's fault, which
the model is told.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from agent.message import Call
from agent.providers.wire import CUT, arguments, strict

NAME = re.compile(r"[A-Za-z_][\w.-]{0,127}")
MOST = 2**20  # characters of a call in Python's form
MARKED_NAME = re.compile(r'"(?:name|function|tool)"\s*:\s*"([A-Za-z_][\w.-]{0,127})"')


class More(Exception):  # noqa: N818 - no error: the text may go on
    """The text ends before it is decided; `name`: of the call that it begins, if that is known."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.name = name


class No(Exception):  # noqa: N818 - no error: it is text
    """The text is no call."""


Tools: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The properties of each tool that was offered, by its name."""


class Scan:
    """A text that may go on, and a place in it."""

    def __init__(self, text: str, at: int, tools: Tools) -> None:
        self.text, self.at, self.tools = text, at, tools

    def skip(self) -> None:
        """Go past white space. Raises More at the end of the text."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        if self.at == len(self.text):
            raise More

    def taken(self, *marks: str) -> str:
        """Go past the first of the marks that stands here, and give it; "" for none."""
        rest = self.text[self.at : self.at + max(map(len, marks), default=0)]
        for mark in marks:
            if rest.startswith(mark):
                self.at += len(mark)
                return mark
            if mark.startswith(rest):
                raise More
        return ""

    def need(self, *marks: str) -> str:
        """The same; raises No for none."""
        if not (mark := self.taken(*marks)):
            raise No
        return mark

    def until(self, *marks: str) -> str:
        """What stands before the first of the marks, which is gone past."""
        ends = [(self.text.find(mark, self.at), mark) for mark in marks]
        found = min(((at, mark) for at, mark in ends if at >= 0), default=None)
        if not found:
            raise More
        before, self.at = self.text[self.at : found[0]], found[0] + len(found[1])
        return before

    def name(self) -> str:
        """A tool's name, which ends before some other character."""
        found = NAME.match(self.text, self.at)
        if not found:
            if self.at == len(self.text):
                raise More
            raise No
        if found.end() == len(self.text):
            raise More
        self.at = found.end()
        return found[0]

    def value(self, mark: str, follow: tuple[str, ...]) -> str:
        """What stands before a closing mark that one of `follow` comes after: a value may hold
        the mark itself."""
        start = self.at
        while True:
            self.until(mark)
            end, here = self.at - len(mark), self.at
            self.skip()
            if any(self.text.startswith(each, self.at) for each in follow):
                return self.text[start:end]
            rest = self.text[self.at :]
            if any(each.startswith(rest) for each in follow):
                raise More
            self.at = here

    def enclosed(self, end: tuple[str, ...] = (), quotes: str = '"') -> tuple[str, str]:
        """A bracket and all in it, and the closing brackets that it lacks: where one of the marks
        of `end` stands outside of a string, the text ends there."""
        text, at, open_ = self.text, self.at, list[str]()
        while at < len(text):
            letter = text[at]
            if letter in quotes:
                at = closed(text, at)
                continue
            if letter in "[{(":
                open_.append({"[": "]", "{": "}", "(": ")"}[letter])
            elif letter in "]})":
                if not open_ or open_.pop() != letter:
                    raise No
                if not open_:
                    begin, self.at = self.at, at + 1
                    return text[begin : self.at], ""
            elif any(text.startswith(each, at) for each in end):
                begin, self.at = self.at, at
                return text[begin:at], "".join(reversed(open_))
            at += 1
        raise More


def closed(text: str, at: int) -> int:
    """Where the string that begins at `at` is over."""
    quote, at = text[at], at + 1
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == quote:
            return at + 1
        else:
            at += 1
    raise More


# -- JSON ------------------------------------------------------------------------------------------


def read_json(text: str, lacks: str = "") -> Any:
    """`text` as JSON, mended where there is one way to. Raises ValueError."""
    whole = text.rstrip() + lacks
    try:
        return strict(whole)
    except ValueError as error:
        first = error
    for mended in (json_loosely, python):
        try:
            return mended(COMMA.sub(uncomma, whole))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise first


COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[\]}])', re.DOTALL)


def uncomma(found: re.Match[str]) -> str:
    return "" if found[0] == "," else found[0]


def json_loosely(text: str) -> Any:
    """JSON with line breaks and tabs within strings; nothing else is let pass."""

    def fixed(found: re.Match[str]) -> str:
        return found[0].translate({10: "\\n", 13: "\\r", 9: "\\t"})

    return strict(re.sub(r'"(?:[^"\\]|\\.)*"', fixed, text, flags=re.DOTALL))


BAD_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^\n'\"\\abfnrtvx0-7NuU]")
WORDS = {"true": True, "false": False, "null": None, "none": None}


def python(text: str) -> Any:
    """A value in Python's form, of constants alone."""
    return constant(parsed(text))


def parsed(text: str) -> ast.expr:
    if len(text) > MOST or BAD_ESCAPE.search(text):
        raise ValueError("an escape that can be read in two ways")
    return ast.parse(text.strip(), mode="eval").body


def constant(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=name) if name in WORDS:
            return WORDS[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [constant(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            names = [constant(key) if key else None for key in keys]
            if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
                raise ValueError("a key that is none")
            return {str(name): constant(value) for name, value in zip(names, values, strict=True)}
        case _:
            raise ValueError("it is no constant")


ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "params")
NAMES = ("name", "function", "tool", "tool_name", "action", "function_name")
BESIDE = {"id", "type", "tool_call_id", "index"}


def calls_of(value: Any, tools: Tools, *, marked: bool) -> list[Call]:
    """The calls that a value of JSON means. Raises No for one that means none.

    `marked`: it stood in a mark of calls, so that a name alone is enough, and one that was not
    offered is answered; else it has to be a call of an offered tool and nothing more.
    """
    match value:
        case list() if value:
            return [call for each in value for call in calls_of(each, tools, marked=marked)]
        case {"tool_calls": list() as calls} if len(value) == 1 and calls:
            return calls_of(calls, tools, marked=marked)
        case {"tool_call": dict() as call} | {"function_call": dict() as call} if len(value) == 1:
            return calls_of(call, tools, marked=marked)
        case {"function": dict() as function, **more} if {*more} <= BESIDE:
            return calls_of({**more, **function}, tools, marked=marked)
        case dict() if value:
            return [call_of(value, tools, marked=marked)]
        case _:
            raise No


def call_of(value: dict[str, Any], tools: Tools, *, marked: bool) -> Call:
    named = [key for key in NAMES if isinstance(value.get(key), str)]
    if not named:
        if len(value) == 1 and marked:  # Apertus: {"NAME": {…}}
            [(name, only)] = value.items()
            if isinstance(only, dict) and (name in tools or NAME.fullmatch(name)):
                return Call(id="", name=name, input=only)
        raise No
    name = plain(value[named[0]])
    where = [key for key in ARGUMENTS if key in value]
    known = {named[0], *where, *BESIDE}
    if not marked and (name not in tools or not where or not {*value} <= known):
        raise No
    if not NAME.fullmatch(name):
        raise No
    given: Any = value[where[0]] if where else {}
    fault = ""
    if isinstance(given, str):
        given, fault = arguments(given)
    elif given is None:
        given = {}
    elif not isinstance(given, dict):
        given, fault = {}, "the arguments have to be a JSON object. Nothing was run"
    id = value.get("id")
    return Call(id=id if isinstance(id, str) else "", name=name, input=given, fault=fault)


def plain(name: str) -> str:
    """A tool's name without what some models write around it: functions.NAME:0."""
    return re.sub(r":\d+$", "", name.strip()).removeprefix("functions.")


def broken(name: str, error: ValueError) -> Call:
    return Call(
        id="",
        name=name,
        fault=f"the arguments are no valid JSON ({error}). Nothing was run; send the call again",
    )


# -- the forms: each reads what stands behind its mark --------------------------------------------

ENDS = (
    "</tool_call>",
    "</tool_calls>",
    "</TOOLCALL>",
    "</function_call>",
    "</function>",
    "</tools>",
    "</seed:tool_call>",
    "<|tool_call_end|>",
    "<|tools_suffix|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
)


def body(scan: Scan) -> list[Call]:
    """Hermes, Qwen, GLM, Nemotron and others: JSON, a function in XML, or a name with its keys."""
    scan.skip()
    if scan.text[scan.at] in "[{":
        return in_json(scan)
    if scan.taken("<function=", "<function ="):
        return function(scan)
    if scan.taken("<invoke name="):
        return invoke(scan)
    return keyed(scan)


def in_json(scan: Scan) -> list[Call]:
    start = scan.at
    try:
        text, lacks = scan.enclosed(ENDS)
    except More as more:
        found = MARKED_NAME.search(scan.text, start)
        raise More(plain(found[1]) if found else "") from more
    try:
        value = read_json(text, lacks)
    except ValueError as error:
        if found := MARKED_NAME.search(text):
            return [broken(plain(found[1]), error)]
        raise No from error
    return calls_of(value, scan.tools, marked=True)


def function(scan: Scan) -> list[Call]:
    """Qwen 3 coder, Seed, Llama: <function=NAME> with <parameter=KEY>, or with JSON."""
    name = scan.until(">").strip("\"' ")
    if not NAME.fullmatch(name):
        raise No
    try:
        scan.skip()
        if scan.text[scan.at] == "{":
            return [with_json(scan, name)]
        given = dict[str, Any]()
        while not scan.taken("</function>", "</tool_call>", "</seed:tool_call>"):
            scan.need("<parameter=", "<param=")
            key = scan.until(">").strip("\"' ")
            tag = scan.text[: scan.at].rpartition("<param")[2]
            closing = "</parameter>" if tag.startswith("eter") else "</param>"
            follow = ("<parameter=", "<param=", "</function>", "</tool_call>", "</seed:tool_call>")
            given[key] = typed(scan.value(closing, follow), properties(scan, name).get(key))
        return [Call(id="", name=name, input=given)]
    except More as more:
        raise More(name) from more


def with_json(scan: Scan, name: str) -> Call:
    """A call whose arguments are the JSON that stands here."""
    try:
        text, lacks = scan.enclosed(ENDS)
    except More as more:
        raise More(name) from more
    try:
        given = read_json(text, lacks)
    except ValueError as error:
        return broken(name, error)
    if not isinstance(given, dict):
        raise No
    return Call(id="", name=name, input=given)


def invoke(scan: Scan) -> list[Call]:
    """MiniMax M2 and Anthropic's older form: <invoke name="NAME"> with <parameter name="KEY">."""
    name = scan.until(">").strip("\"' ")
    if not NAME.fullmatch(name):
        raise No
    try:
        given = dict[str, Any]()
        scan.skip()
        while not scan.taken("</invoke>"):
            scan.need("<parameter name=")
            key = scan.until(">").strip("\"' ")
            text = scan.value("</parameter>", ("<parameter name=", "</invoke>"))
            given[key] = typed(text, properties(scan, name).get(key))
        return [Call(id="", name=name, input=given)]
    except More as more:
        raise More(name) from more


def keyed(scan: Scan) -> list[Call]:
    """GLM: NAME, then <arg_key>KEY</arg_key><arg_value>VALUE</arg_value>."""
    name = scan.name()
    try:
        scan.skip()
        given = dict[str, Any]()
        end = "</tool_call>"
        while not scan.taken(end):
            scan.need("<arg_key>")
            key = scan.until("</arg_key>").strip()
            scan.skip()
            scan.need("<arg_value>")
            text = scan.value("</arg_value>", ("<arg_key>", end))
            given[key] = typed(text, properties(scan, name).get(key))
        return [Call(id="", name=name, input=given)]
    except More as more:
        raise More(name) from more


def minimax(scan: Scan) -> list[Call]:
    """MiniMax M3: elements, each tag behind a token that no text holds."""
    made = list[Call]()
    while True:
        scan.skip()
        scan.need(TOKEN)
        if scan.taken("</tool_call>"):
            return made
        scan.need("<invoke name=")
        name = scan.until(">").strip("\"' ")
        try:
            read = element(scan, "invoke", 0)
        except More as more:
            raise More(name) from more
        rules = properties(scan, name)
        pairs = read if isinstance(read, list) else []
        given = {key: shaped(value, rules.get(key)) for key, value in pairs}
        made.append(Call(id="", name=name, input=given))


TOKEN = "]<]minimax[>["
DEEP = 30
Elements: TypeAlias = str | list[tuple[str, Any]]


def element(scan: Scan, tag: str, depth: int) -> Elements:
    """What stands in an element: a text, or elements by their names."""
    if depth > DEEP:
        raise No
    text, inner = scan.until(TOKEN), list[tuple[str, Any]]()
    while not scan.taken(f"</{tag}>"):
        scan.need("<")
        name = scan.until(">")
        inner.append((name, element(scan, name, depth + 1)))
        scan.until(TOKEN)
    return inner or text


def shaped(read: Elements, rule: Any) -> Any:
    """An element as its rule wants it: items make a list, names an object."""
    if isinstance(read, str):
        return typed(read, rule, frame=False)
    rule = rule if isinstance(rule, dict) else {}
    if all(name == "item" for name, _ in read):
        return [shaped(value, rule.get("items")) for _, value in read]
    own = rule.get("properties")
    own = own if isinstance(own, dict) else {}
    return {name: shaped(value, own.get(name)) for name, value in read}


def deepseek(scan: Scan) -> list[Call]:
    """DeepSeek: [function<sep>]NAME, JSON, perhaps in a fence."""
    first = scan.until("<｜tool▁sep｜>").strip()
    name = first
    if first == "function":
        name = scan.until("\n").strip()
    if not NAME.fullmatch(name):
        raise No
    scan.skip()
    scan.taken("```json", "```")
    scan.skip()
    if scan.text[scan.at] != "{":
        raise No
    return [with_json(scan, name)]


def kimi(scan: Scan) -> list[Call]:
    """Kimi: functions.NAME:0, then JSON."""
    id = scan.until("<|tool_call_argument_begin|>").strip()
    name = plain(id)
    if not NAME.fullmatch(name):
        raise No
    try:
        scan.skip()
    except More as more:
        raise More(name) from more
    if scan.text[scan.at] != "{":
        raise No
    return [with_json(scan, name)]


def mistral(scan: Scan) -> list[Call]:
    """Mistral: a list in JSON, or NAME[CALL_ID]ID[ARGS]{…}."""
    scan.skip()
    if scan.text[scan.at] in "[{":
        return in_json(scan)
    name = scan.name()
    try:
        id = ""
        if scan.need("[CALL_ID]", "[ARGS]", "{") == "[CALL_ID]":
            id = scan.until("[ARGS]").strip()
        elif scan.text[scan.at - 1] == "{":
            scan.at -= 1
        scan.skip()
    except More as more:
        raise More(name) from more
    if scan.text[scan.at] != "{":
        raise No
    call = with_json(scan, name)
    return [Call(id=id, name=call.name, input=call.input, fault=call.fault)]


def gemma(scan: Scan) -> list[Call]:
    """Gemma 4: call:NAME{key:<|"|>text<|"|>,other:1}."""
    scan.need("call:")
    name = scan.name()
    try:
        scan.skip()
        if scan.text[scan.at] != "{":
            raise No
        given = loose(scan, 0)
        return [Call(id="", name=name, input=given)]
    except More as more:
        raise More(name) from more


QUOTE = '<|"|>'
WORD = re.compile(r"[^,\]\}\s<]+")


def loose(scan: Scan, depth: int) -> Any:
    """A value of Gemma's: JSON whose keys are bare and whose quotes are a token."""
    if depth > DEEP:
        raise No
    scan.skip()
    if scan.taken(QUOTE):
        return scan.until(QUOTE)
    if scan.taken("{"):
        made = dict[str, Any]()
        scan.skip()
        while not scan.taken("}"):
            key = scan.until(":").strip().replace(QUOTE, "")
            made[key] = loose(scan, depth + 1)
            scan.skip()
            scan.taken(",")
            scan.skip()
        return made
    if scan.taken("["):
        items = list[Any]()
        scan.skip()
        while not scan.taken("]"):
            items.append(loose(scan, depth + 1))
            scan.skip()
            scan.taken(",")
            scan.skip()
        return items
    found = WORD.match(scan.text, scan.at)
    if not found:
        raise No
    if found.end() == len(scan.text):
        raise More
    scan.at = found.end()
    try:
        return strict(found[0])
    except ValueError:
        raise No from None


def pythonic(scan: Scan) -> list[Call]:
    """LFM2, Llama 4: [NAME(key=value), …]."""
    scan.skip()
    if scan.text[scan.at] != "[":
        raise No
    first = NAME.match(scan.text, scan.at + 1)
    try:
        text, _ = scan.enclosed(quotes="\"'")
    except More as more:
        raise More(first[0] if first else "") from more
    return called(text)


def called(text: str) -> list[Call]:
    """The calls in a list in Python's form. Raises No."""
    try:
        node = parsed(text)
        if not isinstance(node, ast.List) or not node.elts:
            raise No
        return [one(item) for item in node.elts]
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise No from None


def one(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise No
    given = {str(each.arg): constant(each.value) for each in node.keywords if each.arg}
    if len(given) < len(node.keywords):
        raise No
    return Call(id="", name=ast.unparse(node.func), input=given)


MARKS: dict[str, Callable[[Scan], list[Call]]] = {
    "<tool_call>": body,
    "<tool_calls>": body,
    "<TOOLCALL>": body,
    "<|tool_call|>": body,
    "<function_call>": body,
    "<|function_call|>": body,
    "<function_calls>": body,
    "<seed:tool_call>": body,
    "<minimax:tool_call>": body,
    "<|tools_prefix|>": body,
    "<|python_tag|>": body,
    "<|message_sep|>\n\nfunction call<|role_sep|>\n": body,
    "```tool_call\n": body,
    "<function=": function,
    "<invoke name=": invoke,
    f"{TOKEN}<tool_call>": minimax,
    "[TOOL_CALLS]": mistral,
    "<｜tool▁call▁begin｜>": deepseek,
    "<|tool_call_begin|>": kimi,
    "<|tool_call>": gemma,
    "<|tool_call_start|>": pythonic,
}

DEBRIS = (
    *ENDS,
    "</invoke>",
    "</minimax:tool_call>",
    "</function_calls>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁end｜>",
    "<tool_call|>",
    "<|call|>",
    "</s>",
)  # what may stand after a call, or before one, and means nothing
HEADS = ("<|tool_calls_section_begin|>", "<｜tool▁calls▁begin｜>")  # of those, before the first


# -- values in XML ---------------------------------------------------------------------------------


def properties(scan: Scan, name: str) -> Mapping[str, Any]:
    return scan.tools.get(name, {})


def typed(text: str, rule: Any, *, frame: bool = True) -> Any:
    """A value that stood between tags, as its rule wants it; a text where that allows one."""
    if frame:
        text = text.removeprefix("\n").removesuffix("\n")
    kinds = {*kinds_of(rule)}
    if "string" in kinds and not ("null" in kinds and text.strip() == "null"):
        return text
    try:
        value = strict(text.strip())
    except ValueError:
        return text
    return value if kinds or not isinstance(value, str) else text


def kinds_of(rule: Any) -> Iterator[str]:
    """The types that a rule of a schema allows; none where it says none."""
    if not isinstance(rule, dict):
        return
    kind = rule.get("type")
    yield from [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    for each in (*(rule.get("anyOf") or ()), *(rule.get("oneOf") or ())):
        yield from kinds_of(each)
    values = rule.get("enum")
    if not kind and isinstance(values, list) and any(isinstance(each, str) for each in values):
        yield "string"


# -- replies that are nothing but calls -----------------------------------------------------------

FENCE = re.compile(r"```(?:json|tool_call|tool_code|tool|xml)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
KEYS = {*NAMES, *ARGUMENTS, "tool_calls", "tool_call", "function_call", "type", "id"}
NEARLY = re.compile(
    r"\s*(?:```\w*\s*)?\[?\s*\{\s*[\"'](?:name|function|tool)[\"']\s*:\s*[\"']([\w.:-]{1,140})[\"']"
    rf"\s*,\s*[\"'](?:{'|'.join(ARGUMENTS)})[\"']\s*:"
)


def alone(text: str, tools: Tools) -> list[Call]:
    """The calls of a text that is nothing but calls, of offered tools: bare or fenced JSON,
    Python's form. Empty for any other text."""
    made = list[Call]()
    try:
        rest = text.strip().removeprefix("functools").strip()
        while rest:
            if fenced := FENCE.match(rest):
                made += of_text(fenced[1].strip(), tools)
                rest = rest[fenced.end() :].strip()
                continue
            scan = Scan(rest, 0, tools)
            whole, _ = scan.enclosed(quotes="\"'" if rest.startswith("[") else '"')
            made += of_text(whole, tools)
            rest = rest[scan.at :].strip().removeprefix(";").strip()
    except (No, More):
        return []
    return made


def of_text(text: str, tools: Tools) -> list[Call]:
    for mark, read in MARKS.items():
        if text.startswith(mark):
            scan = Scan(text + " ", len(mark), tools)
            made = read(scan)
            rest = scan.text[scan.at :].strip()
            if rest in {"", *DEBRIS} and all(call.name in tools for call in made):
                return made
            raise No
    try:
        return calls_of(read_json(text), tools, marked=False)
    except ValueError:
        made = called(text)
        if not all(call.name in tools for call in made):
            raise No from None
        return made


def may_be_alone(text: str, tools: Tools) -> bool:
    """Whether a text that goes on may come to be nothing but calls."""
    text = text.lstrip()
    heads = ("{", "[", "functools[", *(f"```{word}" for word in FENCED))
    if not text or any(head.startswith(text) for head in heads):
        return True
    text = text.removeprefix("functools")
    if text.startswith("```"):
        line, newline, inner = text[3:].partition("\n")
        if not newline:
            return any(word.startswith(line.strip()) for word in FENCED)
        return line.strip() in FENCED and may_be_inside(inner.lstrip(), tools)
    return may_be_inside(text, tools)


FENCED = ("json", "tool_call", "tool_code", "tool", "xml", "")


def may_be_inside(text: str, tools: Tools) -> bool:
    if text.startswith("["):
        inner = text[1:].lstrip()
        heads = (f"{name}(" for name in tools)
        return may_be_object(inner) or any(head.startswith(inner[: len(head)]) for head in heads)
    if text.startswith("<"):
        return any(mark.startswith(text[: len(mark)]) for mark in MARKS)
    return may_be_object(text)


def may_be_object(text: str) -> bool:
    """Whether an object whose first key is one of a call's may begin so."""
    found = re.match(r"""\{\s*(?:(["'])([^"']*)(?:(\1)\s*(:?))?)?""", text)
    if not text or not found:
        return not text
    rest, key = text[found.end() :], found[2]
    if not found[3]:  # the key is not over
        return not rest and (key is None or any(each.startswith(key) for each in KEYS))
    return key in KEYS and (bool(found[4]) or not rest)


def nearly(text: str, tools: Tools) -> Call | None:
    """The call that a text begins and breaks, where it is nothing else; it is never run."""
    found = NEARLY.match(text)
    if not found or plain(found[1]) not in tools:
        return None
    why = "the call is no valid JSON, or more stands beside it. Nothing was run; send it again"
    return Call(id="", name=plain(found[1]), fault=why)


def cut(name: str) -> Call:
    return Call(id="", name=name, fault=CUT)

"""What the shell makes of a word's text: quotes, escapes and braces undone, unknown parts marked.

A word is a text in which marks stand for what the line alone does not tell. The marks are control
characters, which a line that is understood can't hold.
"""

import re
from collections.abc import Iterable

ANY = "\x00"  # a variable, a substitution: any text, none, or several words
SOME = "\x01"  # a wild sign: part of a file name, `/` excepted
HOME = "\x03"  # an unquoted `~`, $HOME
WORKSPACE = "\x07"  # $TS_WORKSPACE
_OPEN, _COMMA, _CLOSE = "\x04", "\x05", "\x06"

MOST_BRACES = 64  # words that one word may become

_ESCAPES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_MARKS = re.compile(r"[\x00-\x07]")


class DoubtError(Exception):
    """What stands here may be something else to the shell than to us; the text says what."""


def unquoted(raw: str, holes: Iterable[tuple[int, int, str]]) -> tuple[str, ...]:
    """The words that one word's text becomes, marks for what is unknown.

    `raw` is text as Latin-1 of its bytes. `holes`: begin, end and value of each expansion in it.
    Raises DoubtError for what must not stand in a word by itself.

    >>> unquoted("r''m", []), unquoted("a{b,c}", []), unquoted("*.py", [])
    (('rm',), ('ab', 'ac'), ('\\x01.py',))
    """
    scan = _Scan(raw, holes)
    text = scan.plain()
    if _OPEN in text:
        return tuple(_expanded(text))
    return (text.replace(_COMMA, ",").replace(_CLOSE, "}"),)


class _Scan:
    def __init__(self, raw: str, holes: Iterable[tuple[int, int, str]]) -> None:
        self._raw, self._at = raw, 0
        self._holes = {begin: (end, value) for begin, end, value in holes}
        self._made: list[str] = []

    def plain(self) -> str:
        raw, made = self._raw, self._made
        while self._at < len(raw):
            if self._hole():
                continue
            char = raw[self._at]
            if char == "\\":
                made.append(_literal(self._after(2)[1:]).replace("\n", ""))
            elif char == "'":
                made.append(_literal(self._until("'", self._at + 1)))
            elif char == '"':
                self._double()
            elif raw.startswith("$'", self._at):
                self._at += 1
                made.append(self._ansi())
            elif raw.startswith('$"', self._at):
                self._at += 1
                self._double()
            else:
                made.append(self._bare(char))
        return "".join(made)

    def _bare(self, char: str) -> str:
        rest = self._raw[self._at + 1 :]
        self._at += 1
        if char in " \t\n|&;<>()`" or not " " < char <= "~":
            raise DoubtError(f"{char!r} in a word")
        if char == "$" and re.match(r"[\w({\[@*#?$!-]", rest):
            raise DoubtError("an expansion that is not understood")
        if char in "*?":
            return SOME
        if char == "[" and (end := rest.find("]", 1)) >= 0 and "/" not in rest[:end]:
            self._at += end + 1
            if re.search(r"[\\'\"$`]", rest[:end]):
                raise DoubtError("quotes in a pattern")
            return SOME
        if char == "~" and self._at == 1:
            if not rest or rest[0] == "/":
                return HOME
            self._at += len(re.match(r"[\w.+-]*", rest)[0])  # type: ignore[index]
            return ANY
        if char == "#" and self._at == 1:
            raise DoubtError("a comment or a word")
        return {"{": _OPEN, ",": _COMMA, "}": _CLOSE}.get(char, char)

    def _hole(self) -> bool:
        found = self._holes.get(self._at)
        if found is None:
            return False
        self._at = found[0]
        self._made.append(found[1])
        return True

    def _double(self) -> None:
        raw, made = self._raw, self._made
        self._at += 1
        while self._at < len(raw) and raw[self._at] != '"':
            if self._hole():
                continue
            char = raw[self._at]
            if char == "\\":
                pair = self._after(2)
                made.append(pair[1:] if pair[1] in '$`"\\' else "" if pair[1] == "\n" else pair)
                continue
            if char == "`" or (char == "$" and re.match(r"[\w({\[@*#?$!-]", raw[self._at + 1 :])):
                raise DoubtError("an expansion that is not understood")
            made.append(_literal(char))
            self._at += 1
        if self._at >= len(raw):
            raise DoubtError("a quote that is not closed")
        self._at += 1

    def _ansi(self) -> str:
        end = self._at + 1
        while end < len(self._raw) and self._raw[end] != "'":
            end += 2 if self._raw[end] == "\\" else 1
        if end >= len(self._raw):
            raise DoubtError("a quote that is not closed")
        text = self._raw[self._at + 1 : end]
        self._at = end + 1
        return _literal(_ANSI.sub(_escape, text))

    def _until(self, quote: str, begin: int) -> str:
        end = self._raw.find(quote, begin)
        if end < 0:
            raise DoubtError("a quote that is not closed")
        self._at = end + 1
        return self._raw[begin:end]

    def _after(self, many: int) -> str:
        text = self._raw[self._at : self._at + many]
        if len(text) < many:
            raise DoubtError("a backslash at the end")
        self._at += many
        return text


def _escape(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if found[group] is not None:
            number = int(found[group], base)
            if number > 0x7E:
                raise DoubtError("a byte written as a number")
            return chr(number)
    if found[5] not in _ESCAPES:  # \cX, and what bash leaves as it stands
        raise DoubtError("an escape that is not understood")
    return _ESCAPES[found[5]]


def _literal(text: str) -> str:
    if _CONTROL.search(text):
        raise DoubtError("a control character")
    return text


def _expanded(text: str) -> list[str]:
    """Braces undone, the innermost last. One that can't be told exactly becomes a mark.

    >>> _expanded("f\\x04\\x05.bak\\x06")
    ['f', 'f.bak']
    """
    words, done = [text], list[str]()
    while words:
        word = words.pop(0)
        found = re.search(r"\x04([^\x04\x06]*)\x06", word)
        if len(words) + len(done) > MOST_BRACES:
            return [ANY]
        if not found:
            done.append(word.replace(_OPEN, "{").replace(_COMMA, ",").replace(_CLOSE, "}"))
        elif _COMMA in found[1]:
            words[:0] = [
                word[: found.start()] + each + word[found.end() :]
                for each in found[1].split(_COMMA)
            ]
        else:
            inside = ANY + SOME if ".." in found[1] else "{" + found[1] + "}"
            words.insert(0, word[: found.start()] + inside + word[found.end() :])
    return [word for word in done if word]


def known(word: str) -> bool:
    """Whether a word is told by the line alone."""
    return not _MARKS.search(word)


def shown(word: str) -> str:
    """A word as a user would write it, more or less.

    >>> shown("\\x03/a\\x01.py"), shown("\\x00")
    ('~/a*.py', '$…')
    """
    for mark, text in ((HOME, "~"), (SOME, "*"), (ANY, "$…"), (WORKSPACE, "$TS_WORKSPACE")):
        word = word.replace(mark, text)
    return word

"""Whatever the file: an edit changes what it names and nothing else."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context, meant
from agent.tools.file.diff import diff
from agent.tools.file.edit import Replacement, edited, lf
from agent.tools.file.text import Coding, coding, spelled
from agent.tools.file.window import Window, window
from agent.tools.files import edit_file

ENDS = st.sampled_from(["\n", "\r\n"])
MARKED = {
    "utf-8": (b"", b"\xef\xbb\xbf"),
    "utf-16-le": (b"\xff\xfe",),
    "utf-16-be": (b"\xfe\xff",),
    "utf-32-le": (b"\xff\xfe\0\0",),
    "cp1252": (b"",),
}
LETTERS = "ab \t{}“”’'\"\\$&—é"
WORDS = st.text(alphabet=LETTERS, max_size=12)


@contextmanager
def file(data: bytes) -> Iterator[tuple[Context, Path]]:
    with TemporaryDirectory() as directory:
        context = Context(cwd=Path(directory).resolve(), stop=Stop())
        (context.cwd / "f").write_bytes(data)
        yield context, context.cwd / "f"


def changed(data: bytes, old: str, new: str) -> bytes:
    """What an edit makes of a file's bytes."""
    found = coding(data)
    assert found is not None
    edit = Replacement(old_string=old, new_string=new)
    return found.encode(edited(found.decode(data), edit).text)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Lines with ends of either kind, the last one perhaps without."""
    lines = draw(st.lists(st.tuples(WORDS, ENDS), max_size=6))
    return "".join(line + end for line, end in lines) + draw(WORDS)


@given(
    name=st.sampled_from(sorted(MARKED)),
    mark=st.integers(0, 1),
    before=texts(),
    lines=st.lists(st.tuples(WORDS, ENDS), max_size=3),
    after=texts(),
    new=st.lists(WORDS, min_size=1, max_size=4),
)
def test_r36_the_bytes_outside_the_edit_stay(
    name: str,
    mark: int,
    before: str,
    lines: list[tuple[str, str]],
    after: str,
    new: list[str],
) -> None:
    bom = MARKED[name][mark % len(MARKED[name])]
    # No "Q" is drawn, so this stands nowhere else. The é keeps the coding what it is.
    old = "Q" + "".join(line + end for line, end in lines) + "Q"
    head, tail = bom + f"é{before}".encode(name), f"{after}é".encode(name)
    data = changed(head + old.encode(name) + tail, lf(old), "\n".join(new))
    assert data.startswith(head)
    assert data.endswith(tail)
    middle = data[len(head) : len(data) - len(tail)].decode(name)
    assert lf(middle) == "\n".join(new)
    assert len(head) + len(tail) <= len(data)


@settings(max_examples=100)  # each goes to the disk
@given(before=st.binary(max_size=60), after=st.binary(max_size=60))
def test_r36_any_bytes_around_the_edit_stay(before: bytes, after: bytes) -> None:
    assume(b"Q" not in before + after)
    with file(before + b"QoldQ" + after) as (context, path):
        said, middle = "", b"new"
        try:
            edit_file(context, {"path": "f", "old_string": "QoldQ", "new_string": "new"})
        except ToolError as error:
            said, middle = str(error), b"QoldQ"
        assert path.read_bytes() == before + middle + after
        assert not said or "binary" in said or "not in the file" in said


@given(
    name=st.sampled_from(sorted(MARKED)),
    end=ENDS,
    lines=st.lists(WORDS, max_size=6),
    old=st.lists(WORDS, min_size=1, max_size=4),
    new=st.lists(WORDS, min_size=1, max_size=4),
)
def test_an_edit_and_its_reverse_restore_the_bytes(
    name: str, end: str, lines: list[str], old: list[str], new: list[str]
) -> None:
    bom = MARKED[name][0]
    given, put = "Q" + "\n".join(old), "W" + "\n".join(new)
    text = "".join(line + end for line in ["é", *lines]) + given.replace("\n", end) + "é" + end
    data = bom + text.encode(name)
    done = changed(data, given, put)
    assert done != data
    assert changed(done, put, given) == data


BODY = st.text(alphabet="abc(){} =", min_size=1, max_size=8).map(lambda text: f"x{text.strip()}")


@given(
    lines=st.lists(st.tuples(st.integers(0, 3), BODY), min_size=1, max_size=6),
    more=st.integers(0, 2),
    width=st.sampled_from([2, 4, 8]),
    tabs=st.booleans(),
    end=ENDS,
    data=st.data(),
)
def test_a_text_indented_another_way_is_changed_in_the_file_s_way(
    lines: list[tuple[int, str]],
    more: int,
    width: int,
    tabs: bool,
    end: str,
    data: st.DataObject,
) -> None:
    own, theirs = ("\t", " " * width) if tabs else (" " * width, "\t")
    depths = [0, *(depth for depth, _ in lines)]
    bodies = ["Q", *(body for _, body in lines)]

    def written(step: str, deeper: int) -> list[str]:
        return [step * (depth + deeper) + body for depth, body in zip(depths, bodies, strict=True)]

    at = data.draw(st.integers(1, len(lines)))
    text = end.join(["top", *written(own, more), "bottom  ", ""])
    old, wanted = written(theirs, more), written(own, more)
    new = [*old[:at], old[at] + "!", *old[at + 1 :]]
    wanted[at] += "!"

    done = edited(text, Replacement(old_string="\n".join(old), new_string="\n".join(new)))

    assert done.text == end.join(["top", *wanted, "bottom  ", ""])


@given(
    lines=st.lists(st.tuples(BODY, st.sampled_from(["", " ", "\t ", "   "])), min_size=2),
    end=ENDS,
    data=st.data(),
)
def test_blanks_at_line_ends_stay_where_nothing_changes(
    lines: list[tuple[str, str]], end: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    raw = [f"{n}{body}{blanks}" for n, (body, blanks) in enumerate(lines)]
    old = [line.rstrip() for line in raw]
    new = [*old[:at], "new", *old[at + 1 :]]

    done = edited(
        end.join(["top ", *raw, "bottom "]),
        Replacement(old_string="\n".join(old), new_string="\n".join(new)),
    )

    kept = lines[at][1] if at == len(lines) - 1 else ""  # blanks behind the last line are outside
    assert done.text == end.join(["top ", *raw[:at], "new" + kept, *raw[at + 1 :], "bottom "])


ODD = st.text(alphabet="ab \t\n\r\"“'-–\udce9", max_size=14)


@given(text=ODD, old=ODD, new=ODD, every=st.booleans())
def test_an_edit_is_done_or_refused_in_words(text: str, old: str, new: str, every: bool) -> None:
    assume(text or old or new)
    said, done = "", None
    try:
        done = edited(text, Replacement(old_string=old, new_string=new, replace_all=every))
    except ToolError as error:
        said = str(error)
    said.encode()  # half a character would not do
    if done:
        assert done.text != text
        assert done.count >= 1
        diff(text, done.text, "f").encode()
    else:
        assert said


@given(data=st.binary(max_size=200) | st.text(max_size=60).map(str.encode))
def test_text_goes_back_to_the_bytes_it_came_from(data: bytes) -> None:
    found = coding(data)
    if found is not None:
        assert found.encode(found.decode(data)) == data


@given(name=st.binary(max_size=20).map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_a_name_is_found_by_what_is_shown_of_it(name: str) -> None:
    assume("\\x" not in name)
    assert meant(spelled(name)) == name
    spelled(name).encode()


class Pieces:
    """A stream that gives as much as it likes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._source = io.BytesIO(data)
        self._sizes = iter(sizes)

    def read(self, size: int, /) -> bytes:
        return self._source.read(next(self._sizes, 7))


@given(
    lines=st.lists(st.sampled_from(["", "a", "bc", "é", "x" * 9]), max_size=12),
    last=st.sampled_from(["", "end"]),
    name=st.sampled_from(["utf-8", "utf-16-le"]),
    sizes=st.lists(st.integers(1, 9), max_size=30),
    first=st.integers(1, 15),
    count=st.integers(0, 5),
)
def test_lines_are_the_same_however_a_file_arrives(
    lines: list[str], last: str, name: str, sizes: list[int], first: int, count: int
) -> None:
    text = "".join(line + "\n" for line in lines) + last
    there = [*lines, *([last] if last else [])]

    part = window(Pieces(text.encode(name), sizes), Coding(name=name), Stop(), first, first + count)

    if first > len(there):
        assert part == len(there)
    else:
        assert isinstance(part, Window)
        assert list(part.lines) == there[first - 1 : first + count]
        assert part.left == max(len(there) - first - count, 0)
        assert part.sure
        assert part.ended == (part.left > 0 or not last)

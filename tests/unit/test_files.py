import base64
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import StoppedError, ToolError
from agent.stop import Stop
from agent.tool import Context, Tool
from agent.tools.file.text import coding
from agent.tools.files import create_directory, edit_file, read_file, write_file

ROOT = Path(__file__).parents[2]
BYTES = bytes(range(256))


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    (tmp_path / "here").mkdir()
    made = Context(cwd=(tmp_path / "here").resolve(), stop=Stop())
    yield made
    made.close()


@pytest.fixture
def here(context: Context) -> Path:
    return context.cwd


def shown(context: Context, path: str, **range: int) -> str:
    return read_file(context, {"path": path, **range}).text


def refused(tool: Tool, context: Context, **input: Any) -> str:
    with pytest.raises(ToolError) as told:
        tool(context, input)
    return str(told.value)


def listing(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def edit(context: Context, path: str, old: str, new: str) -> str:
    return edit_file(context, {"path": path, "old_string": old, "new_string": new}).text


def write(context: Context, path: str, content: str) -> str:
    return write_file(context, {"path": path, "content": content}).text


# Reading


def test_a_text_is_given_as_it_is(context: Context, here: Path) -> None:
    (here / "a.py").write_bytes("def f():\n\treturn 'é'\n\n\n".encode())
    assert shown(context, "a.py") == "def f():\n\treturn 'é'\n\n\n"
    (here / "b.py").write_bytes(b"no end")
    assert shown(context, "b.py") == "no end"


def test_a_range_has_line_numbers(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"".join(b"\tl%d\n" % n for n in range(1, 12)))
    assert shown(context, "a", start_line=9, end_line=10) == (
        " 9|\tl9\n10|\tl10\n[1 more line in a file of 46 bytes; go on with start_line=11]"
    )
    assert shown(context, "a", start_line=11) == "11|\tl11\n[the file has 11 lines]"
    assert shown(context, "a", end_line=1).startswith("1|\tl1\n")
    assert shown(context, "a", start_line=0, end_line=-1).startswith(" 1|\tl1\n")


def test_a_range_that_is_none_is_refused(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"1\n2\n3\n")
    assert "counted from 1" in refused(read_file, context, path="a", start_line=-2)
    assert "not before" in refused(read_file, context, path="a", start_line=3, end_line=2)


def test_c022_a_line_of_megabytes_is_cut_with_its_length(context: Context, here: Path) -> None:
    (here / "bundle.min.js").write_bytes(b"var a=1;" * 260_000)
    text = shown(context, "bundle.min.js")
    assert text.startswith("var a=1;var a=1;")
    assert "… [line cut: it has 2,080,000 characters]" in text
    assert len(text) < 3000


def test_a_cut_line_counts_characters_not_bytes(context: Context, here: Path) -> None:
    (here / "a").write_bytes(("é" * 300_000 + "\n" + "z" * 2000 + "\nend\n").encode())
    text = shown(context, "a")
    assert "é… [line cut: it has 300,000 characters]\n" + "z" * 2000 + "\nend\n" in text
    assert text.count("é") == 2000


def test_c023_a_start_behind_the_end_names_the_length(context: Context, here: Path) -> None:
    (here / "five.txt").write_bytes(b"1\n2\n3\n4\n5\n")
    said = refused(read_file, context, path="five.txt", start_line=100)
    assert "five.txt has 5 lines" in said
    assert "6 is behind" in refused(read_file, context, path="five.txt", start_line=6)
    assert shown(context, "five.txt", start_line=5, end_line=5).startswith("5|5\n")


def test_an_empty_file_is_said_to_be_empty(context: Context, here: Path) -> None:
    (here / "none").touch()
    (here / "mark").write_bytes(b"\xef\xbb\xbf")
    (here / "blank").write_bytes(b"\n\n")
    assert shown(context, "none") == "none is empty"
    assert shown(context, "mark") == "mark is empty"
    assert shown(context, "blank") == "\n\n[2 blank lines]"
    assert "none has 0 lines" in refused(read_file, context, path="none", start_line=2)


def test_c025_a_binary_file_is_named_with_its_size(context: Context, here: Path) -> None:
    (here / "blob.bin").write_bytes(BYTES * 4 + BYTES[:40])
    (here / "w.txt").write_bytes(b"\xff\xfeh\0e\0l\0l\0o\0\r\0\n\0")
    assert shown(context, "blob.bin") == "blob.bin is a binary file of 1,064 bytes; it is not shown"
    assert shown(context, "w.txt") == "hello\n[UTF-16 LE; CRLF line ends, which edits keep]"


def test_no_nul_is_shown(context: Context, here: Path) -> None:
    (here / "late").write_bytes(b"text\n" * 3000 + b"a\0b\n")
    assert shown(context, "late", start_line=3001).startswith("3001|a␀b\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\ufeffhé\n".encode(), "hé\n[UTF-8 with BOM]"),
        ("\ufeffhé\n".encode("utf-16-be"), "hé\n[UTF-16 BE]"),
        ("\ufeffhé\n".encode("utf-32-le"), "hé\n[UTF-32 LE]"),
        ("hello\n".encode("utf-16-le"), "hello\n[UTF-16 LE]"),
        ("hello\n".encode("utf-16-be"), "hello\n[UTF-16 BE]"),
        (b"caf\xe9 \x80\n", "café €\n[not UTF-8, read as Windows-1252]"),
        (b"caf\xe9 \x81\n", "café \x81\n[not UTF-8, read as Latin-1]"),
        (
            "éé".encode() + b"\xff\n",
            "éé�\n[has bytes that are not UTF-8, shown as �; edits leave them as they are]",
        ),
        (b"a\r\nb\n", "a\nb\n[LF and CRLF line ends mixed, which edits keep]"),
    ],
)
def test_any_encoding_is_read_and_said(
    context: Context, here: Path, data: bytes, text: str
) -> None:
    (here / "a").write_bytes(data)
    assert shown(context, "a") == text


def test_a_character_cut_at_the_sample_s_end_is_no_fault(context: Context, here: Path) -> None:
    (here / "big").write_bytes(b"x" + "é".encode() * (5 << 20))
    assert "UTF-8" not in shown(context, "big")


def test_what_is_no_text_is_none() -> None:
    assert coding(b"\x01\x02\x03\x04text\n") is None
    assert coding(b"%PDF-1.7\n") is None
    assert coding(b"\xff\xfea") is not None  # no UTF-16: half a character at its end


def test_a_long_file_is_cut_and_says_how_to_go_on(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"".join(b"l%d\n" % n for n in range(1, 10_001)))
    text = shown(context, "a")
    assert text.endswith(
        "l2000\n[8,000 more lines in a file of 58,894 bytes; go on with start_line=2001]"
    )
    assert shown(context, "a", start_line=2001).startswith("2001|l2001\n")


def test_wide_lines_fill_a_result_sooner(context: Context, here: Path) -> None:
    (here / "a").write_bytes((b"x" * 999 + b"\n") * 500)
    text = shown(context, "a")
    assert 50_000 <= len(text) < 51_200
    assert "450 more lines" in text


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
)


def test_an_image_is_given_to_a_model_that_sees(context: Context, here: Path) -> None:
    (here / "dot.png").write_bytes(PNG)
    seeing = Context(cwd=here, stop=Stop(), sees=True)

    done = read_file(seeing, {"path": "dot.png"})

    (image,) = done.images
    assert (image.media_type, base64.b64decode(image.data)) == ("image/png", PNG)
    blind = read_file(context, {"path": "dot.png"})
    assert not blind.images
    assert f"an image (image/png, {len(PNG)} bytes)" in blind.text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PNG[:40], "cut or damaged"),
        (b"\xff\xd8\xff\xe0" + bytes(100), "cut or damaged"),
        (b"GIF89a" + bytes(100), "cut or damaged"),
        (b"RIFF\xff\0\0\0WEBP", "cut or damaged"),
        (b"\xff\xd8\xff\xe0" + bytes(5 << 20) + b"\xff\xd9", "too large"),
    ],
)
def test_an_image_that_a_service_would_refuse_is_not_sent(
    here: Path, data: bytes, said: str
) -> None:
    (here / "a.img").write_bytes(data)
    done = read_file(Context(cwd=here, stop=Stop(), sees=True), {"path": "a.img"})
    assert not done.images
    assert said in done.text


def sized(form: str, wide: int, high: int) -> bytes:
    """The head and the end of an image that says it is so large; nothing else of it is there."""
    match form:
        case "png":
            size = wide.to_bytes(4) + high.to_bytes(4)
            return PNG[:16] + size + PNG[24:]
        case "gif":
            size = wide.to_bytes(2, "little") + high.to_bytes(2, "little")
            return b"GIF89a" + size + bytes(9) + b"\x3b"
        case "jpeg":
            rest = high.to_bytes(2) + wide.to_bytes(2) + bytes(9)
            app = b"\xff\xe0\x00\x04\xff\xc0"
            return b"\xff\xd8" + app + b"\xff\xff\xc2\x00\x11\x08" + rest + b"\xff\xd9"
        case "VP8X":
            size = (wide - 1).to_bytes(3, "little") + (high - 1).to_bytes(3, "little")
            body = b"WEBPVP8X" + (10).to_bytes(4, "little") + bytes(4) + size
        case "VP8L":
            size = ((wide - 1) | (high - 1) << 14).to_bytes(4, "little")
            body = b"WEBPVP8L" + (5).to_bytes(4, "little") + b"\x2f" + size + bytes(5)
        case _:
            size = wide.to_bytes(2, "little") + high.to_bytes(2, "little")
            body = b"WEBPVP8 " + (10).to_bytes(4, "little") + bytes(3) + b"\x9d\x01\x2a" + size
    return b"RIFF" + len(body).to_bytes(4, "little") + body


@pytest.mark.parametrize("form", ["png", "gif", "jpeg", "VP8X", "VP8L", "VP8 "])
def test_an_image_of_too_many_pixels_is_not_sent(here: Path, form: str) -> None:
    seeing = Context(cwd=here, stop=Stop(), sees=True)
    for wide, high, sent in ((640, 8000, True), (8001, 10, False), (10, 16000, False)):
        (here / "a.img").write_bytes(sized(form, wide, high))
        done = read_file(seeing, {"path": "a.img"})
        assert bool(done.images) is sent, (wide, high, done.text)
        assert sent or f"{wide} by {high} pixels" in done.text


def test_what_is_no_file_is_refused_at_once(context: Context, here: Path) -> None:
    os.mkfifo(here / "pipe")
    (here / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("sock" if Path.cwd() == here else os.path.relpath(here / "sock"))
        assert "a socket" in refused(read_file, context, path="sock")
    assert "a named pipe" in refused(read_file, context, path="pipe")
    assert "a named pipe" in refused(write_file, context, path="pipe", content="x")
    assert "list_files" in refused(read_file, context, path="dir")
    assert "list_files" in refused(read_file, context, path=".")
    devices = Context(cwd=Path("/dev"), stop=Stop())
    assert "a device" in refused(read_file, devices, path="zero")


def test_a_missing_file_brings_near_names(context: Context, here: Path) -> None:
    (here / "src").mkdir()
    (here / "src/parser.py").touch()
    assert "did you mean src/parser.py?" in refused(read_file, context, path="src/parsre.py")
    said = refused(read_file, context, path="lib/parser.py")
    assert "no directory lib; did you mean src/parser.py?" in said
    said = refused(edit_file, context, path="parser.py", old_string="a", new_string="b")
    assert "did you mean src/parser.py?" in said


SIZES = """
import resource, sys, time
from pathlib import Path
from agent.stop import Stop
from agent.tool import Context
from agent.tools.files import read_file
context = Context(cwd=Path.cwd(), stop=Stop())
UNIT = 1 if sys.platform == "darwin" else 1024
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
read_file(context, {"path": "small"})
for input in (
    {"path": "sparse"},
    {"path": "sparse", "start_line": 3},
    {"path": "line"},
    {"path": "holes"},
):
    before, start = peak(), time.process_time()
    text = read_file(context, input).text
    assert peak() - before < 50 << 20, (input, peak() - before)
    assert time.process_time() - start < 2, (input, time.process_time() - start)
    print(text.splitlines()[-1])
"""


def test_r33_a_file_of_gigabytes_takes_no_memory_and_no_time(context: Context, here: Path) -> None:
    for name, head, size in (
        ("small", b"a\n", 2),
        ("sparse", b"text\n" * 4000, 10 << 30),
        ("line", b"x" * 20_000, 1 << 30),
        ("holes", b"", 10 << 30),
    ):
        with (here / name).open("wb") as file:
            file.write(head)
            file.truncate(size)

    done = subprocess.run(
        [sys.executable, "-c", SIZES],
        cwd=here,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 0, done.stderr
    whole, part, line, holes = done.stdout.splitlines()
    assert "more than 2,000 more lines in a file of 10,737,418,240 bytes" in whole
    assert "start_line=2003" in part
    assert "1,073,741,824 characters" in line or "lines were cut" in line
    assert holes == "holes is a binary file of 10,737,418,240 bytes; it is not shown"


def test_a_big_file_is_read_from_the_middle(context: Context, here: Path) -> None:
    with (here / "big").open("wb") as file:
        for start in range(0, 1_000_000, 10_000):
            file.write(b"".join(b"line %d\n" % n for n in range(start + 1, start + 10_001)))
    assert shown(context, "big", start_line=777_777, end_line=777_777).startswith(
        "777777|line 777777\n[222,223 more lines"
    )
    assert "has 1,000,000 lines" in refused(read_file, context, path="big", start_line=1_000_001)


def test_reading_ends_when_the_work_is_stopped(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"a\n")
    context.stop.set()
    with pytest.raises(StoppedError):
        shown(context, "a")


# Writing


def test_a_new_file_comes_with_its_directories(context: Context, here: Path) -> None:
    assert write(context, "a/b/c.txt", "one\ntwo") == "created a/b/c.txt: 2 lines, 7 bytes"
    assert (here / "a/b/c.txt").read_bytes() == b"one\ntwo"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((here / "a/b/c.txt").stat().st_mode) == 0o666 & ~umask
    assert listing(here / "a/b") == ["c.txt"]


def test_r38_a_file_that_exists_keeps_its_mode_and_attributes(context: Context, here: Path) -> None:
    file = here / "run.sh"
    file.write_bytes(b"old\n")
    file.chmod(0o750)
    if hasattr(os, "setxattr"):
        os.setxattr(file, "user.origin", b"test")
    assert write(context, "run.sh", "new\n") == "overwrote run.sh: 1 line, 4 bytes"
    assert file.read_bytes() == b"new\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    edit(context, "run.sh", "new", "newer")
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    if hasattr(os, "getxattr"):
        assert os.getxattr(file, "user.origin") == b"test"


def test_the_same_content_is_not_written_again(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"x\n")
    before = (here / "a").stat()
    assert write(context, "a", "x\n").startswith("no change")
    assert (here / "a").stat() == before


@pytest.mark.parametrize(
    ("old", "content", "new", "said"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n", "CRLF line ends kept"),
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n", ""),
        (b"a\r\n", "c\r\nd\n", b"c\r\nd\n", ""),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n", "UTF-8 with BOM kept"),
        (b"\xef\xbb\xbfa\n", "\ufeffc\n", b"\xef\xbb\xbfc\n", "UTF-8 with BOM kept"),
        (b"\xff\xfea\0", "é", b"\xff\xfe\xe9\0", "UTF-16 LE kept"),
        (b"\xe9\n", "ü\n", b"\xfc\n", "Windows-1252 kept"),
        (b"\xe9\n", "你\n", "你\n".encode(), "now in UTF-8, since Windows-1252 has no '你'"),
        (BYTES, "a\n", b"a\n", "it was a binary file"),
    ],
)
def test_a_file_s_style_is_kept(
    context: Context, here: Path, old: bytes, content: str, new: bytes, said: str
) -> None:
    (here / "a").write_bytes(old)
    done = write(context, "a", content)
    assert (here / "a").read_bytes() == new
    assert done.startswith("overwrote a")
    assert said in done


def test_r37_bytes_that_were_not_shown_are_not_overwritten(context: Context, here: Path) -> None:
    data = "éé".encode() + b"\xff\n"
    (here / "a").write_bytes(data)
    text = shown(context, "a").splitlines()[0]
    assert "would lose" in refused(write_file, context, path="a", content=text + "\n")
    assert (here / "a").read_bytes() == data
    edit(context, "a", "éé", "è")
    assert (here / "a").read_bytes() == "è".encode() + b"\xff\n"


def test_a_character_that_the_file_cannot_hold_is_refused(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"caf\xe9\n")
    said = refused(edit_file, context, path="a", old_string="café", new_string="你")
    assert "Windows-1252, has no '你'" in said
    assert "half of a character" in refused(write_file, context, path="b", content="\ud83d")
    assert (here / "a").read_bytes() == b"caf\xe9\n"
    assert not (here / "b").exists()


def test_a_binary_file_is_not_edited(context: Context, here: Path) -> None:
    (here / "a").write_bytes(BYTES)
    said = refused(edit_file, context, path="a", old_string="ABC", new_string="x")
    assert "binary file of 256 bytes" in said
    assert (here / "a").read_bytes() == BYTES


def test_an_edit_makes_a_file_where_there_is_none(context: Context, here: Path) -> None:
    assert edit(context, "new/a.txt", "", "x\n").startswith("created new/a.txt")
    (here / "empty").touch()
    said = refused(edit_file, context, path="empty", old_string="", new_string="")
    assert "nothing to change" in said
    edit(context, "empty", "", "y\n")
    assert (here / "new/a.txt").read_bytes() + (here / "empty").read_bytes() == b"x\ny\n"
    assert "no file" in refused(edit_file, context, path="no/b", old_string="a", new_string="b")
    assert not (here / "no").exists()


def test_an_edit_shows_what_it_changed(context: Context, here: Path) -> None:
    (here / "a.py").write_bytes(b"def f():\n    return 1\n")
    assert edit(context, "a.py", "1", "2") == (
        "edited a.py: 1 replacement\n--- a.py\n+++ a.py\n"
        "@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2"
    )
    assert "found but for indentation" in edit(context, "a.py", "def f():\n\treturn 2", "x = 1")


def test_a_hard_link_to_elsewhere_keeps_its_content(
    context: Context, here: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"old\n")
    (here / "a").hardlink_to(outside)
    edit(context, "a", "old", "new")
    assert (outside.read_bytes(), (here / "a").read_bytes()) == (b"old\n", b"new\n")


def test_a_link_that_leads_nowhere_yet_is_followed(context: Context, here: Path) -> None:
    (here / "link").symlink_to("real")
    write(context, "link", "x\n")
    assert (here / "link").is_symlink()
    assert (here / "real").read_bytes() == b"x\n"


def test_a_read_only_file_is_changed_only_by_root(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"x\n")
    (here / "a").chmod(0o444)
    if os.getuid():
        assert "read-only" in refused(write_file, context, path="a", content="y\n")
    else:
        write(context, "a", "y\n")
    assert (here / "a").read_bytes() == (b"x\n" if os.getuid() else b"y\n")
    assert stat.S_IMODE((here / "a").stat().st_mode) == 0o444


def test_a_directory_is_made_with_those_above(context: Context, here: Path) -> None:
    (here / "file").touch()
    assert create_directory(context, {"path": "a/b"}).text == "created a/b"
    assert create_directory(context, {"path": "a/b"}).text == "a/b exists already"
    assert create_directory(context, {"path": "."}).text == ". exists already"
    assert "exists" in refused(create_directory, context, path="file")
    assert "not a directory" in refused(create_directory, context, path="file/sub")
    assert "names a directory" in refused(write_file, context, path="c/", content="")


# Paths


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "/etc/passwd",
        "a/../../out",
        "~/x",
        "a\0b",
        "x" * 5000,
        "no/" + "x" * 300 + "/x",
        "/proc/self/root/x",
    ],
)
def test_no_tool_leaves_the_directory(context: Context, path: str) -> None:
    for tool, input in (
        (read_file, {}),
        (write_file, {"content": "x"}),
        (edit_file, {"old_string": "", "new_string": "x"}),
        (create_directory, {}),
    ):
        refused(tool, context, path=path, **input)


def test_a_link_to_outside_is_refused(context: Context, here: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s")
    (here / "file").symlink_to(tmp_path / "secret")
    (here / "dir").symlink_to(tmp_path)
    for path in ("file", "dir/secret", "dir/new"):
        assert "outside" in refused(read_file, context, path=path)
        assert "outside" in refused(write_file, context, path=path, content="x")
    assert (tmp_path / "secret").read_bytes() == b"s"


def test_a_directory_swapped_for_a_link_leads_nowhere(
    context: Context, here: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"secret\n")
    (here / "real").mkdir()
    (here / "real/f").write_bytes(b"inside\n")
    (here / "link").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (here / "real").rename(here / "d")
            (here / "d").rename(here / "real")
            (here / "link").rename(here / "d")
            (here / "d").rename(here / "link")

    peer = threading.Thread(target=swap)
    peer.start()
    worked = 0
    try:
        for _ in range(300):
            agent = context.fresh(Stop())
            for tool, input in (
                (read_file, {}),
                (edit_file, {"old_string": "\n", "new_string": "!\n"}),
            ):
                try:
                    text = tool(agent, {"path": "d/f", **input}).text
                except ToolError:
                    continue
                worked += 1
                assert "secret" not in text
    finally:
        done.set()
        peer.join()
    assert (outside / "f").read_bytes() == b"secret\n"
    assert listing(outside) == ["f"]
    assert worked


@pytest.mark.parametrize("name", ["-rf", "a b", "it's", '"q"', "📄", "new\nline", "back\\x41slash"])
def test_r40_any_name_is_read_and_changed(context: Context, here: Path, name: str) -> None:
    (here / name).write_bytes(b"one\n")
    assert shown(context, name) == "one\n"
    assert "\n" not in edit(context, name, "one", "two").splitlines()[0]
    assert (here / name).read_bytes() == b"two\n"


def test_r40_a_name_that_is_no_utf8_is_found_as_it_is_shown(context: Context, here: Path) -> None:
    (here / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"one\n")
    assert "did you mean caf\\xe9.txt?" in refused(read_file, context, path="cafe.txt")
    assert shown(context, "caf\\xe9.txt") == "one\n"
    assert "edited caf\\xe9.txt" in edit(context, "caf\\xe9.txt", "one", "two")
    assert listing(here) == [os.fsdecode(b"caf\xe9.txt")]


# Others who write too


def test_r34_a_file_that_others_changed_must_be_read_again(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"one two\n")
    other = context.fresh(Stop())
    shown(context, "a")
    shown(other, "a", start_line=1)
    edit(other, "a", "two", "2")

    for tool, input in (
        (edit_file, {"old_string": "one", "new_string": "1"}),
        (write_file, {"content": "1 two\n"}),
    ):
        assert "Read it again" in refused(tool, context, path="a", **input)
    assert (here / "a").read_bytes() == b"one 2\n"

    shown(context, "a")
    edit(context, "a", "one", "1")
    edit(context, "a", "1", "I")
    assert (here / "a").read_bytes() == b"I 2\n"


def test_a_file_touched_but_not_changed_is_the_same(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"one\n")
    shown(context, "a")
    (here / "a").write_bytes(b"one\n")
    os.utime(here / "a", (1, 1))
    edit(context, "a", "one", "1")


def test_a_file_never_read_may_be_changed(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"one\n")
    edit(context, "a", "one", "1")
    (here / "b").write_bytes(b"one\n")
    write(context, "b", "1\n")


def test_a_big_file_is_known_by_its_status(context: Context, here: Path) -> None:
    (here / "big").write_bytes(b"first\n" + b"x\n" * (5 << 20))
    shown(context, "big", start_line=1, end_line=1)
    edit(context, "big", "first", "1st")
    edit(context, "big", "1st", "I")
    with (here / "big").open("ab") as file:
        file.write(b"more\n")
    said = refused(edit_file, context, path="big", old_string="I\n", new_string="1\n")
    assert "Read it again" in said


def test_a_file_too_large_to_change_is_refused(context: Context, here: Path) -> None:
    with (here / "huge").open("wb") as file:
        file.write(b"text\n" * 5000)
        file.truncate(40 << 20)
    assert "too large" in refused(edit_file, context, path="huge", old_string="a", new_string="b")


COUNT = """
import sys
from pathlib import Path
from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools.files import edit_file, read_file
import threading

def count(name):
    context = Context(cwd=Path.cwd(), stop=Stop())
    for n in range(25):
        while True:
            try:
                edit = {"old_string": f"{name}={n};", "new_string": f"{name}={n + 1};"}
                edit_file(context, {"path": "counts", **edit})
                break
            except ToolError as error:
                assert "Read it again" in str(error), error
                read_file(context, {"path": "counts"})

threads = [threading.Thread(target=count, args=(name,)) for name in sys.argv[1:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_r35_threads_and_processes_lose_no_edit(here: Path) -> None:
    names = ["a", "b", "c", "d"]
    (here / "counts").write_text("\n".join(f"{name}=0;" for name in names), encoding="utf-8")
    peers = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT, *pair], cwd=here, env={"PYTHONPATH": str(ROOT)}
        )
        for pair in (names[:2], names[2:])
    ]
    assert [peer.wait(timeout=50) for peer in peers] == [0, 0]
    assert (here / "counts").read_text(encoding="utf-8") == "a=25;\nb=25;\nc=25;\nd=25;"
    assert listing(here) == ["counts"]


QUICK = """
import fcntl, os
print(flush=True)
count = 0
while not os.path.exists("done"):
    with open("list", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not os.path.samestat(os.stat("list"), os.fstat(file.fileno())):
            continue
        first, _, rest = file.read().partition(b"\\n")
        assert int(first) == count, f"{count} was lost"
        count += 1
        with open("other", "wb") as new:
            new.write(b"%d\\n%s" % (count, rest))
        os.rename("other", "list")
"""


def test_a_file_renamed_while_its_lock_was_had_is_opened_again(
    context: Context, here: Path
) -> None:
    (here / "list").write_bytes(b"0\nEND")
    with subprocess.Popen([sys.executable, "-c", QUICK], cwd=here, stdout=subprocess.PIPE) as peer:
        assert peer.stdout is not None
        peer.stdout.readline()
        for n in range(200):
            edit(context.fresh(Stop()), "list", "END", f"{n}\nEND")
        (here / "done").touch()
    assert peer.returncode == 0
    lines = (here / "list").read_text(encoding="utf-8").split("\n")
    assert lines[1:] == [*map(str, range(200)), "END"]


def test_two_who_make_one_file_make_it_once(context: Context, here: Path) -> None:
    for turn in range(30):
        gate, said = threading.Barrier(2), list[str]()

        def make(
            name: str,
            path: str = f"f{turn}",
            gate: threading.Barrier = gate,
            said: list[str] = said,
        ) -> None:
            agent = context.fresh(Stop())
            gate.wait()
            try:
                said.append(edit(agent, path, "", name * 1000))
            except ToolError as error:
                said.append(str(error))

        threads = [threading.Thread(target=make, args=(name,)) for name in "xy"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(text.startswith("created") for text in said) == 1, said
        assert sum("old_string is empty" in text for text in said) == 1, said


HOLD = """
import fcntl, sys
file = open("a", "rb")
fcntl.flock(file, fcntl.LOCK_EX)
print(1, flush=True)
sys.stdin.read()
"""


def test_a_lock_is_waited_for_until_the_work_is_stopped(context: Context, here: Path) -> None:
    (here / "a").write_bytes(b"one\n")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as peer:
        assert peer.stdout is not None
        assert peer.stdout.readline() == b"1\n"
        agent = context.fresh(context.stop.child(0.1))
        with pytest.raises(StoppedError):
            edit(agent, "a", "one", "two")
        assert (here / "a").read_bytes() == b"one\n"
        waiting = threading.Thread(target=edit, args=(context, "a", "one", "two"))
        waiting.start()
        peer.communicate()
        waiting.join()
    assert (here / "a").read_bytes() == b"two\n"


# A machine that fails

FULL = """
import resource, signal
from pathlib import Path
from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools.files import edit_file, write_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
context = Context(cwd=Path.cwd(), stop=Stop())
for tool, input in (
    (write_file, {"path": "old", "content": "x" * 2000}),
    (write_file, {"path": "new", "content": "x" * 2000}),
    (edit_file, {"path": "old", "old_string": "one", "new_string": "x" * 2000}),
):
    try:
        tool(context, input)
        raise SystemExit("it was written")
    except ToolError as error:
        print(error)
"""


def test_r39_a_write_that_fails_leaves_what_was_there(here: Path) -> None:
    (here / "old").write_bytes(b"one\n")
    done = subprocess.run(
        [sys.executable, "-c", FULL],
        cwd=here,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name}: File too large" for name in ("old", "new", "old")]
    assert listing(here) == ["old"]
    assert (here / "old").read_bytes() == b"one\n"


WRITE = """
from pathlib import Path
from agent.stop import Stop
from agent.tool import Context
from agent.tools.files import write_file
context = Context(cwd=Path.cwd(), stop=Stop())
print(flush=True)
while True:
    for letter in "ab":
        write_file(context, {"path": "f", "content": letter * 300_000})
"""


def test_r39_a_killed_writer_leaves_one_content_or_the_other(context: Context, here: Path) -> None:
    (here / "f").write_bytes(b"a" * 300_000)
    for turn in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE],
            cwd=here,
            env={"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        ) as peer:
            assert peer.stdout is not None
            peer.stdout.readline()
            context.stop.wait(0.01 + turn * 0.013)
            peer.send_signal(signal.SIGKILL)
        assert (here / "f").read_bytes() in (b"a" * 300_000, b"b" * 300_000)


def test_r39_temporary_files_of_killed_writers_are_swept(context: Context, here: Path) -> None:
    for name, age in ((".ts-0011223344556677.tmp", 3600), (".ts-8899aabbccddeeff.tmp", 5)):
        (here / name).write_bytes(b"part")
        os.utime(here / name, (time.time() - age,) * 2)
    write(context, "f", "x")
    assert listing(here) == [".ts-8899aabbccddeeff.tmp", "f"]

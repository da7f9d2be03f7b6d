import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.errors import StoppedError, ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools import search
from agent.tools.files import read_file
from agent.tools.find import grep, walk
from agent.tools.search import grep_files, list_files

RUNAWAY = "(a+)+$"
SLOW = "a" * 40 + "!\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return root


@pytest.fixture(params=["ripgrep", "own"])
def context(request: pytest.FixtureRequest, root: Path) -> Context:
    """Both engines: the `rg` that stands beside this Python, and our own."""
    context = Context(cwd=root, stop=Stop(), env={} if request.param == "ripgrep" else {"PATH": ""})
    assert (walk.ripgrep(context) is None) == (request.param == "own")
    return context


def lay(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def git(root: Path, *argv: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    subprocess.run(["git", *who, *argv], cwd=root, check=True, capture_output=True)


def listed(context: Context, **input: object) -> list[str]:
    *paths, count = list_files(context, input).text.split("\n")
    assert count == f"({len(paths)} file{'s' * (len(paths) != 1)})"
    return paths


def found(context: Context, pattern: str, **input: object) -> list[str]:
    """The lines of a result, without the last one that counts them."""
    *lines, count = grep_files(context, {"pattern": pattern, **input}).text.split("\n")
    assert count.startswith("(") or not lines
    return lines


def test_c025_other_codings_and_binary_files_break_no_search(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "w.txt": "hello needle\r\n".encode("utf-16"),
            "blob.bin": bytes(range(256)) * 4 + b"needle",
            "ok.py": "def needle():\n    pass\n",
        },
    )
    lines = found(context, "needle")
    assert lines == ["ok.py:1: def needle():", "w.txt:1: hello needle"]
    assert "\0" not in grep_files(context, {"pattern": "needle", "directory": "blob.bin"}).text


@pytest.mark.parametrize(
    ("pattern", "file"),
    [
        ("-webkit-box", "s.css"),
        ("-77", "t.c"),
        ("->", "t.c"),
        ("--pdf-engine", "t.c"),
        ("-e", "t.c"),
    ],
)
def test_c026_a_pattern_that_begins_with_a_dash_is_searched_for(
    root: Path, context: Context, pattern: str, file: str
) -> None:
    lay(
        root,
        {
            "s.css": "a { display: -webkit-box; }\n",
            "t.c": "p->next = -77; // --pdf-engine -e\n",
        },
    )
    lines = found(context, pattern)
    assert [line.partition(":")[0] for line in lines] == [file]
    assert found(context, pattern, literal=True) == lines


def test_c028_a_match_in_a_very_long_line_is_cut_to_a_window(root: Path, context: Context) -> None:
    lay(
        root,
        {
            "vendor/lib.min.js": "function stats(){return 1};" * 24_000,
            "src/app.js": "const stats = load();\n",
        },
    )
    text = grep_files(context, {"pattern": "stats"}).text
    app, vendor, count = text.split("\n")
    assert app == "src/app.js:1: const stats = load();"
    assert vendor.startswith("vendor/lib.min.js:1: function stats(){return 1};")
    assert vendor.endswith("…")
    assert len(vendor) < 400
    assert count.startswith("(2 matching lines in 2 files; truncated: ")


def test_the_window_is_where_the_match_is(root: Path, context: Context) -> None:
    lay(root, {"a.txt": "é" * 5000 + "needle" + "x" * 5000 + "\n"})
    (line,) = found(context, "needle")
    assert line.startswith("a.txt:1: …é")
    assert "needlex" in line
    assert line.endswith("x…")


def test_a_line_of_many_megabytes_is_told_of_and_not_kept(root: Path, context: Context) -> None:
    lay(root, {"big.js": "abc;" * 400_000, "small.js": "abc\n"})
    text = grep_files(context, {"pattern": "abc"}).text
    assert len(text) < 1000
    assert "big.js" in text
    assert "small.js:1: abc" in text


def test_c029_a_pattern_reaches_hidden_files(root: Path, context: Context) -> None:
    lay(
        root,
        {".github/workflows/ci.yml": "on: push\n", ".eslintrc.json": "{}\n", "a.yml": "x: 1\n"},
    )
    assert listed(context, pattern=".github/workflows/*.yml") == [".github/workflows/ci.yml"]
    assert listed(context, pattern=".eslintrc.json") == [".eslintrc.json"]
    assert listed(context, pattern="**/*.yml") == [".github/workflows/ci.yml", "a.yml"]


def test_c031_hidden_files_are_shown_and_git_s_own_never(root: Path, context: Context) -> None:
    lay(root, {".env.sample": "A=1\n", "main.go": "package main\n"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    assert listed(context) == [".env.sample", "main.go"]
    assert listed(context, ignored=True) == [".env.sample", "main.go"]
    assert grep_files(context, {"pattern": "ref"}).text.startswith("no matches")
    assert grep_files(context, {"pattern": "ref", "ignored": True}).text.startswith("no matches")


def test_the_git_file_of_a_worktree_is_no_file_of_the_project(root: Path, context: Context) -> None:
    lay(root, {".git": "gitdir: /elsewhere\n", "sub/.git": "gitdir: x\n", "a.txt": "gitdir\n"})
    assert listed(context) == ["a.txt"]
    assert found(context, "gitdir") == ["a.txt:1: gitdir"]


def test_c032_r103_links_that_lead_in_a_circle_end(root: Path, context: Context) -> None:
    lay(root, {"a/b/x.txt": "hit\n"})
    (root / "a/b/loop").symlink_to("../../a")
    (root / "self").symlink_to(".")
    assert listed(context) == ["a/b/x.txt"]
    assert listed(context, pattern="**/*.txt") == ["a/b/x.txt"]
    assert found(context, "hit") == ["a/b/x.txt:1: hit"]
    assert found(context, "hit", directory="self/a/b/loop") == ["a/b/x.txt:1: hit"]


def test_c034_a_tracked_file_that_is_gone_is_passed_over(root: Path, context: Context) -> None:
    lay(root, {"keep.py": "def a(): pass\n", "gone.py": "def b(): pass\n"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "gone.py").unlink()
    assert found(context, "def") == ["keep.py:1: def a(): pass"]
    assert listed(context) == ["keep.py"]


def test_c035_names_come_back_as_they_are(root: Path, context: Context) -> None:
    lay(root, {"日本語/メモ.md": "# memo\n", "emoji_🔒.txt": "x\n"})
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    assert listed(context, pattern="**/*.md") == ["日本語/メモ.md"]
    assert listed(context) == ["emoji_🔒.txt", "日本語/メモ.md"]
    assert "# memo" in read_file(context, {"path": "日本語/メモ.md"}).text


@pytest.mark.parametrize(
    "name",
    [
        b"two\nlines.txt",
        b"bad\xff.txt",
        b"-rf",
        b"a b.txt",
        b"quo\"te'.txt",
        b"a:1:b.txt",
        b"x\x1b[31m",
    ],
)
def test_r40_a_file_of_any_name_is_listed_searched_and_read(
    root: Path, context: Context, name: bytes
) -> None:
    lay(root, {os.fsdecode(name): "needle\n"})
    (shown,) = listed(context)
    assert shown.encode()  # no half characters
    assert "\n" not in shown
    assert found(context, "needle") == [f"{shown}:1: needle"]
    assert found(context, "needle", directory=shown) == [f"{shown}:1: needle"]
    assert "needle" in read_file(context, {"path": shown}).text


@pytest.mark.parametrize("pattern", ["(unclosed", "[z-a]", "*x", r"a(?P<n", "a{2,1}"])
def test_a_bad_expression_is_an_error_with_its_reason(
    root: Path, context: Context, pattern: str
) -> None:
    lay(root, {"a.txt": f"{pattern}\n"})
    with pytest.raises(ToolError, match=r"is no regular expression here: [a-z]") as error:
        grep_files(context, {"pattern": pattern})
    assert "literal=true" in str(error.value)
    assert found(context, pattern, literal=True) == [f"a.txt:1: {pattern}"]


def test_what_only_the_other_syntax_has_is_named(root: Path) -> None:
    lay(root, {"a.txt": "ab\n"})
    ripgrep = Context(cwd=root, stop=Stop())
    own = Context(cwd=root, stop=Stop(), env={"PATH": ""})
    with pytest.raises(ToolError, match="look-around"):
        grep_files(ripgrep, {"pattern": "a(?=b)"})
    with pytest.raises(ToolError, match="backreferences"):
        grep_files(ripgrep, {"pattern": r"(a)\1"})
    for pattern in (r"\p{L}b", "[[:alpha:]]b"):
        assert found(ripgrep, pattern) == ["a.txt:1: ab"]
        with pytest.raises(ToolError, match="is no regular expression here"):
            grep_files(own, {"pattern": pattern})


@pytest.mark.parametrize("pattern", ["", "a\nb", r"a\nb", "a\0", "\ud800", "x" * 10_001])
def test_a_pattern_that_can_match_no_line_is_refused(context: Context, pattern: str) -> None:
    with pytest.raises(ToolError):
        grep_files(context, {"pattern": pattern})


def test_r105_a_runaway_expression_stops_nothing_else(root: Path) -> None:
    lay(root, {"a.txt": SLOW, "b.txt": "a\n"})
    own = Context(cwd=root, stop=Stop(), env={"PATH": ""})
    ticks, over = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.01):
            ticks += 1

    beside = threading.Thread(target=tick)
    beside.start()
    start = time.monotonic()
    result = grep.search(own, walk.place(own, "."), grep.Query(pattern=RUNAWAY), seconds=0.7)
    seconds = time.monotonic() - start
    over.set()
    beside.join()
    assert result.late
    assert seconds < 5
    assert ticks > 20


def test_r105_ripgrep_makes_nothing_of_a_runaway_expression(root: Path) -> None:
    lay(root, {"a.txt": "a" * 10_000 + "!\n", "b.txt": "a\n"})
    context = Context(cwd=root, stop=Stop(seconds=10))
    assert found(context, RUNAWAY) == ["b.txt:1: a"]


def test_a_search_ends_when_the_work_is_stopped(root: Path) -> None:
    lay(root, {"a.txt": SLOW})
    stop = Stop()
    own = Context(cwd=root, stop=stop, env={"PATH": ""})
    threading.Timer(0.3, stop.set).start()
    start = time.monotonic()
    with pytest.raises(StoppedError):
        grep_files(own, {"pattern": RUNAWAY})
    assert time.monotonic() - start < 5
    late = Context(cwd=root, stop=Stop(seconds=0.3), env={"PATH": ""})
    with pytest.raises(StoppedError):
        grep_files(late, {"pattern": RUNAWAY})


def test_what_was_found_before_the_time_was_up_is_told(root: Path) -> None:
    lay(root, {"a.txt": "aaa\n", "b.txt": SLOW})
    own = Context(cwd=root, stop=Stop(), env={"PATH": ""})
    place = walk.place(own, ".")
    result = grep.search(own, place, grep.Query(pattern=RUNAWAY), seconds=1)
    text = search.lines_of(place, result)
    assert text.startswith("a.txt:1: aaa\n")
    assert "the time was up" in text


def test_gitignore_counts_in_every_folder_without_git(root: Path, context: Context) -> None:
    lay(
        root,
        {
            ".gitignore": "*.log\n/build/\n!keep.log\n",
            "a.log": "x",
            "keep.log": "x",
            "build/out.txt": "x",
            "sub/build/in.txt": "x",
            "sub/.gitignore": "secret\n",
            "sub/secret": "x",
            "sub/b.log": "x",
            "secret": "x",
        },
    )
    shown = [".gitignore", "keep.log", "secret", "sub/.gitignore", "sub/build/in.txt"]
    assert listed(context) == shown
    assert [line.partition(":")[0] for line in found(context, "^x$")] == shown[1:3] + shown[4:]
    assert len(listed(context, ignored=True)) == 9
    assert len(found(context, "^x$", ignored=True)) == 7


def test_ignore_files_above_the_directory_count_up_to_the_project_and_no_further(
    root: Path, context: Context
) -> None:
    lay(root.parent, {".gitignore": "*\n"})
    lay(root, {".gitignore": "*.log\n", "sub/a.log": "x", "sub/a.txt": "x"})
    assert listed(context) == [".gitignore", "sub/a.txt"]
    assert listed(context, directory="sub") == ["sub/a.txt"]


def test_in_a_repository_the_ignore_files_count_from_its_root(root: Path, context: Context) -> None:
    git(root, "init", "-q")
    lay(root, {".git/info/exclude": "mine\n", "sub/deep/mine": "x"})
    lay(root, {".gitignore": "*.log\n", "sub/deep/a.log": "x", "sub/deep/a.txt": "x"})
    inner = Context(cwd=root / "sub", stop=Stop(), env=context.env)
    assert listed(inner) == ["deep/a.txt"]
    assert listed(inner, directory="deep") == ["deep/a.txt"]


def test_a_folder_that_is_left_out_is_seen_by_whoever_names_it(
    root: Path, context: Context
) -> None:
    lay(
        root,
        {
            ".agent/.gitignore": "workspace/\n",
            ".agent/workspace/run/notes.md": "needle\n",
            ".gitignore": "node_modules\n",
            "node_modules/left/index.js": "needle\n",
        },
    )
    assert found(context, "needle", directory="node_modules/left") == [
        "node_modules/left/index.js:1: needle"
    ]
    assert listed(context, directory=".agent/workspace/run") == [".agent/workspace/run/notes.md"]
    assert "ignored=true" in grep_files(context, {"pattern": "needle"}).text


def test_a_line_that_is_no_rule_spoils_no_ignore_file(root: Path, context: Context) -> None:
    lay(root, {".gitignore": b"!\n\\\n*.log\n\xff\xfe\n", "a.log": "x", "a.txt": "x"})
    assert listed(context) == [".gitignore", "a.txt"]


@pytest.mark.parametrize("directory", ["..", "/etc", "../other", "link"])
def test_a_directory_outside_is_refused(root: Path, context: Context, directory: str) -> None:
    lay(root.parent, {"other/a.txt": "x\n"})
    (root / "link").symlink_to(root.parent / "other")
    for tool, input in ((list_files, {}), (grep_files, {"pattern": "x"})):
        with pytest.raises(ToolError, match="outside"):
            tool(context, {"directory": directory, **input})


def test_what_is_no_directory_is_told(root: Path, context: Context) -> None:
    lay(root, {"sources/a.txt": "x\n"})
    os.mkfifo(root / "pipe")
    with pytest.raises(ToolError, match="sources"):
        list_files(context, {"directory": "source"})
    with pytest.raises(ToolError, match="is a file"):
        list_files(context, {"directory": "sources/a.txt"})
    with pytest.raises(ToolError, match="neither"):
        grep_files(context, {"pattern": "x", "directory": "pipe"})
    assert listed(context) == ["sources/a.txt"]
    assert found(context, "x") == ["sources/a.txt:1: x"]


def test_further_roots_are_searched_and_named_in_full(root: Path, context: Context) -> None:
    other = root.parent / "other"
    lay(other, {".gitignore": "b.txt\n", "a.txt": "x\n", "b.txt": "x\n"})
    wide = Context(cwd=root, stop=Stop(), env=context.env, roots=(other,))
    assert listed(wide, directory=str(other)) == [f"{other}/.gitignore", f"{other}/a.txt"]
    assert found(wide, "^x", directory=str(other)) == [f"{other}/a.txt:1: x"]
    assert found(wide, "x", directory=str(other / "a.txt")) == [f"{other}/a.txt:1: x"]


def test_r56_a_program_in_the_working_directory_is_never_run(root: Path) -> None:
    canary = root / "ran"
    fake = f"#!/bin/sh\ntouch {canary}\n"
    lay(root, {"rg": fake, "bin/rg": fake})
    outside = root.parent / "bin"
    outside.mkdir()
    (outside / "rg").symlink_to(root / "rg")
    for program in (root / "rg", root / "bin/rg"):
        program.chmod(0o755)
    path = f".::bin:{root}:{root}/bin:{outside}"
    context = Context(cwd=root, stop=Stop(), env={"PATH": path})
    used = walk.ripgrep(context)
    assert used is not None
    assert not used.is_relative_to(root)
    assert len(listed(context)) == 2
    assert not canary.exists()


def test_lines_around_a_match_are_shown(root: Path, context: Context) -> None:
    lay(root, {"a.txt": "1\n2\nhit\n4\nhit\n6\n7\n8\n9\nhit", "b.txt": "hit\n"})
    text = grep_files(context, {"pattern": "hit", "context": 1}).text
    assert text.split("\n") == [
        "a.txt-2- 2",
        "a.txt:3: hit",
        "a.txt-4- 4",
        "a.txt:5: hit",
        "a.txt-6- 6",
        "--",
        "a.txt-9- 9",
        "a.txt:10: hit",
        "--",
        "b.txt:1: hit",
        "(4 matching lines in 2 files)",
    ]


def test_case_plain_text_and_names_only_are_options(root: Path, context: Context) -> None:
    lay(root, {"a.txt": "Hit.\nhit?\n", "b.txt": "HIT.\n"})
    assert found(context, "hit", ignore_case=True) == [
        "a.txt:1: Hit.",
        "a.txt:2: hit?",
        "b.txt:1: HIT.",
    ]
    assert found(context, "it.", literal=True) == ["a.txt:1: Hit."]
    assert found(context, "hit.", files_only=True, ignore_case=True) == ["a.txt", "b.txt"]
    assert grep_files(context, {"pattern": "absent"}).text.startswith(
        "no matches for absent in . ("
    )


def test_file_glob_says_which_files_are_searched(root: Path, context: Context) -> None:
    lay(root, {"src/a.ts": "x\n", "src/sub/b.ts": "x\n", "lib/c.ts": "x\n", "src/d.js": "x\n"})
    a, b, c, d = "src/a.ts:1: x", "src/sub/b.ts:1: x", "lib/c.ts:1: x", "src/d.js:1: x"
    assert found(context, "x", file_glob="*.ts") == [c, a, b]
    assert found(context, "x", file_glob="src/*.ts") == [a]
    assert found(context, "x", file_glob="src/**/*.{ts,js}") == [a, d, b]
    assert found(context, "x", file_glob="sub/*.ts", directory="src") == [b]
    assert found(context, "x", file_glob="src/sub/*", directory="src") == [b]
    assert found(context, "x", file_glob=f"{root}/lib/**") == [c]
    assert "none fits *.py" in grep_files(context, {"pattern": "x", "file_glob": "*.py"}).text


def test_a_gitignored_file_is_not_searched_because_a_glob_fits_it(
    root: Path, context: Context
) -> None:
    lay(
        root, {".gitignore": "*.log\nout\n", "a.log": "x\n", "out/b.log": "x\n", "c.log.txt": "x\n"}
    )
    assert found(context, "x", file_glob="*.log*") == ["c.log.txt:1: x"]
    assert listed(context, pattern="*.log*") == ["c.log.txt"]


def test_line_ends_of_windows_are_no_part_of_a_line(root: Path, context: Context) -> None:
    lay(root, {"a.txt": "one\r\ntwo\r\n"})
    assert found(context, "one$") == ["a.txt:1: one"]
    assert found(context, r"one\s") == []


def test_a_match_stays_within_its_line(root: Path, context: Context) -> None:
    lay(root, {"a.txt": "foo\nbar foo bar\n\n"})
    assert found(context, r"foo\s*bar") == ["a.txt:2: bar foo bar"]
    assert found(context, r"foo[^x]bar") == ["a.txt:2: bar foo bar"]
    assert found(context, "^$") == ["a.txt:3: "]


def test_bytes_that_are_no_text_are_shown_as_such(root: Path, context: Context) -> None:
    lay(root, {"a.txt": b"caf\xe9 needle\n"})
    assert found(context, "needle") == ["a.txt:1: caf� needle"]


def test_a_result_is_in_order_bounded_and_counted(root: Path, context: Context) -> None:
    lay(root, {f"d{n % 7}/f{n:03}.txt": f"needle {n} {'x' * 50}\n" * 3 for n in range(500)})
    text = grep_files(context, {"pattern": "needle"}).text
    assert len(text.encode()) <= search.BYTES
    lines = [line for line in text.split("\n") if ": needle" in line]
    assert lines == sorted(lines)
    assert "No room for the lines in:" in text
    assert text.endswith(
        "(1500 matching lines in 500 files; "
        "narrow the pattern, the directory or file_glob to see all)"
    )
    assert grep_files(context, {"pattern": "needle"}).text == text


def test_one_file_does_not_crowd_out_the_others(root: Path, context: Context) -> None:
    lay(root, {"a.txt": f"needle {'x' * 60}\n" * 2000, "z.txt": "needle\n"})
    text = grep_files(context, {"pattern": "needle"}).text
    assert "a.txt: 1990 more matching lines" in text
    assert "z.txt:1: needle" in text


def test_of_far_too_many_matches_the_first_ones_are_shown(root: Path, context: Context) -> None:
    lay(root, {f"f{n:03}.txt": "needle\n" * 100 for n in range(100)})
    text = grep_files(context, {"pattern": "needle"}).text
    assert text.startswith("f000.txt:1: needle\n")
    assert len(text.encode()) <= search.BYTES
    assert "there are more" in text


def test_folders_stand_for_their_files_where_there_are_too_many(
    root: Path, context: Context
) -> None:
    lay(root, {f"big/part{n % 3}/file_with_a_long_name_{n:04}.txt": "" for n in range(900)})
    lay(root, {"README.md": "", "src/a.py": ""})
    text = list_files(context, {}).text
    assert text.split("\n") == [
        "README.md",
        "big/part0/ (300 files)",
        "big/part1/ (300 files)",
        "big/part2/ (300 files)",
        "src/a.py",
        "(902 files; a folder with a number is not shown in full)",
    ]
    few = list_files(context, {"directory": "big", "pattern": "*.txt"}).text
    assert len(few.encode()) <= search.BYTES
    assert few.startswith("big/part0/file_with_a_long_name_0000.txt\n")
    assert few.endswith(" shown; narrow the pattern)")


def test_patterns_count_from_the_directory_and_are_tried_deeper(
    root: Path, context: Context
) -> None:
    lay(root, {"a.md": "", "docs/b.md": "", "docs/api/c.md": "", "app/[id]/page.tsx": ""})
    assert listed(context, pattern="*.md") == ["a.md", "docs/api/c.md", "docs/b.md"]
    assert listed(context, pattern="./*.md") == ["a.md"]
    assert listed(context, pattern="*.md", directory="docs/api") == ["docs/api/c.md"]
    assert listed(context, pattern="api/*.md") == ["docs/api/c.md"]
    assert listed(context, pattern="docs") == ["docs/api/c.md", "docs/b.md"]
    assert listed(context, pattern="app/[id]/page.tsx") == ["app/[id]/page.tsx"]
    assert list_files(context, {"pattern": "*.rs"}).text.startswith("no file fits *.rs in . (")
    with pytest.raises(ToolError, match="out of the directory"):
        list_files(context, {"pattern": "../*.md"})


def test_an_empty_directory_has_no_files(root: Path, context: Context) -> None:
    (root / "empty").mkdir()
    assert list_files(context, {"directory": "empty"}).text.startswith("no files in empty")
    assert grep_files(context, {"pattern": "x"}).text.startswith("no matches for x in . (no files;")


def test_both_engines_give_the_same_result(root: Path) -> None:
    lay(
        root,
        {
            ".gitignore": "*.o\nbuild/\n!build/\ntmp/*\n!tmp/keep\n",
            "a.c": "int main(void) { return 0; }\n",
            "a.o": "main",
            "a.txt": "main\n",
            "a/b.c": "int  main;\nx\n",
            "a-b/c.c": "main\r\nmain\r\n",
            "build/x.c": "main\n",
            "tmp/drop": "main\n",
            "tmp/keep": "main\n",
            "Ünï/c.c": "mäin main\n",
        },
    )
    contexts = [Context(cwd=root, stop=Stop(), env=env) for env in ({}, {"PATH": ""})]
    calls: list[Callable[[Context], str]] = [
        lambda context: list_files(context, {}).text,
        lambda context: list_files(context, {"pattern": "a*/*.c"}).text,
        lambda context: grep_files(context, {"pattern": r"\bmain\b", "context": 2}).text,
        lambda context: grep_files(context, {"pattern": r"m\win", "ignore_case": True}).text,
        lambda context: grep_files(context, {"pattern": "x", "directory": "a/b.c"}).text,
        lambda context: grep_files(context, {"pattern": "zzz"}).text,
    ]
    for call in calls:
        assert call(contexts[0]) == call(contexts[1])


def test_steps_that_search_at_once_do_not_disturb_each_other(root: Path, context: Context) -> None:
    lay(root, {f"f{n}.txt": f"needle {n}\nother\n" for n in range(20)})
    alone = [found(context, f"needle {n}$") for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda n: found(context, f"needle {n}$"), range(8)))
    assert together == alone == [[f"f{n}.txt:1: needle {n}"] for n in range(8)]

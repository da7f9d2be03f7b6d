import re
import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools.find.glob import glob
from agent.tools.find.scan import Query, expression, needed
from agent.tools.find.walk import names, place

PATHS = st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=4)
PARTS = st.one_of(st.just("**"), st.text("ab*?.", min_size=1, max_size=4))
LINES = """a|b/|/a|*.c|!a.c|a/b|a/**|**/c|!b|*|!*/|# x||b/*|[ab]|/*|!/a|b/**/c|**/|?|!a/ |\\a"""
RULES = st.lists(st.sampled_from(LINES.split("|")), max_size=4)
TREE = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "a.c"]), min_size=1, max_size=3), max_size=8
)


def fits(parts: list[str], path: list[str]) -> bool:
    """What a pattern means, said the slow way."""
    if not parts:
        return not path
    first, *rest = parts
    if first == "**":
        return fits(rest, path) or (bool(path) and fits(parts, path[1:]))
    return bool(path) and name_fits(first, path[0]) and fits(rest, path[1:])


def name_fits(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return name_fits(pattern[1:], name) or (bool(name) and name_fits(pattern, name[1:]))
    return bool(name) and pattern[0] in ("?", name[0]) and name_fits(pattern[1:], name[1:])


@given(st.lists(PARTS, min_size=2, max_size=4), PATHS)
def test_a_pattern_matches_what_it_means(parts: list[str], path: list[str]) -> None:
    if "." in parts or ".." in parts:
        return
    if parts[-1] == "**" and fits(parts[:-1], path):
        return  # a folder's name as a file's: "everything in it" says nothing of that
    assert glob("/".join(parts))("/".join(path)) == fits(parts, path)


@given(st.text("ab*?[]{},!-/\\.", max_size=30), st.text("ab/.[]", max_size=30))
def test_every_text_is_a_pattern_or_refused(pattern: str, path: str) -> None:
    try:
        glob(pattern)(path)
    except ToolError:
        assert ".." in pattern or "{" in pattern


@given(st.integers(2, 12), st.sampled_from(["*a", "**/*a/", "*?", "**/"]))
def test_no_pattern_takes_long(count: int, piece: str) -> None:
    assert not glob(piece * count + "b")("a" * 60 + "/a" * 60)


@given(
    st.text("abc(|)*+?{1}[]^.\\d ", max_size=12),
    st.text("abc1d ", max_size=12),
    st.booleans(),
)
def test_what_is_needed_stands_in_every_match(pattern: str, text: str, literal: bool) -> None:
    query = Query(pattern=pattern, literal=literal, ignore_case=False, context=0, once=False)
    try:
        wanted = expression(query)
    except re.error:
        return
    if wanted.search(text):
        assert needed(query) in text.encode()


@settings(max_examples=25)
@given(TREE, RULES, RULES)
def test_both_walks_see_what_git_sees(
    tree: list[list[str]], top: list[str], inner: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "root"
        root.mkdir()
        for parts in [*tree, ["b", "keep"]]:
            file = root.joinpath(*parts)
            if any(each.is_file() for each in file.parents) or file.exists():
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
        (root / ".gitignore").write_bytes("\n".join(top).encode())
        if (root / "b").is_dir():
            (root / "b/.gitignore").write_bytes("\n".join(inner).encode())
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        git = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
        seen = subprocess.run(git, cwd=root, check=True, capture_output=True).stdout
        wanted = set(filter(None, seen.decode().split("\0")))
        for env in ({}, {"PATH": ""}):
            context = Context(cwd=root, stop=Stop(), env=env)
            assert set(names(context, place(context, ".")).paths) == wanted

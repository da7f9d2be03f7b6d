"""What users of such tools lost text by, each as a call of the tools on real files."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.stop import Stop
from agent.tool import Context, Tool
from agent.tools.files import edit_file, multi_edit, read_file


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    made = Context(cwd=tmp_path.resolve(), stop=Stop())
    yield made
    made.close()


def refused(tool: Tool, context: Context, **input: Any) -> str:
    with pytest.raises(ToolError) as told:
        tool(context, input)
    return str(told.value)


def test_c001_an_edit_given_with_lf_keeps_crlf(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "inv.ini"
    file.write_bytes(b"[stock]\r\napples = 4\r\npears = 9\r\nplums = 1\r\n")

    edit_file(
        context,
        {
            "path": "inv.ini",
            "old_string": "apples = 4\npears = 9",
            "new_string": "apples = 5\npears = 8",
        },
    )

    assert file.read_bytes() == b"[stock]\r\napples = 5\r\npears = 8\r\nplums = 1\r\n"


def test_c002_mixed_line_ends_stay_where_they_are(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "mix.txt"
    file.write_bytes(b"one\ntwo\r\nthree\nfour\r\n")

    edit_file(context, {"path": "mix.txt", "old_string": "two\nthree", "new_string": "2\n3"})

    assert file.read_bytes() == b"one\n2\r\n3\nfour\r\n"


TEMPLATE = "echo \"pid $$ all $& one \\1 grp \\g<0> tick $` quote $'x' back\\\\slash\""


def test_c004_new_text_is_no_template(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "mk.sh"
    edit = {"old_string": "run_step", "new_string": TEMPLATE}
    for tool, input in (
        (edit_file, edit),
        (edit_file, {**edit, "replace_all": True}),
        (multi_edit, {"edits": [edit]}),
    ):
        file.write_text("run_step\nexit 0\n", encoding="utf-8")
        tool(context.fresh(Stop()), {"path": "mk.sh", **input})
        assert file.read_text(encoding="utf-8") == TEMPLATE + "\nexit 0\n"


def test_c005_curly_for_straight_quotes_is_a_change(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "msg.py"
    file.write_text("TEXT = 'say %s now'\nLABEL = '%s'\n", encoding="utf-8")

    edit_file(
        context,
        {"path": "msg.py", "old_string": "LABEL = '%s'", "new_string": "LABEL = '‘%s’'"},
    )

    assert file.read_text(encoding="utf-8") == "TEXT = 'say %s now'\nLABEL = '‘%s’'\n"


def test_c007_blanks_for_a_tab_are_written_as_the_tab(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "Makefile"
    file.write_bytes(b"all:\n\tcc -o app app.c\n\tstrip app\n")
    assert "\n\tcc" in read_file(context, {"path": "Makefile"}).text

    edit_file(
        context,
        {
            "path": "Makefile",
            "old_string": "all:\n    cc -o app app.c",
            "new_string": "all:\n    cc -O2 -o app app.c",
        },
    )

    assert file.read_bytes() == b"all:\n\tcc -O2 -o app app.c\n\tstrip app\n"


def test_c008_an_empty_old_string_never_overwrites(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_bytes(b"abc\n")
    for every in (True, False):
        said = refused(
            edit_file, context, path="log.txt", old_string="", new_string="X", replace_all=every
        )
        assert "old_string is empty" in said
        assert file.read_bytes() == b"abc\n"


def test_c010_bytes_that_are_no_utf8_stay(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "menu.txt"
    file.write_bytes(b"price=10\ncaf\xe9 au lait\n\xc4\xe3\xba\xc3\n")

    edit_file(context, {"path": "menu.txt", "old_string": "price=10", "new_string": "price=12"})

    assert file.read_bytes() == b"price=12\ncaf\xe9 au lait\n\xc4\xe3\xba\xc3\n"


def test_c011_escapes_in_new_text_stay_two_characters(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "join.py"
    file.write_text("def j(xs):\n    return xs\n", encoding="utf-8")
    new = r"""    return "\n".join(xs) + '\0' + '\''"""

    edit_file(context, {"path": "join.py", "old_string": "    return xs", "new_string": new})

    assert file.read_text(encoding="utf-8") == f"def j(xs):\n{new}\n"
    compile(file.read_text(encoding="utf-8"), "join.py", "exec")


def test_c013_a_text_that_stands_twice_is_refused_with_its_lines(
    context: Context, tmp_path: Path
) -> None:
    file = tmp_path / "conf.yaml"
    before = "web:\n  port: 80\nadmin:\n  port: 80\n"
    file.write_text(before, encoding="utf-8")
    edit = {"path": "conf.yaml", "old_string": "  port: 80", "new_string": "  port: 8080"}

    said = refused(edit_file, context, **edit)
    assert "2 times, in lines 2 and 4" in said
    assert file.read_text(encoding="utf-8") == before

    edit_file(context, {**edit, "replace_all": True})
    assert file.read_text(encoding="utf-8") == "web:\n  port: 8080\nadmin:\n  port: 8080\n"


def test_c014_blanks_within_a_line_count(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "row.txt"
    file.write_bytes(b"red    green blue\n")

    said = refused(edit_file, context, path="row.txt", old_string="red green", new_string="mauve")

    assert "only blanks or line breaks differ" in said
    assert "1|red    green blue" in said
    assert file.read_bytes() == b"red    green blue\n"


def test_c016_all_edits_or_none(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "app.cfg"
    file.write_bytes(b"host=a\nport=1\n")

    said = refused(
        multi_edit,
        context,
        path="app.cfg",
        edits=[
            {"old_string": "host=a", "new_string": "host=b"},
            {"old_string": "prot=1", "new_string": "prot=2"},
        ],
    )

    assert "edit 2 of 2" in said
    assert "app.cfg is unchanged" in said
    assert file.read_bytes() == b"host=a\nport=1\n"


def test_c017_each_edit_is_done_on_what_the_one_before_left(
    context: Context, tmp_path: Path
) -> None:
    file = tmp_path / "abc.txt"
    file.write_bytes(b"a b\n")

    said = refused(
        multi_edit,
        context,
        path="abc.txt",
        edits=[
            {"old_string": "a", "new_string": "b"},
            {"old_string": "b", "new_string": "c"},
        ],
    )

    assert "edit 2 of 2: old_string stands there 2 times" in said
    assert file.read_bytes() == b"a b\n"


def test_c019_an_edit_through_a_link_keeps_the_link(context: Context, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/settings.toml").write_bytes(b"level = 1\n")
    link = tmp_path / "settings.toml"
    link.symlink_to("real/settings.toml")

    edit_file(
        context,
        {"path": "settings.toml", "old_string": "level = 1", "new_string": "level = 2"},
    )

    assert link.readlink() == Path("real/settings.toml")
    assert (tmp_path / "real/settings.toml").read_bytes() == b"level = 2\n"


def test_c020_two_edits_at_once_both_hold(context: Context, tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    edits = [("first", "FIRST"), ("second", "SECOND")]
    for turn in range(200):
        file.write_text("# A\nfirst\n# B\nsecond\n", encoding="utf-8")
        agent = context.fresh(Stop())
        read_file(agent, {"path": "plan.md"})
        gate = threading.Barrier(2)

        def edit(
            old: str, new: str, agent: Context = agent, gate: threading.Barrier = gate
        ) -> None:
            gate.wait()
            edit_file(agent, {"path": "plan.md", "old_string": old, "new_string": new})

        threads = [
            threading.Thread(target=edit, args=pair)
            for pair in (edits if turn % 2 else reversed(edits))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert file.read_text(encoding="utf-8") == "# A\nFIRST\n# B\nSECOND\n"

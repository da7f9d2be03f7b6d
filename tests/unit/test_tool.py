from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

from agent.errors import ToolError
from agent.message import Image
from agent.stop import Stop
from agent.tool import Context, Outcome, tool


class Edit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: str
    new: str = ""


@tool(writes=True)
def mend(
    context: Context,
    path: str,
    edits: list[Edit],
    mode: Literal["soft", "hard"] = "soft",
    tries: int = 1,
    note: str | None = None,
) -> str:
    """Mend a file.

    It is mended as told, and not otherwise.

    path: the file, relative to the working directory: nowhere else
    edits: what to replace
    mode: how
    tries: how often
    note: a word on it
    """
    return f"{path} {[edit.old for edit in edits]} {mode} {tries} {note}"


@tool(writes=False)
def look(context: Context) -> Outcome:
    """Look around.

    There is nothing to be said about it.
    """
    return Outcome(text="seen", images=(Image(media_type="image/png", data="x"),))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    (tmp_path / "work").mkdir()
    return Context(cwd=(tmp_path / "work").resolve(), stop=Stop())


def refused(**input: Any) -> str:
    with pytest.raises(ToolError) as told:
        mend(Context(cwd=Path("/"), stop=Stop()), input)
    return str(told.value)


# -- what a model is shown ---------------------------------------------------------------------


def test_a_tool_s_schema_is_that_of_its_function_as_short_as_it_can_be_said() -> None:
    assert mend.spec == {
        "name": "mend",
        "description": "Mend a file.\n\nIt is mended as told, and not otherwise.",
        "input_schema": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "the file, relative to the working directory: nowhere else",
                },
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                        "required": ["old"],
                    },
                    "description": "what to replace",
                },
                "mode": {"enum": ["hard", "soft"], "description": "how"},
                "tries": {"type": "integer", "description": "how often"},
                "note": {"type": "string", "description": "a word on it"},
            },
            "required": ["path", "edits"],
        },
    }
    assert mend.writes
    assert not look.writes


def test_a_tool_without_parameters_is_described_by_all_of_its_words() -> None:
    assert look.description == "Look around.\n\nThere is nothing to be said about it."
    assert look.schema["properties"] == {}


def test_a_parameter_without_words_is_a_fault_that_no_import_survives() -> None:
    def bare(context: Context, where: str) -> str:
        """Do something.

        other: not where
        """
        return where

    with pytest.raises(KeyError, match="where"):
        tool(writes=False)(bare)


def test_a_parameter_may_have_the_name_of_a_schema_s_own_word() -> None:
    @tool(writes=False)
    def odd(context: Context, title: str, default: str, additionalProperties: int = 1) -> str:
        """Do something odd.

        title: one
        default: two
        additionalProperties: three
        """
        return title

    assert list(odd.schema["properties"]) == ["title", "default", "additionalProperties"]


# -- how it is used ----------------------------------------------------------------------------


def test_a_tool_gets_its_arguments_read_and_its_text_is_its_outcome(context: Context) -> None:
    done = mend(context, {"path": "a", "edits": [{"old": "x"}], "tries": "2", "note": None})
    assert done == Outcome(text="a ['x'] soft 2 None")
    assert look(context, {}).images == (Image(media_type="image/png", data="x"),)


def test_lists_that_came_as_a_text_of_json_are_read(context: Context) -> None:
    assert "['x', 'y']" in mend(context, {"path": "a", "edits": '[{"old":"x"},{"old":"y"}]'}).text
    quoted = mend(context, {"path": '["a"]', "edits": [], "note": "[1]"}).text
    assert quoted == '["a"] [] soft 1 [1]', "what is a text stays one"


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({}, "missing required field `path`"),
        ({"path": "a"}, "missing required field `edits`"),
        ({"path": 3, "edits": []}, "Expected `str`, got `int` - at `$.path`"),
        ({"path": "a", "edits": "[{"}, "Expected `array`, got `str` - at `$.edits`"),
        ({"path": "a", "edits": [{"new": "x"}]}, "missing required field `old` - at `$.edits[0]`"),
        ({"path": "a", "edits": [], "mode": "rough"}, "Invalid enum value 'rough'"),
        ({"path": "a", "edits": [], "all": True}, "unknown field `all`"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_schema(
    input: dict[str, Any], words: str
) -> None:
    told = refused(**input)
    assert told.startswith("mend: ")
    assert words in told
    assert '"required":["path","edits"]' in told


# -- the part of the world ---------------------------------------------------------------------


def test_only_what_is_inside_can_be_named(context: Context, tmp_path: Path) -> None:
    home = context.cwd
    (home / "sub").mkdir()
    (home / "out").symlink_to(tmp_path)
    (home / "loop").symlink_to("loop")
    assert context.inside("sub/../new.py") == home / "new.py"
    assert context.inside(str(home / "sub")) == home / "sub"
    assert context.inside(".") == home
    for path in ("..", "../x", "/etc/passwd", "out/x", "~/x", "sub/../../x", f"{home}x"):
        with pytest.raises(ToolError, match="outside the working directory"):
            context.inside(path)
    for path in ("a\0b", "~nobody-of-this-name/x"):
        with pytest.raises(ToolError, match="no usable path"):
            context.inside(path)


def test_further_roots_and_the_workspace_are_inside_too(tmp_path: Path) -> None:
    cwd, more, place = (tmp_path.resolve() / name for name in ("cwd", "more", "place"))
    context = Context(cwd=cwd, stop=Stop(), roots=(more,), workspace=place)
    assert context.inside("../more/x") == more / "x"
    assert context.inside(f"{place}/notes.md") == place / "notes.md"
    with pytest.raises(ToolError, match=f"{cwd} and {more} and {place}"):
        context.inside("../other")


def test_a_path_is_shown_from_the_working_directory(context: Context) -> None:
    assert context.shown(context.cwd / "src/a.py") == "src/a.py"
    assert context.shown(Path("/etc/passwd")) == "/etc/passwd"


class Kept:
    closed = 0

    def __init__(self, context: Context) -> None:
        self.context = context

    def close(self) -> None:
        Kept.closed += 1


def test_an_agent_keeps_one_of_a_kind_until_it_ends(context: Context) -> None:
    Kept.closed = 0
    first = context.own(Kept)
    assert context.own(Kept) is first
    other = context.fresh(Stop(), env={"A": "1"})
    assert other.own(Kept) is not first
    assert (other.cwd, other.env) == (context.cwd, {"A": "1"})
    context.close()
    context.close()
    assert Kept.closed == 1
    assert context.own(Kept) is not first

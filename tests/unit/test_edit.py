import pytest

from agent.errors import ToolError
from agent.tools.file.diff import ROWS, diff
from agent.tools.file.edit import Replacement, edited


def after(text: str, old: str, new: str, *, every: bool = False) -> str:
    edit = Replacement(old_string=old, new_string=new, replace_all=every)
    return edited(text, edit).text


def refusal(text: str, old: str, new: str, *, every: bool = False) -> str:
    with pytest.raises(ToolError) as told:
        after(text, old, new, every=every)
    return str(told.value)


def test_a_new_line_in_a_crlf_file_ends_in_crlf() -> None:
    assert after("a\r\nb\r\n", "a", "x\ny") == "x\r\ny\r\nb\r\n"


def test_line_ends_written_out_as_crlf_are_meant() -> None:
    assert after("a\nb\n", "b", "x\r\ny") == "a\nx\r\ny\n"
    assert after("a\r\nb\r\n", "a\r\nb", "x\ny") == "x\ny\r\n"


def test_a_model_that_always_writes_crlf_leaves_an_lf_file_lf() -> None:
    assert after("a\nb\nc\n", "a\r\nb", "a\r\nx\r\nb") == "a\nx\nb\nc\n"


def test_line_ends_alone_can_be_changed() -> None:
    assert after("a\r\nb\n", "a\r\n", "a\n") == "a\nb\n"
    assert after("a\nb\n", "\n", "\r\n", every=True) == "a\r\nb\r\n"
    assert "nothing to change" in refusal("a\r\nb\r\n", "a\n", "a\r\n")


def test_a_match_never_splits_a_line_end() -> None:
    assert after("a\r\nb\r\n", "\nb", "\nc") == "a\r\nc\r\n"
    assert after("a\r\nb\r\n", "\nb", "") == "a\r\n"
    assert after("a\r\nb", "\n", "", every=True) == "ab"


def test_a_lone_carriage_return_is_a_character() -> None:
    assert after("a\rb\r\r\nc\r\n", "b\r\r\nc", "x") == "a\rx\r\n"


def test_overlapping_places_are_more_than_one() -> None:
    assert "2 times" in refusal("aaa\n", "aa", "b")
    assert after("aaaa\n", "aa", "b", every=True) == "bb\n"
    assert after("a\r\na\r\na\r\n", "a\r\n", "b", every=True) == "bbb"


def test_many_places_are_named_as_far_as_that_helps() -> None:
    said = refusal("x\n" * 100, "x", "y")
    assert "100 times" in said
    assert said.count(",") < 30
    assert "20 …" in said
    assert "2 times, in line 1;" in refusal("x x\n", "x", "y")
    assert "1,000 times or more" in refusal("x" * 5_000_000, "x", "y")
    assert "use a command" in refusal("x" * 5_000_000, "x", "y", every=True)


def test_nothing_to_change_is_refused() -> None:
    assert "the same" in refusal("a\n", "a", "a")
    assert "nothing to change" in refusal("say “a”\n", 'say "a"', "say “a”")


def test_an_empty_text_is_filled() -> None:
    assert after("", "", "x\n") == "x\n"


def test_half_a_character_is_refused() -> None:
    for half in ("\ud800", "\udce9"):
        assert "half of a character" in refusal("a\n", "a", f"b{half}")


def test_curly_quotes_that_do_not_change_stay() -> None:
    text = "He said “it’s – well – late”.\n"
    done = after(text, '"it\'s - well - late"', '"it\'s - well - very late"')
    assert done == "He said “it’s – well – very late”.\n"


def test_a_straight_quote_that_is_new_stays_straight() -> None:
    assert after("say “a” now\n", 'say "a" now', "say \"a\" 'b'") == "say “a” 'b'\n"


def test_blanks_at_line_ends_may_differ_and_stay_where_nothing_changes() -> None:
    assert after("a  \nb\t\nc  \nd\n", "a\nb\nc", "a\nB\nc") == "a  \nB\nc  \nd\n"


def test_blanks_behind_the_last_line_are_not_eaten() -> None:
    assert after("a \nb   \nc\n", "a\nb", "x") == "x   \nc\n"


def test_a_last_line_without_an_end_gets_none() -> None:
    assert after("a\nb", "b\n", "c\n") == "a\nc"
    assert after("a\nb", "a\nb\n", "a\nb\nc\n") == "a\nb\nc"
    assert after("a\nb", "b", "c") == "a\nc"


def test_a_last_line_s_end_goes_only_with_its_line() -> None:
    assert after("a\nb \nc\n", "b\n", "") == "a\nc\n"


def test_deeper_by_the_same_is_the_same_text() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    done = after(
        text, "def f(self):\n    return 1", "def f(self):\n    if x:\n        y()\n    z()"
    )
    assert done == (
        "class A:\n    def f(self):\n        if x:\n            y()\n        z()\n"
    )  # fmt: skip


def test_less_deep_by_the_same_is_the_same_text() -> None:
    text = "if a:\n  b\n  c\n"
    done = after(text, "      b\n      c", "      b\n    d\n      c")
    assert done == "if a:\n  b\nd\n  c\n"


def test_tabs_in_the_file_for_blanks_from_the_model() -> None:
    text = "func f() {\n\tif a {\n\t\tb()\n\t}\n}\n"
    done = after(
        text,
        "    if a {\n        b()\n    }",
        "    if a {\n        for {\n            b()\n        }\n    }",
    )
    assert done == "func f() {\n\tif a {\n\t\tfor {\n\t\t\tb()\n\t\t}\n\t}\n}\n"


def test_blanks_in_the_file_for_tabs_from_the_model() -> None:
    text = "def f():\n    if a:\n        b()\n"
    done = after(text, "def f():\n\tif a:\n\t\tb()", "def f():\n\tif a:\n\t\tif c:\n\t\t\tb()")
    assert done == "def f():\n    if a:\n        if c:\n            b()\n"


def test_a_dedented_piece_of_a_tabbed_file_gets_tabs() -> None:
    done = after("a {\n\tb\n\tc\n}\n", "b\nc\n", "b\n    d\nc\n")
    assert done == "a {\n\tb\n\t\td\n\tc\n}\n"


def test_blanks_that_align_behind_a_tab_stay() -> None:
    text = "f(a,\n\t  b)\n\tg()\n"
    done = after(text, "f(a,\n      b)\n    g()", "f(a,\n      c)\n    g()")
    assert done == "f(a,\n\t  c)\n\tg()\n"


def test_another_structure_is_another_text() -> None:
    text = "if a:\n    b\nc\n"
    assert "not in the file" in refusal(text, "if a:\n  b\n  c", "if a:\n  b\n  d")
    text = "a\n    b\n  c\n"
    assert "not in the file" in refusal(text, "a\n  b\n    c", "a\n  b\n    d")


def test_an_indentation_that_cannot_be_told_is_refused() -> None:
    said = refusal("\ta\n\tb\n", "  a\n  b", " \ta\n  b")
    assert "another indentation" in said


def test_tolerated_texts_must_be_the_only_one() -> None:
    text = "  x = 1\nif y:\n    x = 1\n"
    assert "lines 1 and 3" in refusal(text, "\tx = 1", "\tx = 2", every=True)
    assert "lines 1 and 2" in refusal("“a”\n“a”\n", '"a"', '"b"', every=True)


def test_blank_lines_alone_match_nothing_loosely() -> None:
    assert "not in the file" in refusal("a\n\t\nb\n", "  \n", "c\n")


def test_what_was_tolerated_is_said() -> None:
    done = edited("\ta\n\tb\n", Replacement(old_string="  a\n  b", new_string="  c\n  b"))
    assert (done.text, done.tolerated) == ("\tc\n\tb\n", "indentation")


def test_the_closest_lines_are_shown() -> None:
    text = (
        "".join(f"line {n} of many\n" for n in range(500)) + "def total(xs):\n    return sum(xs)\n"
    )
    said = refusal(text, "def total(items):\n    return sum(items)", "x")
    assert "501|def total(xs):\n502|    return sum(xs)" in said


def test_nothing_is_shown_where_nothing_is_close() -> None:
    said = refusal("a = 1\nb = 2\n", "class Parser:", "x")
    assert said == "old_string is not in the file; read it again, it may have changed"


def test_line_numbers_in_the_text_are_named_as_the_fault() -> None:
    assert "line numbers" in refusal("aa\nbb\n", "1|aa\n2|bb", "x")


def test_an_edit_that_was_done_before_is_named() -> None:
    said = refusal("a\nreturn total(xs)\n", "return sum(xs)", "return total(xs)")
    assert "in line 2" in said


def test_a_text_that_is_nowhere_is_refused_in_bounded_time() -> None:
    lines = [f"value_{n % 7} = call({n}, {n % 13})" for n in range(40_000)]
    assert "not in the file" in refusal("\n".join(lines), "\n".join(lines[5:900]) + "?", "x")
    assert "not in the file" in refusal("a\n" * 300_000, "a\n" * 3000 + "b", "x")


def test_a_large_block_is_replaced_in_bounded_time() -> None:
    block = "x = 1\n" * 20_000
    assert after("a\n" + block + "z", block, block + "y\n") == "a\n" + block + "y\nz"
    tabbed = "".join(f"\tline {n}\n" for n in range(3000))
    blank = tabbed.replace("\t", "    ")
    assert after(tabbed, blank, blank + "    end\n") == tabbed + "\tend\n"


def test_a_diff_shows_what_changed_with_its_lines() -> None:
    before = "".join(f"{n}\n" for n in range(1, 21))
    assert diff(before, before.replace("10\n", "ten\n"), "n.txt") == (
        "--- n.txt\n+++ n.txt\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13"
    )


def test_a_diff_of_two_places_has_two_parts() -> None:
    before = "".join(f"{n}\n" for n in range(1, 3001))
    shown = diff(before, before.replace("\n10\n", "\nten\n").replace("2900\n", ""), "n.txt")
    assert "-10\n+ten\n" in shown
    assert "@@ -2897,7 +2897,6 @@" in shown


def test_a_diff_says_where_the_last_line_has_no_end() -> None:
    assert diff("", "a", "n") == (
        "--- n\n+++ n\n@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file"
    )  # fmt: skip


def test_a_diff_is_bounded() -> None:
    before, new = "a\n" * 20_000, "".join(f"b{n % 3}\n" for n in range(20_000))
    shown = diff(before, new, "n")
    assert len(shown.split("\n")) == ROWS + 3
    assert shown.endswith("… 39,961 more lines of the diff are not shown")
    assert len(diff("a", "b" * 100_000, "n")) < 1000
    assert diff("a\n", "a\n", "n") == ""

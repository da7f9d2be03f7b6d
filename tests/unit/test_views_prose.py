import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.views.plain import Output, cells
from agent.views.prose import Prose, rendered

PIECES = [
    "# ", "- ", "1. ", "> ", "```", "```py", "~~~", "    ", "\t", "|", "a|b", "---", "|--|--|",
    "\n", "\n\n", "**", "*", "_", "`", "[x](y)", "![a](b)", "<b>", "<!--", "&#27;", "&#x202e;",
    "&lt;", "~~", "\\", "http://a.b", "天枢", "🚀", "\x1b[31m", "\x9b2J", "[a]: b", "word ", "  \n",
]  # fmt: skip
markdown = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(width: int = 40, **environ: str) -> Output:
    return Output(Tty(), {"TERM": "xterm"} | environ, size=lambda: (width, 24))


def shown(text: str, width: int = 40) -> list[str]:
    return [STYLE.sub("", row) for row in rendered(text, terminal(width))]


def streamed(text: str, size: int, out: Output) -> tuple[list[str], str]:
    """What is printed while a text streams in pieces, and at its end."""
    prose = Prose(out)
    printed = [prose.feed(text[n : n + size]) for n in range(0, len(text), size)]
    return printed, prose.end(text)


@given(markdown, st.integers(10, 90))
@settings(max_examples=50)
def test_r66_whatever_the_text_only_our_styles_reach_the_terminal(text: str, width: int) -> None:
    for row in rendered(text, terminal(width)):
        plain = STYLE.sub("", row)
        assert plain.isprintable()
        assert cells(plain) <= max(width - 1, 10)


@given(markdown, st.integers(1, 9))
@settings(max_examples=30)
def test_streaming_prints_each_word_once(text: str, size: int) -> None:
    text = "".join(f"{piece}w{n}w " if n % 3 == 0 else piece for n, piece in enumerate(text))
    out = terminal()
    printed, rest = streamed(text, size, out)
    whole = STYLE.sub("", "".join(printed) + rest)
    once = STYLE.sub("", "\n".join(rendered(text, out)))
    assert sorted(re.findall(r"w\d+w", whole)) == sorted(re.findall(r"w\d+w", once))


def test_a_block_is_printed_when_the_next_one_begins_and_not_before() -> None:
    out = terminal()
    prose = Prose(out)
    assert prose.feed("One **bold**\nline.\n") == ""
    assert prose.feed("\n") == ""
    assert STYLE.sub("", prose.feed("Two")) == "One bold line.\n"
    assert prose.rows(39, 23)[0] == ""  # apart from what is above
    assert "Two" in prose.rows(39, 23)[1]
    assert prose.feed(" more\n") == ""
    assert STYLE.sub("", prose.end()) == "\nTwo more\n"
    assert prose.rows(39, 23) == []


def test_a_list_and_a_code_block_stay_in_one_piece() -> None:
    out = terminal()
    text = "1. a\n\n   more of a\n\n2. b\n\n```\nx\n\ny\n```\n"
    printed, rest = streamed(text, 2, out)
    pieces = [STYLE.sub("", piece) for piece in [*printed, rest] if piece]
    assert [piece.split() for piece in pieces] == [
        ["1", "a", "more", "of", "a", "2", "b"], ["x", "y"],
    ]  # fmt: skip


def test_a_tail_that_is_too_long_is_drawn_from_its_end_and_printed_whole() -> None:
    out = terminal()
    prose = Prose(out)
    text = "```py\n" + "".join(f"x = {n}\n" for n in range(500))
    for n in range(0, len(text), 100):
        assert prose.feed(text[n : n + 100]) == ""
    rows = [STYLE.sub("", row).strip() for row in prose.rows(39, 10)]
    assert rows == [f"x = {n}" for n in range(490, 500)]
    assert "\x1b[" in "".join(prose.rows(39, 10))  # it is still seen as code
    assert STYLE.sub("", prose.end()).count("x = ") == 500


def test_code_is_highlighted_and_has_no_background_of_its_own() -> None:
    rows = rendered("```python\ndef f():\n    return 'x'\n```\nand `code`", terminal())
    assert "\x1b[94mdef\x1b[0m" in rows[0]
    assert not re.search(r"\x1b\[(\d+;)*4\d(;\d+)*m", "".join(rows))


def test_links_show_where_they_lead_and_html_stays_text() -> None:
    assert shown("[here](http://a.b/c) <b>x</b> ![pic](http://e.f/g.png)", 100) == [
        "here (http://a.b/c) <b>x</b> !pic (http://e.f/g.png)"
    ]
    assert "\x1b]8" not in "".join(rendered("[here](http://a.b)", terminal()))


def test_characters_named_by_markdown_are_made_safe_too() -> None:
    assert shown("a &#x202e; b `\u200b`") == [r"a \u{202e} b \u{200b}"]


def test_wide_characters_fit_the_width() -> None:
    rows = shown("| 文件 | 行 |\n|---|---|\n| 天枢.py | 12 |\n\n" + "天枢" * 40, 30)
    assert max(map(cells, rows)) <= 29
    assert "".join(rows).count("天枢") == 41


def test_where_nothing_can_be_drawn_text_is_passed_on_as_it_comes() -> None:
    out = terminal(NO_COLOR="1")
    text = "# A **b**\n\x1b[2Jc"
    assert streamed(text, 5, out) == (["# A *", "*b**\n", "c"], "\n")
    prose = Prose(out)
    assert prose.feed("old") == "old"
    assert prose.end("new\n") == "\nnew\n"
    assert Prose(out).end("\x1b[2Jwhole\n") == "whole\n"

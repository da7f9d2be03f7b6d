from html.parser import HTMLParser

import pytest
from msgspec import json

from agent.message import Call, Image, Message, Result
from agent.views.transcript import Said, Transcript, fenced, html, jsonl, markdown

TIME = "2026-11-30T10:00:00.000Z"
BAD = "</pre></div><script>x</script><img src=//h/x onerror=y> &amp; \"' \x1b[31m ```\n````"


def transcript(*messages: Message, title: str = "") -> Transcript:
    said = tuple(
        Said(id=str(at), parent=str(at - 1), time=TIME, model="m", message=each)
        for at, each in enumerate(messages, 2)
    )
    return Transcript(id="1", title=title, cwd="/w", time=TIME, said=said)


HOSTILE = transcript(
    Message(role="user", text=BAD, images=(Image(media_type="image/png", data='AA" onload="x'),)),
    Message(role="assistant", text=BAD, calls=(Call(id="1", name=BAD, input={BAD: [BAD]}),)),
    Message(
        role="user",
        results=(
            Result(call="1", text=BAD, images=(Image(media_type="image/png", data="AA=="),)),
            Result(call="2", text="", ok=False),
        ),
    ),
    title=BAD,
)


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_what_was_said_is_text_of_the_page_and_nothing_else() -> None:
    page = Page(html(HOSTILE))
    assert {tag for tag, _ in page.tags} == {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "small", "section",
        "div", "pre", "details", "summary", "img",
    }  # fmt: skip
    assert [given["src"] for tag, given in page.tags if tag == "img"] == [
        "data:image/png;base64,AA=="
    ]
    assert not any(name.startswith("on") for _, given in page.tags for name in given)
    assert "".join(page.texts).count("<script>x</script>") == 9
    assert "\x1b" not in html(HOSTILE)


def test_times_are_told_for_people() -> None:
    for form in (markdown, html):
        told = form(HOSTILE)
        assert "2026-11-30 10:00 UTC" in told
        assert TIME not in told
    assert TIME in jsonl(HOSTILE)


def test_in_markdown_no_output_ends_its_fence() -> None:
    text = markdown(HOSTILE)
    assert text.startswith("# </pre></div><script>x</script>")
    fences = [line for line in text.splitlines() if line.startswith("`````")]
    assert len(fences) == 4, "the call's input and the result each stand between two"
    assert "*failure of `a call`:*\n\n```\n\n```" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("text", ["", "`", "a ```` b", "```\n```"])
def test_a_fence_is_longer_than_any_in_it(text: str) -> None:
    first, *rest, last = fenced(text).split("\n")
    assert first == last
    assert len(first) >= 3
    assert first not in "\n".join(rest)


def test_json_lines_are_a_conversation_as_it_is_kept() -> None:
    head, titled, *messages = [json.decode(line) for line in jsonl(HOSTILE).splitlines()]
    assert (head["type"], head["id"], titled["title"]) == ("session", "1", BAD)
    assert [line["message"]["role"] for line in messages] == ["user", "assistant", "user"]
    assert messages[1]["parent"] == messages[0]["id"]
    assert json.decode(jsonl(transcript()))["type"] == "session"

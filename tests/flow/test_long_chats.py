"""Chats that go on for long, in this process: a server on this machine counts and refuses."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from agent.app import App
from agent.chat import Chat
from agent.event import Event, Notice
from agent.message import Call, Message
from agent.stop import Stop
from agent.store import sessions, settingsfile
from agent.views.context import filling_lines
from tests.conversations import talk, user
from tests.servers import Answer, Ask, OpenAIServer, failing

WINDOW = 9000


def size(ask: Ask) -> int:
    return len(json.dumps(ask.json, ensure_ascii=False).encode()) // 3


class Model:
    """Answers at length; a summary for what has no tools."""

    def __init__(self) -> None:
        self.asked, self.summaries, self.refused = list[Ask](), list[Ask](), 0

    def __call__(self, ask: Ask) -> Answer | object:
        tokens = size(ask)
        if not ask.json.get("tools"):
            self.summaries.append(ask)
            return Answer(text="Goal: many wishes, all met.", usage=(tokens, 9, 0, 0))
        if tokens > WINDOW:
            self.refused += 1
            return failing(400, "context_length_exceeded", f"maximum context length is {WINDOW}")
        self.asked.append(ask)
        return Answer(
            text=f"answer {len(self.asked)} " + "and so on, " * 90, usage=(tokens, 9, 0, 0)
        )


@contextmanager
def chatting(
    cwd: Path, patch: pytest.MonkeyPatch, session: sessions.Session, told: list[str]
) -> Iterator[tuple[Chat, Model]]:
    model = Model()

    def sink(event: Event) -> None:
        if isinstance(event, Notice):
            told.append(event.text)

    with OpenAIServer(model) as server:  # type: ignore[arg-type]
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        flags = {"model": "openai/fake-model", "context": {"fake-model": WINDOW}}
        app = App(cwd, settingsfile.load(cwd, flags=flags), stop=Stop(), sinks=(sink,))
        chat = Chat(app, session)
        try:
            yield chat, model
        finally:
            chat.close()
            app.close()


def test_a_chat_of_sixty_turns_stays_within_its_model_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, before = list[str](), 0
    with chatting(tmp_path, monkeypatch, sessions.new(tmp_path), told) as (chat, model):
        count = 0
        while count < 60 or len(told) == before:  # until there is room again for another turn
            before = len(told)
            chat.turn(f"wish {count}: the port is {8000 + count}")
            count += 1
        id, last = str(chat.session and chat.session.id), model.asked[-1]
        assert model.refused == 0
        assert max(map(size, model.asked)) <= WINDOW
        assert 3 <= len(model.summaries) <= 30
        shorter = [text for text in told if "made shorter" in text]
        changed = sum(one.json["messages"] != two.json["messages"][: len(one.json["messages"])]
                      for one, two in pairwise(model.asked))  # fmt: skip
        assert changed == len(shorter)
        words = json.dumps(last.json["messages"])
        assert all(
            f"wish {number}: the port is {8000 + number}" in words for number in range(count)
        )
        filling = chat.filling()
        assert filling.exact
        assert filling.window == WINDOW
        assert any("summary" in line for line in filling_lines(filling))
        assert len(chat.messages) == 2 * count, "the whole is there to go back to"
    with chatting(tmp_path, monkeypatch, sessions.load(tmp_path, id), told) as (chat, model):
        chat.turn("and after all that?")
        assert not model.summaries
        old, new = last.json["messages"], model.asked[0].json["messages"]
        assert new[: len(old)] == old


def test_c061_compact_after_a_call_without_a_result_and_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sessions.new(tmp_path)
    call = Call(id="last", name="bash", input={"command": "make"})
    for message in (*talk(1, 30, bulk=500)[:80], user("build it")):
        session.add(message)
    session.add(Message(role="assistant", calls=(call,)))
    told = list[str]()
    with chatting(tmp_path, monkeypatch, session, told) as (chat, model):
        line = chat.compact("the port, 8137")
        assert "made shorter" in line
        assert "summarised by openai/" in line
        (asked,) = model.summaries
        assert "The user wants this kept above all: the port, 8137" in json.dumps(asked.json)
        assert chat.turn("go on").answer.startswith("answer 1")
        assert "Goal: many wishes, all met." in json.dumps(model.asked[0].json)
        assert chat.compact().startswith(("the conversation was made", "there is nothing"))
        assert chat.turn("and on").answer.startswith("answer 2")
        assert model.refused == 0
    assert told == [], "what /compact tells is the line that it returns"

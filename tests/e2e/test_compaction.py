"""Conversations longer than the model takes, against servers that count and refuse."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ts import Ts
from tests.servers import Answer, AnthropicServer, Ask, OpenAIServer, Plain, Server, failing

SUMMARY = "Goal: read the files. State: none is read to its end."


@pytest.fixture(params=[AnthropicServer, OpenAIServer], ids=["anthropic", "openai"])
def kind(request: pytest.FixtureRequest) -> type[Server]:
    wire: type[Server] = request.param
    return wire


def size(ask: Ask) -> int:
    """The tokens of a request, as this server counts them."""
    return len(json.dumps(ask.json, ensure_ascii=False).encode()) // 4


class Narrow:
    """What a model of so many tokens says: `says` its own, the small one a summary."""

    def __init__(self, kind: type[Server], window: int, says: Callable[[int, Ask], Answer]) -> None:
        self.kind, self.window, self.says = kind, window, says
        self.taken, self.refused, self.summaries = list[Ask](), list[Ask](), list[Ask]()

    def __call__(self, ask: Ask) -> Answer | Plain:
        tokens = size(ask)
        if ask.json["model"] != "fake-model":
            self.summaries.append(ask)
            return Answer(text=SUMMARY, usage=(tokens, 20, 0, 0))
        if tokens > self.window:
            self.refused.append(ask)
            if self.kind is AnthropicServer:
                words = f"prompt is too long: {tokens} tokens > {self.window} maximum"
                return failing(400, "invalid_request_error", words)
            words = (
                f"This model's maximum context length is {self.window} tokens. However, your "
                f"messages resulted in {tokens} tokens."
            )
            return failing(400, "context_length_exceeded", words)
        self.taken.append(ask)
        answer = self.says(len(self.taken), ask)
        return Answer(text=answer.text, calls=answer.calls, usage=(tokens, 20, 0, 0))


def reading(number: int, times: int) -> Answer:
    """A model that reads a file after the other, and then has done."""
    if number > times:
        return Answer(text="all read")
    path = json.dumps({"path": f"part-{number}.txt"})
    return Answer(text=f"Reading {number}.", calls=((f"c{number}", "read_file", path),))


def wordy(answer: Answer) -> Answer:
    return Answer(text=answer.text + " Hm, I see." * 150, calls=answer.calls)


def parts(ts: Ts, count: int) -> None:
    for number in range(1, count + 1):
        lines = [f"{number}.{line}: the quick brown fox, {line * 7919}" for line in range(250)]
        ts.write(f"part-{number}.txt", "\n".join(lines))


def words(ask: Ask) -> str:
    return json.dumps(ask.json["messages"], ensure_ascii=False)


def stubs(ts: Ts, ask: Ask) -> list[Path]:
    """The files that a request names for what was dropped."""
    found = words(ask).split("the whole: ")[1:]
    return [ts.cwd / each.partition(")")[0] for each in found]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_r84_a_turn_that_grows_too_long_is_made_shorter_and_goes_on(
    ts: Ts, kind: type[Server]
) -> None:
    parts(ts, 9)
    model = Narrow(kind, 12_000, lambda number, ask: reading(number, 9))
    with kind(model) as server:
        ts.asks(server)
        ran = ts.here("-p", "read all nine parts, and mind the 狐狸")
    assert ran.said == "all read\n"
    assert len(model.taken) == 10
    assert len(model.refused) == 1, "what the model takes is learned from its first refusal"
    assert max(map(size, model.taken)) <= 12_000
    assert all("read all nine parts, and mind the 狐狸" in words(ask) for ask in model.taken)
    assert "made shorter" in ran.err
    (named,) = {path for ask in model.taken for path in stubs(ts, ask) if "1.249:" in read(path)}
    assert "1.0: the quick brown fox" in read(named)
    assert named.stat().st_mode & 0o077 == 0
    assert named.parent.stat().st_mode & 0o077 == 0


def test_a_step_s_agent_is_kept_within_its_model_too(ts: Ts) -> None:
    parts(ts, 9)
    ts.write("plan.yaml", "steps: [{id: read, do: read all nine parts}]")
    model = Narrow(OpenAIServer, 12_000, lambda number, ask: reading(number, 9))
    with OpenAIServer(model) as server:
        ts.asks(server)
        assert ts.here("run", "plan.yaml").said == "all read\n"
    assert (len(model.taken), len(model.refused)) == (10, 1)
    assert all(
        '<step id=\\"read\\">read all nine parts</step>' in words(ask) for ask in model.taken
    )
    named = {path for ask in model.taken for path in stubs(ts, ask)}
    assert any("1.249: the quick brown fox" in read(path) for path in named)
    assert all(path.is_relative_to(ts.cwd / ".agent/workspace") for path in named)


def test_a_size_that_is_set_is_kept_without_a_refusal_and_beginnings_stay_for_the_cache(
    ts: Ts, kind: type[Server]
) -> None:
    parts(ts, 16)
    model = Narrow(kind, 12_000, lambda number, ask: wordy(reading(number, 16)))
    with kind(model) as server:
        ts.asks(server)
        settings = str(ts.write("own.yaml", "context: {fake-model: 12000}"))
        ran = ts.here("-p", "read all", "--settings", settings, "--output-format", "json")
    assert ran.json["result"].startswith("all read")
    assert not model.refused
    assert 1 <= len(model.summaries) <= 8
    assert ran.json["num_turns"] == 17 + len(model.summaries), "a summary is a call like any other"
    assert all(ask.json.get("tools") is None for ask in model.summaries)
    changed = sum(not begins(one, two) for one, two in pairwise(model.taken))
    assert len(model.summaries) <= changed < 16
    assert SUMMARY in words(model.taken[-1])
    assert "read all" in words(model.taken[-1])


def begins(one: Ask, two: Ask) -> bool:
    """Whether a request begins as another did: marks for the cache are not counted."""

    def bare(value: Any) -> Any:
        match value:
            case dict():
                return {key: bare(each) for key, each in value.items() if key != "cache_control"}
            case list():
                return [bare(each) for each in value]
            case _:
                return value

    old = bare(one.json["messages"])
    return bool(bare(two.json["messages"])[: len(old)] == old)


def test_c062_where_the_system_prompt_alone_is_too_long_it_ends_clearly(
    ts: Ts, kind: type[Server]
) -> None:
    filler = "mind the gap, " * 1300
    model = Narrow(kind, 8000, lambda number, ask: Answer(text="never"))
    with kind(model) as server:
        ts.asks(server)
        ran = ts.here("-p", "hi", "--append-system-prompt", filler * 2, "--output-format", "json")
        assert (ran.code, ran.json["error"]["code"]) == (1, "too-long")
        told = ran.json["error"]["message"]
        assert "the system prompt and tools alone need" in told
        assert "of 8,000 tokens" in told
        assert len(server.requests) == 1
        settings = str(ts.write("own.yaml", "context: {fake-model: 8000}"))
        again = ts.here("-p", "hi", "--append-system-prompt", filler * 2, "--settings", settings)
        assert again.code == 1
        assert "the system prompt and tools alone need" in again.err
        assert len(server.requests) == 1


def test_after_kill_9_a_conversation_goes_on_with_what_was_made_shorter(ts: Ts) -> None:
    parts(ts, 12)
    model = Narrow(OpenAIServer, 12_000, lambda number, ask: wordy(reading(number, 12)))
    hung: list[Any] = []

    def serve(ask: Ask) -> Any:
        if len(model.taken) == 12 and not hung and ask.json["model"] == "fake-model":
            hung.append(ask)
            ts.write("hung", "yes")
            return Answer(text="cut", end="hang", cut=0)
        return model(ask)

    with OpenAIServer(serve) as server:
        ts.asks(server)
        settings = str(ts.write("own.yaml", "context: {fake-model: 12000}"))
        with ts.started("-p", "read all", "--settings", settings) as process:
            assert ts.there("hung")
            process.kill()
            process.wait(20)
        before = len(model.summaries)
        assert before, "it has been summarised"
        ran = ts.here("-c", "-p", "go on", "--settings", settings)
        assert ran.said.startswith("all read")
    assert len(model.summaries) == before, "nothing is paid twice"
    old, new = (ask.json["messages"][1:] for ask in (hung[0], model.taken[-1]))
    assert new[: len(old)] == old, "what is sent begins as before, so that a cache serves it"
    assert "go on" in json.dumps(new[len(old) :])
    (path,) = (ts.cwd / ".agent/sessions").glob("*.jsonl")
    text = path.read_text(encoding="utf-8")
    assert all(f"{n}.249: the quick brown fox" in text for n in range(1, 13)), "the whole is kept"

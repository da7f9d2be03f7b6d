"""A chat that is killed at any moment of a turn is gone on with: what was said is there, and both
services take what is sent."""

import json
import random
import signal
from collections import Counter
from collections.abc import Callable
from threading import Event
from time import monotonic

import pytest

from tests.crash.kit import begun, orphans
from tests.e2e.ts import PATIENCE, Ts
from tests.servers import Answer, AnthropicServer, Ask, OpenAIServer, Server

FIRST = ("-p", "the first words", "-y", "--output-format=stream-json", "--include-partial-messages")
THEN = ("-c", "-p", "and now", "-y")
SLOW = (
    ("c1", "bash", '{"command": "echo one"}'),
    ("c2", "bash", '{"command": "echo > began; sleep 60"}'),
)
QUICK = (
    ("c1", "bash", '{"command": "echo one"}'),
    ("c2", "bash", '{"command": "echo two > began"}'),
)
TURNS = 60  # of the campaign


def killed(ts: Ts, ready: Callable[[], bool]) -> None:
    """Have `ts` say the first words, and kill it once it is ready for that."""
    with (ts.cwd / "seen").open("wb") as out, begun(ts, FIRST, out=out) as process:
        until = monotonic() + PATIENCE
        while process.poll() is None and not ready():
            assert monotonic() < until, "that moment never came"
            Event().wait(0.001)
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL, "it had ended before"
    assert not orphans(ts), "a command outlived the death of `ts`"


def kept(ts: Ts) -> str:
    """The whole lines of the only conversation."""
    found = [*(ts.cwd / ".agent/sessions").glob("*.jsonl")]
    return found[0].read_text(encoding="utf-8").rpartition("\n")[0] if found else ""


def goes_on(ts: Ts, *said: str) -> None:
    """On either wire its next turn is taken, and has in it what was said."""
    for kind, fork in ((AnthropicServer, ["--fork-session"]), (OpenAIServer, [])):
        with kind([Answer(text="gone on")]) as server:
            ts.asks(server)
            ran = ts.here(*THEN, *fork)
            assert (ran.code, ran.out) == (0, "gone on\n"), ran
            (request,) = server.requests
            sent = json.dumps(request.json["messages"])
            assert [words for words in (*said, "and now") if words not in sent] == [], sent


def test_before_the_request_the_words_of_the_user_are_kept(ts: Ts) -> None:
    with OpenAIServer([Answer(text="hello", late=60)]) as server:
        ts.asks(server)
        killed(ts, lambda: "the first words" in kept(ts))
    goes_on(ts, "the first words")


def test_in_the_middle_of_an_answer_the_words_of_the_user_are_kept(ts: Ts) -> None:
    with OpenAIServer([Answer(text="a long answer " * 20, cut=2500, end="hang")]) as server:
        ts.asks(server)
        killed(ts, lambda: b"text.delta" in (ts.cwd / "seen").read_bytes())
        server.over.set()
    goes_on(ts, "the first words")


def test_while_a_tool_is_at_work_what_was_asked_of_it_is_kept(ts: Ts) -> None:
    with OpenAIServer([Answer(text="let me look", calls=SLOW)]) as server:
        ts.asks(server)
        killed(ts, lambda: (ts.cwd / "began").exists())
    goes_on(ts, "the first words", "let me look", "sleep 60", "interrupted")


def test_between_a_tool_and_the_next_request_its_result_is_kept(ts: Ts) -> None:
    with OpenAIServer(lambda ask: second(ask, Answer(text="let me look", calls=QUICK))) as server:
        ts.asks(server)
        killed(ts, lambda: '"results"' in kept(ts))
    goes_on(ts, "the first words", "let me look", "one")


def second(ask: Ask, first: Answer) -> Answer:
    """The first answer, and then none in time."""
    said = any(message["role"] == "assistant" for message in ask.json["messages"])
    return Answer(text="late", late=60) if said else first


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_it_may_be_killed_at_any_moment(ts: Ts) -> None:
    """Again and again in one conversation: nothing that was kept is ever lost."""
    ts.patience = 120  # beside other work of the machine
    chance, ends = random.Random(11), Counter[str]()
    turns = [Answer(text=f"look {n}", calls=one) for n, one in enumerate((QUICK, QUICK[:1]))]

    def say(ask: Ask) -> Answer:
        told = ask.json["messages"]
        last = max(n for n, each in enumerate(told) if "word " in json.dumps(each["content"]))
        turn = sum(each["role"] == "assistant" for each in told[last:])
        made = turns[turn] if turn < 2 else Answer(text="that is all", size=1)
        calls = [(f"t{len(told)}{id}", name, given) for id, name, given in made.calls]
        return Answer(text=made.text, calls=tuple(calls), size=made.size)

    with OpenAIServer([Answer(text="hello")]) as first:
        ts.asks(first)
        assert ts("-p", "the first words", "-y").code == 0
    for number in range(TURNS):
        kind: type[Server] = OpenAIServer if number % 4 else AnthropicServer
        with kind(say) as server:
            ts.asks(server)
            before = kept(ts)
            with begun(ts, ("-c", "-p", f"word {number}.", "-y")) as process:
                until = monotonic() + PATIENCE
                while number % 5 and f"word {number}." not in kept(ts) and monotonic() < until:
                    Event().wait(0.002)  # mostly it has begun to work on it
                Event().wait(chance.uniform(0, 0.7))
                process.kill()
                ends[f"exit {process.wait(PATIENCE)}"] += 1
            assert kept(ts).startswith(before), "what was kept is kept"
            heard = [n for n in range(number + 1) if f"word {n}." in kept(ts)]
            ends["the words were kept"] += number in heard
            ran = ts("-c", "-p", f"word {number}a.", "-y")
            assert (ran.code, ran.out) == (0, "that is all\n"), ran
            sent = json.dumps(server.requests[-1].json["messages"])
            assert "the first words" in sent
            assert [n for n in heard if f"word {n}." not in sent] == []
    print(f"\n{TURNS} turns: {dict(ends)}")

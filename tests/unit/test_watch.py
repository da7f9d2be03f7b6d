import threading
import time

import pytest

from agent.errors import ModelError, ServiceError, StoppedError
from agent.event import Event, ModelCalled, TextDelta
from agent.message import Message, Reply, Request, Say, Usage
from agent.providers.script import Script
from agent.providers.watch import metered, said, stopping
from agent.stop import TERMINATED, TIME, Stop

REQUEST = Request(system="", messages=(Message(role="user", text="hi"),))


def quiet(text: str) -> None:
    pass


class Stuck:
    """A model that says a word now and then, and never comes to an end by itself."""

    def __init__(self, every: float = 0.02) -> None:
        self.every = every
        self.ended = threading.Event()

    def __call__(self, request: Request, say: Say) -> Reply:
        pause = threading.Event()
        try:
            while True:
                say("word ")
                pause.wait(self.every)
        finally:
            self.ended.set()


def test_a_reply_its_pieces_and_its_errors_come_through_in_the_caller_s_thread() -> None:
    threads = set()
    pieces = list[str]()

    def say(piece: str) -> None:
        threads.add(threading.current_thread())
        pieces.append(piece)

    provider = stopping(Script(["hello, world", ModelError("no")]), Stop(), idle=5)
    assert provider(REQUEST, say).message.text == "hello, world"
    assert "".join(pieces) == "hello, world"
    assert threads == {threading.current_thread()}
    with pytest.raises(ModelError, match="no"):
        provider(REQUEST, say)


def test_a_stop_that_is_set_asks_nothing() -> None:
    stop, model = Stop(), Script(["hello"])
    stop.set()
    with pytest.raises(StoppedError):
        stopping(model, stop, idle=5)(REQUEST, quiet)
    assert model.requests == []


def test_a_stop_ends_the_wait_and_the_thread_and_nothing_is_heard_after_it() -> None:
    stop, model, pieces = Stop(), Stuck(), list[str]()
    threading.Timer(0.1, stop.set, (TERMINATED,)).start()
    with pytest.raises(StoppedError) as caught:
        stopping(model, stop, idle=5)(REQUEST, pieces.append)
    assert caught.value.exit_code == TERMINATED
    heard = len(pieces)
    assert model.ended.wait(5)
    assert len(pieces) == heard


def test_a_deadline_ends_the_wait() -> None:
    stop = Stop(seconds=0.2)
    begun = time.monotonic()
    with pytest.raises(StoppedError) as caught:
        stopping(Stuck(), stop, idle=5)(REQUEST, quiet)
    assert caught.value.exit_code == TIME
    assert time.monotonic() - begun < 2


def test_silence_is_given_up_and_may_be_tried_again() -> None:
    model = Stuck(every=60)
    with pytest.raises(ServiceError, match=r"0.2 s") as caught:
        stopping(model, Stop(), idle=0.2)(REQUEST, quiet)
    assert caught.value.retry_after == 0


def test_the_first_sign_may_take_longer() -> None:
    def slow(request: Request, say: Say) -> Reply:
        threading.Event().wait(0.4)
        return Script(["hello"])(request, say)

    reply = stopping(slow, Stop(), idle=0.15, first=10)(REQUEST, quiet)
    assert reply.message.text == "hello"


def test_what_has_to_be_loaded_first_is_no_silence() -> None:
    def load() -> None:
        threading.Event().wait(0.5)

    reply = stopping(Script(["hello"]), Stop(), idle=0.15, load=load)(REQUEST, quiet)
    assert reply.message.text == "hello"
    with pytest.raises(ServiceError):
        stopping(Stuck(every=60), Stop(), idle=0.15, load=load)(REQUEST, quiet)
    with pytest.raises(StoppedError):
        stopping(Script(["hello"]), Stop(seconds=0.1), idle=5, load=load)(REQUEST, quiet)


def test_what_a_listener_raises_ends_the_call() -> None:
    model = Stuck()

    def say(piece: str) -> None:
        raise KeyError(piece)

    with pytest.raises(KeyError):
        stopping(model, Stop(), idle=5)(REQUEST, say)
    assert model.ended.wait(5)


def test_every_reply_is_counted_a_cut_one_too() -> None:
    events = list[Event]()
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000)
    cut = Reply(message=Message(role="assistant", text="x"), usage=usage, stop="length")
    provider = metered(Script([cut, ModelError("no")]), events.append, "anthropic/claude-opus-4-5")
    reply = provider(REQUEST, quiet)
    with pytest.raises(ModelError):
        provider(REQUEST, quiet)
    [event] = events
    assert isinstance(event, ModelCalled)
    assert (event.model, event.usage) == ("anthropic/claude-opus-4-5", usage)
    assert (event.cost_usd, event.stop_reason) == (7.5, "length")
    assert reply.cost_usd == 7.5
    assert reply.model == "anthropic/claude-opus-4-5"


def test_what_was_not_counted_has_no_known_cost() -> None:
    events = list[Event]()
    silent = Reply(message=Message(role="assistant", text="x"))
    metered(Script([silent]), events.append, "anthropic/claude-opus-4-5")(REQUEST, quiet)
    metered(Script([silent]), events.append, "ollama/qwen")(REQUEST, quiet)
    assert [event.cost_usd for event in events if isinstance(event, ModelCalled)] == [None, 0.0]


def test_pieces_of_text_become_events_and_signs_of_life_do_not() -> None:
    events, pieces = list[Event](), list[str]()

    def model(request: Request, say: Say) -> Reply:
        for piece in ("", "a", "", "b"):
            say(piece)
        return Reply(message=Message(role="assistant", text="ab"))

    said(model, events.append)(REQUEST, pieces.append)
    assert events == [TextDelta(text="a"), TextDelta(text="b")]
    assert pieces == ["", "a", "", "b"]

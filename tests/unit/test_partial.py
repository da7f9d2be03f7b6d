import pytest

from agent.engine.partial import MARK, Partial
from agent.engine.whole import GOES_ON
from agent.errors import ModelError, ServiceError, StoppedError
from agent.event import Event, ModelCalled, Notice
from agent.message import Message, Reply, Request, Say, Usage

REQUEST = Request(system="s", messages=())


class Model:
    """Says pieces, tells what it is told to tell, and ends as it is told to."""

    def __init__(self, *acts: str | Event | Exception) -> None:
        self.acts = acts
        self.kept: list[str] = []
        self.events: list[Event] = []
        self.said: list[str] = []

    def ask(self) -> Reply:
        partial = Partial(self.events.append, lambda message: self.kept.append(message.text))

        def model(request: Request, say: Say) -> Reply:
            for act in self.acts:
                match act:
                    case str():
                        say(act)
                    case Exception():
                        raise act
                    case _:
                        partial.emit(act)
            return Reply(message=Message(role="assistant", text="whole"))

        return partial.kept(model)(REQUEST, self.said.append)


def called(stop: str) -> ModelCalled:
    return ModelCalled(model="m", usage=Usage(), cost_usd=None, seconds=0.0, stop_reason=stop)


@pytest.mark.parametrize(
    ("acts", "kept"),
    [
        (["one ", "", "two ", StoppedError("interrupted", 130)], ["one two"]),
        (["", StoppedError("interrupted", 130)], []),
        ([" \n", ModelError("no")], []),
        (["first", Notice(text="again"), "seco", ServiceError("down")], ["seco"]),
        (["first", Notice(text="again"), "", ServiceError("down")], ["first"]),
        (["cut", called("length"), Notice(text="again"), "new", ServiceError("x")], ["new"]),
        (
            ["one ", called("length"), Notice(text=f"m: {GOES_ON}"), "two", ServiceError("x")],
            ["one two"],
        ),
        (["say", KeyError("a bug of ours")], ["say"]),
    ],
)
def test_what_was_said_last_is_kept_and_marked(
    acts: list[str | Event | Exception], kept: list[str]
) -> None:
    model = Model(*acts)
    with pytest.raises((StoppedError, ModelError, KeyError)):
        model.ask()
    assert model.kept == [f"{text}\n\n{MARK}" for text in kept]
    assert model.said == [act for act in acts if isinstance(act, str)]


def test_a_reply_that_came_whole_is_not_kept_twice() -> None:
    model = Model("who", "le", called("end"))
    assert model.ask().message.text == "whole"
    assert model.kept == []
    assert model.events == [called("end")]

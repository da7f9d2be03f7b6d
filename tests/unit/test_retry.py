from collections.abc import Iterable

import pytest

from agent.errors import CutError, ModelError, ServiceError, StoppedError
from agent.message import Call, Message, Reply, Request, Say, Stop, Thought
from agent.providers.retry import Pause, retrying, whole
from agent.providers.script import Script
from agent.stop import INTERRUPTED
from agent.stop import Stop as Flag

REQUEST = Request(system="", messages=(Message(role="user", text="hi"),))


def reply(text: str = "", stop: Stop = "end", *calls: Call, thoughts: Iterable[str] = ()) -> Reply:
    own = tuple(Thought(text=each) for each in thoughts)
    message = Message(role="assistant", text=text, calls=calls, thoughts=own)
    return Reply(message=message, stop=stop, model="fake/m")


def busy(after: float | None = 0.0) -> ServiceError:
    return ServiceError("busy", retry_after=after)


def quiet(text: str) -> None:
    pass


class Waits(list[float]):
    """What was waited for, in no time."""

    def __call__(self, seconds: float) -> bool:
        self.append(seconds)
        return False


def test_each_wait_is_twice_the_last_one_less_a_share_by_chance() -> None:
    waits = Waits()
    model = Script([busy(), busy(), busy(), busy(), "hello"])
    provider = retrying(model, waits, quiet, chance=lambda: 0)
    assert provider(REQUEST, quiet).message.text == "hello"
    assert waits == [0.5, 1.0, 2.0, 4.0]
    waits.clear()
    model = Script([busy(), busy(), "hello"])
    provider = retrying(model, waits, quiet, chance=lambda: 1)
    provider(REQUEST, quiet)
    assert waits == [0.375, 0.75]


def test_a_wish_is_kept_and_told() -> None:
    waits = Waits()
    told: list[str] = []
    model = Script([busy(12.0), "hello"])
    retrying(model, waits, told.append)(REQUEST, quiet)
    assert waits == [12.0]
    assert told == ["busy; trying again in 12.0 s (2 of 5)"]


def test_what_would_not_help_is_not_tried_again() -> None:
    for error in (ModelError("no"), busy(None)):
        model = Script([error, "never"])
        provider = retrying(model, Waits(), quiet)
        with pytest.raises(type(error)):
            provider(REQUEST, quiet)
        assert len(model.requests) == 1


def test_the_last_error_is_raised() -> None:
    model = Script([ServiceError(str(at), retry_after=0) for at in range(9)])
    provider = retrying(model, Waits(), quiet, tries=3)
    with pytest.raises(ServiceError, match="2"):
        provider(REQUEST, quiet)


def test_a_stop_ends_the_waiting() -> None:
    flag = Flag()
    model = Script([busy(), "never"])

    def wait(seconds: float) -> bool:
        flag.set(INTERRUPTED)
        return flag.wait(seconds)

    provider = retrying(model, wait, quiet)
    with pytest.raises(ServiceError):
        provider(REQUEST, quiet)
    assert len(model.requests) == 1


def test_a_stop_that_raises_is_passed_on() -> None:
    def wait(seconds: float) -> bool:
        raise StoppedError("interrupted", INTERRUPTED)

    provider = retrying(Script([busy()]), wait, quiet)
    with pytest.raises(StoppedError):
        provider(REQUEST, quiet)


def test_a_pause_holds_all_who_share_it() -> None:
    now = 100.0
    pause = Pause(lambda: now)
    waits = Waits()
    model = Script([busy(20.0), "one", "two"])
    retrying(model, waits, quiet, pause=pause, chance=lambda: 0)(REQUEST, quiet)
    now = 105.0
    retrying(model, waits, quiet, pause=pause)(REQUEST, quiet)
    now = 121.0
    assert pause.left == 0
    assert waits == [20.0, 20.0, 15.0]


def test_a_whole_reply_is_passed_on() -> None:
    call = reply("", "calls", Call(id="a", name="bash"))
    for good in (reply("text"), call, reply("", "refused")):
        assert whole(Script([good]))(REQUEST, quiet) == good


@pytest.mark.parametrize(
    "lacking",
    [reply("cut of", "length"), reply(), reply(" \n"), reply(thoughts=["hm"]), reply("", "calls")],
    ids=["cut", "empty", "blank", "thinking", "no-calls"],
)
def test_a_lacking_reply_is_asked_for_again_with_the_same_request(lacking: Reply) -> None:
    told: list[str] = []
    model = Script([lacking, lacking, "hello"])
    assert whole(model, tell=told.append)(REQUEST, quiet).message.text == "hello"
    assert model.requests == [REQUEST] * 3
    assert ["(2 of 3)" in told[0], "(3 of 3)" in told[1]] == [True, True]


def test_a_reply_that_lacks_each_time_is_an_error_that_helps() -> None:
    model = Script([reply("cut of", "length")] * 3)
    with pytest.raises(CutError, match="cut before its end, 3 times") as caught:
        whole(model)(REQUEST, quiet)
    assert "smaller pieces" in caught.value.hint


def test_errors_pass_through() -> None:
    def broken(request: Request, say: Say) -> Reply:
        raise ModelError("no")

    with pytest.raises(ModelError, match="no"):
        whole(broken)(REQUEST, quiet)

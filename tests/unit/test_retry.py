import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from agent.errors import ModelError, ServiceError, StoppedError
from agent.message import Message, Reply, Request, Say
from agent.providers.retry import Pause, retrying
from agent.providers.script import Script
from agent.stop import INTERRUPTED
from agent.stop import Stop as Flag

REQUEST = Request(system="", messages=(Message(role="user", text="hi"),))


def reply(text: str) -> Reply:
    return Reply(message=Message(role="assistant", text=text), model="fake/m")


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
    waits, told = Waits(), list[str]()
    model = Script([busy(20.0), "one", "two"])

    def meanwhile(seconds: float) -> bool:
        """While the first waits, another one comes."""
        nonlocal now
        if not waits:
            now += 5
            retrying(model, waits, told.append, pause=pause)(REQUEST, quiet)
            now += seconds - 5
        return False

    retrying(model, meanwhile, told.append, pause=pause)(REQUEST, quiet)
    assert [round(each, 3) for each in waits] == [15.0]
    assert told == ["busy; trying again in 20.0 s (2 of 5)"]


class Crowd:
    """A service that answers nobody until nobody has asked it for a while, and then one at a time:
    whoever comes sooner than `gap` after another is refused."""

    def __init__(self, quiet: float, gap: float, wish: float = 0.0) -> None:
        self._quiet, self._gap, self._wish = quiet, gap, wish
        self._lock = threading.Lock()
        self.asked = list[float]()
        self.served = list[float]()

    def __call__(self, request: Request, say: Say) -> Reply:
        say("")
        with self._lock:
            now = time.monotonic()
            before = self.asked[-1] if self.asked else 0.0
            self.asked.append(now)
            gap = self._gap if self.served else self._quiet
            if now - before < gap or len(self.asked) == 1:
                raise ServiceError("429", retry_after=self._wish)
            self.served.append(now)
            first = len(self.served) == 1
        if first:  # it takes a while to answer again
            threading.Event().wait(0.4)
        say("hello")
        return reply("hello")


@pytest.mark.parametrize("wish", [0.0, 0.3])
def test_of_many_who_wait_one_goes_first_and_the_others_follow_one_by_one(wish: float) -> None:
    crowd, pause, flag = Crowd(quiet=0.25, gap=0.1, wish=wish), Pause(), Flag()
    together = threading.Barrier(8)

    def work() -> str:
        provider = retrying(crowd, flag.wait, quiet, pause=pause)
        together.wait(5)
        return provider(REQUEST, quiet).message.text

    with ThreadPoolExecutor(8) as threads:
        said = [each.result(20) for each in [threads.submit(work) for _ in range(8)]]
    assert said == ["hello"] * 8
    assert len(crowd.asked) <= 8 + 8 + 2, "the first rush, then hardly one too many"
    first = crowd.served[0]
    early = [each for each in crowd.asked if first < each < first + 0.39]
    assert early == [], "until the first is answered, nobody else goes"
    gaps = [later - one for one, later in pairwise(crowd.served)]
    assert min(gaps) >= 0.1


def test_many_give_up_together_where_nobody_is_answered() -> None:
    asked, pause = list[float](), Pause()
    together = threading.Barrier(8)

    def dead(request: Request, say: Say) -> Reply:
        asked.append(time.monotonic())
        if not together.broken and len(asked) <= 8:
            together.wait(5)
        raise ServiceError("503", retry_after=0.02)

    def work() -> None:
        with pytest.raises(ServiceError, match="503"):
            retrying(dead, lambda seconds: Flag().wait(seconds / 20), quiet, pause=pause)(
                REQUEST, quiet
            )

    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(work) for _ in range(8)]:
            each.result(20)
    assert 8 + 4 <= len(asked) <= 8 + 4 + 4
    together.abort()
    asked.clear()
    with pytest.raises(ServiceError):
        retrying(dead, Waits(), quiet, pause=pause)(REQUEST, quiet)
    assert len(asked) == 5, "who comes later has all its tries"


def test_a_reply_that_broke_off_holds_nobody_else() -> None:
    pause = Pause()

    def breaking(request: Request, say: Say) -> Reply:
        for piece in ("", "Once "):
            say(piece)
        raise ServiceError("reset", retry_after=0.0)

    waits = Waits()

    def meanwhile(seconds: float) -> bool:
        retrying(Script(["two"]), waits, quiet, pause=pause)(REQUEST, quiet)
        return True

    with pytest.raises(ServiceError, match="reset"):
        retrying(breaking, meanwhile, quiet, pause=pause)(REQUEST, quiet)
    assert waits == []


def test_a_call_that_was_held_and_stopped_lets_the_next_one_go_first() -> None:
    pause, flag = Pause(), Flag()

    def stopped(request: Request, say: Say) -> Reply:
        if flag.is_set:
            raise StoppedError("interrupted", INTERRUPTED)
        flag.set()
        raise busy()

    with pytest.raises(StoppedError):
        retrying(stopped, Waits(), quiet, pause=pause)(REQUEST, quiet)
    two = retrying(Script(["two"]), Waits(), quiet, pause=pause)(REQUEST, quiet)
    assert two.message.text == "two"

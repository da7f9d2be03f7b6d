import gc
import threading
import time
import weakref

import pytest

from agent.errors import StoppedError
from agent.stop import HUNG_UP, INTERRUPTED, TERMINATED, TIME, Stop


def test_the_first_reason_counts() -> None:
    stop = Stop()
    assert (stop.is_set, stop.why, stop.words) == (False, 0, "")
    stop.check()
    stop.set(TERMINATED)
    stop.set(INTERRUPTED, "too late")
    assert (stop.is_set, stop.why, stop.words) == (True, 143, "terminated")
    with pytest.raises(StoppedError, match="terminated") as error:
        stop.check()
    assert error.value.exit_code == 143


def test_words_may_say_more_than_the_reason() -> None:
    stop = Stop()
    stop.set(75, "the service is overloaded")
    with pytest.raises(StoppedError, match="the service is overloaded"):
        stop.check()
    other = Stop()
    other.set(4)
    assert other.words == "stopped"


def test_a_child_is_set_with_its_parent_and_not_the_other_way_round() -> None:
    parent = Stop()
    child, other = parent.child(), parent.child()
    grandchild = child.child()
    child.set(HUNG_UP)
    assert [each.why for each in (parent, child, other, grandchild)] == [0, 129, 0, 129]
    parent.set(INTERRUPTED, "Ctrl-C")
    assert [each.why for each in (child, other, grandchild)] == [129, 130, 129]
    assert other.words == "Ctrl-C"
    late = parent.child()
    assert (late.why, late.words) == (130, "Ctrl-C")


def test_a_flag_is_set_when_its_time_is_up_with_all_below_it() -> None:
    stop = Stop(seconds=0.05)
    child = stop.child()
    longer = stop.child(60)
    shorter = Stop(seconds=60).child(0.01)
    assert stop.wait(10)
    assert (stop.why, stop.words) == (TIME, "time ran out")
    assert (child.why, longer.why) == (TIME, TIME)
    assert shorter.wait(10)
    assert shorter.why == TIME


def test_waiting_ends_with_the_time_or_with_the_flag() -> None:
    stop = Stop()
    began = time.monotonic()
    assert not stop.wait(0.05)
    assert 0.05 <= time.monotonic() - began < 5
    assert not stop.wait(0)
    setter = threading.Timer(0.05, stop.set)
    setter.start()
    assert stop.wait()
    setter.join()
    assert stop.wait(60), "what is set is not waited for"


def test_a_wait_ends_with_a_parent_of_which_it_knows_nothing() -> None:
    parent = Stop()
    child = parent.child(60)
    setter = threading.Timer(0.05, parent.set, (TERMINATED,))
    setter.start()
    assert child.wait(60)
    setter.join()
    assert child.why == TERMINATED


def test_what_is_to_be_ended_is_called_once_while_it_is_under_way() -> None:
    stop, calls = Stop(), list[str]()
    with stop.calling(lambda: calls.append("before")):
        pass
    with stop.calling(lambda: calls.append("during")):
        stop.set()
        stop.set()
    assert calls == ["during"]
    with stop.calling(lambda: calls.append("after")):
        pass
    assert calls == ["during", "after"], "what begins late is ended at once"


def test_what_a_parent_stops_is_called_too() -> None:
    parent, calls = Stop(), list[str]()
    with parent.child().calling(lambda: calls.append("child")):
        parent.set()
    assert calls == ["child"]


def test_many_threads_may_set_it_and_one_reason_is_kept() -> None:
    stop = Stop()
    children = [stop.child() for _ in range(20)]
    codes = (TIME, HUNG_UP, INTERRUPTED, TERMINATED)
    threads = [threading.Thread(target=stop.set, args=(code,)) for code in codes]
    waiting = [threading.Thread(target=child.wait) for child in children]
    for thread in (*waiting, *threads):
        thread.start()
    for thread in (*threads, *waiting):
        thread.join(timeout=10)
        assert not thread.is_alive()
    assert {child.why for child in children} == {stop.why}
    assert stop.why in codes


def test_a_flag_does_not_keep_its_children_alive() -> None:
    stop = Stop()
    child = weakref.ref(stop.child())
    gc.collect()
    assert child() is None


def test_a_flag_is_set_with_those_above_it_though_nobody_else_holds_one_between() -> None:
    run = Stop()
    job = run.child().child()
    gc.collect()
    run.set(TERMINATED)
    assert job.why == TERMINATED


def test_of_several_reasons_the_stronger_counts() -> None:
    run = Stop()
    step = run.child()
    step.set(4, "the budget is spent")
    assert (step.why, step.words) == (4, "the budget is spent")
    run.set(INTERRUPTED)
    assert (run.why, step.why, step.words) == (INTERRUPTED, INTERRUPTED, "interrupted")
    run.set(75, "the service failed")
    run.set(TIME)
    assert (run.why, step.why) == (INTERRUPTED, INTERRUPTED)
    run.set(TERMINATED)
    assert step.why == TERMINATED

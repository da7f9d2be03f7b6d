"""A plan under way at a real terminal: what is typed meanwhile is about it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.e2e.screen import Screen
from tests.e2e.ts import Reply, Ts

LONG = 20.0  # seconds that a step takes, unless it is ended


@contextmanager
def running(ts: Ts, plan: object, replies: Sequence[Reply]) -> Iterator[Screen]:
    ts.write("plan.json", json.dumps(plan))
    ts.write("script.json", json.dumps(replies))
    words = ("run", "./plan.json", "--model", "script/script.json", "--sandbox", "off", "-y")
    screen = Screen(ts, *words)
    try:
        yield screen
    finally:
        screen.child.close(force=True)


def step(id: str, *needs: str) -> dict[str, object]:
    return {"id": id, "do": f"do {id}", "needs": needs, "writes": []}


def said(id: str, text: str, seconds: float = 0.0, **more: object) -> dict[str, object]:
    return {"for": id, "text": text, "seconds": seconds, **more}


LOOK = {"name": "list_files", "input": {}}


def test_a_step_is_left_out_and_another_is_told_and_tried_again(ts: Ts) -> None:
    plan = {"goal": "g", "steps": [step("one"), step("two"), step("end", "one", "two")]}
    replies = [
        said("one", "never", LONG),
        said("two", "looks", 3, calls=[LOOK]),
        said("two", "is done"),
        said("end", "all is said"),
    ]
    with running(ts, plan, replies) as screen:
        screen.sees("⠹ two")
        screen.types("/skip nine\r")
        screen.sees("there is no step nine")
        screen.types("/st")
        screen.sees("› /st")
        screen.types("eps\r")
        screen.sees("TRIES")
        screen.types("@two be brief\r")
        screen.sees("› tell two: be brief")
        screen.types("/skip one\r")
        screen.sees("↻ one is left out — the user")
        screen.sees("✓ end")
        assert screen.ended() == 1  # one step was left out
    assert "› tell two: be brief" in ts("show").out


def test_the_plan_is_changed_while_it_is_carried_out(ts: Ts) -> None:
    plan = {"goal": "g", "steps": [step("one"), step("two", "one")]}
    other = {"action": "replace", "because": "b", "steps": [step("three", "one")]}
    replies: list[Reply] = [
        said("one", "is done", 3),
        {"for": "revise", "calls": [{"name": "revise_plan", "input": other}]},
        said("three", "is done too"),
    ]
    with running(ts, plan, replies) as screen:
        screen.sees("two  waits for one")
        screen.types("/replan without two\r")
        screen.sees("↻ the plan is replaced — the user: without two")
        screen.types("/dag\r")
        screen.sees("three  needs one")
        screen.sees("✓ three")
        assert screen.ended() == 0


def test_the_story_of_a_step_is_told_as_far_as_it_has_come(ts: Ts) -> None:
    plan = {"goal": "g", "steps": [step("one")]}
    replies = [said("one", "I see a lot", calls=[LOOK]), said("one", "is done", LONG)]
    with running(ts, plan, replies) as screen:
        screen.sees("⠹ one")
        screen.types("/step one\r")
        screen.sees("one · running")
        screen.sees("  I see a lot")
        screen.types("/stop one\r")
        screen.sees("⊘ one")
        assert screen.ended() == 1

"""A plan under way at a real terminal: what is typed meanwhile is about it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.e2e.screen import Screen, chatting
from tests.e2e.ts import Reply, Ts, call, calling

LONG = 300.0  # seconds that a step takes, unless it is ended


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


def at_prompt(screen: Screen, prompt: str) -> None:
    """What is typed before a question is put answers nothing."""
    screen._until(lambda: screen.text.rstrip().endswith(prompt))


WAIT = {"name": "bash", "input": {"command": "until [ -e go ]; do sleep 0.1; done"}}
LOOK = {"name": "list_files", "input": {}}


def test_a_step_is_left_out_and_another_is_told_and_tried_again(ts: Ts) -> None:
    plan = {"goal": "g", "steps": [step("one"), step("two"), step("end", "one", "two")]}
    replies = [
        said("one", "never", LONG),
        said("two", "looks", calls=[WAIT]),
        said("two", "is done"),
        said("end", "all is said"),
    ]
    with running(ts, plan, replies) as screen:
        screen.sees("› ? lists what can be typed meanwhile")
        screen.types("?\r")
        screen.sees("/replan WORDS")
        screen.types("/skip nine\r")
        screen.sees("there is no step nine")
        screen.sees("bash until")  # before a step has begun there is no table of them
        screen.types("/st")
        screen.sees("› /st")
        screen.types("eps\r")
        screen.sees("TRIES")
        screen.types("@two be brief\r")
        screen.sees("› tell two: be brief")
        screen.types("/skip one\r")
        screen.sees("↻ one is left out — the user")
        ts.write("go", "")
        screen.sees("✓ end")
        assert screen.ended() == 1  # one step was left out
    assert "› tell two: be brief" in ts("show").out


def test_the_plan_is_changed_while_it_is_carried_out(ts: Ts) -> None:
    plan = {"goal": "g", "steps": [step("one"), step("two", "one")]}
    other = {"action": "replace", "because": "b", "steps": [step("three", "one")]}
    replies: list[Reply] = [
        said("one", "waits", calls=[WAIT]),
        said("one", "is done"),
        {"for": "revise", "calls": [{"name": "revise_plan", "input": other}]},
        said("three", "is done too"),
    ]
    with running(ts, plan, replies) as screen:
        screen.sees("two  waits for one")
        screen.types("/replan without two\r")
        screen.sees("↻ the plan is replaced — the user: without two")
        screen.types("/dag\r")
        screen.sees("three  needs one")
        ts.write("go", "")
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


STEPS = [{"id": id, "run": f"touch {id}.txt", "writes": [f"{id}.txt"]} for id in ("a", "b", "c")]
EDITOR = r"""#!/bin/sh
if [ -e edited ]; then sed -i -e 's/needs: nobody/writes: [d.txt]/' "$1"
else touch edited; sed -i -e 's/touch c/touch d/' -e 's/writes: .c.txt./needs: nobody/' "$1"; fi
"""


def test_a_plan_is_edited_before_it_begins_until_it_can_run(ts: Ts) -> None:
    ts.write("editor", EDITOR).chmod(0o700)
    ts.model = ts.script({**calling(call("submit_plan", goal="g", steps=STEPS)), "for": "chat"})
    with chatting(ts, "go", EDITOR=str(ts.cwd / "editor")) as screen:
        screen.sees("e: edit it")
        at_prompt(screen, "allow it?")
        screen.types("e\r")
        screen.sees("? plan.yaml:11: step 'c' needs 'nobody'")
        at_prompt(screen, "which?")
        screen.types("e\r")
        screen.sees("  │ #   change  d.txt")
        at_prompt(screen, "allow it?")
        screen.types("y\r")
        screen.asked()
        assert screen.leaves() == 0
    assert [(ts.cwd / f"{id}.txt").exists() for id in "abcd"] == [True, True, False, True]


def test_words_to_a_plan_bring_another_one(ts: Ts) -> None:
    first = {**calling(call("submit_plan", goal="g", steps=STEPS)), "for": "chat"}
    other = {**calling(call("submit_plan", goal="g", steps=STEPS[:2])), "for": "chat"}
    ts.model = ts.script(first, other)
    with chatting(ts, "go") as screen:
        screen.sees("│   - id: c")
        screen.sees("y: begin · n: no · other words: what should change")
        at_prompt(screen, "allow it?")
        screen.types("leave out the last\r")
        screen.sees("the user wants another plan: leave out the last")
        at_prompt(screen, "allow it?")
        screen.types("y\r")
        screen.asked()
        assert screen.leaves() == 0
    assert [(ts.cwd / f"{id}.txt").exists() for id in "abc"] == [True, True, False]


def test_a_chat_takes_lines_about_its_plan_at_once_and_others_afterwards(ts: Ts) -> None:
    steps = [step("one"), step("two"), step("end", "one", "two")]
    replies: list[Reply] = [
        {**calling(call("submit_plan", goal="g", steps=steps)), "for": "chat"},
        said("one", "is done", 2),
        said("two", "never", LONG),
        said("end", "is done too"),
        {"for": "chat", "text": "you are welcome"},
    ]
    ts.model = ts.script(*replies)
    with chatting(ts, "-y", "go", "--sandbox", "off") as screen:
        screen.sees("waits for one, two")
        for line in ("/rename my talk", "@notes.md thanks"):  # neither is about the run
            screen.types(f"{line}\r")
            screen.sees(f"› {line} (next)")
        screen.types("@tow be brief\r")
        screen.sees("there is no step tow; did you mean 'two'?")
        screen.types("/skip two\r")
        screen.sees("↻ two is left out — the user")
        screen.sees("you are welcome")
        screen.asked()
        screen.says("/dag", "↷ two", "✓ end")
        screen.says("/step one", "is done")
        screen.says("/skip two", "no plan is under way")
        assert screen.leaves() == 0

"""Whether a directory is trusted: asked once, remembered, asked again when it changes; and what one
yes to a plan allows."""

from functools import partial

from tests.e2e.screen import Screen, chatting
from tests.e2e.ts import Ts, call, calling

SKILL = "name: own\ndescription: x\nmatch: [do it]\nsteps: [{id: a, run: touch b.txt}]\n"


def trusts(ts: Ts) -> bool:
    told = ts.here("config", "--json").json
    return bool(told["trust"]["value"])


def test_r5_a_yes_is_remembered_until_something_changes_which_is_named(ts: Ts) -> None:
    ts.model = ts.script("hi", "ho")
    skill = ts.write(".agent/skills/own.yaml", SKILL)
    assert not trusts(ts)
    with chatting(ts) as screen:
        screen.sees("which?")
        screen.sees("skills: .agent/skills/own.yaml")
        screen.types("y\r")
        screen.asked()
        assert screen.leaves() == 0
    assert trusts(ts)
    assert ts.here("-p", "do it").code == 0
    assert (ts.cwd / "b.txt").exists()
    skill.write_text(SKILL.replace("b.txt", "c.txt"), encoding="utf-8")
    ran = ts.here("run", "own")
    assert (ran.code, (ts.cwd / "c.txt").exists()) == (5, False)
    assert ".agent/skills/own.yaml has changed" in ran.err
    with chatting(ts) as screen:
        screen.sees("It was, but .agent/skills/own.yaml has changed.")
        screen.types("d\r")
        screen.asked()
        assert screen.leaves() == 0
    with chatting(ts) as screen:  # not asked again
        screen.asked()
        assert "which?" not in screen.text
        assert screen.leaves() == 0
    assert not trusts(ts)
    assert ts.here("run", "own", "--trust").code == 0


def test_a_directory_without_anything_to_trust_is_not_asked_about(ts: Ts) -> None:
    ts.model = ts.script("hi")
    ts.write("a.py", "a = 1\n")
    with chatting(ts) as screen:
        screen.asked()
        assert "which?" not in screen.text
        assert screen.leaves() == 0


def open_question(screen: Screen, count: int) -> bool:
    """Whether so many steps have asked, and the last one waits for its answer."""
    row = screen.display.display[screen.display.cursor.y].rstrip()
    asked = screen.text.count("? step a wants to") + screen.text.count("? step b wants to")
    return row == "allow it?" and asked == count


def test_one_yes_to_a_plan_allows_the_commands_and_changes_it_names_and_no_others(ts: Ts) -> None:
    steps = [
        {"id": "a", "do": "write", "writes": ["out/*"], "verify": "touch out/checked"},
        {"id": "b", "run": "touch made.txt && git push", "writes": ["made.txt"]},
        {"id": "c", "run": "touch other.txt", "writes": ["other.txt"]},
    ]
    writes = [call("write_file", path=path, content="x\n") for path in ("out/a", "else.txt")]
    ts.model = ts.script(
        {**calling(call("submit_plan", goal="g", steps=steps)), "for": "chat"},
        {**calling(*writes), "for": "a"},
        {"for": "a", "text": "written"},
    )
    with chatting(ts, "go") as screen:
        screen.sees("allow it?")
        screen.sees("A yes allows, for this run:")
        for words in ("run     touch out/checked", "change  out/*", "Asked about all the same"):
            screen.sees(words)
        screen.types("y\r")
        for count in (1, 2):  # the file that was not named, and the push, in either order
            screen._until(partial(open_question, screen, count))
            screen.types("n\r")
        screen.asked()
        assert screen.leaves() == 0
    assert (ts.cwd / "out/a").exists()
    assert (ts.cwd / "out/checked").exists()
    assert (ts.cwd / "other.txt").exists()
    assert not (ts.cwd / "else.txt").exists()
    assert not (ts.cwd / "made.txt").exists()
    denied = [event for event in ts.log() if event.get("decision") == "deny"]
    assert {event["step"] for event in denied} == {"a", "b"}


def test_what_is_allowed_for_good_is_in_the_user_s_settings(ts: Ts) -> None:
    run = calling(call("bash", command="touch made.txt"))
    ts.model = ts.script(run, "done")
    with chatting(ts, "go") as screen:
        screen.sees("A: the same, and from now on, by your settings")
        screen.types("A\r")
        screen.sees("from now on")
        screen.asked()
        assert screen.leaves() == 0
    assert '"allow":["edit_file"]' in ts.here("config", "permissions").said
    (ts.cwd / "made.txt").unlink()
    assert ts.here("-p", "go", model=ts.script(run, "done")).code == 0
    assert (ts.cwd / "made.txt").exists()

"""Any plan is read, checked and written without a surprise."""

import json
import re
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agent.engine.speech import drafted
from agent.errors import PlanError
from agent.event import PlanCreated, decode, encode
from agent.plan import (
    Plan,
    Step,
    bound,
    checked,
    convert,
    copies,
    expanded,
    faults,
    filled,
    items,
    split,
    told,
)
from tests.property.runs import plans

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from([*Step.__struct_fields__, "neds", "depends_on", ""])
NAMES = st.text(st.sampled_from("ab_1"), min_size=1, max_size=3)
TEXTS = st.text(st.sampled_from("$ab_1{} -é的"), max_size=20)


@given(plan=plans(most=4))
def test_a_plan_reads_back_as_itself(plan: Plan) -> None:
    assert convert(msgspec.to_builtins(plan)) == plan
    assert convert(json.loads(msgspec.json.encode(plan))) == plan
    event = PlanCreated(plan=plan, source="file")
    assert decode(encode(event)) == event
    assert list(faults(plan)) == []


@given(steps=st.lists(st.dictionaries(KEYS, JSON, max_size=6) | JSON, max_size=5) | JSON)
def test_r106_whatever_a_model_writes_is_a_plan_or_refused_with_reasons(steps: Any) -> None:
    found: tuple[str, ...] = ()
    try:
        plan = drafted("goal", steps)
    except PlanError as error:
        plan, found = Plan(), error.faults
    assert found or checked(plan) == plan
    assert all(fault.strip() and len(fault) < 2000 for fault in found)


@given(plan=plans(most=4), data=st.data())
def test_a_planted_fault_is_found_and_names_its_step(plan: Plan, data: st.DataObject) -> None:
    steps = list(plan.steps)
    at = data.draw(st.integers(0, len(steps) - 1))
    step = steps[at]
    other = data.draw(st.sampled_from(steps))
    planted: dict[str, tuple[Step, str]] = {
        "itself": (structs.replace(step, needs=(step.id,)), "needs itself"),
        "unknown": (structs.replace(step, needs=("nowhere",)), "needs 'nowhere', which is no step"),
        "kinds": (structs.replace(step, do="x", run="x"), "needs exactly one of"),
        "path": (structs.replace(step, writes=("../x",)), "writes '../x', which is outside"),
        "when": (structs.replace(step, when="nowhere.done"), "asks in `when` for 'nowhere'"),
        "words": (structs.replace(step, when="done"), "`when` that can't be read"),
        "foreach": (structs.replace(step, foreach="x"), "write ID.lines or ID.items"),
        "tries": (structs.replace(step, attempts=0), "`attempts` 0; it must be more than 0"),
    }
    wrong, words = planted[data.draw(st.sampled_from([*planted]))]
    steps[at] = wrong
    found = list(faults(Plan(steps=tuple(steps))))
    assert any(words in fault and repr(step.id) in fault for fault in found), found
    twice = list(faults(Plan(steps=(*plan.steps, structs.replace(other, needs=())))))
    assert f"2 steps have the id {other.id!r}; give each its own" in twice


@given(plan=plans(most=4), data=st.data())
def test_a_need_that_closes_a_circle_is_found(plan: Plan, data: st.DataObject) -> None:
    step = data.draw(st.sampled_from(plan.steps))
    behind = [one.id for one in plan.steps if step.id in one.after and one.id != step.id]
    if not behind:
        return
    closing = structs.replace(step, needs=(*step.needs, data.draw(st.sampled_from(behind))))
    steps = tuple(closing if one.id == step.id else one for one in plan.steps)
    found = [fault for fault in faults(Plan(steps=steps)) if "wait for each other" in fault]
    circles = [fault.partition(": ")[2].split(" → ") for fault in found]
    assert any(step.id in circle for circle in circles)
    for circle in circles:
        assert circle[0] == circle[-1]
        assert len(circle) > 2


@given(text=TEXTS, values=st.dictionaries(NAMES, TEXTS))
def test_variables_are_replaced_once_wherever_they_are_known(
    text: str, values: dict[str, str]
) -> None:
    marks = {name: f"<{n}>" for n, name in enumerate(values)}
    meant = {mark: values[name] for name, mark in marks.items()}
    pieces = re.split(r"(<\d+>)", filled(text, marks))
    assert filled(text, values) == "".join(meant.get(piece, piece) for piece in pieces)
    assert filled(text, {}) == text


@given(words=st.lists(st.text(max_size=6).filter(lambda word: '"' not in word), max_size=4))
def test_quoted_words_are_split_as_they_were_joined(words: list[str]) -> None:
    line = " ".join(f'"{word}"' for word in words)
    assert split(line) == words
    skill = Plan(arguments=("a", "[b]"))
    values = bound(skill, split(line), line)
    assert [values[str(n)] for n in range(1, len(words) + 1)] == words
    assert values["a"] == (words[0] if words else "")
    assert values["ARGUMENTS"] == line.strip()


@given(text=st.text(st.sampled_from("ab \n\r\t\u2028\x0b"), max_size=30))
def test_lines_lose_only_what_is_blank(text: str) -> None:
    found = items(Step(id="e", do="x", foreach="a.lines"), text)
    assert all(line.strip() and "\n" not in line for line in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@given(plan=plans(most=4), over=st.lists(TEXTS, max_size=3), depth=st.integers(0, 2))
def test_copies_and_parts_of_any_plan_make_a_plan_that_can_run(
    plan: Plan, over: list[str], depth: int
) -> None:
    """A skill made of any plan, in a skill, for each of any items."""
    skills = {"s0": plan}
    for level in range(1, depth + 1):
        inner = Step(id="in", skill=f"s{level - 1} $item", foreach="l.lines" if level > 1 else None)
        skills[f"s{level}"] = Plan(steps=(Step(id="l", run="ls"), inner))
    outer = Plan(
        steps=(Step(id="l", run="ls"), Step(id="g", skill=f"s{depth} a", foreach="l.lines"))
    )
    made = checked(expanded(outer, skills.__getitem__))
    group, *pattern = made.steps[1:]
    copied = tuple(copies(group, pattern, over))
    assert len(copied) == len(over) * len(made.steps[1:])
    ids = {step.id for step in copied}
    assert len(ids) == len(copied)
    for step in copied:
        assert {*step.needs, *step.asks} <= ids
        assert step.part_of in ids | {"g"}
    assert told(group, {"item": "x"}).given["item"] == "x"

import json
import os
import time
from pathlib import Path

import pytest

from agent.errors import PlanError, UsageError
from agent.plan import Permissions, Plan, Shape, Step
from agent.store.planfile import dump, load, parsed


def read(text: str | bytes, tmp_path: Path, name: str = "p.yaml") -> Plan:
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / name).write_bytes(data)
    return load(tmp_path / name)


def faults(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        parsed(text.encode(), "p.yaml")
    error = caught.value
    return list(error.faults) if isinstance(error, PlanError) else [str(error)]


def test_a_scalar_is_text_until_a_type_says_otherwise(tmp_path: Path) -> None:
    text = "goal: no\nsteps:\n  - {id: 1, run: yes, attempts: 3, timeout: 1.5, cache: true}\n"
    assert read(text, tmp_path) == Plan(
        goal="no", steps=(Step(id="1", run="yes", attempts=3, timeout=1.5, cache=True),)
    )


def test_the_contract_s_forms_are_read(tmp_path: Path) -> None:
    plan = read(
        """\
name: fix_tests
description: Run the test suite and fix what fails.
arguments: [path]
match: [fix the failing tests]
steps:
  - id: suite
    run: pytest -q --tb=short $path
    allow_failure: true
    needs: null
  - id: fix
    do: |
      Find the cause of each failure
      and mend the code.
    needs: suite
    reads: [src/**]
    writes: []
    permissions: {deny: ["bash(rm *)"]}
    result: {schema: {type: object, required: [n], properties: {n: {minimum: 3, const: no}}}}
    when: suite.failed
""",
        tmp_path,
    )
    assert plan.name == "fix-tests"
    suite, fix = plan.steps
    assert suite == Step(id="suite", run="pytest -q --tb=short $path", allow_failure=True)
    assert fix.do == "Find the cause of each failure\nand mend the code.\n"
    assert (fix.needs, fix.reads, fix.writes) == (("suite",), ("src/**",), ())
    assert fix.permissions == Permissions(deny=("bash(rm *)",))
    assert fix.result == Shape(
        schema={
            "type": "object",
            "required": ["n"],
            "properties": {"n": {"minimum": 3, "const": "no"}},
        }
    )


def test_a_list_of_texts_is_a_chain(tmp_path: Path) -> None:
    plan = read("steps:\n  - Look around.\n  - Act.\n", tmp_path)
    assert plan.steps == (
        Step(id="1", do="Look around."),
        Step(id="2", do="Act.", needs=("1",)),
    )


def test_a_byte_order_mark_and_crlf_change_nothing(tmp_path: Path) -> None:
    text = "goal: g\nsteps:\n  - id: a\n    do: |\n      one\n      two\n"
    assert read("\ufeff" + text.replace("\n", "\r\n"), tmp_path) == read(text, tmp_path)
    json = '{"steps": [{"id": "a", "do": "\\ud83d\\ude00"}]}'
    assert read("\ufeff" + json, tmp_path) == read(json, tmp_path)


def test_c070_ids_and_needs_may_be_numbers_texts_and_dotted(tmp_path: Path) -> None:
    steps = [
        {"id": 1, "do": "x"},
        {"id": 2, "do": "y", "needs": ["1"]},
        {"id": "3", "do": "z", "needs": [2]},
        {"id": "2.1", "do": "w", "needs": None},
        {"id": "4", "do": "v", "needs": "3"},
    ]
    plan = read(json.dumps({"steps": steps}), tmp_path, "p.json")
    assert [(step.id, step.needs) for step in plan.steps] == [
        ("1", ()),
        ("2", ("1",)),
        ("3", ("2",)),
        ("2.1", ()),
        ("4", ("3",)),
    ]
    assert read(dump(plan), tmp_path) == plan


def test_json_is_read_whatever_its_escapes_and_white_space(tmp_path: Path) -> None:
    text = (
        '{\n\t"goal":"a\\/b \\ud83d\\ude00 \\u2028",\r\n\t"steps": [\n\t\t{"id":1,"do":"x\\ty"}]}'
    )
    assert read(text, tmp_path, "p.json") == Plan(
        goal="a/b 😀 \u2028", steps=(Step(id="1", do="x\ty"),)
    )


def test_a_fault_in_json_names_its_line_too() -> None:
    text = '{\n\t"steps": [\n\t\t{"id": "\\ud83d\\ude00",\n\t\t "do": "x"}\n\t]\n}'
    assert "p.yaml:3: step '😀' has an id" in faults(text)[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("goal: g\nsteps:\n  - id: a\n    neds: []\n    do: x\n", "4: `neds` is not known here; "),
        ("goal: g\nstep: []\n", "2: `step` is not known here; did you mean `steps`?"),
        ("steps:\n  - id: a\n    do: x\n    attempts: many\n", "4: attempts: 'many' is no whole"),
        ("steps:\n  - id: a\n    do: x\n    cache: yes\n", "4: cache: 'yes' is no truth value"),
        ("steps:\n  - id: a\n    do: x\n    permissions:\n      alow: []\n", "5: `alow` is not"),
        ("steps:\n  - id: a\n    do: x\n  - do: y\n", "4: `id` is missing here"),
        ("steps:\n  - id: a\n    do: x\n  -\n    - b\n", "5: steps[1]: this is no mapping"),
        ("goal: g\nsteps: look\n", "2: steps: 'look' is no list"),
        ("- a\n", "1: a plan is a mapping with the key `steps`"),
        ("", "1: a plan is a mapping with the key `steps`"),
        ("goal: g\n", "1: a plan needs at least one step"),
        ("goal: g\nsteps: []\n", "2: a plan needs at least one step"),
        ("goal: a\ngoal: b\n", "2: the key `goal` stands here a second time"),
        ("goal: a: b\n", "1: mapping values are not allowed"),
        ("goal: g\nsteps: [\n", "3: "),
        ("goal: g\nsteps: \x01\n", "2: the character U+0001 can't stand there"),
        ("goal: a\n---\ngoal: b\n", "2: a second document begins here"),
        ("goal: !!str a\n", "1: tags (`!…`) are not used here"),
        ("goal: g\nsteps: !!python/object/apply:os.system [true]\n", "2: tags"),
        ("? [a]\n: b\n", "1: a key has to be a word"),
        ("goal: *nothing\n", "1: *nothing stands for nothing above it"),
        ("steps: &a [*a]\n", "1: *a stands for nothing above it"),
    ],
)
def test_a_fault_names_its_line(text: str, told: str) -> None:
    assert faults(text)[0].startswith(f"p.yaml:{told}")


def test_every_fault_is_told_at_once_with_the_line_of_what_is_wrong() -> None:
    text = """\
goal: g
steps:
  - id: a
    do: x
    needs: [bb]
  - id: b
    run: x
    when: a.faild
  - id: a
    do: x
    writes: [/etc]
  - id: c
  - id: d
    run: x
    attempts: 0
    neds: [a]
"""
    told = [fault.partition(": ")[::2] for fault in faults(text)]
    assert [(place, why[:32]) for place, why in told] == [
        ("p.yaml:16", "`neds` is not known here; did yo"),
        ("p.yaml:9", "2 steps have the id 'a'; give ea"),
        ("p.yaml:5", "step 'a' needs 'bb', which is no"),
        ("p.yaml:8", "step 'b' has a `when` that can't"),
        ("p.yaml:11", "step 'a' writes '/etc', which is"),
        ("p.yaml:12", "step 'c' has nothing to do; it n"),
        ("p.yaml:15", "step 'd' has `attempts` 0; it mu"),
    ]


def test_c073_a_cycle_and_a_step_that_needs_itself_are_named() -> None:
    text = "steps:\n" + "".join(
        f"  - id: {id}\n    do: x\n    needs: [{need}]\n" for id, need in ("ac", "ba", "cb", "dd")
    )
    told = faults(text)
    assert told[0] == "p.yaml:13: step 'd' needs itself"
    assert "steps wait for each other: " in told[1]
    cycle = told[1].rpartition(": ")[2].split(" → ")
    assert set(cycle) == {"a", "b", "c"}
    place = {"a": 2, "b": 5, "c": 8}[cycle[0]]
    assert told[1].startswith(f"p.yaml:{place}:")


def test_c074_two_steps_with_one_id_are_refused() -> None:
    text = "steps:\n  - {id: s1, do: make api}\n  - {id: s1, do: make cli}\n"
    assert faults(text) == ["p.yaml:3: 2 steps have the id 's1'; give each its own"]


def test_an_alias_stands_for_what_it_names(tmp_path: Path) -> None:
    text = "steps:\n  - {id: a, do: &d look, reads: &r [x]}\n  - {id: b, do: *d, reads: *r}\n"
    plan = read(text, tmp_path)
    assert plan.steps[1] == Step(id="b", do="look", reads=("x",))


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "[" * 900_000,
        "{a: " * 200_000,
        "- " * 400_000,
        "steps: [" + "a," * 490_000 + "]",
        "steps:\n" + "- a\n" * 240_000,
        "".join(f"k{number}: 1\n" for number in range(50_000)),
        "a: " + "[" * 200 + "]" * 200,
        '{"steps": ' + "[" * 400_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
    ids=["bomb", "[", "{", "-", "wide", "long", "keys", "deep", "json", "deep json"],
)
def test_r108_what_would_use_up_the_machine_is_refused_at_once(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(UsageError):
        parsed(text.encode(), "p.yaml")
    assert time.process_time() - begin < 3, "a bound of 1 s on a machine that is not shared"


def test_r108_a_file_of_more_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="larger than 1,000,000 bytes"):
        read("steps: [look]\n" + "# words\n" * 200_000, tmp_path)


def test_r108_deep_nesting_is_refused_where_it_begins() -> None:
    text = "goal: g\nsteps: " + "[" * 200 + "]" * 200
    assert faults(text) == ["p.yaml:2: this is nested more than 40 deep"]


def test_of_many_unknown_keys_the_first_are_named() -> None:
    assert len(faults("".join(f"k{number}: 1\n" for number in range(100)))) == 21


@pytest.mark.parametrize("name", ["missing.yaml", ".", "pipe"])
def test_what_is_no_file_is_told_with_its_path(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError) as caught:
        load(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_bytes_that_are_no_utf_8_are_told_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"p\.yaml:2: this is not UTF-8"):
        read(b"goal: a\nsteps: \xff\xfe\n", tmp_path)


def test_a_plan_is_written_as_people_write_it() -> None:
    plan = Plan(
        name="fix",
        goal="mend it",
        steps=(
            Step(id="1", run="pytest -q\nruff check", timeout=9.5),
            Step(id="b", do="yes", needs=("1",), writes=(), reads=("src/**", "*.md")),
            Step(id="c", run="a && b  # " + "x" * 200, needs=("1", "b")),
        ),
    )
    assert (
        dump(plan)
        == f"""\
name: fix
goal: mend it
steps:
  - id: "1"
    run: |-
      pytest -q
      ruff check
    timeout: 9.5
  - id: b
    do: 'yes'
    needs: ["1"]
    reads: [src/**, '*.md']
    writes: []
  - id: c
    run: 'a && b  # {"x" * 200}'
    needs: ["1", b]
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "~",
        "",
        "3",
        "1e3",
        "0x1f",
        "true",
        "no",
        "2026-11-30",
        "12:30",
        " a",
        "a ",
        "a\n",
        "a\n\n",
        "\n\na",
        " a\n  b\n",
        "a \nb",
        "\ta\n\tb",
        "a\r\nb",
        "a\x85b\u2028c",
        "\ufeffa",
        "# a",
        "a: b",
        "- a",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a`",
        "---\n...\n",
        "a\x00\x1b[0m\x7f",
        "…→😀",
    ],
)
def test_any_text_is_written_and_read_back(text: str, tmp_path: Path) -> None:
    plan = Plan(
        goal=text,
        steps=(Step(id="a", do="x" + text, result=Shape(schema={"const": text, "enum": [text]})),),
    )
    assert read(dump(plan), tmp_path) == plan


def test_schemas_keep_their_numbers_and_truth_values(tmp_path: Path) -> None:
    schema = {"a": 1, "b": 1.5, "c": True, "d": None, "e": ["1", "true", 1e300, -2, 1e-7]}
    plan = Plan(steps=(Step(id="a", do="x", result=Shape(schema=schema)),))
    assert read(dump(plan), tmp_path) == plan


def test_a_plan_with_several_thousand_steps_is_read(tmp_path: Path) -> None:
    steps = "".join(f"  - {{id: s{number}, run: 'true'}}\n" for number in range(2000))
    assert len(read("steps:\n" + steps, tmp_path).steps) == 2000

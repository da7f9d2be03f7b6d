import time
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from agent.errors import PlanError, UsageError
from agent.plan import (
    Permissions,
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
    with_arguments,
)
from tests.plans import plan


def of(*steps: dict[str, Any], **more: Any) -> Plan:
    return convert({"steps": list(steps), **more})


def wrong(*steps: dict[str, Any], **more: Any) -> list[str]:
    return list(faults(of(*steps, **more)))


# -- reading -----------------------------------------------------------------------------------


def test_c070_ids_and_needs_may_be_numbers_texts_null_or_one_id() -> None:
    read = checked(
        of(
            {"id": 1, "do": "x"},
            {"id": 2, "do": "y", "needs": ["1"]},
            {"id": "3", "do": "z", "needs": [2]},
            {"id": "2.1", "do": "w", "needs": None},
            {"id": "4", "do": "v", "needs": "3"},
        )
    )
    assert {step.id: step.needs for step in read.steps} == {
        "1": (),
        "2": ("1",),
        "3": ("2",),
        "2.1": (),
        "4": ("3",),
    }


def test_a_list_of_texts_is_a_chain() -> None:
    read = checked(convert({"steps": ["look", "mend", "check"]}))
    assert [(step.id, step.do, step.needs) for step in read.steps] == [
        ("1", "look", ()),
        ("2", "mend", ("1",)),
        ("3", "check", ("2",)),
    ]


def test_a_name_s_underscore_is_read_as_a_dash() -> None:
    assert convert({"name": "fix_tests", "steps": ["x"]}).name == "fix-tests"


def test_numbers_may_come_as_text_and_are_numbers() -> None:
    (step,) = of({"id": "a", "do": "x", "attempts": "3", "timeout": "1.5", "cache": "true"}).steps
    assert (step.attempts, step.timeout, step.cache) == (3, 1.5, True)


def test_one_path_is_a_list_of_one_and_an_empty_one_says_nothing_is_written() -> None:
    (step,) = of({"id": "a", "do": "x", "reads": "src/**", "writes": []}).steps
    assert (step.reads, step.writes) == (("src/**",), ())


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"steps": {"id": "a"}}, "$.steps"),
        ({"steps": [3]}, "$.steps[0]"),
        ({"steps": ["x", {"id": "a", "do": ["y"]}]}, "$.steps[1].do"),
        ({"steps": [{"do": "no id"}]}, "$.steps[0]"),
        ({"steps": [{"id": True, "do": "x"}]}, "$.steps[0].id"),
        ({"steps": [{"id": "a", "do": "x", "needs": {"b": 1}}]}, "$.steps[0].needs"),
        ({"steps": [{"id": "a", "do": "x", "attempts": "many"}]}, "$.steps[0].attempts"),
        ({"steps": [{"id": "a", "do": "x", "neds": ["b"]}]}, "$.steps[0]"),
        ("do it", ""),
        (None, ""),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(data: Any, place: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        convert(data)
    assert place in str(error.value)


def test_how_often_a_step_is_tried_depends_on_its_kind() -> None:
    agent, command, often = of(
        {"id": "a", "do": "x"}, {"id": "b", "run": "x"}, {"id": "c", "run": "x", "attempts": 4}
    ).steps
    assert (agent.tries, command.tries, often.tries) == (2, 1, 4)


# -- faults ------------------------------------------------------------------------------------


def test_c073_r106_a_cycle_and_a_step_that_needs_itself_are_both_named() -> None:
    found = wrong(
        {"id": "a", "do": "x", "needs": ["c"]},
        {"id": "b", "do": "y", "needs": ["a"]},
        {"id": "c", "do": "z", "needs": ["b"]},
        {"id": "d", "do": "w", "needs": ["d"]},
    )
    assert found[0] == "step 'd' needs itself"
    (cycle,) = found[1:]
    words = cycle.removeprefix("steps wait for each other: ").split(" → ")
    assert len(words) == 4
    assert words[0] == words[3]
    needs = {"a": "c", "b": "a", "c": "b"}
    assert all(needs[one] == other for one, other in pairwise(words))


def test_every_cycle_is_told() -> None:
    found = wrong(
        {"id": "a", "do": "x", "needs": ["b"]},
        {"id": "b", "do": "x", "needs": ["a"]},
        {"id": "c", "do": "x", "when": "d.failed"},
        {"id": "d", "do": "x", "foreach": "c.lines"},
    )
    assert sorted({*line.partition(": ")[2].split(" → ")} == {"a", "b"} for line in found) == [
        False,
        True,
    ]


def test_c074_two_steps_with_one_id_are_refused() -> None:
    found = wrong(
        {"id": "s1", "do": "make api"},
        {"id": "s1", "do": "make cli"},
        {"id": "s2", "do": "docs", "needs": ["s1"]},
    )
    assert found == ["2 steps have the id 's1'; give each its own"]


def test_r106_all_faults_are_told_at_once() -> None:
    found = wrong(
        {"id": "api", "do": "x", "run": "y"},
        {"id": "cli", "needs": ["apy"]},
        {"id": "a b", "do": "  "},
        {"id": "docs", "do": "x", "writes": ["../other/**"], "outputs": ["/tmp/x"]},
        {"id": "tests", "run": "x", "reads": ["~/x"], "attempts": 0, "timeout": -1},
        {"id": "x-1", "do": "x", "when": "api.failed maybe", "foreach": "api"},
        {"id": "x_1", "do": "x", "when": "appi.failed", "foreach": "dock.lines"},
        name="Fix It",
    )
    assert found == [
        "the name 'Fix It' is not made of a-z, 0-9 and `-`",
        "the ids 'x-1' and 'x_1' give one variable TS_STEP_X_1",
        "step 'api' has `do` and `run`; it needs exactly one of `do`, `run` and `skill`",
        "step 'cli' has nothing to do; it needs exactly one of `do`, `run` and `skill`",
        "step 'cli' needs 'apy', which is no step; did you mean 'api'?",
        "step 'a b' has an id that is not made of A-Z, a-z, 0-9, `_`, `.` and `-`",
        "step 'a b' has an empty `do`",
        "step 'docs' writes '../other/**', which is outside the working directory",
        "step 'docs' outputs '/tmp/x', which is outside the shared workspace",
        "step 'tests' reads '~/x', which is outside the working directory",
        "step 'tests' has `attempts` 0; it must be more than 0",
        "step 'tests' has `timeout` -1.0; it must be more than 0",
        "step 'x-1' has `foreach` 'api'; write ID.lines or ID.items",
        "step 'x-1' has a `when` that can't be read: 'maybe' is not expected there; "
        "join conditions by `and` or `or`",
        "step 'x_1' goes over 'dock' in `foreach`, which is no step; did you mean 'docs'?",
        "step 'x_1' asks in `when` for 'appi', which is no step; did you mean 'api'?",
    ]


def test_a_plan_without_steps_is_refused_as_an_error_that_holds_every_fault() -> None:
    with pytest.raises(PlanError) as error:
        checked(Plan(name="A"), "skill a")
    assert error.value.faults == (
        "the name 'A' is not made of a-z, 0-9 and `-`",
        "a plan needs at least one step",
    )
    assert str(error.value).startswith("skill a: the name")
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ({"timeout": "inf"}, "has `timeout` inf; 31536000 seconds are the most"),
        ({"timeout": "nan"}, "has `timeout` nan; it must be more than 0"),
        ({"max_cost_usd": -1}, "has `max_cost_usd` -1.0; it must be more than 0"),
        ({"max_turns": 0}, "has `max_turns` 0; it must be more than 0"),
        ({"writes": ["a/../../b"]}, "writes 'a/../../b', which is outside the working directory"),
        ({"reads": [" "]}, "reads ' ', which is outside the working directory"),
        ({"when": "a.failed"}, "asks in `when` how it ended itself"),
        ({"foreach": "a.lines"}, "goes over itself in `foreach`"),
        (
            {"permissions": {"allow": ["bash(git *"]}},
            "has a permission that can't be read: 'bash(git *' is no permission rule",
        ),
    ],
)
def test_a_value_that_can_t_be_kept_is_refused(step: dict[str, Any], fault: str) -> None:
    assert wrong({"id": "a", "do": "x", **step}) == [f"step 'a' {fault}"]


def test_a_skill_step_has_no_check_that_would_be_passed_over() -> None:
    (fault,) = wrong({"id": "a", "skill": "review", "verify": "true"})
    assert (
        fault == "step 'a' is a skill, which has no `verify`; give it to a step that needs this one"
    )


def test_a_step_is_part_of_a_group_or_of_none() -> None:
    found = wrong({"id": "a", "do": "x"}, {"id": "b", "do": "x", "part_of": "a"})
    assert found == ["step 'b' is part of 'a', which is no skill and no foreach"]


def test_an_id_that_a_copy_will_have_is_refused() -> None:
    found = wrong(
        {"id": "list", "run": "ls"},
        {"id": "each", "do": "x", "foreach": "list.lines"},
        {"id": "each.2", "do": "y"},
        {"id": "each.two", "do": "z"},
    )
    assert found == ["the id 'each.2' is that of a copy of 'each'; choose another"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["a b"], "the argument 'a b' is not made of letters, digits and `_`"),
        (["1st"], "the argument '1st' is not made of letters, digits and `_`"),
        (["PATH"], "the argument 'PATH' has a name that means something else to a command"),
        (["LD_PRELOAD"], "the argument 'LD_PRELOAD' has a name that means something else"),
        (["a-b", "[a_b]"], "2 arguments have the name 'a_b'"),
    ],
)
def test_arguments_are_names_that_no_command_depends_on(arguments: list[str], fault: str) -> None:
    (found,) = wrong({"id": "a", "do": "x"}, arguments=arguments)
    assert found.startswith(fault)


def test_r106_ten_thousand_wrong_steps_are_refused_soon_and_in_a_hundred_lines() -> None:
    many = [
        Step(id=f"s{n}", do="x", needs=(f"t{n}", f"s{(n + 1) % 10_000}")) for n in range(10_000)
    ]
    began = time.process_time()
    found = list(faults(Plan(steps=tuple(many))))
    assert time.process_time() - began < 2, "it takes half a second"
    assert len(found) == 101
    assert found[-1].startswith("and 9")


def test_a_long_cycle_is_told_in_a_line_that_can_be_read() -> None:
    many = [Step(id=f"s{n}", do="x", needs=(f"s{(n + 1) % 10_000}",)) for n in range(10_000)]
    (found,) = faults(Plan(steps=tuple(many)))
    assert found.startswith("steps wait for each other: s")
    assert len(found) < 500


def test_r106_more_steps_than_a_run_can_hold_are_refused_at_once() -> None:
    many = tuple(Step(id=f"s{n}", do="x") for n in range(10_001))
    assert list(faults(Plan(steps=many))) == ["10001 steps are more than 10000"]


# -- one agent or a plan -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "plain"),
    [
        ([{"id": "a", "do": "x"}], True),
        ([{"id": "a", "do": "x"}, {"id": "b", "do": "y", "needs": ["a"]}], True),
        ([{"id": "a", "do": "x", "reads": ["s"], "writes": []}], True),
        ([{"id": "a", "do": "x"}, {"id": "b", "do": "y"}], False),  # two at once
        ([{"id": "a", "do": "x", "verify": "true"}], False),
        ([{"id": "a", "run": "x"}], False),
        ([{"id": "a", "skill": "x"}], False),
        (["a", "b", "c"], False),
        (["a", "b"], True),
    ],
)
def test_a_plan_is_plain_if_one_agent_does_it_as_well(steps: Any, plain: bool) -> None:
    assert convert({"steps": steps}).plain is plain


# -- variables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("look at $path and $path", "look at src and src"),
        ("${path}s, $paths, $$path", "srcs, $paths, $src"),
        ("$1 $2 $10 ${1}0", "src $2 $10 src0"),
        ("$ARGUMENTS!", "src $item!"),  # what was put there is not looked at again
        ("审查$path的代码", "审查src的代码"),
        ("${no} $no costs $5", "${no} $no costs $5"),
        ("${file-name} $file_name", "n n"),
    ],
)
def test_variables_are_replaced_once_and_unknown_ones_stay(text: str, expected: str) -> None:
    values = {"path": "src", "1": "src", "ARGUMENTS": "src $item", "item": "no", "file_name": "n"}
    assert filled(text, values) == expected


def test_arguments_are_bound_by_name_by_number_and_as_a_line() -> None:
    skill = of({"id": "a", "do": "x"}, arguments=["path", "[file-name]"])
    assert bound(skill, ["src", "it's $5"], "src  it's $5 ") == {
        "1": "src",
        "2": "it's $5",
        "path": "src",
        "file_name": "it's $5",
        "ARGUMENTS": "src  it's $5",
    }
    assert bound(skill, []) == {"path": "", "file_name": "", "ARGUMENTS": ""}


def test_a_line_is_split_at_blanks_with_double_quotes_and_nothing_else_special() -> None:
    assert split("""a "b c" it's $x "" d"e""") == ["a", "b c", "it's", "$x", "", 'd"e']


def test_a_skill_with_its_arguments_is_a_plan_that_knows_them() -> None:
    skill = of(
        {
            "id": "a",
            "do": "mend $path",
            "run": None,
            "reads": ["$path/**"],
            "writes": ["$path"],
            "exclusive": ["lock-$path"],
        },
        name="mend",
        arguments=["path"],
    )
    made = with_arguments(skill, ["src"])
    (step,) = made.steps
    assert made.goal == "mend src"
    assert step.do == "mend $path", "text is filled in when the step is told"
    assert (step.reads, step.writes, step.exclusive) == (("src/**",), ("src",), ("lock-src",))
    assert step.given == {"1": "src", "path": "src", "ARGUMENTS": "src"}


def test_an_argument_left_out_of_a_path_means_anywhere() -> None:
    skill = of(
        {"id": "a", "do": "x", "reads": ["$path/**"], "writes": ["$path"]}, arguments=["path"]
    )
    (step,) = checked(with_arguments(skill, [])).steps
    assert (step.reads, step.writes) == (("**",), ("**",))


def test_an_argument_can_t_lead_a_path_out_of_the_working_directory() -> None:
    skill = of({"id": "a", "do": "x", "writes": ["$path/**"]}, arguments=["path"])
    assert list(faults(with_arguments(skill, [".."]))) == [
        "step 'a' writes '../**', which is outside the working directory"
    ]


# -- skills in plans ---------------------------------------------------------------------------


REVIEW = convert(
    {
        "name": "code-review",
        "arguments": ["path"],
        "steps": [
            {"id": "look", "run": "ls $path", "writes": [], "allow_failure": True},
            {"id": "say", "do": "Review $path", "needs": ["look"], "model": "small"},
            {"id": "list", "do": "x", "when": "not look.failed and (say.done or look.skipped)"},
            {"id": "each", "do": "$item in $path", "foreach": "look.lines"},
        ],
    }
)


def review(name: str) -> Plan:
    if name == "code-review":
        return REVIEW
    raise UsageError(f"there is no skill {name}")


def test_a_skill_s_steps_stand_behind_its_step_as_its_parts() -> None:
    made = checked(
        expanded(
            of({"id": "r", "skill": "code_review  'src dir' x"}, {"id": "z", "do": "z"}), review
        )
    )
    assert [
        (step.id, step.part_of, step.needs, step.when, step.foreach) for step in made.steps
    ] == [
        ("r", "", (), None, None),
        ("r.look", "r", (), None, None),
        ("r.say", "r", ("r.look",), None, None),
        ("r.list", "r", (), "not r.look.failed and (r.say.done or r.look.skipped)", None),
        ("r.each", "r", (), None, "r.look.lines"),
        ("z", "", (), None, None),
    ]
    assert made.steps[1].given["path"] == "'src"
    assert made.steps[1].given["ARGUMENTS"] == "'src dir' x"
    assert expanded(made, review) == made, "what has its parts is left alone"


def test_a_skill_step_s_words_are_filled_with_what_its_own_plan_was_given() -> None:
    outer = of({"id": "r", "skill": "code-review $1"}, name="outer")
    made = expanded(with_arguments(outer, ["a b"]), review)
    assert made.steps[1].given["path"] == "a"
    quoted = of({"id": "r", "skill": 'code-review "$1"'}, name="outer")
    assert expanded(with_arguments(quoted, ["a b"]), review).steps[1].given["path"] == "a b"


def test_what_a_skill_step_says_of_itself_holds_for_its_parts() -> None:
    group = {
        "id": "r",
        "skill": "code-review",
        "tools": ["read_file", "bash"],
        "permissions": {"deny": ["bash(rm *)"]},
        "exclusive": ["port"],
        "writes": ["docs/**"],
        "model": "main",
        "timeout": 9,
    }
    made = checked(expanded(of(group), review))
    look, say = made.steps[1], made.steps[2]
    assert say.tools == ("read_file", "bash")
    assert say.within == (Permissions(deny=("bash(rm *)",)),)
    assert say.exclusive == ("port",)
    assert (say.writes, look.writes) == (("docs/**",), ())
    assert (say.model, look.model) == ("small", "main")
    assert say.timeout == 9


def test_tools_of_a_part_only_get_fewer() -> None:
    inner = of({"id": "a", "do": "x", "tools": ["read_file", "edit_file"]})
    made = expanded(of({"id": "r", "skill": "s", "tools": ["read_file", "bash"]}), lambda _: inner)
    assert made.steps[1].tools == ("read_file",)


def test_an_unknown_skill_is_told_as_find_tells_it() -> None:
    with pytest.raises(UsageError, match="there is no skill cod-review"):
        expanded(of({"id": "a", "skill": "cod-review"}), review)


def test_a_wrong_skill_is_named() -> None:
    with pytest.raises(PlanError, match="skill s: step 'a' needs 'b', which is no step"):
        expanded(
            of({"id": "a", "skill": "s"}), lambda _: of({"id": "a", "do": "x", "needs": ["b"]})
        )


def test_a_skill_that_holds_itself_many_times_over_is_refused_at_once() -> None:
    skills = {
        "a": of(*({"id": f"x{n}", "skill": "b"} for n in range(20)), name="a"),
        "b": of(*({"id": f"x{n}", "skill": "a"} for n in range(20)), name="b"),
    }
    with pytest.raises(PlanError, match="a skill holds itself: a → b → a"):
        expanded(of({"id": "s", "skill": "a"}), skills.__getitem__)


def test_skills_that_multiply_are_bounded() -> None:
    def find(name: str) -> Plan:
        level = int(name)
        if level == 9:
            return of({"id": "end", "do": "x"})
        return of(*({"id": f"x{n}", "skill": str(level + 1)} for n in range(30)))

    began = time.process_time()
    with pytest.raises(PlanError, match="more than 10000 steps"):
        expanded(of({"id": "s", "skill": "1"}), find)
    assert time.process_time() - began < 5


# -- copies ------------------------------------------------------------------------------------


def test_each_item_has_a_copy_that_knows_it() -> None:
    each = Step(
        id="each",
        do="Review $item",
        foreach="list.lines",
        needs=("other",),
        when="list.done",
        reads=("$item", "x/${item}.md"),
        writes=("out/$item",),
        outputs=("$item.txt", "$items"),
        exclusive=("lock-$item",),
        attempts=3,
    )
    one, two = copies(each, (), ["a.py", "$item"])
    assert (one.id, two.id, one.part_of) == ("each.1", "each.2", "each")
    assert (one.needs, one.when, one.foreach) == ((), None, None)
    assert (one.reads, one.writes) == (("a.py", "x/a.py.md"), ("out/a.py",))
    assert (one.outputs, one.exclusive) == (("a.py.txt", "$items"), ("lock-a.py",))
    assert (one.do, one.given, one.attempts) == ("Review $item", {"item": "a.py"}, 3)
    assert two.writes == ("out/$item",), "an item is not looked at for variables"


def test_a_copy_of_a_skill_has_copies_of_its_parts() -> None:
    made = expanded(of({"id": "l", "run": "ls"}, {"id": "r", "skill": "code-review $item"}), review)
    group, *pattern = made.steps[1:]
    each = msgspec.structs.replace(group, foreach="l.lines")
    found = {step.id: step for step in copies(each, pattern, ["src dir", "b"])}
    assert [*found][:6] == ["r.1", "r.1.look", "r.1.say", "r.1.list", "r.1.each", "r.2"]
    assert found["r.1.say"].part_of == "r.1"
    assert found["r.1.say"].needs == ("r.1.look",)
    assert found["r.1.list"].when == ("not r.1.look.failed and (r.1.say.done or r.1.look.skipped)")
    assert found["r.1.each"].foreach == "r.1.look.lines"
    given = found["r.1.look"].given
    assert (given["path"], given["1"], given["ARGUMENTS"]) == ("src dir", "src dir", "src dir")


def test_the_item_of_a_foreach_inside_a_copy_is_its_own() -> None:
    inner = of(
        {"id": "l", "run": "ls", "writes": ["$1.log"]},
        {"id": "e", "do": "$item of $1", "foreach": "l.lines", "writes": ["$item"]},
        name="inner",
    )
    made = expanded(
        of({"id": "l", "run": "ls"}, {"id": "g", "skill": "inner $item"}), lambda _: inner
    )
    group, *pattern = made.steps[1:]
    found = {step.id: step for step in copies(group, pattern, ["out"])}
    assert found["g.1.l"].writes == ("out.log",)
    assert found["g.1.e"].writes == ("$item",), "it is filled in when this one is copied"
    (copy,) = copies(found["g.1.e"], (), ["in"])
    assert copy.writes == ("in",)
    assert (copy.given["item"], copy.given["1"]) == ("in", "out")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n\n b \r\n\t\nc", ["a", " b ", "c"]),
        ("", []),
        ("one\u2028line\x0cstill", ["one\u2028line\x0cstill"]),
    ],
)
def test_lines_are_split_at_newlines_only_and_blank_ones_dropped(
    text: str, lines: list[str]
) -> None:
    assert items(Step(id="e", do="x", foreach="a.lines"), text) == lines


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["a", 1, {"k": [true]}]', ["a", "1", '{"k":[true]}']),
        ("```json\n[\n1]\n```\n", ["1"]),
        ("[]", []),
        (" \n", []),
    ],
)
def test_items_are_those_of_a_json_array(text: str, found: list[str]) -> None:
    assert items(Step(id="e", do="x", foreach="a.items"), text) == found


@pytest.mark.parametrize("text", ["a\nb", '{"a": 1}', "[1, 2", "I found: [1]", "[" * 99_999])
def test_a_text_that_is_no_array_is_no_empty_array(text: str) -> None:
    with pytest.raises(ValueError, match="the text of a is"):
        items(Step(id="e", do="x", foreach="a.items"), text)


def test_what_a_step_was_told_before_stays_known() -> None:
    step = told(told(Step(id="a", do="x"), {"path": "src"}), {"item": "1"})
    assert step.given == {"path": "src", "item": "1"}


def test_the_short_way_to_write_a_plan_in_tests_is_a_plan() -> None:
    assert checked(plan(a="", b="a")).steps[1].after == ("a",)

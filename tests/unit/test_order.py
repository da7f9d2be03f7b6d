import time
from typing import Any

import pytest

from agent.order import order, overlap
from agent.plan import Step


def step(id: str, needs: str = "", **says: Any) -> Step:
    return Step(id=id, do="x", needs=tuple(needs.split()), **says)


def tied(*steps: Step, **more: Any) -> dict[str, set[str]]:
    """What each step waits for besides its needs, of those that wait for something."""
    return {id: of for id, of in order(steps, **more).items() if of}


# -- which paths may be one file ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.py", "a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/A.py", "src/a.py"),  # some disks know no case
        ("src", "src/a.py"),  # a directory is all that is in it
        ("src/", "src/deep/a.py"),
        (".github", "**/ci.yml"),
        ("conf.d", "**/x.conf"),
        ("src/*.py", "src/a.py"),
        ("src/**", "src/a/b/c.md"),
        ("src/**/a.py", "src/a.py"),
        ("src/**/a.py", "src/deep/down/a.py"),
        ("**", "anything/at/all.txt"),
        ("*.md", "docs/a.md"),  # in the form of .gitignore: at any depth
        ("src/{a,b}.py", "src/b.py"),
        ("src/[ab].py", "src/b.py"),
        ("src/?.py", "src/b.py"),
        ("src/a*", "src/*b.py"),
        ("src/test_*.py", "src/test_a*"),
        ("**/test_*.py", "tests/**"),
        ("src/**.py", "src/deep/a.py"),
        ("a/*/c", "a/b/*"),
    ],
)
def test_paths_that_may_be_one_file_overlap_either_way_round(one: str, other: str) -> None:
    assert overlap(one, other)
    assert overlap(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.py", "b.py"),
        ("src/a.py", "docs/a.py"),
        ("src/**", "docs/**"),
        ("src/**", "srcs/a.py"),
        ("src/*.py", "src/a.md"),
        ("src/a*.py", "src/b.py"),
        ("src/ab*ba.py", "src/aba.py"),  # the star has no room
        ("src/**/a.py", "src/**/b.py"),
        ("**/*.py", "**/*.md"),
        ("src/api/*", "src/cli/*"),
        ("*.py", "*.md"),
    ],
)
def test_paths_that_are_surely_apart_do_not_overlap(one: str, other: str) -> None:
    assert not overlap(one, other)
    assert not overlap(other, one)


# -- who waits for whom --------------------------------------------------------------------------


def test_a_reader_comes_after_the_writer_wherever_the_list_has_them() -> None:
    docs = step("docs", reads=("src/**",), writes=())
    api = step("api", writes=("src/api.py",))
    assert tied(docs, api) == {"docs": {"api"}}
    assert tied(api, docs) == {"docs": {"api"}}


def test_two_that_write_the_same_go_in_the_order_of_the_list() -> None:
    a, b = step("a", writes=("src/**",)), step("b", writes=("src/b.py",))
    assert tied(a, b) == {"b": {"a"}}
    assert tied(b, a) == {"a": {"b"}}


def test_needs_go_before_the_list() -> None:
    a, b = step("a", "b", writes=("x",)), step("b", writes=("x",))
    assert tied(a, b) == {}
    c = step("c", writes=("x",))
    assert tied(a, b, c) == {"c": {"a"}}
    assert tied(c, a, b) == {"b": {"c"}}


def test_needs_of_others_don_t_turn_the_list_s_order_of_writers() -> None:
    a, b = step("a", writes=("x",)), step("b", writes=("x",))
    assert tied(step("x", "b", writes=()), a, b) == {"b": {"a"}}
    late = step("a", "c", writes=("x",))
    assert tied(late, b, step("c", writes=())) == {"b": {"a"}}


def test_a_reader_that_the_writer_needs_does_not_wait_for_it() -> None:
    assert tied(step("a", reads=("x",), writes=()), step("b", "a", writes=("x",))) == {}


def test_a_read_goes_before_the_order_of_writers() -> None:
    a = step("a", reads=("x",), writes=("y",))
    b = step("b", writes=("x", "y"))
    assert tied(a, b) == {"a": {"b"}}


def test_of_two_that_read_what_the_other_writes_the_first_goes_first() -> None:
    api = step("api", reads=("src/**",), writes=("src/api.py",))
    cli = step("cli", reads=("src/**",), writes=("src/cli.py",))
    web = step("web", reads=("src/**",), writes=("src/web.py",))
    assert tied(api, cli, web) == {"cli": {"api"}, "web": {"api", "cli"}}
    assert tied(web, cli, api) == {"cli": {"web"}, "api": {"web", "cli"}}


def test_three_that_read_in_a_circle_go_in_the_order_of_the_list() -> None:
    a = step("a", reads=("z",), writes=("x",))
    b = step("b", reads=("x",), writes=("y",))
    c = step("c", reads=("y",), writes=("z",))
    assert tied(a, b, c) == {"b": {"a"}, "c": {"b"}}


def test_a_step_that_says_nothing_delays_only_writers() -> None:
    free = step("free")
    before, after = step("w1", writes=("x",)), step("w2", writes=("y",))
    quiet = step("quiet", writes=())
    reader = step("reader", reads=("x",))
    assert tied(before, quiet, free, reader, after) == {
        "free": {"w1"},
        "w2": {"free"},
        "reader": {"w1"},
    }
    assert tied(step("f1"), step("f2"), quiet) == {"f2": {"f1"}}
    again = step("w3", writes=("x",))
    assert tied(before, free, again) == {"free": {"w1"}, "w3": {"free"}}, "and not of w1 again"


def test_a_step_that_says_it_writes_anything_is_waited_for_by_readers() -> None:
    everything, reader = step("all", writes=("**",)), step("reader", reads=("x",), writes=())
    assert tied(reader, everything) == {"reader": {"all"}}


def test_a_variable_in_a_path_may_be_anything() -> None:
    each = step("each", writes=("out/$item.md",))
    assert tied(each, step("b", writes=("out/deep/x.md",))) == {"b": {"each"}}
    assert tied(each, step("b", writes=("src/x.md",))) == {}
    assert tied(step("a", writes=("${path}/x",)), step("b", writes=("q/x",))) == {"b": {"a"}}


def test_what_has_begun_waits_for_nothing_and_is_waited_for() -> None:
    new = step("new", writes=("x", "y"))
    old = step("old", reads=("x",), writes=("y",))
    assert tied(new, old) == {"old": {"new"}}
    assert tied(new, old, begun={"old"}) == {"new": {"old"}}
    same = [step(id, writes=("x",)) for id in ("a", "b", "c")]
    assert tied(*same, begun={"a", "b"}) == {"c": {"a", "b"}}, "none of them waits for the other"
    free = [step(id) for id in ("a", "b", "c", "d")]
    assert tied(*free, begun={"a", "b"}) == {"c": {"a", "b"}, "d": {"c"}}


def test_a_step_may_be_free_besides_what_it_says() -> None:
    group = step("group", reads=("in",), writes=("out",))
    writer, reader = step("writer", writes=("x",)), step("reader", reads=("out",), writes=())
    assert tied(group, writer, reader, free={"group"}) == {"writer": {"group"}, "reader": {"group"}}


def test_waits_that_are_given_count_instead_of_needs() -> None:
    a, b = step("a", "elsewhere", writes=("x",)), step("b", writes=("x",))
    assert tied(a, b, waits={"a": {"b"}, "b": set()}) == {}


@pytest.mark.parametrize(
    "says",
    [
        {"writes": ("src/**",)},
        {"reads": ("src/**",), "writes": ("src/**",)},
        {},
        {"writes": ("*.a", "*.b", "**/c")},
    ],
)
def test_many_that_touch_the_same_are_told_only_of_the_one_before(says: dict[str, Any]) -> None:
    many = [step(f"s{n}", **says) for n in range(3000)]
    began = time.process_time()
    assert tied(*many) == {f"s{n}": {f"s{n - 1}"} for n in range(1, 3000)}
    assert time.process_time() - began < 2, "it takes a tenth of that"


def test_more_comparisons_than_are_worth_it_make_the_rest_a_chain() -> None:
    writers = [step(f"w{n}", writes=(f"**/{n}.py",)) for n in range(480)]
    readers = [step(f"r{n}", reads=("**",), writes=(f"**/{n}.md",)) for n in range(480)]
    quiet = [step(f"q{n}", writes=()) for n in range(10)]
    began = time.process_time()
    found = order([*writers, *readers, *quiet])
    assert time.process_time() - began < 10
    assert found["r479"] == {"r478"}
    assert not any(found[step.id] for step in quiet)
    assert sum(map(len, found.values())) < 1_000_000

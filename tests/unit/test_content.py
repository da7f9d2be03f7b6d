"""What a step reads and leaves: known exactly, or said not to be known."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.plan import Step
from agent.store import content
from agent.store.content import Content


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")


def listed(folder: Path) -> Callable[[], list[str]]:
    """All files but hidden ones, as if git ignored those."""
    return lambda: [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("[!.]*"))
        if path.is_file() and not path.is_symlink()
    ]


def files(folder: Path) -> Content:
    return Content(folder, listed(folder))


def step(**keys: tuple[str, ...]) -> Step:
    return Step(id="a", do="x", **keys)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("globs", "meant"),
    [
        (("src/**",), {"src/a.py", "src/deep/b.py", "src/c.md"}),
        (("src",), {"src/a.py", "src/deep/b.py", "src/c.md"}),
        (("src/*.py",), {"src/a.py"}),
        (("*.md",), {"src/c.md", "top.md"}),
        (("./top.md", "none"), {"top.md"}),
        (("src/**/*.{py,md}",), {"src/a.py", "src/deep/b.py", "src/c.md"}),
        (("$where/*.md",), {"src/c.md", "top.md"}),
        (("**",), {"src/a.py", "src/deep/b.py", "src/c.md", "top.md", ".hidden"}),
        ((".git/config", ".agent/runs/**"), set[str]()),
        ((), set[str]()),
    ],
)
def test_a_pattern_means_the_files_that_a_plan_means_by_it(
    tmp_path: Path, globs: tuple[str, ...], meant: set[str]
) -> None:
    put(tmp_path, "src/a.py", "src/deep/b.py", "src/c.md", "top.md", ".hidden")
    put(tmp_path, ".git/config", ".agent/runs/r.jsonl")
    assert (files(tmp_path).written(step(writes=globs)) or {}).keys() == meant


def test_what_a_step_reads_changes_with_every_byte_name_and_mode_and_with_nothing_else(
    tmp_path: Path,
) -> None:
    put(tmp_path, "src/a.py", "other")
    of, seen = files(tmp_path), set[str | None]()
    looked = step(reads=("src/**",))

    def fresh() -> bool:
        """Whether it reads what it has never read before."""
        now = of.read(looked)
        assert now is not None
        new = now not in seen
        seen.add(now)
        return new

    assert fresh()
    (tmp_path / "other").write_text("changed", encoding="utf-8")
    (tmp_path / "src/a.py").touch()
    assert not fresh()
    (tmp_path / "src/a.py").write_text("src/a.pY", encoding="utf-8")  # same size, same second
    assert fresh()
    (tmp_path / "src/a.py").chmod(0o755)
    assert fresh()
    (tmp_path / "src/a.py").rename(tmp_path / "src/b.py")
    assert fresh()
    (tmp_path / "src/link").symlink_to("b.py")
    assert fresh()
    (tmp_path / "src/link").unlink()
    (tmp_path / "src/link").symlink_to("../other")
    assert fresh()
    (tmp_path / "other").write_text("behind the link", encoding="utf-8")
    assert fresh()


def test_a_step_that_does_not_say_what_it_reads_reads_all_that_git_sees_but_what_it_writes(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a", "b", ".ignored")
    of, one = files(tmp_path), step(writes=("b",))
    first = of.read(one)
    put(tmp_path, ".other")
    (tmp_path / "b").write_text("own", encoding="utf-8")
    assert of.read(one) == first
    (tmp_path / "link").symlink_to("a")
    assert (second := of.read(one)) != first
    (tmp_path / "a").write_text("other", encoding="utf-8")
    assert of.read(one) != second


def test_what_can_not_be_known_for_sure_is_not_known(tmp_path: Path) -> None:
    put(tmp_path, *(f"many/{n}" for n in range(content.MOST_WRITTEN + 1)))
    of = files(tmp_path)
    assert of.written(step(writes=("many/**",))) is None
    assert of.written(step(writes=("/".join(["**"] * 9),))) is None
    assert of.read(step(reads=("{a,b,c}" * 6,))) is None
    assert Content(tmp_path, lambda: None).read(step()) is None
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"")
    assert of.written(step(writes=("*",))) is None
    assert of.written(step()) == {}


def test_an_output_may_be_a_directory_and_is_known_by_all_that_is_in_it(tmp_path: Path) -> None:
    put(tmp_path, "out/a", "out/deep/b")
    of, path = files(tmp_path), str(tmp_path / "out")
    first = of.outputs([path, str(tmp_path / "none"), "a\0b"])
    assert list(first) == [path]
    (tmp_path / "out/deep/b").write_text("x", encoding="utf-8")
    assert of.outputs([path]) != first

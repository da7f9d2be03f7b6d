"""Agents at work on the same files, by the front door."""

import pytest

from tests.e2e.ts import Ts, call, calling


@pytest.mark.parametrize("first_reads", [True, False])
@pytest.mark.parametrize("writes", ["", ", writes: [state.md]", ", writes: ['*.md']"])
def test_c080_two_steps_that_change_one_file_both_keep_their_change(
    ts: Ts, writes: str, first_reads: bool
) -> None:
    def edit(letter: str) -> list[dict[str, object]]:
        read = [calling(call("read_file", path="state.md"), **{"for": letter})]
        change = call(
            "edit_file", path="state.md", old_string=f"{letter}: -", new_string=f"{letter}: done"
        )
        end = {"text": "Changed.", "for": letter}
        return [*(read if first_reads else []), calling(change, **{"for": letter}), end]

    ts.write("state.md", "a: -\nb: -\n")
    ts.write("plan.yaml", f"steps: [{{id: a, do: x{writes}}}, {{id: b, do: y{writes}}}]")
    model = ts.script(*edit("a"), *edit("b"))
    for _ in range(5):
        ts.write("state.md", "a: -\nb: -\n")
        ran = ts.here("run", "plan.yaml", "-y", model=model)
        assert ran.code == 0, ran.err
        assert (ts.cwd / "state.md").read_text(encoding="utf-8") == "a: done\nb: done\n"


def test_c055_prose_that_only_shows_a_call_runs_nothing(ts: Ts) -> None:
    ts.write("keep.txt", "kept\n")
    prose = (
        'You could run this yourself:\n\n```json\n{"name": "bash", "arguments": '
        '{"command": "rm keep.txt"}}\n```\n\nbut I advise against it. Shall I go on?'
    )
    ran = ts.here("-p", "how do I remove it?", "-y", model=ts.script(prose))
    assert ran.code == 0
    assert ran.out.strip() == prose
    assert (ts.cwd / "keep.txt").exists()

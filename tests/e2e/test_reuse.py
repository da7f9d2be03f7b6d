"""What is unchanged is not done again: plans run twice, and the calls counted that a model gets."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ts import Ran, Ts
from tests.servers import Answer, Ask, OpenAIServer

PLAN = """\
goal: parts
steps:
  - {id: one, do: Say one., reads: [in/one.txt], writes: [out/one.txt], outputs: [one.md]}
  - {id: two, do: Say two., reads: [in/two.txt], writes: [out/two.txt]}
  - {id: both, do: Join both., needs: [one, two], reads: ['out/*.txt'], writes: [out/sum]}
  - {id: last, run: 'echo ran >> "$HOME/ran"; cat out/sum', needs: [both], reads: [out/sum]}
"""


def asked_of(ask: Ask) -> tuple[str, int]:
    """The step that a request is for, and how many replies there were before it."""
    told = [each for each in ask.json["messages"] if each["role"] != "system"]
    content = told[0]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    ids = re.findall(r'<step id="([^"]+)">', text)
    return ids[-1] if ids else "revise", sum(each["role"] == "assistant" for each in told)


def call(name: str, **input: Any) -> tuple[str, str, str]:
    return f"call_{name}", name, json.dumps(input)


def answer(ask: Ask) -> Answer:
    """Each step writes what it reads into its file, and into its output if it has one."""
    id, turn = asked_of(ask)
    if id == "revise":
        return Answer(calls=(call("revise_plan", action="abort", because="it is broken"),))
    if turn:
        outputs = ["one.md"] if id == "one" else []
        return Answer(calls=(call("report", status="done", summary=f"{id} said", outputs=outputs),))
    made = {
        "one": 'mkdir -p out; cat in/one.txt > out/one.txt; echo md > "$TS_WORKSPACE/one.md"',
        "two": "mkdir -p out; cat in/two.txt > out/two.txt",
        "both": "cat out/*.txt > out/sum",
    }
    return Answer(calls=(call("bash", command=made.get(id, "true")),))


class Bench:
    """A plan, the model it asks, and what came of the last run."""

    def __init__(self, ts: Ts, server: OpenAIServer) -> None:
        self.ts, self.server = ts, server

    def run(self, *words: str) -> Ran:
        self.server.requests.clear()
        ran = self.ts.here(*(words or ("run", "plan.yaml", "--reuse")), "-y")
        assert ran.code == 0, ran
        return ran

    @property
    def calls(self) -> dict[str, int]:
        """How often the model was asked, by step."""
        return dict(Counter(asked_of(ask)[0] for ask in self.server.requests))

    @property
    def reused(self) -> set[str]:
        return {event["step"] for event in self.ts.log() if event.get("reused")}

    @property
    def commands(self) -> int:
        """How often the plan's own command was run."""
        return len((self.ts.home / "ran").read_text(encoding="utf-8").splitlines())


@pytest.fixture
def bench(ts: Ts) -> Iterator[Bench]:
    ts.write("plan.yaml", PLAN)
    ts.write("in/one.txt", "1\n")
    ts.write("in/two.txt", "2\n")
    with OpenAIServer(answer) as server:
        ts.asks(server)
        yield Bench(ts, server)


ALL = {"one", "two", "both", "last"}


def test_a_plan_that_is_run_again_with_reuse_asks_no_model_and_runs_no_command(
    bench: Bench,
) -> None:
    first = bench.run("run", "plan.yaml")
    assert bench.calls == {"one": 2, "two": 2, "both": 2}
    assert bench.reused == set()
    second = bench.run()
    assert bench.calls == {}
    assert bench.reused == ALL
    assert bench.commands == 1
    assert second.out == first.out
    assert "one reused" in second.err
    (end,) = [
        event
        for event in bench.ts.log()
        if event["type"] == "step.finished" and event["step"] == "one"
    ]
    (output,) = end["outputs"]
    assert Path(output).read_text(encoding="utf-8") == "md\n"
    assert end["run"] in output, "it is in this run's own workspace"
    shown = bench.ts.here("show").said
    assert "one reused" in shown
    bench.run("run", "plan.yaml")
    assert bench.calls == {"one": 2, "two": 2, "both": 2}, "without the flag all is done"
    third = bench.run()  # what a run has reused may be reused again
    assert (bench.calls, bench.reused, third.out) == ({}, ALL, first.out)


def test_a_byte_of_a_file_that_a_step_reads_runs_that_step_and_what_needs_it(bench: Bench) -> None:
    bench.run()
    bench.ts.write("in/two.txt", "3\n")
    ran = bench.run()
    assert bench.calls == {"two": 2, "both": 2}
    assert bench.reused == {"one"}
    assert ran.out == "1\n3\n"
    bench.ts.write("elsewhere.txt", "what nobody reads")
    bench.run()
    assert bench.reused == ALL


def test_what_a_step_left_has_to_be_as_it_left_it(bench: Bench) -> None:
    bench.run()
    bench.ts.write("out/one.txt", "touched\n")
    bench.run()
    assert bench.calls == {"one": 2}, "it writes the same again, so what needs it is reused"
    assert bench.reused == ALL - {"one"}
    for log in (bench.ts.cwd / ".agent/runs").glob("*.jsonl"):
        shutil.rmtree(bench.ts.cwd / ".agent/workspace" / log.stem)
    bench.run()
    assert bench.calls == {"one": 2}, "its output has gone with the workspaces"
    (place,) = (bench.ts.cwd / ".agent/workspace").iterdir()
    (place / "one.md").write_text("other", encoding="utf-8")
    bench.run()
    assert bench.calls == {"one": 2}


def test_a_step_that_is_told_otherwise_is_done_again(bench: Bench) -> None:
    bench.run()
    for old, new, again in (
        ("Say one.", "Say one!", {"one"}),
        ("goal: parts", "goal: all parts", {"one", "two", "both"}),
        ("reads: [in/two.txt]", "reads: [in/two.txt, none]", {"two"}),
        ("id: two, do", "id: two, verify: test -e out/two.txt, do", {"two"}),
        ("id: two, do", "id: two, model: openai/other, do", {"two"}),
        ("id: two, do", "id: two, tools: [bash], do", {"two"}),
        ("id: two, do", "id: two, attempts: 5, max_turns: 9, do", set[str]()),
    ):
        bench.ts.write("plan.yaml", PLAN.replace(old, new))
        bench.run()
        assert set(bench.calls) == again, new


def test_what_all_steps_are_told_counts_for_all(bench: Bench) -> None:
    bench.run()
    bench.ts.write("AGENTS.md", "Be brief.\n")
    bench.run()
    assert set(bench.calls) == {"one", "two", "both"}
    bench.run("run", "plan.yaml", "--reuse", "--append-system-prompt", "Be kind.")
    assert set(bench.calls) == {"one", "two", "both"}


def test_a_check_is_run_again_and_what_fails_it_is_done_again(bench: Bench) -> None:
    bench.ts.write("plan.yaml", """\
goal: checked
steps:
  - id: one
    do: Say one.
    reads: [in/one.txt]
    writes: [out/one.txt]
    outputs: [one.md]
    verify: 'echo check >> "$HOME/ran"; test -s "$TS_WORKSPACE/one.md" && test ! -e broken'
    attempts: 1
""")  # fmt: skip
    bench.run()
    bench.run()
    assert (bench.calls, bench.reused, bench.commands) == ({}, {"one"}, 2)
    bench.ts.write("broken", "")
    ran = bench.ts.here("run", "plan.yaml", "--reuse", "-y")
    assert ran.code == 1
    assert bench.calls == {"one": 2, "revise": 1}
    assert "does not pass its check" in ran.err
    (bench.ts.cwd / "broken").unlink()
    bench.run()
    assert bench.reused == {"one"}, "the run that failed has spoiled nothing"


def test_commands_that_ask_for_it_are_reused_without_the_flag_and_others_are_not(ts: Ts) -> None:
    ts.write("plan.yaml", """\
steps:
  - {id: kept, run: 'echo kept >> "$HOME/ran"; cat in.txt', cache: true}
  - id: made
    run: 'echo made >> "$HOME/ran"; cat in.txt > out.txt'
    writes: [out.txt]
    cache: true
  - {id: plain, run: 'echo plain >> "$HOME/ran"', writes: []}
""")  # fmt: skip

    def ran() -> list[str]:
        (ts.home / "ran").write_text("", encoding="utf-8")
        assert ts.here("run", "plan.yaml", "--max-workers", "1").code == 0
        return sorted((ts.home / "ran").read_text(encoding="utf-8").split())

    ts.write("in.txt", "1")
    assert ran() == ["kept", "made", "plain"]
    assert ran() == ["kept", "plain"], "`kept` reads everything, and out.txt is new"
    assert ran() == ["plain"]
    ts.write(".gitignore", "ignored\n")
    assert ran() == ["kept", "made", "plain"]
    ts.write("ignored", "what git does not see")
    assert ran() == ["plain"]
    (ts.cwd / "in.txt").chmod(0o755)
    assert ran() == ["kept", "made", "plain"]
    (ts.cwd / "out.txt").unlink()
    assert ran() == ["kept", "made", "plain"]


def test_what_changed_while_a_step_read_it_says_nothing_about_what_it_was_made_from(
    ts: Ts,
) -> None:
    ts.write("plan.yaml", """\
steps:
  - id: a
    run: 'echo ran >> "$HOME/ran"; cat in.txt; echo new > in.txt'
    reads: [in.txt]
    cache: true
""")  # fmt: skip
    for count in (1, 2, 3):
        ts.write("in.txt", "old")
        assert ts.here("run", "plan.yaml").code == 0
        assert len((ts.home / "ran").read_text(encoding="utf-8").splitlines()) == count
    assert ts.here("run", "plan.yaml").code == 0
    assert ts.here("run", "plan.yaml").code == 0
    assert (ts.home / "ran").read_text(encoding="utf-8").count("ran") == 4


def test_failed_steps_are_never_reused_and_copies_and_parts_of_skills_are(bench: Bench) -> None:
    bench.ts.write(".agent/skills/sub.yaml", """\
name: sub
description: a part
arguments: [word]
steps:
  - {id: say, do: Say $word., reads: [], writes: []}
""")  # fmt: skip
    bench.ts.write("plan.yaml", """\
goal: g
steps:
  - {id: list, run: 'cat items', reads: [items]}
  - {id: each, do: Look at $item., foreach: list.lines, reads: [], writes: []}
  - {id: part, skill: sub hello}
  - {id: bad, run: exit 3, reads: [], allow_failure: true}
""")  # fmt: skip
    bench.ts.write("items", "a\nb\n")
    words = ("run", "plan.yaml", "--reuse", "--trust")
    bench.run(*words)
    assert bench.calls == {"each.1": 2, "each.2": 2, "part.say": 2}
    bench.run(*words)
    assert (bench.calls, bench.reused) == ({}, {"list", "each.1", "each.2", "part.say"})
    bench.ts.write("items", "new\na\nb\n")
    bench.run(*words)
    assert set(bench.calls) == {"each.1", "each.2", "each.3"}, "they are all told the new list"
    skill = bench.ts.cwd / ".agent/skills/sub.yaml"
    skill.write_text(skill.read_text(encoding="utf-8") + "  - {id: more, run: ':'}\n", "utf-8")
    bench.run(*words)
    assert bench.calls == {"part.say": 2}, "the skill is another one now"


def test_two_steps_alike_in_one_run_are_both_done(bench: Bench) -> None:
    bench.ts.write("plan.yaml", """\
goal: g
steps:
  - {id: a, do: The same., reads: [], writes: []}
  - {id: b, do: The same., needs: [a], reads: [], writes: []}
  - {id: c, do: The same., reads: [], writes: []}
""")  # fmt: skip
    bench.run()
    assert set(bench.calls) == {"a", "b", "c"}
    bench.run()
    assert bench.calls == {}


def test_a_log_that_others_may_have_written_is_no_record_of_what_was_done(bench: Bench) -> None:
    bench.run()
    (log,) = (bench.ts.cwd / ".agent/runs").glob("*.jsonl")
    log.chmod(0o644)  # as git or an archive leaves it
    bench.run()
    assert set(bench.calls) == {"one", "two", "both"}

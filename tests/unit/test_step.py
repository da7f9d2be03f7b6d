"""One job: a command, an agent with its check, or a revision. Real shells, a scripted model."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent.engine.budget import Budget, within
from agent.engine.guard import Gate
from agent.engine.pool import ExecutorPool
from agent.engine.run import drive
from agent.engine.step import Worker
from agent.engine.variable import held
from agent.errors import CutError, ModelError, ServiceError, SetupError, UsageError
from agent.event import (
    Event,
    ModelCalled,
    Notice,
    PermissionAsked,
    PermissionDecided,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    StepFinished,
    ToolFinished,
    UserSaid,
    Wish,
)
from agent.job import Attempt, Job, Revise, Told
from agent.message import Message, Reply, Request, Say, Usage
from agent.plan import Permissions, Plan, Step, convert
from agent.providers.script import Line, Script, ScriptCall
from agent.seams import Answer, Ask, Emit, Provider, Question
from agent.settings import Mode, Rules
from agent.state import State
from agent.stop import INTERRUPTED, TIME, Stop
from agent.tool import Context, Tool, tool
from agent.tools.child.command import command
from agent.tools.files import edit_file, read_file, write_file
from agent.tools.shell import bash
from tests.plans import calls


def nobody(question: Question) -> Answer:
    return Answer(choice="no", by="nobody")


class Bench:
    """A worker in a directory of its own, with what its parts were asked and told."""

    def __init__(
        self,
        home: Path,
        *replies: Reply | str | Exception,
        mode: Mode = "auto",
        rules: Rules | None = None,
        ask: Ask = nobody,
        tokens: int | None = None,
        vouched: Iterable[str] = (),
        find: Callable[[str], Plan] | None = None,
    ) -> None:
        self.home = home.resolve()
        self.place = self.home / ".agent/workspace/run"
        self.place.mkdir(parents=True, exist_ok=True)
        self.model = Script(replies)
        self.named = list[str]()
        self.events = list[Event]()
        self.stop = Stop()
        self.budget = Budget(tokens)
        tools: dict[str, Tool] = {
            each.name: each for each in (read_file, write_file, edit_file, bash)
        }
        self.worker = Worker(
            models=self.models,
            tools=tools,
            gate=Gate(mode, rules or Rules(), ask),
            context=Context(
                cwd=self.home,
                stop=self.stop,
                workspace=self.place,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.home)},
            ),
            command=command,
            inquire=lambda step, question: f"{step} asked {question}",
            fits=lambda value, schema: "" if isinstance(value, dict) else "it is no object",
            budget=self.budget,
            system="S",
            revise_system="R",
            workspace=self.place,
            max_turns=20,
            vouched=frozenset(vouched),
        )
        if find:
            self.worker = structs.replace(self.worker, find=find)

    def models(self, name: str, stop: Stop, emit: Emit) -> Provider:
        self.named.append(name)

        def told(request: Request, say: Say) -> Reply:
            stop.check()
            reply = self.model(request, say)
            emit(
                ModelCalled(
                    model=name, usage=reply.usage, cost_usd=0, seconds=0, stop_reason=reply.stop
                )
            )
            return reply

        return within(told, self.budget)

    def do(self, step: Step, *results: Told, **more: Any) -> StepFinished:
        job = Attempt(
            step=step,
            number=more.pop("number", 1),
            goal="the goal",
            results=results,
            steps=more.pop("steps", (step,)),
            **more,
        )
        end = self.ended(job)
        assert isinstance(end, StepFinished)
        assert end.step == step.id
        return end

    def ended(self, job: Job) -> Event:
        return self.worker(job, self.events.append)

    def run(self, line: str, *results: Told, **more: Any) -> StepFinished:
        return self.do(Step(id="a", run=line, **more), *results)

    @property
    def told(self) -> str:
        """The first message of the last request."""
        return self.model.requests[-1].messages[0].text

    @property
    def denied(self) -> list[tuple[str, str]]:
        return [
            (event.tool, event.by)
            for event in self.events
            if isinstance(event, PermissionDecided) and event.decision == "deny"
        ]


def told(id: str, text: str = "", **more: Any) -> Told:
    return Told(**{"id": id, "status": "done", "text": text, "outputs": (), **more})


def report(status: str = "done", summary: str = "did it", **more: Any) -> Reply:
    return calls("report", status=status, summary=summary, **more)


# -- commands -------------------------------------------------------------------------------------


def test_a_command_s_text_is_its_stdout_and_its_stderr_is_told_beside_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    end = bench.run("pwd; echo err >&2")
    assert (end.status, end.summary) == ("done", f"{bench.home}\n")
    (finished,) = (event for event in bench.events if isinstance(event, ToolFinished))
    assert finished.step == "a"
    assert finished.output == f"{bench.home}\nerr"
    assert not bench.model.requests


def test_a_failed_command_keeps_its_stdout_and_says_how_it_failed(tmp_path: Path) -> None:
    end = Bench(tmp_path).run("echo out; echo err >&2; exit 3")
    assert (end.status, end.summary) == ("failed", "out\n")
    assert end.error == "out\nerr\nexit code 3"


def test_a_command_gets_no_input_and_a_shell_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.run("cat; x=1; cd /").status == "done"
    assert bench.run('echo "[$x]"; pwd').summary == f"[]\n{bench.home}\n"
    assert bench.run("[[ a == a ]] && echo ${BASH_VERSION:+bash}").summary == "bash\n"


def test_a_command_that_takes_too_long_fails_with_what_it_had_printed(tmp_path: Path) -> None:
    end = Bench(tmp_path).run("echo early; sleep 60", timeout=0.3)
    assert (end.status, end.summary) == ("failed", "early\n")
    assert end.error == "early\ntime ran out"
    assert end.seconds < 10


def test_values_are_variables_and_never_part_of_a_command(tmp_path: Path) -> None:
    nasty = "'; touch pwned; echo \"$(touch pwned)` $HOME\nsecond"
    given = {
        "1": nasty,
        "2": "two",
        "path": nasty,
        "file_name": "f",
        "ARGUMENTS": "a b",
        "item": "i",
    }
    bench = Bench(tmp_path)
    end = bench.run(
        'printf "%s|" "$1" "$2" "$path" "$file_name" "$ARGUMENTS" "$item" "$#"', given=given
    )
    assert end.summary == f"{nasty}|two|{nasty}|f|a b|i|2|"
    assert not (tmp_path / "pwned").exists()


def test_a_command_sees_texts_and_files_of_what_it_needs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    end = bench.run(
        'printf "%s|" "$TS_WORKSPACE" "$TS_STEP_API_2" "$TS_OUTPUTS_API_2" "$TS_STEP_LEFT_OUT"',
        told("api-2", "A\n", outputs=("/w/x y", "/w/z")),
        told("left.out", "", status="skipped", words="skipped: no use"),
    )
    assert end.summary == f"{bench.place}|A\n|/w/x y\n/w/z||"


def test_a_part_of_a_skill_knows_its_fellows_by_the_skill_s_ids(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    step = Step(
        id="sub.b", run='printf "%s|" "$TS_STEP_A" "$TS_STEP_SUB_A" "$TS_STEP_PRE"', part_of="sub"
    )
    end = bench.do(step, told("pre", "P"), told("sub.a", "inner"), told("a", "outer"))
    assert end.summary == "inner|inner|P|"


def test_long_and_odd_texts_reach_a_command_as_far_as_a_variable_can_hold_them(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    texts = [told(f"s{n}", "ü" * 80_000) for n in range(40)]
    end = bench.run('printf "%s" "$TS_STEP_S39" | wc -c', *texts)
    assert end.status == "done", end.error
    assert 20_000 < int(end.summary) <= 100_000
    odd = told("odd", "a\0b\ud800c\udcff\n")
    end = bench.run("printf %s \"$TS_STEP_ODD\" | od -An -tx1 | tr -d ' \\n'", odd)
    assert end.summary == "6162efbfbd63ff0a"


def test_a_variable_is_never_cut_within_a_character() -> None:
    assert held("aüü", 4) == "aü"
    assert held("aüü", 5) == "aüü"
    assert held("天枢", 5) == "天"
    assert held("x\udcff", 9) == "x\udcff"


def test_a_run_that_is_stopped_cancels_its_steps(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.stop.set(INTERRUPTED)
    assert bench.run("echo x").status == "cancelled"
    bench = Bench(tmp_path)

    def stopping(request: Request, say: Say) -> Reply:
        bench.stop.set(INTERRUPTED)
        return Reply(message=Message(role="assistant", text="late"))

    bench.worker = structs.replace(bench.worker, models=lambda *of: stopping)
    end = bench.do(Step(id="a", do="x", verify="sleep 60"))
    assert end.status == "cancelled"


# -- agents ---------------------------------------------------------------------------------------


def test_an_agent_is_told_the_goal_the_plan_what_it_needs_and_last_its_step(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, "done")
    step = Step(
        id="b",
        do="Mend $path as $TS_STEP_A says; keep $other",
        needs=("a",),
        outputs=("notes.md",),
        writes=("src/**",),
        verify="pytest -q",
        given={"path": "src/x.py"},
    )
    (bench.place / "notes.md").touch()
    (tmp_path / "bin").mkdir()
    plan = (Step(id="a", run="ls"), step, Step(id="c", do="later", needs=("b",)))
    results = (
        told("a", "A's text", outputs=("/w/f",)),
        told("s", "", status="skipped", words="skipped: when x.failed"),
        told("f", "out", status="failed", words="out\nerr\nexit code 1"),
    )
    bench.do(step, *results, steps=plan, failure="it broke", cut_off=True)
    text = bench.told
    places = [
        text.index(words)
        for words in (
            "Goal: the goal",
            "- a: ls",
            "- b (needs a): Mend $path",
            "your step",
            "- c (needs b): later",
            '<result step="a" status="done">\nA\'s text\nfile: /w/f\n</result>',
            '<result step="s" status="skipped">',
            "skipped: when x.failed",
            '<result step="f" status="failed">\nout\nerr\nexit code 1\n</result>',
            f"Shared workspace: {bench.place}",
            "notes.md",
            "src/**",
            "pytest -q",
            "it broke",
            "cut off",
            '<step id="b">Mend src/x.py as A\'s text says; keep $other</step>',
        )
    ]
    assert places == sorted(places)
    assert text.endswith("</step>")
    request = bench.model.requests[0]
    assert request.system == "S"
    assert {tool["name"] for tool in request.tools} >= {"report", "ask_user", "ask_oracle", "bash"}


def test_an_agent_that_reports_or_just_ends_has_done_its_step(tmp_path: Path) -> None:
    assert Bench(tmp_path, "all good").do(Step(id="a", do="x")).summary == "all good"
    end = Bench(tmp_path, report(summary="S")).do(Step(id="a", do="x"))
    assert (end.status, end.summary) == ("done", "S")


@pytest.mark.parametrize(("status", "words"), [("failed", "S"), ("blocked", "blocked: S")])
def test_an_agent_may_say_that_it_failed(tmp_path: Path, status: str, words: str) -> None:
    end = Bench(tmp_path, report(status, "S")).do(Step(id="a", do="x", verify="touch checked"))
    assert (end.status, end.summary) == ("failed", words)
    assert not (tmp_path / "checked").exists(), "what has failed is not checked"


def test_a_check_decides_and_not_the_agent_s_word(tmp_path: Path) -> None:
    step = Step(id="a", do="x", verify='test -f made || { echo "no file"; exit 1; }')
    end = Bench(tmp_path, report(summary="I made it")).do(step)
    assert (end.status, end.summary) == ("failed", "I made it")
    assert end.error == (
        f"its check failed (exit code 1): {step.verify}\nno file\n\nIts agent said: I made it"
    )
    made = calls("write_file", path="made", content="x")
    assert Bench(tmp_path, made, report()).do(step).status == "done"


def test_a_command_s_check_that_fails_leaves_its_text(tmp_path: Path) -> None:
    end = Bench(tmp_path).run("echo out", verify="echo no >&2; exit 2")
    assert (end.status, end.summary) == ("failed", "out\n")
    assert end.error == "its check failed (exit code 2): echo no >&2; exit 2\nno"


def test_outputs_have_to_be_left_in_the_workspace(tmp_path: Path) -> None:
    end = Bench(tmp_path).run("echo x > $TS_WORKSPACE/a.md", outputs=("a.md", "b.md"))
    assert end.status == "failed"
    assert end.error == "did not leave in the workspace: b.md"
    bench = Bench(tmp_path, report(outputs=["a.md", "c.md", "../../x", "/etc/passwd", "n\0", "."]))
    (bench.place / "c.md").touch()
    end = bench.do(Step(id="a", do="x", outputs=("a.md",)))
    assert end.status == "done"
    assert end.outputs[:2] == (str(bench.place / "a.md"), str(bench.place / "c.md"))
    assert all(Path(path).is_relative_to(bench.place) for path in end.outputs)


def test_a_link_out_of_the_workspace_is_no_output(tmp_path: Path) -> None:
    end = Bench(tmp_path).run("ln -s /etc/passwd $TS_WORKSPACE/a", outputs=("a",))
    assert end.error == "did not leave in the workspace: a"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a": 1}', ""),
        ('```json\n{"a": 1}\n```', ""),
        ("[1]", "its text does not fit the schema: it is no object"),
        ("Here: {}", "its text does not fit the schema: no JSON"),
    ],
)
def test_a_result_has_to_fit_its_schema(tmp_path: Path, text: str, error: str) -> None:
    step = convert({"steps": [{"id": "a", "do": "x", "result": {"schema": {}}}]}).steps[0]
    end = Bench(tmp_path, report(summary=text)).do(step)
    assert (end.status == "done") is (not error)
    assert str(end.error or "").startswith(error)


def test_a_text_that_items_are_taken_from_has_to_be_an_array_and_is_asked_for(
    tmp_path: Path,
) -> None:
    step = Step(id="list", do="x")
    plan = (step, Step(id="each", do="y", foreach="list.items"))
    bench = Bench(tmp_path, report(summary="- a\n- b"))
    end = bench.do(step, steps=plan)
    assert end.status == "failed"
    assert str(end.error).startswith("another step goes over the items of its text, but the text")
    assert "a JSON array alone" in bench.told
    assert Bench(tmp_path, report(summary='["a"]')).do(step, steps=plan).status == "done"
    lines = (step, Step(id="each", do="y", foreach="list.lines"))
    bench = Bench(tmp_path, report(summary="a\nb"))
    assert bench.do(step, steps=lines).status == "done"
    assert "one item a line" in bench.told


def test_a_long_text_is_cut_with_the_whole_in_a_file_unless_a_foreach_goes_over_it(
    tmp_path: Path,
) -> None:
    line = "seq 1 20000"
    bench = Bench(tmp_path)
    end = bench.run(line)
    assert len(end.summary) < 66_000
    assert end.summary.startswith("1\n2\n")
    _, _, path = end.summary.rpartition("(whole: ")
    assert Path(path[:-1]).read_text(encoding="utf-8").splitlines()[9_999] == "10000"
    assert Path(path[:-1]).parent == bench.place
    step = Step(id="a", run=line)
    end = bench.do(step, steps=(step, Step(id="each", do="x", foreach="a.lines")))
    assert len(end.summary.splitlines()) == 20_000


def test_a_long_text_is_never_written_through_a_link(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    own = tmp_path / "the user's"
    own.write_text("mine", encoding="utf-8")
    (bench.place / ".a.text").symlink_to(own)
    assert bench.do(Step(id="a", run="seq 1 20000")).summary.endswith("/.a.text)")
    assert own.read_text(encoding="utf-8") == "mine"


def test_items_that_were_cut_away_are_a_failure_and_not_nothing_to_do(tmp_path: Path) -> None:
    step = Step(id="a", run="seq -f %0150.0f 9000")
    bench = Bench(tmp_path)
    end = bench.do(step, steps=(step, Step(id="each", do="x", foreach="a.lines")))
    assert end.status == "failed"
    assert str(end.error).startswith("its output is too long to go over the items of it")
    assert bench.do(step).status == "done"


def test_a_text_that_can_t_be_kept_whole_is_cut_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.worker = structs.replace(bench.worker, workspace=bench.place / "gone")
    end = bench.run("seq 1 20000")
    assert end.status == "done"
    assert "the whole could not be kept" in end.summary


# -- limits ---------------------------------------------------------------------------------------


def looking(*names: str) -> list[Reply]:
    return [calls("read_file", path=name) for name in names]


def test_an_agent_s_turns_tokens_and_time_are_those_of_its_step(tmp_path: Path) -> None:
    bench = Bench(tmp_path, *looking("a", "b", "c"), "done")
    end = bench.do(Step(id="a", do="x", max_turns=2))
    assert (end.status, len(bench.model.requests)) == ("failed", 2)
    assert "no end after 2 model calls" in end.summary

    thick = [structs.replace(reply, usage=Usage(input_tokens=60)) for reply in looking("a", "b")]
    bench = Bench(tmp_path, *thick, "done")
    end = bench.do(Step(id="a", do="x", max_tokens=100))
    assert (end.status, len(bench.model.requests)) == ("failed", 2)
    assert "120 of 100 tokens are spent" in end.summary
    assert end.usage.input_tokens == 120

    bench = Bench(tmp_path, calls("bash", command="sleep 60"), "never")
    end = bench.do(Step(id="a", do="x", timeout=0.5))
    assert (end.status, end.summary) == ("failed", "time ran out after 0.5 s")
    assert not bench.stop.is_set


def test_a_run_whose_time_is_up_cancels_its_steps(tmp_path: Path) -> None:
    bench = Bench(tmp_path, calls("bash", command="sleep 60"), "never")
    stop = Stop(seconds=0.3)
    bench.worker = structs.replace(
        bench.worker, context=structs.replace(bench.worker.context, stop=stop)
    )
    assert bench.do(Step(id="a", do="x")).status == "cancelled"
    assert stop.why == TIME
    assert bench.run("echo x").status == "cancelled"


def test_what_an_agent_kept_ends_with_it(tmp_path: Path) -> None:
    class Kept:
        closed = 0

        def __init__(self, context: Context) -> None:
            pass

        def close(self) -> None:
            Kept.closed += 1

    @tool(writes=False)
    def keep(context: Context) -> str:
        """Keep something."""
        context.own(Kept)
        return "kept"

    for last in ("done", ServiceError("gone")):
        bench = Bench(tmp_path, calls("keep"), last)
        bench.worker = structs.replace(bench.worker, tools={"keep": keep})
        bench.do(Step(id="a", do="x"))
    assert Kept.closed == 2


def test_a_run_s_budget_is_no_failure_of_a_step(tmp_path: Path) -> None:
    reply = structs.replace(looking("a")[0], usage=Usage(input_tokens=60))
    bench = Bench(tmp_path, reply, reply, "done", tokens=50)
    end = bench.do(Step(id="a", do="x", max_tokens=50))
    assert end.status == "cancelled"
    assert bench.stop.why == 4


@pytest.mark.parametrize(("error", "code"), [(ServiceError("x"), 75), (SetupError("x"), 3)])
def test_a_service_that_can_t_be_reached_stops_the_run(
    tmp_path: Path, error: ModelError, code: int
) -> None:
    bench = Bench(tmp_path, error)
    assert bench.do(Step(id="a", do="x")).status == "cancelled"
    assert (bench.stop.why, bench.stop.words) == (code, "x")


def test_a_model_that_refuses_or_repeats_cut_replies_fails_the_step_alone(tmp_path: Path) -> None:
    refused = Reply(message=Message(role="assistant", text="I won't"), stop="refused")
    for reply in (refused, CutError("cut 3 times", hint="smaller")):
        bench = Bench(tmp_path, reply)
        end = bench.do(Step(id="a", do="x"))
        assert end.status == "failed"
        assert not bench.stop.is_set


def test_a_bug_of_ours_stops_the_run_and_tells_where(tmp_path: Path) -> None:
    def broken(request: Request, say: Say) -> Reply:
        raise ZeroDivisionError("a bug")

    bench = Bench(tmp_path)
    bench.worker = structs.replace(bench.worker, models=lambda *of: broken)
    end = bench.do(Step(id="a", do="x"))
    assert end.status == "cancelled"
    assert bench.stop.why == 70
    (notice,) = (event for event in bench.events if isinstance(event, Notice))
    assert "ZeroDivisionError: a bug" in notice.text
    assert "test_step.py" in notice.text


def test_a_step_s_model_is_the_one_it_names(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "x", "y")
    bench.do(Step(id="a", do="x"))
    bench.do(Step(id="a", do="x", model="small"))
    assert bench.named == ["main", "small"]


# -- permissions ----------------------------------------------------------------------------------


def test_a_call_that_nobody_can_be_asked_about_fails_the_step_whatever_the_model_says(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, calls("bash", command="make"), report(summary="fine"), mode="default")
    end = bench.do(Step(id="a", do="x"))
    assert end.status == "failed"
    assert end.error == "a permission was needed and nobody could be asked\nfine"
    assert bench.denied == [("bash", "nobody")]
    (result,) = bench.model.requests[1].messages[-1].results
    assert "nobody can be asked" in result.text, "the model is told, the conversation goes on"


def test_a_call_that_a_rule_or_the_user_denies_is_told_and_no_reason_to_fail(
    tmp_path: Path,
) -> None:
    make = calls("bash", command="make")
    bench = Bench(tmp_path, make, report(), rules=Rules(deny=("bash(make)",)))
    assert bench.do(Step(id="a", do="x")).status == "done"
    assert bench.denied == [("bash", "rule")]

    def no(question: Question) -> Answer:
        assert (question.step, question.tool, question.text) == ("a", "bash", "make")
        return Answer(choice="no", words="use ninja")

    bench = Bench(tmp_path, make, report(), mode="default", ask=no)
    assert bench.do(Step(id="a", do="x")).status == "done"
    assert "use ninja" in bench.model.requests[1].messages[-1].results[0].text


def test_the_commands_of_a_plan_that_the_user_named_are_their_own_word(tmp_path: Path) -> None:
    step = Step(id="a", run="env echo ran", verify="true")
    commands = ["env echo ran", "true"]
    assert Bench(tmp_path, mode="default", vouched=commands).do(step).status == "done"
    end = Bench(tmp_path, mode="default", vouched=["true"]).do(step)
    assert (end.status, end.summary) == ("failed", "")
    assert "nobody can be asked" in str(end.error)
    for more in ({"mode": "plan"}, {"rules": Rules(deny=("bash(echo *)",))}):
        end = Bench(tmp_path, vouched=commands, **more).do(step)
        assert (end.status, end.summary) == ("failed", "")
    bench = Bench(tmp_path, vouched=commands, mode="default", rules=Rules(ask=("bash(echo *)",)))
    assert bench.do(step).status == "failed"
    assert any(isinstance(event, PermissionAsked) for event in bench.events)
    bench = Bench(
        tmp_path, calls("bash", command="env echo ran"), "x", vouched=commands, mode="default"
    )
    assert bench.do(Step(id="a", do="x")).status == "failed", "an agent's call is not the plan's"


NARROW: list[tuple[dict[str, Any], Reply, str]] = [
    ({"tools": ("read_file",)}, calls("bash", command="x"), "may only use read_file"),
    ({"tools": ()}, calls("read_file", path="x"), "may only use no tools"),
    ({"permissions": Permissions(deny=("Bash(rm *)",))}, calls("bash", command="rm x"), "forbids"),
    (
        {"permissions": Permissions(allow=("edit_file(src/**)",))},
        calls("write_file", path="x", content=""),
        "this step forbids it",
    ),
    ({"within": (Permissions(deny=("bash",)),)}, calls("bash", command="x"), "forbids"),
    ({"writes": ()}, calls("write_file", path="x", content=""), "changes nothing in the project"),
]


@pytest.mark.parametrize(("says", "call", "words"), NARROW)
def test_r26_what_a_step_says_of_tools_and_permissions_only_narrows(
    tmp_path: Path, says: dict[str, Any], call: Reply, words: str
) -> None:
    bench = Bench(tmp_path, call, report(summary="as far as I could"))
    end = bench.do(Step(id="a", do="x", **says))
    assert end.status == "done", "refused by its own plan, not for want of someone to ask"
    assert words in bench.model.requests[1].messages[-1].results[0].text
    assert [by for _, by in bench.denied] == ["step"]
    offered = [tool["name"] for tool in bench.model.requests[0].tools]
    assert offered[:4] == ["read_file", "write_file", "edit_file", "bash"], "the list is not cut"


def test_a_step_can_t_allow_itself_what_the_run_does_not(tmp_path: Path) -> None:
    call = calls("bash", command="make")
    step = Step(id="a", do="x", permissions=Permissions(allow=("bash(make)",)))
    bench = Bench(tmp_path, call, "x", mode="default")
    assert bench.do(step).status == "failed"
    assert bench.denied == [("bash", "nobody")]
    for narrow in (step, structs.replace(step, tools=())):
        bench = Bench(tmp_path, call, "x", rules=Rules(deny=("bash",)))
        bench.do(narrow)
        assert bench.denied == [("bash", "rule")]


def test_tools_of_a_step_may_have_the_names_that_others_use(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text", encoding="utf-8")
    bench = Bench(tmp_path, calls("read_file", path="a"), report())
    bench.do(Step(id="a", do="x", tools=("Read",)))
    assert bench.denied == []


def test_the_check_of_a_step_is_not_its_agent_s_to_be_allowed(tmp_path: Path) -> None:
    step = Step(
        id="a",
        do="x",
        verify="touch checked",
        tools=("read_file",),
        permissions=Permissions(allow=("read_file",)),
    )
    assert Bench(tmp_path, report()).do(step).status == "done"
    assert (tmp_path / "checked").exists()
    denied = structs.replace(step, permissions=Permissions(deny=("bash(touch *)",)))
    end = Bench(tmp_path, report()).do(denied)
    assert (end.status, end.summary) == ("failed", "did it")
    assert "forbids it" in str(end.error)


def test_a_step_that_writes_nothing_may_leave_its_files_in_the_workspace(tmp_path: Path) -> None:
    bench = Bench(tmp_path, mode="default")
    path = f"{bench.place.relative_to(bench.home)}/notes.md"
    bench = Bench(tmp_path, calls("write_file", path=path, content="x"), report(), mode="default")
    end = bench.do(Step(id="a", do="x", writes=(), outputs=("notes.md",)))
    assert (end.status, bench.denied) == ("done", [])
    bench = Bench(tmp_path, calls("write_file", path=path, content="x"), report(), mode="plan")
    bench.do(Step(id="a", do="x"))
    assert bench.denied == [("write_file", "mode")], "plan mode changes nothing at all"


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "src").symlink_to("secret")
    for path in ("src/a", "x/../secret/a", str(tmp_path.resolve() / "secret/a")):
        rules = Rules(allow=("edit_file(src/**)",), deny=("edit_file(secret/**)",))
        bench = Bench(tmp_path, calls("write_file", path=path, content="x"), report(), rules=rules)
        bench.do(Step(id="a", do="x"))
        assert bench.denied == [("write_file", "rule")], path
    assert not list((tmp_path / "secret").iterdir())


# -- two at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [None, ("state.md",), ("*.md",)])
def test_c080_two_steps_that_change_one_file_both_hold_each_time(
    tmp_path: Path, writes: tuple[str, ...] | None
) -> None:
    file = tmp_path / "state.md"
    made = Plan(steps=tuple(Step(id=id, do="x", writes=writes) for id in "ab"))
    for _ in range(15):
        file.write_text("a: -\nb: -\n", encoding="utf-8")
        replies = [
            Line(whom=id, calls=calls)
            for id in "ab"
            for calls in (
                (ScriptCall(name="read_file", input={"path": "state.md"}),),
                (
                    ScriptCall(
                        name="edit_file",
                        input={
                            "path": "state.md",
                            "old_string": f"{id}: -",
                            "new_string": f"{id}: done",
                        },
                    ),
                ),
                (ScriptCall(name="report", input={"status": "done", "summary": id}),),
            )
        ]
        bench = Bench(tmp_path)
        bench.model = Script(replies)
        state = State.of([PlanCreated(plan=made, source="file")])
        with ThreadPoolExecutor(2) as threads:
            pool = ExecutorPool(threads, 2, bench.worker, bench.stop)
            end = drive(state, pool, lambda event: event)
        assert end.outcome == "done"
        assert file.read_text(encoding="utf-8") == "a: done\nb: done\n"


# -- revisions ------------------------------------------------------------------------------------


DONE, BAD, LATER = (
    Step(id="done", do="x", writes=()),
    Step(id="bad", do="y", needs=("done",)),
    Step(id="later", do="z", needs=("bad",)),
)


def revision(bench: Bench) -> Event:
    job = Revise(
        step=BAD,
        failure="it broke",
        goal="the goal",
        steps=(DONE, BAD, LATER),
        standing={"done": "done", "bad": "failed", "later": "waiting"},
        kept=(DONE,),
    )
    return bench.ended(job)


def revise(**input: Any) -> Reply:
    return calls("revise_plan", **input)


def test_a_failure_is_judged_by_one_call_that_is_offered_one_tool(tmp_path: Path) -> None:
    bench = Bench(tmp_path, revise(action="skip", because="no use"))
    assert revision(bench) == PlanRevised(step="bad", action="skip", because="no use")
    (request,) = bench.model.requests
    assert [tool["name"] for tool in request.tools] == ["revise_plan"]
    assert (request.must, request.system) == ("revise_plan", "R")
    for words in ("the goal", "- bad [failed] (needs done): y", "it broke", "may need: done"):
        assert words in bench.told


def test_a_retry_may_tell_the_step_otherwise(tmp_path: Path) -> None:
    event = revision(Bench(tmp_path, revise(action="retry", because="b", do="better")))
    assert isinstance(event, PlanRevised)
    assert event.plan is not None
    assert [step.do for step in event.plan.steps] == ["x", "better", "z"]
    event = revision(Bench(tmp_path, revise(action="retry", because="b")))
    assert event == PlanRevised(step="bad", action="retry", because="b")


def test_a_replacement_keeps_what_is_kept_and_may_use_skills(tmp_path: Path) -> None:
    def find(name: str) -> Plan:
        assert name == "mend"
        return convert({"steps": [{"id": "a", "do": "mend $1"}]})

    steps = [
        {"id": "done", "do": "again?"},
        {"id": "other", "skill": "mend it", "needs": ["done"]},
        {"id": 9, "run": "true", "needs": "other"},
    ]
    event = revision(Bench(tmp_path, revise(action="replace", steps=steps), find=find))
    assert isinstance(event, PlanRevised)
    assert event.plan is not None
    assert [(step.id, step.part_of) for step in event.plan.steps] == [
        ("done", ""),
        ("other", ""),
        ("other.a", "other"),
        ("9", ""),
    ]
    assert event.plan.steps[0] == DONE, "a step that is done stays as it was"
    assert event.plan.steps[2].given["1"] == "it"
    assert event.kept == ("done",)


def test_a_skill_s_steps_in_a_replacement_are_checked_too(tmp_path: Path) -> None:
    steps = [{"id": "n", "skill": "s"}, {"id": "n.a", "do": "x"}]
    skill = convert({"steps": [{"id": "a", "do": "x"}]})
    event = revision(
        Bench(tmp_path, revise(action="replace", steps=steps), find=lambda name: skill)
    )
    assert isinstance(event, RevisionFailed)
    assert "2 steps have the id 'n.a'" in event.because


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("I would try again.", "called no revise_plan"),
        (calls("submit_plan", goal="g", steps=[]), "called no revise_plan"),
        (revise(action="restart", because=""), "Invalid enum value 'restart'"),
        (revise(action="replace", steps=[]), "names no step that is still to be done"),
        (revise(action="replace", steps=[{"id": "done", "do": "x"}]), "names no step"),
        (revise(action="replace", steps=[{"id": "n", "do": "x", "needs": ["bad"]}]), "'bad'"),
        (revise(action="replace", steps=[{"id": "n", "neds": []}]), "did you mean 'needs'?"),
        (revise(action="replace", steps=[{"id": "n", "do": 3}]), "Expected `str | null`"),
        (revise(action="replace", steps=[{"id": "n", "skill": "gone"}]), "no skill 'gone'"),
        (revise(action="replace", steps=[{"id": "n", "do": "x", "given": {}}]), "'given'"),
        (CutError("cut 3 times"), "cut 3 times"),
        (UsageError("no such model"), "no such model"),
    ],
)
def test_what_is_no_valid_revision_leaves_the_step_failed(
    tmp_path: Path, reply: Reply | str | Exception, words: str
) -> None:
    bench = Bench(tmp_path, reply)
    event = revision(bench)
    assert isinstance(event, RevisionFailed)
    assert event.step == "bad"
    assert words in event.because
    assert not bench.stop.is_set


def test_a_service_s_failure_is_no_answer_to_a_failure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ServiceError("overloaded"))
    event = revision(bench)
    assert isinstance(event, Notice)
    assert event.step == "bad"
    assert bench.stop.why == 75


def test_a_model_that_can_t_be_had_for_a_revision_is_no_endless_question(tmp_path: Path) -> None:
    def none(name: str, stop: Stop, emit: Emit) -> Provider:
        raise UsageError("the price is not known")

    bench = Bench(tmp_path)
    bench.worker = structs.replace(bench.worker, models=none)
    assert revision(bench) == RevisionFailed(step="bad", because="the price is not known")


# -- what the user says meanwhile --------------------------------------------------------------


def saying(wish: Wish, words: str = "") -> UserSaid:
    return UserSaid(step="a", wish=wish, words=words)


def test_an_agent_hears_the_user_before_its_next_call_and_from_then_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, calls("bash", command="true"), calls("bash", command="true"), "done")
    reins = bench.worker.reins
    reins.begin("a")
    reins.hand_on(saying("tell", "use tabs"))
    bench.do(Step(id="a", do="x"))
    first, *_, last = [request.messages for request in bench.model.requests]
    assert first[0].text.endswith("<user>\nuse tabs\n</user>")
    assert last[0].text == first[0].text
    assert all("use tabs" not in message.text for message in last[1:])


def test_an_agent_that_has_ended_is_called_once_more_for_words_that_came_late(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, "is done", "with tabs")
    reins, model = bench.worker.reins, bench.model

    def late(request: Request, say: Say) -> Reply:
        reply = model(request, say)
        if len(model.requests) == 1:
            reins.hand_on(saying("tell", "use tabs"))
        return reply

    reins.begin("a")
    bench.worker = structs.replace(bench.worker, models=lambda name, stop, emit: late)
    assert bench.do(Step(id="a", do="x")).summary == "with tabs"
    assert model.requests[-1].messages[-1].text == "<user>\nuse tabs\n</user>"


def test_a_command_and_an_agent_are_ended_by_the_user(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "never")
    reins = bench.worker.reins
    for step in (Step(id="a", run="sleep 60"), Step(id="a", do="x")):
        reins.begin("a")
        reins.hand_on(saying("stop"))
        end = bench.do(step)
        assert (end.status, end.summary) == ("cancelled", "ended by the user")
        reins.end("a")
    assert not bench.stop.is_set

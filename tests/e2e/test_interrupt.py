"""Signals at every phase of ts: how it ends, how soon, and that nothing is left (see conftest)."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TypeAlias

import pexpect
import pytest

from tests.e2e.test_chat_start import chatting, prompted
from tests.e2e.ts import MAIN, ROOT, Ts, call, calling
from tests.servers import Answer, OpenAIServer, Scripted, failing

SOON = 5.0  # seconds; half a one on an idle machine
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
INT, TERM, HUP = CODES
WILD = '(sleep 61 &); setsid sleep 62 & trap "" INT TERM HUP; echo > began; sleep 63; sleep 64'


def bash(command: str, **more: object) -> Answer:
    return Answer(calls=(("t1", "bash", json.dumps({"command": command, **more})),))


Ready: TypeAlias = Callable[[Ts, OpenAIServer], bool]


def asked(ts: Ts, server: OpenAIServer, times: int = 1) -> bool:
    until = monotonic() + 30
    while len(server.requests) < times and monotonic() < until:
        os.sched_yield()
    return len(server.requests) >= times


def began(ts: Ts, server: OpenAIServer) -> bool:
    return ts.there("began")


def reached(ts: Ts, chat: pexpect.spawn, name: str) -> bool:
    """Wait until a file is there; what is shown is read, or the terminal would be full."""
    until = monotonic() + 30
    while not (ts.cwd / name).exists() and monotonic() < until:
        with suppress(pexpect.TIMEOUT):
            chat.read_nonblocking(65_536, 0.02)
    return (ts.cwd / name).exists()


def in_background(ts: Ts, server: OpenAIServer) -> bool:
    return began(ts, server) and asked(ts, server, 2)


PLAN = "steps: [{id: a, do: x, writes: []}, {id: b, do: y, writes: []}, {id: c, run: sleep 65}]"
PHASES: dict[str, tuple[list[Scripted], Ready, signal.Signals]] = {
    "first byte": ([Answer(late=60)], asked, INT),
    "stream": ([Answer(text="word " * 2000, end="hang")], asked, TERM),
    "retry": ([failing(429, "rate_limit_error", retry_after="30")], asked, HUP),
    "command": ([bash(WILD), Answer()], began, INT),
    "job": ([bash(WILD, background=True), Answer(late=60)], in_background, TERM),
}


@pytest.mark.parametrize("phase", PHASES)
def test_r100_r101_a_prompt_ends_soon_wherever_it_stands(ts: Ts, phase: str) -> None:
    answers, ready, number = PHASES[phase]
    with OpenAIServer(answers, lenient=True) as server:
        ts.asks(server)
        with ts.started("-p", "go", "-y", "--output-format", "json") as process:
            assert ready(ts, server)
            sent = monotonic()
            process.send_signal(number)
            out, _ = process.communicate(timeout=20)
            assert monotonic() - sent < SOON
    assert process.returncode == CODES[number]
    assert json.loads(out)["subtype"] == "error_interrupted"


@pytest.mark.parametrize("number", CODES)
def test_r101_steps_at_work_end_soon_and_the_run_can_be_gone_on_with(
    ts: Ts, number: signal.Signals
) -> None:
    ts.write("plan.yaml", PLAN)
    with OpenAIServer([Answer(late=60)], lenient=True) as server:
        ts.asks(server)
        with ts.started("run", "plan.yaml", "--output-format", "json") as process:
            assert asked(ts, server, 2)
            sent = monotonic()
            process.send_signal(number)
            out, _ = process.communicate(timeout=20)
            assert monotonic() - sent < SOON
    assert process.returncode == CODES[number]
    told = json.loads(out)
    assert {step["status"] for step in told["steps"].values()} == {"cancelled"}
    assert ts.log()[-1]["status"] == "interrupted"


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_input_is_waited_for_ends_ts_without_a_word(
    ts: Ts, number: signal.Signals
) -> None:
    begun = ts.cwd / "begun"
    code = (
        "import sys; sys.argv[1:] = ['-p']; from pathlib import Path; from agent import cli\n"
        "import agent.commands.work as work; read = work.piped\n"
        f"def piped(prompt): Path({str(begun)!r}).write_text('x'); return read(prompt)\n"
        "work.piped = piped; sys.exit(cli.main())"
    )
    with subprocess.Popen(
        [MAIN[0], "-c", code], cwd=ts.cwd, env=ts.environment({"PYTHONPATH": str(ROOT)}),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert ts.there("begun")
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (CODES[number], b"", b"")


def test_r101_a_killed_ts_leaves_nothing_running_and_no_file_behind(ts: Ts) -> None:
    answers = [bash("echo kept; " + WILD, background=True), Answer(late=60)]
    with OpenAIServer(answers, lenient=True) as server:
        ts.asks(server)
        with subprocess.Popen(
            [*MAIN, "-p", "go", "-y"], cwd=ts.cwd, env=ts.environment({}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert in_background(ts, server)
            assert [*ts.temporary.iterdir()]
            process.kill()
            process.communicate(timeout=20)  # nobody holds its output


def test_a_hang_up_that_nohup_ignores_ends_nothing(ts: Ts) -> None:
    ts.write(
        "plan.yaml", "steps: [{id: a, run: 'echo > began; until [ -e go ]; do sleep 0.05; done'}]"
    )
    line = 'trap "" HUP; exec "$@"'
    with subprocess.Popen(
        ["bash", "-c", line, "x", *MAIN, "run", "plan.yaml"], cwd=ts.cwd, env=ts.environment({}),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert ts.there("began")
        process.send_signal(HUP)
        ts.write("go", "")
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_r100_a_second_ctrl_c_leaves_a_chat_whatever_runs(ts: Ts) -> None:
    deaf = 'trap "echo > heard" TERM; echo > began; while :; do sleep 0.05; done'
    ts.model = ts.script(calling(call("bash", command=deaf)), {"text": "late", "seconds": 30})
    with chatting(ts, "go", "-y") as chat:
        assert reached(ts, chat, "began")
        sent = monotonic()
        chat.sendintr()
        assert reached(ts, chat, "heard")  # two that come at once are one
        chat.sendintr()
        chat.expect(pexpect.EOF)
        assert monotonic() - sent < SOON
    assert chat.exitstatus == 130


def test_r100_ctrl_c_ends_a_turn_and_the_chat_goes_on(ts: Ts) -> None:
    ts.model = ts.script(calling(call("bash", command=WILD)), "never said", "next answer")
    with chatting(ts, "go", "-y") as chat:
        assert reached(ts, chat, "began")
        chat.sendintr()
        prompted(chat)
        assert not [what for what in ts.running().values() if what.startswith("sleep")]
        chat.sendcontrol("d")
        chat.expect(pexpect.EOF)
    assert chat.exitstatus == 0


def test_r101_a_terminal_that_is_closed_ends_a_turn(ts: Ts) -> None:
    ts.model = ts.script(calling(call("bash", command=WILD)), "late")
    with chatting(ts, "go", "-y") as chat:
        assert reached(ts, chat, "began")
        chat.ptyproc.fileobj.close()
        chat.ptyproc.closed = True  # so that it is not closed again
        until = monotonic() + SOON
        while ts.left() and monotonic() < until:
            os.sched_yield()
        assert ts.left() == {}

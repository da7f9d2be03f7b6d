"""What may be spent: money, tokens, turns and time of a run, a chat, a step; on both wires."""

import json
import re
import signal
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest

from tests.e2e.screen import chatting
from tests.e2e.ts import Ran, Ts, call, calling
from tests.servers import Answer, AnthropicServer, Drip, OpenAIServer, Scripted, Server, failing

FOUR = [{"id": id, "do": id, "writes": []} for id in "abcd"]
THOUSAND = Answer("ok", usage=(900, 100, 0, 0))
DOLLAR = Answer("ok", usage=(4000, 200, 0, 0))  # at PRICES
PRICES = "max_output_tokens: 1000\nprices: {fake-model: {input: 200, output: 1000}}\n"


@pytest.fixture(params=[AnthropicServer, OpenAIServer], ids=["anthropic", "openai"])
def kind(request: pytest.FixtureRequest) -> type[Server]:
    wire: type[Server] = request.param
    return wire


@pytest.fixture
def limited(ts: Ts) -> Ts:
    """A user in a directory with a plan of four steps, whose model has a price."""
    ts.write("plan.yaml", "goal: all\nsteps: " + json.dumps(FOUR))
    place = ts.home / ".config/tianshu/settings.yaml"
    place.write_text(PRICES + place.read_text(encoding="utf-8"), encoding="utf-8")
    return ts


def statuses(ran: Ran) -> list[str]:
    return sorted(step["status"] for step in ran.json["steps"].values())


def tries(server: Server) -> int:
    """Requests of steps; others judge their failures."""
    return sum('<step id=\\"' in json.dumps(ask.json["messages"]) for ask in server.requests)


def notices(ran: Ran) -> str:
    return "\n".join(line for line in ran.err.splitlines() if line.startswith("! "))


@pytest.mark.parametrize(
    ("flag", "limit", "answer", "higher"),
    [
        ("--max-tokens-total", "2500", THOUSAND, "6000"),
        ("--max-budget-usd", "2.5", DOLLAR, "6.00"),
    ],
    ids=["tokens", "money"],
)
def test_r91_steps_side_by_side_pass_a_limit_by_one_call_at_most_and_the_run_can_be_gone_on_with(
    limited: Ts, kind: type[Server], flag: str, limit: str, answer: Answer, higher: str
) -> None:
    with kind([answer]) as server:
        limited.asks(server)
        ran = limited.here("run", "plan.yaml", flag, limit, "--output-format", "json")
        assert len(server.requests) == 3
        assert (ran.code, ran.json["status"]) == (4, "over-budget")
        assert ran.json["subtype"] == "error_max_budget_usd"
        assert statuses(ran) == ["cancelled", "done", "done", "done"]
        assert limited.log()[-1]["status"] == "over-budget"
        run, error = ran.json["run_id"], ran.json["error"]
        assert error["code"] == "over-budget"
        assert "are spent" in error["message"]
        assert error["hint"] == f"`ts resume {run} {flag} {higher}` goes on with the run"
        again = limited.here("resume", run, flag, limit, "--output-format", "json")
        assert (again.code, len(server.requests)) == (4, 3), "earlier spending counts"
        more = re.findall(r"ts resume (\S+) (\S+) (\S+)`", error["hint"])[0]
        last = limited.here("resume", *more, "--output-format", "json")
        assert (last.code, statuses(last), len(server.requests)) == (0, ["done"] * 4, 4)


def test_r91_a_chat_and_its_run_have_one_budget(limited: Ts, kind: type[Server]) -> None:
    plan = json.dumps({"goal": "all", "steps": FOUR})
    made = Answer(calls=(("c1", "submit_plan", plan),), usage=(900, 100, 0, 0))
    with kind([made, THOUSAND]) as server:
        limited.asks(server)
        words = ["--plan", "--max-tokens-total", "2500", "--output-format", "json"]
        ran = limited.here("-p", "do it", *words)
        assert (ran.code, len(server.requests)) == (4, 3)
        assert statuses(ran) == ["cancelled", "cancelled", "done", "done"]
        assert ran.json["usage"]["input_tokens"] == 2700


def test_a_budget_is_warned_of_once_at_four_fifths(limited: Ts) -> None:
    with AnthropicServer([THOUSAND]) as server:
        limited.asks(server)
        ran = limited.here("run", "plan.yaml", "--max-tokens-total", "4500")
    assert ran.code == 0
    assert notices(ran).count("of the budget is spent") == 1
    assert "89% of the budget is spent" in notices(ran)


def test_a_limit_on_money_needs_the_price_of_every_model_that_is_asked(limited: Ts) -> None:
    limited.write("plan.yaml", "steps: [{id: a, do: a, model: anthropic/other, attempts: 1}]")
    with AnthropicServer([THOUSAND]) as server:
        limited.asks(server)
        ran = limited.here("run", "plan.yaml", "--max-budget-usd", "1", "--output-format", "json")
        assert tries(server) == 0
    assert ran.code == 1
    assert "the price of anthropic/other is not known" in ran.json["steps"]["a"]["summary"]


# -- a step's own limits -------------------------------------------------------------------------


def look(number: int) -> dict[str, Any]:
    usage = {"input_tokens": 900, "output_tokens": 100}
    return calling(call("bash", command=f"echo {number}"), usage=usage)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("max_turns: 2", "no end after 2 model calls (raise --max-turns, or max_turns)"),
        ("max_tokens: 1500", "2,000 of 1,500 tokens are spent (a higher max_tokens of the step"),
        ("timeout: 0.3", "time ran out after 0.3 s"),
    ],
)
def test_r91_an_attempt_that_reaches_its_step_s_own_limit_fails_and_says_so(
    ts: Ts, limit: str, why: str
) -> None:
    ts.write("plan.yaml", f"steps: [{{id: a, do: a, attempts: 1, {limit}}}]")
    replies = [look(n) for n in range(2)]
    if "timeout" in limit:
        replies = [{**look(1), "seconds": 20.0}]
    ts.model = ts.script(*replies)
    ran = ts.here("run", "plan.yaml", "-y", "--output-format", "json")
    assert (ran.code, ran.json["steps"]["a"]["status"]) == (1, "failed")
    assert why in ran.json["steps"]["a"]["summary"]


def test_r91_a_step_s_own_limit_of_money(limited: Ts) -> None:
    limited.write("plan.yaml", "steps: [{id: a, do: a, attempts: 1, max_cost_usd: 0.5}]")
    asks = Answer(calls=(("c1", "read_file", '{"path": "plan.yaml"}'),), usage=(4000, 200, 0, 0))
    with AnthropicServer([asks]) as server:
        limited.asks(server)
        ran = limited.here("run", "plan.yaml", "--output-format", "json")
        assert tries(server) == 1
    assert ran.code == 1
    assert "$1.0000 of $0.5000 are spent" in ran.json["steps"]["a"]["summary"]


def test_an_agent_is_told_when_its_attempt_comes_near_its_end(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: a, max_turns: 8, writes: []}]")
    calls = [("c", "bash", json.dumps({"command": f"echo {n}"})) for n in range(7)]
    answers = [Answer(calls=(each,)) for each in calls]
    with AnthropicServer([*answers, Answer("done")]) as server:
        ts.asks(server)
        ran = ts.here("run", "plan.yaml", "-y")
    assert ran.code == 0
    sent = [json.dumps(unmarked(ask.json["messages"])) for ask in server.requests]
    told = ["3 model calls are left" in each for each in sent]
    assert told == [False] * 5 + [True] * 3
    for before, after in pairwise(sent):
        assert after.startswith(before[:-1]), "the conversation only grows"


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def test_r91_a_step_that_only_repeats_itself_fails(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: a, attempts: 1}]")
    ts.model = ts.script(*[look(1)] * 9)
    ran = ts.here("run", "plan.yaml", "-y", "--output-format", "json")
    assert (ran.code, ran.json["num_turns"]) == (1, 4 + 1), "and what became of the plan"
    assert "did the same over and over" in ran.json["steps"]["a"]["summary"]
    ts.model = ts.script(*[look(1)] * 9)
    ran = ts.here("-p", "-y", "hi", "--output-format", "json")
    assert (ran.code, ran.json["num_turns"]) == (1, 4)
    assert "did the same over and over" in ran.json["error"]["message"]


# -- before it starts ----------------------------------------------------------------------------


def test_what_a_plan_may_cost_is_told_before_it_starts(limited: Ts) -> None:
    with AnthropicServer([THOUSAND]) as server:
        limited.asks(server)
        dry = limited.here("run", "plan.yaml", "--dry-run")
        assert dry.err == "· 4 steps, up to 4 at once, about $17.60–212.00 (a guess)\n"
        first = limited.here("run", "plan.yaml", "--max-workers", "2")
        assert "· 4 steps, up to 2 at once, about $17.60–212.00 (a guess)" in first.err
        second = limited.here("run", "plan.yaml")
        told = "· 4 steps, up to 4 at once, about $1.12 (by 4 earlier steps here)"
        assert told in second.err
        assert second.err.index(told) < second.err.index("plan: all")
        settings = limited.home / ".config/tianshu/settings.yaml"
        settings.write_text(settings.read_text(encoding="utf-8").removeprefix(PRICES), "utf-8")
        third = limited.here("run", "plan.yaml", "--dry-run")
        assert "about 4.0k tok, price unknown (by 8 earlier steps here)" in third.err
    limited.write("plan.yaml", "steps: [{id: a, run: 'true'}, {id: b, run: 'true'}]")
    assert "· 2 steps, no model is asked\n" in limited.here("run", "plan.yaml").err


def test_an_unknown_price_is_shown_as_unknown_everywhere(ts: Ts) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: a, writes: []}]")
    with AnthropicServer([THOUSAND]) as server:
        ts.asks(server)
        ran = ts.here("run", "plan.yaml")
        assert "cost unknown" in ran.err
        told = ts.here("run", "plan.yaml", "--output-format", "json").json
        assert told["total_cost_usd"] is None
    assert ts.log()[-1]["cost_usd"] is None
    for command, unknown in (("runs", "  ?\n"), ("show", "cost unknown")):
        assert unknown in ts.here(command).out
        assert "$0" not in ts.here(command).out
    assert ts.here("runs", "--json").events[0]["cost_usd"] is None
    assert ts.here("show", "--json").json["cost_usd"] is None


# -- a service that fails ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [failing(429, retry_after="3600"), failing(503)], ids=["wait an hour", "down"]
)
def test_r76_a_service_that_fails_in_mid_run_keeps_what_is_done(
    ts: Ts, fault: Scripted, kind: type[Server]
) -> None:
    if fault == failing(503) and kind is OpenAIServer:
        pytest.skip("eight seconds that show nothing more")
    ts.write("plan.yaml", "steps: [{id: a, do: a}, {id: b, do: b, needs: [a]}]")
    with kind([Answer("first"), fault]) as server:
        ts.asks(server)
        ran = ts.here("run", "plan.yaml", "--output-format", "json")
    run = ran.json["run_id"]
    assert (ran.code, ran.json["status"]) == (75, "interrupted")
    assert ran.json["error"]["code"] == "service-failed"
    assert f"`ts resume {run}`" in ran.json["error"]["hint"]
    assert ("3600 s" in ran.json["error"]["message"]) == (len(server.requests) == 2)
    assert len(server.requests) in {2, 1 + 5}, "the SDK tries nothing again by itself"
    with kind([Answer("second")]) as server:
        ts.asks(server)
        last = ts.here("resume", "--output-format", "json")
        assert (last.code, statuses(last)) == (0, ["done", "done"])
        assert len(server.requests) == 1, "what is done is not done again"


def test_r87_a_service_that_is_silent_is_given_up_after_as_long_as_was_said(
    ts: Ts, kind: type[Server]
) -> None:
    with kind([Drip(), Answer("x", late=20), Answer("hello")]) as server:
        ts.asks(server)
        begun = monotonic()
        ran = ts.here("-p", "hi", "--stream-idle", "0.4")
        assert (ran.code, ran.out) == (0, "hello\n")
        assert monotonic() - begun < 9
    assert len(server.requests) == 3
    assert ran.err.count("no sign of a reply for 0.4 s; trying again") == 2


def test_r75_ctrl_c_ends_the_wait_that_a_service_asked_for(ts: Ts, kind: type[Server]) -> None:
    with kind([failing(429, retry_after="59")]) as server:
        ts.asks(server)
        with ts.started("-p", "hi") as process:
            assert process.stderr
            while b"trying again in 59.0 s" not in process.stderr.readline():
                assert process.poll() is None
            begun = monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
            assert monotonic() - begun < 1
    assert len(server.requests) == 1


def test_c056_a_long_answer_that_is_cut_by_the_limit_comes_whole(
    ts: Ts, kind: type[Server]
) -> None:
    limit = "max_tokens" if kind is AnthropicServer else "length"
    cut = [Answer(text, stop=limit) for text in ("One, tw", "One, two, thr")]
    with kind([*cut, Answer("ee.")]) as server:
        ts.asks(server)
        assert ts.here("-p", "count", "-q").said == "One, two, three.\n"
        again = Answer("Four.")
        server._answers[:] = [again]
        assert ts.here("-c", "-p", "go on", "-q").said == "Four.\n"
        last = json.dumps(server.requests[-1].json["messages"])
    assert "One, two, three." in last
    assert "exactly where it stopped" not in last, "only the whole of it enters the conversation"


def test_c056_a_call_that_is_cut_by_the_limit_writes_nothing(ts: Ts, kind: type[Server]) -> None:
    limit = "max_tokens" if kind is AnthropicServer else "length"
    raw = '{"path": "big.py", "content": "def main():\\n    pri'
    with kind([Answer(calls=(("t1", "write_file", raw),), stop=limit)]) as server:
        ts.asks(server)
        ran = ts.here("-p", "-y", "write it", "--output-format", "json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "reply-cut")
    assert len(server.requests) == 4
    assert not (ts.cwd / "big.py").exists()


def test_r79_r81_a_call_without_what_it_needs_is_answered_before_anybody_is_asked(
    ts: Ts, kind: type[Server]
) -> None:
    empty = Answer(calls=(("t1", "write_file", "{}"), ("t1", "no_such_tool", "{}")))
    with kind([empty, Answer("I see.")]) as server:
        ts.asks(server)
        ran = ts.here("-p", "write it", "--output-format", "stream-json")
        last = json.dumps(server.requests[-1].json["messages"])
    assert ran.code == 0
    assert "permission.asked" not in {event["type"] for event in ran.events}
    assert "missing required field" in last
    assert "there is no tool 'no_such_tool'" in last, "one result for each of two calls of one id"
    assert server.refused == []


def test_r83_a_refusal_and_replies_of_nothing_fail_a_step_with_the_reason(
    ts: Ts, kind: type[Server]
) -> None:
    refused = Answer("I won't.", stop="refusal" if kind is AnthropicServer else "content_filter")
    ts.write("plan.yaml", "steps: [{id: a, do: a, attempts: 1}]")
    for answer, why, count in ((refused, "the model refused", 1), (Answer(), "was empty", 3)):
        with kind([answer]) as server:
            ts.asks(server)
            ran = ts.here("run", "plan.yaml", "--output-format", "json")
            assert tries(server) == count
        assert ran.code == 1
        assert why in ran.json["steps"]["a"]["summary"]


def test_r85_a_refused_key_ends_with_3_and_names_where_it_came_from(
    ts: Ts, kind: type[Server]
) -> None:
    with kind([failing(401, "authentication_error", "invalid key sk-test")]) as server:
        ts.asks(server)
        ran = ts.here("-p", "hi")
    assert ran.code == 3
    assert len(server.requests) == 1
    assert ("ANTHROPIC_API_KEY" if kind is AnthropicServer else "OPENAI_API_KEY") in ran.err
    assert "sk-test" not in ran.err


def test_a_chat_whose_budget_is_spent_names_the_command_that_goes_on_with_it(ts: Ts) -> None:
    ts.model = ts.script(*["answer"] * 4)
    with chatting(ts, "--max-tokens-total", "3") as chat:
        chat.asked()
        chat.says("one", "answer")
        chat.says("two", "answer")
        chat.says("three", "tokens are spent", "`ts -c --max-tokens-total ")
        assert "goes on with this chat" in chat.text
        assert chat.leaves() == 0

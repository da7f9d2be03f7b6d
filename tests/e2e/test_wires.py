"""`ts` against the services' wires: what is sent, how often, and what comes of their errors."""

import json
import threading
from pathlib import Path

import pytest

from tests.e2e.ts import Ts, types
from tests.servers import Answer, AnthropicServer, OpenAIServer, Plain, Server, failing

MOST_HEAD = 11_600  # bytes of tools and system prompt in an empty project: a line not to be passed
DIAMOND = [
    {"id": "look", "do": "look", "writes": []},
    {"id": "left", "do": "left", "needs": ["look"], "writes": ["left"]},
    {"id": "right", "do": "right", "needs": ["look"], "writes": ["right"]},
    {"id": "join", "do": "join", "needs": ["left", "right"], "writes": []},
]


@pytest.fixture(params=[AnthropicServer, OpenAIServer], ids=["anthropic", "openai"])
def kind(request: pytest.FixtureRequest) -> type[Server]:
    wire: type[Server] = request.param
    return wire


def plan(steps: object, goal: str = "the goal") -> Answer:
    """A reply that submits a plan."""
    return Answer(calls=(("c1", "submit_plan", json.dumps({"goal": goal, "steps": steps})),))


def offered(server: Server, number: int = -1) -> list[str]:
    """The names of the tools of a request, in order."""
    tools = server.requests[number].json.get("tools", [])
    return [str((tool.get("function") or tool)["name"]) for tool in tools]


def head(server: Server, number: int) -> tuple[str, str]:
    """The tools and the system prompt of a request, as they were sent."""
    body = server.requests[number].json
    system = body["system"] if "system" in body else body["messages"][0]
    compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return compact(body.get("tools")), compact(system)


def words(server: Server, number: int = -1) -> str:
    """All messages of a request."""
    return json.dumps(server.requests[number].json["messages"])


def test_a_plain_message_is_one_call_and_what_stands_before_it_is_short(
    ts: Ts, kind: type[Server]
) -> None:
    with kind([Answer(text="Hello.")]) as server:
        ts.asks(server)
        ran = ts.here("-p", "say hi", "--output-format", "json")
    assert (ran.code, ran.json["result"], ran.json["num_turns"]) == (0, "Hello.", 1)
    assert len(server.requests) == 1
    tools, system = head(server, 0)
    assert len(tools.encode()) + len(system.encode()) <= MOST_HEAD
    assert {"submit_plan", "run_skill", "read_file", "bash"} <= set(offered(server))


def test_planning_is_offered_hidden_forced_or_all_there_is(ts: Ts) -> None:
    steps = [*DIAMOND]
    with AnthropicServer([Answer(text="done")]) as server:
        ts.asks(server)
        ts.here("-p", "hi", "--no-plan")
        assert "submit_plan" not in offered(server)
        assert "submit_plan" not in head(server, -1)[1]
    with AnthropicServer([plan(steps), Answer(text="ok")]) as server:
        ts.asks(server)
        ran = ts.here("-p", "hi", "--plan", "--output-format", "json")
        assert server.requests[0].json["tool_choice"]["name"] == "submit_plan"
        assert {step["status"] for step in ran.json["steps"].values()} == {"done"}
    with AnthropicServer([plan(steps)]) as server:
        ts.asks(server)
        ran = ts.here("plan", "do it", "-o", "made.yaml")
        assert (ran.code, ran.out) == (0, "")
        assert "`ts run made.yaml` carries" in ran.err
        assert offered(server) == ["submit_plan"]
        assert len(server.requests) == 1
    made = (ts.cwd / "made.yaml").read_text(encoding="utf-8")
    assert made.startswith("goal: the goal\nsteps:\n  - id: look\n")
    assert ts.here("run", "made.yaml", "--dry-run").code == 0


def test_no_call_is_made_for_a_skill_of_commands(ts: Ts) -> None:
    ts.write(
        ".agent/skills/greet.yaml",
        "name: greet\ndescription: Greets.\narguments: [who]\nmatch: [say hello]\n"
        "steps:\n- id: one\n  run: echo \"hello $who.\"\n",
    )  # fmt: skip
    with AnthropicServer([Answer(text="from the model")]) as server:
        ts.asks(server)
        assert ts.here("-p", "--trust", "/greet you and me").said == "hello you.\n"
        assert ts.here("-p", "--trust", "Please say hello!").said == "hello .\n"
        assert ts.here("run", "--trust", "greet", "Ada").said == "hello Ada.\n"
        assert server.requests == []
        assert ts.here("-p", "--trust", "--no-skills", "say hello").said == "from the model\n"
        assert "run_skill" not in offered(server)
        assert ts.here("-p", "say hello").said == "from the model\n"
        assert ts.here("-p", "--trust", "--no-skills", "/greet Bo").said == "hello Bo.\n"
        assert len(server.requests) == 2


def test_a_diamond_runs_its_sides_at_once_and_all_steps_share_their_head(
    ts: Ts, kind: type[Server]
) -> None:
    both = threading.Barrier(2)

    def meet(body: dict[str, object]) -> str:
        text = json.dumps(body["messages"])
        if '<step id=\\"left\\">' in text or '<step id=\\"right\\">' in text:
            both.wait(20)
        return ""

    with kind([plan(DIAMOND), Answer(text="ok", usage=(10, 1, 3, 0))]) as server:
        server.refuses = meet
        ts.asks(server)
        ran = ts.here("-p", "build it", "--output-format", "stream-json")
    assert ran.code == 0
    *events, last = ran.events
    assert last["steps"]["join"] == {
        "status": "done", "summary": "ok", "outputs": [], "attempts": 1,
        "seconds": last["steps"]["join"]["seconds"],
    }  # fmt: skip
    assert (last["status"], last["num_turns"]) == ("done", 5)
    assert last["usage"]["input_tokens"] == 100 + 4 * 10
    assert last["usage"]["cache_read_input_tokens"] == 4 * 3
    assert last["result"] == "ok"
    heads = {head(server, number) for number in range(1, 5)}
    assert len(heads) == 1
    assert '<step id=\\"join\\">' in words(server, 4)
    begun = [event["step"] for event in events if event["type"] == "step.started"]
    assert (begun[0], set(begun[1:3]), begun[3]) == ("look", {"left", "right"}, "join")
    inside = [event for event in events if event["run"]]
    assert types(inside)[:2] == ["run.started", "plan.created"]
    assert types(inside)[-1] == "run.finished"
    assert [event["seq"] for event in inside] == [*range(1, len(inside) + 1)]
    logged = ts.log()
    assert [{**event, "crc": ""} for event in logged] == [{**event, "crc": ""} for event in inside]


def test_a_refused_plan_goes_back_twice_and_then_one_agent_does_the_task(ts: Ts) -> None:
    circle = plan([
        {"id": "a", "do": "x", "needs": ["b"]}, {"id": "b", "do": "y", "needs": ["a", "c"]},
    ])  # fmt: skip
    with AnthropicServer([circle, circle, circle, Answer(text="did it myself")]) as server:
        ts.asks(server)
        ran = ts.here("-p", "do it")
    assert (ran.code, ran.out) == (0, "did it myself\n")
    assert len(server.requests) == 4
    assert "without" in ran.err
    told = words(server, 1)
    assert "1. " in told
    assert "2. " in told
    assert "without a plan" in words(server, 3)


def test_a_short_chain_is_a_to_do_list_of_the_same_agent(ts: Ts) -> None:
    chain = [{"id": "a", "do": "one"}, {"id": "b", "do": "two", "needs": ["a"]}]
    with AnthropicServer([plan(chain), Answer(text="both done")]) as server:
        ts.asks(server)
        ran = ts.here("-p", "do it", "--output-format", "json")
    assert (ran.code, ran.json["result"], ran.json["run_id"]) == (0, "both done", None)
    assert "1. one\\n2. two" in words(server)


@pytest.mark.parametrize(
    ("answer", "code", "name"),
    [
        (failing(401, "authentication_error", "invalid x-api-key"), 3, "no-model"),
        (failing(529, "overloaded_error", "busy"), 75, "service-failed"),
    ],
    ids=["401", "529"],
)
def test_a_service_that_refuses_or_fails_has_its_own_exit_code(
    ts: Ts, answer: Plain, code: int, name: str
) -> None:
    ts.write("plan.yaml", "steps: [{id: a, do: x}, {id: b, needs: [a], run: echo}]")
    with AnthropicServer([answer]) as server:
        ts.asks(server)
        ran = ts.here("run", "plan.yaml", "--output-format", "json")
        assert (ran.code, ran.json["status"]) == (code, "interrupted")
        assert [step["status"] for step in ran.json["steps"].values()] == ["cancelled", "waiting"]
        assert "resume" in ran.json["error"]["hint"]
        assert "sk-test" not in ran.out + ran.err
        count = len(server.requests)
        assert count == 1 if code == 3 else 1 < count <= 5
        if code == 3:
            told = ts.here("-p", "hi", "--output-format", "json")
            assert (told.code, told.json["error"]["code"]) == (code, name)
            assert told.json["result"] == ""


def test_what_a_run_costs_is_told_and_a_sum_that_is_spent_ends_it_with_4(ts: Ts) -> None:
    prices = "prices: {anthropic/fake-model: {input: 1000, output: 10000, cache_read: 100}}"
    settings = str(ts.write("own.yaml", prices))
    with AnthropicServer([plan(DIAMOND), Answer(text="ok", usage=(100, 10, 1000, 0))]) as server:
        ts.asks(server)
        words = ("-p", "go", "--settings", settings, "--output-format", "json")
        ran = ts.here(*words)
        assert ran.json["total_cost_usd"] == pytest.approx(0.1 + 0.2 + 4 * 0.3)
    with AnthropicServer([plan(DIAMOND), Answer(text="ok", usage=(100, 10, 1000, 0))]) as server:
        ts.asks(server)
        ran = ts.here(*words, "--max-budget-usd", "0.5")
        assert (ran.code, ran.json["status"]) == (4, "over-budget")
        assert ran.json["subtype"] == "error_max_budget_usd"
        assert ran.json["total_cost_usd"] <= 1.0
        assert "$" in ran.json["error"]["message"]


def test_the_model_is_that_of_the_key_there_is_and_flags_reach_it(ts: Ts, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    path = json.dumps({"path": str(beside / "new.txt"), "content": "x"})
    replies = [Answer(calls=(("c1", "write_file", path),)), Answer(text="written")]
    with AnthropicServer(replies) as server:
        ts.env = {"ANTHROPIC_API_KEY": "sk-test", "ANTHROPIC_BASE_URL": server.url}
        words = ("--append-system-prompt", "Speak Latin.", "--add-dir", "../beside", "-y")
        assert ts.here("-p", "hi", *words).said == "written\n"
        sent = server.requests[0].json
        assert sent["model"].startswith("claude-")
        assert "Speak Latin." in head(server, 0)[1]
        assert (beside / "new.txt").read_text(encoding="utf-8") == "x"
        assert "sk-test" in server.requests[0].headers["authorization"]
        ts.here("-p", "hi", "--model", "anthropic/other")
        assert server.requests[-1].json["model"] == "other"
    with OpenAIServer([Answer(text="at home")]) as server:
        ts.env = {"COMPAT_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "sk-not-sent"}
        assert ts.here("-p", "hi", model="compat/own").said == "at home\n"
        assert "sk-not-sent" not in json.dumps(server.requests[0].headers)

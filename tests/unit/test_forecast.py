from pathlib import Path
from time import perf_counter

from agent.event import ModelCalled, RunStarted, StepFinished
from agent.message import Usage
from agent.plan import Plan, Step
from agent.store import history, log, workspace
from agent.views.forecast import forecast


def price(step: Step, usage: Usage) -> float | None:
    return {"free": 0.0, "secret": None}.get(step.model or "", usage.total / 1_000_000)


def used(*totals: int) -> list[Usage]:
    return [Usage(input_tokens=total) for total in totals]


def agents(*ids: str, model: str | None = None) -> Plan:
    return Plan(steps=tuple(Step(id=id, do=id, writes=(), model=model) for id in ids))


def test_a_range_goes_by_the_middle_half_of_earlier_steps() -> None:
    history = used(9_000_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 1)
    assert forecast(agents("a", "b"), 4, history, price) == (
        "2 steps, up to 2 at once, about $0.02–0.12 (by 8 earlier steps here)"
    )


def test_few_earlier_steps_count_all() -> None:
    told = forecast(agents("a"), 4, used(30_000, 90_000), price)
    assert told == "1 step, about $0.03–0.09 (by 2 earlier steps here)"


def test_without_earlier_steps_it_is_a_guess() -> None:
    assert forecast(agents("a"), 4, [], price) == "1 step, about $0.02–0.23 (a guess)"


def test_a_price_that_is_not_known_is_never_nothing() -> None:
    told = forecast(agents("a", "b", model="secret"), 1, used(30_000, 90_000), price)
    assert told == "2 steps, about 60–180k tok, price unknown (by 2 earlier steps here)"
    mixed = Plan(steps=(*agents("a").steps, *agents("b", model="secret").steps))
    assert "price unknown" in forecast(mixed, 4, [], price)
    told = forecast(agents("a", model="free"), 1, used(950, 90_000), price)
    assert told == "1 step, about 950 tok–90k tok, free of charge (by 2 earlier steps here)"


def test_commands_cost_nothing_and_a_step_for_each_item_may_cost_more() -> None:
    run = Step(id="r", run="ls", writes=())
    assert forecast(Plan(steps=(run,)), 4, [], price) == "1 step, no model is asked"
    each = Step(id="e", do="x", foreach="r.lines", needs=("r",), writes=())
    told = forecast(Plan(steps=(run, each)), 4, used(30_000), price)
    assert told == (
        "2 steps, about $0.03, more where a step is done for each item (by 1 earlier step here)"
    )


def test_history_is_read_from_the_ends_of_the_newest_logs_and_quickly(tmp_path: Path) -> None:
    assert history.used(tmp_path) == []
    names = iter(f"20261130-1200{n:02}-0000" for n in range(24))
    for n in range(24):
        place = workspace.begun(tmp_path, lambda: next(names))
        with log.Log(place.log) as record:
            record(RunStarted(goal="g", cwd="/", model="m", version="1"))
            usage = Usage(input_tokens=n + 1)
            for _ in range(300):  # a log of 200 KB
                record(
                    ModelCalled(
                        model="m" * 400, usage=usage, cost_usd=0.1, seconds=1, stop_reason="end"
                    )
                )
            record(StepFinished(step="a", status="done", summary="s" * 9000, usage=usage))
            record(StepFinished(step="b", status="cancelled", usage=usage))
            record(StepFinished(step="c", status="done"))
    (tmp_path / ".agent/runs/20261130-120023-0000.jsonl").write_bytes(b'{"type":"step.finished",')
    begun = perf_counter()
    found = history.used(tmp_path)
    assert perf_counter() - begun < 0.5  # 20 ms where nothing else runs
    assert [usage.input_tokens for usage in found] == [*range(23, 4, -1)]

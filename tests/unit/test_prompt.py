"""What a model reads of a plan that is too long to be told whole."""

from agent.engine import prompt
from agent.job import Attempt, Revise, Standing
from agent.plan import Step

STEPS = tuple(Step(id=f"s{n}", do=f"do {n}") for n in range(300))


def test_the_judge_of_a_failure_sees_the_failed_step_and_how_much_is_left_out() -> None:
    standing: dict[str, Standing] = {step.id: "waiting" for step in STEPS}
    job = Revise(
        step=STEPS[280],
        failure="no",
        goal="g",
        steps=STEPS,
        standing={**standing, "s280": "failed"},
        kept=(),
    )
    told = prompt.revision(job)
    assert "- s280 [failed]: do 280 ← failed\n" in told
    assert "- s281 [waiting]: do 281\n" in told
    assert f"- … and {300 - prompt.OUTLINE} more\n" in told


def test_an_agent_sees_its_own_step_among_its_neighbours() -> None:
    told = prompt.step(Attempt(step=STEPS[150], number=1, goal="", results=(), steps=STEPS), {}, "")
    assert "- s150: do 150 ← your step\n" in told
    assert "- s149: do 149\n" in told
    assert "- s0: " not in told

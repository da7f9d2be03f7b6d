"""What fills a model, as it is shown."""

from agent.message import Filling
from agent.views.context import filling_lines


def filling(*parts: tuple[str, int], window: int = 100_000, reserved: int = 10_000) -> Filling:
    return Filling(model="a/b", window=window, reserved=reserved, exact=False, parts=parts)


def test_each_part_has_a_row_and_its_share_of_the_bar() -> None:
    shown = filling_lines(filling(("system prompt", 10_000), ("tool outputs", 40_000)), 80)
    assert shown[0] == "about 50k tok of 100k tok (a/b)"
    assert shown[1] == f"[{'█' * 4}{'▓' * 16}{'·' * 16}{'-' * 4}]"
    assert [line.split() for line in shown[2:]] == [
        ["█", "system", "prompt", "10k", "tok", "10%"],
        ["▓", "tool", "outputs", "40k", "tok", "40%"],
        ["·", "free", "40k", "tok", "40%"],
        ["-", "kept", "for", "the", "reply", "10k", "tok", "10%"],
    ]


def test_more_than_fits_stays_within_the_bar() -> None:
    shown = filling_lines(filling(("tool outputs", 300_000)), 30)
    assert shown[1] == f"[{'█' * 26}]"
    assert "free" in shown[3]
    assert max(map(len, filling_lines(filling(), 20)[1:2])) <= 20

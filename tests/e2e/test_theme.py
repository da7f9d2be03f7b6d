"""A theme, chosen by a setting and in a chat."""

from tests.e2e.screen import chatting
from tests.e2e.ts import Ts


def test_a_theme_is_chosen_in_a_chat_and_kept(ts: Ts) -> None:
    ts.model = ts.script("hi")
    with chatting(ts) as screen:
        screen.asked()
        screen.says("/theme ambr", "did you mean 'amber'?")
        screen.says("/theme amber", "› amber      shades of amber")
        assert screen.leaves() == 0
    assert ts.here("config", "get", "theme").said == "amber\n"
    with chatting(ts) as screen:
        screen.asked()
        row = next(y for y, line in enumerate(screen.display.display) if "Tianshu" in line)
        assert screen.display.buffer[row][6].fg == "ffaf00"
        assert screen.leaves() == 0


def test_a_theme_that_is_none_is_refused_with_its_line(ts: Ts) -> None:
    own = ts.home / ".config/tianshu/settings.yaml"
    own.write_text("sandbox: off\ntheme: pink\n", encoding="utf-8")
    ran = ts.here("config")
    assert ran.code == 2
    assert "settings.yaml:2" in ran.err

"""Text into the clipboard of the user's terminal (OSC 52), where that is known to take it."""

from base64 import b64encode
from collections.abc import Mapping

KINDS = ("xterm-kitty", "xterm-ghostty", "foot", "alacritty", "wezterm")
PROGRAMS = {"WezTerm", "ghostty"}
OTHERS = ("WT_SESSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID")
MOST = 74_000  # bytes: as many as every terminal that takes any


def takes(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is known to take it without being set up; none is through tmux or
    screen."""
    kind = environ.get("TERM", "")
    if environ.get("TMUX") or environ.get("STY") or kind.startswith(("tmux", "screen")):
        return False
    return (
        kind.startswith(KINDS)
        or environ.get("TERM_PROGRAM") in PROGRAMS
        or any(environ.get(name) for name in OTHERS)
    )


def copying(data: bytes) -> str:
    """What makes the terminal take it: letters and digits, whatever the text holds."""
    return f"\x1b]52;c;{b64encode(data).decode('ascii')}\x07"

"""Names of files that can be clicked, on terminals that are known to take them (OSC 8)."""

import os
from collections.abc import Mapping
from urllib.parse import quote

KINDS = ("xterm-kitty", "xterm-ghostty", "foot", "alacritty", "wezterm")
PROGRAMS = {"iTerm.app", "WezTerm", "vscode", "ghostty"}
VTE = 5000  # from this version on: 0.50
OTHERS = ("WT_SESSION", "KITTY_WINDOW_ID", "DOMTERM")


def takes(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is known to take links; none is through tmux or screen."""
    kind = environ.get("TERM", "")
    if environ.get("TMUX") or environ.get("STY") or kind.startswith(("tmux", "screen")):
        return False
    version = environ.get("VTE_VERSION", "")
    return (
        kind.startswith(KINDS)
        or environ.get("TERM_PROGRAM") in PROGRAMS
        or (version.isdecimal() and int(version) >= VTE)
        or any(environ.get(name) for name in OTHERS)
    )


def linked(line: str, name: str, environ: Mapping[str, str]) -> str:
    """A line (safe) with the first `name` in it leading to that file of this machine."""
    if not name or name not in line or not takes(environ):
        return line
    path = quote(os.path.abspath(name), safe="/")  # noqa: PTH100 - a link's own place, not its end
    uri = f"file://{os.uname().nodename}{path}"
    return line.replace(name, f"\x1b]8;;{uri}\x1b\\{name}\x1b]8;;\x1b\\", 1)

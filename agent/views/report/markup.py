"""HTML and SVG that text can't get out of: what is no `Html` is escaped wherever it stands.

A template language would escape as well, and take 40 ms to load; here the type checker sees what
is markup and what is text.
"""

from collections.abc import Iterable
from html import escape

from agent.views.plain import safe


class Html(str):
    """Markup of ours, or text that has been escaped."""

    __slots__ = ()


VOID = frozenset({"meta", "br", "link", "hr"})


def text(words: str) -> Html:
    """Text as it is read: what would act on the reader unseen (bidi marks, controls) is spelled.

    >>> text("<b> & \\u202e")
    '&lt;b&gt; &amp; \\\\u{202e}'
    """
    return Html(escape(safe(words), quote=True))


def joined(parts: Iterable[str], between: str = "") -> Html:
    return Html(between.join(part if isinstance(part, Html) else text(part) for part in parts))


def tag(name: str, /, *inside: str, **attributes: str | float | bool | None) -> Html:
    """An element. `class_` is class, `aria_label` aria-label; True has no value, None is left out.

    >>> tag("p", "a < b", tag("br"), class_='x"y', open=True, title=None)
    '<p class="x&quot;y" open>a &lt; b<br></p>'
    """
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        named = key.rstrip("_").replace("_", "-")
        written = f"{value:g}" if isinstance(value, float) else str(value)
        head += f" {named}" if value is True else f' {named}="{text(written)}"'
    if name in VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{joined(inside)}</{name}>")

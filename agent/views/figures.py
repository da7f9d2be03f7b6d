"""How times, tokens and money are written."""


def took(seconds: float) -> str:
    """
    >>> took(0.04), took(12.34), took(75), took(7500)
    ('0.0s', '12.3s', '1m 15s', '2h 05m')
    """
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"


def clock(seconds: float) -> str:
    """Time that is still passing: whole seconds.

    >>> clock(5.9), clock(65)
    ('5s', '1m 05s')
    """
    return f"{int(max(seconds, 0))}s" if seconds < 60 else took(int(seconds))


def tokens(count: int) -> str:
    """
    >>> tokens(950), tokens(4100), tokens(45_200), tokens(1_250_000)
    ('950 tok', '4.1k tok', '45k tok', '1.2M tok')
    """
    if count < 1000:
        return f"{count} tok"
    if count < 9950:
        return f"{count / 1000:.1f}k tok"
    if count < 999_500:
        return f"{count / 1000:.0f}k tok"
    return f"{count / 1e6:.1f}M tok"


def money(cost_usd: float | None) -> str:
    """
    >>> money(None), money(0), money(0.00042), money(0.124), money(12.5)
    ('cost unknown', '$0', '$0.0004', '$0.12', '$12.50')
    """
    if cost_usd is None:
        return "cost unknown"
    if not cost_usd:
        return "$0"
    return f"${cost_usd:.4f}" if cost_usd < 0.01 else f"${cost_usd:.2f}"


def age(seconds: float) -> str:
    """How long ago, in its largest unit.

    >>> age(20), age(200), age(7300), age(200_000)
    ('now', '3m ago', '2h ago', '2d ago')
    """
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit} ago"
    return "now"


def counted(count: int, one: str, many: str = "") -> str:
    """
    >>> counted(1, "step"), counted(3, "copy", "copies")
    ('1 step', '3 copies')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"

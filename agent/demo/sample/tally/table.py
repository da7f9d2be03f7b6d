"""A report as text."""


def table(rows):
    """A line for each pair of a name and an amount, and one for the sum of all."""
    rows = [*rows, ("total", sum(amount for _, amount in rows))]
    return "\n".join(f"{name:8}{amount:8.2f}" for name, amount in rows)

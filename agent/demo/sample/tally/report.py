"""What was spent in each category."""

from itertools import groupby


def totals(entries):
    """Pairs of a category and what was spent in it, the largest sum first."""
    spent = {
        category: sum(entry.amount for entry in group)
        for category, group in groupby(entries, key=lambda entry: entry.category)
    }
    return sorted(spent.items(), key=lambda pair: (-pair[1], pair[0]))

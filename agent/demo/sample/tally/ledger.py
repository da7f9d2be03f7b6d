"""Reads a ledger: a line for each expense, with date, amount, category and perhaps a note."""

from collections import namedtuple
from decimal import Decimal, InvalidOperation

Entry = namedtuple("Entry", "date amount category")


class LedgerError(Exception):
    """A line that is no entry."""


def read(lines):
    """The entries of a ledger. Blank lines, and those that begin with #, are passed over."""
    entries = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            date, amount, category = words[:3]
            entries.append(Entry(date, Decimal(amount), category))
        except (ValueError, InvalidOperation):
            raise LedgerError(f"line {number} is no entry: {line.strip()}") from None
    return entries

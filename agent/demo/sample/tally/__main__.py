"""The command line: python3 -m tally FILE"""

import argparse
import sys

from tally.ledger import LedgerError, read
from tally.report import totals
from tally.table import table


def main(words=None):
    """Print the report of a ledger, and return the exit code."""
    parser = argparse.ArgumentParser(prog="tally", description="Adds up what was spent.")
    parser.add_argument("file", help="a line for each expense: date, amount, category, note")
    given = parser.parse_args(words)
    try:
        with open(given.file, encoding="utf-8") as lines:
            entries = read(lines)
    except (OSError, LedgerError) as error:
        print(f"tally: {error}", file=sys.stderr)
        return 1
    print(table(totals(entries)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

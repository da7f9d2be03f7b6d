import unittest
from decimal import Decimal

from tally.ledger import read
from tally.report import totals

LEDGER = ["2026-03-02 12.40 food", "2026-03-02 49.00 travel", "2026-03-03 7.90 food"]


class Report(unittest.TestCase):
    def test_the_largest_sum_comes_first(self):
        names = [category for category, _ in totals(read(LEDGER))]
        self.assertEqual(names, ["travel", "food"])

    def test_a_category_that_comes_again_is_added_up(self):
        spent = dict(totals(read(LEDGER)))
        self.assertEqual(spent["food"], Decimal("20.30"))

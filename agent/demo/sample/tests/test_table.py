import unittest
from decimal import Decimal

from tally.table import table

ROWS = [("food", Decimal("20.30")), ("subscriptions", Decimal("9.00"))]


class Table(unittest.TestCase):
    def test_the_last_line_is_the_sum_of_all(self):
        self.assertEqual(table(ROWS).splitlines()[-1].split(), ["total", "29.30"])

    def test_a_long_name_leaves_the_columns_straight(self):
        lines = table(ROWS).splitlines()
        self.assertEqual([len(line) for line in lines], [len(lines[0])] * 3)

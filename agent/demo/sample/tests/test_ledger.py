import unittest
from decimal import Decimal

from tally.ledger import LedgerError, read


class Ledger(unittest.TestCase):
    def test_an_entry_has_a_date_an_amount_and_a_category(self):
        (entry,) = read(["2026-03-02  12.40  food  lunch, with Ana\n"])
        self.assertEqual(entry.date, "2026-03-02")
        self.assertEqual(entry.amount, Decimal("12.40"))
        self.assertEqual(entry.category, "food")

    def test_blank_lines_and_comments_are_passed_over(self):
        entries = read(["# March\n", "\n", "2026-03-02 49.00 travel\n"])
        self.assertEqual(len(entries), 1)

    def test_a_line_that_is_no_entry_is_named(self):
        for line in ("2026-03-02 food", "2026-03-02 much food"):
            with self.subTest(line), self.assertRaisesRegex(LedgerError, "line 2"):
                read(["2026-03-01 1.00 food", line])

import contextlib
import csv
import io
import os
import tempfile
import unittest

from tally.__main__ import main

LEDGER = """\
2026-03-02  12.40  food    lunch, with Ana
# in Graz
2026-03-04   9.00  travel
2026-03-05  18.50  books   a "used" atlas
"""


class Export(unittest.TestCase):
    def setUp(self):
        handle, self.path = tempfile.mkstemp()
        self.addCleanup(os.remove, self.path)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(LEDGER)

    def rows(self):
        """What --csv prints, read back."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            try:
                main(["--csv", self.path])
            except SystemExit:
                self.fail("there is no --csv")
        return list(csv.reader(io.StringIO(printed.getvalue())))

    def test_the_first_line_names_the_columns(self):
        self.assertEqual(self.rows()[0], ["date", "amount", "category", "note"])

    def test_each_entry_has_a_line_with_its_note(self):
        notes = [row[3:] for row in self.rows()[1:]]
        self.assertEqual(notes, [["lunch, with Ana"], [""], ['a "used" atlas']])

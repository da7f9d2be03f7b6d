import contextlib
import io
import os
import shlex
import unittest

from tally.__main__ import main

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROMPT = "    $ python3 -m tally "


def examples():
    """Pairs of the words of a command in the README and what stands below it."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(PROMPT):
            end = lines.index("", number)
            shown = [each[4:] for each in lines[number + 1 : end]]
            yield shlex.split(line[len(PROMPT) :]), shown


class Readme(unittest.TestCase):
    def test_the_examples_print_what_the_readme_shows(self):
        for words, shown in examples():
            printed = io.StringIO()
            with self.subTest(words), contextlib.redirect_stdout(printed):
                main([*words[:-1], os.path.join(ROOT, words[-1])])
                self.assertEqual(printed.getvalue().splitlines(), shown)

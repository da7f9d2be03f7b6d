"""The user in a directory of theirs, as in the other tests of the whole program."""

from tests.e2e.conftest import ts

__all__ = ["ts"]

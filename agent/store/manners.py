"""What the servers of models have refused, remembered from one process to the next.

One small file (0600). A server may learn what it did not take: what is older than a month is
forgotten. Losing the file costs a refused request; so whatever is wrong with it counts as nothing.
"""

import os
import secrets
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from agent.errors import AgentError, UsageError
from agent.store.disk import contents, private

FILE = ".cache/tianshu/servers.json"  # in the home directory
MOST = 2**20  # bytes
ENTRIES = 200
DAYS = 30


class Manner(Struct, frozen=True, kw_only=True):
    """How a model's server is asked, where that is not how it was meant to be."""

    date: str  # on which it was learned
    takes: dict[str, Any] = {}


class Manners:
    """The file of a home directory. `today` is the date, YYYY-MM-DD. Any thread may use it."""

    def __init__(self, home: Path, today: str = "") -> None:
        self._path = home / FILE
        self._today = today or time.strftime("%Y-%m-%d")

    def recall(self, server: str) -> dict[str, Any]:
        """What was learned of a server; empty for nothing."""
        found = self._read().get(server)
        return dict(found.takes) if found else {}

    def keep(self, server: str, takes: dict[str, Any]) -> None:
        """Remember what was learned of a server, as far as the disk allows it."""
        known = self._read() | {server: Manner(date=self._today, takes=takes)}
        newest = dict(sorted(known.items(), key=lambda row: row[1].date)[-ENTRIES:])
        data = msgspec.json.format(msgspec.json.encode(newest))
        fresh = self._path.with_name(f"servers.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            private(self._path.parent)
            fresh.touch(mode=0o600, exist_ok=False)
            fresh.write_bytes(data)
            fresh.replace(self._path)
        except (OSError, AgentError):
            fresh.unlink(missing_ok=True)

    def _read(self) -> dict[str, Manner]:
        try:
            data = contents(self._path, MOST, follow=False)
            read = msgspec.json.decode(data, type=dict[str, Manner])
        except (UsageError, msgspec.DecodeError):
            return {}
        return {server: each for server, each in read.items() if self._days(each) < DAYS}

    def _days(self, manner: Manner) -> float:
        """How old it is; very, where its date is none, or yet to come."""
        try:
            then, now = (time.strptime(date, "%Y-%m-%d") for date in (manner.date, self._today))
        except ValueError:
            return DAYS
        days = (time.mktime(now) - time.mktime(then)) / 86_400
        return days if days > -2 else DAYS

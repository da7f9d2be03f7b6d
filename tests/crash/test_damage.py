"""Logs that were cut or changed: they are read without what is lost, which is said, and nothing
that stands in a damaged line is carried out."""

import random
from pathlib import Path

import pytest

from tests.e2e.ts import Ts

PLAN = """\
goal: three
steps:
  - {id: a, run: 'echo a >> "$HOME/ran"; echo of a', writes: []}
  - {id: b, needs: [a], run: 'echo b >> "$HOME/ran"; echo of b', writes: []}
  - {id: c, needs: [b], run: 'echo c >> "$HOME/ran"; echo of c', writes: []}
"""


class Log:
    """The log of a run that was killed when its last step had begun, and what is done to it."""

    def __init__(self, ts: Ts) -> None:
        ts.write("plan.yaml", PLAN)
        assert ts.here("run", "plan.yaml").code == 0
        (self.path,) = (ts.cwd / ".agent/runs").glob("*.jsonl")
        self.ts = ts
        lines = self.path.read_bytes().split(b"\n")[:-1]
        last = max(n for n, line in enumerate(lines) if b'"type":"step.finished"' in line)
        self.lines = lines[:last]
        self.whole = b"".join(line + b"\n" for line in self.lines)

    def read(self, raw: bytes) -> None:
        """Show it and go on with it as it is now; nothing is done but what it tells to be done."""
        kept = [line for line in self.lines if line in raw.split(b"\n")]
        self.path.write_bytes(raw)
        ran = self.ts.home / "ran"
        ran.unlink(missing_ok=True)
        shown = self.ts.here("show", self.path.stem)
        assert shown.code == 0, shown
        json = self.ts.here("show", self.path.stem, "--json")
        assert json.code == 0, json
        resumed = self.ts.here("resume", self.path.stem, "-y", "--output-format", "json")
        begun = ran.read_text(encoding="utf-8").split() if ran.exists() else []
        if not any(b'"type":"plan.created"' in line for line in kept):
            assert (resumed.code, begun) == (2, []), resumed
            return
        assert (resumed.code, resumed.json["status"]) == (0, "done"), resumed
        done = [id for id in "abc" if any(self.tells_end(line, id) for line in kept)]
        assert sorted(begun) == [id for id in "abc" if id not in done]
        ended = raw.split(b"\n")[:-1]
        cut = ended == self.lines[: len(ended)]  # as a crash cuts it
        if len(kept) < len(self.lines) and not cut:
            assert "damaged" in resumed.err, resumed
            assert "damaged" in shown.out + shown.err, shown

    def tells_end(self, line: bytes, id: str) -> bool:
        return b'"type":"step.finished"' in line and b'"step":"%s"' % id.encode() in line


def flipped(raw: bytes, chance: random.Random) -> bytes:
    """The same with one bit turned over."""
    made = bytearray(raw)
    made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
    return bytes(made)


def without(raw: bytes, chance: random.Random) -> bytes:
    """The same without a stretch of it, or with one twice, as disks do it."""
    first = chance.randrange(len(raw))
    last = min(first + chance.randrange(1, 600), len(raw))
    return raw[:first] + chance.choice([b"", raw[first:last] * 2, bytes(last - first)]) + raw[last:]


def test_r92_a_log_that_was_cut_anywhere_is_gone_on_with(ts: Ts) -> None:
    log = Log(ts)
    for size in range(0, len(log.whole), max(len(log.whole) // 6, 1)):
        log.read(log.whole[:size])
    for line in log.lines[-2:]:
        log.read(log.whole[: log.whole.index(line) + len(line)])


def test_r92_a_log_that_was_changed_anywhere_is_gone_on_with_and_that_is_said(ts: Ts) -> None:
    log, chance = Log(ts), random.Random(5)
    for _ in range(6):
        log.read(flipped(log.whole, chance))
    for _ in range(3):
        log.read(without(log.whole, chance))


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_every_cut_and_very_many_changes(ts: Ts) -> None:
    log, chance, faults = Log(ts), random.Random(6), list[str]()
    tried = [(f"cut at {size}", log.whole[:size]) for size in range(len(log.whole) + 1)]
    tried += [(f"flip {n}", flipped(log.whole, chance)) for n in range(1500)]
    tried += [(f"stretch {n}", without(log.whole, chance)) for n in range(500)]
    for name, raw in tried:
        try:
            log.read(raw)
        except AssertionError as error:
            faults.append(f"{name}: {error}")
            Path(ts.home / f"fault-{len(faults)}").write_bytes(raw)
            print(faults[-1], flush=True)
    print(f"\n{len(tried)} logs of {len(log.whole)} bytes, {len(faults)} faults")
    assert not faults

"""Two `ts` at once in one directory: nothing is lost, and what can't be is refused plainly."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic

import pytest

from agent.store import log
from tests.crash.kit import begun, newest, orphans
from tests.e2e.ts import Ts
from tests.servers import Answer, OpenAIServer

WAITS = """\
goal: waits
steps:
  - {id: first, run: 'echo first >> "$HOME/ran"; echo one > first.txt', writes: [first.txt]}
  - id: slow
    needs: [first]
    run: 'echo > began; until test -e go; do sleep 0.02; done; echo slow >> "$HOME/ran"'
    writes: [began]
  - id: last
    needs: [slow]
    run: 'echo last >> "$HOME/ran"; echo three > last.txt'
    writes: [last.txt]
"""


@contextmanager
def waiting(ts: Ts, *words: str) -> Iterator[int]:
    """A run that is under way until the file `go` is there; it has to end well. Gives its id."""
    with begun(ts, words or ("run", "plan.yaml")) as process:
        try:
            assert ts.there("began")
            yield process.pid
            ts.write("go", "now")
            assert process.wait(ts.patience) == 0
        finally:
            process.kill()


def ran(ts: Ts) -> list[str]:
    return (ts.home / "ran").read_text(encoding="utf-8").split()


def test_two_runs_at_once_both_come_to_their_end(ts: Ts) -> None:
    for name in ("one", "two"):
        steps = [
            f"- {{id: s{n}, run: 'echo {name}{n} >> \"$HOME/ran\"; echo {n} > {name}{n}'}}"
            for n in range(6)
        ]
        ts.write(f"{name}.yaml", "steps:\n" + "\n".join(steps))
    with begun(ts, ("run", "one.yaml")) as one, begun(ts, ("run", "two.yaml")) as two:
        assert (one.wait(ts.patience), two.wait(ts.patience)) == (0, 0)
    assert sorted(ran(ts)) == [f"{name}{n}" for name in ("one", "two") for n in range(6)]
    paths = [*(ts.cwd / ".agent/runs").glob("*.jsonl")]
    assert len(paths) == 2
    for path in paths:
        record = log.recorded(path)
        assert (record.faults, record.torn) == ((), False)
        assert [event.seq for event in record.events] == [*range(1, record.seq + 1)]
        assert {event.run for event in record.events} == {path.stem}


def test_r97_of_two_that_go_on_with_one_run_one_does_and_the_other_is_told_who(ts: Ts) -> None:
    ts.write("plan.yaml", WAITS)
    with begun(ts, ("run", "plan.yaml")) as process:
        assert ts.there("began")
        process.kill()
    path = newest(ts)
    assert path
    assert not orphans(ts)
    (ts.cwd / "began").unlink()
    with waiting(ts, "resume") as id:
        for words in (("resume",), ("resume", path.stem)):
            second = ts.here(*words)
            assert (second.code, second.out) == (2, "")
            assert f"process {id}" in second.err
    assert ran(ts) == ["first", "slow", "last"]
    assert ts.here("resume").code == 2
    assert ran(ts) == ["first", "slow", "last"]


@pytest.mark.campaign
def test_many_that_go_on_with_one_run_do_its_work_once(ts: Ts) -> None:
    ts.write("plan.yaml", WAITS)
    with begun(ts, ("run", "plan.yaml")) as process:
        assert ts.there("began")
        process.kill()
    assert not orphans(ts)
    ts.write("go", "now")
    codes = list[int]()

    def go_on() -> None:
        with begun(ts, ("resume",)) as each:
            codes.append(each.wait(ts.patience))

    threads = [threading.Thread(target=go_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted({*codes}) in ([0, 2], [0]), codes
    assert codes.count(0) == 1
    assert ran(ts) == ["first", "slow", "last"]


def test_a_chat_works_while_a_run_is_under_way(ts: Ts) -> None:
    ts.write("plan.yaml", WAITS)
    write = json.dumps({"path": "by-chat.txt", "content": "chat\n"})
    replies = [Answer(calls=(("c1", "write_file", write),)), Answer(text="written")]
    with waiting(ts), OpenAIServer(replies) as server:
        ts.asks(server)
        told = ts.here("-p", "write", "-y")
        assert (told.code, told.out) == (0, "written\n")
        server._answers = [Answer(text="again")]
        assert ts.here("-c", "-p", "again").said == "again\n"
        assert "waits" in ts.here("runs").said
    assert ran(ts) == ["first", "slow", "last"]
    assert (ts.cwd / "by-chat.txt").read_text(encoding="utf-8") == "chat\n"


def test_a_run_that_is_under_way_is_not_undone(ts: Ts) -> None:
    ts.write("plan.yaml", WAITS)
    with waiting(ts) as id:
        path = newest(ts)
        assert path
        for words in (("undo",), ("undo", path.stem), ("undo", path.stem, "first")):
            undone = ts.here(*words, "-y")
            assert undone.code == 2, undone
            assert str(id) in undone.err or "under way" in undone.err, undone
            assert (ts.cwd / "first.txt").exists()
    assert ran(ts) == ["first", "slow", "last"]
    assert ts.here("undo", "-y").code == 0
    assert not [name for name in ("first.txt", "last.txt") if (ts.cwd / name).exists()]


def test_r97_a_second_chat_on_one_conversation_is_told_who_has_it(ts: Ts) -> None:
    with OpenAIServer([Answer(text="hi")]) as server:
        ts.asks(server)
        assert ts.here("-p", "hello").code == 0
    with OpenAIServer([Answer(text="late", late=60)]) as server:
        ts.asks(server)
        with begun(ts, ("-c", "-p", "wait")) as process:
            until = monotonic() + ts.patience
            while not server.requests and monotonic() < until:
                Event().wait(0.01)
            second = ts.here("-c", "-p", "me too")
            assert (second.code, second.out) == (2, "")
            assert f"process {process.pid}" in second.err
            assert len(server.requests) == 1
            process.kill()
    with OpenAIServer([Answer(text="gone on")]) as server:
        ts.asks(server)
        assert ts.here("-c", "-p", "and now").said == "gone on\n"
        sent = json.dumps(server.requests[0].json["messages"])
        assert "hello" in sent
        assert "wait" in sent
        assert "me too" not in sent

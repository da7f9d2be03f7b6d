"""What is bounded, seen at the whole program: what listens, what a huge project costs."""

import os
import socket
import time
from pathlib import Path

import pytest

from tests.e2e.ts import Ts, call, calling
from tests.servers import Answer, AnthropicServer

FILES = 100_000
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp


def sockets(process: int) -> set[str]:
    """The inodes of what a process has open that is a socket."""
    found = set()
    for place in Path(f"/proc/{process}/fd").iterdir():
        try:
            found.add(str(place.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    return found


def listening() -> set[str]:
    """The inodes of all sockets of this network that wait for somebody to connect."""
    found = set()
    for name in ("tcp", "tcp6"):
        path = Path("/proc/net", name)
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else ():
            words = line.split()
            if words[3] == LISTENING:
                found.add(words[9])
    for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]:
        words = line.split()
        if int(words[3], 16) & 0x10000:  # __SO_ACCEPTCON
            found.add(words[6])
    return found


def test_r65_ts_listens_nowhere(ts: Ts) -> None:
    calls = (("c1", "bash", '{"command": "echo > began; sleep 9"}'),)
    with AnthropicServer([Answer(calls=calls)]) as server, socket.create_server(("127.0.0.1", 0)):
        ts.asks(server)
        with ts.started("-p", "go", "-y") as process:
            assert ts.there("began")
            mine = sockets(process.pid)
            there = listening()
            assert there & sockets(os.getpid()), "who listens is found"
            assert not mine & there


@pytest.mark.parametrize("depth", [101, 400, 900, 100_000])
def test_arguments_that_are_nested_too_deeply_are_answered_with_the_fault(
    ts: Ts, depth: int
) -> None:
    ts.env |= {"DEPLOY_TOKEN": "cnry-Env7f3a9b2c"}
    raw = '{"todos": ' + "[" * depth + '"cnry-Env7f3a9b2c"' + "]" * depth + "}"
    calls = (("c1", "todo_write", raw), ("c2", "edit_file", raw), ("c3", "bash", raw))
    with AnthropicServer([Answer(calls=calls, size=50_000), Answer(text="ok")]) as server:
        ts.asks(server)
        assert ts.here("-p", "go").said == "ok\n"
        sent = str(server.requests[-1].json["messages"])
    assert sent.count("nested") >= 3


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_r103_a_project_of_a_hundred_thousand_files_is_begun_and_searched_soon(ts: Ts) -> None:
    for n in range(FILES):
        path = ts.cwd / f"d{n // 1000}" / f"f{n}.py"
        if n % 1000 == 0:
            path.parent.mkdir()
        path.write_text(f"def f{n}(): pass\n", encoding="utf-8")
    (ts.cwd / "loop").symlink_to(".")
    ts.model = ts.script("hi")  # the SDKs of services are not what is measured
    starts = []
    for _ in range(2):  # the first one has the disk to wait for
        began = time.monotonic()
        assert ts("-p", "hi").said == "hi\n"
        starts.append(time.monotonic() - began)
    start = min(starts)
    ts.model = ts.script(calling(call("grep_files", pattern="def f99999")), "ok")
    began = time.monotonic()
    ran = ts("-p", "look", "--output-format", "stream-json")
    search = time.monotonic() - began
    assert "f99999.py" in ran.out
    sent = sum(len(str(each)) for each in ran.events)
    print(f"start {start:.2f} s, start and search {search:.2f} s, events {sent} characters")
    assert start < 3
    assert search - start < 5
    assert sent < 10_000

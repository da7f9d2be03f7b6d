"""What a command can do in the sandbox, tried out with real ones; skipped where none works."""

import os
import pwd
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from agent.settings import SandboxMode
from agent.stop import Stop
from agent.tool import EVERYDAY, Context, Leave
from agent.tools.child.command import Ran, command
from agent.tools.child.survivor import Survivor
from agent.tools.sandbox import find
from agent.tools.sandbox.profile import Place, bubblewrap, seatbelt
from agent.tools.sandbox.sandbox import Sandbox, Scope, _probed, bounds, offered
from agent.tools.shell import bash, bash_output, left_in

ENV = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}  # noqa: TID251
HERE = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or "python3"


class Room:
    """A project with a repository, its user's home, and their sandbox."""

    def __init__(self, tmp: Path, told: list[str] | None = None) -> None:
        self.home, self.cwd = tmp / "home", tmp / "home" / "project"
        self.cwd.mkdir(parents=True)
        self.told = [] if told is None else told
        self.env = {**ENV, "HOME": str(self.home)}
        self.sandbox = self.made()

    def made(
        self, mode: SandboxMode = "auto", roots: tuple[Path, ...] = (), *, offline: bool = False
    ) -> Sandbox:
        scope = Scope(cwd=self.cwd, home=self.home, roots=roots, env=self.env)
        return Sandbox(scope, mode, offline=offline, tell=self.told.append)

    def __call__(self, text: str, leave: Leave = EVERYDAY, **more: float) -> Ran:
        return command(
            text,
            cwd=self.cwd,
            env=self.env,
            stop=Stop(),
            timeout=more.get("timeout", 20),
            sandbox=self.sandbox,
            leave=leave,
        )

    def git(self, *words: str) -> None:
        self.cwd.joinpath(".git").exists() or subprocess.run(
            ["git", "init", "-q", "-b", "main", "."], cwd=self.cwd, check=True, env=self.env
        )
        config = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        subprocess.run(
            ["git", *config, *words], cwd=self.cwd, check=True, env=self.env, capture_output=True
        )


@pytest.fixture(scope="session")
def works() -> find.Found:
    found = offered(ENV, Path.home())
    if not found.works:
        pytest.skip(f"no sandbox works here: {found.why}")
    return found


@pytest.fixture
def aside() -> Iterator[Path]:
    """A folder that is not in /tmp: a sandbox has its own."""
    home = pwd.getpwuid(os.geteuid()).pw_dir  # HOME is in /tmp, in tests
    with tempfile.TemporaryDirectory(prefix=".ts-tests-", dir=home) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def room(aside: Path, works: find.Found) -> Iterator[Room]:
    room = Room(aside)
    yield room
    room.sandbox.close()


def test_a_command_works_in_its_directory_and_in_a_tmp_of_its_own_that_stays(room: Room) -> None:
    assert room("echo a > made; echo b > /tmp/b; mktemp").code == 0
    assert (room.cwd / "made").read_text(encoding="utf-8") == "a\n"
    assert not Path("/tmp/b").exists()
    assert room("cat /tmp/b; cat /var/tmp/b").stdout == "b\nb\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [("exit 7", 7), ("exit 1", 1), ("kill -9 $$", 137), ("kill $$", 143), ("nosuchprogram", 127),
     ("./plain", 126), ("true", 0)],
)  # fmt: skip
def test_exit_codes_are_those_of_the_command(room: Room, text: str, code: int) -> None:
    (room.cwd / "plain").write_text("", encoding="utf-8")
    assert room(text).code == code


def test_a_sandbox_that_can_not_be_set_up_is_no_exit_of_the_command(room: Room) -> None:
    box = room.sandbox.box(EVERYDAY)
    assert box
    launch = box(["/bin/true"], room.cwd / "gone", room.env)
    ran = subprocess.run(
        launch.argv, cwd="/", pass_fds=launch.fds, capture_output=True, check=False
    )
    for fd in launch.fds:
        os.close(fd)
    assert launch.code(ran.returncode, launch.status) == 126
    os.close(launch.status)


# -- what there is --------------------------------------------------------------------------------


DROPPED = {
    "--unshare-net": "the network can be reached",
    "--unshare-pid": "other processes can be seen",
    "--cap-drop": "it keeps rights of root",
    "/proc/sys": "the kernel's settings can be changed",
    "--seccomp": "system calls are not filtered",
    "--tmpfs": "secrets can be read",
}


@pytest.mark.parametrize("flag", DROPPED)
def test_r41_the_probe_sees_each_thing_that_is_not_kept(
    works: find.Found, aside: Path, flag: str
) -> None:
    whole = _probed(works.program)

    def lacking(inside: Path, private: Path, secret: Path) -> tuple[list[str], tuple[int, ...]]:
        words, fds = whole(inside, private, secret)
        places = [at for at, word in enumerate(words) if word == flag]
        length = 1 if flag.startswith("--unshare") else 2
        if flag == "/proc/sys":
            places, length = [words.index(flag) - 1], 3
        if flag == "--tmpfs":
            places = [at for at in places if words[at + 1] == str(secret)]
            places, length = [at - 2 for at in places], 4
        for at in reversed(places):
            del words[at : at + length]
        return words, fds

    if flag in {"--cap-drop", "/proc/sys"} and os.geteuid():
        pytest.skip("only root has rights that could be kept")
    assert find.faults(whole, aside, filtered=True) == []
    assert DROPPED[flag] in find.faults(lacking, aside, filtered=True)


def test_r41_the_probe_sees_a_file_system_that_can_be_written(
    works: find.Found, aside: Path
) -> None:
    def loose(inside: Path, private: Path, secret: Path) -> tuple[list[str], tuple[int, ...]]:
        words, fds = _probed(works.program)(inside, private, secret)
        assert words[1] == "--ro-bind"
        return [words[0], "--bind", *words[2:]], fds

    assert find.faults(loose, aside, filtered=True) == ["files outside can be written"]


@pytest.mark.parametrize(
    ("complaint", "cause"),
    [
        ("bwrap: No permissions to create new namespace, likely because the kernel does not allow "
         "non-privileged user namespaces.", "user namespaces are not allowed here"),
        ("bwrap: setting up uid map: Operation not permitted", "a container without them"),
        ("bwrap: Creating new namespace failed: No space left on device", "ts itself runs in a"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "a container"),
        ("bwrap: Failed to make / slave: Permission denied", "Landlock"),
        ("bwrap: Unknown option --disable-userns", "too old"),
    ],
)  # fmt: skip
def test_r51_why_a_sandbox_does_not_come_up_is_said(complaint: str, cause: str) -> None:
    words = find.diagnosis(complaint, {})
    assert cause in words
    assert complaint.removeprefix("bwrap: ") in words


def test_r51_what_the_kernel_forbids_is_named() -> None:
    line = "bwrap: setting up uid map: Permission denied"
    said = find.diagnosis(line, {"apparmor_restrict_unprivileged_userns": "1"})
    assert "AppArmor" in said
    said = find.diagnosis(line, {"unprivileged_userns_clone": "0"})
    assert "kernel.unprivileged_userns_clone=1" in said


def program(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    place.chmod(0o755)
    return place


def test_r51_a_program_that_fails_is_told_of_with_its_words(tmp_path: Path) -> None:
    program(tmp_path / "bin/bwrap", "echo 'bwrap: Unknown option --disable-userns' >&2; exit 1")
    found = offered({"PATH": f"{tmp_path / 'bin'}:/nowhere"}, tmp_path)
    assert not found.works
    assert "too old" in found.told
    assert str(tmp_path / "bin/bwrap") in found.told


def test_r51_a_sandbox_in_a_sandbox_is_named(room: Room) -> None:
    ran = room("bwrap --ro-bind / / --unshare-user --disable-userns --unshare-pid true")
    assert "ts itself runs in a sandbox" in find.diagnosis(ran.stderr, {}) or (
        "not allowed here" in find.diagnosis(ran.stderr, {})
    )


def test_r56_no_program_of_the_project_stands_for_the_sandbox(tmp_path: Path) -> None:
    fake = program(tmp_path / "project/bwrap", f"touch {tmp_path}/canary")
    outside = program(tmp_path / "bin/bwrap", "exit 1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/bwrap").symlink_to(fake)
    loose = program(tmp_path / "loose/bwrap", "exit 1")
    loose.chmod(0o777)
    path = f".:{fake.parent}::{tmp_path}/links:{loose.parent}:{outside.parent}"
    assert find.located("bwrap", {"PATH": path}, [fake.parent]) == str(outside)
    assert not offered({"PATH": f".:{fake.parent}"}, tmp_path, [fake.parent]).works
    assert not (tmp_path / "canary").exists()


def test_r42_where_there_is_none_that_is_told_once(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.env["PATH"] = "/nowhere"
    sandbox = room.made()
    assert [sandbox.state for _ in range(3)] == ["none"] * 3
    assert len(room.told) == 1
    assert "bwrap is not on PATH" in room.told[0]
    assert "--sandbox off" in room.told[0]
    assert sandbox.box(EVERYDAY) is None


# -- what is kept ---------------------------------------------------------------------------------


def test_r43_root_in_it_has_no_rights_and_gains_none(room: Room) -> None:
    ran = room("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; "
               "mount -o remount,rw,bind / || umount /tmp || unshare -Urm true || "
        "echo x > /proc/sys/kernel/hostname")  # fmt: skip
    rows = dict(line.split() for line in ran.stdout.splitlines())
    assert rows == {
        "CapEff:": "0" * 16, "CapBnd:": "0" * 16, "NoNewPrivs:": "1", "Seccomp:": "2",
    }  # fmt: skip
    assert ran.code != 0


def test_r44_nothing_outside_is_written(room: Room) -> None:
    parent, sibling = room.cwd.parent, room.cwd.parent / "sibling"
    sibling.mkdir()
    (sibling / "file").write_text("mine", encoding="utf-8")
    (room.cwd / "link").symlink_to(sibling)
    (room.cwd / "hard").hardlink_to(sibling / "file")
    (room.home / ".bashrc").write_text("mine", encoding="utf-8")
    tried = [
        "touch /etc/ts-canary", f"touch {room.home}/canary", f"touch {parent}/canary",
        f"touch {sibling}/canary", "touch link/canary", "cp --reflink=auto a link/canary",
        "touch /proc/1/ro''ot/etc/ts-canary",
        f"rm -rf {room.home}/.bashrc", "touch /usr/bin/canary",
        f"ln {sibling}/file {room.cwd}/hard2", f"mv {room.cwd} {parent}/moved",
        f"python3 -c 'open(\"{sibling}/canary\", \"w\")'",
    ]  # fmt: skip
    ran = room("touch a; " + "; ".join(f"{each} && echo DID {shlex.quote(each)}" for each in tried))
    assert "DID" not in ran.stdout
    assert (room.home / ".bashrc").read_text(encoding="utf-8") == "mine"
    assert not Path("/etc/ts-canary").exists()
    assert [path.name for path in sibling.iterdir()] == ["file"]
    assert {path.name for path in room.home.iterdir()} == {".bashrc", "project", "sibling"}


def test_r44_what_was_added_may_be_written_and_a_read_only_sandbox_writes_nothing(
    room: Room, aside: Path
) -> None:
    more = aside / "more"
    more.mkdir()
    room.sandbox.close()
    room.sandbox = room.made(roots=(more,))
    assert room(f"touch {more}/a").code == 0
    looks = Leave(changes=False)
    assert room(f"touch {more}/b || touch b", looks).code != 0
    assert "plan mode" in room("touch b", looks).stderr
    assert room("cat nothing; ls; touch /tmp/c", looks).code == 0


POLICY = """
try() { "$@" 2>/dev/null && echo "DID $*"; }
try touch .git/hooks/post-commit
try sh -c 'echo x >> .git/config'
try git config core.fsmonitor /tmp/evil
try rm .git/config
try mv .git/config .git/c
try mv .git/hooks .git/h
try mv .git .git2
try rm -rf .git/hooks
try rmdir .git/hooks
try touch .agent/settings.yaml
try touch .agent/settings.local.yaml
try sh -c 'echo x >> .agent/settings.yaml'
try mv .agent .agent2
try sh -c 'echo x >> AGENTS.md'
try mv AGENTS.md a.md
try ln -sf /tmp/x .git/config
try git worktree add --quiet /tmp/wt2 -b other; true
"""


def test_r45_what_steers_git_and_ts_stays_and_git_still_works(room: Room) -> None:
    room.git("commit", "-q", "--allow-empty", "-m", "first")
    for hook in (room.cwd / ".git/hooks").iterdir():
        hook.unlink()
    (room.cwd / ".git/hooks").rmdir()  # one that is not there can't be made
    (room.cwd / ".agent").mkdir()
    (room.cwd / "AGENTS.md").write_text("rules\n", encoding="utf-8")
    config = (room.cwd / ".git/config").read_text(encoding="utf-8")
    ran = room(POLICY)
    assert [line for line in ran.stdout.splitlines() if "worktree" not in line] == []
    assert (room.cwd / ".git/config").read_text(encoding="utf-8") == config
    assert not (room.cwd / ".agent/settings.yaml").exists()
    assert [*(room.cwd / ".git/hooks").iterdir()] == []
    me = "git -c user.name=T -c user.email=t@example.org"
    work = room(
        f"set -e; echo a > a; git add a; {me} commit -q -m a; git checkout -q -b side; echo b > a; "
        f"{me} stash -q; git stash list; git branch; git log --oneline | wc -l; git status -s"
    )
    assert work.code == 0, work.stderr
    assert "* side" in work.stdout
    assert "\n2\n" in work.stdout


def test_r45_a_worktree_commits_and_its_links_stay(room: Room, aside: Path) -> None:
    room.git("commit", "-q", "--allow-empty", "-m", "first")
    tree = aside / "tree"
    room.git("worktree", "add", "-q", str(tree), "-b", "side")
    main, room.cwd = room.cwd, tree.resolve()
    room.sandbox.close()
    room.sandbox = room.made()
    me = "git -c user.name=T -c user.email=t@example.org"
    assert room(f"echo a > a; git add a; {me} commit -q -m a").code == 0
    own = main / ".git/worktrees/tree"
    for text in (f"echo x > {own}/commondir", f"echo x >> {main}/.git/config", "rm .git",
                 "echo gitdir: /tmp/evil > .git", f"touch {main}/.git/hooks/post-commit",
                 f"mv {own} {own}2", f"touch {main}/outside"):  # fmt: skip
        assert room(text).code != 0, text


def test_r45_a_file_that_claims_a_place_as_its_repository_opens_it_not(
    room: Room,
) -> None:
    prey = room.home / "prey"
    (prey / "objects").mkdir(parents=True)
    (prey / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (room.cwd / ".git").write_text(f"gitdir: {prey}\n", encoding="utf-8")
    assert room(f"touch {prey}/canary").code != 0
    assert not (prey / "canary").exists()


def test_r45_what_would_lead_git_elsewhere_is_gone_after_the_command(room: Room) -> None:
    room.git("commit", "-q", "--allow-empty", "-m", "first")
    room("mkdir evil; echo ../evil > .git/commondir")
    assert not (room.cwd / ".git/commondir").exists()


def test_r45_what_the_user_has_allowed_is_changed(room: Room) -> None:
    room.git("commit", "-q", "--allow-empty", "-m", "first")
    (room.cwd / "AGENTS.md").write_text("rules\n", encoding="utf-8")
    assert room("git remote add up https://example.org/x", Leave(steers=(".git",))).code == 0
    assert "example.org" in (room.cwd / ".git/config").read_text(encoding="utf-8")
    assert room("echo x > AGENTS.md", Leave(steers=("AGENTS.md",))).code == 0


NET = r"""
import socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
def tried(what, do):
    try:
        do()
    except OSError:
        return
    print("DID", what)
tried("tcp", lambda: socket.create_connection(("127.0.0.1", port), 0.3))
tried("out", lambda: socket.create_connection(("192.0.2.1", 80), 0.3))
def udp(kind):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, kind).sendto(b"x", ("192.0.2.1", 53))
tried("udp", lambda: udp(0))
tried("dns", lambda: socket.getaddrinfo("example.org", 80))
tried("ipv6", lambda: socket.create_connection(("2001:db8::1", 80), 0.3))
tried("icmp", lambda: udp(1))
tried("unix", lambda: socket.socket(socket.AF_UNIX).connect(path))
tried("abstract", lambda: socket.socket(socket.AF_UNIX).connect("\0ts-canary"))
def sent():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", path)
tried("pair", sent)
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 1)
print("loopback works")
"""


def test_r46_there_is_no_network_and_no_socket_of_others_but_a_loopback_of_its_own(
    room: Room,
) -> None:
    path = room.cwd / "s"
    (room.cwd / "net.py").write_text(NET, encoding="utf-8")
    began = monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix, \
            socket.socket(socket.AF_UNIX) as abstract:  # fmt: skip
        unix.bind(os.path.relpath(path))
        unix.listen()
        abstract.bind("\0ts-canary")
        abstract.listen()
        port = server.getsockname()[1]
        ran = room(f"{HERE} net.py {port} s; (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo DID tcp")
        assert "DID" not in ran.stdout
        assert "loopback works" in ran.stdout, ran.stderr
        allowed = room(f"{HERE} net.py {port} s", Leave(network=True))
        assert "DID tcp" in allowed.stdout
        assert "DID unix" not in allowed.stdout
    assert monotonic() - began < 20


def test_r46_offline_no_leave_opens_the_network(room: Room) -> None:
    room.sandbox.close()
    room.sandbox = room.made(offline=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert room(f"exec 3<>/dev/tcp/127.0.0.1/{port}", Leave(network=True)).code != 0
        outward = Leave(network=True, outside=True)
        assert room(f"exec 3<>/dev/tcp/127.0.0.1/{port}", outward).code != 0


def test_r47_keys_and_other_processes_are_not_seen(room: Room) -> None:
    names = [".ssh/id_rsa", ".aws/credentials", ".gnupg/key", ".netrc", ".docker/config.json",
             ".kube/config", ".config/gcloud/token", ".npmrc", ".config/tianshu/settings.yaml",
             ".git-credentials"]  # fmt: skip
    for name in names:
        (room.home / name).parent.mkdir(parents=True, exist_ok=True)
        (room.home / name).write_text("CANARY", encoding="utf-8")
    for name in (".env", ".env.local", "sub/.env", ".agent/sessions/1.jsonl"):
        (room.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (room.cwd / name).write_text("CANARY", encoding="utf-8")
    (room.cwd / ".env.example").write_text("example", encoding="utf-8")
    ran = room(f"grep -rs CANARY {room.home} {room.cwd} . ; rm -rf ~/.ssh .env; cat .env.example")
    assert "CANARY" not in ran.stdout
    assert "example" in ran.stdout
    assert (room.home / ".ssh/id_rsa").read_text(encoding="utf-8") == "CANARY"
    assert (room.cwd / ".env").read_text(encoding="utf-8") == "CANARY"
    seen = room(
        f"cat /proc/{os.getpid()}/environ /proc/[0-9]*/environ | tr '\\0' '\\n'; ps -e | wc -l"
    )
    assert str(os.getpid()) not in room("ls /proc").stdout.split()
    assert "PYTEST_CURRENT_TEST" not in seen.stdout


def test_r47_a_secret_that_was_granted_is_seen(room: Room) -> None:
    (room.cwd / ".env").write_text("CANARY", encoding="utf-8")
    assert room("cat .env", Leave(shows=(".env",))).stdout == "CANARY"
    room.sandbox = Sandbox(
        Scope(cwd=room.cwd, home=room.home, env=room.env, granted=(".env",)), "auto", tell=print
    )
    assert room("cat .env").stdout == "CANARY"


def test_r47_keys_are_there_for_what_acts_in_the_users_name(room: Room) -> None:
    (room.home / ".ssh").mkdir()
    (room.home / ".ssh/id").write_text("KEY", encoding="utf-8")
    assert room("cat ~/.ssh/id", Leave(network=True, keys=True)).stdout == "KEY"
    assert room("cat ~/.ssh/id").code != 0


def test_r48_the_environment_is_the_one_that_was_given(room: Room) -> None:
    ran = room("env; cat /proc/*/environ | tr '\\0' '\\n'")
    names = {line.partition("=")[0] for line in ran.stdout.splitlines()}
    assert "PYTEST_CURRENT_TEST" not in names
    assert "TMPDIR=/tmp" in ran.stdout


def sleeping(mark: str) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (place / "cmdline").read_bytes().decode().split("\0"):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def gone(mark: str) -> bool:
    until = monotonic() + 3
    while sleeping(mark) and monotonic() < until:
        Event().wait(0.02)
    return not sleeping(mark)


def test_r49_nothing_outlives_its_command(room: Room) -> None:
    mark = f"7{os.getpid()}.{id(room) % 100000}"
    ran = room(
        f"setsid sleep {mark} & (setsid nohup sleep {mark} >/dev/null 2>&1 &) ; "
        f"env -i setsid /bin/sleep {mark} & echo up"
    )
    assert ran.stdout == "up\n"
    assert gone(mark)
    late = room(f"trap '' TERM; (trap '' TERM; setsid sleep {mark}) & sleep {mark}", timeout=0.4)
    assert late.timed_out
    assert gone(mark)


def test_r49_what_a_command_leaves_running_is_a_job_and_ends_with_its_agent(room: Room) -> None:
    mark = f"8{os.getpid()}.{id(room) % 100000}"
    context = Context(cwd=room.cwd, stop=Stop(), env=room.env, sandbox=room.sandbox)
    told = bash(context, {"command": f"sleep {mark} & echo up; cd /tmp; export A=1"}).text
    assert "it left sleep (" in told
    assert "now job 1" in told
    assert "still runs" in bash_output(context, {"id": "1"}).text
    assert bash(context, {"command": "pwd; echo $A"}).text.startswith("/tmp\n1\n")
    assert sleeping(mark)
    context.close()
    assert gone(mark)


def test_r50_a_job_goes_on_when_the_thread_that_began_it_ends(room: Room) -> None:
    mark = f"9{os.getpid()}.{id(room) % 100000}"
    context = Context(cwd=room.cwd, stop=Stop(), env=room.env, sandbox=room.sandbox)
    worker = Thread(target=lambda: bash(context, {"command": f"sleep {mark}", "background": True}))
    worker.start()
    worker.join()
    assert "still runs" in bash_output(context, {"id": "1"}).text
    assert sleeping(mark)
    context.close()
    assert gone(mark)


def test_r50_a_survivor_ends_what_is_in_a_sandbox(room: Room) -> None:
    mark = f"6{os.getpid()}.{id(room) % 100000}"
    heir = Survivor()
    context = Context(cwd=room.cwd, stop=Stop(), env=room.env, sandbox=room.sandbox, heir=heir)
    bash(context, {"command": f"(setsid env -i /bin/sleep {mark} &); trap '' TERM; sleep {mark}",
                   "background": True})  # fmt: skip
    assert sleeping(mark)
    heir.close()  # as when ts has gone
    assert gone(mark)
    context.close()


def test_r52_a_directory_that_a_command_goes_to_widens_nothing(room: Room) -> None:
    context = Context(cwd=room.cwd, stop=Stop(), env=room.env, sandbox=room.sandbox)
    for place in ("/", "~", ".."):
        bash(context, {"command": f"cd {place}"})
        assert "sandbox denied" in bash(context, {"command": "touch canary"}).text
    assert not (room.home / "canary").exists()
    context.close()


def test_what_a_command_says_of_its_directory_is_read_from_a_plain_file_alone(
    tmp_path: Path,
) -> None:
    secret, said = tmp_path / "secret", tmp_path / "cwd"
    secret.write_text("/CANARY", encoding="utf-8")
    said.symlink_to(secret)
    assert left_in(said) == Path()
    said.unlink()
    os.mkfifo(said)
    assert left_in(said) == Path()
    said.unlink()
    for text, place in (("/a b\n", "/a b"), ("relative\n", "."), ("", "."), ("/" * 9999, "/")):
        said.write_text(text, encoding="utf-8")
        assert left_in(said) == Path(place)


def test_what_the_sandbox_stood_in_the_way_of_is_said(room: Room) -> None:
    context = Context(cwd=room.cwd, stop=Stop(), env=room.env, sandbox=room.sandbox)
    told = bash(context, {"command": "echo x > /etc/ts-canary"}).text
    assert "[sandbox denied: only " in told
    assert str(room.cwd) in told
    net = bash(
        context, {"command": f"{HERE} -c 'import socket; socket.getaddrinfo(\"example.org\", 80)'"}
    )
    assert "sandbox denied: commands have no network" in net.text
    assert "sandbox denied" not in bash(context, {"command": "echo Read-only file system"}).text
    context.close()


def test_r57_what_grows_without_end_is_ended_in_time(room: Room) -> None:
    began = monotonic()
    bomb = "b() { (( $1 > 7 )) && { sleep 50; return; }; b $(($1+1)) & b $(($1+1)) & wait; }; b 1"
    assert room(bomb, timeout=1).timed_out
    assert room("while :; do :; done", timeout=0.5).timed_out
    assert monotonic() - began < 6


def test_r57_a_file_that_grows_without_end_stops_growing(room: Room) -> None:
    ran = room(
        "truncate -s 10G /tmp/big; echo $?; truncate -s 10G big; echo $?; ls -s big /tmp/big"
    )
    assert ran.stdout.split()[:2] == ["153", "153"]  # 128 + SIGXFSZ
    assert not any(path.stat().st_size for path in room.cwd.glob("big"))


NOBODY = 65534
MANY = """
for i in {1..300}; do sleep 5 & done 2>/dev/null
jobs -p | wc -l
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user that is not root")
def test_r57_processes_are_bounded_for_who_is_not_root(works: find.Found, tmp_path: Path) -> None:
    place = Place(roots=(tmp_path,), private=tmp_path, temporary=())
    tmp_path.chmod(0o777)
    words = bubblewrap(place, network=False, changes=True, folders=frozenset())
    prlimit = find.located("prlimit", ENV, ())
    began = monotonic()
    bomb = subprocess.Popen(
        [works.program, *words, "--", *bounds(prlimit, 100), "/bin/bash", "-c", MANY],
        user=NOBODY, group=NOBODY, extra_groups=(), cwd="/", env=ENV,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with suppress(subprocess.TimeoutExpired):
            bomb.wait(3)
        assert len(sleeping("5")) < 100
    finally:
        bomb.kill()
        bomb.communicate()
    assert monotonic() - began < 5


def test_macos_has_a_profile_as_text(tmp_path: Path) -> None:
    place = Place(
        roots=(Path("/a/my \"project\""),), private=Path("/private/tmp/ts-private-1"),
        folders=(Path("/a/p/.git"),), kept=(Path("/a/p/.git/hooks"),),
        hidden=(Path("/a/.ssh"),), also=(Path("/a/p/.agent/workspace/1"),),
    )  # fmt: skip
    lines = seatbelt(place, network=False, changes=True).splitlines()
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny network*)"]
    assert '(allow file-write* (subpath "/a/my \\"project\\""))' in lines
    order = [lines.index(each) for each in (
        "(deny file-write*)",
        '(allow file-write* (subpath "/a/p/.git"))',
        '(deny file-write* (subpath "/a/p/.git/hooks"))',
        '(deny file-read* file-write* (subpath "/a/.ssh"))',
        '(allow file-read* file-write* (subpath "/a/p/.agent/workspace/1"))',
    )]  # fmt: skip
    assert order == sorted(order)
    looks = seatbelt(place, network=True, changes=False)
    assert "(deny network*)" not in looks
    assert 'file-write* (subpath "/a/my' not in looks

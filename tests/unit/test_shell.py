import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from msgspec import structs

from agent.errors import StoppedError, ToolError
from agent.stop import Stop
from agent.tool import Context
from agent.tools import shell
from agent.tools.child.command import QUIET
from agent.tools.shell import Shell, bash, bash_output
from tests.unit.processes import MARK, children, gone, running


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    before = children()
    cwd = tmp_path / "project"
    cwd.mkdir()
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path), MARK: str(tmp_path)}
    made = Context(cwd=cwd, stop=Stop(), env=env)
    yield made
    home = made.own(Shell)._home
    made.close()
    assert running(str(tmp_path)) == {}
    assert children() == before
    assert home is None or not home.exists()


def run(context: Context, command: str, **rest: Any) -> str:
    return bash(context, {"command": command, **rest}).text


def seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_output_comes_in_its_order_with_the_exit_code(context: Context) -> None:
    text = run(context, "echo one; echo two >&2; echo three; exit 3")
    assert text == "one\ntwo\nthree\n[exit code 3]"


def test_c064_a_command_that_prints_nothing_has_a_result_all_the_same(context: Context) -> None:
    assert run(context, "mkdir -p newdir") == "(no output)\n[exit code 0]"


def test_an_error_names_the_line_of_the_command(context: Context) -> None:
    run(context, "x=1")
    assert "bash: line 2: nonesuch: command not found" in run(context, "true\nnonesuch")


def test_c049_directory_and_variables_are_kept_for_the_agent_that_set_them(
    context: Context,
) -> None:
    (context.cwd / "sub").mkdir()
    other = context.fresh(context.stop)
    assert run(context, "cd sub && export FOO=A") == (
        "(no output)\n[the shell is now in sub]\n[exit code 0]"
    )
    assert run(context, "pwd; echo $FOO") == f"{context.cwd}/sub\nA\n[exit code 0]"
    assert run(other, 'pwd; echo "[$FOO]"') == f"{context.cwd}\n[]\n[exit code 0]"
    assert "are kept for your next" in bash.description
    other.close()


def test_c050_commands_get_the_environment_of_the_context_and_nothing_of_ours(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "/ours")
    for _ in range(2):
        lines = run(context, "env").splitlines()[:-1]
        seen = dict(line.split("=", 1) for line in lines)
        for name in ("TS_CALL", "SHLVL", "_", "OLDPWD"):
            seen.pop(name, None)
        assert seen == {**context.env, **QUIET, "PWD": str(context.cwd)}


@pytest.mark.parametrize(
    "value",
    [
        "two\nlines\n",
        "q'u\"o`t$e\\s",
        " blanks ",
        "é天😀",
        "$(touch made) ${HOME} `touch made`",
        "-n",
        "",
    ],
)
def test_values_come_back_as_they_were(context: Context, value: str) -> None:
    context.env["GIVEN"] = value
    run(context, 'export KEPT=$GIVEN; list=("$GIVEN" "x y"); declare -A map=(["$GIVEN."]=$GIVEN)')
    show = 'printf "%s|" "$KEPT" "${list[@]}" "${!map[@]}" "${map[$GIVEN.]}"; '
    assert run(context, show + "bash -c 'printf %s \"$KEPT\"'").startswith(
        f"{value}|{value}|x y|{value}.|{value}|{value}".rstrip("\n")
    )
    assert not (context.cwd / "made").exists()


def test_bytes_that_are_no_utf_8_come_back_too(context: Context) -> None:
    run(context, r"export RAW=$'\xff\xfe'")
    assert run(context, r'[ "$RAW" = $' "'\\xff\\xfe'" " ] && echo same").startswith("same")


def test_functions_aliases_options_and_umask_are_kept_and_unset_is_unset(context: Context) -> None:
    run(
        context,
        'export -n LANG; unset HOME; hi() { echo "hi $1"; }; export -f hi; shopt -s extglob '
        "expand_aliases; alias ll='echo alias'; umask 027",
    )
    text = run(
        context,
        'hi 1; bash -c "hi 2"; ll; umask; echo "${HOME-none}"; [[ ab == @(ab|c) ]] && echo glob',
    )
    assert text == "hi 1\nhi 2\nalias\n0027\nnone\nglob\n[exit code 0]"


def test_set_options_and_traps_end_with_their_call(context: Context) -> None:
    assert run(context, "set -ux; trap 'echo bye' EXIT; x=1; false").endswith("bye\n[exit code 1]")
    assert run(context, 'false; echo "$x $-"').startswith("1 hBc\n")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("cd sub; exit 7", 7),
        ("cd sub; trap 'echo bye' EXIT; exit 7", 7),
        ("cd sub; set -e; false; true", 1),
        ("cd sub; set -u; : $nothing_there", 127),
        ("cd sub; set -o noclobber -o posix; false", 1),
        ("cd sub; exec 3>&1 1>/dev/null 2>&1; (exit 4)", 4),
        ("cd sub; cd() { echo no; }; unset() { echo no; }; declare() { echo no; }; (exit 5)", 5),
        ("cd sub\nif", 2),
        ("cd sub\n)", 2),
    ],
)
def test_however_a_call_ends_the_shell_goes_on(context: Context, command: str, code: int) -> None:
    (context.cwd / "sub").mkdir()
    run(context, "export BEFORE=1")
    assert run(context, command).endswith(f"[exit code {code}]")
    after = "sub" if "trap" not in command else ""
    assert run(context, "pwd; echo $BEFORE") == (f"{context.cwd / after}\n1\n[exit code 0]")


@pytest.mark.parametrize("command", ["exec true", "kill -9 $$", "sleep 60"])
def test_a_call_that_is_replaced_or_killed_leaves_things_as_they_were(
    context: Context, command: str
) -> None:
    run(context, "mkdir sub; export BEFORE=1")
    run(context, f"cd sub; BEFORE=2; {command}", timeout=0.2)
    assert run(context, "pwd; echo $BEFORE") == f"{context.cwd}\n1\n[exit code 0]"


def test_a_shell_whose_directory_is_gone_goes_back_and_says_so(context: Context) -> None:
    run(context, "mkdir sub; cd sub")
    run(context, "rmdir ../sub")
    note = f"[{context.cwd}/sub is gone; the command ran in {context.cwd}]"
    assert run(context, "pwd; echo $PWD") == f"{context.cwd}\n" * 2 + f"{note}\n[exit code 0]"


def test_what_is_carried_from_call_to_call_is_for_the_user_alone(
    context: Context,
) -> None:
    run(context, "umask 000; export TOKEN=abc")
    home = context.own(Shell)._home
    assert home
    assert home.stat().st_mode & 0o777 == 0o700


def test_too_much_to_carry_is_not_carried(context: Context) -> None:
    run(context, "small=1")
    text = run(context, "small=2; big=$(head -c 11000000 /dev/zero | tr '\\0' x)")
    assert "too many to keep" in text
    assert run(context, 'echo "$small ${#big}"').startswith("1 0\n")


@pytest.mark.parametrize(
    ("command", "output", "limit"),
    [
        ("sleep 60 & echo ready", "ready\n", 1.0),
        ("(while :; do echo tick; sleep 0.1; done) & sleep 1; echo fg-done", "fg-done\n", 2.0),
        ("setsid sleep 60 >/dev/null & echo ok", "ok\n", 1.0),
    ],
)
def test_c041_a_child_in_the_background_does_not_hold_up_the_call(
    context: Context, command: str, output: str, limit: float
) -> None:
    began = time.monotonic()
    text = run(context, command, timeout=20)
    assert time.monotonic() - began < limit
    assert output in text
    assert text.endswith("[exit code 0]")
    (left,) = re.findall(r"\[it left (.*) running, now job 1 ", text)
    assert re.match(r"(sleep|bash) \(\d+\)", left)


def test_a_server_left_running_serves_the_next_call_and_ends_with_the_agent(
    context: Context,
) -> None:
    serve = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "open('port', 'w').write(str(s.getsockname()[1]))\n"
        "while True:\n  c, _ = s.accept(); print('served', flush=True)\n"
        "  c.sendall(b'hello'); c.close()"
    )
    (context.cwd / "serve.py").write_text(serve, encoding="utf-8")
    text = run(context, "python3 serve.py & until [ -s port ]; do sleep 0.01; done; echo $!")
    id = int(text.split()[0])
    for _ in range(3):  # what it prints after the call has nowhere to go but the job
        assert "hello" in run(context, "cat </dev/tcp/127.0.0.1/$(cat port)")
    assert bash_output(context, {"id": "1"}).text.startswith("served\nserved\nserved\n[job 1 still")
    context.close()
    assert gone(id)


def test_a_job_left_running_that_ends_by_itself_is_over(context: Context) -> None:
    run(context, "(sleep 0.4; echo later) & echo now")
    until = time.monotonic() + 8
    seen = ""
    while "ended" not in seen and time.monotonic() < until:
        seen += bash_output(context, {"id": "1"}).text
    assert "later\n" in seen
    assert seen.endswith("[job 1 has ended: exit code 0]")


def test_c043_output_up_to_the_time_out_is_kept(context: Context) -> None:
    text = run(context, "echo line-1; echo line-2 1>&2; sleep 100", timeout=0.5)
    assert text.startswith("line-1\nline-2\n")
    assert "it took longer than 0.5 seconds and was ended" in text
    assert "exit code 143 (SIGTERM)" in text


def test_a_time_out_ends_all_that_the_call_began_and_no_older_job(context: Context) -> None:
    run(context, "sleep 60 & echo $! >first")
    began = time.monotonic()
    run(context, "trap '' TERM; setsid sleep 61 & echo $! >second; sleep 62", timeout=0.3)
    assert time.monotonic() - began < 2
    assert gone(int((context.cwd / "second").read_text(encoding="utf-8")))
    assert not gone(int((context.cwd / "first").read_text(encoding="utf-8")), 0.1)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cat", "(no output)\n[exit code 0]"),
        ("read -p 'Sure? ' x; echo got=$x", "got=\n[exit code 0]"),
        ("git init -q r && cd r && git commit --allow-empty", "[exit code "),
        ("python3 -c \"input('name? ')\"", "EOFError"),
        ("echo text >/dev/tty", "No such device or address"),
        ("git init -q . && git config user.email a@b.c && git config user.name n && "
         "git commit -q --allow-empty -m 'one line' && git log", "one line"),
        ("git clone https://127.0.0.1:9/x", "[exit code 128]"),
    ],
)  # fmt: skip
def test_c044_what_would_wait_for_a_person_ends_at_once(
    context: Context, command: str, output: str
) -> None:
    began = time.monotonic()
    assert output in run(context, command, timeout=15)
    assert time.monotonic() - began < 5


def test_c044_a_terminal_of_ours_is_not_the_command_s(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom agent.tool import Context\n"
        "from agent.stop import Stop\nfrom agent.tools.shell import bash\n"
        "context = Context(cwd=Path(sys.argv[1]), stop=Stop(), env={'PATH': '/usr/bin:/bin'})\n"
        "told = bash(context, {'command': 'tty; ps -o tty= $$; echo forged >/dev/tty'})\n"
        "context.close()\nPath(sys.argv[1], 'told').write_text(told.text, encoding='utf-8')\n"
    )
    place = str(Path(shell.__file__).parents[2])
    child = pexpect.spawn(sys.executable, ["-c", script, str(tmp_path)], cwd=place, timeout=10)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert b"forged" not in (child.before or b"")
    told = (tmp_path / "told").read_text(encoding="utf-8")
    assert told.startswith("not a tty\n?\n")


def test_c046_output_that_is_no_utf_8_is_told_all_the_same(context: Context) -> None:
    assert run(context, r"printf 'ok \360\237 end\n'; exit 3") == "ok \ufffd end\n[exit code 3]"
    text = run(context, "head -c 200 /dev/urandom; echo; echo tail-mark")
    assert text.endswith("tail-mark\n[exit code 0]")
    assert not [letter for letter in text if letter < " " and letter not in "\n\t"]


def test_c047_overwritten_frames_and_colours_are_not_told(context: Context) -> None:
    command = (
        "for i in $(seq 1 3000); do printf '\\rfetch %d%%' $((i/30)); done; "
        "printf '\\n\\033[31mred\\033[0m \\033[2Kdone\\n'"
    )
    assert run(context, command) == "fetch 100%\nred done\n[exit code 0]"


def test_long_output_is_cut_and_the_whole_is_in_a_file(context: Context) -> None:
    text = run(context, "seq 1 50000; echo end")
    assert len(text) < shell.SHOWN + 500
    assert text.startswith("1\n2\n")
    assert text.endswith("50000\nend\n[exit code 0]")
    (path,) = re.findall(r"the whole is in (\S+)", text)
    assert run(context, f"tail -n 1 {path}; wc -l <{path}") == "end\n50001\n[exit code 0]"


def test_the_whole_of_a_long_output_goes_to_the_run_s_workspace(
    context: Context, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    inner = context.fresh(context.stop, workspace=workspace)
    run(inner, "seq 1 50000")
    inner.close()
    (file,) = workspace.iterdir()
    assert file.read_text(encoding="utf-8").endswith("\n50000\n")


def test_r70_the_memory_used_does_not_grow_with_the_output(context: Context) -> None:
    run(context, "yes | head -c 40000000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(context, "yes | head -c 100000000; head -c 50000000 /dev/zero | tr '\\0' x")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


@pytest.mark.parametrize(
    "command",
    [
        "head -c 3000000 /dev/urandom",
        "head -c 3000000 /dev/zero",
        "head -c 1000000 /dev/zero | tr '\\0' x",
        "yes $'\\xff\\xfe\\x9b\\x1b[31m' | head -c 1000000",
    ],
)
def test_r71_bytes_of_any_kind_are_a_text_of_bounded_length(context: Context, command: str) -> None:
    text = run(context, command)
    assert len(text) < 40_000
    text.encode()
    assert not set(text) & set(map(chr, (*range(9), *range(11, 32), *range(127, 160))))


@pytest.mark.campaign
@pytest.mark.timeout(120)
def test_r70_a_gigabyte_of_output_takes_no_memory(context: Context) -> None:
    run(context, "yes | head -c 40000000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "left out" in run(context, "yes | head -c 1000000000", timeout=100)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_the_stop_flag_ends_a_call_within_a_second(context: Context) -> None:
    timer = threading.Timer(0.2, context.stop.set)
    timer.start()
    began = time.monotonic()
    text = run(context, "trap '' TERM INT; echo begun; sleep 60")
    assert time.monotonic() - began < 1.2
    assert text.startswith("begun\n")
    assert "it was stopped after 0." in text
    timer.join()
    with pytest.raises(StoppedError):
        run(context, "touch made")
    assert not (context.cwd / "made").exists()


def test_a_shell_heeds_the_flag_of_the_work_that_uses_it_now(context: Context) -> None:
    run(context, "x=kept")
    context.stop.set()  # Ctrl-C ends this turn of a chat …
    later = structs.replace(context, stop=Stop())  # … and the next one has a flag of its own
    assert run(later, "echo $x") == "kept\n[exit code 0]"
    timer = threading.Timer(0.2, later.stop.set)
    timer.start()
    assert seconds(lambda: run(later, "sleep 20")) < 10


def test_calls_of_one_agent_wait_for_each_other(context: Context) -> None:
    first = threading.Thread(target=run, args=(context, "sleep 0.4; export ORDER=first; touch a"))
    context.own(Shell)
    first.start()
    while not running(context.env[MARK]):
        pass
    assert run(context, "ls; echo $ORDER") == "a\nfirst\n[exit code 0]"
    first.join()


def test_a_job_gives_its_output_piece_by_piece(context: Context) -> None:
    text = run(
        context, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 4", background=True
    )
    group = re.fullmatch(
        r"one\n\[job 1 \(process group (\d+)\) still runs, for 0\.\d s now\]", text
    )
    assert group
    first, second = (bash_output(context, {"id": "1"}).text for _ in range(2))
    assert re.fullmatch(r"\(no new output\)\n\[job 1 still runs, for \d\.\d s now\]", first)
    assert first != second, "looking again at what still runs is no repetition"
    run(context, "touch go")
    assert bash_output(context, {"id": 1}).text.startswith("two\n")
    assert (
        bash_output(context, {"id": "1"}).text == "(no new output)\n[job 1 has ended: exit code 4]"
    )


def test_a_job_that_fails_at_once_is_seen_to(context: Context) -> None:
    text = run(context, "nonesuch", background=True)
    assert "nonesuch: command not found" in text
    assert text.endswith("has ended: exit code 127]")


def test_a_job_begins_where_the_shell_is_and_leaves_it_alone(context: Context) -> None:
    run(context, "mkdir sub; cd sub; export FOO=1")
    assert run(context, "pwd; echo $FOO; cd /; FOO=2", background=True).startswith(
        f"{context.cwd}/sub\n1\n"
    )
    assert run(context, "pwd; echo $FOO").startswith(f"{context.cwd}/sub\n1\n")


def test_a_job_ends_with_its_time_or_by_kill_or_with_the_stop_flag(context: Context) -> None:
    run(context, "sleep 60", background=True, timeout=0.3)
    group = re.search(r"group (\d+)", run(context, "sleep 60", background=True))
    assert group
    run(context, "sleep 60", background=True)
    run(context, f"kill -- -{group[1]}")
    for id, code in (("1", "143"), ("2", "143")):
        assert f"ended: exit code {code} (SIGTERM)" in bash_output(context, {"id": id}).text
    assert "still runs" in bash_output(context, {"id": "3"}).text
    context.stop.set()
    assert context.own(Shell)._jobs["3"].wait(1)


def test_a_job_outlives_the_thread_that_began_it(context: Context) -> None:
    starter = threading.Thread(target=run, args=(context, "sleep 60"), kwargs={"background": True})
    context.own(Shell)
    starter.start()
    starter.join()
    assert "still runs" in bash_output(context, {"id": "1"}).text
    (id,) = (id for id, name in running(context.env[MARK]).items() if name == "sleep")
    context.close()
    assert gone(id)


def test_jobs_have_a_bound(context: Context) -> None:
    context.own(Shell)
    shell_ = context.own(Shell)
    for _ in range(shell.JOBS):
        run(context, "sleep 60", background=True)
    with pytest.raises(ToolError, match="8 jobs run already"):
        run(context, "sleep 60", background=True)
    text = run(context, "sleep 61 & echo $!")
    assert "running, which was ended: 8 jobs run already" in text
    assert gone(int(text.split()[0]))
    assert seconds(shell_.close) < 2


def test_an_unknown_job_is_told_with_those_there_are(context: Context) -> None:
    with pytest.raises(ToolError, match="there is no job '7'; there are: none"):
        bash_output(context, {"id": "7"})
    run(context, "true", background=True)
    with pytest.raises(ToolError, match="there are: 1"):
        bash_output(context, {"id": "7"})


@pytest.mark.parametrize(
    ("input", "why"),
    [
        ({"command": "echo \0"}, "null byte"),
        ({"command": "echo \ud800"}, "surrogates"),
        ({"command": ": " + "x" * 120_000}, "longer than 100,000 bytes"),
        ({"command": "true", "timeout": 0}, "above 0"),
        ({"command": "true", "timeout": float("nan")}, "above 0"),
        ({"command": "true", "seconds": 5}, "unknown field"),
    ],
)
def test_a_call_that_can_t_be_made_says_why(
    context: Context, input: dict[str, Any], why: str
) -> None:
    with pytest.raises(ToolError, match=why):
        bash(context, input)


def test_a_command_that_prints_while_it_is_closed_ends(context: Context) -> None:
    run(context, "yes >/dev/null & yes &")
    assert seconds(context.close) < 2


def test_closing_twice_does_nothing(context: Context) -> None:
    run(context, "sleep 60", background=True)
    own = context.own(Shell)
    own.close()
    own.close()


def test_a_shell_costs_little(context: Context) -> None:
    run(context, "true")
    ours = seconds(lambda: run(context, "true"))
    bare = seconds(lambda: subprocess.run(["bash", "-c", "true"], check=True))
    assert ours < bare + 0.2

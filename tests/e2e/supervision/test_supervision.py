"""Supervision, on real processes: whatever dies, the run ends in a true state and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import local_runs
import pytest
from local_runs import LocalRun, LocalRuns, until

from worldsize.agent.local.conductor import conductor_log
from worldsize.common.atomic_files import read_json, write_json
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exits

IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 5 & wait; done"
SLEEPS = "echo ready; exec sleep 60"
SOON = 20.0
"""Seconds: sooner than what sleeps would end by itself."""

DATA_LOADERS = """
import os, signal, sys, time

def fork(work):
    if os.fork() == 0:
        work()
        os._exit(0)

def stay(*moves):
    for move in moves:
        move()
    time.sleep(60)

def deaf(): signal.signal(signal.SIGTERM, signal.SIG_IGN)
def orphan():
    if os.fork(): os._exit(0)

fork(stay)
fork(lambda: stay(os.setsid))
fork(lambda: stay(deaf))
fork(lambda: stay(os.setsid, orphan, deaf))
fork(lambda: stay(os.setpgrp, orphan, lambda: os.kill(os.getpid(), signal.SIGSTOP)))
print("ready")
"""


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def waits(script: str, rank: int = 0) -> str:
    """`script` on one rank, and sleep on all the others."""
    return 'if [ "$RANK" = %d ]; then %s; else %s; fi' % (rank, script, SLEEPS)


def go(run: LocalRun) -> None:
    open(os.path.join(run.paths.root, "go"), "w").close()


def seconds_to_end(run: LocalRun) -> float:
    began = time.monotonic()
    until(run.over, 60, "the run's end")
    return time.monotonic() - began


def assert_failed(result: dict, reason: str, code: int, words: str = "") -> None:
    assert (result["state"], result["reason"], result["exit_code"]) == ("FAILED", reason, code), result
    assert words in result["message"], result


# a rank ends


def test_all_ranks_succeed(start):
    result = start.sh("echo $RANK of $WORLD_SIZE", nodes=2, ranks=2).ended()
    assert (result["state"], result["exit_code"], result["nodes"], result["ranks"]) == ("SUCCEEDED", 0, 2, 4)
    assert result["started"] <= result["ended"]


@pytest.mark.parametrize(("nodes", "ranks", "failing"), [(1, 3, 2), (3, 1, 0), (3, 1, 2), (2, 2, 3)])
def test_the_first_failing_rank_ends_all(start, nodes, ranks, failing):
    run = start.sh(waits("sleep 0.1; exit 7", failing), nodes=nodes, ranks=ranks)
    result = run.ended()
    assert_failed(result, "EXIT_CODE", 7, "rank %d on node %d" % (failing, failing // ranks))
    assert (result["failure"]["rank"], result["failure"]["node_rank"]) == (failing, failing // ranks)
    for record in read_exits(run.paths, nodes):
        assert (record.code, record.stop) == (7, "failure")


@pytest.mark.parametrize("script", [IGNORES_TERM, "echo ready; kill -STOP $$; sleep 60"], ids=["deaf", "stopped"])
def test_the_others_end_within_grace_and_a_moment(start, script):
    run = start.sh("if [ $RANK = 0 ]; then sleep 60; else %s; fi" % script, nodes=2, ranks=2)
    until(lambda: all("ready" in run.log(rank) for rank in (1, 2, 3)))
    os.kill(run.rank(0), signal.SIGKILL)
    assert seconds_to_end(run) < SOON
    result = run.ended()
    assert_failed(result, "SIGNAL", 137, "rank 0 on node 0")


FAILS = """
while not os.path.exists("../go"): time.sleep(0.02)
sys.exit(3)
"""


@pytest.mark.parametrize("end", [FAILS, "time.sleep(60)", ""], ids=["fails", "is stopped", "succeeds"])
def test_nothing_that_ranks_start_outlives_them(start, end):
    run = start.python(DATA_LOADERS + end, nodes=2)
    run.said("ready")
    if end == "time.sleep(60)":
        os.kill(run.rank(1), signal.SIGTERM)
    go(run)
    assert seconds_to_end(run) < SOON
    result = run.ended()
    assert result["exit_code"] == {FAILS: 3, "time.sleep(60)": 143, "": 0}[end]


RAISE_AND_LINGER = """
import atexit, os, time
rank = int(os.environ["RANK"])
if rank == 0:
    atexit.register(time.sleep, 60)
else:
    first = os.environ["WORLDSIZE_ERROR_FILE"].replace("00001", "00000")
    while not os.path.exists(first):
        time.sleep(0.01)
raise ValueError("bad batch of rank %d" % rank)
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_was_stopped_while_it_ended_of_an_exception_ended_of_that(start, nodes):
    """All ranks fail alike, and the first takes long to leave its interpreter: our TERM is not what it died of."""
    result = start.python(RAISE_AND_LINGER, nodes=nodes, ranks=2 // nodes).ended()
    assert_failed(result, "EXIT_CODE", 1, "rank 0 on node 0")
    assert "signal" not in result["message"] and "ValueError: bad batch of rank 0" in result["message"]


def test_a_rank_that_ends_early_with_0_stops_nobody(start):
    run = start.sh("if [ $RANK = 0 ]; then exit 0; fi; sleep 0.4; echo later", nodes=2, ranks=2)
    assert run.ended()["state"] == "SUCCEEDED"
    assert [run.log(rank) for rank in range(4)] == ["", "later\n", "later\n", "later\n"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_rank_killed_from_outside(start, number):
    run = start.sh(SLEEPS, nodes=2, ranks=1)
    run.said("ready")
    os.kill(run.rank(1), number)
    assert_failed(run.ended(), "SIGNAL", 128 + number, "rank 1 on node 1")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no-such-command",), 127, "no-such-command: command not found"),
        (("./no/such/file",), 127, "no such file"),
        (("/etc/passwd",), 126, "cannot be executed"),
        (("/etc",), 127, "no such file"),
        (("./garbage",), 126, "Exec format error"),
        (("./lost-interpreter",), 127, ""),
    ],
)
def test_a_command_that_cannot_start(start, tmp_path, argv, code, words):
    command = argv[0]
    if command in ("./garbage", "./lost-interpreter"):
        command = str(tmp_path / command)
        with open(command, "w") as file:
            file.write("#!/no/such/interpreter\n" if "lost" in command else "\0\1\2\3")
        os.chmod(command, 0o755)
    result = start.argv(command, nodes=2, ranks=2).ended()
    assert_failed(result, "EXIT_CODE", code, words)


# cancel


def test_cancelled_whatever_the_ranks_answer(start):
    run = start.sh("trap 'exit $RANK' TERM; echo ready; while :; do sleep 0.05; done", nodes=2, ranks=2)
    run.said("ready")
    write_json(run.paths.cancel, {})
    run.compute.cancel([run.handle])
    assert seconds_to_end(run) < SOON
    result = run.ended()
    assert (result["state"], result["reason"], result["exit_code"]) == ("CANCELLED", "CANCELLED_BY_USER", 130)


def test_ranks_that_lose_their_peers_by_a_cancel_are_no_failure(start):
    """The cancel reaches one node a little before the other, where a rank fails for it."""
    run = start.python(
        "import os, socket, sys, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    server = socket.create_server(('127.0.0.1', int(os.environ['MASTER_PORT'])))\n"
        "    peer = server.accept()[0]; print('ready'); time.sleep(60)\n"
        "while True:\n"
        "    try: peer = socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT']))); break\n"
        "    except OSError: time.sleep(0.01)\n"
        "print('ready'); peer.recv(1); raise ConnectionError('Connection closed by peer')\n",
        nodes=2,
    )
    run.said("ready")
    os.kill(run.agent(0), signal.SIGTERM)
    assert run.ended()["state"] == "CANCELLED"


def test_cancel_then_at_once(start):
    run = start.sh(IGNORES_TERM, nodes=2, grace=60.0)
    run.said("ready")
    run.compute.cancel([run.handle])
    run.event(1, "stopping")
    run.compute.cancel([run.handle], now=True)
    assert seconds_to_end(run) < 20
    assert run.ended()["state"] == "CANCELLED"


@pytest.fixture(params=["default", "handled"])
def our_own_sigterm(request) -> Iterator[None]:
    """The handler of the program that starts a run: none, or one of its own, as `worldsize run` has."""
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if request.param == "default" else lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01, 0.02, 0.04])
def test_a_cancel_is_never_lost_while_the_run_starts(start, delay, our_own_sigterm):
    run = start.sh("exec sleep 60", nodes=3, ranks=1)
    time.sleep(delay)
    run.compute.cancel([run.handle])
    assert seconds_to_end(run) < SOON
    run.nothing_left()
    if os.path.exists(run.paths.result):
        assert read_json(run.paths.result)["summary"]["state"] == "CANCELLED"
    else:
        assert run.fold(settled=True).state == "LOST", "ended before it could write anything, and nobody asked"


def test_stopped_ranks_can_be_cancelled(start):
    run = start.sh("echo ready; kill -STOP $$; sleep 60", nodes=2, ranks=2)
    run.said("ready")
    run.compute.cancel([run.handle])
    assert seconds_to_end(run) < SOON
    assert run.ended()["state"] == "CANCELLED"


def test_a_cancel_of_what_is_over_is_harmless(start):
    run = start.sh("true")
    before = run.ended()
    run.compute.cancel([run.handle])
    run.compute.cancel([run.handle], now=True)
    assert run.ended() == before


# agents and the conductor


@pytest.mark.parametrize(
    ("nodes", "victim", "script"),
    [(1, 0, SLEEPS), (3, 0, SLEEPS), (3, 2, IGNORES_TERM)],
    ids=["alone", "the head", "a member of deaf ranks"],
)
def test_an_agent_is_killed(start, nodes, victim, script):
    run = start.sh(script, nodes=nodes, ranks=2)
    run.said("ready")
    os.kill(run.agent(victim), signal.SIGKILL)
    assert seconds_to_end(run) < SOON
    result = run.ended()
    assert_failed(result, "NODE_FAILURE", 137, "node %d: its agent was killed by signal 9 (SIGKILL)" % victim)


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_conductor_is_killed(start, nodes):
    run = start.sh(SLEEPS, nodes=nodes, ranks=2)
    run.said("ready")
    os.kill(run.conductor, signal.SIGKILL)
    run.nothing_left(within=SOON)
    assert not os.path.exists(run.paths.result)
    status = run.fold()
    assert (status.state, status.reason) == ("FAILED", "NODE_FAILURE")
    assert "conductor" in status.message


def test_the_conductor_is_killed_and_the_ranks_had_left_daemons(start):
    run = start.python(DATA_LOADERS + "time.sleep(60)", nodes=2)
    run.said("ready")
    os.kill(run.conductor, signal.SIGKILL)
    run.nothing_left(within=SOON)
    assert run.fold().state == "FAILED"


@pytest.mark.exhaustive(unless=["1-0"])
@pytest.mark.timing
@pytest.mark.parametrize(("nodes", "victim"), [(1, 0), (2, 1)])
def test_an_agent_that_stays_stopped_counts_as_lost(start, nodes, victim):
    """On one node nobody but the conductor can tell."""
    run = start.sh(SLEEPS, nodes=nodes, silence=3.0)
    run.said("ready")
    os.kill(run.agent(victim), signal.SIGSTOP)
    assert_failed(run.ended(), "NODE_FAILURE", 137, "node %d: its agent made no progress (stopped or hung)" % victim)


def test_a_stopped_conductor_keeps_nobody_from_the_end(start):
    run = start.sh("echo ready; until [ -e ../go ]; do sleep 0.02; done", nodes=2)
    run.said("ready")
    os.kill(run.conductor, signal.SIGSTOP)
    go(run)
    until(lambda: run.fold().state == "SUCCEEDED")
    os.kill(run.conductor, signal.SIGCONT)
    assert run.ended()["state"] == "SUCCEEDED"


def test_a_stopped_conductor_hears_a_cancel(start):
    run = start.sh(SLEEPS)
    run.said("ready")
    os.kill(run.conductor, signal.SIGSTOP)
    run.compute.cancel([run.handle])
    assert run.ended()["state"] == "CANCELLED"


def test_ten_runs_at_once_do_not_clash(start):
    """Each head's rank binds its port, as torch would, without SO_REUSEADDR."""
    program = (
        "import os, socket, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    s = socket.socket(); s.bind(('', int(os.environ['MASTER_PORT']))); s.listen(); time.sleep(0.3)\n"
    )
    runs = [start.python(program, nodes=1 + number % 2) for number in range(10)]
    assert [run.ended()["state"] for run in runs] == ["SUCCEEDED"] * 10
    assert len({read_json(run.paths.rendezvous)["port"] for run in runs}) == 10


# the disk


def test_a_run_whose_handle_cannot_be_written_is_told_to_end_all_the_same(start, monkeypatch):
    create = local_runs.create_run

    def with_something_in_the_way(home: str) -> RunPaths:
        paths = create(home)
        os.makedirs(os.path.join(paths.handle, "full"))
        return paths

    monkeypatch.setattr(local_runs, "create_run", with_something_in_the_way)
    run = start.sh(SLEEPS, nodes=2)
    run.said("ready")
    run.compute.cancel([run.handle])
    assert run.ended()["state"] == "CANCELLED"


def test_a_conductor_that_cannot_even_say_so_goes_on(start, monkeypatch):
    create = local_runs.create_run

    def with_a_full_disk(home: str) -> RunPaths:
        paths = create(home)
        os.makedirs(os.path.join(paths.handle, "full"))
        os.symlink("/dev/full", conductor_log(paths))
        return paths

    monkeypatch.setattr(local_runs, "create_run", with_a_full_disk)
    assert_failed(start.sh("sleep 0.1; exit 7", nodes=2).ended(), "EXIT_CODE", 7, "exited with code 7")


def test_a_rank_that_meets_a_full_disk(start):
    result = start.python("open('/dev/full', 'w').write('x' * 99999)", nodes=2).ended()
    assert_failed(result, "STORAGE", 1, "No space left on device")


FULL_DISK = """
import json, os, sys
sys.path[:0] = [%(helpers)r, %(src)r]
from local_runs import LocalRuns
from worldsize.state.exit_records import read_exits
run = LocalRuns(%(home)r).sh(%(script)r, nodes=2)
result = run.ended()
print(json.dumps([result, [record.stop for record in read_exits(run.paths, 2)]]))
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("yes worldsize", id="logs fill it"),
        pytest.param("dd if=/dev/zero of=outputs/$RANK bs=4k 2>/dev/null; exit 1", id="outputs fill it"),
        pytest.param("dd if=/dev/zero of=outputs/$RANK bs=4k; true", id="ranks do not mind"),
    ],
)
def test_the_run_directory_fills_up(tmp_path, script):
    """In a mount namespace of its own, so that nothing stays mounted whatever happens."""
    import json
    import subprocess

    helpers = os.path.dirname(os.path.abspath(local_runs.__file__))
    names = {"helpers": helpers, "src": os.path.join(helpers, "..", "..", "src"), "home": str(tmp_path / "small")}
    program = tmp_path / "full.py"
    program.write_text(FULL_DISK % {**names, "script": script})
    (tmp_path / "small").mkdir()
    mount = 'mount -t tmpfs -o size=2m worldsize-test "$1" && exec "$2" "$3"'
    argv = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        mount,
        "sh",
        names["home"],
        sys.executable,
        str(program),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    result, stops = json.loads(done.stdout)
    assert (result["state"], result["reason"]) == ("FAILED", "STORAGE"), result
    assert "no space left" in result["message"].lower()
    assert None not in stops


@pytest.mark.timing
def test_the_run_directory_is_deleted_under_the_run(start):
    import shutil

    run = start.sh("trap '' TERM; echo ready; while :; do sleep 0.1; done", nodes=2, ranks=2, silence=0.9)
    run.said("ready")
    agents = run.agents()
    os.rename(run.paths.root, run.paths.root + ".deleted")  # agents still write into it
    shutil.rmtree(run.paths.root + ".deleted", ignore_errors=True)
    until(run.over, timeout=15)
    until(lambda: not run.marked(), timeout=5)
    assert all(not os.path.exists("/proc/%d" % pid) for pid in agents)
    assert not os.path.exists(run.paths.root), "nothing brings it back"


def test_another_directory_of_the_name_gives_the_ranks_no_grace(start):
    """Found by review: as long as they held out, their Pythons loaded what somebody else had put there."""
    import shutil

    run = start.sh("trap '' TERM; echo ready; while :; do sleep 0.1; done", grace=600)
    run.said("ready")
    agents = run.agents()
    os.rename(run.paths.root, run.paths.root + ".deleted")
    os.mkdir(run.paths.root)
    shutil.rmtree(run.paths.root + ".deleted")
    until(run.over)
    until(lambda: not run.marked())
    assert all(not os.path.exists("/proc/%d" % pid) for pid in agents)


# output


def test_output_is_kept_byte_for_byte(start):
    program = (
        "import os, sys\n"
        "out = sys.stdout.buffer\n"
        "out.write(bytes(range(256)) * 4096); out.write(b'\\n'); out.write(b'x' * 10_000_000 + b'\\n')\n"
        "sys.stderr.write('last words'); sys.stderr.flush(); os.kill(os.getpid(), 9)\n"
    )
    run = start.python(program)
    assert_failed(run.ended(), "SIGNAL", 137)
    with open(run.paths.rank_log(0), "rb") as file:
        data = file.read()
    # stderr is not buffered, stdout's last buffer was: what reached the kernel is there
    assert data.startswith(bytes(range(256)) * 4096 + b"\n" + b"x" * 1000) and data.endswith(b"last words")
    assert len(data) == 256 * 4096 + 1 + 10_000_001 + len(b"last words")


# exceptions


def error_of(run: LocalRun, rank: int = 0) -> dict:
    return read_json(run.paths.rank_error(rank))


def test_an_exception_is_kept_as_data(start):
    run = start.python("def inner(x):\n    return 1 / x\n\ndef outer():\n    inner(0)\n\nouter()\n")
    result = run.ended()
    assert_failed(result, "EXIT_CODE", 1, "ZeroDivisionError: division by zero")
    error = error_of(run)
    assert (error["type"], error["message"]) == ("ZeroDivisionError", "division by zero")
    frames = [(frame["function"], frame["line"], frame["code"]) for frame in error["frames"]]
    assert frames == [("<module>", 7, "outer()"), ("outer", 5, "inner(0)"), ("inner", 2, "return 1 / x")]
    assert all(frame["file"].endswith(".py") for frame in error["frames"])
    assert "Traceback (most recent call last)" in run.log(0)


NO_MESSAGE = "class E(Exception):\n    def __str__(self): raise KeyError\nraise E"


@pytest.mark.parametrize(
    ("program", "type_name", "message"),
    [
        ("raise ValueError('x' * 1_000_000)", "ValueError", "x" * 20_000),
        ("raise ValueError('\\ud800 \\x00 \\u2028')", "ValueError", "\ud800 \0 \u2028"),
        (NO_MESSAGE, "__main__.E", "<the exception's message could not be rendered>"),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth exceeded"),
        ("import json; json.loads('{')", "json.decoder.JSONDecodeError", "Expecting property name enclosed"),
        ("class B(BaseException): pass\nraise B('b')", "__main__.B", "b"),
        ("exec('raise OSError(2, \"gone\")')", "FileNotFoundError", "[Errno 2] gone"),
    ],
    ids=["huge", "unprintable", "no message", "deep", "module", "base", "no source"],
)  # fmt: skip
def test_every_exception_is_kept(start, program, type_name, message):
    run = start.python(program)
    result = run.ended()
    error = error_of(run)
    assert error["type"] == type_name and error["message"].startswith(message)
    assert len(error["message"]) <= 20_000 and len(error["frames"]) <= 50
    assert result["exit_code"] == 1
    assert len(result["message"]) < 1000


@pytest.mark.parametrize(
    ("code", "expected"), [("0", 0), ("None", 0), ("3", 3), ("'words'", 1), ("256 + 4", 4), ("-1", 255)]
)
def test_codes_of_sys_exit(start, code, expected):
    run = start.python("import sys; sys.exit(%s)" % code)
    assert run.ended()["exit_code"] == expected
    assert error_of(run) is None


def test_the_users_own_sitecustomize_still_runs(start, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('mine')\n")
    run = start.python("raise ValueError('v')", environment={"PYTHONPATH": str(tmp_path / "own")})
    run.ended()
    assert run.log(0).startswith("mine\n")
    assert error_of(run)["type"] == "ValueError"


def test_a_script_that_replaces_the_hook_loses_nothing_but_the_data(start):
    run = start.python("import sys\nsys.excepthook = lambda *e: print('own hook')\nraise ValueError('v')")
    assert_failed(run.ended(), "EXIT_CODE", 1, "exited with code 1")
    assert run.log(0) == "own hook\n" and error_of(run) is None


def test_a_childs_exception_is_not_hidden_by_its_parents(start):
    program = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'raise ValueError(\"the cause\")'], check=True)\n"
    )
    assert_failed(start.python(program).ended(), "EXIT_CODE", 1, "ValueError: the cause")


def test_what_torch_records_is_read(start):
    program = (
        "import json, os\n"
        "extra = {'py_callstack': 'a', 'timestamp': '7'}\n"
        "error = {'message': {'message': 'RuntimeError: from record', 'extraInfo': extra}}\n"
        "json.dump(error, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w')); os._exit(5)\n"
    )
    assert_failed(start.python(program).ended(), "EXIT_CODE", 5, "RuntimeError: from record")


def test_a_lost_peer_does_not_hide_the_failure_that_caused_it(start, monkeypatch):
    monkeypatch.setattr("worldsize.state.first_failure.SETTLE", 10.0)
    program = (
        "import os, time\n"
        "if os.environ['RANK'] == '0': raise ConnectionError('Connection closed by peer')\n"
        "time.sleep(0.1); raise ValueError('the cause')\n"
    )
    result = start.python(program, nodes=2).ended()
    assert_failed(result, "EXIT_CODE", 1, "ValueError: the cause")
    assert result["failure"]["rank"] == 1


def test_a_conductor_that_is_a_program_of_its_own_is_no_different(start):
    runs = [start.spawned(SLEEPS, nodes=2, ranks=2) for _ in range(2)]
    for run in runs:
        run.said("ready")
    os.kill(runs[0].rank(3), signal.SIGKILL)
    runs[1].compute.cancel([runs[1].handle])
    assert_failed(runs[0].ended(), "SIGNAL", 137, "rank 3 on node 1")
    assert runs[1].ended()["state"] == "CANCELLED"


def test_the_conductor_keeps_nothing_open_of_its_starter(start):
    reading, writing = os.pipe()
    run = start.sh(SLEEPS, nodes=2)
    run.said("ready")
    os.close(writing)
    assert os.read(reading, 1) == b"", "the pipe ends when the starter closes it"
    os.close(reading)
    run.compute.cancel([run.handle])
    run.ended()

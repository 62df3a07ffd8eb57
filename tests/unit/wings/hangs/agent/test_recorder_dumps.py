"""A rank is asked for the dump of its Flight Recorder through a pipe that has no name."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from worldsize.wings.hangs.agent import recorder_dumps
from worldsize.wings.hangs.agent.recorder_dumps import ask_recorders

RANK = """
import os, sys, time, types
torch = types.ModuleType("torch._C._distributed_c10d")
calls = []
def dump(includeStackTraces):
    calls.append(includeStackTraces)
    return b"dump %d" % len(calls)
torch._dump_fr_trace = dump
sys.modules["torch._C._distributed_c10d"] = torch
os.environ["WORLDSIZE_RANK_PYTHON"] = "%d " % os.getpid()
from worldsize.wings.hangs import inrank
inrank.at_start()
try:
    import torch.distributed.distributed_c10d
except ImportError:
    pass
child = os.fork() if len(sys.argv) > 1 else -1
if child == 0:
    time.sleep(60)
os.write(1, b"%d\\n" % child)
"""


@pytest.fixture
def begun(tmp_path):
    (tmp_path / "errors").mkdir()
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    for name in ("__init__.py", "distributed/__init__.py", "distributed/distributed_c10d.py"):
        (tmp_path / "torch" / name).touch()
    started = []

    def begin(then, *words):
        variables = {
            **os.environ,
            "WORLDSIZE_ERROR_FILE": str(tmp_path / "errors" / "rank-00001.json"),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        }
        command = [sys.executable, "-S", "-c", RANK + then, *words]
        started.append(subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, start_new_session=True))
        return started[-1], started[-1].stdout.readline().decode().strip()

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ask(pid, tmp_path, seconds=10.0):
    return ask_recorders({1: pid}, str(tmp_path / "stacks"), seconds)[1]


def test_each_question_has_an_answer_of_its_own(begun, tmp_path):
    rank, _ = begun("time.sleep(60)")
    for number in (1, 2):
        answer = ask(rank.pid, tmp_path)
        assert (answer.problem, answer.path) == ("", str(tmp_path / "stacks" / "rank-00001.dump"))
        assert open(answer.path, "rb").read() == b"dump %d" % number
        assert abs(answer.taken - time.time()) < 5
    assert sorted(os.listdir(tmp_path / "stacks")) == ["rank-00001.dump", "rank-00001.txt"], "no pipe is left"


def test_a_rank_that_waits_in_the_kernel_is_not_asked(begun, tmp_path, monkeypatch):
    """Reading its environment could wait as long as it does."""
    rank, _ = begun("time.sleep(60)")
    monkeypatch.setattr(recorder_dumps, "state_of", lambda pid: "D")
    assert ask(rank.pid, tmp_path).problem == "the rank waits in the kernel"


def test_a_rank_without_the_pipe_is_not_asked(begun, tmp_path):
    rank, _ = begun("os.closerange(3, 64); os.write(1, b'closed\\n'); time.sleep(60)")
    assert rank.stdout.readline() == b"closed\n"
    assert ask(rank.pid, tmp_path).problem == "the rank has no recorder that responds"
    assert ask(os.getpid(), tmp_path).problem == "the rank has no recorder that responds"
    rank.kill()
    rank.wait()
    assert ask(rank.pid, tmp_path).problem == "the rank has no recorder that responds"


def test_a_fork_does_not_answer_for_its_parent(begun, tmp_path):
    rank, child = begun("time.sleep(60)", "fork")
    assert ask(int(child), tmp_path).problem == "the rank has no recorder that responds"
    assert ask(rank.pid, tmp_path).problem == ""


def test_while_the_lock_of_python_is_held_there_is_no_answer(begun, tmp_path):
    rank, _ = begun("import ctypes; libc = ctypes.PyDLL(None); os.write(1, b'holds\\n'); libc.sleep(60)")
    assert rank.stdout.readline() == b"holds\n"
    answer = ask(rank.pid, tmp_path, 0.3)
    while not answer.problem:  # it has yet to take the lock again
        answer = ask(rank.pid, tmp_path, 0.3)
    assert (answer.path, answer.problem) == ("", "the rank did not answer: Python's lock may be held")

"""What is read of real processes to find a standstill. They work when they are told to; the times are the tests'."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.supervision.standstill import (
    QUIET_BYTES,
    ProcessActivity,
    Sample,
    StandstillDetector,
    is_busy,
    process_activity,
)
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure

HERTZ = os.sysconf("SC_CLK_TCK")
PROGRAM = """
import os, subprocess, sys, threading, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
BURNS = "burn(0.3)"
READS = "open('/dev/zero', 'rb').read(200_000)"
WRITES = "open(os.devnull, 'wb').write(b'x' * 200_000)"
IN_A_CHILD = "subprocess.run([sys.executable, '-c', %r], check=True)"


class Worker:
    """A child of ours that does what it is told."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.do("pass")

    def do(self, line: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def end(self) -> None:
        self.do("[os.kill(int(pid), 9) for pid in open('/proc/self/task/%d/children' % os.getpid()).read().split()]")
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    if made.process.poll() is None:
        os.kill(made.pid, signal.SIGCONT)
        made.end()


def work_of(worker: Worker, line: str) -> tuple[ProcessActivity, ProcessActivity]:
    before = process_activity(worker.pid)
    worker.do(line)
    return before, process_activity(worker.pid)


def is_work(worker: Worker, line: str, seconds: float) -> bool:
    """Whether doing this in so many seconds is work."""
    before, after = work_of(worker, line)
    return is_busy(Sample(0.0, (), {1: before}), Sample(seconds, (), {1: after}), HERTZ)


@pytest.mark.exhaustive(unless=["line1"])
@pytest.mark.heavy
@pytest.mark.parametrize("line", [BURNS, IN_A_CHILD % ("import time\nwhile time.process_time() < 0.3: pass")])
def test_cpu_time_counts_that_of_ended_children_too(worker: Worker, line: str) -> None:
    before, after = work_of(worker, line)
    assert after.ticks - before.ticks >= 0.25 * HERTZ
    assert is_work(worker, line, 5.0)


@pytest.mark.parametrize("line", [READS, WRITES])
def test_bytes_read_and_written_count(worker: Worker, line: str) -> None:
    before, after = work_of(worker, line)
    assert 200_000 <= after.moved - before.moved < 250_000
    assert is_work(worker, line, 5.0) and not is_work(worker, line, 300_000 / QUIET_BYTES)


def test_what_lives_below_counts_in_whatever_session(worker: Worker) -> None:
    alone = process_activity(worker.pid)
    worker.do("child = subprocess.Popen([sys.executable, '-c', %r], stdin=subprocess.PIPE, stdout=subprocess.PIPE, "
              "text=True, start_new_session=True)" % PROGRAM)  # fmt: skip
    worker.do("child.stdin.write('burn(0.3)\\n'); child.stdin.flush(); child.stdout.readline()")
    both = process_activity(worker.pid)
    assert both.ticks - alone.ticks >= 0.25 * HERTZ


def test_a_wait_that_looks_for_a_file_now_and_then_is_none(worker: Worker) -> None:
    """20 looks in each of 3 s, beside a thread that wakes up 100 times."""
    polls = "[os.path.exists('never') for _ in range(60)]; "
    thread = "t = threading.Thread(target=lambda: [time.sleep(1e-4) for _ in range(300)]); t.start(); t.join()"
    assert not is_work(worker, polls + thread, 3.0)


def test_a_process_that_sleeps_has_no_activity(worker: Worker) -> None:
    assert process_activity(worker.pid) == process_activity(worker.pid)


def test_a_stopped_process_is_held_wherever_it_is_below(worker: Worker) -> None:
    assert not process_activity(worker.pid).held
    worker.stop()
    assert process_activity(worker.pid).held
    os.kill(worker.pid, signal.SIGCONT)
    worker.do("child = subprocess.Popen(['sleep', '600']); os.kill(child.pid, 19); os.waitpid(child.pid, os.WUNTRACED)")
    assert process_activity(worker.pid).held


def test_who_is_gone_has_done_nothing() -> None:
    ended = Worker()
    ended.end()
    assert process_activity(ended.pid) == ProcessActivity(0, 0, False)


# the detector, on a worker as the one rank that is left


class Node:
    def __init__(self, root: str, worker: Worker, limit: float) -> None:
        self.worker = worker
        plan = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), ("true",), {}, hang_timeout=limit)
        self.paths = RunPaths(root)
        os.makedirs(self.paths.logs_dir)
        self.peers = Peers(Host("n0", 1))
        self.living = {worker.pid: Process((1,), ("true",), {}, self.paths.rank_log(1), ())}
        self.detector = StandstillDetector(plan, self.paths, self.peers, every=1.0)

    def check(self, now: float) -> Failure | None:
        return self.detector.check(self.living, now)


@pytest.fixture
def node(tmp_path, worker: Worker) -> Node:
    return Node(str(tmp_path), worker, limit=5.0)


def test_a_rank_that_waits_hangs_after_the_limit(node: Node) -> None:
    node.peers.check_standstill = True
    found = [node.check(float(now)) for now in range(7)]
    assert found[:5] == [None] * 5
    assert found[5] is not None and "rank 0 ended with code 0, and rank 1 still waited" in found[5].message


def test_nobody_is_watched_before_a_rank_has_ended(node: Node) -> None:
    assert [node.check(float(now)) for now in range(20)] == [None] * 20
    node.peers.check_standstill = True
    assert [node.check(float(now)) for now in range(20, 25)] == [None] * 5, "what was before does not count"
    assert node.check(25.0) is not None


@pytest.mark.parametrize("line", [BURNS, READS])
def test_a_rank_that_works_does_not(node: Node, line: str) -> None:
    node.peers.check_standstill = True
    for now in range(4):
        assert node.check(float(now)) is None
    node.worker.do(line)
    assert [node.check(float(now)) for now in range(4, 9)] == [None] * 5
    assert node.check(9.0) is not None


def test_a_rank_that_prints_does_not(node: Node) -> None:
    node.peers.check_standstill = True
    for now in range(30):
        with open(node.paths.rank_log(1), "a") as log:
            log.write(".")
        assert node.check(float(now)) is None


def test_a_run_that_was_paused_does_not(node: Node) -> None:
    node.peers.check_standstill = True
    for now in (0.0, 1.0, 2.0, 100.0, 101.0, 104.0):
        assert node.check(now) is None
    assert node.check(105.0) is not None


def test_a_rank_that_somebody_has_stopped_does_not(node: Node) -> None:
    node.peers.check_standstill = True
    node.worker.stop()
    assert [node.check(float(now)) for now in range(20)] == [None] * 20

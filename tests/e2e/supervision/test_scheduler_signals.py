"""A scheduler signals all processes of a step: ranks may fall before their agents hear of it; notices are for ranks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from local_runs import LocalRun, LocalRuns, until

SLEEPS = "echo ready; exec sleep 60"
C_LIBRARY = 1 << 31 | 1 << 32
"""Signals 32 and 33, its own: nobody else can set them."""

NOTICES = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGXCPU)


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


@pytest.fixture
def settles_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspect waits for long: however late the test's next signal comes, it is in time."""
    monkeypatch.setattr("worldsize.state.first_failure.SETTLE", 60.0)


def at_once(pids: list[int], number: int) -> None:
    """To all of them before one can answer: those that are told by it may be gone before the next signal."""
    for each in (signal.SIGSTOP, number, signal.SIGCONT):
        for pid in pids:
            os.kill(pid, each)


def summary(run: LocalRun) -> tuple[str, str, int]:
    result = run.ended()
    return result["state"], result["reason"], result["exit_code"]


def test_notices_reach_ranks_and_end_no_agent(start):
    run = start.sh("trap 'echo heard' USR1; echo ready; while [ ! -e ../go ]; do sleep 0.02; done", nodes=2)
    run.said("ready")
    for pid in (run.conductor, *run.agents()):
        for number in NOTICES:
            os.kill(pid, number)
    for rank in (0, 1):
        os.kill(run.rank(rank), signal.SIGUSR1)
    run.said("heard")
    open(os.path.join(run.paths.root, "go"), "w").close()
    assert run.ended()["state"] == "SUCCEEDED"


def test_ranks_find_every_signal_as_a_login_shell_leaves_it(start):
    run = start.sh("grep -E '^Sig(Ign|Blk)' /proc/self/status")
    assert run.ended()["state"] == "SUCCEEDED"
    masks = [int(line.split()[1], 16) for line in run.log(0).splitlines()]
    assert [mask & ~C_LIBRARY for mask in masks] == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("nodes", "ranks"), [(1, 2), (2, 1)])
def test_ranks_that_a_cancel_reaches_before_their_agents_are_no_failure(start, number, nodes, ranks, settles_late):
    run = start.sh(SLEEPS, nodes=nodes, ranks=ranks)
    run.said("ready")
    for rank in (1, 0):
        os.kill(run.rank(rank), number)
    run.event(nodes - 1, "rank_exited")
    time.sleep(0.05)
    at_once(run.agents(), number)
    assert summary(run) == ("CANCELLED", "CANCELLED_BY_USER", 130)


def test_nor_is_what_a_cancelled_rank_answers_or_its_peer_says(start, settles_late):
    """One rank dies of the signal, one makes a code of its own out of it, one loses its peer."""
    program = (
        "import os, signal, sys, time\n"
        "rank = os.environ['RANK']\n"
        "if rank == '1': signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "if rank == '2': signal.signal(signal.SIGTERM, lambda *_: sys.exit('Connection reset by peer'))\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    run = start.python(program, ranks=3)
    run.said("ready")
    os.kill(run.rank(0), signal.SIGTERM)
    until(lambda: any(event["event"] == "rank_exited" for event in run.events(0)))
    for rank in (1, 2):
        os.kill(run.rank(rank), signal.SIGTERM)
    time.sleep(0.05)
    os.kill(run.agent(0), signal.SIGTERM)
    assert summary(run) == ("CANCELLED", "CANCELLED_BY_USER", 130)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_rank_that_is_signalled_alone_is_the_failure(start, number):
    run = start.sh(SLEEPS, nodes=2, ranks=2)
    run.said("ready")
    os.kill(run.rank(2), number)
    result = run.ended()
    assert (result["state"], result["reason"], result["exit_code"]) == ("FAILED", "SIGNAL", 128 + number)
    assert result["failure"]["rank"] == 2 and "rank 2 on node 1" in result["message"]
    ends = [each["time"] for node in (0, 1) for each in run.events(node) if each["event"] == "rank_exited"]
    assert len(ends) == 4 and max(ends) - min(ends) < 20


def test_a_rank_that_is_killed_waits_for_nobody(start, settles_late):
    run = start.sh(SLEEPS, nodes=2)
    run.said("ready")
    os.kill(run.rank(1), signal.SIGKILL)
    exited = run.event(1, "rank_exited")["time"]
    assert run.event(1, "stopping")["time"] - exited < 30
    assert summary(run) == ("FAILED", "SIGNAL", 137)


def test_the_first_of_two_failures_counts_where_the_first_is_a_signal(start):
    script = "echo ready; until [ $RANK = 1 -a -e ../go ]; do sleep 0.02; done; exit 9"
    run = start.sh(script, ranks=2)
    run.said("ready")
    os.kill(run.rank(0), signal.SIGTERM)
    run.event(0, "rank_exited")
    open(os.path.join(run.paths.root, "go"), "w").close()
    result = run.ended()
    assert (result["reason"], result["exit_code"], result["failure"]["rank"]) == ("SIGNAL", 143, 0)

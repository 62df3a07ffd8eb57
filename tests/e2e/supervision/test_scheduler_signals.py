"""A scheduler signals all processes of a step: ranks may fall before their agents hear of it; notices are for ranks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from local_runs import LocalRun, LocalRuns

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


def test_ranks_that_a_cancel_reaches_before_their_agents_are_no_failure(start, settles_late):
    run = start.sh(SLEEPS, nodes=2)
    run.said("ready")
    for rank in (1, 0):
        os.kill(run.rank(rank), signal.SIGINT)
    for node in (1, 0):
        run.event(node, "rank_exited")
    at_once(run.agents(), signal.SIGINT)
    assert summary(run) == ("CANCELLED", "CANCELLED_BY_USER", 130)


def test_one_rank_that_is_signalled_alone_is_the_failure(start):
    run = start.sh(SLEEPS, nodes=2, ranks=2)
    run.said("ready")
    os.kill(run.rank(2), signal.SIGTERM)
    result = run.ended()
    assert (result["state"], result["reason"], result["exit_code"]) == ("FAILED", "SIGNAL", 143)
    assert result["failure"]["rank"] == 2 and "rank 2 on node 1" in result["message"]
    ends = [each["time"] for node in (0, 1) for each in run.events(node) if each["event"] == "rank_exited"]
    assert len(ends) == 4 and max(ends) - min(ends) < 20

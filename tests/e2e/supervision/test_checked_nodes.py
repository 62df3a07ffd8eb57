"""Runs whose nodes are checked before their ranks start, in real processes: whatever happens to a check, the run goes
on or ends in time, and nothing of the check is left.

What a node program can do to its agent: tests/unit/wings/checks/agent/test_preparation.py.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_runs import LocalRun, LocalRuns, until

from worldsize.agent.posix import processes
from worldsize.wings.checks.agent.record import read_check_record

HANGING = """import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "300"], start_new_session=True)
with open(os.environ["STARTED"], "a") as file:
    file.write("%d\\n" % os.getpid())
time.sleep(300)
"""
"""A module of the script's; the environment's imports never end."""


class CheckedRuns(LocalRuns):
    """Starts runs that are checked, with a module that hangs."""

    def __init__(self, home: Path) -> None:
        super().__init__(str(home / "home"))
        self.started = home / "started"
        self.modules = home / "modules"
        self.modules.mkdir()
        (self.modules / "hanging.py").write_text(HANGING)

    def checked(self, nodes: int = 2, mode: str = "full", only: tuple[str, ...] = ("python.imports",)) -> LocalRun:
        asked: dict[str, Any] = {"virtual": True, "python": sys.executable, "modules": ["hanging"]}
        check = {"mode": mode, "only": list(only), "asked": asked}
        environ = {"PYTHONPATH": str(self.modules), "STARTED": str(self.started)}
        return self.sh("echo trained", nodes=nodes, environ=environ, options={"check": check})

    def hangs(self, nodes: int) -> None:
        """Wait until each node hangs in its imports."""
        until(lambda: self.started.exists() and len(self.started.read_text().split()) == nodes, 20, "the imports")


@pytest.fixture
def start(tmp_path) -> Iterator[CheckedRuns]:
    runs = CheckedRuns(tmp_path)
    yield runs
    runs.destroy()


def node_program(run: LocalRun, node_rank: int) -> int:
    """The one child of an agent that is checking its node."""
    (found,) = processes._children(run.agent(node_rank))
    return found


def test_a_check_is_over_before_the_ranks_start(start):
    run = start.checked(nodes=3, only=("files.space", "files.share"))
    assert run.ended()["state"] == "SUCCEEDED"
    record = read_check_record(run.paths)
    assert record is not None and {row.id for row in record.rows} == {"files.space", "files.share"}
    assert not [name for name in os.listdir(run.paths.root) if name.startswith(".check")]


@pytest.mark.parametrize("node_rank", [0, 1])
def test_a_program_that_is_killed_does_not_end_the_run(start, node_rank):
    """What it has started hangs, and ignores TERM: it is ended before the ranks start, and is no leftover of theirs."""
    run = start.checked()
    start.hangs(2)
    began = time.monotonic()
    killed = node_program(run, node_rank)
    os.kill(killed, signal.SIGKILL)
    if node_rank == 1:
        until(lambda: not os.path.exists("/proc/%d" % killed))  # its agent has reaped it
        os.kill(node_program(run, 0), signal.SIGKILL)  # its own imports hang, too
    run.event(0, "ranks_started")
    assert time.monotonic() - began < 10
    result = run.ended()
    assert result["state"] == "SUCCEEDED" and "trained" in run.log(1), result
    assert "the check of this node ended by itself" in run.event(node_rank, "notice")["text"]


def test_a_run_that_is_cancelled_while_its_nodes_are_checked(start):
    run = start.checked()
    start.hangs(2)
    began = time.monotonic()
    run.compute.cancel([run.handle])
    result = run.ended(20)
    assert result["state"] == "CANCELLED" and time.monotonic() - began < 15, result
    assert run.log(0) == ""


@pytest.mark.parametrize("node_rank", [0, 1])
def test_a_node_that_is_lost_while_its_nodes_are_checked(start, node_rank):
    run = start.checked()
    start.hangs(2)
    began = time.monotonic()
    os.kill(run.agent(node_rank), signal.SIGKILL)
    result = run.ended(20)
    assert result["state"] == "FAILED" and time.monotonic() - began < 15, result
    assert run.log(0) == ""


def test_a_node_program_that_is_stopped_is_ended_with_the_run(start):
    run = start.checked()
    start.hangs(2)
    for node_rank in (0, 1):
        os.kill(node_program(run, node_rank), signal.SIGSTOP)
    run.compute.cancel([run.handle])
    assert run.ended(20)["state"] == "CANCELLED"


@pytest.mark.exhaustive
@pytest.mark.timing
def test_a_check_that_hangs_ends_at_its_limit(start):
    """The cheap form: 30 s, and 10 s more for a program that does not keep to them."""
    began = time.monotonic()
    run = start.checked(mode="cheap", only=("files.space",))
    os.kill(until(lambda: processes._children(run.agent(0)))[0], signal.SIGSTOP)
    assert run.ended()["state"] == "SUCCEEDED" and time.monotonic() - began < 50

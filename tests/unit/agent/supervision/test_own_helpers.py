"""What ranks have left, which is told, and our own processes beside them, which are not. All are real processes."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.agent.posix import processes
from worldsize.agent.supervision.rank_processes import Leftover, RankProcesses, leftover_of

LASTS = "exec sleep 1000"
Starts = Callable[[Path], object]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Starts], int]]:
    """Calls what starts a program that writes its number to the file that it is given; the number. All are ended."""
    pids: list[int] = []

    def start(starts: Starts) -> int:
        file = tmp_path / ("pid-%d" % len(pids))
        starts(file)
        wait_for(lambda: file.exists() and file.read_text().endswith("\n"))
        pids.append(int(file.read_text()))
        wait_for(lambda: "sleep" in processes.command_line(pids[-1]))
        return pids[-1]

    yield start
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # another's, who reaps it
            os.waitpid(pid, 0)


def telling(file: Path) -> str:
    return "echo $$ >%s; %s" % (shlex.quote(str(file)), LASTS)


def shell(script: str, environment: dict[str, str], helper: bool = False) -> None:
    start = processes.spawn_helper if helper else processes.spawn
    start("/bin/sh", ("sh", "-c", script), {"PATH": os.environ["PATH"], **environment}, os.devnull)


@pytest.mark.parametrize(("environment", "rank"), [({"WORLDSIZE_RANK": "3"}, 3), ({}, None)])
def test_what_a_rank_has_left_is_told(
    started: Callable[[Starts], int], environment: dict[str, str], rank: int | None
) -> None:
    pid = started(lambda file: shell(telling(file), environment))
    assert leftover_of(pid, {}) == Leftover(("sleep", "1000"), rank)


def test_what_is_gone_is_not() -> None:
    assert leftover_of(2**22 + 1, {}) is None


def test_a_helper_is_not_nor_what_it_has_started(started: Callable[[Starts], int]) -> None:
    assert leftover_of(started(lambda file: shell(telling(file), {"WORLDSIZE_RANK": "3"}, helper=True)), {}) is None
    inner = "env -i PATH=$PATH sh -c %s & wait"
    assert leftover_of(started(lambda file: shell(inner % shlex.quote(telling(file)), {}, helper=True)), {}) is None


def test_a_helper_of_another_agent_which_a_rank_has_started_is(started: Callable[[Starts], int]) -> None:
    pid = started(lambda file: shell(telling(file), {processes.HELPER_OF: str(os.getppid())}))
    assert leftover_of(pid, {}) is not None


def test_a_frameworks_server_is_ended_as_soon_as_the_ranks_are_gone(started: Callable[[Starts], int]) -> None:
    """Found: each run of Horovod ended a second late. Another helper has its time to end by itself."""
    server, other = (started(lambda file: shell(telling(file), {}, helper=True)) for _ in range(2))
    ranks = RankProcesses()
    ranks._servers = {server}
    assert not ranks.end_leftovers(0.0, False, patience=60.0)
    wait_for(lambda: state_of(server) == b"Z")
    assert state_of(other) != b"Z" and ranks.leftovers == []


def state_of(pid: int) -> bytes:
    return (processes.stat_fields(pid) or [b""])[0]

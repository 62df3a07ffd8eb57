"""Faults at random: any process of a run is killed or stopped at any moment; the state is true and nothing is left.

WORLDSIZE_FAULTS=N takes more cases than the usual few, WORLDSIZE_FAULT_SEED another seed.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest
from local_runs import LocalRun, LocalRuns, until

from worldsize.agent import processes
from worldsize.plan.files import read_json
from worldsize.state.records import RunState

pytestmark = pytest.mark.chaos

CASES = int(os.environ.get("WORLDSIZE_FAULTS", "15"))
SEED = int(os.environ.get("WORLDSIZE_FAULT_SEED", "20261121"))
FAULTS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)
RANK = "sh -c 'sleep 0.4' & sleep 0.3; wait"
NODES, RANKS, GRACE, SILENCE = 3, 2, 0.4, 4.0


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def everybody(run: LocalRun) -> dict[int, str]:
    """Every process of the run, and what it is."""
    found = {run.conductor: "conductor"}
    for pid in descendants(run.conductor):
        found[pid] = "agent" if parent(pid) == run.conductor else "rank"
    return {pid: what for pid, what in found.items() if processes.start_time(pid) is not None}


def descendants(pid: int) -> list[int]:
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            below.setdefault(parent(int(name)), []).append(int(name))
    found, front = [], [pid]
    while front:
        front = [child for each in front for child in below.get(each, ())]
        found += front
    return found


def parent(pid: int) -> int:
    fields = processes.stat_fields(pid)
    return int(fields[1]) if fields else 0


def strike(run: LocalRun, dice: random.Random, delay: float, number: int) -> str:
    """One fault; what it hit, or "nothing" where the run was over or the victim had just ended."""
    time.sleep(delay)
    victims = everybody(run)
    if not victims:
        return "nothing"
    pid = dice.choice(sorted(victims))
    fields = processes.stat_fields(pid)
    if fields is None or fields[0] in b"ZX":
        return "nothing"
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return "nothing"
    return victims[pid]


def outcome(run: LocalRun, victim: str, number: int) -> tuple[str, str | None]:
    """The final state, once nothing is left; a conductor that was hit leaves it to the fold."""
    limit = GRACE + SILENCE + 20
    if victim == "conductor" and number == signal.SIGSTOP:
        early = None
        if launched(run):
            until(lambda: len(everybody(run)) <= 1, limit, "the end of the agents and ranks")
            early = run.fold()
        os.kill(run.conductor, signal.SIGCONT)
        until(run.over, limit)
        if early is not None:
            return early.state, early.reason
    until(run.over, limit, "the end of the conductor")
    run.nothing_left(within=limit)
    written = read_json(run.paths.result)
    if written is not None:
        return written["summary"]["state"], written["summary"]["reason"]
    status = run.fold(settled=True)
    return status.state, status.reason


def launched(run: LocalRun) -> bool:
    """Whether every node has started its ranks, and so needs the conductor no more."""
    time.sleep(0.1)
    nodes = (run.events(node.node_rank) for node in run.plan.nodes)
    return all(any(event["event"] == "ranks_started" for event in events) for events in nodes)


def true_states(victim: str, number: int) -> set[str]:
    """What a fault may lead to. A process that was just ending by itself may have been hit too late to matter."""
    if number == signal.SIGSTOP:
        return {"agent": {"FAILED", "SUCCEEDED"}}.get(victim, {"SUCCEEDED"})
    if number == signal.SIGTERM and victim in ("agent", "conductor"):
        return {"CANCELLED", "LOST", "SUCCEEDED"} if victim == "conductor" else {"CANCELLED", "SUCCEEDED", "FAILED"}
    return {"FAILED", "LOST", "SUCCEEDED"} if victim == "conductor" else {"FAILED", "SUCCEEDED"}


@pytest.mark.exhaustive(unless=["0", "1", "2", "3"])
@pytest.mark.parametrize("case", range(CASES))
def test_a_random_fault(start, case):
    dice = random.Random(SEED * 1000 + case)
    number, delay = dice.choice(FAULTS), dice.uniform(0, 0.3)
    run = start.sh(RANK, nodes=NODES, ranks=RANKS, grace=GRACE, silence=SILENCE)
    victim = strike(run, dice, delay, number)
    if victim == "rank" and number == signal.SIGSTOP:
        stop_until_cancelled(run)
        return
    state, reason = outcome(run, victim, number)
    told = "%s %s after %.3f s: %s %s" % (signal.Signals(number).name, victim, delay, state, reason)
    assert state in RunState.FINAL, told
    assert state in true_states(victim, number), told
    assert state != RunState.SUCCEEDED or every_rank_ended_well(run), told


def stop_until_cancelled(run: LocalRun) -> None:
    """A rank that stays stopped keeps its run from its end, until somebody cancels.

    Stopped between fork and exec, where the kernel lets nobody but KILL wake its agent, it takes the agent with it.
    """
    time.sleep(0.5)
    run.compute.cancel(run.handle)
    until(run.over, GRACE + 20)
    run.nothing_left(within=20)
    found = read_json(run.paths.result)["summary"]
    assert found["state"] in ("CANCELLED", "SUCCEEDED") or found["reason"] == "NODE_FAILURE"


def every_rank_ended_well(run: LocalRun) -> bool:
    codes = {}
    for node in run.plan.nodes:
        for event in run.events(node.node_rank):
            if event["event"] == "rank_exited":
                codes.update(dict.fromkeys(event["ranks"], event["code"]))
    return codes == dict.fromkeys(range(NODES * RANKS), 0)

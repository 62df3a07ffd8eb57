"""Nodes that fail, and jobs that make way for others: what Slurm puts back runs again, what it does not is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

import pytest
from driver import wait_for
from slurm.cluster import Cluster, Flavour
from slurm.fixtures import skip_without_cluster
from slurm.login import PATIENT, UP, Login, login_of

AGAIN = "if [ ${SLURM_RESTART_COUNT:-0} -gt 0 ]; then echo again $RANK; exit 0; fi; echo first $RANK; " + PATIENT
ONCE = {"requeue": False}


def first_then_again(login: Login, run: str) -> None:
    """Both attempts are kept, each with its own logs."""
    assert login.ended(run)["state"] == "SUCCEEDED"
    assert sorted(login.ok("logs", run, "--raw").lines) == ["again 0", "again 1"]
    assert sorted(login.ok("logs", run, "--raw", "--attempt", "0").lines) == ["first 0", "first 1"]


def told(status: Mapping[str, Any]) -> tuple[str, str | None]:
    return status["state"], status["reason"]


def once(login: Login, run: str, state: str) -> Mapping[str, Any]:
    """The first status that is this one."""
    seen: Mapping[str, Any] = {}

    def is_so() -> bool:
        nonlocal seen
        seen = login.status(run)
        return bool(seen["state"] == state)

    wait_for(is_so)
    return seen


@pytest.mark.exhaustive
def test_nodes_without_power_or_network(login: Login) -> None:
    """Slurm needs about 15 s to notice: four runs share the wait, two that may be put back and two that may not."""
    cluster = login.cluster
    cluster.command("scontrol", "update", "NodeName=node[1-2]", "State=DRAIN", "Reason=elsewhere")
    on_34 = [login.running(AGAIN), login.running(AGAIN, slurm=ONCE)]
    cluster.command("scontrol", "update", "NodeName=node[1-2]", "State=RESUME")
    wait_for(lambda: cluster.states()["node1"] == cluster.states()["node2"] == "idle")
    on_12 = [login.running(AGAIN), login.running(AGAIN, slurm=ONCE)]
    assert [login.hosts(run) for run in (*on_34, *on_12)] == [["node3", "node4"]] * 2 + [["node1", "node2"]] * 2
    cluster.power_off("node2")
    cluster.cut_network("node3")

    login("wait", on_34[1], "--timeout", "60")
    assert told(login.status(on_34[1])) == ("FAILED", "NODE_FAILURE")
    there = [process.argv for process in cluster.processes("node3")]
    assert there.count(("sleep", "120")) == 2, "a node without a network runs on, until our agents give up"
    login("wait", on_34[0], "--timeout", "60")
    assert login.status(on_34[0])["state"] == "SUCCEEDED"
    cluster.power_off("node3")

    status = login.ended(on_12[1])
    assert told(status) == ("FAILED", "NODE_FAILURE")
    assert "node[1-2]" in status["message"], status
    first_then_again(login, on_12[0])
    assert "node2" not in login.hosts(on_12[0], 1)

    assert told(login.ended(on_34[1])) == ("FAILED", "NODE_FAILURE")
    first_then_again(login, on_34[0])


@pytest.mark.slurm
def test_a_node_whose_silence_we_notice_before_slurm_does() -> None:
    """Slurm's usual SlurmdTimeout is 5 minutes, our agents wait 45 s (here, 6). They end the ranks; whether the job is
    put back is Slurm's to say, once it knows."""
    skip_without_cluster(accounting=False)
    with Cluster.start(Flavour(nodes=3, accounting=False, slurmd_timeout=300)) as cluster, login_of(cluster) as login:
        run = login.prepared(6.0, AGAIN, grace=1)
        login.release(run)
        login.wait_up(run)
        cluster.power_off("node2")
        wait_for(lambda: login.status(run)["state"] == "STOPPING", 30)
        assert "node 1 (node2): its agent has sent nothing for 6 s" in login.status(run)["message"]
        wait_for(lambda: not login.ours(run), 30)
        cluster.command("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=noticed")
        first_then_again(login, run)


def test_a_node_that_is_set_down(login: Login) -> None:
    """What is put back finds too few nodes until it has been looked at."""
    back = login.running(AGAIN)
    no_back = login.running(AGAIN, slurm=ONCE)
    login.cluster.command("scontrol", "update", "NodeName=node[2-4]", "State=DRAIN", "Reason=elsewhere")
    login.cluster.command("scontrol", "update", "NodeName=node1", "State=DOWN", "Reason=test")
    assert "put back into the queue" in once(login, back, "QUEUED")["message"]
    status = login.ended(no_back)
    assert told(status) == ("FAILED", "NODE_FAILURE"), status
    assert "node[1-2] failed" in status["message"]
    login.cluster.command("scontrol", "update", "NodeName=node[2-4]", "State=RESUME")
    first_then_again(login, back)


@pytest.mark.exhaustive(unless=["9"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_outlives_slurmd(login: Login, number: int) -> None:
    run = login.running(UP + "; until test -e outputs/go; do sleep 0.05; done; echo done")
    login.cluster.kill_slurmd("node1", number)
    time.sleep(1)
    assert login.status(run)["state"] == "RUNNING"
    login.cluster.restart_slurmd("node1")
    open(login.path(run, "outputs", "go"), "w").close()
    assert login.ended(run)["state"] == "SUCCEEDED"
    assert login.ok("logs", run, "--raw").lines == ["done"] * 2


def test_a_run_makes_way_for_one_that_goes_first(login: Login) -> None:
    back = login.running(AGAIN, slurm={"partition": "low", "exclusive": True})
    gone = login.running(AGAIN, slurm={"partition": "low", "exclusive": True, **ONCE})
    high = login.running(
        UP + "; until test -e outputs/go; do sleep 0.05; done", "4x1", slurm={"partition": "high", "exclusive": True}
    )
    status = login.ended(gone)
    assert told(status) == ("FAILED", "PREEMPTED"), status
    assert "preempted by a job that goes first" in status["message"]
    assert "preempted and put back into the queue" in once(login, back, "QUEUED")["message"]
    open(login.path(high, "outputs", "go"), "w").close()
    assert login.ended(high)["state"] == "SUCCEEDED"
    first_then_again(login, back)
    assert sorted(name for name in os.listdir(login.path(back)) if name.startswith("attempt")) == [
        "attempt-0",
        "attempt-1",
    ]

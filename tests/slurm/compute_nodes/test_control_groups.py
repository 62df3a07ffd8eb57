"""What Slurm itself ends with a job: with control groups everything, without them what it finds by parents."""

from __future__ import annotations

import contextlib
import os
import signal

from driver import wait_for
from slurm.cluster import Cluster
from slurm.fixtures import remains
from slurm.login import UP, Login
from slurm.processes import Process

GONE = 'setsid sh -c "exec sleep 117" </dev/null >/dev/null 2>&1 &'
"""A process that has left its session, and whose parent ends."""


def is_agent(process: Process) -> bool:
    return process.name.startswith("python") and "agent.pyz" in " ".join(process.argv)


def sleepers(slurm: Cluster, node: str) -> list[int]:
    return [each.pid for each in slurm.processes(node) if each.argv == ("sleep", "117")]


def test_a_process_that_has_left_its_parents_ends_with_its_job_where_there_are_control_groups(slurm: Cluster) -> None:
    job = slurm.command(
        "sbatch", "--parsable", "--nodelist=node1", "--wrap", "(%s)\nexec sleep 116" % GONE, cwd=slurm.shared
    )
    assert wait_for(lambda: sleepers(slurm, "node1"), 30)
    slurm.command("scancel", job.strip())
    slurm.wait_idle()
    left = remains(slurm) if slurm.group.version else sleepers(slurm, "node1")
    assert bool(left) != bool(slurm.group.version), left
    for pid in sleepers(slurm, "node1"):
        os.kill(pid, signal.SIGKILL)


def test_what_a_killed_agent_has_started_ends_with_its_step_where_there_are_control_groups(login: Login) -> None:
    run = login.running("(%s); %s; exec sleep 116" % (GONE, UP))
    node = login.hosts(run)[0]
    assert wait_for(lambda: sleepers(login.cluster, node), 30)
    agents = [each for each in login.cluster.processes(node) if is_agent(each)]
    assert agents
    for each in agents:
        with contextlib.suppress(ProcessLookupError):  # of an agent and its keeper, one may have ended the other
            os.kill(each.pid, signal.SIGKILL)
    login("wait", run, timeout=90)
    assert login.status(run)["state"] == "FAILED"
    left = [each for node in login.cluster.node_names for each in login.cluster.processes(node)]
    assert not left or not login.cluster.group.version, left
    for each in left:
        os.kill(each.pid, signal.SIGKILL)

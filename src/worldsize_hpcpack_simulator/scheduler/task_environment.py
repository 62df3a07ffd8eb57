"""The order that a node gets for a task: the command, its environment, its files."""

from __future__ import annotations

import os
import sys

from worldsize_hpcpack_simulator.scheduler.cluster import Cluster
from worldsize_hpcpack_simulator.scheduler.jobs import Job, Task


def start_order(task: Task, job: Job, cluster: Cluster) -> dict[str, object]:
    """Return the fields of the order `start`, with which the head node makes the task's first node start the task's
    command line."""
    home = os.path.join(cluster.folder, task.nodes[0], "home")
    directory = os.path.join(home, task.value("WorkDirectory"))
    return {
        "do": "start",
        "key": task.order,
        "command": task.value("CommandLine"),
        "environ": {**task_environment(task, job, home), **_address_variable(task, cluster)},
        "directory": directory,
        **{
            stream: os.path.join(directory, path) if path else ""
            for stream, path in (
                ("stdin", task.value("StdInFilePath")),
                ("stdout", task.value("StdOutFilePath")),
                ("stderr", task.value("StdErrFilePath")),
            )
        },
    }


def _address_variable(task: Task, cluster: Cluster) -> dict[str, str]:
    """Return the variable WORLDSIZE_ADDRESS with the address of the task's first node; no variable without namespaces.
    On a real cluster the node's name determines the address; here all addresses belong to this machine, and agents
    would not count them as addresses of a node."""
    return {"WORLDSIZE_ADDRESS": cluster.nodes[task.nodes[0]].address} if cluster.isolated else {}


def task_environment(task: Task, job: Job, home: str) -> dict[str, str]:
    """Return the environment variables of a task's command line: a clean environment with `home` as HOME, the job's
    variables, the task's variables, and those that HPC Pack is known to set."""
    cores = "".join(f" {name} {count}" for name, count in task.place.items())
    plain = {
        "PATH": "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".format(
            os.path.join(sys.prefix, "bin")
        ),
        "HOME": home,
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
    }
    own = {
        "CCP_JOBID": str(job.number),
        "CCP_TASKID": str(task.number),
        "CCP_TASKINSTANCEID": str(task.instance),
        "CCP_NODES_CORES": f"{len(task.place)}{cores}",
        "CCP_NUMCPUS": str(task.cores),
    }
    return {**plain, **job.environ, **task.environ, **own}

"""The variables that sbatch sets for a batch script, on virtual nodes. Pure."""

from __future__ import annotations

import re

from worldsize.plan.hostlist import fold_hostlist
from worldsize.wings.batch_scripts.agent.step_size import format_counts
from worldsize.wings.batch_scripts.script.parse import BatchScript
from worldsize.wings.batch_scripts.script.size import AllocationRequest

_SAME_NAME = {
    "partition": "SLURM_JOB_PARTITION",
    "account": "SLURM_JOB_ACCOUNT",
    "qos": "SLURM_JOB_QOS",
    "reservation": "SLURM_JOB_RESERVATION",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "distribution": "SLURM_DISTRIBUTION",
}
"""Options whose values reach the script unchanged, in a variable."""

ONLY_IF_REQUESTED = {
    "SLURM_NTASKS_PER_NODE": "--ntasks-per-node",
    "SLURM_NTASKS": "--ntasks or --ntasks-per-node",
    "SLURM_NPROCS": "--ntasks or --ntasks-per-node",
    "SLURM_CPUS_PER_TASK": "--cpus-per-task",
    "SLURM_GPUS_PER_NODE": "--gpus-per-node",
    "SLURM_GPUS_PER_TASK": "--gpus-per-task",
    "SLURM_GPUS": "--gpus",
    "SLURM_MEM_PER_NODE": "--mem",
    "SLURM_MEM_PER_CPU": "--mem-per-cpu",
}
"""Variables that are empty unless the script gives the option. Scripts often rely on such a variable by mistake."""

_UNITS = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_SIZE = re.compile(r"([0-9]{1,15})([KMGTkmgt]?)")


def allocation_variables(script: BatchScript, asked: AllocationRequest) -> dict[str, str]:
    """Return the SLURM_ variables of a batch script, by name, that describe the size of the allocation `asked`. They
    are the same on every cluster."""
    tasks = sum(asked.tasks)
    found = {
        "SLURM_JOB_NUM_NODES": str(asked.nodes),
        "SLURM_NNODES": str(asked.nodes),
        "SLURM_TASKS_PER_NODE": format_counts(asked.tasks),
        "SLURM_PROCID": "0",
        "SLURM_NODEID": "0",
        "SLURM_LOCALID": "0",
    }
    if asked.tasks_said:
        found.update(SLURM_NTASKS=str(tasks), SLURM_NPROCS=str(tasks))
    if asked.cpus_per_task:
        found["SLURM_CPUS_PER_TASK"] = str(asked.cpus_per_task)
    if asked.gpus:
        found["SLURM_GPUS_ON_NODE"] = str(asked.gpus)
    for option, name in _SAME_NAME.items():
        value = script.value(option)
        if value is not None:
            found[name] = value
    return found


def sbatch_variables(script: BatchScript, asked: AllocationRequest, hosts: tuple[str, ...]) -> dict[str, str]:
    """Return all variables, by name, that sbatch sets for a batch script on the virtual nodes `hosts`, except those for
    the job's id, its user and the host that it was submitted from."""
    nodes = fold_hostlist(hosts)
    found = {
        **allocation_variables(script, asked),
        "ENVIRONMENT": "BATCH",
        "SLURM_CLUSTER_NAME": "local",
        "SLURM_CPUS_ON_NODE": str(asked.cpus),
        "SLURM_GTIDS": "0",
        "SLURM_JOB_CPUS_PER_NODE": format_counts((asked.cpus,) * asked.nodes),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_TOPOLOGY_ADDR": hosts[0],
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURMD_NODENAME": hosts[0],
    }
    found.setdefault("SLURM_JOB_PARTITION", "local")
    found.setdefault("SLURM_JOB_QOS", "normal")
    if asked.gpus:
        devices = ",".join(map(str, range(asked.gpus)))
        found.update(CUDA_VISIBLE_DEVICES=devices, ROCR_VISIBLE_DEVICES=devices, SLURM_JOB_GPUS=devices)
    for option, name in (("mem", "SLURM_MEM_PER_NODE"), ("mem-per-cpu", "SLURM_MEM_PER_CPU")):
        megabytes = _megabytes(script.value(option))
        if megabytes is not None:
            found[name] = megabytes
    return found


def _megabytes(text: str | None) -> str | None:
    size = _SIZE.fullmatch(text or "")
    return str(int(int(size[1]) * _UNITS[size[2].upper()])) if size else None

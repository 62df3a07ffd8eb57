"""The environment of each task of a step, as srun sets it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.plan.hostlist import fold_hostlist
from worldsize.wings.batch_scripts.agent.srun_options import SrunOptions
from worldsize.wings.batch_scripts.agent.step_size import Allocation, StepSize, format_counts


class StepTask(NamedTuple):
    """A task of a step. `place` is the index of its node among the nodes of the step. `rank` is the rank of the run
    whose log it writes."""

    number: int
    local: int
    place: int
    host: str
    rank: int


class Step(NamedTuple):
    """A step to start: its `tasks` in their order, on `hosts`, with srun's `umask`."""

    number: int
    srun: SrunOptions
    size: StepSize
    hosts: tuple[str, ...]
    tasks: tuple[StepTask, ...]
    umask: int


def exported_environment(asked: SrunOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environ` that srun's option `--export` passes to the tasks of a step: all of them, or
    those of Slurm and worldsize and those that the option names. Assignments in the option are included."""
    parts = (asked.options.get("export") or "ALL").split(",")
    given = dict(part.split("=", 1) for part in parts if "=" in part)
    named = {name: environ[name] for name in parts if name in environ}
    if "ALL" in (part.upper() for part in parts):
        return {**environ, **given}
    kept = {name: value for name, value in environ.items() if name.startswith(("SLURM_", "SLURMD_", "WORLDSIZE_"))}
    return {**kept, **named, **given}


def task_environment(
    step: Step, task: StepTask, base: Mapping[str, str], allocation: Allocation, error_file: str
) -> dict[str, str]:
    size = step.size
    local_tasks = [str(each.number) for each in step.tasks if each.place == task.place]
    cpus_per_task = step.srun.options.get("cpus-per-task")
    values = {
        "SLURM_PROCID": task.number,
        "SLURM_LOCALID": task.local,
        "SLURM_NODEID": task.place,
        "SLURMD_NODENAME": task.host,
        "SLURM_GTIDS": ",".join(local_tasks),
        "SLURM_NTASKS": size.total,
        "SLURM_NPROCS": size.total,
        "SLURM_NNODES": len(step.hosts),
        "SLURM_TASKS_PER_NODE": format_counts(size.tasks),
        "SLURM_STEP_ID": step.number,
        "SLURM_STEPID": step.number,
        "SLURM_STEP_NODELIST": fold_hostlist(step.hosts),
        "SLURM_STEP_NUM_NODES": len(step.hosts),
        "SLURM_STEP_NUM_TASKS": size.total,
        "SLURM_STEP_TASKS_PER_NODE": format_counts(size.tasks),
        "SLURM_CPUS_ON_NODE": _cpus(step, task, allocation),
        "SLURM_LAUNCH_NODE_IPADDR": allocation.hosts[0],
        "SLURM_SRUN_COMM_HOST": allocation.hosts[0],
        "SLURM_DISTRIBUTION": (step.srun.options.get("distribution") or _default_distribution(size)).split("=")[0],
        "SLURM_TOPOLOGY_ADDR": task.host,
        "SLURM_UMASK": f"{step.umask:04o}",
        "SRUN_DEBUG": 3,
        "WORLDSIZE_ERROR_FILE": error_file,
    }
    if cpus_per_task:
        values["SLURM_CPUS_PER_TASK"] = cpus_per_task
    if step.srun.flag("label"):
        values["SLURM_LABELIO"] = 1
    per_node = parse_digits((step.srun.given.get("ntasks-per-node") or "").strip())
    if per_node and ("ntasks" in step.srun.given or per_node * len(step.hosts) == size.total):
        values["SLURM_NTASKS_PER_NODE"] = per_node
    found = {**base, **{name: str(value) for name, value in values.items()}, **_devices(step, task, base)}
    found.setdefault("OMP_NUM_THREADS", str(max(1, _cores() // size.total)))
    return found


def _cpus(step: Step, task: StepTask, allocation: Allocation) -> int:
    """Return the number of CPUs of the node of `task` for SLURM_CPUS_ON_NODE: all that the batch script was given
    there, or with `--exact` only as many as the step's tasks need there."""
    each = parse_digits(step.srun.options.get("cpus-per-task") or "1")
    return each * step.size.tasks[task.place] if each and step.srun.flag("exact") else allocation.cpus


def _default_distribution(size: StepSize) -> str:
    return "cyclic" if size.total <= len(size.nodes) else "block"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _devices(step: Step, task: StepTask, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that name the GPUs of `task`, such as CUDA_VISIBLE_DEVICES: those of the node,
    or fewer if the step requests fewer. With `--gpus-per-task` each task has its own GPUs. Empty if the step requests
    no GPUs and the node has none."""
    visible = [device for device in base.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    per_task = _count(step.srun.options.get("gpus-per-task"))
    said = step.srun.given
    per_node = _count(said.get("gpus-per-node")) if "gpus-per-node" in said else _gres(said.get("gres"))
    if per_task is not None:
        visible = visible[task.local * per_task : (task.local + 1) * per_task]
    elif per_node is not None:
        visible = visible[:per_node]
    elif not visible:
        return {}
    devices = ",".join(visible)
    found = {"CUDA_VISIBLE_DEVICES": devices, "ROCR_VISIBLE_DEVICES": devices, "SLURM_STEP_GPUS": devices}
    return {**found, "SLURM_GPUS_ON_NODE": str(len(visible))}


def _gres(text: str | None) -> int | None:
    if text == "none":
        return 0
    parts = [part for part in (text or "").split(",") if part.startswith(("gpu", "gres/gpu", "gres:gpu"))]
    return sum(_count(part) or 1 for part in parts) if parts else None


def _count(text: str | None) -> int | None:
    return parse_digits((text or "").rpartition(":")[2])

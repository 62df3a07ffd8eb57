"""Rehearsals: a cluster's job as one for this machine, and what such a run could not show."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.atomic_files import read_json
from worldsize.common.numbers import parse_digits
from worldsize.errors import JobError
from worldsize.jobspec.config.config import LOCAL, Config
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import Job, is_array_job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.computes import path_mapping_of

LIMITS = (
    "speed, out of memory, float16 (bfloat16 stands for it), NCCL and the network between nodes, torch.compile, "
    "CUDA kernels and extensions"
)


_MANY = 16
"""So many ranks that import torch are much for one machine."""


def to_rehearsal(job: Job, config: Config, compute: str | None, asked: Job) -> tuple[Job, list[str]]:
    """`job` on virtual nodes with as many virtual GPUs as its own compute's nodes have, and what was left out.

    compute  where it would run, if the job does not say; its configuration counts, and it is asked nothing
    asked    the job before another size was asked for: where it had a process for each GPU, a node of the other size
             has as many GPUs as processes, so that a wrong index shows there too
    """
    said = []
    name = (compute or job.compute or config.default_compute).removeprefix("azureml:")
    settings = config.computes.get(name)
    if settings is not None and settings.offline:
        job = job._replace(offline=True)
    mapped = path_mapping_of(settings) if settings is not None else ()
    if mapped:
        from worldsize.service.submission.make_plan import with_client_paths

        job = with_client_paths(job, mapped)
    if job.modules:
        said.append(f"modules are not loaded in a rehearsal: {', '.join(job.modules)}")
        job = job._replace(modules=())
    if job.virtual_gpus is None:
        configured = settings.gpus_per_node if settings is not None else None
        gpus = _requested_gpus(job) or configured or _process_count(asked)
        job = job._replace(virtual_gpus=_process_count(job) if gpus == _process_count(asked) else gpus)
    ranks = job.distribution.world_size(job.resources.instance_count) if job.distribution else 1
    if ranks > _MANY:
        said.append(f"{ranks} ranks on this machine; most mistakes show with -w 2x2 too")
    here = name if settings is not None and settings.type == LOCAL else LOCAL
    return job._replace(compute=here), said


def refuse_array_rehearsal(job: Job) -> None:
    if job.virtual_gpus is not None and is_array_job(job):
        what = "one run is rehearsed at a time"
        raise JobError(what, "virtual_gpus", "leave out matrix and count, and say --set inputs.NAME=VALUE")


def limitation_lines(plan: Plan, paths: RunPaths) -> list[str]:
    """For the end of a rehearsal; () for a run that is none."""
    if plan.rehearsal is None:
        return []
    lines = [f"this was a rehearsal on virtual GPUs; it does not show: {LIMITS}"]
    found = read_isolation(paths)
    if found.get("network"):
        lines.append(f"the network was not cut: {found['network']}")
    if found.get("disks"):
        lines.append(f"the nodes share /tmp, so that a path that only node 0 has is found: {found['disks']}")
    if plan.batch is not None:
        lines.append("the nodes of a batch script share /tmp")
    return lines


def read_isolation(paths: RunPaths) -> Mapping[str, str | None]:
    """Why the network was not cut and the disks not kept apart: "" where they were, None where that was not wanted."""
    try:
        found = read_json(paths.isolation)
    except (OSError, ValueError):
        return {}
    known = found.items() if isinstance(found, dict) else ()
    return {name: why for name, why in known if why is None or isinstance(why, str)}


def _requested_gpus(job: Job) -> int | None:
    """What the job asks its own compute for."""
    count = parse_digits(str(job.slurm.get("gpus_per_node", "")).rpartition(":")[2])
    if count is not None:
        return count or None
    if job.batch_script is None:
        return None
    from worldsize.jobspec.batch_script.job import allocation_request_of

    return allocation_request_of(job).gpus or None


def _process_count(job: Job) -> int:
    processes = processes_per_instance(job.distribution) if job.distribution else None
    return processes or 1

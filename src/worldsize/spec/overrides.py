"""What the command line changes in a job: `-w NxM` and `--set key=value`."""

from __future__ import annotations

import re

from worldsize.errors import JobError
from worldsize.spec.distribution import PlainDistribution, RayDistribution, TensorFlowDistribution
from worldsize.spec.job import MAX_RANKS, Job

_WORLD = re.compile(r"([0-9]{1,9})(?:[xX×]([0-9]{1,9}))?")


def with_world(job: Job, world: str, where: str = "-w") -> Job:
    """`job` on N nodes × M processes each, for `world` "NxM"; "N" alone sets the nodes and keeps the processes.

    A job without a distribution gets plain ranks. Raises JobError for anything else, for zero, for more than
    MAX_RANKS ranks, and for M where the distribution lays out roles (tensorflow, ray).
    """
    match = _WORLD.fullmatch(world.strip())
    if not match:
        raise JobError(
            "%r is not a world" % world[:40], where, "write nodes x processes per node, such as 2x4, or nodes alone"
        )
    nodes, processes = int(match[1]), int(match[2]) if match[2] else None
    if nodes < 1 or processes == 0:
        raise JobError("%s has no ranks" % world.strip(), where, "nodes and processes per node start at 1")
    changed = job if processes is None else _with_processes(job, processes, where)
    count = getattr(changed.distribution, "process_count_per_instance", 1)
    if nodes * count > MAX_RANKS:
        raise JobError("%d ranks are more than the limit of %d" % (nodes * count, MAX_RANKS), where)
    return changed._replace(resources=job.resources._replace(instance_count=nodes))


def _with_processes(job: Job, processes: int, where: str) -> Job:
    distribution = job.distribution
    if distribution is None:
        return job._replace(distribution=PlainDistribution(processes))
    if isinstance(distribution, (TensorFlowDistribution, RayDistribution)):
        raise JobError(
            "a %s job lays out roles, so processes per node cannot be set" % distribution.type,
            where,
            "set the nodes alone, such as -w 2",
        )
    return job._replace(distribution=distribution._replace(process_count_per_instance=processes))

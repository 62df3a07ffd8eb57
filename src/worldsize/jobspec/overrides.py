"""The change that `-w NxM` makes to a job."""

from __future__ import annotations

from worldsize.errors import JobError
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import MAX_RANKS, Job


def with_world(job: Job, world: str, where: str = "-w") -> Job:
    """Return `job` on N nodes with M processes each, for `world` "NxM", the value of the option -w. "N" alone sets the
    nodes and keeps the processes.

    A job without a distribution gets plain ranks. Raise JobError for any other text, for zero, for more than MAX_RANKS
    ranks, and for M if the distribution lays out roles (tensorflow, ray).
    """
    first, cross, second = world.strip().replace("X", "x").replace("×", "x").partition("x")
    if not _is_count(first) or (cross and not _is_count(second)):
        hint = "write nodes x processes per node, such as 2x4, or nodes alone"
        raise JobError(f"{world!r:.40} is not a world size", where, hint)
    nodes, processes = int(first), int(second) if cross else None
    if nodes < 1 or processes == 0:
        raise JobError(f"{world.strip()} has no ranks", where, "nodes and processes per node start at 1")
    changed = job if processes is None else _with_processes(job, processes, where)
    count = changed.distribution.world_size(nodes) if changed.distribution else nodes
    if count > MAX_RANKS:
        raise JobError(f"{count} ranks are more than the limit of {MAX_RANKS}", where)
    return changed._replace(resources=job.resources._replace(instance_count=nodes))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _with_processes(job: Job, processes: int, where: str) -> Job:
    distribution = job.distribution
    if distribution is None:
        from worldsize.jobspec.distributions.plain import PlainDistribution

        return job._replace(distribution=PlainDistribution(processes))
    if processes_per_instance(distribution) is None:
        what = f"a {distribution.type} job lays out roles, so processes per node cannot be set"
        raise JobError(what, where, "set the nodes alone, such as -w 2")
    return job._replace(distribution=distribution._replace(process_count_per_instance=processes))

"""The option `--exclude-bad`, which runs the job with the same world size on nodes that are not bad."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from worldsize.compute.base import Compute
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.service.compute_nodes import require_node_listing, usable_nodes

WHERE = "--exclude-bad"
_KINDS = ("slurm", "hpcpack")


def require_exclusion(compute: Compute, settings: ComputeSettings) -> None:
    """Raise UsageError if nodes of this compute cannot be excluded from a run one by one, as `--exclude-bad` does: on
    this machine, inside a Slurm allocation, or on computes other than Slurm and HPC Pack."""
    if "local" in compute.capabilities:
        raise UsageError("the nodes of a local run are all this machine", WHERE, "name a cluster: --compute NAME")
    if settings.type == "slurm" and "queue" not in compute.capabilities:
        raise UsageError("the nodes of an allocation are chosen already", WHERE, "leave the allocation's shell")
    if settings.type not in _KINDS:
        raise UsageError(f"compute {settings.name} cannot leave nodes out", WHERE)


def without_nodes(job: Job, bad: Sequence[str], compute: Compute, settings: ComputeSettings) -> Job:
    """Return `job`, changed so that it does not run on the nodes with the host names `bad`. Raise UsageError if a name
    belongs to no node, or if too few nodes are left."""
    if not bad:
        return job
    names = [node.name for node in require_node_listing(compute).nodes()]
    excluded = [_scheduler_name(host, names) for host in bad]
    if settings.type == "slurm":
        said = {**settings.options, **job.slurm}.get("exclude", ())
        others = (said,) if isinstance(said, str) else tuple(said)  # a text may be a host list with brackets
        return job._replace(slurm={**job.slurm, "exclude": (*others, *excluded)})
    left = _other_nodes(job, excluded, compute, settings)
    return job._replace(hpcpack={**job.hpcpack, "nodes": left})


def _other_nodes(job: Job, excluded: Collection[str], compute: Compute, settings: ComputeSettings) -> tuple[str, ...]:
    """Return the nodes of an HPC Pack cluster on which a run may start, without the excluded ones. Raise UsageError if
    there are too few."""
    named = _items({**settings.options, **job.hpcpack}.get("nodes", ())) or usable_nodes(compute)[0]
    away = {name.lower() for name in excluded}
    left = tuple(name for name in named if name.lower() not in away)
    wanted = job.resources.instance_count
    if len(left) < wanted:
        remain = "1 node is" if len(left) == 1 else f"{len(left)} nodes are"
        what = f"without {', '.join(excluded)} {remain} left, and the run has {wanted}"
        raise UsageError(what, WHERE, "ask for fewer nodes: -w")
    return left


def _scheduler_name(host: str, names: Sequence[str]) -> str:
    """Return the scheduler's name for the node whose host name is `host`. Raise UsageError if there is none."""
    wanted = host.lower()
    for name in names:
        if name.lower() == wanted:
            return name
    short = [name for name in names if name.lower().partition(".")[0] == wanted.partition(".")[0]]
    if len(short) == 1:
        return short[0]
    raise UsageError(f"the scheduler does not know node {host}", WHERE, "`worldsize nodes` lists those that it knows")


def _items(value: object) -> tuple[str, ...]:
    """Return the node names in a list, or in a text separated by commas, as a tuple; an empty tuple for other
    values."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(str(part).strip() for part in parts) if isinstance(parts, (list, tuple)) else ()

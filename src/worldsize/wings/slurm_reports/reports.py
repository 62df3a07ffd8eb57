"""The reports of a Slurm cluster to its users: its nodes, why a run waits and what would start it sooner, what a run
used."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from worldsize.compute.capabilities import Change, ComputeNode, Usage, WaitExplanation
from worldsize.compute.slurm import cluster
from worldsize.compute.slurm.commands import run_slurm
from worldsize.compute.slurm.job_rows import UNANSWERED, JobRow
from worldsize.compute.slurm.queue import query_jobs
from worldsize.compute.slurm.states import state_of
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.wings.slurm_reports import pending
from worldsize.wings.slurm_reports.usage import usage, usage_of_row

_PAUSE = 0.15
_SHORTEST_ANSWER = 2.0
"""Seconds that each query may take, also if less time is left."""


def nodes(environ: Mapping[str, str], configured: Sequence[str] = ()) -> list[ComputeNode]:
    """Return the nodes of the Slurm cluster, as a list of ComputeNode. `configured` contains the partitions that runs
    of the compute use; if it is empty, these are the cluster's default partitions."""
    run = partial(run_slurm, environ=environ)
    partitions = sorted(cluster.partitions(run), key=lambda row: (not row.default, row.name))
    defaults = frozenset(configured) or frozenset(row.name for row in partitions if row.default)
    order = {row.name: place for place, row in enumerate(partitions)}
    return [_with_groups(node, order, defaults) for node in cluster.nodes(run)]


def explain(job: str, script: str, seconds: float, environ: Mapping[str, str]) -> WaitExplanation | None:
    deadline = time.monotonic() + seconds
    run = partial(run_slurm, environ=environ, timeout=max(seconds, _SHORTEST_ANSWER))
    row = query_jobs([job], run)[job]
    if row.seen == UNANSWERED:
        raise SubmitAgain(f"Slurm does not answer: {row.trouble}", "squeue")
    if state_of(row.state).phase != "queued":
        return None
    found = pending.explain(row, time.time())
    changes = _find_earlier_starts(row, script, deadline, environ) if script and pending.is_worth_trying(row) else ()
    return found._replace(sooner=changes)


def usages(jobs: Sequence[str], patience: float, environ: Mapping[str, str]) -> list[Usage | None]:
    """Return the Usage of each Slurm job of `jobs`, in order; None if it is unknown. Accounting records a job's end
    first and its CPU time a moment later, so that it is queried again until `patience` seconds have passed. Without
    accounting, squeue provides a part of the usage."""
    deadline = time.monotonic() + patience
    run = partial(run_slurm, environ=environ, timeout=max(patience, _SHORTEST_ANSWER))
    found: dict[str, Usage | None] = dict.fromkeys(jobs)
    try:
        found = usage(jobs, run)
        while not all(each and each.cpu_efficiency is not None for each in found.values()):
            if time.monotonic() + _PAUSE > deadline:
                break
            time.sleep(_PAUSE)
            found = usage(jobs, run)
    except (SubmitAgain, SubmitRejected, ConfigError):
        pass  # the usage that accounting has reported by now is returned
    unknown = [job for job in jobs if found[job] is None]
    if unknown:
        found.update({job: usage_of_row(row) for job, row in query_jobs(unknown, run).items()})
    return [found[job] for job in jobs]


def _with_groups(node: ComputeNode, order: Mapping[str, int], defaults: frozenset[str]) -> ComputeNode:
    return node._replace(
        groups=tuple(sorted(node.groups, key=lambda name: order.get(name, len(order)))),
        default_groups=tuple(name for name in node.groups if name in defaults),
    )


def _find_earlier_starts(row: JobRow, script: str, deadline: float, environ: Mapping[str, str]) -> tuple[Change, ...]:
    """Return the changes of options that would start the waiting Slurm job in `row` sooner, best first. Estimates end
    at `deadline`. Empty if Slurm does not report its partitions."""
    run = partial(run_slurm, environ=environ, timeout=_SHORTEST_ANSWER)
    try:
        partitions = cluster.partitions(run)
    except (SubmitAgain, SubmitRejected, ConfigError):
        return ()
    estimate = pending.make_start_estimator(script, environ)
    found = pending.find_earlier_starts(
        row, partitions, lambda change: estimate(change) if time.monotonic() < deadline else None, time.time()
    )
    return tuple(found)

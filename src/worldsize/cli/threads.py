"""Threads per rank, for `status`."""

from __future__ import annotations

from worldsize.common.atomic_files import read_json
from worldsize.service.runs.run import Run


def threads_of(run: Run) -> int | None:
    """OMP_NUM_THREADS of the ranks: the job's, else what was set where the run was started, else the plan's share;
    None where each node works out its own, or it is no number."""
    try:
        inherited = (read_json(run.paths.record) or {})["environment"].get("OMP_NUM_THREADS")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        inherited = None
    said = run.plan.environment.get("OMP_NUM_THREADS") or inherited
    if said:
        return int(said) if str(said).isdecimal() else None
    return run.plan.threads


def threads_text(threads: int | None) -> str:
    if threads is None:
        return "threads per rank: the node's cores, shared out"
    return "{} thread{} per rank".format(threads, "" if threads == 1 else "s")

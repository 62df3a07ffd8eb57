"""The usage of ended jobs: node time, GPU-hours and CPU efficiency, from one sacct for many jobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from worldsize.compute.capabilities import Usage
from worldsize.compute.slurm.accounting import COLUMNS, AccountingRecord, records_of
from worldsize.compute.slurm.job_rows import JobRow
from worldsize.compute.slurm.states import state_of

_COLUMNS = (*COLUMNS, "AllocTRES")
"""The usual columns, and the resources that a job held. For the latter, sacct queries slurmdbd once more, which takes
as much time as all the rest (22.05)."""

_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d+)")
_HOUR = 3600.0


def usage(ids: Iterable[str], run: Callable[[Sequence[str]], str]) -> dict[str, Usage | None]:
    """Return a mapping of each Slurm job id in `ids` to its Usage, from sacct; None if accounting has not recorded the
    end, or nothing was used. Raise the errors of `run`, if accounting is off or does not answer.

    Accounting lags by seconds: it records the end first, then the CPU time.
    """
    wanted = list(dict.fromkeys(ids))
    attempts: dict[str, list[AccountingRecord]] = {}
    for record in records_of(wanted, run, _COLUMNS):
        attempts.setdefault(record.row.job, []).append(record)
    return {job: usage_of(attempts.get(job, [])) for job in wanted}


def usage_of(attempts: Sequence[AccountingRecord]) -> Usage | None:
    """Return the total usage of all attempts of one Slurm job, from sacct's records `attempts`, without those of an
    older job with the same number; None if the job has not ended, or had no nodes."""
    if not attempts:
        return None
    last = max(attempts, key=lambda record: record.row.submitted or 0)
    if state_of(last.row.state).phase != "ended":
        return None
    own = [record for record in attempts if record.row.may_be(last.row.name)]
    if not any(record.row.nodes for record in own):
        return None
    used = [record.cpu_used for record in own if record.cpu_used is not None]
    held = sum(record.cpu_held for record in own)
    counted = [(gpus_of_tres(record.row.tres), record.row.elapsed or 0) for record in own]
    held_gpus = [number * seconds for number, seconds in counted if number is not None]
    return Usage(
        nodes=last.row.node_count,
        elapsed=sum(record.row.elapsed or 0 for record in own),
        gpus=gpus_of_tres(last.row.tres),
        gpu_hours=sum(held_gpus) / _HOUR if held_gpus else None,
        cpu_hours=held / _HOUR or None,
        cpu_efficiency=sum(used) / held if held and sum(used) > 0 else None,
    )


def usage_of_row(row: JobRow) -> Usage | None:
    """Return the Usage of an ended job from squeue's row about it, for clusters without accounting. It includes no CPU
    efficiency, and only the last attempt. None if the job has not ended."""
    if state_of(row.state).phase != "ended" or row.elapsed is None:
        return None
    gpus = gpus_of_tres(row.tres)
    cpus = re.search(r"(?:^|,)cpu=(\d+)", row.tres)
    return Usage(
        nodes=row.node_count,
        elapsed=row.elapsed,
        gpus=gpus,
        gpu_hours=None if gpus is None else gpus * row.elapsed / _HOUR,
        cpu_hours=int(cpus.group(1)) * row.elapsed / _HOUR or None if cpus else None,
        cpu_efficiency=None,
    )


def gpus_of_tres(tres: str) -> int | None:
    """Return the number of GPUs in Slurm's list of resources `tres`, such as "cpu=8,node=2,gres/gpu=8,gres/gpu:h100=8";
    None if it contains no count of GPUs."""
    found = _GPUS.findall(tres)
    if not found:
        return None
    whole = [int(number) for kind, number in found if not kind]
    return whole[0] if whole else sum(int(number) for _, number in found)

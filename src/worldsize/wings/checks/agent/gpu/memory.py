"""Check whether other processes use the GPUs' memory before the job's own ranks start.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuProcess
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.readers.row_texts import join_texts
from worldsize.wings.checks.agent.tables.gpu_limits import LEAST_PROCESS_MIB, LEAST_UNEXPLAINED_MIB, NOT_JOBS

_ID, _WHAT = "gpu.memory", "GPU memory in use by others"
_INEXACT_MIB = 1024
_FULL = 0.9
_SHARED = re.compile(r"\bG[HB]\d")
"""Pattern of models whose memory is also the system's (Grace Hopper, Grace Blackwell). The kernel may keep files in
it."""


class _Use(NamedTuple):
    """The use of a GPU by others, in words and as a share of its memory; the share is 0 if it is not known."""

    words: str
    share: float


def memory_row(context: NodeContext, seen: Sequence[Gpu]) -> CheckRow | None:
    """Return the node check's row gpu.memory, on the memory in use by others of the GPUs that the ranks see: a warning
    for processes that compute and for memory that no process accounts for, bad if they have nearly all of a GPU.
    Divided GPUs are left out, because other users may use their other parts. None if no GPU is left."""
    gpus = [gpu for gpu in seen if not gpu.mig and not gpu.fault]
    known = [gpu for gpu in gpus if gpu.used_mib is not None or gpu.processes]
    if not known:
        return None
    uses = [use for gpu in known for use in _uses(gpu)]
    if not uses:
        most = max((gpu.used_mib or 0 for gpu in known), default=0)
        return context.row(_ID, _WHAT, f"{most} MiB at most" if most else "none", OK)
    verdict = BAD if any(use.share > _FULL for use in uses) else WARNING
    value = join_texts([use.words for use in uses])
    return context.row(_ID, _WHAT, value, verdict, "end that program, or ask for GPUs that no other user has")


def _uses(gpu: Gpu) -> list[_Use]:
    jobs = [process for process in gpu.processes if _is_job(process)]
    if jobs:
        told = sum(process.mib or 0 for process in jobs)
        used = told if all(process.mib is not None for process in jobs) else max(told, _unexplained_mib(gpu))
        return [_Use(_process_words(gpu, jobs), _share(gpu, used))]
    used = _unexplained_mib(gpu)
    limit = LEAST_UNEXPLAINED_MIB if gpu.is_exact else LEAST_UNEXPLAINED_MIB + _INEXACT_MIB
    return [_Use(f"GPU {gpu.number}: {used} MiB", _share(gpu, used))] if used >= limit else []


def _is_job(process: GpuProcess) -> bool:
    """Return whether a process on a GPU only computes, and is not one of the system's own programs. A process that
    draws on a screen is always present, and Windows reports every process that draws as computing too."""
    enough = process.mib is None or process.mib >= LEAST_PROCESS_MIB
    return "G" not in process.kind and process.name not in NOT_JOBS and enough


def _process_words(gpu: Gpu, jobs: Sequence[GpuProcess]) -> str:
    words = [
        f"pid {job.pid}{f' ({job.name})' if job.name else ''}{'' if job.mib is None else f' {job.mib} MiB'}"
        for job in jobs
    ]
    return f"GPU {gpu.number}: {join_texts(words, separator=', ')}"


def _unexplained_mib(gpu: Gpu) -> int:
    """Return the memory in use of `gpu`, in MiB, for a GPU without a process that computes, as in a container, where
    the driver shows no processes. Return 0 if a screen or the kernel may account for it."""
    has_screen = any("G" in process.kind for process in gpu.processes)
    return 0 if has_screen or _SHARED.search(gpu.model) else gpu.used_mib or 0


def _share(gpu: Gpu, used: int) -> float:
    return used / gpu.memory_mib if gpu.memory_mib else 0.0

"""The limits that ranks inherit from the agent (ulimit): open files, locked memory, processes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import resource

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number
from worldsize.wings.checks.agent.readers.control_groups import processes_left
from worldsize.wings.checks.agent.readers.disk_space import size_text

_USUAL_FILES = 1024
_OWN_FILES = 256
"""Open files of a rank for itself; one more for each rank of the run, of which rank 0 serves all (torch's TCPStore)."""

_OWN_THREADS = 32
"""Threads of a rank besides those that compute: NCCL's, the watchdogs, the loader's."""

_LOADER_THREADS = 4
_CAP_IPC_LOCK, _CAP_SYS_ADMIN, _CAP_SYS_RESOURCE = 14, 21, 24
_MANY = 1 << 16
_SLURM_MEMLOCK = "in slurm.conf, PropagateResourceLimitsExcept=MEMLOCK keeps the submitting machine's limit away"


class Limits(NamedTuple):
    """Soft limits; None for no limit. `locked` in bytes. `processes` counts those that may still be started."""

    files: int | None
    locked: int | None
    processes: int | None


def probe(context: NodeContext) -> ProbeResult:
    """Its rows: limits.open_files, limits.memlock, limits.processes."""
    return ProbeResult(judge_limits(context, read_limits(context)))


def judge_limits(context: NodeContext, limits: Limits) -> tuple[CheckRow, ...]:
    """The rows for these limits."""
    return (
        _files_row(context, limits.files),
        _locked_row(context, limits.locked),
        _processes_row(context, limits.processes),
    )


def read_limits(context: NodeContext) -> Limits:
    """This process's own. Who has the capability is bound by no limit: capabilities(7), getrlimit(2)."""
    capabilities = _capabilities(context)
    locked = None if capabilities & 1 << _CAP_IPC_LOCK else _soft(resource.RLIMIT_MEMLOCK)
    is_free = capabilities & (1 << _CAP_SYS_ADMIN | 1 << _CAP_SYS_RESOURCE) or os.geteuid() == 0
    own = None if is_free else _soft(resource.RLIMIT_NPROC)
    counts = [count for count in (own, processes_left(context.root)) if count is not None]
    return Limits(_soft(resource.RLIMIT_NOFILE), locked, min(counts) if counts else None)


def _soft(kind: int) -> int | None:
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _files_row(context: NodeContext, files: int | None) -> CheckRow:
    ranks = (asked_number(context.asked, "ranks") or 1) * context.nodes
    need = max(_USUAL_FILES, ranks + _OWN_FILES)
    what, value = "open files", "unlimited" if files is None else f"{files:,}"
    if files is None or files >= need:
        return context.row("limits.open_files", what, value, OK)
    hint = f"raise it before the ranks start: ulimit -n {max(_MANY, need)}"
    return context.row("limits.open_files", what, f"{value}, fewer than {need:,}", WARNING, hint)


def _locked_row(context: NodeContext, locked: int | None) -> CheckRow:
    """InfiniBand and Omni-Path lock the memory that they send from: ibv_reg_mr(3) fails at the limit. RoCE does, too,
    yet such ports are also those of clouds' ordinary networks, on which nothing is locked."""
    what, value = "locked memory", "unlimited" if locked is None else size_text(locked)
    port = _infiniband_port(context) if context.nodes > 1 else ""
    if locked is None or not port or locked >= _half_of_memory(context):
        return context.row("limits.memlock", what, value, OK)
    hint = f"set `ulimit -l unlimited` in the site's limits; {_SLURM_MEMLOCK}"
    return context.row("limits.memlock", what, f"{value}, and {port} is InfiniBand", WARNING, hint)


def _processes_row(context: NodeContext, processes: int | None) -> CheckRow:
    what, value = "processes and threads", "unlimited" if processes is None else f"{processes:,}"
    need = _threads_of_node(context)
    if processes is None or processes >= need:
        return context.row("limits.processes", what, value, OK)
    hint = "raise `ulimit -u`, or the limit of the control group or container (pids.max); or set OMP_NUM_THREADS"
    return context.row("limits.processes", what, f"{value}, and the ranks may start {need:,}", WARNING, hint)


def _threads_of_node(context: NodeContext) -> int:
    """How many threads the ranks and their loader workers have when all of them compute."""
    ranks = asked_number(context.asked, "ranks") or 1
    workers = asked_number(context.asked, "workers") or 0
    own = parse_digits(context.environ.get("OMP_NUM_THREADS")) or len(os.sched_getaffinity(0))
    return ranks * (_OWN_THREADS + min(own, 1024) + workers * _LOADER_THREADS)


def _infiniband_port(context: NodeContext) -> str:
    """The first port that is active and of InfiniBand or Omni-Path: `mlx5_0/1`."""
    for device in _names(context.path("sys", "class", "infiniband")):
        for port in _names(context.path("sys", "class", "infiniband", device, "ports")):
            directory = context.path("sys", "class", "infiniband", device, "ports", port)
            layer, state = _word(directory, "link_layer"), _word(directory, "state")
            if layer == "InfiniBand" and "ACTIVE" in state:
                return f"{device}/{port}"
    return ""


def _half_of_memory(context: NodeContext) -> int:
    text = read_if_possible(context.path("proc", "meminfo"), 1 << 16).decode("ascii", "replace")
    found = re.search(r"(?m)^MemTotal:\s*(\d{1,15}) kB", text)
    return int(found[1]) * 512 if found else 1 << 62


def _capabilities(context: NodeContext) -> int:
    text = read_if_possible(context.path("proc", "self", "status"), 1 << 16).decode("ascii", "replace")
    found = re.search(r"(?m)^CapEff:\s*([0-9a-f]{1,16})$", text)
    return int(found[1], 16) if found else 0


def _word(directory: str, name: str) -> str:
    return read_if_possible(os.path.join(directory, name), 256).decode("ascii", "replace").strip()


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []

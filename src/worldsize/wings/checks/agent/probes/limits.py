"""Probe for the limits that ranks inherit from the agent (ulimit): open files, locked memory, processes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import resource

from worldsize.agent.machine.control_groups import processes_left
from worldsize.agent.machine.cores import allowed_cores
from worldsize.agent.machine.fabric_ports import ACTIVE, read_ports
from worldsize.agent.machine.node_files import text_of
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.fabric_need import needs_fabric
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number
from worldsize.wings.checks.agent.readers.row_texts import size_text

_USUAL_FILES = 1024
_OWN_FILES = 256
"""The number of open files that a rank needs for itself. It needs one more for each rank of the run, because rank 0
serves all of them (torch's TCPStore)."""

_OWN_THREADS = 32
"""The number of threads of a rank that do not compute: those of NCCL, the watchdogs and the loader."""

_LOADER_THREADS = 4
_ENOUGH_LOCKED = 4 << 30
"""The number of bytes that a rank must be allowed to lock. Systems that allow an eighth of their memory allow
enough."""

_CAP_IPC_LOCK, _CAP_SYS_ADMIN, _CAP_SYS_RESOURCE = 14, 21, 24
_MANY = 1 << 16
_SLURM_MEMLOCK = "in slurm.conf, PropagateResourceLimitsExcept=MEMLOCK keeps the submitting machine's limit away"


class Limits(NamedTuple):
    """The soft limits of a process; None means no limit. `locked` is in bytes. `processes` is the number of processes
    that may still be started."""

    files: int | None
    locked: int | None
    processes: int | None


def probe(context: NodeContext) -> ProbeResult:
    """Return the node check's rows limits.open_files, limits.memlock and limits.processes, about the limits that ranks
    inherit from the agent."""
    return ProbeResult(judge_limits(context, read_limits(context)))


def judge_limits(context: NodeContext, limits: Limits) -> tuple[CheckRow, ...]:
    """Return the rows limits.open_files, limits.memlock and limits.processes: a warning for each limit that is too low
    for the node's ranks. InfiniBand and Omni-Path lock the memory that they send from, and ibv_reg_mr(3) fails at the
    limit. RoCE locks memory, too, but RoCE ports may also belong to the ordinary network of a cloud, where no memory is
    locked, so they are not counted."""
    files = max(_USUAL_FILES, (asked_number(context.asked, "ranks") or 1) * context.nodes + _OWN_FILES)
    port, threads = _locking_port(context), _threads_of_node(context)
    return (
        _row(context, "open_files", "open files", limits.files, files, f"fewer than {files:,}",
             f"raise it before the ranks start: ulimit -n {max(_MANY, files)}"),
        _row(context, "memlock", "locked memory", limits.locked, _ENOUGH_LOCKED if port else 0, f"and {port}",
             f"set `ulimit -l unlimited` in the site's limits; {_SLURM_MEMLOCK}"),
        _row(context, "processes", "processes and threads", limits.processes, threads,
             f"and the ranks may start {threads:,}",
             "raise `ulimit -u`, or the limit of the control group or container (pids.max); or set OMP_NUM_THREADS"),
    )  # fmt: skip


def _row(context: NodeContext, name: str, what: str, has: int | None, need: int, complaint: str, hint: str) -> CheckRow:
    text = size_text if name == "memlock" else "{:,}".format
    value = "unlimited" if has is None else text(has)
    if has is None or has >= need:
        return context.row(f"limits.{name}", what, value, OK)
    return context.row(f"limits.{name}", what, f"{value}, {complaint}", WARNING, hint)


def read_limits(context: NodeContext) -> Limits:
    """Return the soft Limits of this process for open files, locked memory and processes. A process with the matching
    capability has no limit: capabilities(7), getrlimit(2)."""
    capabilities = _capabilities(context)
    locked = None if capabilities & 1 << _CAP_IPC_LOCK else _soft(resource.RLIMIT_MEMLOCK)
    is_free = capabilities & (1 << _CAP_SYS_ADMIN | 1 << _CAP_SYS_RESOURCE) or os.geteuid() == 0
    own = None if is_free else _soft(resource.RLIMIT_NPROC)
    counts = [count for count in (own, processes_left(context.root)) if count is not None]
    return Limits(_soft(resource.RLIMIT_NOFILE), locked, min(counts) if counts else None)


def _soft(kind: int) -> int | None:
    soft = resource.getrlimit(kind)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _threads_of_node(context: NodeContext) -> int:
    """Return an estimate of the number of threads of all ranks of the node and their loader workers, when all of them
    compute. The threads of a rank are those of the job, of OMP_NUM_THREADS, or the node's cores; a fixed number is
    added for each rank and each loader worker."""
    ranks = asked_number(context.asked, "ranks") or 1
    workers = asked_number(context.asked, "workers") or 0
    own = parse_digits(context.environ.get("OMP_NUM_THREADS")) or allowed_cores()
    return ranks * (_OWN_THREADS + min(own, 1024) + workers * _LOADER_THREADS)


def _locking_port(context: NodeContext) -> str:
    """Return a text that names the first active InfiniBand or Omni-Path port; "" if there is none or the job does not
    use the fabric."""
    ports = [port for port in read_ports(context.root) if port.state == ACTIVE] if needs_fabric(context) else []
    return next((f"{port.name} is {port.layer}" for port in ports if port.layer in ("InfiniBand", "OmniPath")), "")


def _capabilities(context: NodeContext) -> int:
    found = re.search(r"(?m)^CapEff:\s*([0-9a-f]{1,16})$", text_of(context.path("proc", "self", "status")))
    return int(found[1], 16) if found else 0

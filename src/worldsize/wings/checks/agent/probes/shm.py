"""Probe for `/dev/shm`, through which loader workers send batches to their ranks, and NCCL sends data between GPUs of
one node.

A container has 64 MiB unless it is started with more (Docker's manual: `--shm-size`). A worker that finds no room ends
with SIGBUS.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number, asked_text
from worldsize.wings.checks.agent.readers.disk_space import Space, space_of, write_trial
from worldsize.wings.checks.agent.readers.row_texts import error_words, size_text

_ID, _WHAT = "memory.shm", "/dev/shm"
_PER_WORKER = 64 << 20
"""Bytes per loader worker. torch keeps two batches of each worker ready (`prefetch_factor`). The number is for batches
of 50 images of 224 × 224 pixels."""

_CONTAINERS = 64 << 20
_TORCH = ("pytorch", "deepspeed")
_HINT = "give the container more: --shm-size=16g, or --ipc=host; or lower num_workers"


class Use(NamedTuple):
    """The use of `/dev/shm` by the job. `workers` is the number of loader workers on the machine, None if it is not
    known. `nccl` is whether NCCL uses `/dev/shm`. `torch` is whether the framework is one with torch's loaders."""

    workers: int | None
    nccl: bool
    torch: bool


def probe(context: NodeContext) -> ProbeResult:
    """Test whether a file can be written in `/dev/shm`, and return the node check's row memory.shm about its free
    space."""
    directory = context.path("dev", "shm")
    use = use_of(context)
    failed = write_trial(directory) if os.path.isdir(directory) else FileNotFoundError(2, "it is missing")
    found = space_row(context, space_of(directory), use) if failed is None else refused_row(context, failed, use)
    return ProbeResult((found,))


def use_of(context: NodeContext) -> Use:
    """Return the job's Use of `/dev/shm` on this machine: its loader workers, and whether NCCL and torch use it. All
    virtual nodes share one `/dev/shm`."""
    ranks = asked_number(context.asked, "ranks") or 1
    on_machine = ranks * (context.nodes if context.asked.get("virtual") else 1)
    workers = asked_number(context.asked, "workers")
    framework = asked_text(context.asked, "framework")
    return Use(
        None if workers is None else workers * on_machine,
        on_machine > 1 and asked_text(context.asked, "backend") == "nccl",
        framework in _TORCH,
    )


def refused_row(context: NodeContext, failed: OSError, use: Use) -> CheckRow:
    """Return the row memory.shm for a `/dev/shm` in which no file can be created. It is bad if the job certainly uses
    `/dev/shm` (loader workers or NCCL), otherwise a warning."""
    is_needed = bool(use.workers) or use.nccl
    hint = "mount a tmpfs there that this user can write to, and remove leftover files of other users"
    return context.row(_ID, _WHAT, error_words(failed), BAD if is_needed else WARNING, hint)


def space_row(context: NodeContext, space: Space, use: Use) -> CheckRow:
    """Return the row memory.shm for a `/dev/shm` in which a file can be created: a warning if there is too little space
    for the loader workers, or only as much as containers have by default; OK otherwise."""
    value = f"{size_text(space.free)} free of {size_text(space.total)}"
    if not space.total:
        return context.row(_ID, _WHAT, "it has no limit", OK)
    need = (use.workers or 0) * _PER_WORKER
    if space.free < need:
        return context.row(_ID, _WHAT, f"{value}, for {use.workers} loader workers", WARNING, _HINT)
    may_load = use.torch and (use.workers is None or use.nccl)
    if space.total < _CONTAINERS or (space.total == _CONTAINERS and may_load):
        return context.row(_ID, _WHAT, f"{value}, as in a container", WARNING, _HINT)
    return context.row(_ID, _WHAT, value, OK)

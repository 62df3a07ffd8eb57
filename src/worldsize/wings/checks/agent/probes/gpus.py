"""Probe for the GPUs that the ranks of this node see: their number, models and health, and whether other processes use
them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from worldsize.agent.machine.visible_gpus import visible_gpus, visible_units
from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuReport, models_text
from worldsize.wings.checks.agent.gpu.drivers import (
    count_amd_gpus,
    driver_models,
    has_graphics,
    has_nvidia,
    other_devices,
)
from worldsize.wings.checks.agent.gpu.health import health_rows
from worldsize.wings.checks.agent.gpu.kernel_log import Xid, read_xids
from worldsize.wings.checks.agent.gpu.memory import memory_row
from worldsize.wings.checks.agent.gpu.reader import is_looked_at, read_gpus
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number

_SAYS_NONE = {
    "No devices were found": "the job may use none of the node's GPUs: ask the scheduler for them",
    "No supported GPUs were found": "the node has none that its driver supports",
    "communicate with the NVIDIA driver": "the NVIDIA driver is not loaded: have the node repaired, or leave it out",
    "Driver/library version mismatch": "the driver was updated but not reloaded: have the node rebooted",
    "Driver Not Loaded": "the NVIDIA driver is not loaded: have the node repaired, or leave it out",
    "Failed to initialize NVML: Unknown Error": "the container has lost its GPUs: start it again",
    "Failed to initialize NVML: Insufficient Permissions": "this user may not use them: ask the scheduler for GPUs",
}
"""The messages of nvidia-smi which prove that CUDA programs find no GPU either, and the hint for each."""

_WHAT = "GPUs"
_PAUSE = 2.0


def probe(context: NodeContext) -> ProbeResult:
    """Return the node check's rows gpu.count and gpu.memory, and the rows about the GPUs' health (ECC, recovery, Xids,
    throttling), with facts about the GPUs. Return no rows if GPUs do not matter for the job."""
    if not is_looked_at(context):
        return ProbeResult()
    report = read_settled(context, lambda: read_gpus(context))
    return gpus_result(context, report, read_xids(context))


def read_settled(
    context: NodeContext, read: Callable[[], GpuReport], sleep: Callable[[float], None] = time.sleep
) -> GpuReport:
    """Return the GPU report of `read`. If other processes use the GPUs' memory, wait two seconds and call `read` once
    more: the programs of a finished job may take seconds to free their memory (Meta's gcm reads three times). A first
    read that took more than two seconds is not repeated."""
    begun = time.monotonic()
    report = read()
    row = memory_row(context, _seen(context, report))
    if row is None or row.verdict == OK or time.monotonic() - begun > _PAUSE:
        return report
    sleep(_PAUSE)
    again = read()
    return again if again.gpus else report


def gpus_result(context: NodeContext, report: GpuReport, xids: Sequence[Xid] | None = None) -> ProbeResult:
    """Return a ProbeResult with the rows and facts about the number, memory and health of the GPUs that this node's
    ranks see. `xids` are the driver's errors in the kernel's log; None if not known."""
    seen = _seen(context, report)
    rows = (_count_row(context, report, seen), memory_row(context, seen), *health_rows(context, seen, xids))
    return ProbeResult(tuple(row for row in rows if row is not None), _facts(report, seen))


def _seen(context: NodeContext, report: GpuReport) -> list[Gpu]:
    return visible_gpus(report.gpus, context.environ.get("CUDA_VISIBLE_DEVICES"))


def _facts(report: GpuReport, seen: Sequence[Gpu]) -> dict[str, Any]:
    if report.failure:
        return {}
    versions = {"driver": report.driver, "cuda_driver": report.cuda}
    names = ("model", "memory_mib", "used_mib", "uuid")
    gpus = [{"index": gpu.number, **{name: getattr(gpu, name) for name in names}} for gpu in seen if not gpu.fault]
    return {"gpus": gpus, **{name: value for name, value in versions.items() if value}}


def _count_row(context: NodeContext, report: GpuReport, seen: Sequence[Gpu]) -> CheckRow | None:
    asked = asked_number(context.asked, "gpus")
    if report.failure:
        return _unread_row(context, report.failure, asked)
    units = visible_units([gpu for gpu in seen if not gpu.fault], context.environ.get("CUDA_VISIBLE_DEVICES"))
    silent = (*report.missing, *(f"GPU {gpu.number}: {gpu.fault}" for gpu in seen if gpu.fault))
    if asked is not None and units < asked and (silent or not _are_hidden(context, report, asked)):
        hint = _why_fewer(context, report, silent)
        return context.row("gpu.count", _WHAT, f"{units} of {asked}", BAD, hint)
    if not units and not silent:
        return None
    if silent:
        value = f"{units} answer; {silent[0]}"
        return context.row("gpu.count", _WHAT, value, WARNING, "CUDA may fail on all: have the node rebooted")
    return _rank_row(context, units) or context.row("gpu.count", _WHAT, _count_text(seen, units), OK)


def _count_text(seen: Sequence[Gpu], units: int) -> str:
    text = models_text(list(seen))
    return text if units == len(seen) else f"{units} parts of {text}"


def _rank_row(context: NodeContext, units: int) -> CheckRow | None:
    """Return a bad row gpu.count if the node has more ranks than usable GPUs (`units`) and the job uses NCCL; None
    otherwise. NCCL refuses two ranks on one GPU ("Duplicate GPU detected") unless a variable of its newest versions is
    set (NCCL_MULTI_RANK_GPU_ENABLE)."""
    ranks, backend = context.asked.get("ranks"), context.asked.get("backend")
    if backend != "nccl" or not isinstance(ranks, int) or ranks <= units:
        return None
    if context.environ.get("NCCL_MULTI_RANK_GPU_ENABLE"):
        return None
    hint = f"NCCL refuses two ranks on one GPU: start {units} a node, or use the back end gloo"
    return context.row("gpu.count", _WHAT, f"{units} for {ranks} ranks", BAD, hint)


def _are_hidden(context: NodeContext, report: GpuReport, asked: int) -> bool:
    """Return whether the node has at least the number of GPUs that the job requests (`asked`) and CUDA_VISIBLE_DEVICES
    is set, so that fewer are visible by choice."""
    there = sum(gpu.units for gpu in report.gpus if not gpu.fault)
    return context.environ.get("CUDA_VISIBLE_DEVICES") is not None and there >= asked


def _why_fewer(context: NodeContext, report: GpuReport, silent: Sequence[str]) -> str:
    """Return the hint of a row gpu.count with fewer GPUs than requested: the reason, and how to fix it. `silent`
    contains descriptions of GPUs that do not respond."""
    if silent:
        return f"{silent[0]}: have the node rebooted, and leave it out meanwhile"
    there, shown = len(driver_models(context)), sum(gpu.units for gpu in report.gpus)
    if there > shown:
        return f"the node has {there}, and the job may use {shown}: ask the scheduler for them (--gpus-per-node)"
    return "ask for fewer, or for other nodes"


def _unread_row(context: NodeContext, failure: str, asked: int | None) -> CheckRow:
    """Return the row gpu.count of a node on which no GPU could be read, because of `failure`. It is bad if the job
    requests GPUs (`asked`) and it is certain that programs see none either; otherwise unknown, or the row for other
    makers' GPUs."""
    nvidia, other = has_nvidia(context), other_devices(context)
    hint = next((hint for words, hint in _SAYS_NONE.items() if words in failure), "")
    if asked and hint and (nvidia or not other):
        return context.row("gpu.count", _WHAT, f"0 of {asked}: {failure}", BAD, hint)
    if asked and not nvidia and not other and not has_graphics(context) and os.uname().sysname == "Linux":
        hint = "ask for nodes with GPUs; a container needs --gpus all (Docker) or --nv (Apptainer)"
        return context.row("gpu.count", _WHAT, f"0 of {asked}: no NVIDIA driver, no device files", BAD, hint)
    if other and not nvidia:
        return _other_row(context, other, asked or 0)
    return context.row("gpu.count", _WHAT, failure, UNKNOWN, "execute nvidia-smi on this node to see why")


def _other_row(context: NodeContext, other: str, asked: int) -> CheckRow:
    """Return the row gpu.count of a node whose GPUs are not NVIDIA's: OK if it has as many AMD GPUs as requested,
    unknown otherwise. The variables that hide some AMD GPUs are not read."""
    amd = count_amd_gpus(context)
    if amd and amd >= asked:
        return context.row("gpu.count", _WHAT, f"{amd} × AMD", OK)
    value = f"{amd} of {asked}: AMD" if amd else other
    return context.row("gpu.count", _WHAT, value, UNKNOWN, "their number is certain only for NVIDIA")

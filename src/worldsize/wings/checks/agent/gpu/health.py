"""Checks of the GPUs' health as the driver reports it: memory errors, recovery actions, Xids, reasons for a lower
clock.

Everything is read as a normal user: nothing is reset, and no load is created. Mostly only root may read the kernel's
log with the Xids. In that case the row of the recovery action, which the driver derives from the Xids, states this.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import Gpu, gpu_names
from worldsize.wings.checks.agent.gpu.drivers import driver_models
from worldsize.wings.checks.agent.gpu.kernel_log import Xid, is_same_device
from worldsize.wings.checks.agent.gpu.links import is_switched
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.tables.gpu_limits import RESET_FIRST, SLOWED
from worldsize.wings.checks.agent.tables.xid import ACTIONS, FALLEN_OFF, RECENT_SECONDS

_FABRIC_READY = ("", "Completed")


def health_rows(context: NodeContext, seen: Sequence[Gpu], xids: Sequence[Xid] | None) -> list[CheckRow]:
    """Return the rows gpu.ecc, gpu.recovery, gpu.xid and gpu.throttle of the node check for the GPUs `seen` by the
    ranks, without the rows whose values the GPUs do not report or this user may not read. `xids` is None if they cannot
    be read."""
    rows = (
        _ecc_row(context, seen),
        _recovery_row(context, seen, xids is not None),
        None if xids is None else _xid_row(context, seen, xids),
        _throttle_row(context, seen),
    )
    return [row for row in rows if row is not None] if seen else []


def _ecc_row(context: NodeContext, seen: Sequence[Gpu]) -> CheckRow | None:
    what, hint = "ECC errors", "it may fail again: ask for another node, and have its GPU reset"
    found = [
        ([gpu for gpu in seen if gpu.remap_failed], "memory without spare rows left"),
        ([gpu for gpu in seen if gpu.pending], "memory whose replacement waits for a reset"),
        ([gpu for gpu in seen if gpu.uncorrected], "uncorrectable errors"),
    ]
    words = [f"{gpu_names(gpus)}: {said}" for gpus, said in found if gpus]
    if words:
        return context.row("gpu.ecc", what, "; ".join(words), WARNING, hint)
    is_told = any(gpu.uncorrected is not None for gpu in seen)
    return context.row("gpu.ecc", what, "none", OK) if is_told else None


def _recovery_row(context: NodeContext, seen: Sequence[Gpu], has_xids: bool) -> CheckRow:
    what = "recovery action"
    lost = [gpu for gpu in seen if gpu.fault or gpu.recovery in RESET_FIRST]
    if lost:
        first = lost[0]
        value = f"{gpu_names(lost)}: {first.fault or first.recovery}"
        words = "it does not respond: reboot the node" if first.fault == "GPU is lost" else "it must be reset"
        hint = f"{RESET_FIRST.get(first.recovery, words)}; leave it out meanwhile"
        return context.row("gpu.recovery", what, value, BAD, hint)
    asked = [gpu for gpu in seen if gpu.recovery not in ("", "None")]
    if asked:
        hint = "the driver asks that nothing new starts there until it is reset: ask for another node"
        return context.row("gpu.recovery", what, f"{gpu_names(asked)}: {asked[0].recovery}", WARNING, hint)
    unready = [gpu for gpu in seen if gpu.fabric not in _FABRIC_READY and is_switched(gpu.model)]
    if unready and len(driver_models(context)) != 1:  # a virtual machine with one GPU of a board has no fabric
        value = f"{gpu_names(unready)}: NVLink fabric {unready[0].fabric}"
        return context.row("gpu.recovery", what, value, WARNING, "CUDA fails until the node's Fabric Manager is ready")
    return context.row("gpu.recovery", what, "none" if has_xids else "none; Xids cannot be read as this user", OK)


def _xid_row(context: NodeContext, seen: Sequence[Gpu], xids: Sequence[Xid]) -> CheckRow:
    """Return the node check's row gpu.xid, on the Xids (NVIDIA's GPU errors) of the GPUs that the ranks see. An Xid for
    a GPU that fell off the bus always counts, because it is not known whose GPU it was."""
    what = "Xids of the last two hours"
    recent = [xid for xid in xids if xid.age <= RECENT_SECONDS and _is_of(xid, seen)]
    serious = {xid.number: xid for xid in recent if xid.number in ACTIONS}
    if serious:
        words = [f"{xid.number} on {xid.bus} {xid.age / 60:.0f} min ago" for xid in serious.values()]
        last = list(serious.values())[-1]
        hint = f"Xid {last.number} asks for {ACTIONS[last.number]}, unless that was done: ask for another node"
        return context.row("gpu.xid", what, ", ".join(words[:5]), WARNING, hint)
    numbers = sorted({xid.number for xid in recent})
    value = f"{', '.join(map(str, numbers[:8]))}: caused by programs, or informational" if numbers else "none"
    return context.row("gpu.xid", what, value, OK)


def _is_of(xid: Xid, seen: Sequence[Gpu]) -> bool:
    if xid.number == FALLEN_OFF or not all(gpu.bus for gpu in seen):
        return True
    return any(is_same_device(xid.bus, gpu.bus) for gpu in seen)


def _throttle_row(context: NodeContext, seen: Sequence[Gpu]) -> CheckRow | None:
    """Return the node check's row gpu.throttle, on the reasons for a lower clock of the GPUs that the ranks see; None
    if no GPU reports them. The reasons are tested bit by bit: an idle GPU under a power cap has two of them, and both
    are harmless."""
    what = "reasons for a lower clock"
    for bit, (words, cause) in SLOWED.items():
        slowed = [gpu for gpu in seen if gpu.throttle is not None and gpu.throttle & bit]
        if slowed:
            hint = f"{cause}: expect it to be slow, or ask for another node"
            return context.row("gpu.throttle", what, f"{gpu_names(slowed)}: {words}", WARNING, hint)
    told = any(gpu.throttle is not None for gpu in seen)
    return context.row("gpu.throttle", what, "none", OK) if told else None

"""Reasons why NCCL used sockets or avoided a direct path to GPUs, if its lines prove one.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.transport.nccl_summary import NO_DEVICE, NO_PLUGIN, NO_VERBS, NcclSummary
from worldsize.wings.checks.agent.transport.node_answer import origin_words
from worldsize.wings.checks.agent.transport.origins import JOB
from worldsize.wings.checks.agent.transport.ports import EFA

IB_DISABLE, NET, HCA = "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_IB_HCA"
P2P_DISABLE, P2P_LEVEL = "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"
GDR_LEVEL = "NCCL_NET_GDR_LEVEL"
EXPLAINING = (NET, IB_DISABLE, HCA, P2P_DISABLE, P2P_LEVEL, GDR_LEVEL)
"""The variables whose origin can explain NCCL's choice."""


class Reason(NamedTuple):
    """A reason and its fix. `why` follows "because" in a sentence; `mend` states what to do, without a full stop."""

    why: str
    mend: str


_WITHOUT_PLUGIN = Reason("NCCL found no plugin (libnccl-net.so)", "install aws-ofi-nccl in the environment of the job")
_WITHOUT_VERBS = Reason(
    "NCCL could not open libibverbs.so", "install libibverbs (rdma-core) in the environment or image"
)
_WITHOUT_DEVICE = Reason(
    "NCCL found no device that it can use",
    "make sure that ranks may open /dev/infiniband (a container must be given it) and have the driver's library",
)


def socket_reason(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    """Return the Reason why NCCL used sockets on a node with this kind of fabric; None if no line of NCCL's log proves
    one. NCCL_IB_DISABLE is ignored for EFA, which does not use NCCL's own InfiniBand transport."""
    if summary.variables.get(NET, "").lower() == "socket":
        return _by_variable(NET, summary, origins)
    if fabric != EFA and _is_on(summary, IB_DISABLE):
        return _by_variable(IB_DISABLE, summary, origins)
    if fabric == EFA and NO_PLUGIN in summary.notes:
        return _WITHOUT_PLUGIN
    return _without_device(summary, origins)


def _without_device(summary: NcclSummary, origins: Mapping[str, Any]) -> Reason | None:
    if NO_VERBS in summary.notes:
        return _WITHOUT_VERBS
    if NO_DEVICE not in summary.notes:
        return None
    if HCA not in summary.variables:
        return _WITHOUT_DEVICE
    reason = _by_variable(HCA, summary, origins)
    return reason._replace(why=f"{reason.why} and names no adapter that NCCL can use")


def p2p_reason(summary: NcclSummary, origins: Mapping[str, Any]) -> Reason | None:
    """Return a Reason that names the variable which keeps GPUs of one node from using NVLink; None if no variable does.
    `origins` maps a variable to the place that sets it."""
    if _is_on(summary, P2P_DISABLE):
        return _by_variable(P2P_DISABLE, summary, origins)
    return _by_variable(P2P_LEVEL, summary, origins) if _is_lowest(summary, P2P_LEVEL) else None


def gdr_reason(summary: NcclSummary, origins: Mapping[str, Any]) -> Reason | None:
    """Return a Reason that names the variable which keeps the network adapters from accessing the GPUs' memory
    (NCCL_NET_GDR_LEVEL); None if it does not."""
    return _by_variable(GDR_LEVEL, summary, origins) if _is_lowest(summary, GDR_LEVEL) else None


def _by_variable(name: str, summary: NcclSummary, origins: Mapping[str, Any]) -> Reason:
    setting = f"{name}={summary.variables[name]}"
    if origins.get(name) == JOB:
        return Reason(f"{setting} is set by the job", f"remove {name} from the job")
    mend = f"unset {name}, or set it differently in the job" if origins.get(name) else f"unset {name}"
    return Reason(f"{setting}{origin_words(name, origins)}", mend)


def _is_on(summary: NcclSummary, name: str) -> bool:
    return summary.variables.get(name) not in (None, "", "0")


def _is_lowest(summary: NcclSummary, name: str) -> bool:
    return summary.variables.get(name, "").upper() in ("0", "LOC")

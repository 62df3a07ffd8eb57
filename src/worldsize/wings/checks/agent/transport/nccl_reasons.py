"""Why NCCL used sockets, or not a GPU's direct way, as far as its lines prove it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.transport.nccl_summary import NO_DEVICE, NO_PLUGIN, NO_VERBS, NcclSummary
from worldsize.wings.checks.agent.transport.ports import EFA

IB_DISABLE, NET, HCA = "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_IB_HCA"
P2P_DISABLE, P2P_LEVEL = "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"
GDR_LEVEL = "NCCL_NET_GDR_LEVEL"
EXPLAINING = (NET, IB_DISABLE, HCA, P2P_DISABLE, P2P_LEVEL, GDR_LEVEL)
"""The variables whose origin is worth asking for."""


class Reason(NamedTuple):
    """`why` follows "because"; `mend` says what to do, without a full stop."""

    why: str
    mend: str


def socket_reason(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    """Why NCCL used sockets on a node with this kind of fabric; None where no line proves why."""
    return next(filter(None, (rule(summary, fabric, origins) for rule in _SOCKET_RULES)), None)


def p2p_reason(summary: NcclSummary, origins: Mapping[str, Any]) -> Reason | None:
    """Which variable keeps GPUs of one node from NVLink; None where none does."""
    if _is_on(summary.variables.get(P2P_DISABLE)):
        return _by_variable(P2P_DISABLE, summary, origins)
    if summary.variables.get(P2P_LEVEL, "").upper() in ("0", "LOC"):
        return _by_variable(P2P_LEVEL, summary, origins)
    return None


def gdr_reason(summary: NcclSummary, origins: Mapping[str, Any]) -> Reason | None:
    """Which variable keeps the adapters from the GPUs' memory; None where none does."""
    if summary.variables.get(GDR_LEVEL, "").upper() in ("0", "LOC"):
        return _by_variable(GDR_LEVEL, summary, origins)
    return None


def _by_variable(name: str, summary: NcclSummary, origins: Mapping[str, Any]) -> Reason:
    setting = f"{name}={summary.variables[name]}"
    origin = str(origins.get(name, ""))[:100]
    if origin == "the job":
        return Reason(f"{setting} is set by the job", f"remove {name} from the job")
    if origin:
        return Reason(f"{setting} comes from {origin}", f"unset {name}, or set it otherwise in the job")
    return Reason(f"{setting} is set", f"unset {name}")


def _net(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    return _by_variable(NET, summary, origins) if summary.variables.get(NET, "").lower() == "socket" else None


def _disabled(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    """EFA is no matter of NCCL's own part for InfiniBand, which this variable is about."""
    if fabric == EFA or not _is_on(summary.variables.get(IB_DISABLE)):
        return None
    return _by_variable(IB_DISABLE, summary, origins)


def _no_plugin(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    if fabric != EFA or NO_PLUGIN not in summary.notes:
        return None
    return Reason("NCCL found no plugin (libnccl-net.so)", "install aws-ofi-nccl in the environment of the job")


def _no_verbs(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    if NO_VERBS not in summary.notes:
        return None
    return Reason("NCCL could not open libibverbs.so", "install libibverbs (rdma-core) in the environment or image")


def _no_match(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    if NO_DEVICE not in summary.notes or HCA not in summary.variables:
        return None
    reason = _by_variable(HCA, summary, origins)
    return reason._replace(why=f"{reason.why} and names no adapter that NCCL can use")


def _no_device(summary: NcclSummary, fabric: str, origins: Mapping[str, Any]) -> Reason | None:
    if NO_DEVICE not in summary.notes:
        return None
    mend = "see that ranks may open /dev/infiniband (a container must be given it) and have the driver's library"
    return Reason("NCCL found no device that it can use", mend)


_SOCKET_RULES: tuple[Callable[[NcclSummary, str, Mapping[str, Any]], Reason | None], ...] = (
    _net,
    _disabled,
    _no_plugin,
    _no_verbs,
    _no_match,
    _no_device,
)


def _is_on(value: str | None) -> bool:
    return value not in (None, "", "0")

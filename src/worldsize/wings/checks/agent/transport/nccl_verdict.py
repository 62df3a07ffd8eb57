"""What NCCL really chose on each node, judged by its own lines. Pure.

Each verdict but *unknown* needs the lines that prove it. Standard library only: travels inside agent.pyz
(Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import mapping_of
from worldsize.wings.checks.agent.transport.nccl_reasons import Reason, gdr_reason, p2p_reason, socket_reason
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary
from worldsize.wings.checks.agent.transport.node_answer import Finding, NodeAnswer, answer_of, rows_of_findings
from worldsize.wings.checks.agent.transport.ports import EFA, OMNI_PATH, ROCE, Port, active_ports, best_kind

ROW_ID = "transport.nccl"
_WHAT = "what NCCL chose"
_NO_REASON = Reason(
    "", "set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET,ENV in the job, and read NCCL's lines about NET/IB"
)
_MANY_EFA = 4
"""Instances with fewer have one adapter of some 100 Gb/s at most, which sockets come near to."""
_TCP_PROVIDERS = ("tcp", "sockets", "udp")


class _Case(NamedTuple):
    """A node of a run of so many `nodes`, with what it answered, and what NCCL said."""

    node: CheckedNode
    answer: NodeAnswer
    summary: NcclSummary
    nodes: int

    @property
    def is_networked(self) -> bool:
        """Whether nodes reach each other by a network, and not by NVLink."""
        return self.nodes > 1 and not self.summary.one_domain


def nccl_rows(nodes: Iterable[CheckedNode], count: int) -> list[CheckRow]:
    """One row for each node where something is not right or not known, and one for all others, of a run of `count`
    nodes that were asked to measure."""
    return rows_of_findings([(node, _finding(node, answer_of(node), count)) for node in nodes], ROW_ID, _WHAT)


def network_of(summary: NcclSummary) -> str:
    """Return the network that connections really go through, as NCCL names it; without such lines the one it decided
    for."""
    names = {path.split("/")[1] for path in summary.paths if path.startswith("NET/")}
    if "Socket" in names:
        return "Socket"
    return min(names) if names else summary.network


def is_tcp(summary: NcclSummary) -> bool:
    """Return whether NCCL's lines prove that it used TCP, by itself or by libfabric."""
    if network_of(summary) == "Socket":
        return True
    return "libfabric" in network_of(summary).lower() and summary.provider.split(";")[0] in _TCP_PROVIDERS


def _finding(node: CheckedNode, answer: NodeAnswer, count: int) -> Finding:
    if answer.nccl is None:
        return Finding("unknown", UNKNOWN, answer.failure or "NCCL's output was not recognised")
    case = _Case(node, answer, answer.nccl, count)
    found = (rule(case) for rule in (_network, _host_memory, _no_gdr, _right))
    unknown = Finding("unknown", UNKNOWN, answer.failure or "NCCL's output does not show the transport")
    return next(filter(None, found), unknown)


def _network(case: _Case) -> Finding | None:
    """Sockets where there is a fabric: what this check is there for."""
    node, answer, summary, _ = case
    ports = active_ports(node.facts)
    if not case.is_networked or not ports or not is_tcp(summary):
        return None
    fabric, interface = best_kind(ports), _interface(summary)
    reason = socket_reason(summary, fabric, answer.origins) or _NO_REASON
    because = f", because {reason.why}" if reason.why else ""
    hint = f"{node.label} has {fabric} ({_names(ports)}), NCCL used TCP over {interface}{because}; {reason.mend}"
    return Finding(f"TCP over {interface}", BAD if _is_certain(ports, fabric, answer, summary) else WARNING, hint)


def _is_certain(ports: Sequence[Port], fabric: str, answer: NodeAnswer, summary: NcclSummary) -> bool:
    """Return whether TCP is several times slower for certain. On Omni-Path it need not be."""
    if fabric == EFA:
        return sum(port.kind == EFA for port in ports) >= _MANY_EFA
    if fabric == ROCE:
        return _leaves_more_idle(ports, answer, summary)
    return fabric != OMNI_PATH


def _leaves_more_idle(ports: Sequence[Port], answer: NodeAnswer, summary: NcclSummary) -> bool:
    """Return whether RoCE ports lie idle that are twice as fast as the one that carries TCP, or that one is no RoCE
    port: the fast network of virtual machines looks like RoCE, and its only port carries TCP, too."""
    used = {name for interface in summary.interfaces for name in (interface, interface.split(".")[0])}
    carrying = [port for port in ports if {port.netdev, str(answer.masters.get(port.netdev, ""))} & used]
    idle = sum(port.gbps for port in ports if port not in carrying)
    return not carrying or idle >= 2 * sum(port.gbps for port in carrying) > 0


def _host_memory(case: _Case) -> Finding | None:
    """Shared memory between GPUs that NVLink connects. Pairs of GPUs with NVLink need shared memory between pairs:
    there only a variable proves that something is wrong."""
    summary, reason = case.summary, p2p_reason(case.summary, case.answer.origins)
    if not summary.count("SHM") or not summary.links or (summary.links != "switch" and reason is None):
        return None
    because = (
        f", because {reason.why}; {reason.mend}" if reason else "; see `nvidia-smi topo -m` and the Fabric Manager"
    )
    return Finding("shared memory between GPUs", WARNING, f"the GPUs have NVLink, NCCL used host memory{because}")


def _no_gdr(case: _Case) -> Finding | None:
    """GPUDirect that is possible and not used. NCCL leaves it where GPU and adapter are too far apart, which is no
    mistake, and which it does not say from 2.30 on: there only a variable proves one."""
    summary, reason = case.summary, gdr_reason(case.summary, case.answer.origins)
    unused = summary.gdr == "enabled" and summary.count("NET/", "COLLNET/") and not summary.is_direct
    if not unused or case.nodes < 2 or (reason is None and (summary.distance or not _tells_distances(case))):
        return None
    because = f", because {reason.why}; {reason.mend}" if reason else "; see NCCL_NET_GDR_LEVEL"
    hint = f"GPUDirect RDMA is possible, NCCL did not use it{because}"
    return Finding(f"{_network_name(summary)} through host memory", WARNING, hint)


def _tells_distances(case: _Case) -> bool:
    """Only the first rank of a run names NCCL's version in all releases; torch knows it, too."""
    version = case.summary.version or str(mapping_of(case.node.facts.get("torch")).get("nccl", ""))
    numbers = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < (2, 30)


def _right(case: _Case) -> Finding | None:
    parts = [_inside(case.summary)]
    if case.is_networked:
        if not network_of(case.summary):
            return None
        parts.insert(0, _between(case.summary))
    elif case.summary.one_domain:
        parts.insert(0, "NVLink between nodes")
    text = ", ".join(filter(None, parts))
    return Finding(text, OK) if text else None


def _between(summary: NcclSummary) -> str:
    name = _network_name(summary)
    if is_tcp(summary):
        return name
    known = bool(summary.count("NET/", "COLLNET/"))
    collective = next((path.split("/")[1] for path in summary.paths if path.startswith("COLLNET/")), "")
    way = "GPUDirect RDMA" if summary.is_direct else "through host memory" if known else ""
    return ", ".join(filter(None, (name, way, f"reductions in the network ({collective})" if collective else "")))


def _network_name(summary: NcclSummary) -> str:
    if is_tcp(summary):
        return f"TCP over {_interface(summary)}"
    name = network_of(summary)
    if "libfabric" in name.lower():
        return f"libfabric ({summary.provider})" if summary.provider else name
    kinds = {device.rsplit("/", 1)[-1] for device in summary.devices}
    if name.startswith("IB") and kinds:
        return "RoCE" if kinds == {"RoCE"} else "InfiniBand"
    return "InfiniBand or RoCE" if name.startswith("IB") else f"plugin {name}" if name else ""


def _inside(summary: NcclSummary) -> str:
    """How GPUs of one node reach each other."""
    ways = []
    if summary.count("P2P"):
        ways.append("NVLink" if summary.links else "PCIe peer to peer")
    if summary.nvls:
        ways.append("NVLink switch reductions")
    if summary.count("SHM"):
        ways.append("shared memory")
    return " and ".join(ways)


def _interface(summary: NcclSummary) -> str:
    return ", ".join(summary.interfaces[:4]) or "an unnamed interface"


def _names(ports: Sequence[Port]) -> str:
    """Return the first ports, with what they can do."""
    port = ports[0]
    more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    return f"{port.name}{f', {port.gbps:g} Gb/s' if port.gbps else ''}{more}"

"""Verdict on the transport that NCCL really chose on each node, according to its own lines. Pure.

Each verdict except *unknown* needs the lines that prove it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
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
"""The number of EFA adapters from which on TCP is certainly slower. Instances with fewer have one adapter of some 100
Gb/s at most, and sockets nearly reach that."""
_TCP_PROVIDERS = ("tcp", "sockets", "udp")


class _Case(NamedTuple):
    """A node of a run of `nodes` nodes, with its answer and the summary of NCCL's lines."""

    node: CheckedNode
    answer: NodeAnswer
    summary: NcclSummary
    nodes: int

    @property
    def is_networked(self) -> bool:
        """True if nodes reach each other through a network, and not through NVLink."""
        return self.nodes > 1 and not self.summary.one_domain


def nccl_rows(nodes: Iterable[CheckedNode], count: int) -> list[CheckRow]:
    """Return the rows transport.nccl about the transport that NCCL chose on these nodes: a row for each node with a
    problem or an unknown choice, and one row for all other nodes that chose the same. `count` is the number of nodes in
    the run that received orders to measure."""
    return rows_of_findings([(node, _finding(node, answer_of(node), count)) for node in nodes], ROW_ID, _WHAT)


def network_of(summary: NcclSummary) -> str:
    """Return the network that NCCL's connections really use, as NCCL names it, such as "IB" or "Socket". If no line
    names it, return the network that NCCL chose."""
    names = {path.split("/")[1] for path in summary.paths if path.startswith("NET/")}
    if "Socket" in names:
        return "Socket"
    return min(names) if names else summary.network


def is_tcp(summary: NcclSummary) -> bool:
    """Return whether NCCL's lines prove that it used TCP, directly or through libfabric."""
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
    """Return a Finding, bad or a warning, if NCCL used TCP on a node that has a fabric; None otherwise. This is the
    main purpose of the check of NCCL's transport."""
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
    """Return whether TCP, which NCCL used, is certainly several times slower than the node's fabric (`fabric` is its
    kind). On Omni-Path this is not certain."""
    if fabric == EFA:
        return sum(port.kind == EFA for port in ports) >= _MANY_EFA
    if fabric == ROCE:
        return _leaves_more_idle(ports, answer, summary)
    return fabric != OMNI_PATH


def _leaves_more_idle(ports: Sequence[Port], answer: NodeAnswer, summary: NcclSummary) -> bool:
    """Return whether the idle RoCE ports are together at least twice as fast as those that carry NCCL's TCP
    connections, or whether no RoCE port carries TCP. The fast network of virtual machines looks like RoCE, and its only
    port carries TCP, too."""
    used = {name for interface in summary.interfaces for name in (interface, interface.split(".")[0])}
    carrying = [port for port in ports if {port.netdev, str(answer.masters.get(port.netdev, ""))} & used]
    idle = sum(port.gbps for port in ports if port not in carrying)
    return not carrying or idle >= 2 * sum(port.gbps for port in carrying) > 0


def _host_memory(case: _Case) -> Finding | None:
    """Return a warning Finding if NCCL connects GPUs of one node through shared memory although they have NVLink; None
    otherwise. If NVLink connects only pairs of GPUs, shared memory between the pairs is necessary, and only a variable
    proves a problem."""
    summary, reason = case.summary, p2p_reason(case.summary, case.answer.origins)
    if not summary.count("SHM") or not summary.links or (summary.links != "switch" and reason is None):
        return None
    because = (
        f", because {reason.why}; {reason.mend}" if reason else "; see `nvidia-smi topo -m` and the Fabric Manager"
    )
    return Finding("shared memory between GPUs", WARNING, f"the GPUs have NVLink, NCCL used host memory{because}")


def _no_gdr(case: _Case) -> Finding | None:
    """Return a warning Finding if GPUDirect RDMA is possible and NCCL does not use it between nodes; None otherwise.
    NCCL does not use it if GPU and adapter are too far apart, which is not a problem. From 2.30 on, NCCL does not log
    this, so only a variable proves a problem there."""
    summary, reason = case.summary, gdr_reason(case.summary, case.answer.origins)
    unused = summary.gdr == "enabled" and summary.count("NET/", "COLLNET/") and not summary.is_direct
    if not unused or case.nodes < 2 or (reason is None and (summary.distance or not _tells_distances(case))):
        return None
    because = f", because {reason.why}; {reason.mend}" if reason else "; see NCCL_NET_GDR_LEVEL"
    hint = f"GPUDirect RDMA is possible, NCCL did not use it{because}"
    return Finding(f"{_network_name(summary)} through host memory", WARNING, hint)


def _tells_distances(case: _Case) -> bool:
    """Return whether the node's version of NCCL logs the distances between GPUs and adapters (before 2.30). Only the
    first rank of a run logs the version in all releases, so torch's information is used if it is missing."""
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
    """Return the kinds of path that NCCL uses between the GPUs of one node as text, such as "NVLink and shared memory";
    "" if none is known."""
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
    """Return the name and rate of the first port, and the number of the others, as text."""
    port = ports[0]
    more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    return f"{port.name}{f', {port.gbps:g} Gb/s' if port.gbps else ''}{more}"

"""Verdict on the transport that Open MPI chose on each node. Pure.

Two processes on one node show which transport Open MPI would use to other nodes, because it chooses a component before
it knows any peer.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import mapping_of
from worldsize.wings.checks.agent.transport.node_answer import (
    Finding,
    NodeAnswer,
    answer_of,
    origin_words,
    rows_of_findings,
)
from worldsize.wings.checks.agent.transport.ports import INFINIBAND, OMNI_PATH, active_ports, best_kind

ROW_ID = "transport.mpi"
_WHAT = "what Open MPI chose"
_RDMA = ("rc", "dc", "ud", "ib", "srd", "gga")
"""The prefixes of the names of UCX's transports that use an adapter."""
_LOCAL_BTLS = ("self", "vader", "sm", "smcuda")
TCP, UCX_WAY, PSM2, EFA = "TCP", "UCX", "PSM2", "EFA"


def mpi_rows(nodes: Iterable[CheckedNode]) -> list[CheckRow]:
    """Return the rows transport.mpi about the transport that Open MPI chose on these nodes: a row for each node with a
    problem or an unknown choice, and one row for all other nodes that chose the same."""
    found = [(node, _finding(node, answer_of(node))) for node in nodes]
    return rows_of_findings([(node, finding) for node, finding in found if finding is not None], ROW_ID, _WHAT)


def chosen_way(said: Mapping[str, Any]) -> tuple[str, str]:
    """Return Open MPI's transport between nodes (TCP, UCX_WAY, PSM2, EFA or a name of Open MPI's; "" if nothing proves
    one), and the words of Open MPI that prove it. `said` is the result of `parse_mpi_log`."""
    pml = said.get("pml")
    if pml == "ob1":
        return _btl_way(_texts(said.get("btls")))
    if pml == "cm":
        return _mtl_way(str(said.get("mtl", "")), str(said.get("provider", "")))
    return _ucx_way(said) if pml == "ucx" else ("", "")


def _btl_way(btls: list[str]) -> tuple[str, str]:
    """Return the transport of Open MPI's component ob1, which sends through the `btls` that could be initialized, and
    the words that prove it. Only tcp alone is a proof. uct and others can be initialized on a machine without an
    adapter, too, so the transport is "" if they are present."""
    between = [btl for btl in btls if btl not in _LOCAL_BTLS]
    if between == ["tcp"]:
        return TCP, "pml ob1, btl tcp"
    return "", f"pml ob1, btls {', '.join(between)}" if between else "pml ob1"


def _mtl_way(mtl: str, provider: str) -> tuple[str, str]:
    if mtl in ("psm2", "psm"):
        return PSM2, f"pml cm, mtl {mtl}"
    words = f"pml cm, mtl {mtl}" + (f", provider {provider}" if provider else "")
    if provider.startswith(("tcp", "sockets", "udp")):
        return TCP, words
    if provider.startswith(("efa", "rdmap")):
        return EFA, words
    return ("", words) if not provider or mtl != "ofi" else (f"libfabric ({provider})", words)


def _ucx_way(said: Mapping[str, Any]) -> tuple[str, str]:
    """Return the transport of UCX under Open MPI, and the words that prove it. By default UCX takes part only if it has
    an adapter. Its transports to other nodes prove another choice, or UCX_TLS, which lists the only ones that it may
    use."""
    ways = _texts(said.get("ucx"))
    allowed = str(mapping_of(said.get("variables")).get("UCX_TLS", ""))
    if ways:
        return (UCX_WAY if any(map(_is_rdma, ways)) else TCP), f"pml ucx, {' '.join(ways[:4])}"
    if allowed and _only_tcp(allowed):
        return TCP, f"pml ucx, UCX_TLS={allowed}"
    return UCX_WAY, "pml ucx"


def _is_rdma(way: str) -> bool:
    return way.startswith(_RDMA)


def _only_tcp(allowed: str) -> bool:
    ways = [way.strip().lstrip("\\") for way in allowed.split(",")]
    return "tcp" in ways and not allowed.startswith("^") and not any(_is_rdma(way) or way == "all" for way in ways)


def _finding(node: CheckedNode, answer: NodeAnswer) -> Finding | None:
    """Return the finding about Open MPI on this node. Without a fabric there is no better transport than TCP, so an
    unknown choice is no problem there. None if there is neither a fabric nor an answer."""
    fabric = best_kind(active_ports(node.facts))
    if not answer.mpi:
        hint = answer.mpi_failure or "Open MPI's output was not recognised"
        return Finding("unknown", UNKNOWN, hint) if fabric else None
    way, words = chosen_way(answer.mpi)
    if not way:
        verdict, hint = (UNKNOWN, "its output does not prove the transport") if fabric else (OK, "")
        return Finding(words or "unknown", verdict, hint)
    if way == TCP and fabric:
        why, mend = _reason(answer.mpi, fabric)
        because = f", because {why}" if why else ""
        hint = f"{node.label} has {fabric}, Open MPI used TCP{because}; {mend}"
        return Finding(f"TCP ({words})", BAD if fabric in (INFINIBAND, OMNI_PATH) else WARNING, hint)
    return Finding(f"{way} ({words})", OK)


def _reason(said: Mapping[str, Any], fabric: str) -> tuple[str, str]:
    """Return two texts: the reason why Open MPI used TCP although the node has this fabric, "" if nothing proves one,
    and a hint how to fix it. `said` is the node's answer about Open MPI."""
    settings = {**mapping_of(said.get("variables")), **mapping_of(said.get("settings"))}
    for name in ("OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_mtl", "UCX_TLS"):
        value = printable_text(str(settings.get(name, "")))[:100]
        if value and _explains(name, value):
            return f"{name}={value}{origin_words(name, mapping_of(said.get('origins')))}", f"unset {name}"
    needed = "psm2" if fabric == OMNI_PATH else "ucx"
    found = _texts(said.get("found"))
    if found and needed not in found:
        return f"it was built without {needed}", f"use an Open MPI with {needed}"
    if needed in _texts(said.get("failed")):
        return f"its component {needed} could not be initialized", f"run it with OMPI_MCA_pml={needed} to see why"
    return "", "run it with OMPI_MCA_pml_base_verbose=10 to see why"


def _explains(name: str, value: str) -> bool:
    """Return whether this value of a variable keeps Open MPI from using an adapter. The value is a list of components,
    or after ^ a list of those that it must not use."""
    is_exclusion = value.startswith("^")
    if name == "OMPI_MCA_pml":
        return ("ucx" in value or "cm" in value) == is_exclusion
    return name != "OMPI_MCA_btl" or not is_exclusion


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

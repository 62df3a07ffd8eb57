"""The amount of data that an all-reduce sends over the network, and its share of the adapters' rate."""

from __future__ import annotations

import re
from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import size_text
from worldsize.wings.bench.allreduce.bandwidth import row_bandwidth
from worldsize.wings.bench.allreduce.report import Report
from worldsize.wings.bench.worlds import World

JUDGED_FROM = 512 << 20
"""The minimum size in bytes for a judgement. Below it, latency and pipelines decide on every fabric that was measured:
12 % of the rate at 16 MiB where 73 % are reached in the end (stas00/ml-engineering)."""
GOOD, POOR, SOCKETS = 0.70, 0.50, 0.25
"""Shares of the adapters' rate. Fabrics that were measured reach 71 to 73 %. A half and a quarter are not published
numbers. Sockets had a fifth of the rate of RDMA on the same fabric (AReaL, issue 639)."""
_ADAPTERS = re.compile(r"(?:(\d{1,3}) × )?(InfiniBand|RoCE|Omni-Path|EFA) (\d{1,6}(?:\.\d{1,3})?) Gb/s \([^()]*\)")
_INTERFACE = re.compile(r"(\S{1,40}) (\d{1,6}(?:\.\d{1,3})?) ([GM])b/s")


class Adapters(NamedTuple):
    """The network adapters of one node, all of one kind: their number, and the Gb/s of each."""

    kind: str
    number: int
    gbps: float


def network_sentence(world: World, report: Report, hardware: Mapping[str, str]) -> str:
    """Return a sentence on the all-reduce benchmark of one world: the rate at which each rank sends over the network,
    its share of the network adapters' rate if that is known, and a judgement. State instead why the network cannot be
    judged, if the nodes are virtual ones or the sizes are too small."""
    if hardware.get("nodes", "").endswith("virtual nodes of one machine"):
        return f"{world}: its nodes are virtual ones of one machine: nothing of this went over a network."
    if "virtual nodes" in hardware.get("nodes", ""):
        return f"{world}: some of its nodes are one machine: what went over the network is not known."
    largest = max(report.rows, key=lambda row: row.size)
    if largest.size < JUDGED_FROM:
        return f"{world}: the network is not judged by less than {size_text(JUDGED_FROM)}: --sizes 8B:1GB."
    rate = network_rate_per_rank(row_bandwidth(largest, report.ranks), world.nodes, report.ranks)
    got = (
        f"{world}: at {size_text(largest.size)} each rank sends {rate:.3g} GB/s ({8 * rate:.3g} Gb/s) over the network"
    )
    return f"{got}{_judgement(8 * rate * world.ranks_per_node, world, report, hardware.get('network', ''))}"


def network_rate_per_rank(bus: float, nodes: int, ranks: int) -> float:
    """Return the part of an all-reduce's bus bandwidth `bus` that goes over the network for each rank, in GB/s:
    (k-1)/(n-1) with k nodes and n ranks."""
    return bus * (nodes - 1) / (ranks - 1) if ranks > 1 else 0.0


def find_adapters(network: str, backend: str) -> Adapters | None:
    """Return the network adapters of a node that the all-reduce `backend` uses, from `network`, the row "network" of a
    table of hardware. gloo uses sockets over the only interface. NCCL uses the ports that carry RDMA. None if nodes or
    adapters differ, if there are none, and for MPI, which may use either."""
    texts = re.split(r", (?![^(]*\))", network)
    if backend == "nccl":
        ports = [found for found in map(_ADAPTERS.fullmatch, texts) if found]
        rest = [text for text in texts if "(" in text]
        if len(ports) == 1 == len(rest):
            return Adapters(ports[0][2], int(ports[0][1] or 1), float(ports[0][3]))
        return None
    interface = _INTERFACE.fullmatch(texts[0]) if backend == "gloo" and len(texts) == 1 else None
    if interface is None:
        return None
    return Adapters(interface[1], 1, float(interface[2]) / (1 if interface[3] == "G" else 1000))


def _judgement(gbps: float, world: World, report: Report, network: str) -> str:
    """Return the end of the sentence of `network_sentence`, which judges `gbps`, the Gb/s that a node sends. There is
    no verdict if there are fewer ranks than adapters, because they need not use all of them, or if the backend uses
    sockets, because their share of an interface shows nothing about the fabric."""
    adapters = find_adapters(network, report.backend)
    if adapters is None or adapters.gbps <= 0:
        rule = f": {GOOD:.0%} of the rate of its adapter is good, below {POOR:.0%} is poor."
        return rule if report.backend == "nccl" else "."
    share = gbps / (adapters.number * adapters.gbps)
    if report.backend != "nccl":
        return f": {share:.0%} of the {adapters.gbps:g} Gb/s of {adapters.kind}, for a node."
    several = f"{adapters.number} × " if adapters.number > 1 else ""
    of = f": {share:.0%} of a node's {several}{adapters.kind} {adapters.gbps:g} Gb/s"
    if world.ranks_per_node < adapters.number:
        return f"{of}, of which its ranks need not use all."
    return of + _verdict(share)


def _verdict(share: float) -> str:
    if share >= GOOD:
        return ", which is good."
    if share >= POOR:
        return f"; good is {GOOD:.0%}."
    said = f", which is poor: good is {GOOD:.0%}; `worldsize check` shows what NCCL has chosen, and why."
    return said if share >= SOCKETS else f"{said} Sockets reach about this rate: check the transport first."

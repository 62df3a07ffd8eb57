"""Nodes of a check as their head hears them: each answers every order as a node with 8 GPUs and 8 adapters does.

What the probes say was found on this machine once; facts of GPUs and the fabric, and all answers, are recorded ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from harness import CHECKOUT

from worldsize.wings.checks.agent.node_context import CHEAP, NodeContext
from worldsize.wings.checks.agent.probe_runner import run_probes
from worldsize.wings.checks.agent.selection import Selection
from worldsize.wings.checks.agent.stages.share import LARGE
from worldsize.wings.checks.agent.transport.nccl_log import parse_nccl_log

sys.path.insert(1, os.path.join(CHECKOUT, "tests", "unit", "wings", "checks", "transport"))

import nccl_lines

ASKED = {"framework": "pytorch", "python": "python3", "ranks": 8, "gpus": 8, "backend": "nccl"}
SLOW_NODE, UNREACHED_NODE = 5, 9
"""A node that computes with a quarter of the others' rate, and one that nobody reaches at its port."""

GPUS = 8
_PORTS = {"port": 24000, "second_port": 41000}
_FACTS = {
    "gpus": [{"index": n, "model": "NVIDIA H200", "memory_mib": 143771, "used_mib": 0} for n in range(GPUS)],
    "driver": "570.133.20",
    "torch": {"version": "2.13.0", "cuda": "12.8", "nccl": "2.27.6", "gloo": True, "mpi": False},
    "fabric": [
        {"device": "mlx5_%d" % n, "port": 1, "state": "ACTIVE", "rate_gbps": 400.0, "layer": "InfiniBand", "netdev": ""}
        for n in range(GPUS)
    ],
}
_ETH0 = {"name": "eth0", "kind": "Ethernet", "mbps": 25000, "mtu": 9000, "faster": []}
_IB = "NET/IB : Using " + " ".join("[%d]mlx5_%d:1/IB" % (n, n) for n in range(GPUS)) + " [RO]; OOB"
_LOG = nccl_lines.IB.replace("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB", _IB)


def address(node_rank: int) -> str:
    return "10.%d.%d.1" % divmod(node_rank, 250)


def label(node_rank: int) -> str:
    return "node%d" % node_rank


class RecordedNodes:
    """All nodes of a check of that many."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._rows, self._facts = _probed(nodes)
        self._nccl = parse_nccl_log(_LOG.splitlines())._asdict()

    def probes(self, node_rank: int) -> dict[str, Any]:
        """What this node says before any stage."""
        rows = [{**row, "node": label(node_rank)} for row in self._rows]
        return {"stage": "probes", "rows": rows, "facts": self._facts, "address": address(node_rank)}

    def answer(self, node_rank: int, stage: str, order: Mapping[str, Any]) -> dict[str, Any]:
        """What this node says to an order."""
        return {"stage": stage, "answer": getattr(self, "_" + stage)(node_rank, order)}

    def _listen(self, node_rank: int, order: Mapping[str, Any]) -> dict[str, Any]:
        return {**_PORTS, "token": "%032x" % node_rank}

    def _reach(self, node_rank: int, order: Mapping[str, Any]) -> dict[str, Any]:
        peers = order["peers"]
        return {
            "links": [_link(peer, port) for peer in peers if peer["link"] for port in _PORTS],
            "names": [
                {"rank": peer["rank"], "addresses": [peer["address"]], "error": "", "reached": True}
                for peer in peers
                if peer["name"]
            ],
            "own": {"addresses": [address(node_rank)], "error": ""},
            "latency": 0.0002,
            "clock": [0.0001, 0.0001],
            "interface": _ETH0,
            "interfaces": ["eth0", "lo"],
            "ifnames": {},
        }

    def _share(self, node_rank: int, order: Mapping[str, Any]) -> dict[str, Any]:
        rate = {"rate": 200e6} if order["bytes"] == LARGE else {}
        return {"seen": {str(each["rank"]): {"delay": 0.0} for each in order["read"]}, **rate}

    def _pairs(self, node_rank: int, order: Mapping[str, Any]) -> dict[str, Any]:
        share = 0.25 if node_rank == SLOW_NODE else 1.0
        rate = 600e6 * (1 + node_rank % 7 / 100)
        zero = dict.fromkeys(("waited", "throttled", "stopped"), 0.0)
        compute = {"kernel": "md5", "threads": 4, "rate": rate * share, "running": rate * share, **zero}
        gpus = {str(n): {"stage": "done", "flops": 650e12, "gathering": 40e9} for n in range(GPUS)}
        return {"network": {"received": 1e9, "sent": 1e9}, "compute": compute, "gpus": gpus}

    _second_pairs = _pairs

    def _collective(self, node_rank: int, order: Mapping[str, Any]) -> dict[str, Any]:
        done = {"stage": "done", "port": 41000, "seconds": 0.3, "joining": 0.1}
        return {"ranks": {str(order["first"] + n): done for n in range(order["count"])}}

    def _bandwidth(self, node_rank: int, order: Mapping[str, Any]) -> dict[str, Any]:
        return {"nccl": self._nccl, "size": 512 << 20, "times": 9, "seconds": 0.0027, "correct": True}


def _link(peer: Mapping[str, Any], port: str) -> dict[str, Any]:
    error = "no answer within 5 s" if peer["rank"] == UNREACHED_NODE else ""
    return {"rank": peer["rank"], "port": peer[port], "error": error, "certain": True}


def _probed(nodes: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and facts of the probes of the cheap form, here; with recorded facts of GPUs."""
    context = NodeContext(0, nodes, "here", "here", os.getcwd(), dict(os.environ), {"gpus": 0}, CHEAP)
    found = run_probes(context, Selection(CHEAP).probes())
    return [row._asdict() for row in found.rows], {**found.facts, **_FACTS}

"""An all-reduce over all GPUs, of which NCCL tells its way; and Open MPI's choice on each node of a job that uses it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import UNKNOWN, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.stages.listen import listener_of
from worldsize.wings.checks.agent.transport.answers import STAGE_NAME
from worldsize.wings.checks.agent.transport.bandwidth_verdict import ROW_ID, bandwidth_rows
from worldsize.wings.checks.agent.transport.mpi_verdict import mpi_rows
from worldsize.wings.checks.agent.transport.nccl_verdict import nccl_rows
from worldsize.wings.checks.agent.transport.rates import SMALLEST


class BandwidthStage:
    """Nodes without GPUs, or whose torch cannot use them, measure nothing; nor do virtual nodes, which share theirs."""

    name = STAGE_NAME
    limit = 60.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """`nccl`, the ranks of each node and where they meet; `mpi`, whether Open MPI is asked, too."""
        orders: dict[int, dict[str, Any]] = {}
        for rank, order in _nccl_orders(cluster).items():
            orders.setdefault(rank, {})["nccl"] = order
        for node in cluster.nodes if _uses_mpi(cluster) else ():
            orders.setdefault(node.node_rank, {})["mpi"] = True
        return orders

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Rows of what was asked; and an unknown one where some nodes have GPUs and others' lack was in the way."""
        ranks = sum(order["ranks"] for order in _nccl_orders(cluster).values())
        rows: list[CheckRow] = []
        if ranks:
            rows += [*bandwidth_rows(cluster.nodes, ranks), *nccl_rows(cluster.nodes, len(cluster.nodes))]
        else:
            rows += _why_not(cluster)
        return [*rows, *mpi_rows(cluster.nodes)] if _uses_mpi(cluster) else rows


def _nccl_orders(cluster: Cluster) -> dict[int, dict[str, Any]]:
    """Each node's part of the all-reduce; none where one node cannot take part, or there is nothing to reduce over."""
    counts = [_ranks_of(node, cluster.asked) for node in cluster.nodes]
    meeting = _meeting_place(cluster)
    if cluster.asked.get("virtual") or not all(counts) or sum(counts) < 2 or meeting is None:
        return {}
    shared = {"world": sum(counts), "nodes": len(counts), "size": SMALLEST, **meeting}
    return {
        node.node_rank: {**shared, "ranks": count, "first": sum(counts[:place]), "head": place == 0}
        for place, (node, count) in enumerate(zip(cluster.nodes, counts))
    }


def _meeting_place(cluster: Cluster) -> dict[str, Any] | None:
    """The head's listener, where its ranks' port is told; None where it has none. One node needs nobody to tell it."""
    if len(cluster.nodes) == 1:
        return {"address": "127.0.0.1", "port": 0, "token": ""}
    told = listener_of(cluster.nodes[0]) if cluster.nodes else None
    return {name: told[name] for name in ("address", "port", "token")} if told else None


def _ranks_of(node: CheckedNode, asked: Mapping[str, Any]) -> int:
    """How many GPUs of this node take part: all, or as many as the job asks for; none where torch cannot use them."""
    gpus, torch = node.facts.get("gpus"), node.facts.get("torch")
    if not isinstance(gpus, list) or not isinstance(torch, Mapping) or not torch.get("cuda") or not torch.get("nccl"):
        return 0
    wanted = asked.get("gpus")
    return min(len(gpus), wanted) if isinstance(wanted, int) and wanted >= 0 else len(gpus)


def _why_not(cluster: Cluster) -> list[CheckRow]:
    """One row where GPUs are there and nothing could be measured; no word on a job without GPUs."""
    able = [node for node in cluster.nodes if _ranks_of(node, cluster.asked)]
    unable = [node for node in cluster.nodes if node not in able]
    if cluster.asked.get("virtual") or not able or (not unable and len(cluster.nodes) == 1):
        return []
    missing = f"{unable[0].label} has no GPU that its torch can use" if unable else "the head has no listener"
    return [CheckRow("", ROW_ID, "all-reduce over all GPUs", "not measured", UNKNOWN, missing)]


def _uses_mpi(cluster: Cluster) -> bool:
    asked = cluster.asked
    wanted = (asked.get("framework"), asked.get("launcher"), asked.get("backend"))
    return len(cluster.nodes) > 1 and not asked.get("virtual") and ("mpi" in wanted or "mpirun" in wanted)


STAGE = BandwidthStage()

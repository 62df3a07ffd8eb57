"""The stage that measures an all-reduce over all GPUs and reads NCCL's transport from its log. For a job that uses Open
MPI, it also reads Open MPI's choice on each node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import UNKNOWN, CheckRow
from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.judgement.answers import usable_gpus
from worldsize.wings.checks.agent.stages.rank_orders import rank_orders
from worldsize.wings.checks.agent.transport.bandwidth_verdict import ROW_ID, SMALLEST, WHAT, bandwidth_rows
from worldsize.wings.checks.agent.transport.mpi_verdict import mpi_rows
from worldsize.wings.checks.agent.transport.nccl_verdict import nccl_rows
from worldsize.wings.checks.agent.transport.node_answer import STAGE_NAME

SECONDS, TOGETHER = 45, 40
"""Time limits for NCCL in seconds. Together with those for Open MPI, they are less than the limit of the stage, so that
there is an answer."""


class BandwidthStage:
    """The stage `bandwidth`. Nothing is measured if a node has no GPUs that its torch can use, or on virtual nodes,
    which share their GPUs."""

    name = STAGE_NAME
    limit = 60.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return a mapping of node rank to the node's order for the all-reduce: `nccl`, the order of its ranks, and
        `mpi`, True if Open MPI is examined, too. Nodes without either have no entry."""
        orders: dict[int, dict[str, Any]] = {}
        for rank, order in _nccl_orders(cluster).items():
            orders.setdefault(rank, {})["nccl"] = order
        for node in cluster.nodes if _uses_mpi(cluster) else ():
            orders.setdefault(node.node_rank, {})["mpi"] = True
        return orders

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows fabric.bandwidth and transport.nccl about the measured all-reduce and, for a job that uses
        Open MPI, transport.mpi. Return an unknown row if some nodes have GPUs and nothing could be measured because
        others have none."""
        ranks = sum(order["count"] for order in _nccl_orders(cluster).values())
        if ranks:
            rows = [*bandwidth_rows(cluster.nodes, ranks), *nccl_rows(cluster.nodes, len(cluster.nodes))]
        else:
            rows = _why_not(cluster)
        return [*rows, *mpi_rows(cluster.nodes)] if _uses_mpi(cluster) else rows


def _nccl_orders(cluster: Cluster) -> dict[int, dict[str, Any]]:
    """Return a mapping of node rank to the order of the node's ranks in the all-reduce over all GPUs. Return an empty
    mapping for virtual nodes, if a node cannot take part, or if there are fewer than two GPUs."""
    counts = [usable_gpus(node, cluster.asked) for node in cluster.nodes]
    if cluster.asked.get("virtual") or sum(counts) < 2:
        return {}
    orders = rank_orders(cluster.nodes, counts, backend="nccl", size=SMALLEST, seconds=SECONDS, together=TOGETHER)
    return {node.node_rank: order for node, order in zip(cluster.nodes, orders)}


def _why_not(cluster: Cluster) -> list[CheckRow]:
    """Return a list of one unknown row fabric.bandwidth, with the reason why the all-reduce could not be measured, if
    there are GPUs. Return no row for a job without GPUs, a single node, or virtual nodes."""
    able = [node for node in cluster.nodes if usable_gpus(node, cluster.asked)]
    unable = [node for node in cluster.nodes if node not in able]
    if cluster.asked.get("virtual") or not able or (not unable and len(cluster.nodes) == 1):
        return []
    missing = f"{unable[0].label} has no GPU that its torch can use" if unable else "the head has no listener"
    return [CheckRow("", ROW_ID, WHAT, "not measured", UNKNOWN, missing)]


def _uses_mpi(cluster: Cluster) -> bool:
    asked = cluster.asked
    wanted = (asked.get("framework"), asked.get("launcher"), asked.get("backend"))
    return len(cluster.nodes) > 1 and not asked.get("virtual") and ("mpi" in wanted or "mpirun" in wanted)


STAGE = BandwidthStage()

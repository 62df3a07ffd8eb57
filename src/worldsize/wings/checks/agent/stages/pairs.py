"""The first round of pairs: the stage that measures the computing speed of each node and its network speed to its
neighbour.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.judgement.answers import are_real_nodes, usable_gpus
from worldsize.wings.checks.agent.judgement.pairs import first_groups, next_of
from worldsize.wings.checks.agent.stages.listen import listener_of
from worldsize.wings.checks.agent.stages.rank_orders import rank_orders

LIMIT = 45.0
"""Time limit of a round in seconds. Most of it is for GPU nodes whose environment loads slowly. Without GPUs a round
takes 1.4 s."""

GPU_SECONDS, TOGETHER = 40, 25
SIZE = 8192
"""The number of rows of the matrices, and the square root of the number of elements that each rank sends in the
all-gather: 256 MiB."""


class _Pairs:
    name = "pairs"
    limit = LIMIT

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return a mapping of node rank to the node's order for the first round of speed measurements in pairs, if
        there are several real nodes; empty for virtual ones, which share the machine's cores."""
        if not are_real_nodes(cluster):
            return {}
        return pair_orders(cluster, first_groups([node.node_rank for node in cluster.nodes]))

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return no row, because one round of measurements cannot distinguish a slow node from its partner. The stage
        `second_pairs` judges both rounds."""
        return ()


def pair_orders(cluster: Cluster, groups: Sequence[tuple[int, ...]]) -> dict[int, dict[str, Any]]:
    """Return a mapping of node rank to the node's order for a round of speed measurements in `groups`, tuples of node
    ranks. An order has `next`, the listener of the node that it sends to, and `gpus`, the order of its ranks. Both are
    missing if a node of its group has no known listener. `gpus` is empty if a node of its group has no GPU that torch
    can use."""
    nodes = {node.node_rank: node for node in cluster.nodes}
    following = next_of(groups)
    orders: dict[int, dict[str, Any]] = {rank: {} for group in groups for rank in group}
    for group in groups:
        members = [nodes[rank] for rank in group]
        if all(map(listener_of, members)):
            counts = [usable_gpus(node, cluster.asked) for node in members]
            gpus = rank_orders(members, counts, backend="nccl", size=SIZE, seconds=GPU_SECONDS, together=TOGETHER)
            for rank, order in zip(group, gpus or [{} for _ in members]):
                orders[rank] = {"next": listener_of(nodes[following[rank]]), "gpus": order}
    return orders


STAGE = _Pairs()

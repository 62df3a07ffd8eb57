"""The first round of pairs: what each node computes and sends, with its neighbour.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.judgement.answers import are_real_nodes
from worldsize.wings.checks.agent.judgement.pairs import first_groups, next_of
from worldsize.wings.checks.agent.rows import CheckRow
from worldsize.wings.checks.agent.stages.listen import listener_of

LIMIT = 20.0


class _Pairs:
    name = "pairs"
    limit = LIMIT

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """An order for each of several real nodes: virtual ones share the machine's cores."""
        if not are_real_nodes(cluster):
            return {}
        return pair_orders(cluster, first_groups([node.node_rank for node in cluster.nodes]))

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """No row: one round cannot tell a slow node from its partner."""
        return ()


def pair_orders(cluster: Cluster, groups: Sequence[tuple[int, ...]]) -> dict[int, dict[str, Any]]:
    """An order for each node of the groups. The `next` one, to whom it sends, is missing where one of its group has no
    known listener."""
    nodes = {node.node_rank: node for node in cluster.nodes}
    following = next_of(groups)
    orders: dict[int, dict[str, Any]] = {}
    for group in groups:
        reached = {rank: listener_of(nodes[rank]) for rank in group}
        for rank in group:
            orders[rank] = {"next": reached[following[rank]]} if all(reached.values()) else {}
    return orders


STAGE = _Pairs()

"""The run's directory, written and read by all nodes at once.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.answers import are_real_nodes
from worldsize.wings.checks.agent.judgement.share import share_rows
from worldsize.wings.checks.agent.stages.listen import listener_of

LARGE = 8 << 20
SMALL = 64 << 10
WRITERS = 8
"""The nodes that write a large file: more of them would only share what the file server can do."""


class _Share:
    name = "share"
    limit = 24.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return each node reads the head's file and that of the node before it. One node, or virtual ones, only write.
        Without listeners, or where the run's directory is known to be no shared one, nobody does anything."""
        if not are_real_nodes(cluster):
            return {node.node_rank: _order(_nonce("", cluster), LARGE) for node in cluster.nodes[:1]}
        found = {node.node_rank: listener_of(node) for node in cluster.nodes}
        if cluster.asked.get("share") is False or not all(found.values()):
            return {}
        nonce = _nonce(str(found[cluster.nodes[0].node_rank]), cluster)
        return dict(_orders(cluster.nodes, found, nonce))

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows of the nodes that had orders."""
        return share_rows(
            cluster, {rank: [each["rank"] for each in order["read"]] for rank, order in self.orders(cluster).items()}
        )


def _nonce(secret: str, cluster: Cluster) -> str:
    """What nobody else can guess, where the listeners have told a secret; pure."""
    return hashlib.sha256(f"share {secret} {cluster.nodes[0].host}".encode()).hexdigest()[:16]


def _order(nonce: str, length: int) -> dict[str, Any]:
    return {"nonce": nonce, "bytes": length, "readers": 0, "read": []}


def _orders(nodes: Sequence[CheckedNode], found: Mapping[int, Any], nonce: str) -> dict[int, dict[str, Any]]:
    """The head's own file is small, since all read it."""
    ranks = [node.node_rank for node in nodes]
    every = -(-len(ranks) // WRITERS)
    orders = {rank: _order(nonce, SMALL if at == 0 or at % every else LARGE) for at, rank in enumerate(ranks)}
    for before, rank in zip(ranks, ranks[1:] + ranks[:1]):
        for read in {before, ranks[0]} - {rank}:
            orders[rank]["read"].append({"rank": read, "bytes": orders[read]["bytes"], **found[read]})
            orders[read]["readers"] += 1
    return orders


STAGE = _Share()

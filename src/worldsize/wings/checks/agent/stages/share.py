"""The stage in which all nodes write and read the run's directory at the same time.

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
"""The number of nodes that write a large file. More writers would only share the bandwidth of the file server."""


class _Share:
    name = "share"
    limit = 24.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return a mapping of node rank to the node's order for the test of the shared run directory: each node writes
        a file, and reads the head's file and that of the node before it. If there is only one real node, or all nodes
        are virtual, return an order for the first node, which only writes. Return no orders if a listener is missing,
        or if the run's directory is known not to be shared."""
        if not are_real_nodes(cluster):
            return {node.node_rank: _order(_nonce("", cluster), LARGE) for node in cluster.nodes[:1]}
        found = {node.node_rank: listener_of(node) for node in cluster.nodes}
        if cluster.asked.get("share") is False or not all(found.values()):
            return {}
        nonce = _nonce(str(found[cluster.nodes[0].node_rank]), cluster)
        return dict(_orders(cluster.nodes, found, nonce))

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows files.share about the nodes that had orders to write and read the run's directory."""
        return share_rows(
            cluster, {rank: [each["rank"] for each in order["read"]] for rank, order in self.orders(cluster).items()}
        )


def _nonce(secret: str, cluster: Cluster) -> str:
    """Return 16 hexadecimal digits, a hash of `secret` and the head's host name, for the names of the files that the
    test of the shared run directory writes. Other processes cannot guess them if `secret` is the listener's secret.
    Pure."""
    return hashlib.sha256(f"share {secret} {cluster.nodes[0].host}".encode()).hexdigest()[:16]


def _order(nonce: str, length: int) -> dict[str, Any]:
    return {"nonce": nonce, "bytes": length, "readers": 0, "read": []}


def _orders(nodes: Sequence[CheckedNode], found: Mapping[int, Any], nonce: str) -> dict[int, dict[str, Any]]:
    """Return a mapping of node rank to the node's order in the test of the shared run directory. `found` maps node rank
    to listener. The head's own file is small, since all nodes read it."""
    ranks = [node.node_rank for node in nodes]
    every = -(-len(ranks) // WRITERS)
    orders = {rank: _order(nonce, SMALL if at == 0 or at % every else LARGE) for at, rank in enumerate(ranks)}
    for before, rank in zip(ranks, ranks[1:] + ranks[:1]):
        for read in {before, ranks[0]} - {rank}:
            orders[rank]["read"].append({"rank": read, "bytes": orders[read]["bytes"], **found[read]})
            orders[read]["readers"] += 1
    return orders


STAGE = _Share()

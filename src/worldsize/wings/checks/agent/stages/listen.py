"""The stage in which each node opens a listener for the others.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.groups import mapping_of


class ListenStage:
    """The stage `listen`, which opens the listeners of the nodes. They are bound to the loopback interface if all nodes
    are virtual nodes of one machine."""

    name = "listen"
    limit = 5.0

    def orders(self, cluster: Cluster) -> dict[int, dict[str, Any]]:
        """Return a mapping of node rank to the node's order for its listener: `nodes`, the number of nodes, and
        `loopback`, whether to listen on the loopback interface because all nodes are virtual. The nodes of a simulator
        have loopback addresses, too, but different ones."""
        order = {"nodes": len(cluster.nodes), "loopback": bool(cluster.asked.get("virtual"))}
        return {node.node_rank: order for node in cluster.nodes}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return no row, because later stages of the node check report missing listeners."""
        return ()


def listener_of(node: CheckedNode) -> Mapping[str, Any] | None:
    """Return the `address`, `port`, `second_port` and `token` of the listener that the node opened in the stage
    `listen`; None if the node has no listener, or if its address is not known."""
    answer = mapping_of(node.answers.get("listen"))
    ports = answer.get("port"), answer.get("second_port")
    if not node.address or not all(map(_is_port, ports)) or not isinstance(answer.get("token"), str):
        return None
    return {"address": node.address, "port": ports[0], "second_port": ports[1], "token": answer["token"]}


def _is_port(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536


STAGE = ListenStage()

"""Where a node's listener is, for the orders of stages in which nodes connect to each other.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster


def listener_of(node: CheckedNode) -> dict[str, Any] | None:
    """`address`, `port` and `token` of the node's listener; None where the head does not know them."""
    answer = node.answers.get("listen") or {}
    port, token = answer.get("port"), answer.get("token")
    if node.address and isinstance(port, int) and isinstance(token, str) and token:
        return {"address": node.address, "port": port, "token": token}
    return None


def are_real_nodes(cluster: Cluster) -> bool:
    """Whether there are several nodes, each a machine, or what stands for one: not the virtual nodes of one machine."""
    return len(cluster.nodes) > 1 and not cluster.asked.get("virtual")


def number_in(answer: Any, name: str) -> float | None:
    """The number of this name in a node's answer; None where it has none that is finite and not negative."""
    value = answer.get(name) if hasattr(answer, "get") else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 1e18 else None

"""Decision whether a job may use RDMA.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.wings.checks.agent.node_context import NodeContext


def needs_fabric(context: NodeContext) -> bool:
    """Return whether the job may use RDMA: it has several nodes, and does not name the back end gloo, which supports
    only TCP."""
    return context.nodes > 1 and context.asked.get("backend") != "gloo"

"""Whether a job has any use for RDMA.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.wings.checks.agent.node_context import NodeContext


def needs_fabric(context: NodeContext) -> bool:
    """Return whether the job may use RDMA: it has several nodes, and does not say that it takes the back end gloo,
    which knows TCP alone."""
    return context.nodes > 1 and context.asked.get("backend") != "gloo"

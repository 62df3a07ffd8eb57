"""Nodes × processes → an explicit list of ranks for each node. Pure; the world size is counted from it."""

from __future__ import annotations

from worldsize.plan.plan import NodePlan, RankPlan


def node_major_layout(nodes: int, processes: int, role: str = "worker") -> tuple[NodePlan, ...]:
    """Equal nodes: node 0 has ranks 0 to processes - 1, node 1 the next ones, and so on."""
    return tuple(
        NodePlan(
            node_rank,
            tuple(
                RankPlan(node_rank * processes + local_rank, local_rank, role, node_rank * processes + local_rank)
                for local_rank in range(processes)
            ),
        )
        for node_rank in range(nodes)
    )

"""Nodes × processes → an explicit list of ranks for each node. Pure; the world size is counted from it."""

from __future__ import annotations

from worldsize.plan.launch import NodePlan, RankPlan


def node_major(nodes: int, processes: int, role: str = "worker") -> tuple[NodePlan, ...]:
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


def bind_cores(processes: int, cores: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """An equal, contiguous share of `cores` for each process of a node; nothing when there are too few of them."""
    share = len(cores) // processes
    if share == 0:
        return ()
    return tuple(cores[index * share : (index + 1) * share] for index in range(processes))

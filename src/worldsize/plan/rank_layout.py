"""Nodes × processes, or nodes and roles → an explicit list of ranks for each node. Pure; the world size is counted
from it."""

from __future__ import annotations

from collections.abc import Sequence

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


def role_layout(nodes: int, equal: Sequence[str], others: Sequence[str] = ()) -> tuple[NodePlan, ...]:
    """One rank for each role that is named, in this order on every node: those of `equal` in even, contiguous shares,
    the first nodes getting one more; each of `others` then where the fewest ranks are. Ranks, and each role's own
    indices, count node by node. With at least as many ranks as nodes no node stays empty."""
    each, more = divmod(len(equal), nodes)
    starts = [node * each + min(node, more) for node in range(nodes + 1)]
    placed = [list(equal[first:end]) for first, end in zip(starts, starts[1:])]
    for role in others:
        min(placed, key=len).append(role)
    counts: dict[str, int] = {}
    plans, rank = [], 0
    for node_rank, roles in enumerate(placed):
        ranks = []
        for local_rank, role in enumerate(roles):
            ranks.append(RankPlan(rank, local_rank, role, counts.get(role, 0)))
            counts[role] = counts.get(role, 0) + 1
            rank += 1
        plans.append(NodePlan(node_rank, tuple(ranks)))
    return tuple(plans)

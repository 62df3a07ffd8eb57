"""The orders of nodes whose ranks run one torch program together (`programs/rank_group.py`).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.stages.listen import listener_of


def rank_orders(members: Sequence[CheckedNode], counts: Sequence[int], **common: Any) -> list[dict[str, Any]]:
    """Return a list with an order for each node of `members`, whose ranks run one torch program together. The first
    node has rank 0, and each node has the number of ranks in `counts`. `common` is part of every order. Return an empty
    list if the first of several nodes has no listener by which it can send its port to the others, or if a node has no
    rank."""
    store = listener_of(members[0]) if members else None
    if not members or not all(counts) or (len(members) > 1 and store is None):
        return []
    address = members[0].address if len(members) > 1 else "127.0.0.1"
    shared = {**common, "world": sum(counts), "address": address, "readers": len(members) - 1}
    firsts = (0, *accumulate(counts))
    return [
        {**shared, "first": firsts[at], "count": count, "store": store if at else None}
        for at, count in enumerate(counts)
    ]

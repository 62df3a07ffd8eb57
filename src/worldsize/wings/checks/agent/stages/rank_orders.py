"""The orders of nodes whose ranks run one program with torch together (`programs/rank_group.py`).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.stages.listen import listener_of


def rank_orders(members: Sequence[CheckedNode], counts: Sequence[int], **common: Any) -> list[dict[str, Any]]:
    """Return an order for each of the nodes, the first of which has rank 0, with as many ranks as `counts` says; none
    where the first node has no listener to tell the others its port, or one of them no rank. `common` is in all of
    them."""
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

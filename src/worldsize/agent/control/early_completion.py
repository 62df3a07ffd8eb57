"""A run that is over once its leaders have ended with 0, since the others would wait for ever: parameter servers do."""

from __future__ import annotations

import time
from collections.abc import Iterable

from worldsize.plan.plan import Plan


class LeaderTracker:
    """The head's view. Ranks of the plan's `lingering` roles have the plan's grace to end by themselves before that."""

    def __init__(self, plan: Plan) -> None:
        ranks = (rank for node in plan.nodes for rank in node.ranks)
        self._leaders = set(plan.leaders)
        self._lingering = {rank.rank for rank in ranks if rank.role in plan.lingering} - self._leaders
        self._grace = plan.grace
        self.complete_at: float | None = None

    def record_ended(self, ranks: Iterable[int]) -> None:
        """With 0. `complete_at` (monotonic) is set once all leaders have."""
        self._leaders.difference_update(ranks)
        self._lingering.difference_update(ranks)
        if not self._leaders:
            now = time.monotonic()
            self.complete_at = now if not self._lingering else self.complete_at or now + self._grace

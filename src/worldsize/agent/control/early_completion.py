"""The end of a run whose leaders have all ended with 0: other ranks, such as parameter servers, would never end.

Pure: methods take the time, in seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.plan.plan import Plan


class LeaderTracker:
    """The leaders that the head still waits for. Ranks of the plan's `lingering` roles get its grace to end first.

    `complete_at`: when the run is over; None as long as a leader has not ended.
    """

    def __init__(self, plan: Plan) -> None:
        ranks = (rank for node in plan.nodes for rank in node.ranks)
        self._leaders = set(plan.leaders)
        self._lingering = {rank.rank for rank in ranks if rank.role in plan.lingering} - self._leaders
        self._grace = plan.grace
        self.complete_at: float | None = None

    def record_ended(self, ranks: Iterable[int], now: float) -> None:
        """Record that these ranks have ended with 0, and set `complete_at` once all leaders have."""
        self._leaders.difference_update(ranks)
        self._lingering.difference_update(ranks)
        if not self._leaders:
            self.complete_at = now if not self._lingering else self.complete_at or now + self._grace

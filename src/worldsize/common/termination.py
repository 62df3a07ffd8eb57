"""When processes that are to end are sent which signal: TERM, and KILL once their grace is over.

Pure: every method is told the time, in seconds of one monotonic clock. Standard library only, and nothing of
worldsize: its text also travels inside `agent/node_programs/run_command.py`.
"""

from __future__ import annotations

import signal


class Termination:
    """One end of one group of processes. A request can be made again, and brings the end nearer, never further away.

    `term_at`, `kill_at`: when TERM and KILL are due; None before the first request.
    """

    def __init__(self) -> None:
        self.term_at: float | None = None
        self.kill_at: float | None = None
        self._is_told = False

    def request(self, now: float, grace: float, delay: float = 0.0) -> None:
        """TERM after `delay` seconds, KILL after `grace` more; a grace of 0 is no TERM at all."""
        self.term_at = _earlier(self.term_at, now + delay)
        self.kill_at = _earlier(self.kill_at, now + delay + grace)

    def signal_due(self, now: float) -> int | None:
        """SIGTERM once; SIGKILL at each call from `kill_at` on, since what was about to start when the others were
        killed shows later; None while nothing is due."""
        if self.is_overdue(now):
            return signal.SIGKILL
        if self._is_told or self.term_at is None or now < self.term_at:
            return None
        self._is_told = True
        return signal.SIGTERM

    def is_overdue(self, now: float) -> bool:
        """Whether the grace is over."""
        return self.kill_at is not None and now >= self.kill_at

    def deadline(self) -> float | None:
        """When `signal_due` has something next; None before the first request."""
        return self.kill_at if self._is_told else self.term_at


def _earlier(known: float | None, moment: float) -> float:
    return moment if known is None else min(known, moment)

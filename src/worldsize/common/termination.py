"""The times at which processes that must end are sent signals: TERM, and KILL once their grace period is over.

Pure: every method takes the time, in seconds of one monotonic clock. Standard library only, and no imports from
worldsize: the text of this module also travels inside `wings/node_commands/agent/run_command.py`.
"""

from __future__ import annotations

import signal

LEFTOVER_GRACE = 5.0
"""Maximum seconds of grace for processes that ended processes have left behind."""


class Termination:
    """The termination of one group of processes. Each further request can make it earlier, but never later.

    `term_at` and `kill_at` are the times at which TERM and KILL are due; None before the first request.
    """

    def __init__(self) -> None:
        self.term_at: float | None = None
        self.kill_at: float | None = None
        self._has_sent_term = False

    def request(self, now: float, grace: float, delay: float = 0.0) -> None:
        """Request that the group of processes gets TERM `delay` seconds after `now`, and KILL `grace` seconds later.
        With a grace of 0 there is no TERM. An earlier time of a former request is kept."""
        self.term_at = _earlier(self.term_at, now + delay)
        self.kill_at = _earlier(self.kill_at, now + delay + grace)

    def signal_due(self, now: float) -> int | None:
        """Return the signal to send to the group of processes now: SIGTERM once, SIGKILL at each call from `kill_at`
        on, None while nothing is due.

        A process that was just being started when the others were killed is found only later, so KILL is due each time.
        """
        if self.is_overdue(now):
            return signal.SIGKILL
        if self._has_sent_term or self.term_at is None or now < self.term_at:
            return None
        self._has_sent_term = True
        return signal.SIGTERM

    def is_overdue(self, now: float) -> bool:
        """Return whether the grace period of the group of processes is over at `now`, so that KILL is due."""
        return self.kill_at is not None and now >= self.kill_at

    def deadline(self) -> float | None:
        """Return the time from which `signal_due` returns the next signal for the group of processes; None before the
        first request."""
        return self.kill_at if self._has_sent_term else self.term_at


def _earlier(known: float | None, moment: float) -> float:
    return moment if known is None else min(known, moment)

"""The text form of a time in a run's records."""

from __future__ import annotations

import time


def clock_text(moment: float | None) -> str:
    """Return the local time of day of the Unix time `moment` as text, to the millisecond; dashes if it is None, or if
    the record's value is not a time."""
    try:
        if moment is not None:
            return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment % 1 * 1000):03d}"
    except (OSError, OverflowError, ValueError):
        pass
    return "--:--:--.---"

"""The text form of a time in a run's records."""

from __future__ import annotations

import time


def clock_text(moment: float | None) -> str:
    """Return the time of day, in milliseconds; dashes if it is not known, or if the record's value is not a time."""
    try:
        if moment is not None:
            return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment % 1 * 1000):03d}"
    except (OSError, OverflowError, ValueError):
        pass
    return "--:--:--.---"

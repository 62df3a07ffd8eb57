"""A time of a run's records as it is shown."""

from __future__ import annotations

import time


def clock_text(moment: float | None) -> str:
    """Return the time of day, to a millisecond; dashes where nobody knows it, or a record holds what is none."""
    try:
        if moment is not None:
            return time.strftime("%H:%M:%S", time.localtime(moment)) + f".{int(moment % 1 * 1000):03d}"
    except (OSError, OverflowError, ValueError):
        pass
    return "--:--:--.---"

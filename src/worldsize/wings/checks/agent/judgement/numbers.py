"""Numbers that nodes say, and numbers in words.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any

_LARGEST = 1e18


def number_of(value: Any) -> float | None:
    """Return the value where it is a number, and not one that overflows; else None: nodes may say anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None


def positive_of(value: Any) -> float | None:
    """Return the value where it is such a number, and above 0."""
    number = number_of(value)
    return number if number is not None and number > 0 else None


def median_of(values: Sequence[float]) -> float:
    """Return the median; of an even number the lower of the two in the middle. There is at least one."""
    return sorted(values)[(len(values) - 1) // 2]


def duration_text(seconds: float) -> str:
    """`0.21 ms`, `3.5 s`, `12 min`, `3.1 h`, `2.5 days`: of seconds that are not negative."""
    for limit, size, unit in ((1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{_shown(seconds / size)} {unit}"
    return f"{_shown(seconds / 86400.0)} days"


def _shown(number: float) -> str:
    """Two digits that say something, and all of those before the point."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"

"""Numbers in the answers of nodes, and formatting of numbers.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any

_LARGEST = 1e18


def number_of(value: Any) -> float | None:
    """Return `value` as a float if it is a number that does not overflow; otherwise None, because the data of nodes may
    be anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None


def positive_of(value: Any) -> float | None:
    """Return `value` as a float if it is a number above 0 that does not overflow; otherwise None."""
    number = number_of(value)
    return number if number is not None and number > 0 else None


def median_of(values: Sequence[float]) -> float:
    """Return the median of `values`; for an even number of values, the lower of the two in the middle. There must be at
    least one value."""
    return sorted(values)[(len(values) - 1) // 2]


def duration_text(seconds: float) -> str:
    """Format a duration that is not negative: `0.21 ms`, `3.5 s`, `12 min`, `3.1 h`, `2.5 days`."""
    for limit, size, unit in ((1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{_shown(seconds / size)} {unit}"
    return f"{_shown(seconds / 86400.0)} days"


def _shown(number: float) -> str:
    """Format a number with two significant digits, or with all digits before the decimal point."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"

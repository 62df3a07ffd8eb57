"""Numbers, ages and series in a form for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from worldsize.cli.console import duration_text

_BLOCKS = "▁▂▃▄▅▆▇█"
_WHOLE_BELOW = 1e9
_EQUAL = 1e-9
_LONGEST = 48


def value_text(value: float) -> str:
    """Return a number as text with four significant digits, or a whole number below 1e9 with all of its digits."""
    if math.isfinite(value) and value == int(value) and abs(value) < _WHOLE_BELOW:
        return str(int(value))
    return f"{value:.4g}"


def shortened(text: str) -> str:
    """Return a name, shortened to at most 48 characters."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def age_text(seconds: float) -> str:
    """Return an age such as "12 s ago". Clocks of nodes differ, so a time in the future counts as now."""
    return duration_text(max(seconds, 0.0)) + " ago"


def sparkline(values: Sequence[float], width: int = 16) -> str:
    """Return the course of the values of a series as a text of block characters, at most `width`, each for the mean of
    its part. NaN and infinities are left out, and a part without other values is blank. Return "" if there are no other
    values at all."""
    size = min(width, len(values))
    parts = [values[len(values) * at // size : len(values) * (at + 1) // size] for at in range(size)]
    means = [_mean([value for value in part if math.isfinite(value)]) for part in parts]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join(" " if mean is None else _BLOCKS[_height(mean, low, high)] for mean in means)


def _mean(values: Sequence[float]) -> float | None:
    """Return half of the mean of the values, so that no difference of two means overflows; None without values."""
    return sum(value / len(values) / 2 for value in values) if values else None


def _height(value: float, low: float, high: float) -> int:
    if high - low <= _EQUAL * max(abs(low), abs(high)):
        return len(_BLOCKS) // 2 - 1
    share = (value - low) / (high - low)
    return max(0, min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1))

"""Numbers, ages and series as a person reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from worldsize.cli.console import duration_text

_BLOCKS = "▁▂▃▄▅▆▇█"
_WHOLE_BELOW = 1e9
_EQUAL = 1e-9
_LONGEST = 48


def value_text(value: float) -> str:
    """Four digits, or a whole number with all of its digits."""
    if math.isfinite(value) and value == int(value) and abs(value) < _WHOLE_BELOW:
        return str(int(value))
    return f"{value:.4g}"


def shortened(text: str) -> str:
    """Return a name in at most 48 characters."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def age_text(seconds: float) -> str:
    """ "12 s ago". Clocks of nodes differ: what is to come is now."""
    return duration_text(max(seconds, 0.0)) + " ago"


def sparkline(values: Sequence[float], width: int = 16) -> str:
    """Return the course of the values in `width` characters, each the mean of its part; NaN and infinities are left
    out, and a part without others is blank."""
    size = min(width, len(values))
    parts = [values[len(values) * at // size : len(values) * (at + 1) // size] for at in range(size)]
    means = [_mean([value for value in part if math.isfinite(value)]) for part in parts]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join(" " if mean is None else _BLOCKS[_height(mean, low, high)] for mean in means)


def _mean(values: Sequence[float]) -> float | None:
    """Half of the mean, so that no difference of two overflows."""
    return sum(value / len(values) / 2 for value in values) if values else None


def _height(value: float, low: float, high: float) -> int:
    if high - low <= _EQUAL * max(abs(low), abs(high)):
        return len(_BLOCKS) // 2 - 1
    share = (value - low) / (high - low)
    return max(0, min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1))

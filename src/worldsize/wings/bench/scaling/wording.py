"""Numbers of benchmarks as people read them; none of them is ever "nan" or "inf"."""

from __future__ import annotations

from math import isfinite

NONE = "–"
"""In a table, for what was not measured."""
_LARGEST = 1e15


def amount_text(value: float | None) -> str:
    """Three digits that matter, all those before the point: "0.0123", "4.56", "78.9", "2,855"."""
    if value is None or not isfinite(value):
        return NONE
    size = abs(value)
    if size and (size >= _LARGEST or size < 1e-4):
        return f"{value:.2e}"
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995 or not size:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.0995 else f"{value:.3g}"


def percent_text(share: float | None) -> str:
    """ "89 %" of 0.89."""
    if share is None or not isfinite(share):
        return NONE
    return f"{share * 100:.0f} %" if abs(share) < _LARGEST else NONE


def times_text(ratio: float) -> str:
    """ "7.1 ×", "1.24 ×": how many times as much, with two digits that matter, three below 2."""
    if not isfinite(ratio) or abs(ratio) >= _LARGEST:
        return NONE
    if ratio >= 99.5:
        return f"{ratio:,.0f} ×"
    return f"{ratio:.1f} ×" if ratio >= 1.995 else f"{ratio:.2f} ×"


def list_text(words: list[str], most: int = 6) -> str:
    """ "1x1, 1x2 and 2x2"; of many the first ones, and how many more."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))

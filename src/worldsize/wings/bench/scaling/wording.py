"""Formatting of the numbers of benchmarks for users. The result is never "nan" or "inf"."""

from __future__ import annotations

from math import isfinite

NONE = "–"
"""The text in a table for a value that was not measured."""
_LARGEST = 1e15


def amount_text(value: float | None) -> str:
    """Format a number with three significant digits, or with all digits before the decimal point: "0.0123", "4.56",
    "78.9", "2,855"."""
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
    """Format a share as a percentage: "89 %" for 0.89; "–" if it is None or not finite."""
    if share is None or not isfinite(share):
        return NONE
    return f"{share * 100:.0f} %" if abs(share) < _LARGEST else NONE


def times_text(ratio: float) -> str:
    """Format a ratio: "7.1 ×", "1.24 ×". It has two significant digits, and three below 2."""
    if not isfinite(ratio) or abs(ratio) >= _LARGEST:
        return NONE
    if ratio >= 99.5:
        return f"{ratio:,.0f} ×"
    return f"{ratio:.1f} ×" if ratio >= 1.995 else f"{ratio:.2f} ×"


def list_text(words: list[str], most: int = 6) -> str:
    """Format a list of words: "1x1, 1x2 and 2x2". A list of more than `most` words is cut to its first words and the
    number of the rest."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))

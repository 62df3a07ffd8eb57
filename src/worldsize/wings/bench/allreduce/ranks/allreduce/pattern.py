"""What ranks add up to find out whether a sum is right.

Of every element two ranks have a part, and all others 0: the sums, 3 to 5, are exact in every type, however many ranks
there are. A sum that lacks a rank or has one twice, and the largest part in place of the sum, are other numbers.
"""

from __future__ import annotations

_ELEMENTS = 1 << 18
"""About so many are filled and looked at at once."""


def parts(rank: int, ranks: int) -> list[int]:
    """What a rank has of elements 0, 1, 2 …; then it begins again."""
    return [(index % ranks == rank) * (index % 3 + 1) + ((index + 1) % ranks == rank) * 2 for index in range(3 * ranks)]


def sums(ranks: int) -> list[int]:
    """What all ranks' parts come to; it begins again together with them."""
    return [index % 3 + 3 for index in range(3 * ranks)]


def repeats(values: list[int]) -> int:
    """Return how often `values` stand in a piece."""
    return max(1, _ELEMENTS // len(values))

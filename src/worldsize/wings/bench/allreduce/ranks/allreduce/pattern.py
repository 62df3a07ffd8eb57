"""Values that the ranks add up in order to check whether a sum is right.

For each element, two ranks contribute a part, and all others contribute 0. The sums are 3 to 5, which are exact in
every type, for any number of ranks. A sum that lacks a rank or includes one twice differs from these values, and so
does the largest part in place of the sum.
"""

from __future__ import annotations

_ELEMENTS = 1 << 18
"""The approximate number of elements of a piece, which is filled or compared in one operation."""


def parts(rank: int, ranks: int) -> list[int]:
    """Return a rank's parts of the elements 0, 1, 2 …, for one period of the pattern, which then repeats."""
    return [(index % ranks == rank) * (index % 3 + 1) + ((index + 1) % ranks == rank) * 2 for index in range(3 * ranks)]


def sums(ranks: int) -> list[int]:
    """Return the sums of all ranks' parts, for one period of the pattern."""
    return [index % 3 + 3 for index in range(3 * ranks)]


def repeats(values: list[int]) -> int:
    """Return how often `values` are repeated in a piece."""
    return max(1, _ELEMENTS // len(values))

"""Values that the ranks add up in order to check whether a sum is right.

For each element, two ranks contribute a part, and all others contribute 0. The sums are 3 to 5, which are exact in
every type, for any number of ranks. A sum that lacks a rank or includes one twice differs from these values, and so
does the largest part in place of the sum.
"""

from __future__ import annotations

_ELEMENTS = 1 << 18
"""The approximate number of elements of a piece, which is filled or compared in one operation."""


def parts(rank: int, ranks: int) -> list[int]:
    """Return the values that the rank `rank` of `ranks` contributes to the elements 0, 1, 2 … of an all-reduce that is
    checked, for one period of the pattern, which then repeats."""
    return [(index % ranks == rank) * (index % 3 + 1) + ((index + 1) % ranks == rank) * 2 for index in range(3 * ranks)]


def sums(ranks: int) -> list[int]:
    """Return the right sums of the elements 0, 1, 2 … of an all-reduce that is checked, over all `ranks` ranks, for one
    period of the pattern."""
    return [index % 3 + 3 for index in range(3 * ranks)]


def repeats(values: list[int]) -> int:
    """Return how many times the pattern `values` is repeated in one piece of the buffer, which has about 2^18 elements;
    at least 1."""
    return max(1, _ELEMENTS // len(values))

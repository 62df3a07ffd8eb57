"""The values of one name in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

Value = tuple[int, float, float]
"""Step, time, value."""

_LONGEST_STRETCH = 64
_FEWEST = 8


class ThinnedPoints:
    """Values as they come, all of them up to `most`. Of more, equally long stretches keep two each, their lowest and
    their highest, and the first that is no number; the very first and the last value are always kept. So no peak is
    lost, and none is moved."""

    __slots__ = ("_count", "_first", "_kept", "_last", "_most", "_stretch", "_width")

    def __init__(self, most: int) -> None:
        self._most = max(most, _FEWEST)
        self._kept: list[Value] = []
        self._stretch: list[Value] = []
        self._count = 0
        self._width = 1
        self._first: Value | None = None
        self._last: Value | None = None

    def __len__(self) -> int:
        return len(self._kept) + len(self._stretch)

    def add(self, value: Value) -> None:
        self._last = value
        if self._first is None:
            self._first = value
        if self._width == 1:
            self._kept.append(value)
        else:
            self._add_to_stretch(value)
        if len(self._kept) > self._most:
            self._halve()

    def _add_to_stretch(self, value: Value) -> None:
        self._stretch.append(value)
        self._count += 1
        if self._count >= self._width:
            self._kept += extremes(self._stretch)
            self._stretch, self._count = [], 0
        elif len(self._stretch) >= _LONGEST_STRETCH:
            self._stretch = extremes(self._stretch)

    def keep_at_most(self, most: int) -> None:
        """Keep less, from now on."""
        self._most = max(most, _FEWEST)
        while len(self._kept) > self._most:
            self._halve()

    def _halve(self) -> None:
        # Two stretches, each of which has kept two values, become one; single values become stretches of four.
        self._width = 4 if self._width == 1 else 2 * self._width
        kept = self._kept
        self._kept = [each for at in range(0, len(kept), 4) for each in extremes(kept[at : at + 4])]

    def values(self) -> list[Value]:
        """What is kept, in the order in which it came."""
        if self._first is None or self._last is None:
            return []
        found = [*self._kept, *extremes(self._stretch)]
        if not found or found[0] is not self._first:
            found.insert(0, self._first)
        if found[-1] is not self._last:
            found.append(self._last)
        return found


def extremes(values: Sequence[Value]) -> list[Value]:
    """The lowest, the highest and the first value that is no number, in their order; of equal ones the first is the
    lowest and the last the highest."""
    if len(values) <= 2:
        return list(values)
    numbers = [at for at, value in enumerate(values) if not math.isnan(value[2])]
    chosen = set()
    if numbers:
        chosen.add(min(numbers, key=lambda at: values[at][2]))
        chosen.add(max(reversed(numbers), key=lambda at: values[at][2]))
    if len(numbers) < len(values):
        chosen.add(next(at for at, value in enumerate(values) if math.isnan(value[2])))
    return [values[at] for at in sorted(chosen)]

"""Long series in bounded memory. Of neighbouring values, only those are kept that a table and a picture show.

A run can log billions of values, and a picture has a thousand columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

MAX_POINTS = 20_000
"""The most points of one series."""

MAX_TOTAL = 500_000
"""The most points of all series of one kind of one run, unless there are very many series."""

MAX_SERIES = 10_000
"""The most series of one kind; further names are left out."""

_LONGEST_STRETCH = 64
_FEWEST = 8
_LEAST = 16
_LOOK_EVERY = 1 << 15

Value = tuple["int | None", float, float, int]
"""A value with the fields of a Point: step, time, value, attempt."""

Key = TypeVar("Key")


class ThinnedPoints:
    """A list of values that keeps all of them up to `most`.

    If there are more, the values are divided into stretches of equal length. Each stretch keeps its lowest value, its
    highest value, and its first NaN. The very first and the last value are always kept. So no peak is lost or moved,
    and early values are kept as densely as late ones.
    """

    __slots__ = ("_count", "_first", "_kept", "_last", "_most", "_stretch", "_width")

    def __init__(self, most: int = MAX_POINTS) -> None:
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
        self._stretch.append(value)
        self._count += 1
        if self._count >= self._width:
            self._kept += extremes(self._stretch)
            self._stretch, self._count = [], 0
            if len(self._kept) > self._most:
                self._halve()
        elif len(self._stretch) >= _LONGEST_STRETCH:
            self._stretch = extremes(self._stretch)

    def keep_at_most(self, most: int) -> None:
        """Reduce the number of the series' values that are kept to about `most`, now and from now on."""
        self._most = max(most, _FEWEST)
        while len(self._kept) > self._most:
            self._halve()

    def _halve(self) -> None:
        # Two stretches, each with two kept values, become one; single values become stretches of four.
        self._width = 4 if self._width == 1 else 2 * self._width
        kept = self._kept
        self._kept = [each for at in range(0, len(kept), 4) for each in extremes(kept[at : at + 4])]

    def values(self) -> list[Value]:
        """Return the values of the series that are kept, in the order in which they were added."""
        if self._first is None or self._last is None:
            return []
        found = [*self._kept, *extremes(self._stretch)]
        if not found or found[0] is not self._first:
            found.insert(0, self._first)
        if found[-1] is not self._last:
            found.append(self._last)
        return found


def extremes(values: Sequence[Value]) -> list[Value]:
    """Return those of `values` with the lowest number, the highest number and the first NaN, in their order. Of equal
    values, the first is the lowest and the last is the highest. Return all values if there are two or fewer."""
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


class ThinnedSeries(Generic[Key]):
    """Thinned series by their keys, in the order in which they began. Series beyond `most_series` are left out."""

    def __init__(
        self, most_points: int = MAX_POINTS, most_total: int = MAX_TOTAL, most_series: int = MAX_SERIES
    ) -> None:
        self._most, self._most_total, self._most_series = most_points, most_total, most_series
        self._series: dict[Key, ThinnedPoints] = {}
        self._until_look = _LOOK_EVERY

    def add(self, key: Key, value: Value) -> None:
        """Add a value to the thinned series with the key `key`. A new series beyond `most_series` is ignored."""
        points = self._series.get(key)
        if points is None:
            if len(self._series) >= self._most_series:
                return
            points = self._series[key] = ThinnedPoints(self._most)
        points.add(value)
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = _LOOK_EVERY
            self._shrink()

    def _shrink(self) -> None:
        """Reduce the number of values that each series keeps until all series together have at most `most_total`
        values, or each series keeps few."""
        while sum(map(len, self._series.values())) > self._most_total and self._most > _LEAST:
            self._most //= 2
            for points in self._series.values():
                points.keep_at_most(self._most)

    def known_keys(self) -> set[Key]:
        return set(self._series)

    def items(self) -> Iterator[tuple[Key, list[Value]]]:
        """Yield the key and the kept values of each thinned series."""
        self._shrink()
        for key, points in self._series.items():
            yield key, points.values()

"""Long series in bounded memory: of neighbouring values those stay that a table and a picture show.

A run can log billions of values, and a picture has a thousand columns. Whatever the number, what stays has the first
and the newest value, the lowest, the highest, and where a value was NaN for the first time.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator

from worldsize.wings.metrics.series import Point

MAX_POINTS = 20_000
"""The most points of one series."""

MAX_TOTAL = 500_000
"""The most points of all series of one kind of one run, as long as they are fewer than MAX_SERIES."""

MAX_SERIES = 10_000
"""The most series of one kind; further names are left out."""

_LEAST = 64
_GROUP = 16
_FIELDS = 4
_NO_STEP = math.nan

Value = tuple["int | None", float, float, int]
"""The fields of a Point."""


class Column:
    """The points of one series: their fields one after the other."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = array("d")

    def __len__(self) -> int:
        return len(self._data) // _FIELDS

    def append(self, point: Value) -> None:
        step, time, value, attempt = point
        self._data.extend((_NO_STEP if step is None else step, time, value, attempt))

    def thin(self) -> None:
        """Keep a quarter of the points, or a few less."""
        data, values = self._data, self._data[2::_FIELDS]
        last = len(values) - 1
        kept = data[:_FIELDS]
        for start in range(1, last, _GROUP):
            for at in _chosen(values[start : min(start + _GROUP, last)]):
                at = (start + at) * _FIELDS
                kept.extend(data[at : at + _FIELDS])
        kept.extend(data[max(last, 1) * _FIELDS :])
        self._data = kept

    def points(self) -> tuple[Point, ...]:
        fields = (self._data[at::_FIELDS] for at in range(_FIELDS))
        return tuple(
            [
                Point(None if step != step else int(step), time, value, int(attempt))
                for step, time, value, attempt in zip(*fields, strict=True)
            ]
        )


def _chosen(group: array[float]) -> list[int]:
    """Of the group the lowest, the highest, the first NaN and the last."""
    chosen = {len(group) - 1}
    total = sum(group)
    if total == total:
        chosen.update((group.index(min(group)), group.index(max(group))))
        return sorted(chosen)
    numbers = [at for at, value in enumerate(group) if value == value]
    if numbers:
        chosen.update((min(numbers, key=group.__getitem__), max(numbers, key=group.__getitem__)))
    if len(numbers) < len(group):
        chosen.add(next(at for at, value in enumerate(group) if value != value))
    return sorted(chosen)


class Columns:
    """Series by their keys; never more than `most_total` points together, unless there are very many series."""

    def __init__(self, most_points: int = MAX_POINTS, most_total: int = MAX_TOTAL) -> None:
        self._limit = most_points
        self._most_total = most_total
        self._columns: dict[tuple[str, int], Column] = {}
        self._total = 0

    def append(self, key: tuple[str, int], point: Value) -> None:
        """Add a point to the series of this name and rank."""
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= MAX_SERIES:
                return
            column = self._columns[key] = Column()
        column.append(point)
        self._total += 1
        if len(column) >= self._limit:
            self._thin(column)
        if self._total >= self._most_total and self._limit > _LEAST:
            self._limit //= 2
            self._thin_all()

    def _thin(self, column: Column) -> None:
        before = len(column)
        column.thin()
        self._total += len(column) - before

    def _thin_all(self) -> None:
        for column in self._columns.values():
            while len(column) > self._limit // 2:
                self._thin(column)

    def names(self) -> set[str]:
        return {name for name, _ in self._columns}

    def items(self) -> Iterator[tuple[tuple[str, int], Column]]:
        yield from self._columns.items()

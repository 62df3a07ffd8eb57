"""Long series in bounded memory: what a table and a picture show of them stays."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.metrics import thinning
from worldsize.wings.metrics.series import Point
from worldsize.wings.metrics.thinning import Column, Columns
from worldsize.wings.metrics.words import age_text, sparkline, value_text


def column(values: list[float]) -> Column:
    made = Column()
    for step, value in enumerate(values):
        made.append((step, float(step), value, 1))
    return made


@given(st.lists(st.floats(width=32), min_size=1, max_size=200))
def test_first_newest_lowest_highest_and_nan_stay(values: list[float]) -> None:
    thinned = column(values)
    thinned.thin()
    points = thinned.points()
    steps = [point.step for point in points if point.step is not None]
    assert steps == sorted(set(steps)) and (steps[0], steps[-1]) == (0, len(values) - 1)
    assert len(points) <= 2 + 4 * -(-len(values) // 16)
    assert all(
        point.value == values[step] or math.isnan(values[step]) for point, step in zip(points, steps, strict=True)
    )
    numbers = [value for value in values if value == value]
    kept = [point.value for point in points if point.value == point.value]
    assert (min(kept, default=0), max(kept, default=0)) == (min(numbers, default=0), max(numbers, default=0))
    assert (len(kept) < len(points)) == (len(numbers) < len(values))


def test_a_column_gives_back_what_it_was_given() -> None:
    made = Column()
    made.append((None, 1.5, -math.inf, 2))
    made.append((1 << 52, 2.5, 0.5, 3))
    assert made.points() == (Point(None, 1.5, -math.inf, 2), Point(1 << 52, 2.5, 0.5, 3))


def test_the_number_of_points_is_bounded() -> None:
    columns = Columns(most_points=200, most_total=1000)
    for step in range(3000):
        for rank in range(10):
            columns.append(("loss", rank), (step, 1.0, float(-step), 0))
    found = dict(columns.items())
    assert len(found) == 10 and sum(map(len, found.values())) <= 1000
    for each in found.values():
        points = each.points()
        assert (points[0].step, points[-1].step) == (0, 2999)


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "MAX_SERIES", 3)
    columns = Columns()
    for number in range(10):
        columns.append((str(number), 0), (0, 1.0, 1.0, 0))
    assert [key for key, _ in columns.items()] == [("0", 0), ("1", 0), ("2", 0)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1200.0, "1200"), (0.31234567, "0.3123"), (1e12, "1e+12"), (math.nan, "nan"), (-math.inf, "-inf"), (0.0, "0")],
)
def test_a_value_in_words(value: float, text: str) -> None:
    assert value_text(value) == text


def test_an_age_in_words() -> None:
    assert age_text(-5.0) == "0.0 s ago" and age_text(130.0) == "2 min ago"


@pytest.mark.parametrize(
    ("values", "blocks"),
    [
        ([], ""), ([1.0], "▄"), ([0.1] * 40, "▄" * 16), ([0.0, 1.0], "▁█"), ([math.nan], ""),
        ([0.0, math.nan, 1.0], "▁ █"), ([-1e308, 1e308, math.inf], "▁█ "),
    ],
)  # fmt: skip
def test_the_course_of_values(values: list[float], blocks: str) -> None:
    assert sparkline(values) == blocks


@given(st.lists(st.floats(), max_size=40))
def test_the_course_of_any_values(values: list[float]) -> None:
    assert len(sparkline(values)) <= 16

"""Long series in bounded memory: what a table and a picture show of them stays."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.common.numbers import size_text
from worldsize.wings.metrics.thinning import ThinnedPoints, ThinnedSeries, Value, extremes
from worldsize.wings.metrics.words import age_text, sparkline, value_text


def thinned(values: list[float], most: int) -> list[Value]:
    points = ThinnedPoints(most)
    for step, value in enumerate(values):
        points.add((step, float(step), value, 0))
    return points.values()


def steps_of(values: list[Value]) -> list[int]:
    return [step for step, *_ in values if step is not None]


def test_few_values_are_all_kept() -> None:
    assert [value for _, _, value, _ in thinned([3.0, 1.0, 2.0], 8)] == [3.0, 1.0, 2.0]
    assert ThinnedPoints(8).values() == []


@given(st.lists(st.floats(width=32), min_size=1, max_size=300), st.integers(8, 40))
def test_of_many_the_first_the_last_and_the_extremes_are_kept(values: list[float], most: int) -> None:
    kept = thinned(values, most)
    steps = steps_of(kept)
    assert len(kept) <= 1.5 * most + 70 and steps == sorted(set(steps)) and steps[0] == 0
    assert steps[-1] == len(values) - 1
    assert all(repr(values[step]) == repr(value) for step, _, value, _ in kept if step is not None)
    numbers = [value for value in values if value == value]
    found = [value for _, _, value, _ in kept if value == value]
    assert (min(found, default=0), max(found, default=0)) == (min(numbers, default=0), max(numbers, default=0))
    first_nan = next((step for step, value in enumerate(values) if value != value), None)
    assert next((step for step, _, value, _ in kept if value != value), None) == first_nan


def test_a_peak_is_never_lost() -> None:
    values = [1.0] * 10_000
    values[7777] = 99.0
    values[3333] = -1.0
    assert {7777, 3333} <= set(steps_of(thinned(values, 100)))


@pytest.mark.parametrize("count", [5_000, 50_000])
def test_all_parts_of_a_series_are_kept_equally_densely(count: int) -> None:
    series: ThinnedSeries[str] = ThinnedSeries(most_points=200)
    for step in range(count):
        series.add("loss", (step, float(step), math.sin(step), 0))
    [(_, values)] = series.items()
    tenths = [sum(10 * step // count == tenth for step in steps_of(values)) for tenth in range(10)]
    assert max(tenths) < 2 * min(tenths), tenths


@pytest.mark.parametrize("most", [0, 8, 9])
def test_less_can_be_kept_later(most: int) -> None:
    points = ThinnedPoints(10_000)
    for step in range(5000):
        points.add((step, float(step), float(step % 7), 0))
    points.keep_at_most(most)
    assert len(points) <= 12
    for step in range(5000, 9000):
        points.add((step, float(step), float(step % 7), 0))
    assert points.values()[-1][0] == 8999 and len(points.values()) < 90


def test_extremes_of_equal_values() -> None:
    assert steps_of(extremes([(step, 0.0, 1.0, 0) for step in range(9)])) == [0, 8]


def test_the_number_of_points_is_bounded() -> None:
    series: ThinnedSeries[tuple[str, int]] = ThinnedSeries(most_points=200, most_total=1000)
    for step in range(3000):
        for rank in range(10):
            series.add(("loss", rank), (step, 1.0, float(-step), 0))
    found = dict(series.items())
    assert len(found) == 10 and sum(map(len, found.values())) <= 1000 + 2 * len(found)
    assert all((values[0][0], values[-1][0]) == (0, 2999) for values in found.values())


def test_the_number_of_series_is_bounded() -> None:
    series: ThinnedSeries[str] = ThinnedSeries(most_series=3)
    for name in "abcdea":
        series.add(name, (0, 1.0, 1.0, 0))
    assert [(key, len(values)) for key, values in series.items()] == [("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1200.0, "1200"), (0.31234567, "0.3123"), (1e12, "1e+12"), (math.nan, "nan"), (-math.inf, "-inf"), (0.0, "0")],
)
def test_a_value_in_words(value: float, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (3 << 29, "1.5 GiB"),
        (256 << 30, "256 GiB"),
        (1 << 50, "1024 TiB"),
    ],
)
def test_a_size_in_words(count: int, text: str) -> None:
    assert size_text(count) == text


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

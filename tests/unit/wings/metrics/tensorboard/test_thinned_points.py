from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.metrics.tensorboard.thinned_points import ThinnedPoints, Value, extremes


def thinned(values: list[float], most: int) -> list[Value]:
    points = ThinnedPoints(most)
    for step, value in enumerate(values):
        points.add((step, float(step), value))
    return points.values()


def test_few_values_are_all_kept() -> None:
    assert [value for _, _, value in thinned([3.0, 1.0, 2.0], 8)] == [3.0, 1.0, 2.0]
    assert ThinnedPoints(8).values() == []


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=300), st.integers(8, 40))
def test_of_many_the_first_the_last_and_the_extremes_are_kept(values: list[float], most: int) -> None:
    kept = thinned(values, most)
    assert len(kept) <= most + 70
    assert [step for step, _, _ in kept] == sorted({step for step, _, _ in kept})
    assert kept[0][0] == 0 and kept[-1][0] == len(values) - 1
    found = [value for _, _, value in kept]
    assert (min(found), max(found)) == (min(values), max(values))
    assert all(values[step] == value for step, _, value in kept)


def test_a_peak_is_never_lost() -> None:
    values = [1.0] * 10_000
    values[7777] = 99.0
    values[3333] = -1.0
    kept = {step for step, _, _ in thinned(values, 100)}
    assert {7777, 3333} <= kept


def test_early_and_late_values_are_kept_equally_densely() -> None:
    steps = [step for step, _, _ in thinned([math.sin(step) for step in range(50_000)], 200)]
    early = sum(step < 25_000 for step in steps)
    assert 0.6 < early / (len(steps) - early) < 1.6


def test_the_first_value_that_is_no_number_is_kept() -> None:
    values = [float(step) for step in range(1000)] + [math.nan] * 1000
    kept = thinned(values, 50)
    assert min(step for step, _, value in kept if math.isnan(value)) == 1000
    assert (999, 999.0, 999.0) in kept


@pytest.mark.parametrize("most", [0, 8, 9])
def test_less_can_be_kept_later(most: int) -> None:
    points = ThinnedPoints(10_000)
    for step in range(5000):
        points.add((step, float(step), float(step % 7)))
    points.keep_at_most(most)
    assert len(points) <= 12
    for step in range(5000, 9000):
        points.add((step, float(step), float(step % 7)))
    assert points.values()[-1][0] == 8999 and len(points.values()) < 90


def test_extremes_of_equal_values() -> None:
    assert [step for step, _, _ in extremes([(step, 0.0, 1.0) for step in range(9)])] == [0, 8]

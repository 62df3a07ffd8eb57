"""Thinned lines keep their ends, peaks and gaps."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.pictures.thinning import isolated, numbers, thinned

pytestmark = pytest.mark.slow  # not where numpy is missing
NAN = float("nan")


def thin(xs: Any, ys: Any, most: int = 120, logarithmic: bool = False) -> tuple[list[float], list[float]]:
    found_xs, found_ys = thinned(numbers(xs, logarithmic), numbers(ys, False), most, logarithmic)
    assert len(found_xs) == len(found_ys) <= most
    return list(found_xs), list(found_ys)


def test_short_lines_stay() -> None:
    assert thin([3, 1, 2], [1, NAN, 5])[0] == [3, 1, 2]


def test_peaks_and_ends_stay() -> None:
    ys = [0.0] * 10_000
    ys[0], ys[4321], ys[4322], ys[-1] = 3, 99, -99, 7
    xs, found = thin(range(10_000), ys)
    assert (xs[0], xs[-1], found[0], found[-1], max(found), min(found)) == (0, 9999, 3, 7, 99, -99)
    assert xs == sorted(xs)


def test_a_gap_stays() -> None:
    ys = [1.0] * 10_000
    ys[5000] = NAN
    xs, found = thin(range(10_000), ys)
    assert [x for x, y in zip(xs, found, strict=True) if math.isnan(y)] == [5000]


def test_a_logarithmic_axis_keeps_its_first_decades() -> None:
    xs, _ = thin(range(1, 100_001), range(100_000), logarithmic=True)
    assert xs[:3] == [1, 2, 3] and sum(x < 100 for x in xs) > 10


def test_a_line_that_goes_back_is_thinned_in_its_order() -> None:
    xs, _ = thin([*range(5000), *range(2000, 7000)], range(10_000))
    back = [place for place in range(1, len(xs)) if xs[place] < xs[place - 1]]
    assert len(back) == 1
    thin([0, 1] * 5000, range(10_000))


def test_gaps_everywhere_are_bounded() -> None:
    thin(range(10_000), [1, NAN] * 5000)


def test_one_x_for_all() -> None:
    assert thin([5] * 10_000, range(10_000))[1] == [0, 9999]


def test_numbers_that_no_axis_holds() -> None:
    assert list(numbers([1, 1e-300, 0], False)) == [1, 0, 0]
    for value in (math.inf, -math.inf, NAN, 1e300, -1e300):
        assert math.isnan(numbers([value], False)[0])
    assert [math.isnan(value) for value in numbers([1, 0, -1, 1e-300], True)] == [False, True, True, True]


def test_lonely_points() -> None:
    assert list(isolated(numbers([1, NAN, 2, NAN, 3, 4], False))) == [0, 2]
    assert list(isolated(numbers([], False))) == []


@given(st.integers().map(Random), st.integers(121, 400), st.booleans())
def test_any_line_keeps_its_ends(chance: Random, size: int, ascending: bool) -> None:
    xs = [chance.uniform(-9, 9) for _ in range(size)]
    ys = [chance.choice((NAN, math.inf, chance.uniform(-1e9, 1e9), 0.0)) for _ in range(size)]
    ys[0] = ys[-1] = 1.0
    xs = sorted(xs) if ascending else xs
    found, _ = thin(xs, ys)
    assert (found[0], found[-1]) == (xs[0], xs[-1])

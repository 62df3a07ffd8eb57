"""The numbers of a curve, and when there is none."""

from __future__ import annotations

from math import inf, nan

import pytest
from bench_results import measured, result_of

from worldsize.wings.bench.scaling.curve import efficiency_range, is_clearly_faster, scaling_curve


def numbers(*measurements, **more):
    curve = scaling_curve(result_of(*measurements, **more))
    return [(str(p.world), p.speed_up and round(p.speed_up, 2), p.efficiency) for p in curve.points]


def test_the_guides_100_50_and_25_seconds_are_a_speed_up_of_1_2_and_4():
    runs = [measured(f"1x{ranks}", ranks / 100, 0, seconds=100 / ranks) for ranks in (1, 2, 4)]
    assert numbers(*runs, kind="job", scaling="strong") == [("1x1", 1, 1.0), ("1x2", 2, 1.0), ("1x4", 4, 1.0)]


def test_the_base_is_the_smallest_world_wherever_it_stands_and_of_equal_ones_that_on_fewer_nodes():
    assert numbers(measured("2x2", 300), measured("1x1", 100)) == [("2x2", 3, 0.75), ("1x1", 1, 1.0)]
    assert numbers(measured("2x1", 150), measured("1x2", 200)) == [("2x1", 0.75, 0.75), ("1x2", 1, 1.0)]


def test_a_base_of_several_ranks_is_what_the_others_are_compared_with_and_no_single_rank_is_guessed():
    assert numbers(measured("2x2", 400), measured("4x2", 600)) == [("2x2", 1, 1.0), ("4x2", 1.5, 0.75)]


@pytest.mark.parametrize("missing", [None, nan, inf, -inf, 0.0, -1.0])
def test_what_was_not_measured_has_no_number_and_is_no_base(missing):
    found = numbers(measured("1x1", missing), measured("1x2", 200), measured("1x4", 300))
    assert found == [("1x1", None, None), ("1x2", 1, 1.0), ("1x4", 1.5, 0.75)]


def test_a_run_that_failed_is_not_measured_even_where_it_said_a_rate():
    found = numbers(measured("1x1", 100), measured("1x2", 200, failure="rank 1 died"))
    assert found == [("1x1", 1, 1.0), ("1x2", None, None)]


def test_an_oversubscribed_world_has_a_speed_up_and_no_efficiency():
    found = numbers(measured("1x1", 100), measured("1x9", 200, oversubscribed="9 ranks, 4 cores"))
    assert found == [("1x1", 1, 1.0), ("1x9", 2, None)]


def test_where_the_base_is_oversubscribed_no_world_has_an_efficiency():
    found = numbers(measured("1x1", 100, oversubscribed="8 threads, 4 cores"), measured("2x1", 200))
    assert found == [("1x1", 1, None), ("2x1", 2, None)]


def test_hours_and_cost_are_of_gpus_where_all_worlds_used_them_and_else_of_nodes():
    gpus = scaling_curve(result_of(measured("1x1", 100, gpus=1), measured("2x2", 300, gpus=4)))
    assert gpus.device == "GPU" and [p.device_hours for p in gpus.points] == [1, 4]
    assert [round(p.cost or 0, 2) for p in gpus.points] == [1, 1.33]
    nodes = scaling_curve(result_of(measured("1x1", 100), measured("1x2", 150), measured("2x2", 300, gpus=4)))
    assert nodes.device == "node" and [p.device_hours for p in nodes.points] == [1, 1, 2]
    assert [round(p.cost or 0, 2) for p in nodes.points] == [1, 0.67, 0.67]


def test_a_failed_world_without_gpus_does_not_turn_hours_of_gpus_into_hours_of_nodes():
    curve = scaling_curve(result_of(measured("1x1", 100, gpus=1), measured("1x2", None, failure="no")))
    assert curve.device == "GPU" and curve.points[1].device_hours is None


def test_the_spread_is_the_middle_half_or_all_of_few_values():
    def spread(*rates):
        point = scaling_curve(result_of(measured("1x1", 100)._replace(rates=rates))).points[0]
        return point.low, point.high

    assert spread(1, 90, 95, 100, 105, 110, 115, 999) == (95, 110)
    assert spread(90, 100, 110) == (90, 110) and spread(1, nan, inf, 2) == (1, 2)
    assert spread(100) == spread() == (None, None)


def test_faster_is_clear_where_spreads_do_not_overlap():
    slow, fast = scaling_curve(result_of(measured("1x1", 100, 0.1), measured("1x2", 110, 0.2))).points
    assert not is_clearly_faster(fast, slow) and not is_clearly_faster(slow, fast)
    alike = scaling_curve(result_of(measured("1x1", 100, 0), measured("1x2", 100, 0))).points
    assert not is_clearly_faster(*alike)
    slow, fast = scaling_curve(result_of(measured("1x1", 100), measured("1x2", 110))).points
    assert is_clearly_faster(fast, slow) and not is_clearly_faster(slow, fast)


def test_the_range_of_an_efficiency_is_that_of_both_spreads():
    base, point = scaling_curve(result_of(measured("1x1", 100, 0.1), measured("1x2", 150, 0.1))).points
    low, high = efficiency_range(point, base)
    assert low < 0.75 < high and high - low < 0.2
    assert efficiency_range(point._replace(low=None), base) is None


def test_numbers_that_overflow_are_no_numbers():
    found = numbers(measured("1x1", 1e-300, 0), measured("1x2", 1e300, 0))
    assert found == [("1x1", 1, 1.0), ("1x2", None, None)]


def test_nothing_measured_is_a_curve_without_a_base():
    assert scaling_curve(result_of()).base is None
    assert scaling_curve(result_of(measured("1x1", None))).measured() == []

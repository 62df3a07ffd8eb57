"""The sentence of what to use: its rule, its numbers, and when there is none."""

from __future__ import annotations

import pytest
from bench_results import measured, result_of

from worldsize.wings.bench.scaling.curve import scaling_curve
from worldsize.wings.bench.scaling.recommendation import recommendation, recommended_point


def curve_of(spread=0.01, device="gpus", **rates):
    """`n1x2=200`: a world with its rate."""
    worlds = [name[1:] for name in rates]
    count = [int(world[0]) * int(world[2:]) for world in worlds]
    return [
        measured(world, rate, spread, gpus=ranks if device == "gpus" else 0)
        for world, ranks, rate in zip(worlds, count, rates.values(), strict=True)
    ]


def advice(*measurements, **more):
    return recommendation(result_of(*measurements, **more))[0]


def used(**rates):
    point = recommended_point(scaling_curve(result_of(*curve_of(**rates))))
    return None if point is None else str(point.world)


CASES = [
    ({"n1x1": 100, "n1x2": 196, "n1x4": 380, "n2x4": 710}, "2x4"),
    ({"n1x1": 100, "n2x4": 710, "n2x8": 850}, "2x4"),
    ({"n1x1": 100, "n1x2": 149}, "1x1"),
    ({"n1x1": 100, "n1x2": 150}, "1x2"),
    # 76 % of 4 ranks, but the last two add less than one: the marginal efficiency is 49 %, 51 %
    ({"n1x1": 100, "n1x2": 209, "n1x4": 306}, "1x2"),
    ({"n1x1": 100, "n1x2": 203, "n1x4": 306}, "1x4"),
    # a dip does not hide what is beyond it
    ({"n1x1": 100, "n1x2": 140, "n1x4": 360}, "1x4"),
    # slower with every rank
    ({"n1x1": 100, "n1x2": 80, "n1x4": 60}, "1x1"),
    # of as many ranks the faster
    ({"n1x1": 100, "n1x4": 320, "n2x2": 390}, "2x2"),
    ({"n1x1": 100, "n1x4": 390, "n2x2": 320}, "1x4"),
    # more than linear
    ({"n1x1": 100, "n1x2": 240, "n1x4": 500}, "1x4"),
    # a base of several ranks
    ({"n2x2": 400, "n4x2": 790}, "4x2"),
]


@pytest.mark.parametrize(("rates", "world"), CASES)
def test_the_rule(rates, world):
    assert used(**rates) == world
    assert advice(*curve_of(**rates)).startswith(f"Use {world}: ")


def test_it_says_its_numbers_and_what_the_next_larger_world_would_be():
    found = advice(*curve_of(n1x1=100, n2x4=712, n2x8=850))
    assert found == (
        "Use 2x4: 7.1 × the speed of 1x1 at 89 % efficiency; 2x8 would be 1.19 × as fast for 1.68 × the GPU-hours."
    )


def test_without_gpus_it_counts_hours_of_nodes():
    found = advice(*curve_of(device="", n1x1=100, n1x2=196, n1x4=220))
    assert found == (
        "Use 1x2: 1.96 × the speed of 1x1 at 98 % efficiency; 1x4 would be 1.12 × as fast for 0.89 × the node-hours."
    )


def test_the_largest_world_is_said_to_be_that_and_a_slower_one_slower():
    assert advice(*curve_of(n1x1=100, n1x2=190)).endswith("95 % efficiency, the largest world that was measured.")
    assert advice(*curve_of(n1x1=100, n1x2=190, n1x4=150)).endswith("; 1x4 is slower, 0.79 × its speed.")


def test_where_no_larger_world_is_worth_it_it_says_what_limits():
    found = advice(measured("1x1", 100, gpus=1), measured("1x2", 110, gpus=2, communication=0.43))
    assert found == (
        "Use 1x1: no larger world is worth its ranks; the fastest, 1x2, would be 1.10 × as fast for 1.82 × the "
        "GPU-hours, at 55 % efficiency; ranks of 1x2 wait for each other for 43 % of a step."
    )
    for share in (0.19, 1.5, float("nan")):
        runs = [measured("1x1", 100, gpus=1), measured("1x2", 110, gpus=2, communication=share)]
        assert advice(*runs).endswith("at 55 % efficiency.")
    runs = [measured("1x1", 0.3, 0, seconds=3.3), measured("1x2", 0.32, 0, seconds=3.1)]
    assert advice(*runs, kind="job").endswith("; the work takes 3.10 s on 1x2, which is little to divide.")
    assert "even the fastest, 1x2, is slower, 0.80 × its speed." in advice(*curve_of(n1x1=100, n1x2=80, n1x4=60))


NOTHING = [
    ([], "no world was measured"),
    ([measured("1x1", None, failure="no")], "every world failed"),
    ([measured("1x1", 100)], "only 1x1 was measured, and there is no other world to compare it with"),
    ([measured("1x1", 100), measured("1x2", None, failure="no")], "only 1x1 was measured"),
    (
        [measured("1x1", 100, oversubscribed="x"), measured("1x2", 200)],
        "1x1, which the others are compared with, is oversubscribed",
    ),
    ([measured("1x1", 100), measured("1x2", 200, oversubscribed="x")], "every world but 1x1 is oversubscribed"),
    (
        [measured("1x1", 100, 0.2), measured("1x2", 105, 0.2)],
        "the rates of 1x1 and 1x2 differ by less than their spread",
    ),
]


@pytest.mark.parametrize(("runs", "why"), NOTHING)
def test_where_nothing_can_be_recommended_it_says_why(runs, why):
    found = advice(*runs)
    assert found.startswith("Nothing can be recommended: " + why) and found.endswith(".")


def sentences(*runs, **more):
    return " ".join(recommendation(result_of(*runs, **more))[1:])


def test_what_failed_or_is_oversubscribed_takes_no_part_and_is_named():
    runs = [*curve_of(n1x1=100, n1x2=190), measured("2x2", None, failure="x"), measured("1x9", 900, oversubscribed="y")]
    assert advice(*runs).startswith("Use 1x2: ")
    assert sentences(*runs) == (
        "2x2 failed and is compared with nothing. 1x9 is oversubscribed: no efficiency can be given."
    )


def test_more_than_linear_is_said_to_be_strange():
    assert "1x2 does more than 2.0 × 1x1 (efficiency 120 %)" in sentences(*curve_of(n1x1=100, n1x2=240))
    assert "more than" not in sentences(*curve_of(n1x1=100, n1x2=205))


def test_a_spread_on_both_sides_of_the_rule_is_said():
    assert "either side of 75 %: 1x2 (7" in sentences(*curve_of(spread=0.1, n1x1=100, n1x2=155))
    assert sentences(*curve_of(n1x1=100, n1x2=190)) == ""


def test_single_values_are_said_to_be_that():
    assert sentences(*curve_of(spread=0, n1x1=100, n1x2=190)).startswith("Each world was measured once")


def test_ranks_on_a_node_that_is_held_anyway_are_worth_more_than_the_rule_says():
    runs = curve_of(device="", n1x1=100, n1x2=130, n2x2=190)
    assert advice(*runs).startswith("Use 1x1: ")
    assert sentences(*runs) == "If you pay for whole nodes, use 1x2: it is faster, and takes fewer node-hours."
    assert sentences(*curve_of(n1x1=100, n1x2=130)) == ""
    assert sentences(*curve_of(device="", n1x1=100, n1x2=190, n2x2=200)) == ""

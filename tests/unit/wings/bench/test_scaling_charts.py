"""Which lines and points the pictures of a curve have."""

from __future__ import annotations

from math import isnan

from bench_results import measured, result_of

from worldsize.wings.bench.scaling.charts import scaling_charts
from worldsize.wings.pictures import provider


def lines_of(*measurements, **more):
    """By the title of each chart, its lines: the label with the points that there are."""
    charts = scaling_charts(result_of(*measurements, **more), provider)
    return [
        {line.label: [(x, y) for x, y in zip(line.xs, line.ys, strict=True) if not isnan(y)] for line in chart.lines}
        for chart in charts
    ]


def test_the_ideal_is_that_of_the_base_and_efficiency_stands_below():
    rates, efficiency = lines_of(measured("1x2", 200), measured("1x4", 300))
    assert rates == {"measured": [(2, 200), (4, 300)], "ideal": [(2, 200), (4, 400)]}
    assert efficiency["measured"] == [(2, 100), (4, 75)]
    assert list(efficiency) == ["measured", "ideal: 100 %", "recommended above 75 %"]


def test_what_is_oversubscribed_stands_apart_and_has_no_efficiency():
    rates, efficiency = lines_of(measured("1x1", 100), measured("1x2", 190), measured("1x4", 210, oversubscribed="x"))
    assert rates["measured"] == [(1, 100), (2, 190)] and rates["oversubscribed"] == [(4, 210)]
    assert efficiency["measured"] == [(1, 100), (2, 95)]


def test_without_any_efficiency_there_is_one_chart():
    (rates,) = lines_of(measured("1x1", 100, oversubscribed="x"), measured("1x2", 190))
    assert rates["measured"] == [(2, 190)] and rates["oversubscribed"] == [(1, 100)]
    assert len(lines_of(measured("1x1", 100), measured("1x2", None, failure="no"))) == 1


def test_worlds_of_equally_many_ranks_are_on_lines_of_their_own_by_their_nodes():
    rates, efficiency = lines_of(*[measured(world, 100) for world in ("1x1", "1x2", "2x1", "2x2", "1x4")])
    assert rates["1 node"] == [(1, 100), (2, 100), (4, 100)] and rates["2 nodes"] == [(2, 100), (4, 100)]
    assert list(efficiency)[:2] == ["1 node", "2 nodes"]


def test_points_have_their_spread_where_there_is_one():
    rates, _ = scaling_charts(result_of(measured("1x1", 100, 0.1), measured("1x2", 190, 0)), provider)
    line = rates.lines[0]
    assert line.lows[0] < 100 < line.highs[0] and isnan(line.lows[1])


def test_published_figures_are_lines_to_compare_with():
    run = measured("1x1", 2400, gpus=1, details={"device": "NVIDIA A100-SXM4-80GB"})
    (rates,) = scaling_charts(result_of(run), provider)
    assert [(line.label, line.dashed) for line in rates.lines][2:] == [
        ("expected: PyTorch", True), ("best known: MXNet with DALI", True), ("best known: PaddlePaddle with DALI", True)
    ]  # fmt: skip


def test_nothing_measured_is_no_chart():
    assert scaling_charts(result_of(), provider) == () == scaling_charts(result_of(measured("1x1", None)), provider)

"""Charts of a curve over worlds: the rate over the ranks with the ideal line, and the efficiency below it."""

from __future__ import annotations

from math import nan

from worldsize.common.named_tuple import Any
from worldsize.wings.bench.published.matching import published_lines
from worldsize.wings.bench.result import BenchResult
from worldsize.wings.bench.scaling.curve import Curve, Point, scaling_curve, size_of
from worldsize.wings.bench.scaling.recommendation import LEAST_EFFICIENCY

_RANKS = "ranks"


def scaling_charts(result: BenchResult, pictures: Any) -> tuple[Any, ...]:
    """Return the charts of a benchmark's `result` over its worlds: the rate, and the efficiency; empty if nothing was
    measured. There is no chart of efficiency if fewer than two worlds have one."""
    curve = scaling_curve(result)
    if curve.base is None:
        return ()
    ranks = sorted({point.world.ranks for point in curve.measured()})
    axes = {"x_scale": "log2", "x_ticks": tuple(float(count) for count in ranks)}
    rates = pictures.Chart(
        result.title, _RANKS, result.unit, tuple(_rate_lines(curve, ranks, result, pictures)), y_scale="log2", **axes
    )
    if len(curve.sound()) < 2:
        return (rates,)
    title = f"Efficiency against {curve.base.world}"
    return rates, pictures.Chart(title, _RANKS, "%", tuple(_efficiency_lines(curve, ranks, pictures)), **axes)


def _rate_lines(curve: Curve, ranks: list[int], result: BenchResult, pictures: Any) -> list[Any]:
    lines = []
    for name, points in _groups(curve).items():
        sound = [point._replace(rate=None) if point.measurement.oversubscribed else point for point in points]
        lines.append(_line(name or "measured", sound, pictures))
    crowded = [point for point in curve.measured() if point.measurement.oversubscribed]
    if crowded:
        lines.append(_line("oversubscribed", crowded, pictures))
    lines.append(_ideal(curve, ranks, pictures))
    lines += [pictures.Line(name, xs, ys, True) for name, xs, ys in published_lines(result)]
    return [line for line in lines if any(y == y for y in line.ys)]


def _groups(curve: Curve) -> dict[str, list[Point]]:
    """Return the points of each line of a chart over worlds, by the line's name: one line without a name, or, if
    several worlds have the same number of ranks, one for each number of nodes."""
    points = curve.measured()
    if len({point.world.ranks for point in points}) == len(points):
        return {"": points}
    groups: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: (point.world.nodes, *size_of(point))):
        nodes = point.world.nodes
        groups.setdefault("1 node" if nodes == 1 else f"{nodes} nodes", []).append(point)
    return groups


def _line(name: str, points: list[Point], pictures: Any) -> Any:
    """Return a line of the chart of rates, with a point for each world and the spread of its rates."""
    xs = [float(point.world.ranks) for point in points]
    ys = [_number(point.rate) for point in points]
    lows = [nan if point.rate is None else _number(point.low) for point in points]
    highs = [nan if point.rate is None else _number(point.high) for point in points]
    return pictures.Line(name, xs, ys, lows=lows, highs=highs)


def _number(value: float | None) -> float:
    return nan if value is None else value


def _ideal(curve: Curve, ranks: list[int], pictures: Any) -> Any:
    """Return the ideal line of the chart of rates, on which each rank is as fast as a rank of the curve's base: the
    rate doubles with the ranks."""
    assert curve.base is not None and curve.base.rate is not None
    each = curve.base.rate / curve.base.world.ranks
    return pictures.Line("ideal", [float(count) for count in ranks], [each * count for count in ranks], True)


def _efficiency_lines(curve: Curve, ranks: list[int], pictures: Any) -> list[Any]:
    lines = []
    for name, points in _groups(curve).items():
        xs = [float(point.world.ranks) for point in points]
        ys = [nan if point.efficiency is None else point.efficiency * 100 for point in points]
        lines.append(pictures.Line(name or "measured", xs, ys))
    ends = [float(ranks[0]), float(ranks[-1])]
    limit = LEAST_EFFICIENCY * 100
    lines.append(pictures.Line("ideal: 100 %", ends, [100.0, 100.0], True))
    lines.append(pictures.Line(f"recommended above {limit:.0f} %", ends, [limit, limit], True))
    return lines

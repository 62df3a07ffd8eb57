"""The curve of a result: what each world does against the smallest one.

Everything here is computed from what was measured, and nothing is filled in: where a number does not follow, it is
None. The base is the smallest world that was measured, of as many ranks the one on fewer nodes; how fast a single rank
would be is not guessed where the base has several.
"""

from __future__ import annotations

from math import isfinite

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World

FEW_RATES = 4
"""Of fewer single rates, all are the spread."""


class Point(NamedTuple):
    """One world, whether it was measured or not.

    rate, low, high  the median, and the spread of the single rates around it: their middle half, or all of them where
                 they are fewer than four. The three are None where nothing was measured, `low` and `high` where there
                 is one rate alone
    speed_up     how many times as fast as the base
    efficiency   the speed-up by how many times as many ranks; None where the world or the base is oversubscribed
    devices      GPUs of the world, or its nodes where no world used GPUs
    device_hours for which the run held them; None where it is not known
    cost         device-hours for the same work, as a multiple of the base's
    """

    measurement: Measurement
    rate: float | None = None
    low: float | None = None
    high: float | None = None
    speed_up: float | None = None
    efficiency: float | None = None
    devices: int = 0
    device_hours: float | None = None
    cost: float | None = None

    @property
    def world(self) -> World:
        return self.measurement.world


class Curve(NamedTuple):
    """points  in the order of the result; `base` is one of them, None where no world was measured.
    device  "GPU" or "node": what hours are counted of."""

    base: Point | None
    points: tuple[Point, ...]
    device: str

    def measured(self) -> list[Point]:
        """From the smallest world to the largest."""
        return sorted((point for point in self.points if point.rate is not None), key=size_of)

    def sound(self) -> list[Point]:
        """Those measured of which an efficiency can be said, from the smallest world to the largest."""
        return [point for point in self.measured() if point.efficiency is not None]


def size_of(point: Point) -> tuple[int, int]:
    return point.world.ranks, point.world.nodes


def scaling_curve(result: BenchResult) -> Curve:
    with_gpus = [each for each in result.measurements if usable_rate(each) is not None]
    device = "GPU" if with_gpus and all(each.gpus > 0 for each in with_gpus) else "node"
    points = [_measured_point(each, device) for each in result.measurements]
    measured = sorted((point for point in points if point.rate is not None), key=size_of)
    if not measured:
        return Curve(None, tuple(points), device)
    base = _against(measured[0], measured[0])
    return Curve(base, tuple(_against(point, base) for point in points), device)


def usable_rate(measurement: Measurement) -> float | None:
    """Return the rate; None where there is none to reckon with, as of a run that failed."""
    rate = measurement.rate
    if measurement.failure or rate is None or measurement.world.ranks < 1:
        return None
    return rate if isfinite(rate) and rate > 0 else None


def _measured_point(measurement: Measurement, device: str) -> Point:
    devices = measurement.gpus if device == "GPU" else measurement.world.nodes
    held = measurement.held
    hours = finite(held * devices / 3600) if held is not None and held >= 0 and devices else None
    rate = usable_rate(measurement)
    low, high = _spread(measurement.rates) if rate is not None else (None, None)
    return Point(measurement, rate, low, high, devices=devices, device_hours=hours)


def _spread(rates: tuple[float, ...]) -> tuple[float | None, float | None]:
    ordered = sorted(rate for rate in rates if isfinite(rate) and rate > 0)
    if len(ordered) < 2:
        return None, None
    if len(ordered) < FEW_RATES:
        return ordered[0], ordered[-1]
    cut = len(ordered) // 4
    return ordered[cut], ordered[-1 - cut]


def _against(point: Point, base: Point) -> Point:
    if point.rate is None or base.rate is None:
        return point
    speed_up = finite(point.rate / base.rate)
    if speed_up is None:
        return point
    judged = not (point.measurement.oversubscribed or base.measurement.oversubscribed)
    efficiency = finite(speed_up * base.world.ranks / point.world.ranks) if judged else None
    return point._replace(speed_up=speed_up, efficiency=efficiency, cost=relative_cost(point, base))


def relative_cost(point: Point, other: Point) -> float | None:
    """Device-hours for the same work, as a multiple of the other's."""
    if not (point.rate and other.rate and point.devices and other.devices):
        return None
    return finite(point.devices / other.devices * (other.rate / point.rate))


def is_clearly_faster(point: Point, other: Point) -> bool:
    """Return whether the spreads do not overlap; of what has no spread, its rate counts."""
    low, high = point.low or point.rate, other.high or other.rate
    return low is not None and high is not None and low > high


def efficiency_range(point: Point, base: Point) -> tuple[float, float] | None:
    """Between which efficiencies the spreads of both leave it; None without efficiency or spreads."""
    ends = (point.low, point.high, base.low, base.high)
    if point.efficiency is None or None in ends:
        return None
    ratio = base.world.ranks / point.world.ranks
    low = finite((point.low or 0) / (base.high or 1) * ratio)
    high = finite((point.high or 0) / (base.low or 1) * ratio)
    return None if low is None or high is None else (low, high)


def finite(value: float) -> float | None:
    """Return the value; None for what overflowed."""
    return value if isfinite(value) and abs(value) < 1e15 else None

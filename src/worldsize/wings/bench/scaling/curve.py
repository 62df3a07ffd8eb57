"""The curve of a result: the performance of each world relative to the smallest one.

Everything here is computed from measured values, and nothing is filled in: a number that does not follow from them is
None. The base is the smallest world that was measured; of those with the same number of ranks, the one on fewer nodes.
If the base has several ranks, the speed of a single rank is not estimated.
"""

from __future__ import annotations

from math import isfinite

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World

FEW_RATES = 4
"""The number of single rates below which the spread includes all of them."""


class Point(NamedTuple):
    """A world of the curve, whether it was measured or not.

    rate, low, high  the median, and the spread of the single rates around it: their middle half, or all of them if
                     there are fewer than four. All three are None if nothing was measured; `low` and `high` are None
                     if there is only one rate.
    speed_up         how many times as fast as the base
    efficiency       the speed-up divided by the ratio of the numbers of ranks; None if the world or the base is
                     oversubscribed
    devices          the GPUs of the world, or its nodes if not all worlds used GPUs
    device_hours     the device-hours for which the run held them; None if they are not known
    cost             the device-hours for the same work, as a multiple of the base's
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
    """The curve of a result.

    base    the point that the others are compared with; None if no world was measured
    points  the points in the order of the result
    device  "GPU" or "node": the unit of device-hours
    """

    base: Point | None
    points: tuple[Point, ...]
    device: str

    def measured(self) -> list[Point]:
        """Return the points of the curve whose worlds were measured, from the smallest world to the largest."""
        return sorted((point for point in self.points if point.rate is not None), key=size_of)

    def sound(self) -> list[Point]:
        """Return the measured points of the curve that have an efficiency, from the smallest world to the largest."""
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
    """Return the rate of a measurement; None if there is none to compute with, for example for a run that failed."""
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
    """Return the device-hours that the world of `point` takes for the same work, as a multiple of those of `other`;
    None if they are not known."""
    if not (point.rate and other.rate and point.devices and other.devices):
        return None
    return finite(point.devices / other.devices * (other.rate / point.rate))


def is_clearly_faster(point: Point, other: Point) -> bool:
    """Return whether the world of `point` is faster than that of `other` and the spreads of their rates do not overlap.
    For a point without a spread, its rate counts."""
    low, high = point.low or point.rate, other.high or other.rate
    return low is not None and high is not None and low > high


def efficiency_range(point: Point, base: Point) -> tuple[float, float] | None:
    """Return the lowest and the highest efficiency of `point` relative to `base` that the spreads of the rates of both
    permit; None without an efficiency or without spreads."""
    ends = (point.low, point.high, base.low, base.high)
    if point.efficiency is None or None in ends:
        return None
    ratio = base.world.ranks / point.world.ranks
    low = finite((point.low or 0) / (base.high or 1) * ratio)
    high = finite((point.high or 0) / (base.low or 1) * ratio)
    return None if low is None or high is None else (low, high)


def finite(value: float) -> float | None:
    """Return `value`; None if it is not finite or too large to be meaningful."""
    return value if isfinite(value) and abs(value) < 1e15 else None

"""The recommendation of a world, in a sentence with its numbers. If the measurements do not permit one, the sentence
states this and the reason.

The rule goes from the base upwards. A larger world replaces the previous choice if its efficiency is at least 75 %, if
each rank that it adds does at least half of what a rank of the base does, and if it is clearly faster, that is, their
spreads do not overlap. Worlds that failed or are oversubscribed are left out.
"""

from __future__ import annotations

from worldsize.wings.bench.result import BenchResult
from worldsize.wings.bench.scaling.curve import (
    Curve,
    Point,
    efficiency_range,
    is_clearly_faster,
    relative_cost,
    scaling_curve,
    size_of,
)
from worldsize.wings.bench.scaling.wording import amount_text, list_text, percent_text, times_text

LEAST_EFFICIENCY = 0.75
LEAST_MARGINAL_EFFICIENCY = 0.5
MORE_THAN_LINEAR = 1.05
"""The efficiency above which a world is mentioned in a sentence."""
_WAITING = 0.2
"""The share of a step from which communication counts as the limit."""
_LITTLE_WORK = 10.0
"""The time in seconds below which the work is too little to be divided."""


def recommendation(result: BenchResult) -> tuple[str, ...]:
    """Return sentences on a benchmark's `result`: the recommended world first, then what a user must know to judge the
    recommendation. At least one sentence."""
    curve = scaling_curve(result)
    return (_advice(curve), *_reservations(curve))


def recommended_point(curve: Curve) -> Point | None:
    """Return the point of the world that the rule of this module recommends. It is the base of the curve if no larger
    world is worth its ranks; None if nothing can be concluded."""
    points = curve.sound()
    if len(points) < 2:
        return None
    base = best = points[0]
    for point in points[1:]:
        if _is_worth_it(point, best, base):
            best = point
    return None if best is base and all(_is_unclear(point, base) for point in points[1:]) else best


def _is_worth_it(point: Point, best: Point, base: Point) -> bool:
    if point.efficiency is None or point.efficiency < LEAST_EFFICIENCY or not is_clearly_faster(point, best):
        return False
    marginal = _marginal_efficiency(point, best, base)
    return marginal is None or marginal >= LEAST_MARGINAL_EFFICIENCY


def _marginal_efficiency(point: Point, best: Point, base: Point) -> float | None:
    """Return what each rank that the world of `point` has in addition to that of `best` does, as a share of what a rank
    of the `base` does; None if there are no additional ranks."""
    more = point.world.ranks - best.world.ranks
    if more <= 0 or point.speed_up is None or best.speed_up is None:
        return None
    return (point.speed_up - best.speed_up) * base.world.ranks / more


def _is_unclear(point: Point, other: Point) -> bool:
    """Return whether neither of the two worlds is clearly faster than the other."""
    return not is_clearly_faster(point, other) and not is_clearly_faster(other, point)


def _advice(curve: Curve) -> str:
    best = recommended_point(curve)
    if best is None or curve.base is None:
        return f"Nothing can be recommended: {_why_nothing(curve)}."
    others = [point for point in curve.sound() if size_of(point) > size_of(best)]
    if best.measurement is curve.base.measurement:
        return f"Use {best.world}: no larger world is worth its ranks; {_worth(others, best, curve)}{_limit(others)}."
    what = f"Use {best.world}: {_speed(best, curve.base)} at {percent_text(best.efficiency)} efficiency"
    if not others:
        return f"{what}, the largest world that was measured."
    return f"{what}; {others[0].world} {_compared(others[0], best, curve)}."


def _why_nothing(curve: Curve) -> str:
    measured = curve.measured()
    if curve.base is None:
        failed = any(point.measurement.failure for point in curve.points)
        return "every world failed" if failed else "no world was measured"
    if len(measured) == 1:
        return f"only {curve.base.world} was measured, and there is no other world to compare it with"
    if curve.base.measurement.oversubscribed:
        return f"{curve.base.world}, which the others are compared with, is oversubscribed"
    sound = curve.sound()
    if len(sound) < 2:
        return f"every world but {curve.base.world} is oversubscribed"
    worlds = list_text([str(point.world) for point in sound])
    return (
        f"the rates of {worlds} differ by less than their spread ({_spread_text(sound[0])} and "
        f"{_spread_text(sound[-1])})"
    )


def _spread_text(point: Point) -> str:
    if point.low is None or point.high is None:
        return amount_text(point.rate)
    return f"{amount_text(point.low)}–{amount_text(point.high)}"


def _speed(point: Point, base: Point) -> str:
    return f"{times_text(point.speed_up or 0)} the speed of {base.world}"


def _worth(others: list[Point], best: Point, curve: Curve) -> str:
    if not others:
        return "it is the largest that was measured"
    fastest = max(others, key=lambda point: point.rate or 0)
    if (fastest.rate or 0) < (best.rate or 0):
        return f"even the fastest, {fastest.world}, {_compared(fastest, best, curve)}"
    what = _compared(fastest, best, curve)
    return f"the fastest, {fastest.world}, {what}, at {percent_text(fastest.efficiency)} efficiency"


def _compared(point: Point, best: Point, curve: Curve) -> str:
    """Return how the world of `point` compares with the recommended one, `best`, in words such as "would be 1.2 × as
    fast for 1.7 × the GPU-hours"."""
    if point.rate is None or best.rate is None:
        return "has no rate"
    ratio = point.rate / best.rate
    if ratio < 1:
        return f"is slower, {times_text(ratio)} its speed"
    cost = relative_cost(point, best)
    price = f" for {times_text(cost)} the {curve.device}-hours" if cost is not None else ""
    unsure = "" if is_clearly_faster(point, best) else ", which is less than the spread of the rates"
    return f"would be {times_text(ratio)} as fast{price}{unsure}"


def _limit(others: list[Point]) -> str:
    """Return a part of a sentence on what limits the speed of the first world in `others`, communication or too little
    work, if that was measured; otherwise ""."""
    for point in others[:1]:
        share = point.measurement.communication
        if share is not None and _WAITING <= share <= 1:
            return f"; ranks of {point.world} wait for each other for {percent_text(share)} of a step"
        seconds = point.measurement.seconds
        if seconds is not None and 0 <= seconds < _LITTLE_WORK:
            return f"; the work takes {amount_text(seconds)} s on {point.world}, which is little to divide"
    return ""


def _reservations(curve: Curve) -> list[str]:
    found = [_whole_nodes(curve), _failed(curve), _oversubscribed(curve), _more_than_linear(curve)]
    found.append(_near_the_limit(curve))
    found.append(_single_values(curve) if len(curve.measured()) > 1 else "")
    return [sentence for sentence in found if sentence]


def _whole_nodes(curve: Curve) -> str:
    """Return a sentence on a world that is faster than the recommended one and takes fewer node-hours; "" if there is
    none. Ranks that the rule rejects cost nothing if their node is held anyway."""
    best = recommended_point(curve)
    if best is None or curve.device != "node":
        return ""
    cheaper = [point for point in curve.sound() if _is_faster_for_less(point, best)]
    if not cheaper:
        return ""
    fastest = max(cheaper, key=lambda point: point.rate or 0)
    return f"If you pay for whole nodes, use {fastest.world}: it is faster, and takes fewer node-hours."


def _is_faster_for_less(point: Point, best: Point) -> bool:
    cost = relative_cost(point, best)
    return cost is not None and cost < 1 and is_clearly_faster(point, best)


def _failed(curve: Curve) -> str:
    worlds = [str(point.world) for point in curve.points if point.measurement.failure]
    if not worlds:
        return ""
    return f"{list_text(worlds)} failed and {'is' if len(worlds) == 1 else 'are'} compared with nothing."


def _oversubscribed(curve: Curve) -> str:
    worlds = [str(point.world) for point in curve.measured() if point.measurement.oversubscribed]
    if not worlds:
        return ""
    return f"{list_text(worlds)} {'is' if len(worlds) == 1 else 'are'} oversubscribed: no efficiency can be given."


def _more_than_linear(curve: Curve) -> str:
    points = [point for point in curve.sound() if (point.efficiency or 0) > MORE_THAN_LINEAR]
    if not points or curve.base is None:
        return ""
    best = max(points, key=lambda point: point.efficiency or 0)
    return (
        f"{best.world} does more than {times_text(best.world.ranks / curve.base.world.ranks)} {curve.base.world} "
        f"(efficiency {percent_text(best.efficiency)}): a part of the work fits a cache or memory once it is divided, "
        f"or {curve.base.world} was disturbed; measure it again."
    )


def _near_the_limit(curve: Curve) -> str:
    """Return a sentence on the worlds for which the spread of the rates alone decides whether their efficiency is above
    or below the limit for a recommendation; "" if there are none."""
    if curve.base is None:
        return ""
    unsure = []
    for point in curve.sound()[1:]:
        ends = efficiency_range(point, curve.base)
        if ends is not None and ends[0] < LEAST_EFFICIENCY <= ends[1]:
            unsure.append(f"{point.world} ({percent_text(ends[0])} to {percent_text(ends[1])})")
    if not unsure:
        return ""
    limit = percent_text(LEAST_EFFICIENCY)
    return f"The rates vary: efficiency may be on either side of {limit}: {list_text(unsure)}; measure longer."


def _single_values(curve: Curve) -> str:
    if any(point.low is not None for point in curve.measured()):
        return ""
    return "Each world was measured once, with one value: their spread is unknown."

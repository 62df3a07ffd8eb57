"""The resources that the nodes' ranks used while they ran: CPU cores, memory, network, GPUs, as sampled by the
agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import nan
from statistics import median

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.sections.charts import draw_charts

_NODES = 16
"""The largest number of nodes that have a line each. For more nodes, their lowest, median and highest values are
drawn."""

_READ = 1024
_FEW = 3
"""The smallest number of samples for a line: each value is computed from a sample and the one before it."""

_PLACES = 200
"""The number of points of the lines for the lowest, median and highest values."""

_GIB, _MIB = 1 << 30, 1 << 20


class Curve(NamedTuple):
    """The values of one node over time, in Unix seconds."""

    node: int
    times: list[float]
    values: list[float]


Value = Callable[[Any, Any], "float | None"]
"""A function that computes a value from a sample and the one before it; None if that is unknown."""


def node_use(facts: RunFacts) -> list[Child]:
    if facts.metrics is None or facts.plan is None:
        return []
    numbers = range(min(len(facts.plan.nodes), _READ))
    read = {number: facts.metrics.read_node_samples(facts.paths, number) for number in numbers}
    samples = {number: found.samples for number, found in read.items() if found and len(found.samples) >= _FEW}
    charts = [chart for title, unit, value in _KINDS for chart in _chart(facts, samples, title, unit, value)]
    return draw_charts(facts.pictures, charts)


def _chart(facts: RunFacts, samples: dict[int, Sequence[Any]], title: str, unit: str, value: Value) -> Iterator[Any]:
    """Yield the chart of one resource, with `value` of each node over time, from the nodes' `samples`; nothing if no
    node has such values."""
    curves = [_curve(number, each, value) for number, each in samples.items()]
    curves = [curve for curve in curves if any(value == value for value in curve.values)]
    if not curves:
        return
    start = min(curve.times[0] for curve in curves)
    make = _node_lines if len(curves) <= _NODES else _spread_lines
    lines = tuple(facts.pictures.Line(label, xs, ys) for label, xs, ys in make(curves, start))
    yield facts.pictures.Chart(title, "seconds", unit, lines)


def _curve(number: int, samples: Sequence[Any], value: Value) -> Curve:
    pairs = list(pairwise(samples))
    found = [value(later, earlier) for earlier, later in pairs]
    return Curve(number, [later.time for _, later in pairs], [nan if each is None else each for each in found])


def _node_lines(curves: Sequence[Curve], start: float) -> Iterator[tuple[str, list[float], list[float]]]:
    for curve in curves:
        yield f"node {curve.node}", [time - start for time in curve.times], curve.values


def _spread_lines(curves: Sequence[Curve], start: float) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield three lines for a chart, as (label, times, values): the lowest, the median and the highest of all nodes'
    values, over equal intervals of the time since `start`."""
    width = max(max(curve.times[-1] for curve in curves) - start, 1e-3) / _PLACES
    places: dict[int, list[float]] = {}
    for curve in curves:
        for time, value in zip(curve.times, curve.values, strict=True):
            if value == value:
                places.setdefault(int((time - start) / width), []).append(value)
    xs = [place * width for place in sorted(places)]
    for label, pick in (("lowest", min), ("median", median), ("highest", max)):
        yield f"{label} of {len(curves)} nodes", xs, [pick(places[place]) for place in sorted(places)]


def _rate(later: float | None, earlier: float | None, seconds: float) -> float | None:
    if later is None or earlier is None or seconds <= 0:
        return None
    return max(0.0, later - earlier) / seconds


def _cores(now: Any, before: Any) -> float | None:
    """Return the number of CPU cores that a node's ranks kept busy between the samples `before` and `now`. Ranks that
    are not in both samples are not counted. None if no time has passed."""
    earlier = {each.rank: each.cpu for each in before.ranks}
    spent = sum(max(0.0, each.cpu - earlier.get(each.rank, each.cpu)) for each in now.ranks)
    return _rate(spent, 0.0, now.time - before.time)


def _memory(now: Any, before: Any) -> float | None:
    total: int = sum(each.memory for each in now.ranks)
    return total / _GIB


def _network(now: Any, before: Any) -> float | None:
    seconds = now.time - before.time
    rates = [_rate(now.received, before.received, seconds), _rate(now.sent, before.sent, seconds)]
    known = [rate for rate in rates if rate is not None]
    return sum(known) / _MIB if known else None


def _of_gpus(name: str, scale: float, mean: bool) -> Value:
    def value(now: Any, before: Any) -> float | None:
        found: list[float | None] = [getattr(each, name) for each in now.gpus]
        known = [each for each in found if each is not None]
        total: float = sum(known) * scale
        return (total / len(known) if mean else total) if known else None

    return value


_KINDS: tuple[tuple[str, str, Value], ...] = (
    ("CPU", "cores busy", _cores),
    ("Memory of the ranks", "GiB", _memory),
    ("Network, received and sent", "MiB/s", _network),
    ("GPUs, mean of each node", "% busy", _of_gpus("busy", 100.0, True)),
    ("Memory of the GPUs", "GiB", _of_gpus("memory", 1 / _GIB, False)),
    ("Power of the GPUs", "W", _of_gpus("power", 1.0, False)),
)

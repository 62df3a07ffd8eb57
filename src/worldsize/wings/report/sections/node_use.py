"""What the nodes' ranks used while they ran: CPU cores, memory, network, GPUs, as the agents sampled it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import nan
from statistics import median

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.sections.charts import draw_charts

_NODES = 16
"""The most nodes with a line each; of more, their lowest, median and highest values are drawn."""

_READ = 1024
_FEW = 3
"""Fewer samples make no line: a value is of a sample and the one before it."""

_PLACES = 200
"""Points of such lines."""

_GIB, _MIB = 1 << 30, 1 << 20


class Curve(NamedTuple):
    """Values over the time, in Unix seconds, of one node."""

    node: int
    times: list[float]
    values: list[float]


Value = Callable[[Any, Any], "float | None"]
"""Of a sample and the one before it."""


def node_use(facts: RunFacts) -> list[Child]:
    if facts.metrics is None or facts.plan is None:
        return []
    numbers = range(min(len(facts.plan.nodes), _READ))
    read = {number: facts.metrics.read_node_samples(facts.paths, number) for number in numbers}
    samples = {number: found.samples for number, found in read.items() if found and len(found.samples) >= _FEW}
    charts = [chart for title, unit, value in _KINDS for chart in _chart(facts, samples, title, unit, value)]
    return draw_charts(facts.pictures, charts)


def _chart(facts: RunFacts, samples: dict[int, Sequence[Any]], title: str, unit: str, value: Value) -> Iterator[Any]:
    """Yield the chart, unless no node has such values."""
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
    """Yield the lowest, the median and the highest of all nodes' values, over equal parts of the time."""
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
    """CPUs that the ranks kept busy; those that ended meanwhile count no more."""
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

"""Tables, sentences and charts of the benchmarks that are a curve over worlds: `resnet50` and `job`."""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.wings.bench.published.matching import published_sentences, published_table
from worldsize.wings.bench.result import BenchResult, Table
from worldsize.wings.bench.scaling.charts import scaling_charts
from worldsize.wings.bench.scaling.curve import Curve, Point, scaling_curve
from worldsize.wings.bench.scaling.recommendation import recommendation
from worldsize.wings.bench.scaling.wording import NONE, amount_text, percent_text

_OVERSUBSCRIBED = "oversubscribed"


def tables(result: BenchResult) -> tuple[Table, ...]:
    """Return the tables of a benchmark over worlds: the table of the worlds in the order of the measurements, and the
    table of published figures if any match."""
    curve = scaling_curve(result)
    columns = [column for column in _columns(curve, result) if column is not None]
    rows = tuple(tuple(cells[place] for _, cells in columns) for place in range(len(curve.points)))
    worlds = Table(result.title, tuple(header for header, _ in columns), rows)
    return tuple(table for table in (worlds, published_table(result)) if table is not None)


def sentences(result: BenchResult) -> tuple[str, ...]:
    return (*recommendation(result), *_notes(result), *published_sentences(result))


def charts(result: BenchResult, pictures: Any) -> tuple[Any, ...]:
    return scaling_charts(result, pictures)


def _columns(curve: Curve, result: BenchResult) -> list[tuple[str, list[str]] | None]:
    """Return the columns of the table of worlds, each as its header and its cells. An optional column is None if all of
    its cells would be empty."""
    points = curve.points
    over = f"over {curve.base.world}" if curve.base is not None and curve.base.world.ranks > 1 else ""
    return [
        ("world", [str(point.world) for point in points]),
        ("ranks", [str(point.world.ranks) for point in points]),
        (result.unit, [_rate_text(point) for point in points]),
        _optional("middle half", [_spread_text(point) for point in points]),
        _optional("seconds", [amount_text(point.measurement.seconds) for point in points]),
        (f"speed-up {over}".strip(), [amount_text(point.speed_up) for point in points]),
        ("efficiency", [_efficiency_text(point, curve) for point in points]),
        _optional("communication", [percent_text(point.measurement.communication) for point in points]),
        _optional(f"{curve.device}-hours", [amount_text(point.device_hours) for point in points]),
        _optional("cost", [amount_text(point.cost) for point in points]),
        _optional("run", [point.measurement.run or NONE for point in points]),
    ]


def _optional(header: str, cells: list[str]) -> tuple[str, list[str]] | None:
    return (header, cells) if any(cell != NONE for cell in cells) else None


def _rate_text(point: Point) -> str:
    if point.measurement.failure:
        return "failed"
    return amount_text(point.rate)


def _spread_text(point: Point) -> str:
    return NONE if point.low is None else f"{amount_text(point.low)}–{amount_text(point.high)}"


def _efficiency_text(point: Point, curve: Curve) -> str:
    """Return the efficiency of a world as text for the table. There is no number if the ranks of the world, or those of
    the curve's base, share cores or GPUs."""
    if point.rate is None:
        return NONE
    if point.measurement.oversubscribed:
        return _OVERSUBSCRIBED
    if curve.base is not None and curve.base.measurement.oversubscribed:
        return f"{curve.base.world} is {_OVERSUBSCRIBED}"
    return percent_text(point.efficiency)


def _notes(result: BenchResult) -> list[str]:
    """Return sentences on the runs of a benchmark's worlds: why they failed, which ranks share cores or GPUs, and
    whether all ran the same code."""
    found = []
    for each in result.measurements:
        found += [f"{each.world}: {text}" for text in (each.failure, each.oversubscribed) if text]
    codes: dict[str, list[str]] = {}
    for each in result.measurements:
        if each.code and each.rate is not None:
            codes.setdefault(each.code, []).append(str(each.world))
    if len(codes) > 1:
        groups = "; ".join(", ".join(worlds) for worlds in codes.values())
        found.append(f"The worlds did not all run the same code: {groups}.")
    return found

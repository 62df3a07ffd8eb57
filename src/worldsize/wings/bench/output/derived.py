"""The tables, sentences and data that are derived from a result, for every form of output: text, JSON, a page."""

from __future__ import annotations

from math import isfinite

from worldsize.common.named_tuple import Any, NamedTuple, cast
from worldsize.registry import load_module
from worldsize.wings.bench.kinds import KINDS, Benchmark
from worldsize.wings.bench.output.against import comparison_sentences, comparison_table
from worldsize.wings.bench.published.matching import published_sources
from worldsize.wings.bench.result import BenchResult, Table
from worldsize.wings.bench.scaling.curve import Curve, Point, scaling_curve


class Answer(NamedTuple):
    tables: tuple[Table, ...]
    sentences: tuple[str, ...]


def kind_of(result: BenchResult) -> Benchmark:
    """Return the module that implements the kind of benchmark that `result` is from. Raise ConfigError if this
    installation does not contain it."""
    module = KINDS.get(result.kind, result.kind).removeprefix("worldsize.")
    return cast("Benchmark", load_module(module, f"`worldsize bench {result.kind}`"))


def answer_of(result: BenchResult, against: BenchResult | None = None) -> Answer:
    """Return the tables and the sentences that describe a benchmark's `result`, with those of its comparison with the
    earlier result `against` if that is given."""
    kind = kind_of(result)
    tables, sentences = kind.tables(result), kind.sentences(result)
    if against is not None:
        table = comparison_table(result, against)
        tables = (*tables, table) if table is not None else tables
        sentences = (*sentences, *comparison_sentences(result, against))
    return Answer(tables, sentences)


def fact_tables(result: BenchResult) -> tuple[Table, ...]:
    """Return the tables of the hardware and the software that a benchmark's `result` was measured on, without empty
    ones."""
    pairs = (("Hardware", result.hardware), ("Software", result.software))
    return tuple(Table(caption, ("", ""), tuple(rows)) for caption, rows in pairs if rows)


def charts_of(result: BenchResult, pictures: Any) -> tuple[Any, ...]:
    return kind_of(result).charts(result, pictures)


def result_data(result: BenchResult, against: BenchResult | None = None) -> dict[str, Any]:
    """Return a benchmark's `result` and everything that is derived from it (sentences, tables, the curve, published
    sources), as JSON values, for `-o json`."""
    curve = scaling_curve(result)
    measurements = [_measurement_data(point, result, curve) for point in curve.points]
    data = {**result._asdict(), "settings": dict(result.settings), "measurements": measurements}
    data["hardware"] = [list(row) for row in result.hardware]
    data["software"] = [list(row) for row in result.software]
    text = answer_of(result, against)
    data["sentences"] = list(text.sentences)
    data["tables"] = [
        {"caption": table.caption, "headers": list(table.headers), "rows": [list(row) for row in table.rows]}
        for table in text.tables
    ]
    data["published"] = published_sources(result)
    return cast("dict[str, Any]", _finite(data))


def _measurement_data(point: Point, result: BenchResult, curve: Curve) -> dict[str, Any]:
    """Return the measurement of one world as a dict of JSON values. The fields of a curve (speed-up, efficiency, cost
    …) are included only if the result is a curve."""
    measurement = point.measurement
    data = {**measurement._asdict(), "world": str(measurement.world), "details": dict(measurement.details)}
    data["rates"] = list(measurement.rates)
    if not result.scaling:
        return data
    data["low"], data["high"] = point.low, point.high
    data["speed_up"], data["efficiency"], data["cost"] = point.speed_up, point.efficiency, point.cost
    data[f"{curve.device}_hours".lower()] = point.device_hours
    return data


def _finite(value: Any) -> Any:
    """Return the JSON value `value` with None in place of each float that JSON cannot express (infinite or not a
    number)."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value

"""A result as CSV, for a spreadsheet or another program."""

from __future__ import annotations

import csv
import io

from worldsize.common.named_tuple import Any
from worldsize.wings.bench.output.derived import kind_of
from worldsize.wings.bench.result import BenchResult, Table
from worldsize.wings.bench.scaling.curve import Point, scaling_curve

_COLUMNS = (
    "world", "nodes", "ranks_per_node", "ranks", "run", "rate", "unit", "low", "high", "seconds", "held", "gpus",
    "communication", "speed_up", "efficiency", "gpu_hours", "node_hours", "cost", "oversubscribed", "failure",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(result: BenchResult) -> str:
    """Return the CSV text of a benchmark's result. A curve over worlds has one row for each world, with unformatted
    numbers. Other results have the rows of their tables; tables with the same headers follow each other directly,
    others after an empty line."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if result.scaling:
        _write_curve(writer, result)
    else:
        _write_tables(writer, kind_of(result).tables(result))
    return stream.getvalue()


def _write_curve(writer: Any, result: BenchResult) -> None:
    curve = scaling_curve(result)
    writer.writerow(_COLUMNS)
    for point in curve.points:
        writer.writerow([_cell(value) for value in _values(point, result, curve.device)])


def _values(point: Point, result: BenchResult, device: str) -> list[Any]:
    each, world = point.measurement, point.world
    hours = [point.device_hours, None] if device == "GPU" else [None, point.device_hours]
    return [
        str(world), world.nodes, world.ranks_per_node, world.ranks, each.run, point.rate, result.unit, point.low,
        point.high, each.seconds, each.held, each.gpus, each.communication, point.speed_up, point.efficiency, *hours,
        point.cost, each.oversubscribed, each.failure,
    ]  # fmt: skip


def _write_tables(writer: Any, tables: tuple[Table, ...]) -> None:
    before: tuple[str, ...] | None = None
    for table in tables:
        if table.headers != before:
            if before is not None:
                writer.writerow([])
            writer.writerow(["table", *map(_cell, table.headers)])
        before = table.headers
        for row in table.rows:
            writer.writerow([_cell(table.caption), *map(_cell, row)])


def _cell(value: Any) -> Any:
    """Return `value` as a cell of a CSV file: a number, or a text in one line that a spreadsheet does not interpret as
    a formula; "" for None and for numbers that are not finite."""
    if value is None or (isinstance(value, float) and not abs(value) < float("inf")):
        return ""
    if not isinstance(value, str):
        return value
    text = " ".join(value.split()).encode("utf-8", "backslashreplace").decode()
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(".", "", 1).replace(",", "").isdecimal()

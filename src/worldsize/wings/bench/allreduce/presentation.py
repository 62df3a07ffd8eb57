"""Presentation of an all-reduce benchmark as tables, sentences and charts."""

from __future__ import annotations

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import size_text
from worldsize.wings.bench.allreduce.bandwidth import algorithm_bandwidth, best_time, bus_bandwidth, row_bandwidth
from worldsize.wings.bench.allreduce.network import network_sentence
from worldsize.wings.bench.allreduce.report import Report, Row, parse_report
from worldsize.wings.bench.result import BenchResult, Measurement, Table

_SIZE = ("size (B)", "count", "type", "redop", "root")
_OUT_OF_PLACE = ("time (us)", "algbw", "busbw", "#wrong")
_IN_PLACE = tuple(f"in-place {name}" for name in _OUT_OF_PLACE)
"""The headers of the in-place columns. All headers differ, so that a program that reads the CSV finds each column by
its name."""
_TYPES = {"float32": "float", "float64": "double", "float16": "half"}
"""The names of nccl-tests for types, if they differ from the usual names."""


def tables(result: BenchResult) -> tuple[Table, ...]:
    """Return a table of the all-reduce benchmark's `result` for each world, with the columns of nccl-tests: out of
    place if the library supports it, then in place. Bandwidths are in GB/s."""
    return tuple(_table(each, report) for each, report in _reports(result))


def sentences(result: BenchResult) -> tuple[str, ...]:
    """Return sentences on the all-reduce benchmark's `result`: the highest bandwidth and the lowest latency of each
    world, what may be concluded from them, and the worlds that failed."""
    found = []
    for each, report in _reports(result):
        if each.failure:
            continue  # the speed of a wrong sum means nothing
        found.append(_speed_sentence(each, report))
        if each.world.nodes > 1:
            found.append(network_sentence(each.world, report, dict(result.hardware)))
        if each.oversubscribed:
            found.append(f"{each.world}: {each.oversubscribed}.")
    for each in result.measurements:
        if each.failure:
            found.append(f"{each.world} failed: {each.failure}.")
    return tuple(found) or ("Nothing was measured.",)


def charts(result: BenchResult, pictures: Any) -> tuple[Any, ...]:
    """Return two charts of the all-reduce benchmark's `result` with a line for each world: the bus bandwidth over the
    size, and the time over the size. Empty if nothing was measured."""
    found = [(each, report) for each, report in _reports(result) if not each.failure]
    if not found:
        return ()
    bandwidths, times = [], []
    for each, report in found:
        sizes = tuple(float(row.size) for row in report.rows)
        name = str(each.world)
        bandwidths.append(pictures.Line(name, sizes, tuple(row_bandwidth(row, report.ranks) for row in report.rows)))
        times.append(pictures.Line(name, sizes, tuple(best_time(row) * 1e6 for row in report.rows)))
    how = {"x_label": "bytes", "x_scale": "log2"}
    return (
        pictures.Chart(title="Bus bandwidth of all-reduce", lines=tuple(bandwidths), y_label="GB/s", **how),
        pictures.Chart(title="Time of one all-reduce", lines=tuple(times), y_label="µs", y_scale="log2", **how),
    )


def _reports(result: BenchResult) -> list[tuple[Measurement, Report]]:
    """Return the measurements of `result` that contain a valid all-reduce report, each with its report. The details in
    a result file may be anything."""
    found = []
    for each in result.measurements:
        try:
            found.append((each, parse_report(dict(each.details))))
        except PARSE_ERRORS:
            continue  # a world that failed, or is still being measured
    return found


def _table(each: Measurement, report: Report) -> Table:
    both = any(row.out_seconds is not None for row in report.rows)
    forms = "out of place, then in place" if both else "in place"
    caption = f"{each.world}: {report.ranks} ranks, {report.backend}, {report.device}: {forms}; GB/s"
    headers = (*_SIZE, *(_OUT_OF_PLACE if both else ()), *_IN_PLACE)
    return Table(caption, headers, tuple(_row(row, report, both) for row in report.rows))


def _row(row: Row, report: Report, both: bool) -> tuple[str, ...]:
    left = _columns(row.size, row.out_seconds, row.out_wrong, report.ranks) if both else ()
    right = _columns(row.size, row.seconds, row.wrong, report.ranks)
    return (str(row.size), str(row.count), _TYPES.get(report.dtype, report.dtype), "sum", "-1", *left, *right)


def _columns(size: int, seconds: float | None, wrong: int | None, ranks: int) -> tuple[str, ...]:
    if seconds is None:
        return ("N/A",) * 4
    bandwidths = algorithm_bandwidth(size, seconds), bus_bandwidth(size, seconds, ranks)
    return (f"{seconds * 1e6:.1f}", *(f"{each:.2f}" for each in bandwidths), "N/A" if wrong is None else str(wrong))


def _speed_sentence(each: Measurement, report: Report) -> str:
    fastest = max(report.rows, key=lambda row: row_bandwidth(row, report.ranks))
    smallest = min(report.rows, key=lambda row: row.size)
    bus = row_bandwidth(fastest, report.ranks)
    return (
        f"{each.world}: at most {bus:.3g} GB/s of bus bandwidth, at {size_text(fastest.size)}; "
        f"{size_text(smallest.size)} take {best_time(smallest) * 1e6:.4g} µs."
    )

"""The output of `worldsize metrics` for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from worldsize.cli.console import duration_text
from worldsize.cli.runs.array import values_text
from worldsize.cli.table import table
from worldsize.common.numbers import bytes_text, size_text
from worldsize.wings.metrics.selection import RunValues, Summary, labels, series_key, source_text, summarize_series
from worldsize.wings.metrics.series import Point, Series
from worldsize.wings.metrics.usage import NodeFigures
from worldsize.wings.metrics.words import age_text, shortened, sparkline, value_text

_COLUMNS = 8
_RUNS_ACROSS = 4
_UNKNOWN = "-"


def values_table(values: RunValues, now: float) -> list[str]:
    """Return the table of `worldsize metrics` for one run as lines: a row for each series of logged values, followed by
    a sentence for each series with a NaN value about the first one. `now` is the time from which the ages are counted.
    """
    headers = ["NAME", "LAST", "STEP", "LOWEST", "HIGHEST", "RANK", "SOURCE", "AGE"]
    rows = [_cells(summary, values.ranks, now) for summary in values.summaries]
    if _has_blocks():
        headers.append("COURSE")
        for row, summary in zip(rows, values.summaries, strict=True):
            row.append(sparkline([point.value for point in summary.series.points]))
    return table(rows, headers) + [_nan_line(each) for each in values.summaries if each.first_nan]


def series_row(series: Series) -> tuple[list[str], str]:
    """Return the cells of one series in the table of `worldsize metrics`, without its age, and a sentence about the
    first NaN value, or ""."""
    summary = summarize_series(series)
    return _cells(summary, (), 0.0)[:7], _nan_line(summary) if summary.first_nan else ""


def _nan_line(summary: Summary) -> str:
    """Return the sentence about the first NaN value of a series, such as "loss of rank 0 was nan for the first time at
    step 50"."""
    series, first = summary.series, summary.first_nan
    who = shortened(series.name) + ("" if series.rank is None else f" of rank {series.rank}")
    step = "" if first is None or first.step is None else f" at step {first.step}"
    return f"{who} was nan for the first time{step}"


def _has_blocks() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def _cells(summary: Summary, ranks: Sequence[int], now: float) -> list[str]:
    series, last = summary.series, summary.last
    rank = _UNKNOWN if series.rank is None else str(series.rank)
    return [
        shortened(series.name), value_text(last.value), _UNKNOWN if last.step is None else str(last.step),
        _point_text(summary.lowest), _point_text(summary.highest), rank, shortened(source_text(series)),
        age_text(now - last.time),
    ]  # fmt: skip


def _point_text(point: Point | None) -> str:
    return _UNKNOWN if point is None else value_text(point.value)


def runs_table(runs: Sequence[RunValues], which: str) -> list[str]:
    """Return the table of `worldsize metrics` for several runs as lines, with one value of each series: the "last",
    "lowest" or "highest", as `which` states. A few runs are columns. Many runs, and the elements of an array with their
    inputs, are rows."""
    names = labels(runs)
    columns = list(dict.fromkeys(names[series_key(each.series)] for run in runs for each in run.summaries))
    shown = [{names[series_key(each.series)]: _chosen_text(each, which) for each in run.summaries} for run in runs]
    across = len(runs) <= _RUNS_ACROSS and not any(run.chosen.array for run in runs)
    if across:
        rows = [[shortened(name), *(values.get(name, "") for values in shown)] for name in columns]
        return table(rows, ["NAME", *(run.chosen.id for run in runs)])
    inputs = any(run.chosen.inputs for run in runs)
    rows = [
        [run.chosen.id, *([shortened(values_text(run.chosen.inputs))] if inputs else []),
         *(values.get(name, "") for name in columns[:_COLUMNS])]
        for run, values in zip(runs, shown, strict=True)
    ]  # fmt: skip
    headers = ["RUN", *(["INPUTS"] if inputs else []), *map(_header, columns[:_COLUMNS])]
    left = len(columns) - _COLUMNS
    return table(rows, headers) + ([f"… and {left} more names: select with --name"] if left > 0 else [])


def _header(name: str) -> str:
    from worldsize.logs.text import escape

    return escape(shortened(name)).replace("\t", "\\t")


def _chosen_text(summary: Summary, which: str) -> str:
    point: Point | None = getattr(summary, which)
    return _point_text(point)


def used_tables(nodes: Sequence[NodeFigures]) -> list[str]:
    """Return the tables of `worldsize metrics --used` for one run as lines: what its nodes have used, then its GPUs,
    then its ranks, separated by empty lines."""
    gpus = [[str(node.node_rank), *_gpu_cells(node, at)] for node in nodes for at in range(len(node.gpus))]
    ranks = [_rank_cells(node, at) for node in nodes for at in range(len(node.ranks))]
    ranks.sort(key=lambda row: int(row[0]))
    lines = table([_node_cells(node) for node in nodes], ["NODE", "HOST", "CPUS", "MEMORY", "RECEIVED", "SENT", "OVER"])
    if gpus:
        lines += ["", *table(gpus, ["NODE", "GPU", "MODEL", "BUSY", "MEMORY", "POWER"])]
    if ranks:
        lines += ["", *table(ranks, ["RANK", "NODE", "CPUS", "MEMORY", "READ", "WRITTEN"])]
    return lines


def _node_cells(node: NodeFigures) -> list[str]:
    return [
        str(node.node_rank), shortened(node.host), _of(_number(node.cpus), str(node.cores)),
        _of(_bytes(node.memory), _bytes(node.memory_size)), _speed(node.received), _speed(node.sent),
        duration_text(node.seconds),
    ]  # fmt: skip


def _gpu_cells(node: NodeFigures, at: int) -> list[str]:
    gpu = node.gpus[at]
    busy = _UNKNOWN if gpu.busy is None else f"{100 * gpu.busy:.0f} %"
    power = _UNKNOWN if gpu.power is None else f"{gpu.power:.0f} W"
    return [str(gpu.gpu), shortened(gpu.model), busy, _of(_bytes(gpu.memory), _bytes(gpu.memory_size)), power]


def _rank_cells(node: NodeFigures, at: int) -> list[str]:
    rank = node.ranks[at]
    return [
        str(rank.rank), str(node.node_rank), _number(rank.cpus), _bytes(rank.memory), _bytes(rank.read),
        _bytes(rank.written),
    ]  # fmt: skip


def _of(part: str, whole: str) -> str:
    return part if _UNKNOWN in (part, whole) else f"{part} of {whole}"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.3g}"


def _bytes(value: float | None) -> str:
    return _UNKNOWN if value is None else size_text(value)


def _speed(value: float | None) -> str:
    return _UNKNOWN if value is None else bytes_text(value) + "/s"

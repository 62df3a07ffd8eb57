"""The output of `worldsize metrics` for programs: JSON, and CSV in the long format."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from worldsize.wings.metrics.all_series import read_series_of_others
from worldsize.wings.metrics.logged_values import iterate_values
from worldsize.wings.metrics.selection import (
    ChosenRun,
    RunValues,
    Summary,
    Wanted,
    is_wanted_name,
    logged_ranks,
    wanted_ranks,
)
from worldsize.wings.metrics.series import Point
from worldsize.wings.metrics.usage import NodeFigures

CSV_COLUMNS = ("run", "name", "step", "time", "value", "rank", "source", "attempt", "place")
_ROWS = 10_000


def values_data(values: RunValues) -> list[dict[str, Any]]:
    """Return one JSON object for each series of logged values of a run: {run, inputs, name, source, place, rank,
    points, last, lowest, highest, first_nan}. A value that is no JSON number is the text "nan", "inf" or "-inf"."""
    chosen = values.chosen
    return [{"run": chosen.id, "inputs": dict(chosen.inputs), **_summary_data(each)} for each in values.summaries]


def _summary_data(summary: Summary) -> dict[str, Any]:
    series = summary.series
    return {
        "name": series.name,
        "source": series.source,
        "place": series.place,
        "rank": series.rank,
        "points": len(series.points),
        "last": _point_data(summary.last),
        "lowest": _point_data(summary.lowest),
        "highest": _point_data(summary.highest),
        "first_nan": _point_data(summary.first_nan),
    }


def _point_data(point: Point | None) -> dict[str, Any] | None:
    return None if point is None else {**point._asdict(), "value": _number_data(point.value)}


def _number_data(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def used_data(run: str, nodes: Sequence[NodeFigures]) -> list[dict[str, Any]]:
    """Return a JSON object with the resource use of each node of a run, for `worldsize metrics --used -o json`. The
    node's GPUs and ranks are lists of objects."""
    return [
        {
            "run": run,
            **node._asdict(),
            "gpus": [each._asdict() for each in node.gpus],
            "ranks": [each._asdict() for each in node.ranks],
        }
        for node in nodes
    ]


def write_csv(runs: Sequence[ChosenRun], wanted: Wanted, write: Callable[[str], object]) -> int:
    """Write all logged values that `wanted` selects as CSV text, in pieces, with the function `write`; return the
    number of rows. Values that a later attempt has repeated are included. Raise UsageError if a run does not have a
    wanted rank."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(CSV_COLUMNS)
    count = 0
    for run in runs:
        for row in _rows(run, wanted):
            rows.writerow(row)
            count += 1
            if count % _ROWS == 0:
                write(text.getvalue())
                text.seek(0)
                text.truncate()
    write(text.getvalue())
    return count


def _rows(chosen: ChosenRun, wanted: Wanted) -> Iterator[tuple[object, ...]]:
    run, paths = chosen.id, chosen.run.paths
    ranks = None if wanted.ranks is None else wanted_ranks(chosen.run, wanted.ranks, logged_ranks(chosen.run))
    known: dict[str, bool] = {}
    for name, rank, (step, time, value, attempt) in iterate_values(paths, ranks):
        if name not in known:
            known[name] = is_wanted_name(name, wanted.names)
        if known[name]:
            yield run, name, step, time, value, rank, "log", attempt, ""
    for series in read_series_of_others(paths):
        if is_wanted_name(series.name, wanted.names) and (ranks is None or series.rank in (None, *ranks)):
            for step, time, value, attempt in series.points:
                yield run, series.name, step, time, value, series.rank, series.source, attempt, series.place

"""A picture of series, with a chart for each name and a line for each run and rank."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from worldsize.common.atomic_files import storage_error
from worldsize.errors import UsageError
from worldsize.service.providers import provider
from worldsize.wings.metrics.selection import RunValues, labels, series_key
from worldsize.wings.metrics.series import Series

MAX_CHARTS = 24
FORMATS = ("png", "svg")


def picture_format(path: str) -> str:
    """Return the format of a picture by the extension of its file name, "png" or "svg". Raise UsageError for another
    extension."""
    ending = os.path.splitext(path)[1][1:].lower()
    if ending not in FORMATS:
        raise UsageError(f"{path[:60]!r}: its name must end with .png or .svg", "--plot", "such as --plot loss.png")
    return ending


def write_picture(path: str, runs: Sequence[RunValues]) -> int:
    """Draw the logged values of runs, with a chart for each name, and write the picture to `path`; return the number of
    names that do not fit into it. Raise ConfigError without matplotlib, UsageError for another extension than .png or
    .svg, and StorageError if the file cannot be written."""
    format = picture_format(path)
    pictures = provider("pictures")
    charts = make_charts(runs, pictures)
    data = pictures.draw_charts(charts[:MAX_CHARTS], format)
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise storage_error(error, path) from None
    return max(0, len(charts) - MAX_CHARTS)


def make_charts(runs: Sequence[RunValues], pictures: Any) -> list[Any]:
    """Return a Chart for each name of the runs' logged values, with a line for each run and rank, over steps, or over
    seconds if a value has no step. `pictures` is the provider of the pictures wing."""
    names = labels(runs, with_ranks=False)
    lines: dict[str, list[tuple[str, Series]]] = {}
    for run in runs:
        for summary in run.summaries:
            series = summary.series
            lines.setdefault(names[series_key(series)], []).append((run.chosen.id, series))
    return [_chart(name, entries, len(runs) > 1, pictures) for name, entries in lines.items()]


def _chart(name: str, entries: Sequence[tuple[str, Series]], several: bool, pictures: Any) -> Any:
    stepped = all(point.step is not None for _, series in entries for point in series.points)
    ranks = len({series.rank for _, series in entries}) > 1
    lines = tuple(
        pictures.Line(
            _line_label(name, run if several else "", series.rank if ranks else None), *_values(series, stepped)
        )
        for run, series in entries
    )
    return pictures.Chart(name, "step" if stepped else "seconds", "", tuple(lines))


def _line_label(name: str, run: str, rank: int | None) -> str:
    words = ([run] if run else []) + ([f"rank {rank}"] if rank is not None else [])
    return " ".join(words) or name


def _values(series: Series, stepped: bool) -> tuple[list[float], list[float]]:
    points = series.points
    begun = points[0].time
    xs = [float(point.step or 0) if stepped else point.time - begun for point in points]
    return xs, [point.value for point in points]

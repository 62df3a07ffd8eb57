"""The runs and the series that a command line names, and the summary of each series for a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from worldsize.errors import NotFound
from worldsize.logs.selection import parse_numbers
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.run import Run
from worldsize.wings.metrics.all_series import read_all_series
from worldsize.wings.metrics.run_files import all_attempts, rank_files
from worldsize.wings.metrics.series import Point, Series, current_points


class ChosenRun(NamedTuple):
    """A run, or an element of an array with those of its `inputs` that vary."""

    run: Run
    inputs: Mapping[str, Any]
    array: str = ""

    @property
    def id(self) -> str:
        return self.run.id


class Summary(NamedTuple):
    """The summary of a series, without the points that a later attempt has repeated. `lowest` and `highest` are the
    first points with these values; None if every value is NaN."""

    series: Series
    last: Point
    lowest: Point | None
    highest: Point | None
    first_nan: Point | None


class Wanted(NamedTuple):
    """The selection of logged values that a command line makes.

    names  patterns, any of which a name matches; empty: every name
    ranks  as in `--rank`; None: for each name the lowest rank that has logged it
    """

    names: Sequence[str] = ()
    ranks: str | None = None


class RunValues(NamedTuple):
    """The values of a run that are shown, the names of all values that were read, and the ranks that have called
    worldsize.log."""

    chosen: ChosenRun
    summaries: tuple[Summary, ...]
    names: tuple[str, ...]
    ranks: tuple[int, ...]


def runs_of(found: Run | RunArray) -> list[ChosenRun]:
    """Return a list with the run `found`, or with all elements of the array `found` and their inputs. Raise NotFound if
    the run directory has been deleted."""
    if not os.path.isdir(found.paths.root):
        raise NotFound("its run directory was deleted", found.paths.root)
    if isinstance(found, Run):
        return [ChosenRun(found, {})]
    return [ChosenRun(run, found.values(number), found.id) for number, run in enumerate(found)]


def read_values(chosen: ChosenRun, wanted: Wanted) -> RunValues:
    """Read what a run has logged by any means, and return a summary of each series that `wanted` selects. Raise
    UsageError if the run does not have a wanted rank."""
    run = chosen.run
    logged = logged_ranks(run)
    ranks = None if wanted.ranks is None else wanted_ranks(run, wanted.ranks, logged)
    everything = read_all_series(run.paths, ranks, every_rank=wanted.ranks is not None)
    series = [each for each in everything if is_wanted_name(each.name, wanted.names)]
    if wanted.ranks is None:
        series = _of_lowest_rank(series)
    elif ranks is not None:
        series = [each for each in series if each.rank is None or each.rank in ranks]
    names = sorted({each.name for each in everything})
    return RunValues(chosen, tuple(summarize_series(each) for each in series), tuple(names), tuple(logged))


def logged_ranks(run: Run) -> list[int]:
    """Return the ranks of a run that have called worldsize.log in any attempt, ascending."""
    return list(rank_files(all_attempts(run.paths)))


def is_wanted_name(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def wanted_ranks(run: Run, spec: str, logged: Sequence[int]) -> Collection[int] | None:
    """Return the ranks that the value `spec` of `--rank` selects, such as "0,5,8-11"; None for "all". `logged` are the
    ranks that have logged values. Raise UsageError for a rank that the run does not have."""
    if spec == "all":
        return None
    count = run.plan.world_size if run.has_plan() else max(logged, default=0) + 1
    return frozenset(parse_numbers(spec, count, "rank"))


def _of_lowest_rank(series: Sequence[Series]) -> list[Series]:
    """Return, of the logged series, those of the lowest rank for each name and source, at all places, and the series
    without a known rank."""
    lowest: dict[tuple[str, str], int] = {}
    for each in series:
        if each.rank is not None:
            key = each.name, each.source
            lowest[key] = min(each.rank, lowest.get(key, each.rank))
    return [each for each in series if each.rank in (None, lowest.get((each.name, each.source)))]


def summarize_series(series: Series) -> Summary:
    points = current_points(series.points)
    numbers = [point for point in points if point.value == point.value]
    lowest, highest = min(numbers, key=_value, default=None), max(numbers, key=_value, default=None)
    first_nan = next((point for point in points if point.value != point.value), None)
    return Summary(series._replace(points=points), points[-1], lowest, highest, first_nan)


def _value(point: Point) -> float:
    return point.value


def labels(runs: Sequence[RunValues], with_ranks: bool = True) -> dict[tuple[str, str, str, int | None], str]:
    """Return the label of each series of the runs in tables and pictures, by its `series_key`. The label is the series'
    name, followed by its source and (if `with_ranks`) its rank if one run has several series of that name."""
    series = [[summary.series for summary in each.summaries] for each in runs]
    sources = _ambiguous(series, lambda one: one.name, source_text)
    ranks = _ambiguous(series, _name_and_source, lambda one: str(one.rank)) if with_ranks else set()
    return {
        series_key(one): _label(one, one.name in sources, _name_and_source(one) in ranks) for of in series for one in of
    }


def series_key(series: Series) -> tuple[str, str, str, int | None]:
    return series.name, series.source, series.place, series.rank


def _name_and_source(series: Series) -> str:
    return f"{series.name}\0{source_text(series)}"


def _ambiguous(
    runs: Sequence[Sequence[Series]], name: Callable[[Series], str], text: Callable[[Series], str]
) -> set[str]:
    """Return the results of `name` for which one run has several series with different results of `text`, so that the
    label of these series must contain the text."""
    found: set[str] = set()
    for series in runs:
        first: dict[str, str] = {}
        found.update(name(one) for one in series if first.setdefault(name(one), text(one)) != text(one))
    return found


def _label(series: Series, with_source: bool, with_rank: bool) -> str:
    words = [source_text(series)] if with_source else []
    words += [f"rank {series.rank}"] if with_rank and series.rank is not None else []
    return f"{series.name} ({', '.join(words)})" if words else series.name


def source_text(series: Series) -> str:
    return f"{series.source} {series.place}" if series.place else series.source

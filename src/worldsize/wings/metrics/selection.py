"""The runs and the series that a command line names, and what a table says of each series."""

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
    """A run, or an element of an array with its `inputs` that vary."""

    run: Run
    inputs: Mapping[str, Any]
    array: str = ""

    @property
    def id(self) -> str:
        return self.run.id


class Summary(NamedTuple):
    """A series, without what a later attempt has repeated. `lowest`, `highest`: the first of them; None where every
    value is NaN."""

    series: Series
    last: Point
    lowest: Point | None
    highest: Point | None
    first_nan: Point | None


class Wanted(NamedTuple):
    """names  patterns, any of which a name matches; none: every name
    ranks     as `--rank` has them; None: of each name the lowest rank that has logged it
    """

    names: Sequence[str] = ()
    ranks: str | None = None


class RunValues(NamedTuple):
    """What of a run is shown, the names of all that was read, and the ranks that have called worldsize.log."""

    chosen: ChosenRun
    summaries: tuple[Summary, ...]
    names: tuple[str, ...]
    ranks: tuple[int, ...]


def runs_of(found: Run | RunArray) -> list[ChosenRun]:
    """Return the run, or all elements of the array. NotFound where the directory is gone."""
    if not os.path.isdir(found.paths.root):
        raise NotFound("its run directory was deleted", found.paths.root)
    if isinstance(found, Run):
        return [ChosenRun(found, {})]
    return [ChosenRun(run, found.values(number), found.id) for number, run in enumerate(found)]


def read_values(chosen: ChosenRun, wanted: Wanted) -> RunValues:
    """What the run has logged, and of it what is wanted. UsageError for ranks that it does not have."""
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
    """Return the ranks that have called worldsize.log, ascending."""
    return list(rank_files(all_attempts(run.paths)))


def is_wanted_name(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def wanted_ranks(run: Run, spec: str, logged: Sequence[int]) -> Collection[int] | None:
    """Return the ranks of `--rank`; None for all. UsageError for one that the run does not have."""
    if spec == "all":
        return None
    count = run.plan.world_size if run.has_plan() else max(logged, default=0) + 1
    return frozenset(parse_numbers(spec, count, "rank"))


def _of_lowest_rank(series: Sequence[Series]) -> list[Series]:
    """Of each name and source the series of the lowest rank, all its places, and those of which no rank is known."""
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
    """What each series, by its `series_key`, is called beside others: its name, and behind it what tells it apart where
    one run has several of that name."""
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
    """Return the names of which one run has series with different texts."""
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

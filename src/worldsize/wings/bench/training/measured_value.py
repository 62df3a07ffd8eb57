"""The value that measures the speed of a run: a value that it has logged, a number in its output, or its duration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import median

from worldsize.common.atomic_files import open_regular_file
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import NotFound, UsageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.providers import provider
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import read_exits
from worldsize.wings.bench.training.line_search import LineSearch

_LONGEST_LINE = 1 << 16
_MOST_VALUES = 1_000_000
_SHOWN_NAMES = 12
_WARM_UP = 0.1


class MeasuredValues(NamedTuple):
    """The values of a run, without those of the warm-up. `source` is their origin, for users: "lr of rank 0, by
    worldsize.log"."""

    values: tuple[float, ...]
    source: str


def logged_values(run: Run, name: str) -> MeasuredValues:
    """Return the values of the metric `name` that a run has logged, from the lowest rank that has logged it. Values
    that a later attempt repeats count once. Raise NotFound, with the names that exist, if there are none."""
    metrics = provider("metrics")
    found: Any = metrics.read_whole_series(run.paths, name)
    if found is None:
        everything: Sequence[Any] = metrics.read_series(run.paths, every_rank=False)
        found = next((each for each in everything if each.name == name), None)
    if found is None:
        names = sorted({each.name for each in everything})
        there = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
        raise NotFound(
            f"the run has logged no value named {name!r:.100}", "--metric", f"it has logged: {there or 'nothing'}"
        )
    values = [point.value for point in metrics.current_points(found.points)]
    whose = "" if found.rank is None else f" of rank {found.rank}"
    return MeasuredValues(_usable(values, name), f"{name}{whose}, by {found.source}")


def printed_values(run: Run, pattern: re.Pattern[str]) -> MeasuredValues:
    """Return the numbers that `pattern` finds in the output of a run's ranks, from the lowest rank whose output has
    any. Raise NotFound if there are none, and UsageError for a pattern whose search does not end."""
    with LineSearch(pattern) as search:
        for rank in range(run.plan.world_size):
            values = list(_numbers_in(run.paths, rank, search))
            if values:
                return MeasuredValues(_usable(values, pattern.pattern), f"output of rank {rank}")
    raise NotFound(
        f"{pattern.pattern!r:.100} finds no number in the output of any rank", "--pattern", f"worldsize logs {run.id}"
    )


def compiled_pattern(text: str) -> re.Pattern[str]:
    """Compile the regular expression of the option --pattern. Raise UsageError for an invalid one, and for one without
    a group for the number."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r:.100} is not a regular expression: {error}", "--pattern") from None
    if not pattern.groups:
        raise UsageError(f"{text!r:.100} has no group", "--pattern", r"put the number into one: 'images/s: ([\d.]+)'")
    return pattern


def work_seconds(run: Run) -> float | None:
    """Return how many seconds the ranks of a run worked, from their first start to the end of the last, on the node
    where this was longest, by its own clock. None if the run was restarted, because its last attempt may have continued
    from a checkpoint. Raise NotFound if no node has recorded it."""
    if run.paths.attempt:
        return None
    times = [
        max(rank.ended for rank in record.ranks) - min(rank.started for rank in record.ranks)
        for record in read_exits(run.paths, len(run.plan.nodes))
        if record.ranks
    ]
    if not times:
        raise NotFound("no node has recorded the duration of its ranks", run.paths.exit_dir)
    return max(times)


def settled_values(values: Sequence[float]) -> tuple[float, ...]:
    """Return the measured values of a run without those of the warm-up: the first tenth, and at least the first of
    three or more."""
    left_out = max(1, int(len(values) * _WARM_UP)) if len(values) >= 3 else 0
    return tuple(values[left_out:])


def usual_value(values: Sequence[float]) -> float:
    return float(median(values))


def _usable(values: Sequence[float], what: str) -> tuple[float, ...]:
    """Return the finite values above 0 of a run, without those of the warm-up. `what` names them in messages. Raise
    NotFound if there are none."""
    kept = tuple(value for value in values if isfinite(value) and value > 0)
    if not kept:
        raise NotFound(f"no value of {what!r:.100} is above 0", hint="name a rate, or a time with --seconds")
    return settled_values(kept)


def _numbers_in(paths: RunPaths, rank: int, search: LineSearch) -> Iterator[float]:
    group = "value" if "value" in search.pattern.groupindex else 1
    count = 0
    for line in _lines(paths.rank_log(rank)):
        found = search.find(line)
        number = _number(found.group(group)) if found else None
        if number is not None:
            yield number
            count += 1
        if count == _MOST_VALUES:
            return


def _lines(path: str) -> Iterator[str]:
    """Yield the lines of the log file at `path`, with bad UTF-8 replaced; none if it cannot be opened. A line of more
    than 64 KiB is yielded in pieces. A carriage return ends a line as well, because progress bars use it."""
    try:
        descriptor = open_regular_file(path)
    except OSError:
        return  # the rank has written nothing
    with open(descriptor, "rb") as file:
        while block := file.readline(_LONGEST_LINE):
            yield from block.decode("utf-8", "replace").rstrip("\n").split("\r")


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None

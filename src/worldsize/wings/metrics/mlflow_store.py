"""The reader for the values that a run's scripts have logged with MLflow. It reads the file store in the run
directory's `mlruns` without MLflow. If the nodes of a run share no run directory, the store is in `outputs/mlruns`,
once the outputs have been fetched.

Any user's scripts may write the store, so nothing in it is trusted: links are not followed, only regular files are
read, and all quantities are limited. Data that cannot be understood is left out, and nothing raises.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator

from worldsize.common.atomic_files import read_if_possible, read_tail
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.run_files import all_attempts
from worldsize.wings.metrics.series import Point, Series

MOST_EXPERIMENTS, MOST_RUNS, MOST_FILES = 100, 1000, 5000
"""The most experiments of a store; the most runs of all its experiments; the most metrics, and the most parameters, of
all its runs."""

MOST_BYTES = 2 << 20
"""The most bytes that are read at the end of one metric's file: about 60,000 points, the newest."""

MOST_BYTES_OF_ALL = 256 << 20
_DEEPEST, _LONGEST_NAME, _LONGEST_VALUE, _META_BYTES = 8, 256, 8000, 1 << 16
_NO_RUNS = frozenset((".trash", "models", "traces", "tags", "datasets"))
_CLAIM = "mlflow-"


class _StoredRun(NamedTuple):
    run_id: str
    path: str
    name: str


def read_mlflow(paths: RunPaths) -> list[Series]:
    """Return the metrics of all MLflow runs that a run's scripts have logged as series, sorted by their names. Of a
    long metric, the newest points are returned. The points of an attempt begin at the time when the attempt opened the
    MLflow run."""
    found, left = [], MOST_BYTES_OF_ALL
    for run, place in _places(paths).items():
        starts = _attempt_starts(paths, run.run_id)
        for name, path in _files(os.path.join(run.path, "metrics")):
            most = min(MOST_BYTES, left)
            data = read_tail(path, most)
            left -= len(data)
            lines = data.split(b"\n")[1 if len(data) == most else 0 :]  # the first line of a partial file is cut
            points = sorted(_points(lines, starts), key=lambda point: (point.attempt, point.time))
            if points:
                found.append(Series(name, "mlflow", None, tuple(points), place))
            if left <= 0 or len(found) >= MOST_FILES:
                return sorted(found, key=_order)
    return sorted(found, key=_order)


def _order(series: Series) -> tuple[str, str]:
    return series.name, series.place


def read_parameters(paths: RunPaths) -> dict[str, dict[str, str]]:
    """Return the parameters of each MLflow run in the run directory that has any, by the MLflow run's name as in
    `Series.place`, then by parameter name."""
    found, left = {}, MOST_FILES
    for run, place in _places(paths).items():
        values = {}
        for name, path in _files(os.path.join(run.path, "params")):
            if left <= 0:
                break
            left -= 1
            values[name] = read_if_possible(path, _LONGEST_VALUE).decode("utf-8", "replace")
        if values:
            found[place] = values
    return found


def _places(paths: RunPaths) -> dict[_StoredRun, str]:
    """Return the MLflow runs in the run directory, each mapped to its label for tables. MLflow runs with equal names
    have the beginning of their ids in the label, too."""
    outputs = [] if os.path.islink(paths.outputs) else [os.path.join(paths.outputs, "mlruns")]
    runs = [run for place in (paths.mlruns, *outputs) for run in _stored_runs(place)]
    counts = Counter(run.name for run in runs)
    return {run: run.name if counts[run.name] == 1 else f"{run.name} ({run.run_id[:8]})" for run in runs}


def _stored_runs(mlruns: str) -> Iterator[_StoredRun]:
    """Yield the MLflow runs in the file store `mlruns` that have not been deleted, at most MOST_RUNS. Links are not
    followed."""
    if os.path.islink(mlruns):
        return
    left = MOST_RUNS
    for experiment in _entries(mlruns, MOST_EXPERIMENTS):
        if not _is_directory(experiment) or experiment.name in _NO_RUNS:
            continue
        for entry in _entries(experiment.path, MOST_RUNS):
            if left <= 0:
                return
            if entry.name in _NO_RUNS or not _is_directory(entry):
                continue
            left -= 1
            run = _stored_run(entry)
            if run is not None:
                yield run


def _stored_run(entry: os.DirEntry[str]) -> _StoredRun | None:
    path = os.path.join(entry.path, "meta.yaml")  # a full disk may have left it empty
    if not os.path.isfile(path) or "\nlifecycle_stage: deleted" in _text(path, _META_BYTES):
        return None
    name = _text(os.path.join(entry.path, "tags", "mlflow.runName"), 4 * _LONGEST_NAME)
    return _StoredRun(_printable(entry.name), entry.path, name[:_LONGEST_NAME] or _printable(entry.name))


def _text(path: str, most: int) -> str:
    """Return the first `most` bytes of a file as text; "" if the file, or its directory, is a link."""
    if os.path.islink(path) or os.path.islink(os.path.dirname(path)):
        return ""
    return read_if_possible(path, most).decode("utf-8", "replace")


def _files(folder: str, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the files below a directory of an MLflow run, such as its `metrics`, each with its name in MLflow, in which
    `/` separates groups, and its path."""
    if depth >= _DEEPEST or (depth == 0 and os.path.islink(folder)):
        return
    for entry in _entries(folder, MOST_FILES):
        if _is_directory(entry):
            yield from _files(entry.path, name + _printable(entry.name) + "/", depth + 1)
        elif entry.is_file(follow_symlinks=False):
            yield (name + _printable(entry.name))[:_LONGEST_NAME], entry.path


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    """Return at most `most` entries of a directory, sorted by name; an empty list if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            found = list(itertools.islice(entries, most))
    except OSError:
        return []
    return sorted(found, key=lambda entry: entry.name)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _printable(name: str) -> str:
    """Return the name of a file as text, with bytes that are not UTF-8 replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _points(lines: list[bytes], starts: list[tuple[float, int]]) -> Iterator[Point]:
    """Yield the points of a metric from the lines of its MLflow file, such as `1764224000123 0.31 10`: milliseconds,
    value, step. `starts` are the times at which attempts began, by which each point gets its attempt."""
    for line in lines:
        words = line.split()
        if len(words) < 3 or max(map(len, words[:3])) > 30:
            continue
        try:
            time, value, step = int(words[0]) / 1000, float(words[1]), int(words[2])
        except ValueError:
            continue
        yield Point(step, time, value, _attempt_at(time, starts))


def _attempt_at(time: float, starts: list[tuple[float, int]]) -> int:
    before = [attempt for start, attempt in starts if start <= time + 0.001]
    return before[-1] if before else starts[0][1] if starts else 0


def _attempt_starts(paths: RunPaths, run_id: str) -> list[tuple[float, int]]:
    """Return the time at which each attempt opened the MLflow run `run_id`, with the attempt's number, sorted by time.
    A rank records this time (`claim` in its `place.py`)."""
    starts = []
    for each in all_attempts(paths):
        for name in (f"{_CLAIM}{run_id}-{each.attempt}", f"{_CLAIM}{run_id}-0"):
            time = _time(os.path.join(each.metrics_dir, name))
            if time is not None:
                starts.append((time, each.attempt))
                break
    return sorted(starts)


def _time(path: str) -> float | None:
    try:
        time = float(_text(path, 40))
    except ValueError:
        return None
    return time if math.isfinite(time) else None

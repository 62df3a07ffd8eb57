"""The reader for the values that ranks have logged with `worldsize.log`, in the `attempt-N/metrics/rank-NNNNN.jsonl` of
all attempts.

Lines that are cut off, or not in the format of `worldsize.log`, are left out, and so are values that are no numbers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from worldsize.common.atomic_files import read_tail
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.run_files import all_attempts, rank_files, read_ends, whole_lines
from worldsize.wings.metrics.series import Point, Series
from worldsize.wings.metrics.thinning import ThinnedSeries, Value
from worldsize.wings.metrics.words import age_text, value_text

MAX_BYTES = 1 << 30
"""The most bytes that are read of a file; of a longer file, the newest are read."""

MAX_ALL_BYTES = 4 << 30
"""The most bytes that are read of all files of a run, in the order of the ranks."""

MAX_NAME = 1000
"""The most characters of a name; longer names are left out."""

_TAIL = 64 << 10
_END = 16 << 10
_LATEST_VALUES = 3
_NAMED_RANKS = 8
_LARGEST_STEP = 1 << 53
_WORDS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class LoggedLine(msgspec.Struct, gc=False):
    """The line of one call of `worldsize.log`."""

    time: float
    values: dict[str, Any]
    step: int | None = None

    def numbers(self) -> list[tuple[str, float]]:
        """Return the names and values that the call has logged, as pairs. Values that are no numbers and names that are
        too long are left out."""
        found = [(name, value if type(value) is float else _number(value)) for name, value in self.values.items()]
        return [(name, value) for name, value in found if value is not None and len(name) <= MAX_NAME]


_DECODER = msgspec.json.Decoder(LoggedLine)


def _number(value: Any) -> float | None:
    if type(value) is int:
        return float(value) if abs(value) < 1 << 1000 else None
    return _WORDS.get(value) if isinstance(value, str) else None


class _Budget:
    """The number of bytes that may still be read of all files of a run."""

    def __init__(self) -> None:
        self.left = MAX_ALL_BYTES


def read_logged_values(paths: RunPaths, ranks: Collection[int] | None = None, every_rank: bool = True) -> list[Series]:
    """Return the values that a run has logged with `worldsize.log` in all attempts: one series for each name and rank,
    thinned (`thinning.py`); of all ranks, or only of `ranks`. Without `every_rank`, a rank is left out if all names at
    the beginnings and ends of its files have been logged by lower ranks."""
    series: ThinnedSeries[tuple[str, int]] = ThinnedSeries()
    budget = _Budget()
    for rank, files in _files(paths, ranks):
        if every_rank or not _names_at_ends(files) <= {name for name, _ in series.known_keys()}:
            for name, value in _values(files, budget):
                series.add((name, rank), value)
    return [
        Series(name, "log", rank, tuple([Point(*value) for value in values])) for (name, rank), values in series.items()
    ]


def iterate_values(paths: RunPaths, ranks: Collection[int] | None = None) -> Iterator[tuple[str, int, Value]]:
    """Yield every value that a run has logged with `worldsize.log` as its name, its rank and the fields of a Point; of
    all ranks, or only of `ranks`. The values are not thinned, and come in the order of ranks, then of attempts."""
    budget = _Budget()
    for rank, files in _files(paths, ranks):
        for name, point in _values(files, budget):
            yield name, rank, point


def read_whole_series(paths: RunPaths, name: str) -> Series | None:
    """Return the values of the name `name` of the lowest rank that has logged it with `worldsize.log`; None if no rank
    has. The values are not thinned, because statistics of thinned values would be those of the highest and lowest ones.
    """
    points: list[Point] = []
    whose: int | None = None
    for found, rank, value in iterate_values(paths):
        if whose is not None and rank != whose:
            break
        if found == name:
            whose = rank
            points.append(Point(*value))
    return Series(name, "log", whose, tuple(points)) if points else None


def _files(paths: RunPaths, ranks: Collection[int] | None) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    for rank, files in rank_files(all_attempts(paths)).items():
        if ranks is None or rank in ranks:
            yield rank, files


def _values(files: Sequence[tuple[int, str]], budget: _Budget) -> Iterator[tuple[str, Value]]:
    for attempt, path in files:
        for piece in whole_lines(path, min(MAX_BYTES, budget.left)):
            budget.left -= len(piece)
            for line in _parse_lines(piece):
                step, at = line.step, line.time
                for name, value in line.numbers():
                    yield name, (step, at, value, attempt)


def _names_at_ends(files: Sequence[tuple[int, str]]) -> set[str]:
    lines = (line for _, path in files for line in _parse_lines(b"\n".join(read_ends(path, _END))))
    return {name for line in lines for name, _ in line.numbers()}


def _parse_lines(piece: bytes) -> list[LoggedLine]:
    try:
        lines = _DECODER.decode_lines(piece)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        lines = [line for line in map(_parse_line, piece.split(b"\n")) if line is not None]
    return [line for line in lines if _is_sound(line)]


def _parse_line(line: bytes) -> LoggedLine | None:
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _is_sound(line: LoggedLine) -> bool:
    return 0 <= line.time < 1e12 and (line.step is None or -_LARGEST_STEP < line.step < _LARGEST_STEP)


def newest_names(paths: RunPaths) -> list[str]:
    """Return the names of values that the lowest eight ranks have logged with `worldsize.log`, sorted. Only the
    beginnings and ends of their files are read."""
    files = islice(rank_files(all_attempts(paths)).values(), _NAMED_RANKS)
    return sorted(set().union(*map(_names_at_ends, files)))


def progress_text(paths: RunPaths, now: float | None = None) -> str:
    """Return the latest values of the lowest rank that has logged any with `worldsize.log` in the attempt of `paths`,
    such as "step 1200, loss 0.32, 12 s ago"; "" without any. Only the ends of one or a few files are read."""
    for [(_, path)] in islice(rank_files([paths]).values(), _NAMED_RANKS):
        lines = _parse_lines(read_tail(path, _TAIL))
        if lines:
            return _latest_text(lines, time.time() if now is None else now)
    return ""


def _latest_text(lines: list[LoggedLine], now: float) -> str:
    """Return the values of all calls of `worldsize.log` at the newest step as text, such as "step 1200, loss 0.32, 12 s
    ago": a script may log them in several calls. `lines` are the last lines of a rank's file."""
    newest = lines[-1]
    values: dict[str, float] = {}
    for line in lines:
        if line is newest or (line.step is not None and line.step == newest.step):
            values.update(line.numbers())
    named = sorted(values, key=lambda name: "loss" not in name)[:_LATEST_VALUES]
    words = [f"step {newest.step}"] if newest.step is not None else []
    words += [f"{name[:40]} {value_text(values[name])}" for name in named]
    return ", ".join([*words, age_text(now - newest.time)])

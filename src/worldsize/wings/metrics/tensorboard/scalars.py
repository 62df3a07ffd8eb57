"""A reader that converts the scalars of event files into series.

The package tensorboard can read them, too, but is not used. It takes seconds to import and 60 MB with its dependencies,
and it is not made for untrusted files, whose lengths and counts have no bound. Here memory, files, records and bytes
are bounded, and a damaged record ends only the reading of its file.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable

from worldsize.common.atomic_files import Descriptor, open_regular_file
from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.metrics.series import Point, Series
from worldsize.wings.metrics.tensorboard.event_records import CHECKED, DamagedFile, EventRecords
from worldsize.wings.metrics.tensorboard.events import PARSE_ERRORS, parse_event
from worldsize.wings.metrics.thinning import MAX_POINTS, MAX_TOTAL, ThinnedSeries

MOST_SERIES = 1000
_MOST_TAGS = 20_000
"""The most names of values; a name counts once for each file."""

MOST_VALUES = 5_000_000
"""The most values of all files together, which take well below a minute; a record without values counts as one."""

MOST_BYTES = 2 << 30
_MOST_CHECKED = 32 << 20
MOST_SECONDS = 60.0
"""The most seconds for all files together: malicious bytes can take a hundred times the time of normal files."""

_LOOK_EVERY = 32
"""The number of records between two checks of the clock."""

_LONGEST_NAME = 300
_LONGEST_TAG = 4 * _LONGEST_NAME


class EventFile(NamedTuple):
    """An event file with its place, rank and attempt. `place` is as in Series. `rank` is None if it is not known."""

    path: str
    place: str
    rank: int | None = None
    attempt: int = 0


class ScalarReader:
    """A reader for the scalars of several event files. Files are read from the newest to the oldest, so that the newest
    have been read if a bound is reached.

    damaged   the paths of damaged files, with the number of values that had been read before the damage
    left_out  the number of files that were not read to their end, or not at all, because a bound was reached
    """

    def __init__(
        self,
        most_points: int = MAX_POINTS,
        most_of_all: int = MAX_TOTAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._series: ThinnedSeries[tuple[int, bytes]] = ThinnedSeries(most_points, most_of_all, _MOST_TAGS)
        self._files: list[EventFile] = []
        self._clock = clock
        self._deadline = clock() + MOST_SECONDS
        self._values_left = MOST_VALUES
        self._bytes_left = MOST_BYTES
        self._checks_left = _MOST_CHECKED
        self.damaged: dict[str, int] = {}
        self.left_out = 0

    def read(self, file: EventFile) -> None:
        """Read the scalars of an event file into the reader's series. A file that cannot be read has none. Never raises
        because of the content of the file."""
        self._files.append(file)
        if self._is_over(0):
            self.left_out += 1
            return
        try:
            with Descriptor(open_regular_file(file.path)) as descriptor:
                checked = min(CHECKED, self._checks_left, os.fstat(descriptor).st_size)
                self._checks_left -= checked
                self._read(file, EventRecords(descriptor, checked))
        except OSError:  # it was removed in the meantime, or its disk fails: the values read so far are kept
            return

    def _read(self, file: EventFile, records: EventRecords) -> None:
        declared: set[bytes] = set()
        count = 0
        try:
            for number, record in enumerate(records, 1):
                found = self._add(record, file, declared)
                count += found
                self._values_left -= found or 1
                if self._is_over(records.bytes_read, look=number % _LOOK_EVERY == 0):
                    self.left_out += 1
                    break
        except (DamagedFile, *PARSE_ERRORS):
            self.damaged[file.path] = count
        self._bytes_left -= records.bytes_read

    def _is_over(self, read: int, look: bool = True) -> bool:
        """Return whether the bound of values, bytes or time for all event files is reached after `read` bytes of the
        current file. The clock is checked only with `look`."""
        return self._values_left <= 0 or read >= self._bytes_left or (look and self._clock() > self._deadline)

    def _add(self, record: bytes, file: EventFile, declared: set[bytes]) -> int:
        """Add the scalars of one event record to the reader's series; return the number of values in the record.
        `declared` collects the tags of the file that are known to be scalars."""
        time, step, values = parse_event(record)
        if not math.isfinite(time):
            return 0
        for tag, is_scalar, number in values:
            name = tag[:_LONGEST_TAG]
            if is_scalar and len(declared) < _MOST_TAGS:
                declared.add(name)
            elif not is_scalar and name not in declared:
                continue
            self._series.add((len(self._files) - 1, name), (step, time, number, file.attempt))
        return len(values)

    def series(self) -> list[Series]:
        """Return the series of all event files that were read, sorted by name and place, at most MOST_SERIES. The
        points of each are in the order of attempts and then of time."""
        found: dict[tuple[str, str, int], list[Point]] = {}
        for (number, tag), values in sorted(self._series.items(), key=lambda item: item[0], reverse=True):
            file = self._files[number]
            rank = -1 if file.rank is None else file.rank
            found.setdefault((_name(tag), file.place, rank), []).extend(Point(*value) for value in values)
        return [
            Series(name, "tensorboard", None if rank < 0 else rank, tuple(sorted(points, key=_moment)), place)
            for (name, place, rank), points in sorted(found.items(), key=lambda item: item[0])[:MOST_SERIES]
        ]


def read_files(files: Iterable[EventFile]) -> ScalarReader:
    """Read the scalars of these event files in their order, which is from the newest to the oldest, and return the
    reader."""
    reader = ScalarReader()
    for file in files:
        reader.read(file)
    return reader


def _moment(point: Point) -> tuple[int, float]:
    return point.attempt, point.time


def _name(tag: bytes) -> str:
    return tag.decode("utf-8", "replace")[:_LONGEST_NAME]


def directory_name(path: str, root: str) -> str:
    """Return the name of a directory of TensorBoard files for `Series.place`: relative to the run directory `root` if
    it is inside, else the whole path."""
    inside = os.path.relpath(path, root)
    return path if inside.startswith(os.pardir) else inside

"""Scalars of event files, read into series.

The package tensorboard reads them, too. It is not used: it takes seconds to import and 60 MB with what it depends on,
and it is not made for files of somebody else, whose lengths and counts have no bound. Here memory, files, records and
bytes are bounded, and a damaged record ends the reading of its file alone.
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
"""Names of values, each counted once a file."""

MOST_VALUES = 5_000_000
"""Of all files together, which takes well below a minute; a record without values counts as one."""

MOST_BYTES = 2 << 30
_MOST_CHECKED = 32 << 20
MOST_SECONDS = 60.0
"""For all files together: bytes made for it can take a hundred times as long as what writers write."""

_LOOK_EVERY = 32
"""Records between two looks at the clock."""

_LONGEST_NAME = 300
_LONGEST_TAG = 4 * _LONGEST_NAME


class EventFile(NamedTuple):
    """`place`: as in Series."""

    path: str
    place: str
    rank: int | None = None
    attempt: int = 0


class ScalarReader:
    """Reads one file after the other, of which the later ones are older: where a bound is reached, what is newest was
    read.

    damaged   the paths of files in which something was damaged, with how many values had been read before
    left_out  how many files were not read to their end, or not at all, since the bounds were reached
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
        """Read the file's scalars; of one that cannot be read, none. Never raises for what is in it."""
        self._files.append(file)
        if self._is_over(0):
            self.left_out += 1
            return
        try:
            with Descriptor(open_regular_file(file.path)) as descriptor:
                checked = min(CHECKED, self._checks_left, os.fstat(descriptor).st_size)
                self._checks_left -= checked
                self._read(file, EventRecords(descriptor, checked))
        except OSError:  # it was removed in the meantime, or its disk fails: what was read until then is kept
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
        """Return whether a bound is reached, so many bytes of a file having been read. `look`: at the clock, too."""
        return self._values_left <= 0 or read >= self._bytes_left or (look and self._clock() > self._deadline)

    def _add(self, record: bytes, file: EventFile, declared: set[bytes]) -> int:
        """Keep the scalars of one record; return how many it has."""
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
        """Return the series, sorted by name and place, the points of each in the order of attempts and then of time."""
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
    """Read these files in their order, the newest first."""
    reader = ScalarReader()
    for file in files:
        reader.read(file)
    return reader


def _moment(point: Point) -> tuple[int, float]:
    return point.attempt, point.time


def _name(tag: bytes) -> str:
    return tag.decode("utf-8", "replace")[:_LONGEST_NAME]


def directory_name(path: str, root: str) -> str:
    """How a directory is called in `Series.place`: relative to the run where it is inside."""
    inside = os.path.relpath(path, root)
    return path if inside.startswith(os.pardir) else inside

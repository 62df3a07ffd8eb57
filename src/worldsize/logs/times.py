"""Times at which a rank's lines were written, from the file of times that an agent writes next to its log.

An entry contains the number of bytes that the log had at a time. So the time of a line is that of the first entry that
includes all of it. It is exact to the agent's interval, and never too early.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right

from worldsize.common.numbers import parse_digits
from worldsize.logs.reader import file_size, read_at
from worldsize.plan.run_paths import RunPaths

_BLOCK = 64 * 1024


class LogTimes:
    """The times of one log. They are read again when there are more. Damaged entries are left out."""

    def __init__(self, log: str, times: str) -> None:
        self._log = log
        self._path = times
        self._read = 0
        self._sizes: list[int] = []
        self._moments: list[float] = []

    def entry_after(self, offset: int) -> tuple[int | None, float]:
        """Return (size, time): the first recorded time at which the log had more than `offset` bytes, and its size
        then. So the byte at `offset` was written at or before this time. If there is no such entry, return None and the
        time of the log's last change."""
        if not self._sizes or self._sizes[-1] <= offset:
            self._update()
        at = bisect_right(self._sizes, offset)
        return (self._sizes[at], self._moments[at]) if at < len(self._sizes) else (None, self._changed())

    def offset_at(self, since: float) -> int:
        """Return the offset in bytes of the first line that was not in the log yet at the time `since` (Unix
        seconds)."""
        self._update()
        at = bisect_left(self._moments, since)
        if at == len(self._moments) and self._changed() < since:
            return file_size(self._log)
        return _line_start(self._log, self._sizes[at - 1]) if at else 0

    def _changed(self) -> float:
        try:
            return os.stat(self._log).st_mtime
        except OSError:
            return 0.0

    def _update(self) -> None:
        new = read_at(self._path, self._read, file_size(self._path) - self._read)
        whole = new[: new.rfind(b"\n") + 1]
        for line in whole.split(b"\n"):
            entry = _parse(line)
            if entry is None:
                continue
            if self._sizes and (entry[0] <= self._sizes[-1] or entry[1] < self._moments[-1]):
                self._sizes.clear()  # the log was emptied, or the clock was set back
                self._moments.clear()
            self._sizes.append(entry[0])
            self._moments.append(entry[1])
        self._read += len(whole)


def _parse(line: bytes) -> tuple[int, float] | None:
    size, _, moment = line.decode("ascii", "replace").partition(" ")
    number, (seconds, dot, _) = parse_digits(size), moment.partition(".")
    if number is None or not dot or parse_digits(seconds) is None:
        return None
    try:
        return number, float(moment)
    except ValueError:
        return None


def _line_start(log: str, offset: int) -> int:
    """Return the offset in bytes at which the line of the file `log` that contains the byte at `offset` begins; for a
    very long line, an offset inside it."""
    start = max(0, offset - _BLOCK)
    block = read_at(log, start, offset - start)
    return start + block.rfind(b"\n") + 1


def ranks_without_times(paths: RunPaths, ranks: list[int] | tuple[int, ...]) -> list[int]:
    """Return those of `ranks` whose logs contain output for which no times were recorded. An older worldsize recorded
    none."""
    return [
        rank for rank in ranks if not os.path.exists(paths.rank_times(rank)) and file_size(paths.rank_log(rank)) > 0
    ]

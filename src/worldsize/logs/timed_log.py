"""The log of a run with the time of each line. Lines of several ranks are in the order of their times."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.logs.merged_log import open_logs, read_size
from worldsize.logs.text import MORE
from worldsize.logs.times import LogTimes
from worldsize.plan.run_paths import RunPaths


class TimedLines(NamedTuple):
    """Lines that a rank wrote at or before `time`, in Unix seconds, and after the time of the lines before them."""

    time: float
    rank: int
    lines: list[str]


class TimedLogFollower:
    """Reader of the logs of the chosen ranks, which shows their lines with times, unfolded. Lines that are shown in one
    call are in the order of their times, and `show` receives them piece by piece. The other behaviour is that of
    `LogFollower`."""

    def __init__(
        self,
        paths: RunPaths,
        ranks: Sequence[int],
        grep: re.Pattern[str] | None,
        show: Callable[[TimedLines], None],
        now: Callable[[], float],
        *,
        tail: int | None = None,
        since: float | None = None,
    ) -> None:
        self._logs = open_logs(paths, ranks, tail, since)
        self._times = {rank: LogTimes(paths.rank_log(rank), paths.rank_times(rank)) for rank in ranks}
        self._grep = grep
        self._show = show
        self._now = now

    def poll(self) -> bool:
        """Read the new lines of the ranks' logs and pass them to `show` with their times. Return whether there were
        any."""
        return self._show_all([self._new_lines(rank) for rank in self._logs])

    def finish(self) -> None:
        """Pass all remaining lines of the ranks' logs to `show`, up to the last byte of every file. No method may be
        called after it."""
        self._show_all([self._last_lines(rank) for rank in self._logs])

    def _show_all(self, ranks: list[Iterator[TimedLines]]) -> bool:
        some = False
        for found in heapq.merge(*ranks, key=lambda lines: (lines.time, lines.rank)):
            some = True
            lines = self._wanted(found.lines)
            if lines:
                self._show(found._replace(lines=lines))
        return some

    def _new_lines(self, rank: int) -> Iterator[TimedLines]:
        log, times, limit = self._logs[rank], self._times[rank], read_size(len(self._logs))
        while True:
            before = log.offset
            size, moment = times.entry_after(before)
            lines = log.read(self._now(), limit if size is None else min(limit, size - before))
            if lines:
                yield TimedLines(moment, rank, lines)
            if log.offset == before:
                return

    def _last_lines(self, rank: int) -> Iterator[TimedLines]:
        yield from self._new_lines(rank)
        if lines := self._logs[rank].close():
            yield TimedLines(self._times[rank].entry_after(max(0, self._logs[rank].offset - 1))[1], rank, lines)

    def _wanted(self, lines: list[str]) -> list[str]:
        if self._grep is None:
            return lines
        find = self._grep.search
        return [line for line in [line.removesuffix(MORE) for line in lines] if find(line)]

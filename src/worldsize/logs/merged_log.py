"""The merged log of a run, as it is printed.

    0:1: text            node 0, rank 1
    ×8: text             all 8 ranks that are shown
    [0-2,5] ×4: text     these 4 ranks, out of more

A line that fewer than three ranks share (and not all) is printed once for each. The files contain no time stamps.
Within a rank the order is always the rank's own. Across ranks it is that of arrival while live, and by rank afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from worldsize.errors import UsageError
from worldsize.logs.align import LOOKAHEAD, Group
from worldsize.logs.fold import MODES, WINDOW, LineFolder
from worldsize.logs.reader import RankLog
from worldsize.logs.tail import tail_offset
from worldsize.logs.text import MORE, format_ranges
from worldsize.plan.plan import NodePlan
from worldsize.plan.run_paths import RunPaths

_RESET = "\x1b[0m"
_AT_ONCE = 8 << 20


def open_logs(
    paths: RunPaths, ranks: Sequence[int], tail: int | None, since: float | None = None
) -> dict[int, RankLog]:
    """Open the log of each of `ranks` and return the RankLogs by rank. Each begins at the rank's last `tail` lines, and
    not before the lines that the rank wrote from the time `since` (Unix seconds) on; at the beginning of the file if
    both are None."""
    found = ((rank, paths.rank_log(rank)) for rank in ranks)
    logs = {rank: RankLog(path, 0 if tail is None else tail_offset(path, tail)) for rank, path in found}
    if since is not None:
        from worldsize.logs.times import LogTimes

        for rank, log in logs.items():
            log.offset = max(log.offset, LogTimes(log.path, paths.rank_times(rank)).offset_at(since))
    return logs


def read_size(logs: int) -> int:
    """Return the number of bytes to read at once from each of `logs` rank logs, so that the total is limited."""
    return max(16 << 10, min(1 << 20, _AT_ONCE // max(logs, 1)))


class Printer:
    """Writer of groups with their prefixes, which continues the same line if a long line arrives in pieces.

    names  the prefix of a line of one rank alone (or of another source of lines)
    shown  number of ranks, or other sources, that write lines
    """

    def __init__(self, names: Mapping[int, str], shown: int, write: Callable[[str], object]) -> None:
        self._names = {rank: name + ": " for rank, name in names.items()}
        self._shown = shown
        self._write = write
        self._open: tuple[int, ...] | None = None
        self._prefixes = lru_cache(maxsize=4096)(self._make_prefixes)

    def _make_prefixes(self, ranks: tuple[int, ...]) -> tuple[str, ...]:
        """Return the prefixes of a log line that all of `ranks` wrote, one for each time that the line is printed: "×8:
        ", "[0-2,5] ×4: ", or the name of each rank if there are fewer than three."""
        if 1 < len(ranks) == self._shown:
            return (f"×{len(ranks)}: ",)
        if len(ranks) < 3:
            return tuple([self._names[rank] for rank in ranks])
        return (f"[{format_ranges(ranks)}] ×{len(ranks)}: ",)

    def show(self, groups: list[Group]) -> None:
        """Print the groups of ranks and log lines with their prefixes, with one write for all of them. An exception of
        the writer is passed to the caller."""
        texts: list[str] = []
        for ranks, lines in groups:
            prefixes = self._prefixes(ranks)
            text = "\n".join(lines)
            if self._open is None and len(prefixes) == 1 and "\x1b" not in text and MORE not in text:
                prefix = prefixes[0]
                texts.append(prefix + text.replace("\n", "\n" + prefix) + "\n")
            else:
                for line in lines:
                    self._show_rare(ranks, prefixes, line, texts)
        if texts:
            self._write("".join(texts))

    def _show_rare(self, ranks: tuple[int, ...], before: tuple[str, ...], line: str, texts: list[str]) -> None:
        goes_on = len(before) == 1 and line.endswith(MORE)
        line = line.removesuffix(MORE)
        if "\x1b" in line and not line.endswith(_RESET):
            line += _RESET
        if self._open is not None and self._open != ranks:
            texts.append("\n")
            self._open = None
        for prefix in before:
            texts.append((line if self._open else prefix + line) + ("" if goes_on else "\n"))
        self._open = ranks if goes_on else None


class LogFollower:
    """Reader of the logs of the chosen ranks, which prints them merged, folded and filtered.

    ranks  those to show, ascending; None: all
    fold   "same", "numbers", "off"; None: "same" if more than one rank is shown
    grep   only lines that match it; searched before folding, in each piece of a line longer than 64 KiB
    now    the clock, in seconds; never goes backwards
    tail   number of lines of each rank, from its end, to begin with
    since  time in Unix seconds; only lines written since then are shown
    live   False: the run has ended; only `finish` may be called, and its output depends on the files alone
    show   function that shows the output, groups of ranks and their lines, instead of a `Printer`

    The caller of `poll` must sleep between the calls; a call at least every 0.2 s while ranks write keeps the output
    fresh. `poll` and `finish` raise what `write` raises, such as BrokenPipeError, and StorageError if a log cannot be
    read.
    """

    def __init__(
        self,
        paths: RunPaths,
        nodes: Sequence[NodePlan],
        ranks: Sequence[int] | None,
        fold: str | None,
        grep: re.Pattern[str] | None,
        write: Callable[[str], object],
        now: Callable[[], float],
        *,
        tail: int | None = None,
        since: float | None = None,
        live: bool = True,
        show: Callable[[list[Group]], None] | None = None,
    ) -> None:
        if ranks is None:
            ranks = sorted([rank.rank for node in nodes for rank in node.ranks])
        if fold not in (None, *MODES):
            raise UsageError(f"fold is {fold!r}", hint=f"one of {', '.join(MODES)}")
        self._fold = fold or ("same" if len(ranks) > 1 else "off")
        self._folder = LineFolder(ranks, self._fold, WINDOW if live else None)
        names = {rank.rank: f"{node.node_rank}:{rank.rank}" for node in nodes for rank in node.ranks}
        self._show = show or Printer(names, len(ranks), write).show
        self._grep = grep
        self._now = now if live else lambda: 0.0
        self._logs = open_logs(paths, ranks, tail, since)

    def poll(self) -> bool:
        """Read a limited amount of new data from the ranks' logs, and show the lines that are due. Return whether there
        was new data."""
        now = self._now()
        limit = read_size(len(self._logs))
        new = False
        for rank, log in self._logs.items():
            before = log.offset
            self._push(rank, log.read(now, limit), now)
            new = new or log.offset != before
        self._show(self._folder.pop(now))
        return new

    def finish(self) -> None:
        """Show all remaining lines of the ranks' logs, up to the last byte of every file. No method may be called after
        it."""
        ranks = list(self._logs)
        if self._fold == "off":
            for rank in ranks:
                self._drain([rank])
        else:
            self._drain(ranks)
        self._show(self._folder.pop(self._now(), drain=True))

    def _drain(self, ranks: list[int]) -> None:
        limit = read_size(len(ranks))
        while ranks:
            now = self._now()
            for rank in ranks:
                log = self._logs[rank]
                if self._folder.pending_count(rank) >= LOOKAHEAD:
                    continue
                before = log.offset
                self._push(rank, log.read(now, limit), now)
                if log.offset == before:
                    self._close(rank, self._logs.pop(rank))
            ranks = [rank for rank in ranks if rank in self._logs]
            self._show(self._folder.pop(now))

    def _push(self, rank: int, lines: list[str], now: float) -> None:
        if self._grep is not None:
            find = self._grep.search
            lines = [line for line in [line.removesuffix(MORE) for line in lines] if find(line)]
        self._folder.push_lines(rank, lines, now)

    def _close(self, rank: int, log: RankLog) -> None:
        self._push(rank, log.close(), self._now())
        self._folder.close(rank)


class RawLogFollower:
    """Reader that passes on the ranks' bytes unchanged, without prefixes, in whole lines if there are several ranks."""

    def __init__(
        self,
        paths: RunPaths,
        ranks: Sequence[int],
        write: Callable[[bytes], object],
        tail: int | None = None,
        since: float | None = None,
    ):
        self._write = write
        self._logs = list(open_logs(paths, ranks, tail, since).values())
        self._kept = [b""] * len(self._logs)

    def poll(self) -> bool:
        """Read a limited amount of new data from the ranks' logs and pass it to `write` unchanged. Return whether there
        was any."""
        new = [self._pass_on(i) for i in range(len(self._logs))]
        return any(new)

    def finish(self) -> None:
        """Pass all remaining bytes of the ranks' logs to `write`, rank after rank."""
        for i in range(len(self._logs)):
            while self._pass_on(i):
                pass
            if self._kept[i]:
                self._write(self._kept[i])
                self._kept[i] = b""

    def _pass_on(self, i: int) -> bool:
        data = self._logs[i].read_bytes()
        if not data:
            return False
        if len(self._logs) > 1:
            lines, newline, rest = (self._kept[i] + data).rpartition(b"\n")
            if not newline and len(rest) < 1 << 20:
                self._kept[i] = rest
                return True
            data, self._kept[i] = (lines + newline, rest) if newline else (rest, b"")
        self._write(data)
        return True

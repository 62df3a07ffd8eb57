"""Folding: lines that all ranks say become one.

Pure: no I/O and no clock; whoever pushes says what time it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from worldsize.logs.align import LOOKAHEAD, Group, Lane, common_prefix, emit_equal, emit_gaps, find_common

WINDOW = 0.2
FLOOD = 32 << 20
"""Characters held back at most; above, everything is given out at once."""

MODES = ("same", "numbers", "off")


class LiveLane(Lane):
    """A rank's lane that is still being filled; knows when its lines came."""

    __slots__ = ("_arrivals", "_given", "closed")

    def __init__(self, rank: int, mode: str) -> None:
        lines: list[str] = []
        super().__init__(rank, [] if mode == "numbers" else lines, lines)
        self.closed = False
        self._given = 0
        self._arrivals: deque[tuple[int, float, int]] = deque()

    def push(self, lines: list[str], now: float) -> None:
        self.lines.extend(lines)
        if self.keys is not self.lines:
            from worldsize.logs.numbers import number_key

            self.keys.extend(map(number_key, lines))
        self._arrivals.append((self._given + self.lines_left, now, sum(map(len, lines))))

    def advance(self, count: int) -> None:
        self._given += count
        super().advance(count)
        while self._arrivals and self._arrivals[0][0] <= self._given:
            self._arrivals.popleft()

    def arrived_count(self, time: float) -> int:
        """Return how many of the lines left had come by then."""
        count = 0
        for end, arrival, _ in self._arrivals:
            if arrival > time:
                break
            count = end - self._given
        return count

    def held_characters(self) -> int:
        """Characters of the portions that were not wholly given out."""
        return sum([size for _, _, size in self._arrivals])


class LineFolder:
    """Takes the ranks' lines, gives out (ranks, lines): which ranks said them.

    mode    "same": equal lines fold; "numbers": also those that differ only in numbers, shown as `{min..max}`;
            "off": lines come out as they were pushed
    window  live: seconds for which a line waits for the other ranks to say it too.
            None: lines wait for as long as it takes (until the other ranks are `LOOKAHEAD` lines ahead, or closed);
            what comes out then depends on the ranks' lines alone, not on when and in which portions they came

    Each rank's lines come out in their order, each once. A rank that was closed is no longer waited for.
    """

    def __init__(self, ranks: Iterable[int], mode: str = "same", window: float | None = WINDOW) -> None:
        self._lanes = {rank: LiveLane(rank, mode) for rank in sorted(ranks)}
        self._mode = mode
        self._window = window
        self._out: list[Group] = []

    def push_lines(self, rank: int, lines: list[str], now: float) -> None:
        """Take lines that a rank wrote next; `now` must not go backwards."""
        if not lines:
            return
        if self._mode == "off":
            self._out.append(((rank,), lines))
        else:
            self._lanes[rank].push(lines, now)

    def close(self, rank: int) -> None:
        """Note that the rank will say no more."""
        self._lanes[rank].closed = True

    def pending_count(self, rank: int) -> int:
        """Lines of the rank that were not given out yet."""
        return self._lanes[rank].lines_left

    def pop(self, now: float, drain: bool = False) -> list[Group]:
        """Give out what can be given out now; with `drain` everything."""
        out, self._out = self._out, []
        if self._mode == "off":
            return out
        while lanes := [lane for lane in self._lanes.values() if lane.lines_left or not (lane.closed or drain)]:
            emit_equal(lanes, out)
            if any(not lane.lines_left and (lane.closed or drain) for lane in lanes):
                continue
            if not (self._emit_complete(lanes, drain, out) or self._expire(lanes, now, out)):
                break
        return out

    def _emit_complete(self, lanes: list[LiveLane], drain: bool, out: list[Group]) -> bool:
        """Gives out what will not find its like any more, as far as can be told without waiting."""
        if not all(lane.lines_left for lane in lanes):
            return False
        complete = drain or all(lane.closed or lane.lines_left >= LOOKAHEAD for lane in lanes)
        if self._window is None and not complete:
            return False
        gaps = find_common(lanes)
        if gaps is None and not complete:
            return False
        emit_gaps(lanes, gaps, out)
        return True

    def _expire(self, lanes: list[LiveLane], now: float, out: list[Group]) -> bool:
        """Gives out what waited long enough, and with it what others said of the same meanwhile."""
        if self._window is None:
            return False
        if sum([lane.held_characters() for lane in lanes]) > FLOOD:
            takes = [lane.lines_left for lane in lanes]
        else:
            takes = [lane.arrived_count(now - self._window) for lane in lanes]
        if not any(takes):
            return False
        longest: dict[str, list[str]] = {}
        for lane, take in zip(lanes, takes, strict=True):
            if take and take > len(longest.get(lane.keys[lane.pos], ())):
                longest[lane.keys[lane.pos]] = lane.next_keys(take)
        for i, lane in enumerate(lanes):
            said = longest.get(lane.keys[lane.pos]) if lane.lines_left else None
            if said is not None and takes[i] < len(said):
                takes[i] = max(takes[i], common_prefix(said, lane.next_keys(len(said))))
        emit_gaps(lanes, takes, out)
        return True

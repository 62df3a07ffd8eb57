"""Folding of lines: lines that all ranks write become one.

It is pure, without I/O and without a clock. The caller that pushes lines passes the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from worldsize.logs.align import LOOKAHEAD, Group, Lane, common_prefix, emit_equal, emit_gaps, find_common

WINDOW = 0.2
FLOOD = 32 << 20
"""Maximum number of characters that are held back. Above it, all lines are emitted at once."""

MODES = ("same", "numbers", "off")


class LiveLane(Lane):
    """A rank's lane that is still being filled, with the arrival times of its lines."""

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
        """Return how many of the rank's lines that were not emitted yet had arrived by `time`."""
        count = 0
        for end, arrival, _ in self._arrivals:
            if arrival > time:
                break
            count = end - self._given
        return count

    def held_characters(self) -> int:
        """Return the number of characters of the rank's lines that are held back, counting each pushed portion of lines
        in full until all of it was emitted."""
        return sum([size for _, _, size in self._arrivals])


class LineFolder:
    """Folder that receives the ranks' lines and returns groups (ranks, lines): the lines and the ranks that wrote them.

    mode    "same": equal lines are folded; "numbers": also those that differ only in numbers, shown as `{min..max}`;
            "off": lines are emitted as they were pushed
    window  for live logs: seconds that a line waits until the other ranks write it too.
            None: a line waits without limit (until the other ranks are `LOOKAHEAD` lines ahead, or closed);
            then the output depends on the ranks' lines alone, not on when and in which portions they arrived

    Each rank's lines are emitted in their order, each once. A closed rank is no longer waited for.
    """

    def __init__(self, ranks: Iterable[int], mode: str = "same", window: float | None = WINDOW) -> None:
        self._lanes = {rank: LiveLane(rank, mode) for rank in sorted(ranks)}
        self._mode = mode
        self._window = window
        self._out: list[Group] = []

    def push_lines(self, rank: int, lines: list[str], now: float) -> None:
        """Add the next lines of the log of rank `rank`, which arrived at the time `now`. `now` must not go
        backwards."""
        if not lines:
            return
        if self._mode == "off":
            self._out.append(((rank,), lines))
        else:
            self._lanes[rank].push(lines, now)

    def close(self, rank: int) -> None:
        """Record that rank `rank` will write no more lines, so that the lines of other ranks no longer wait for it."""
        self._lanes[rank].closed = True

    def pending_count(self, rank: int) -> int:
        """Return the number of log lines of rank `rank` that were pushed and not yet returned by `pop`."""
        return self._lanes[rank].lines_left

    def pop(self, now: float, drain: bool = False) -> list[Group]:
        """Return the groups of ranks and lines that can be emitted at the time `now`; with `drain`, those of all lines
        that were pushed."""
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
        """Append to `out` the lines of the `lanes` that can no longer match lines of other ranks, as far as that is
        known without waiting. Return whether there were any. With `drain`, no further lines are expected."""
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
        """Append to `out` the lines of the `lanes` that have waited longer than the window, together with the equal
        lines of other ranks that have arrived since. If too much text is held back, all lines are appended. Return
        whether there were any."""
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

"""Alignment of the lines of several ranks, so that lines that are equal on all of them are shown once.

It is a pure merge of queues. Each rank's lines keep their order, and every line is emitted exactly once per rank.
"""

from __future__ import annotations

from collections.abc import Sequence

LOOKAHEAD = 256
"""Number of lines of each rank that are searched for a line that all ranks have."""

BLOCK = 64
"""Number of lines of each rank that are emitted at a time if the ranks have nothing in common."""

Group = tuple[tuple[int, ...], list[str]]
"""Ranks, ascending, and the lines that each of them wrote, in order."""


class Lane:
    """Lines of one rank, emitted from `pos` on. `keys` decide which lines count as equal."""

    __slots__ = ("keys", "lines", "pos", "rank")

    def __init__(self, rank: int, keys: list[str], lines: list[str]) -> None:
        self.rank = rank
        self.keys = keys
        self.lines = lines
        self.pos = 0

    @property
    def lines_left(self) -> int:
        return len(self.keys) - self.pos

    def next_keys(self, count: int) -> list[str]:
        return self.keys[self.pos : self.pos + count]

    def part(self, count: int) -> Lane:
        """Return a new Lane of the same rank with the next `count` lines that were not emitted. This lane does not
        advance."""
        end = self.pos + count
        keys = self.keys[self.pos : end]
        return Lane(self.rank, keys, keys if self.lines is self.keys else self.lines[self.pos : end])

    def advance(self, count: int) -> None:
        self.pos += count
        if self.pos * 2 >= len(self.keys):
            if self.lines is not self.keys:
                del self.lines[: self.pos]
            del self.keys[: self.pos]
            self.pos = 0


def emit(lanes: Sequence[Lane], count: int, out: list[Group]) -> None:
    """Append one group to `out`: the ranks of all `lanes`, and their next `count` lines, whose keys must be equal in
    all of them. Advance the lanes by these lines."""
    ranks = tuple([lane.rank for lane in lanes])
    first = lanes[0]
    lines = first.lines[first.pos : first.pos + count]
    if len(lanes) > 1 and first.lines is not first.keys:
        from worldsize.logs.numbers import merge_lines

        rows = zip(*[lane.lines[lane.pos : lane.pos + count] for lane in lanes], strict=True)
        lines = [merge_lines(list(row)) for row in rows]
    out.append((ranks, lines))
    for lane in lanes:
        lane.advance(count)


def common_prefix(left: list[str], right: list[str]) -> int:
    if left == right:
        return len(left)
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def emit_equal(lanes: Sequence[Lane], out: list[Group]) -> None:
    """Append the next lines of the `lanes` to `out`, as groups of all their ranks, while the next line's key is equal
    in all of them. Advance the lanes."""
    size = 16
    while True:
        size = count = min(size, min([lane.lines_left for lane in lanes]))
        keys = lanes[0].next_keys(count)
        for lane in lanes[1:]:
            other = lane.next_keys(count)
            if other != keys:
                count = common_prefix(keys, other)
                del keys[count:]
        if count:
            emit(lanes, count, out)
        if count < size or not count:
            return
        size = 4096 if size > 1024 else size * 4


def find_common(lanes: Sequence[Lane]) -> list[int] | None:
    """Find the nearest line that all `lanes` have, and return how many lines of each lane precede it; None if there is
    none within `LOOKAHEAD` lines."""
    longest = max([lane.lines_left for lane in lanes])
    for window in (8, 64, LOOKAHEAD):
        common = set(lanes[0].next_keys(window))
        for lane in lanes[1:]:
            common.intersection_update(lane.next_keys(window))
            if not common:
                break
        if common:
            first = {next(key for key in lane.next_keys(window) if key in common): None for lane in lanes}
            gaps = [[lane.keys.index(key, lane.pos) - lane.pos for lane in lanes] for key in first]
            return min(gaps, key=max)
        if window >= longest:
            return None
    return None


def emit_by_rank(lanes: Sequence[Lane], out: list[Group]) -> None:
    """Append all remaining lines of the `lanes` to `out`, one group per rank. Ranks whose lines are all equal form one
    group. Advance the lanes."""
    same: dict[tuple[str, ...], list[Lane]] = {}
    for lane in lanes:
        same.setdefault(tuple(lane.next_keys(lane.lines_left)), []).append(lane)
    for group in same.values():
        emit(group, group[0].lines_left, out)


def emit_gaps(lanes: Sequence[Lane], gaps: list[int] | None, out: list[Group]) -> None:
    """Append the next `gaps[i]` lines of each lane, those before the line that all have in common (`find_common`), to
    `out`. If `gaps` is None, append a block of lines of each lane, or as many as the shortest lane has left. Advance
    the lanes."""
    if gaps is None:
        gaps = [min(BLOCK, min([lane.lines_left for lane in lanes]))] * len(lanes)
    parts = [lane.part(gap) for lane, gap in zip(lanes, gaps, strict=True) if gap]
    for lane, gap in zip(lanes, gaps, strict=True):
        lane.advance(gap)
    if len(parts) < len(lanes):
        merge(parts, out)
    else:
        emit_by_rank(parts, out)


def merge(lanes: Sequence[Lane], out: list[Group]) -> None:
    """Append all remaining lines of the `lanes` to `out` as groups of ranks and lines. Lines that are equal on several
    ranks are in one group."""
    while lanes := [lane for lane in lanes if lane.lines_left]:
        emit_equal(lanes, out)
        if all(lane.lines_left for lane in lanes):
            emit_gaps(lanes, find_common(lanes), out)

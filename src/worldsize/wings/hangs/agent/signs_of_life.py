"""For how long one node's ranks have given no sign of life: a line in a log, bytes that their processes have
moved, or a GPU that works.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worldsize.agent.supervision.standstill import Sample
from worldsize.wings.hangs.judgement.gpu_signs import GpuReading, GpuSigns
from worldsize.wings.hangs.judgement.watch import QUIET_BYTES_AT_START, NodeSigns

_LATE, _LATE_SECONDS = 3, 5.0
"""A sample is late when it comes after so many times the period, and so many seconds: the agent itself did not run, nor
perhaps the ranks."""


class SignsOfLife:
    """The signs of one node, by samples that are taken `every` so many seconds. What is unclear counts as a sign: a
    sample that comes late, a process that is new or gone."""

    def __init__(self, every: float, now: float) -> None:
        self._patience = max(_LATE * every, _LATE_SECONDS)
        self._last: Sample | None = None
        self._at = now
        self._gpus = GpuSigns()
        self._read_at = now
        self._idle_since: float | None = None

    def add(
        self, sample: Sample, ranks: Collection[int], gpus: Iterable[GpuReading] = (), is_asked: bool = False
    ) -> NodeSigns:
        """What the node tells of itself after this sample. `ranks`: those that live; `gpus`: readings of their GPUs;
        `is_asked`: ranks were asked for their stacks since the last sample, and writing these is no sign of life."""
        last, self._last = self._last, sample
        is_alive = last is not None and (last.logged != sample.logged or (not is_asked and has_moved(last, sample)))
        readings = tuple(gpus)
        works = self._gpus.add(readings, is_alive)
        if last is None or sample.at - last.at > self._patience or is_alive or works:
            self._at = sample.at
        idle = self._idle(readings, sample.at)
        return NodeSigns(sample.at - self._at, any(size > 0 for size in sample.logged), tuple(sorted(ranks)), idle)

    def _idle(self, readings: Collection[GpuReading], at: float) -> float:
        """For how long the GPUs have done nothing, by readings of which none is old."""
        if at - self._read_at > self._patience or (readings and not self._gpus.are_idle):
            self._idle_since = None
        if readings:
            self._read_at = at
            if self._gpus.are_idle and self._idle_since is None:
                self._idle_since = at
        return at - self._idle_since if self._idle_since is not None else 0.0


def has_moved(before: Sample, after: Sample) -> bool:
    """Return whether a process has moved more bytes than one that waits for the meeting of all, or is new or gone."""
    if before.work.keys() != after.work.keys():
        return True
    quiet = QUIET_BYTES_AT_START * (after.at - before.at)
    return any(not 0 <= work.moved - before.work[pid].moved <= quiet for pid, work in after.work.items())

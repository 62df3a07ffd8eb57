"""The time since one node's ranks have given a sign of life: a line in a log, bytes that their processes have moved, or
a GPU that works.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worldsize.agent.supervision.standstill import Sample
from worldsize.wings.hangs.judgement.gpu_signs import GpuReading, GpuSigns
from worldsize.wings.hangs.judgement.watch import QUIET_BYTES_AT_START, NodeSigns

_LATE, _LATE_SECONDS = 3, 5.0
"""The number of periods, and the number of seconds, after which a sample is late (the longer of the two). The agent
itself did not run then, nor perhaps the ranks."""


class SignsOfLife:
    """The signs of life of one node, from samples that are taken every `every` seconds. Unclear cases count as a sign:
    a late sample, a new process, an ended process."""

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
        """Return the node's signs of life after the sample `sample` of its logs and processes: among others the seconds
        of silence. `ranks` are those that are alive, `gpus` are readings of their GPUs. `is_asked` is true if stacks
        were requested from ranks since the last sample, since writing these is no sign of life."""
        last, self._last = self._last, sample
        is_alive = last is not None and (last.logged != sample.logged or (not is_asked and has_moved(last, sample)))
        readings = tuple(gpus)
        works = self._gpus.add(readings, is_alive)
        if last is None or sample.at - last.at > self._patience or is_alive or works:
            self._at = sample.at
        idle = self._idle(readings, sample.at)
        return NodeSigns(sample.at - self._at, any(size > 0 for size in sample.logged), tuple(sorted(ranks)), idle)

    def _idle(self, readings: Collection[GpuReading], at: float) -> float:
        """Return the seconds, at time `at`, for which the node's GPUs have been idle, according to recent readings. 0.0
        if they are not known to be idle."""
        if at - self._read_at > self._patience or (readings and not self._gpus.are_idle):
            self._idle_since = None
        if readings:
            self._read_at = at
            if self._gpus.are_idle and self._idle_since is None:
                self._idle_since = at
        return at - self._idle_since if self._idle_since is not None else 0.0


def has_moved(before: Sample, after: Sample) -> bool:
    """Return whether the node's processes have done more between two samples than wait for all ranks at the start: one
    of them has moved more bytes than such a process does, or is new or gone."""
    if before.work.keys() != after.work.keys():
        return True
    quiet = QUIET_BYTES_AT_START * (after.at - before.at)
    return any(not 0 <= work.moved - before.work[pid].moved <= quiet for pid, work in after.work.items())

"""The use of a node over the whole attempt, summed sample by sample.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.wings.metrics.agent.records import GpuSample, GpuUse, NodeSample, NodeUse

_BUSY = 0.01
"""The smallest share that counts as busy: NVML reports whole percents."""


class _Mean:
    """A mean over time. Each value is weighted by the seconds before it. `value` is None until a value with a positive
    time is added."""

    def __init__(self) -> None:
        self._sum = self._seconds = 0.0

    def add(self, value: float | None, seconds: float) -> None:
        if value is not None and seconds > 0:
            self._sum += value * seconds
            self._seconds += seconds

    @property
    def value(self) -> float | None:
        return self._sum / self._seconds if self._seconds else None


class _GpuTotals:
    def __init__(self) -> None:
        self._busy, self._power = _Mean(), _Mean()
        self._memory: int | None = None

    def add(self, sample: GpuSample, seconds: float) -> None:
        self._busy.add(sample.busy, seconds)
        self._power.add(sample.power, seconds)
        if sample.memory is not None:
            self._memory = max(sample.memory, self._memory or 0)

    def use(self, gpu: int, is_own: bool) -> GpuUse:
        busy, power = self._busy.value, self._power.value
        return GpuUse(gpu, _rounded(busy, 4), self._memory, _rounded(power, 1), is_own or None)


class UseTotals:
    """The totals of the resource use of one node over the attempt. `own` contains the numbers of the GPUs on which a
    process of a rank was seen."""

    def __init__(self, memory: int | None) -> None:
        """Start the totals of a node's resource use. `memory` is all memory in bytes that the node's ranks may use. It
        limits the result, because sums count a page several times if several processes share it."""
        self.own: set[int] = set()
        self._limit = memory
        self._gpus: dict[int, _GpuTotals] = {}
        self._samples = self._highest = 0
        self._before = 0.0
        self._first_busy: float | None = None
        self._last = NodeSample(0.0, ())

    def add(self, sample: NodeSample, elapsed: float) -> None:
        """Add a sample of the node to the totals. `elapsed` is the number of seconds since the ranks' start."""
        seconds, self._before = elapsed - self._before, elapsed
        self._samples += 1
        self._highest = max(self._highest, sum(rank.memory for rank in sample.ranks))
        self._last = sample
        self._add_gpus(sample.gpus, seconds, elapsed)

    def _add_gpus(self, gpus: Sequence[GpuSample], seconds: float, elapsed: float) -> None:
        for gpu in gpus:
            self._gpus.setdefault(gpu.gpu, _GpuTotals()).add(gpu, seconds)
            if self._first_busy is None and (gpu.busy or 0.0) >= _BUSY:
                self._first_busy = round(elapsed, 1)

    def use(self, seconds: float, cpu: float) -> NodeUse:
        """Return the total resource use of the node in the `seconds` of the attempt, from the samples added so far.
        `cpu` is the CPU time of its processes in seconds, as the kernel reported it when they ended."""
        last = self._last
        used: tuple[float | None, int | None] = (None, None)
        if last.ranks:
            sampled = sum(rank.cpu for rank in last.ranks)
            highest = self._highest if self._limit is None else min(self._highest, self._limit)
            used = round(max(cpu, sampled), 2), highest
        gpus = tuple(totals.use(gpu, gpu in self.own) for gpu, totals in sorted(self._gpus.items()))
        return NodeUse(round(seconds, 2), self._samples, *used, last.received, last.sent, gpus, self._first_busy)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)

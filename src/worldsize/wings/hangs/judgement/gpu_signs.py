"""Whether a GPU works, by readings of it: a sign of life of ranks that print nothing and read nothing.

That a kernel runs is none: ranks that wait in NCCL keep their GPUs 100 % busy, since its kernels ask again and again
whether the others have come. They do so within the GPU's caches, and touch its memory hardly ever: the one published
case had 0 % memory traffic, and 118 of 400 W (NVIDIA/nccl#2428). So a GPU works when there is traffic, and no
less traffic and power than a part of what it had while the run gave other signs of life. Power can only speak against
it: what NCCL takes while it waits, 30 to 50 % of the limit, is what a GPU whose power is capped takes for its work. The
clock says nothing, either way.

A wrong "works" would hide a hang, and a wrong "not" costs a look at the ranks. So what cannot be told is no sign: no
reading of traffic, a divided GPU, one that others compute on, too, and one with so little to do (a small model) that it
cannot be told from one that waits. There the ranks' stacks decide, as they do without GPUs. The limits were chosen by
what is published, not by measurements.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worldsize.common.named_tuple import NamedTuple

LEAST_TRAFFIC = 0.1
"""Of the time in which memory is read or written; of most trainings it is 0.3 and more. What draws a screen takes some
hundredths."""

LEAST_SHARE = 0.25
"""Of the highest traffic that the GPU had while the run gave other signs of life, and of the highest power."""


MOST_IDLE_TRAFFIC = 0.01
"""Of the time in which the memory of a GPU is read or written that only waits."""


class GpuReading(NamedTuple):
    """A GPU since the reading before. traffic: the share of the time in which its memory was read or written; power:
    watts; each None where nobody tells."""

    gpu: int
    traffic: float | None
    power: float | None


def works(reading: GpuReading, highest: GpuReading | None) -> bool:
    """Return whether the GPU works. `highest`: what it had while the run gave other signs of life; None where there is
    no such reading."""
    if reading.traffic is None or reading.traffic < LEAST_TRAFFIC:
        return False
    if highest is None:
        return True
    return _is_enough(reading.traffic, highest.traffic) and _is_enough(reading.power, highest.power)


def is_idle(reading: GpuReading, highest: GpuReading | None) -> bool:
    """Return whether the GPU has worked before, and does not any more. One that has always had little to do is none: it
    cannot be told from one that works."""
    has_worked = highest is not None and highest.traffic is not None and highest.traffic >= LEAST_TRAFFIC
    return has_worked and reading.traffic is not None and reading.traffic <= MOST_IDLE_TRAFFIC


def _is_enough(value: float | None, highest: float | None) -> bool:
    return value is None or highest is None or value >= LEAST_SHARE * highest


class GpuSigns:
    """The signs of life of one node's GPUs, reading by reading. `are_idle`: whether all GPUs of the last readings have
    worked before, and do not any more; None before there are any."""

    def __init__(self) -> None:
        self.are_idle: bool | None = None
        self._highest: dict[int, GpuReading] = {}

    def add(self, readings: Iterable[GpuReading], is_alive: bool) -> bool:
        """Return whether any of the GPUs works. `is_alive`: the ranks have given another sign of life meanwhile, so
        that these readings tell how high those of work are."""
        found = list(readings)
        if is_alive:
            for each in found:
                self._highest[each.gpu] = _higher(self._highest.get(each.gpu), each)
        if found:
            self.are_idle = all(is_idle(each, self._highest.get(each.gpu)) for each in found)
        return any(works(each, self._highest.get(each.gpu)) for each in found)


def _higher(known: GpuReading | None, reading: GpuReading) -> GpuReading:
    if known is None:
        return reading
    return GpuReading(reading.gpu, _highest(known.traffic, reading.traffic), _highest(known.power, reading.power))


def _highest(known: float | None, value: float | None) -> float | None:
    return max((each for each in (known, value) if each is not None), default=None)


def is_own(pids: Collection[int], own: Collection[int]) -> bool:
    """Return whether a GPU is the run's alone. `pids`: the processes that compute on it; `own`: those of the run's
    ranks here. What others do there is told together with what the ranks do, so a shared GPU tells nothing."""
    return bool(pids) and set(own).issuperset(pids)

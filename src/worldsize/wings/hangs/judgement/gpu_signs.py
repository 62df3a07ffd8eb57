"""The judgement of whether a GPU works, from readings of it. This is a sign of life of ranks that print nothing and
read nothing.

A running kernel is no sign: ranks that wait in NCCL keep their GPUs 100 % busy, since its kernels poll whether the
other ranks have come. They do so within the GPU's caches, and hardly access its memory: the one published case had 0 %
memory traffic, and 118 of 400 W (NVIDIA/nccl#2428). So a GPU works if there is traffic, and if traffic and power are at
least a certain share of their values while the run gave other signs of life. Power can only be evidence against work:
NCCL takes 30 to 50 % of the limit while it waits, and a GPU whose power is capped takes as much for its work. The clock
is no evidence in either direction.

A wrong "works" would hide a hang, and a wrong "not" costs a look at the ranks. So unclear cases are no sign of life: no
reading of traffic, a divided GPU, a GPU that others compute on as well, and a GPU with so little work (a small model)
that it cannot be distinguished from one that waits. The ranks' stacks decide in these cases, as they do without GPUs.
The limits were chosen from published values, not from measurements.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from worldsize.common.named_tuple import NamedTuple

LEAST_TRAFFIC = 0.1
"""The minimum share of the time in which memory is read or written. It is 0.3 and more in most trainings. Drawing a
screen takes some hundredths."""

LEAST_SHARE = 0.25
"""The minimum share of the highest traffic, and of the highest power, that the GPU had while the run gave other signs
of life."""


MOST_IDLE_TRAFFIC = 0.01
"""The maximum share of the time in which the memory of a GPU that only waits is read or written."""


class GpuReading(NamedTuple):
    """The reading of a GPU since the previous reading. `traffic` is the share of the time in which its memory was read
    or written. `power` is in watts. Each is None if unknown."""

    gpu: int
    traffic: float | None
    power: float | None


def works(reading: GpuReading, highest: GpuReading | None) -> bool:
    """Return whether a GPU works, according to its reading of memory traffic and power. `highest` holds the GPU's
    highest values while the run gave other signs of life; None if there is no such reading."""
    if reading.traffic is None or reading.traffic < LEAST_TRAFFIC:
        return False
    if highest is None:
        return True
    return _is_enough(reading.traffic, highest.traffic) and _is_enough(reading.power, highest.power)


def is_idle(reading: GpuReading, highest: GpuReading | None) -> bool:
    """Return whether a GPU has worked before, according to its `highest` values, and no longer does, according to its
    reading. False for a GPU that has always had little work, since it cannot be distinguished from one that works."""
    has_worked = highest is not None and highest.traffic is not None and highest.traffic >= LEAST_TRAFFIC
    return has_worked and reading.traffic is not None and reading.traffic <= MOST_IDLE_TRAFFIC


def _is_enough(value: float | None, highest: float | None) -> bool:
    return value is None or highest is None or value >= LEAST_SHARE * highest


class GpuSigns:
    """The signs of life of one node's GPUs, reading by reading. `are_idle` is true if all GPUs of the last readings
    have worked before, and no longer do; None before there are readings."""

    def __init__(self) -> None:
        self.are_idle: bool | None = None
        self._highest: dict[int, GpuReading] = {}

    def add(self, readings: Iterable[GpuReading], is_alive: bool) -> bool:
        """Record the readings of a node's GPUs, and return whether any of the GPUs works. `is_alive` is true if the
        ranks have given another sign of life meanwhile, so that these readings show the level of a GPU at work."""
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
    """Return whether only the run uses a GPU. `pids` are the processes that compute on it, `own` are those of the run's
    ranks on this node. Readings do not separate the processes, so those of a shared GPU show nothing."""
    return bool(pids) and set(own).issuperset(pids)

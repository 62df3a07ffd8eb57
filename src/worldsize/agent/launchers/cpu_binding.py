"""Equal sharing of a node's CPUs among its ranks. Each node computes the shares itself, because only the node knows
which CPUs it was given.

`equal_cpu_shares` is pure; `own_cpu_shares` reads what the kernel reports about the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits

_SYSTEM = "/sys/devices/system"


class CpuLocation(NamedTuple):
    """The location of a CPU: its NUMA node, its socket, and its physical core, which is named by the first of the
    core's CPUs."""

    numa: int
    socket: int
    core: int


def equal_cpu_shares(places: Mapping[int, CpuLocation], ranks: int) -> tuple[tuple[int, ...], ...]:
    """Divide a node's CPUs equally among its ranks. `places` maps each CPU to its location. Return a tuple of
    neighbouring CPU numbers for each rank, in order; an empty tuple if there are fewer CPUs than ranks.

    Physical cores are not divided if there is at least one for each rank. Cores or CPUs that do not divide evenly are
    left over between the shares, so that as few shares as possible extend over two NUMA nodes or sockets.
    """
    ordered = sorted(places, key=lambda cpu: (places[cpu], cpu))
    cores: dict[CpuLocation, list[int]] = {}
    for cpu in ordered:
        cores.setdefault(places[cpu], []).append(cpu)
    units = list(cores.values()) if len(cores) >= ranks else [[cpu] for cpu in ordered]
    size = len(units) // ranks
    if size == 0:
        return ()
    starts = (rank * len(units) // ranks for rank in range(ranks))
    return tuple(tuple(cpu for unit in units[start : start + size] for cpu in unit) for start in starts)


def own_cpu_shares(ranks: int, system: str = _SYSTEM) -> tuple[tuple[int, ...], ...]:
    """Return the CPU numbers of each of `ranks` ranks: equal shares of the CPUs that this process may use
    (`equal_cpu_shares`). The CPUs are ordered by number if the kernel does not report their locations."""
    return equal_cpu_shares(read_cpu_locations(os.sched_getaffinity(0), system), ranks)


def read_cpu_locations(cpus: Iterable[int], system: str = _SYSTEM) -> dict[int, CpuLocation]:
    """Return a dictionary from each of these CPU numbers to its location (NUMA node, socket and core), as the kernel
    reports it in the directory `system`."""
    numa = _numa_nodes(system)
    return {cpu: _cpu_location(cpu, numa.get(cpu, 0), f"{system}/cpu/cpu{cpu}/topology/") for cpu in cpus}


def _cpu_location(cpu: int, numa: int, topology: str) -> CpuLocation:
    siblings = _read_numbers(topology + "thread_siblings_list")
    socket = _read_numbers(topology + "physical_package_id")
    return CpuLocation(numa, socket[0] if socket else 0, siblings[0] if siblings else cpu)


def _numa_nodes(system: str) -> dict[int, int]:
    """Return a dictionary from CPU number to the number of its NUMA node, read from the kernel's directory `system`;
    empty if the kernel does not report NUMA nodes."""
    try:
        names = os.listdir(system + "/node")
    except OSError:
        return {}
    found = [parse_digits(name[4:]) for name in names if name.startswith("node")]
    numbers = [number for number in found if number is not None]
    return {cpu: number for number in numbers for cpu in _read_numbers(f"{system}/node/node{number}/cpulist")}


def _read_numbers(path: str) -> Sequence[int]:
    """Read a file of the kernel with a list of numbers and ranges, such as 0-3,64-67. Return all its numbers; none if
    the file is not a list or cannot be read."""
    found: list[int] = []
    for part in read_if_possible(path).decode("utf-8", "replace").strip().split(","):
        first, dash, last = part.partition("-")
        low, high = parse_digits(first), parse_digits(last if dash else first)
        if low is not None and high is not None:
            found += range(low, high + 1)
    return found

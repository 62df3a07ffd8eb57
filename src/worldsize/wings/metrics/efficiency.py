"""The efficiency of a run: how well it used the resources that it had, computed from its agents' samples. Pure: it uses
no file and no clock.

A figure that is not certain is None, and is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.metrics.agent.records import GpuUse, NodeUse, SamplesHeader

_LEAST_SAMPLES = 5
_LEAST_NODES = 0.5
_IDLE_MEMORY = 1 << 30
"""The most bytes of a GPU's memory that are in use if no process uses it: the driver reserves some hundred MiB."""
_LEAST_STARTING = 0.05
_MOST_CORES = 1e7
"""The largest plausible number of busy cores; a file with more is damaged."""


class Times(NamedTuple):
    """The times of an attempt, in Unix seconds.

    started  when the first of its agents began
    ended    when the attempt ended
    ranks    when the ranks of the first node had been started
    logged   when the lowest rank that logs did so at its first and at its second step
    """

    started: float
    ended: float
    ranks: float | None = None
    logged: tuple[float, float] | None = None


class NodeRecord(NamedTuple):
    """The first and the last record of one node's file of samples."""

    header: SamplesHeader
    use: NodeUse


class Held(NamedTuple):
    """The resources of its compute that a run had.

    nodes        the number of nodes on which it was started
    gpus         the number of GPUs of each node that a scheduler allocated to it exclusively; None without a scheduler
    one_machine  whether its nodes are virtual and share one machine
    """

    nodes: int
    gpus: int | None = None
    one_machine: bool = False


class Starting(NamedTuple):
    """The time from the first agent's start until something showed work. `until` is "logged_step", "gpu_busy" or
    "ranks"."""

    seconds: float
    until: str


class GpuFigures(NamedTuple):
    """The use of the GPUs of a run.

    gpus            the number of GPUs
    unused          the number of those that were idle in all samples, and whose memory was empty in all
    unused_on_each  the number of unused GPUs on each of several nodes; None if it differs, or for one node
    busy            the mean share of time in which the others were busy
    power           their mean power, in watts
    least, most     the lowest and the highest share of one of them
    """

    gpus: int
    unused: int
    unused_on_each: int | None = None
    busy: float | None = None
    power: float | None = None
    least: float | None = None
    most: float | None = None


class CpuFigures(NamedTuple):
    """The use of CPU cores: `used` is the average number of cores that the ranks kept busy; `cores` is the number that
    they might use, None if it is not known."""

    used: float
    cores: int | None


class MemoryFigures(NamedTuple):
    """The highest memory use of the ranks of one node, in bytes, on the node that came closest to its limit. `of` is
    the limit; None if it is not known."""

    highest: int
    of: int | None
    node: int


class Efficiency(NamedTuple):
    """The figures of one attempt. `known` is the number of nodes whose agents have left complete samples."""

    seconds: float
    nodes: int
    known: int
    starting: Starting | None
    gpus: GpuFigures | None
    cpu: CpuFigures | None
    memory: MemoryFigures | None


def measure_efficiency(held: Held, times: Times, records: Sequence[NodeRecord]) -> Efficiency | None:
    """Return the efficiency figures of an attempt (start time, GPUs, CPU cores, memory) from the resources that it
    `held`, its `times`, and the sample `records` of its nodes; None if fewer than half of the nodes have plausible
    records."""
    seconds = times.ended - times.started
    known = [record for record in records if _is_plausible(record, seconds)]
    if len(known) < max(1.0, _LEAST_NODES * held.nodes) or len(known) > held.nodes:
        return None
    gpus = _gpu_figures(held, known)
    starting = _starting(held, times, known, gpus)
    return Efficiency(
        seconds, held.nodes, len(known), starting, gpus, _cpu_figures(held, known), _memory_figures(held, known)
    )


def _is_plausible(record: NodeRecord, seconds: float) -> bool:
    """Return whether the record of a node is plausible: it has enough samples, no negative value, and a duration that
    fits into the `seconds` of the attempt."""
    use = record.use
    is_positive = (use.cpu or 0.0) >= 0.0 and (use.memory or 0) >= 0
    return use.samples >= _LEAST_SAMPLES and 0.0 < use.seconds <= seconds + 1.0 and is_positive


def _starting(held: Held, times: Times, known: Sequence[NodeRecord], gpus: GpuFigures | None) -> Starting | None:
    """Return the time from the attempt's start until the most reliable known sign of work (logged step, busy GPU, start
    of the ranks); None if there is no sign, or the time is too short to report."""
    whole = times.ended - times.started
    for until, at in _signs_of_work(held, times, known, gpus):
        if times.started <= at <= times.ended:
            seconds = at - times.started
            return Starting(seconds, until) if seconds >= _LEAST_STARTING * whole else None
    return None


def _signs_of_work(
    held: Held, times: Times, known: Sequence[NodeRecord], gpus: GpuFigures | None
) -> Iterable[tuple[str, float]]:
    if times.logged is not None:
        first, second = times.logged
        if 0.0 <= 2.0 * (second - first) <= first - times.started:  # rare logs: the first comes long after the start
            yield "logged_step", first
    if times.ranks is None:
        return
    busy = [record.use.first_busy for record in known if record.use.first_busy is not None]
    if busy and len(known) == held.nodes and gpus is not None and gpus.busy is not None:
        yield "gpu_busy", times.ranks + min(busy)
    yield "ranks", times.ranks


def _gpu_figures(held: Held, known: Sequence[NodeRecord]) -> GpuFigures | None:
    """Return the use of the GPUs of a run, from the records of its nodes; None if there are no GPUs, they are not the
    run's own, or it is not known of each whether it was used."""
    given = not held.one_machine and all(len(record.header.gpus) == held.gpus for record in known)
    if not given and not held.one_machine:
        return None
    nodes = [[(gpu.uuid, _use_of(record.use, gpu.gpu)) for gpu in record.header.gpus] for record in known]
    found: dict[str, list[GpuUse | None]] = {}
    for uuid, use in (each for node in nodes for each in node):
        found.setdefault(uuid, []).append(use)
    shared = sum(map(len, nodes)) != len(found)
    if not found or "" in found or (shared and given):
        return None
    unused = {uuid: _is_unused(uses) for uuid, uses in found.items()}
    if None in unused.values():
        return None
    used = [uses for uuid, uses in found.items() if not unused[uuid]]
    counts = {(len(node), sum(unused[uuid] is True for uuid, _ in node)) for node in nodes}
    on_each = None if shared or len(known) == 1 or len(counts) != 1 else next(iter(counts))[1]
    certain = given or all(any(use is not None and use.own for use in uses) for uses in used)
    counts_of_all = len(found), len(found) - len(used), on_each
    shares = [use.busy for uses in used for use in uses if use and use.busy is not None]
    if not certain or not shares:
        return GpuFigures(*counts_of_all)
    power = _mean([use.power for uses in used for use in uses if use])
    return GpuFigures(*counts_of_all, _mean(shares), power, min(shares), max(shares))


def _use_of(use: NodeUse, number: int) -> GpuUse | None:
    found = [gpu for gpu in use.gpus if gpu.gpu == number]
    return found[0] if len(found) == 1 else None


def _is_unused(uses: Sequence[GpuUse | None]) -> bool | None:
    """Return whether a GPU was unused, according to all agents that sampled it (`uses`, one for each agent); None if
    that is not known."""
    found = []
    for use in uses:
        if use is None or use.busy is None or use.memory is None or not 0.0 <= use.busy <= 1.0 or use.memory < 0:
            return None
        found.append(use.busy == 0.0 and use.memory <= _IDLE_MEMORY and not use.own)
    return all(found)


def _cpu_figures(held: Held, known: Sequence[NodeRecord]) -> CpuFigures | None:
    """Return the use of the CPU cores of all nodes of a run. The cores that virtual nodes share are counted once. None
    if a value is missing or implausible."""
    rates = [record.use.cpu / record.use.seconds for record in known if record.use.cpu is not None]
    if len(rates) < len(known):
        return None
    used = sum(rates)
    counts = [record.header.cores for record in known]
    if min(counts) < 1 or (not held.one_machine and _share_hosts(known)):
        return CpuFigures(used, None) if used <= _MOST_CORES else None
    cores = max(counts) if held.one_machine else sum(counts)
    return CpuFigures(min(used, cores), cores) if used <= 1.05 * cores else None


def _memory_figures(held: Held, known: Sequence[NodeRecord]) -> MemoryFigures | None:
    """Return the highest memory use of the ranks of one node, on the node that came closest to its limit; None if it is
    not known of a node, or exceeds the limit. Resident memory counts pages that ranks share once for each rank, so a
    sum above the limit is not meaningful."""
    rows = [(each.use.memory, each.header.memory or 0, each.header.node_rank) for each in known]
    found = [(memory, limit, node) for memory, limit, node in rows if memory is not None]
    if len(found) < len(known):
        return None
    limited = all(limit for _, limit, _ in found) and not held.one_machine and not _share_hosts(known)
    highest, limit, node = max(found, key=lambda row: row[0] / row[1] if limited else row[0])
    if limit and highest > limit:
        return None
    return MemoryFigures(highest, (limit or None) if limited or held.nodes == 1 else None, node)


def _share_hosts(known: Sequence[NodeRecord]) -> bool:
    return len({record.header.host for record in known}) < len(known)


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values; None if one of them is missing or negative, or there are none."""
    numbers = [value for value in values if value is not None and value >= 0.0]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None

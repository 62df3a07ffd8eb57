"""How well a run used what it held, worked out from what its agents have sampled. Pure: no file, no clock.

A figure that is not certain is None: nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.metrics.agent.records import GpuUse, NodeUse, SamplesHeader

_LEAST_SAMPLES = 5
_LEAST_NODES = 0.5
_IDLE_MEMORY = 1 << 30
"""Bytes of a GPU's memory that are in use at most where no process uses it: the driver reserves some hundred MiB."""
_LEAST_STARTING = 0.05
_MOST_CORES = 1e7
"""No run keeps more busy: a file that says so is damaged."""


class Times(NamedTuple):
    """Of an attempt, in Unix seconds.

    started   when the first of its agents began
    ranks     when the ranks of the first node had been started
    logged    when the lowest rank that logs did so at its first and its second step
    """

    started: float
    ended: float
    ranks: float | None = None
    logged: tuple[float, float] | None = None


class NodeRecord(NamedTuple):
    """What one node's file of samples begins and ends with."""

    header: SamplesHeader
    use: NodeUse


class Held(NamedTuple):
    """What a run has of its compute.

    nodes        that it was started on
    gpus         of each node, that a scheduler gave it, so that nobody else uses them; None where none did
    one_machine  whether its nodes are virtual, and share what the machine has
    """

    nodes: int
    gpus: int | None = None
    one_machine: bool = False


class Starting(NamedTuple):
    """Seconds from the first agent's start; `until`: "logged_step", "gpu_busy" or "ranks"."""

    seconds: float
    until: str


class GpuFigures(NamedTuple):
    """gpus      how many there are
    unused       those that were not busy in any sample, and whose memory was empty in all
    unused_on_each  how many these are on each of several nodes, where it is the same number
    busy         the mean share of time of the others
    power        their mean, in watts
    least, most  the lowest and the highest share of one of them
    """

    gpus: int
    unused: int
    unused_on_each: int | None = None
    busy: float | None = None
    power: float | None = None
    least: float | None = None
    most: float | None = None


class CpuFigures(NamedTuple):
    """Cores that the ranks kept busy on average, `used`, of those that they might use, where these are known."""

    used: float
    cores: int | None


class MemoryFigures(NamedTuple):
    """The highest of a node's ranks together in bytes, on the node that came closest to its limit, `of`."""

    highest: int
    of: int | None
    node: int


class Efficiency(NamedTuple):
    """The figures of one attempt. `known`: nodes whose agents have left their samples whole."""

    seconds: float
    nodes: int
    known: int
    starting: Starting | None
    gpus: GpuFigures | None
    cpu: CpuFigures | None
    memory: MemoryFigures | None


def measure_efficiency(held: Held, times: Times, records: Sequence[NodeRecord]) -> Efficiency | None:
    """Return the figures; None for an attempt of which too little is known."""
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
    """Return whether the node was sampled often enough, for as long as the attempt may have taken."""
    use = record.use
    is_positive = (use.cpu or 0.0) >= 0.0 and (use.memory or 0) >= 0
    return use.samples >= _LEAST_SAMPLES and 0.0 < use.seconds <= seconds + 1.0 and is_positive


def _starting(held: Held, times: Times, known: Sequence[NodeRecord], gpus: GpuFigures | None) -> Starting | None:
    """Return how long it took until something showed work: the best sign that there is, if the time is worth a word."""
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
        if 0.0 <= 2.0 * (second - first) <= first - times.started:  # a script that logs rarely does so long after
            yield "logged_step", first
    if times.ranks is None:
        return
    busy = [record.use.first_busy for record in known if record.use.first_busy is not None]
    if busy and len(known) == held.nodes and gpus is not None and gpus.busy is not None:
        yield "gpu_busy", times.ranks + min(busy)
    yield "ranks", times.ranks


def _gpu_figures(held: Held, known: Sequence[NodeRecord]) -> GpuFigures | None:
    """None where there are no GPUs, they are not the run's, or it cannot be told of each whether it was used."""
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
    """Return whether nobody used the GPU, as all who sampled it say; None where one cannot tell."""
    found = []
    for use in uses:
        if use is None or use.busy is None or use.memory is None or not 0.0 <= use.busy <= 1.0 or use.memory < 0:
            return None
        found.append(use.busy == 0.0 and use.memory <= _IDLE_MEMORY and not use.own)
    return all(found)


def _cpu_figures(held: Held, known: Sequence[NodeRecord]) -> CpuFigures | None:
    """Return the cores of all nodes; those of virtual nodes, which share them, once."""
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
    """Resident memory counts pages that ranks share once for each, so more than there is tells nothing."""
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
    """None where one is missing, or there is none."""
    numbers = [value for value in values if value is not None and value >= 0.0]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None

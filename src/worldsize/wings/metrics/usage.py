"""The figures of what nodes, GPUs and ranks have used, over an attempt, or over the part of it that has passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.agent.node_use import UseTotals
from worldsize.wings.metrics.agent.records import GpuFacts, GpuUse, NodeSample, NodeUse, RankSample
from worldsize.wings.metrics.run_files import sampled_nodes
from worldsize.wings.metrics.samples import NodeSamples, read_node_samples

_SAMPLES = 200
"""The number of samples of a node that are enough for means, and for figures that its agent has not computed yet."""


class GpuFigures(NamedTuple):
    """The figures of a GPU: `busy` is the mean share of time, `memory` the maximum in bytes, `power` the mean in
    watts."""

    gpu: int
    model: str
    busy: float | None
    memory: int | None
    memory_size: int | None
    power: float | None


class RankFigures(NamedTuple):
    """The figures of a rank: `cpus` is the mean number of busy CPUs, `memory` the maximum in bytes, `read` and
    `written` are the total bytes."""

    rank: int
    cpus: float | None
    memory: int
    read: int | None
    written: int | None


class NodeFigures(NamedTuple):
    """The figures of a node.

    seconds         how long the ranks have been sampled
    cpus            the mean number of busy CPUs, out of `cores`
    memory          the maximum of all ranks together, in bytes
    received, sent  the mean bytes per second, from the first sample on
    """

    node_rank: int
    host: str
    time: float
    seconds: float
    cpus: float | None
    cores: int
    memory: int | None
    memory_size: int | None
    received: float | None
    sent: float | None
    gpus: tuple[GpuFigures, ...]
    ranks: tuple[RankFigures, ...]


def run_figures(paths: RunPaths) -> list[NodeFigures]:
    """Return the figures of resource use of every node that has samples in the attempt of `paths`."""
    found = [(number, read_node_samples(paths, number, _SAMPLES)) for number in sampled_nodes(paths)]
    return [node_figures(number, node) for number, node in found if node is not None]


def node_figures(node_rank: int, node: NodeSamples) -> NodeFigures:
    """Return the figures of resource use of a node and its GPUs and ranks: those that the node's agent has computed at
    the end, or before the end those of its samples."""
    header, samples = node.header, node.samples
    use = node.use or _use_until_now(node)
    counted = samples[-1].time - samples[0].time if samples else 0.0
    return NodeFigures(
        node_rank, header.host, samples[-1].time if samples else header.time, max(use.seconds, 0.0),
        _rate(use.cpu, use.seconds), header.cores, use.memory if use.samples else None, header.memory,
        _rate(use.received, counted), _rate(use.sent, counted),
        _gpu_figures(header.gpus, use), _rank_figures(samples, header.time),
    )  # fmt: skip


def _use_until_now(node: NodeSamples) -> NodeUse:
    """Return the total use of a node that its agent will write at the end, as far as it follows from the samples so
    far."""
    totals, seconds = UseTotals(node.header.memory), 0.0
    for sample in node.samples:
        seconds = sample.time - node.header.time
        totals.add(sample, seconds)
    return totals.use(seconds, 0.0)


def _rate(count: float | None, seconds: float) -> float | None:
    return None if count is None or seconds <= 0 else max(count, 0.0) / seconds


def _gpu_figures(gpus: Sequence[GpuFacts], use: NodeUse) -> tuple[GpuFigures, ...]:
    used = {each.gpu: each for each in use.gpus}
    none = GpuUse(0, None, None, None)
    found = ((facts, used.get(facts.gpu, none)) for facts in gpus)
    return tuple(GpuFigures(gpu.gpu, gpu.model, of.busy, of.memory, gpu.memory, of.power) for gpu, of in found)


def _rank_figures(samples: Sequence[NodeSample], begun: float) -> tuple[RankFigures, ...]:
    """Return the figures of resource use of each rank in a node's samples, from the rank's last sample and its highest
    memory: a rank that ended early has no memory in later samples. `begun` is the time of the ranks' start."""
    last: dict[int, tuple[float, RankSample]] = {}
    highest: dict[int, int] = {}
    for sample in samples:
        for rank in sample.ranks:
            last[rank.rank] = sample.time, rank
            highest[rank.rank] = max(rank.memory, highest.get(rank.rank, 0))
    return tuple(
        RankFigures(number, _rate(rank.cpu, time - begun), highest[number], rank.read, rank.written)
        for number, (time, rank) in sorted(last.items())
    )
